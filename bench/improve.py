"""Is the verdict of ``improve`` true? Runs of the command against a server whose experiences help, do nothing or harm.

python -m bench.improve --seeds 20 --problems 40
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from unittest.mock import patch

from grpo_training.improve import __main__ as improve
from grpo_training.runs import folder as run_folders
from tests.support.fault_server import chat_app, serve_in_thread
from tests.support.planted_answers import KINDS, PlantedServer

_EFFECTS = {"helps": 0.30, "does nothing": 0.0, "harms": -0.30}
"""Of an experience on the chance of a right answer to problems of its family, a third of all."""


def verdict(kind: str, effect: float, seed: int, problems: int) -> tuple[str, float, float]:
    """The verdict of one run, the gain that it found, and the seconds that it took."""
    server = PlantedServer(kind, effect, seed)
    with tempfile.TemporaryDirectory(prefix="bench-improve-") as name, serve_in_thread(chat_app(server.reply)) as url:
        folder = Path(name)
        rows = server.rows(range(problems))
        (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        entry = {"api_key": "EMPTY", "base_url": url, "model": "m", "max_concurrency": 32}
        roles = {
            "default": entry,
            "analyst": entry | {"model": "analyst"},
            "reward_evaluator": entry | {"model": "judge"},
        }
        (folder / "api.json").write_text(json.dumps(roles))
        words = ["--dataset", folder / "rows.jsonl", "--api-config", folder / "api.json", "--seed", seed]
        started = time.monotonic()
        with contextlib.redirect_stdout(io.StringIO()), patch.object(run_folders, "WORKING_DIR", folder):
            improve.main([str(word) for word in words])
        seconds = time.monotonic() - started
        [result] = (json.loads(path.read_text()) for path in folder.glob("runs/*/improved/result.json"))
    gain = 0.0 if result["gate"] is None else result["gate"]["mean"]
    return result["verdict"], gain, seconds


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--problems", type=int, default=40)
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=list(KINDS))
    arguments = parser.parse_args(argv)
    for kind in arguments.kinds:
        for name, effect in _EFFECTS.items():
            runs = [verdict(kind, effect, seed, arguments.problems) for seed in range(arguments.seeds)]
            counts = Counter(outcome for outcome, _, _ in runs)
            shown = ", ".join(f"{outcome} {count}" for outcome, count in counts.most_common())
            gain, seconds = fmean(difference for _, difference, _ in runs), fmean(duration for _, _, duration in runs)
            print(f"{kind:7} {name:13} {shown}; mean difference {gain:+.1%}, {seconds:.0f} s a run", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
