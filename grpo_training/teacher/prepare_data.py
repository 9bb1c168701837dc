"""``python -m grpo_training.prepare_data``: MBPP and APPS, their references run, as ``train.jsonl`` and ``val.jsonl``.

Only the official train parts are read, so that figures on the official test parts stay comparable. A problem is in
the split that the hash of the seed and its id says, so that more problems never move others.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from grpo_training.cli.settings import WORKING_DIR, Settings, parse_settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from engine.records import Problem

_SHINGLE = 3  # words; statements of MBPP have about twelve
_MOST_IN_FLIGHT = 64


class PrepareSettings(Settings):
    """Settings of ``python -m grpo_training.prepare_data``."""

    apps_difficulty: Literal["all", "introductory", "interview", "competition"] = Field(
        "all", description="which problems of APPS"
    )
    skip_apps: bool = Field(False, description="MBPP only")
    output_dir: Path = Field(WORKING_DIR / "data", description="where train.jsonl, val.jsonl and data_report.json go")
    seed: int = Field(42, description="of the split")
    train_share: float = Field(0.8, gt=0, lt=1, description="share of the problems that is for training")
    public_tests: int = Field(1, ge=0, description="tests of an MBPP problem that its prompt shows")
    near_duplicate: float = Field(
        0.8,
        gt=0,
        le=1,
        description="a training problem this like a validation one (Jaccard of word triples) is dropped",
    )


@dataclass
class DropList:
    """Who was dropped, and why."""

    entries: list[dict[str, str]] = field(default_factory=list)

    def add(self, problem_id: str, reason: str, why: str) -> None:
        """Note one."""
        self.entries.append({"id": problem_id, "reason": reason, "why": why[:300]})

    @property
    def counts(self) -> dict[str, int]:
        """How many for each reason."""
        return dict(Counter(entry["reason"] for entry in self.entries).most_common())


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns the exit code.

    Raises:
        ScaffoldError: a data set is missing, or nothing can be run here.
    """
    settings = parse_settings(
        PrepareSettings,
        argv,
        prog="python -m grpo_training.prepare_data",
        description=(
            "Read the train parts of MBPP and APPS, keep the problems whose reference passes its tests and whose "
            "empty program does not, split them by hash, and report what was dropped and why."
        ),
    )
    drops = DropList()
    problems = _load(settings, drops)
    read = Counter(str(problem.meta["dataset"]) for problem in problems)
    passed = check_references(problems, drops)
    train, val = split(passed, settings.seed, settings.train_share)
    train = without_near_duplicates(train, val, settings.near_duplicate, drops)
    _write(settings, train, val, drops, read)
    return 0


def _load(settings: PrepareSettings, drops: DropList) -> list[Problem]:
    from tqdm import tqdm

    from engine.datasets import load_dataset
    from engine.errors import MissingInputError

    names = ["mbpp"]
    if not settings.skip_apps:
        names.append("apps" if settings.apps_difficulty == "all" else f"apps:{settings.apps_difficulty}")
    problems: list[Problem] = []
    for name in names:
        with tqdm(desc=f"reading {name}", unit=" rows", mininterval=0.5) as bar:
            try:
                found = load_dataset(f"{name}?public_tests={settings.public_tests}", row_read=bar.update)
            except MissingInputError as error:
                skip = " Or leave APPS out with --skip_apps." if name != "mbpp" else ""
                raise MissingInputError(error.what, why=error.why, fix=error.fix + skip) from None
        problems += found.problems
        for entry in found.dropped:
            drops.add(*entry)
    return problems


# ------------------------------------------------------------------ the references are run


def check_references(problems: Sequence[Problem], drops: DropList) -> list[Problem]:
    """The problems whose reference passes every test in half the time, and whose empty program does not.

    Raises:
        ConfigurationError: programs cannot be run here.
    """
    from concurrent.futures import ThreadPoolExecutor

    from tqdm import tqdm

    kept = []
    with (
        ThreadPoolExecutor(min(_MOST_IN_FLIGHT, 2 * (os.cpu_count() or 1))) as pool,
        tqdm(total=len(problems), desc="running references", unit=" problems", mininterval=0.5) as bar,
    ):
        try:
            for problem, fault in zip(problems, pool.map(_fault_of, problems), strict=True):
                bar.update()
                if fault is None:
                    kept.append(problem)
                else:
                    drops.add(problem.id, *fault)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    return kept


def _fault_of(problem: Problem) -> tuple[str, str] | None:
    """The reason code and the words why a problem cannot be used; None where it can."""
    from dataclasses import replace

    from engine.tasks.code.execution import limits_of
    from engine.tasks.code.problems import facts_of

    reference, limits = facts_of(problem).reference, limits_of(problem)
    if not reference:
        return "no_reference", "there is no reference program"
    report = _run(reference, problem, replace(limits, time_s=limits.time_s / 2, total_s=limits.total_s / 2))
    if not report.all_passed:
        status = next((str(each) for each in report.statuses if each != "pass"), str(report.outcome))
        return f"reference_{status}", f"its reference passes {report.passed} of {report.total} tests: {report.detail}"
    if _run(stub_of(problem), problem, limits).all_passed:
        return "stub_passes", "a program that does nothing passes its tests"
    return None


def _run(program: str, problem: Problem, limits: Any) -> Any:
    from engine.errors import ConfigurationError
    from engine.records import Outcome
    from engine.tasks.code.execution import run_program

    for _ in range(2):
        report = run_program(program, problem, stop_early=True, limits=limits)
        if report.outcome is not Outcome.INFRA_FAULT:
            return report
    raise ConfigurationError("Programs cannot be run here", why=report.detail[:300])


def stub_of(problem: Problem) -> str:
    """A program that defines what is asked for and does nothing."""
    from engine.tasks.code.problems import facts_of

    name, _, method = (facts_of(problem).entry_point or "").partition(".")
    if method:
        return f"class {name}:\n    def {method}(self, *args, **kwargs):\n        pass\n"
    return f"def {name}(*args, **kwargs):\n    pass\n" if name else "pass\n"


# ------------------------------------------------------------------ the split


def split(problems: Iterable[Problem], seed: int, train_share: float) -> tuple[list[Problem], list[Problem]]:
    """Training and validation problems: ``sha256("seed|id")`` as a number in [0, 1) is below the share, or not."""
    parts: tuple[list[Problem], list[Problem]] = [], []
    for problem in problems:
        digest = hashlib.sha256(f"{seed}|{problem.id}".encode()).digest()
        parts[int.from_bytes(digest[:8], "big") / 2**64 >= train_share].append(problem)
    return parts


def without_near_duplicates(
    train: Sequence[Problem], val: Sequence[Problem], threshold: float, drops: DropList
) -> list[Problem]:
    """The training problems whose statement is like no validation problem's.

    Two statements are alike where the Jaccard index of their sets of word triples reaches the threshold. Exact, and
    without comparing all pairs: two sets that are so alike share one of their rarest elements (prefix filter of
    Chaudhuri, Ganti, Kaushik 2006).
    """
    sets = {problem.id: _shingles(problem.text) for problem in (*train, *val)}
    frequency = Counter(shingle for shingles in sets.values() for shingle in shingles)

    def rarest(shingles: frozenset[str]) -> list[str]:
        ordered = sorted(shingles, key=lambda shingle: (frequency[shingle], shingle))
        return ordered[: len(ordered) - math.ceil(threshold * len(ordered) - 1e-9) + 1]

    index: dict[str, list[str]] = {}
    for problem in val:
        for shingle in rarest(sets[problem.id]):
            index.setdefault(shingle, []).append(problem.id)
    kept = []
    for problem in train:
        own = sets[problem.id]
        near = {other for shingle in rarest(own) for other in index.get(shingle, ())}
        alike = [other for other in sorted(near) if _jaccard(own, sets[other]) >= threshold]
        if alike:
            drops.add(problem.id, "near_duplicate", f"its statement is like that of {alike[0]} in val")
        else:
            kept.append(problem)
    return kept


def _shingles(text: str) -> frozenset[str]:
    words = re.findall(r"\w+", text.casefold())
    return frozenset(" ".join(words[at : at + _SHINGLE]) for at in range(max(1, len(words) - _SHINGLE + 1)))


def _jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other)


# ------------------------------------------------------------------ what is written


def _write(
    settings: PrepareSettings,
    train: Sequence[Problem],
    val: Sequence[Problem],
    drops: DropList,
    read: Mapping[str, int],
) -> None:
    from engine.errors import InputError
    from engine.storage.append_log import replace_file
    from engine.tasks.code.problems import row_of

    if not train or not val:
        raise InputError(f"Nothing to write: {len(train)} problems for training, {len(val)} for validation")
    settings.output_dir.mkdir(parents=True, exist_ok=True)
    for name, part in (("train", train), ("val", val)):
        lines = (json.dumps(row_of(problem), ensure_ascii=False) + "\n" for problem in part)
        replace_file(settings.output_dir / f"{name}.jsonl", "".join(lines).encode())
    report = {
        "settings": settings.model_dump(mode="json", exclude={"output_dir"}),
        "usable_rows": dict(read),
        "train": _figures(train),
        "val": _figures(val),
        "dropped": drops.counts,
        "dropped_problems": drops.entries,
    }
    replace_file(settings.output_dir / "data_report.json", (json.dumps(report, indent=2) + "\n").encode())
    print(f"train: {len(train)} problems   val: {len(val)} problems   dropped: {len(drops.entries)}")
    for reason, count in drops.counts.items():
        print(f"  {reason}: {count}")
    print(f"written to {settings.output_dir}")


def _figures(problems: Sequence[Problem]) -> dict[str, Any]:
    return {
        "problems": len(problems),
        "by_dataset": dict(Counter(str(problem.meta["dataset"]) for problem in problems)),
        "by_difficulty": dict(Counter(str(problem.meta["difficulty"] or "none") for problem in problems)),
        "tests_left_out": sum(int(problem.meta["tests_left_out"]) for problem in problems),
    }
