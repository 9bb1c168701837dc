"""How often can an analyst's reply be used? Stored groups whose answers differ are shown to it once more.

python -m bench.proposals --groups labels=runs/mails/cache numbers=runs/sums/cache --base-url URL --model NAME
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from engine.experience.events import StepEvent
from engine.experience.library import ExperienceLibrary
from grpo_training import experience_extractor
from grpo_training.runs.folder import library_file

_ROLE = "generator_1"


def shares(cache: Path, words: Sequence[str], tau: float) -> tuple[int, int, Counter[str]]:
    """Groups that the analyst was asked about, those of which a lesson was saved, and why others were refused.

    Args:
        cache: with the rollouts of generator 1; nothing is written there.
        words: the endpoint.
        tau: a group differs above this standard deviation.
    """
    with tempfile.TemporaryDirectory(prefix="bench-proposals-") as name:
        folder = Path(name)
        (folder / "cache").mkdir()
        rollouts = f"{_ROLE}_rollouts.jsonl"
        (folder / "cache" / rollouts).write_bytes((cache / rollouts).read_bytes())
        places = ["--cache-dir", str(folder / "cache"), "--experiences-dir", str(folder / "experiences")]
        with contextlib.redirect_stdout(io.StringIO()) as output:
            code = experience_extractor.main([*places, "--role", _ROLE, "--tau", str(tau), *words])
        if code:
            raise SystemExit(output.getvalue())
        library = ExperienceLibrary(library_file(folder / "experiences", _ROLE), read_only=True)
        steps = [entry.event for entry in library.history() if isinstance(entry.event, StepEvent)]
    asked = [step for step in steps if step.std is not None and step.std > tau]
    saved = sum(any(operation.op == "add" for operation in step.operations) for step in asked)
    return len(asked), saved, Counter(refusal.reason for step in asked for refusal in step.refused)


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line for each kind of groups."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", nargs="+", required=True, metavar="KIND=CACHE")
    parser.add_argument("--tau", type=float, default=0.05)
    arguments, endpoint = parser.parse_known_args(argv)
    for pair in arguments.groups:
        kind, _, cache = pair.partition("=")
        asked, saved, refused = shares(Path(cache), endpoint, arguments.tau)
        why = ", ".join(f"{reason} {count}" for reason, count in refused.most_common())
        print(f"{kind:10} {saved} of {asked} ({saved / max(1, asked):.0%}) saved; refused: {why or 'none'}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
