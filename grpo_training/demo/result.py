"""The report of the learning demo: accuracies, experiences by family, the most used experiences, results.json."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, TextIO

from engine.api_manager import GENERATORS
from engine.experience.state import LibraryState
from engine.records import Experience, Problem
from engine.statistics.group_sequential import LOOKS, GroupSequentialTest
from engine.statistics.paired import Estimate
from engine.storage.append_log import replace_file
from grpo_training.cli.tables import View
from grpo_training.evaluate.arms import Arm
from grpo_training.evaluate.figures import differences, figures
from grpo_training.evaluate.libraries import BASE, BASE_AGAIN, LIBRARIES, library_arm
from grpo_training.evaluate.tables import percent, percent_interval, points, points_interval
from grpo_training.gate.verdicts import sentence, verdict_of

_MOST_USED = 5


@dataclass(frozen=True)
class FamilyRow:
    """One family of problems.

    Args:
        family: its name.
        met: number of its training problems.
        lessons: learner -> experiences in the library that come from these problems.
        base, libraries: share of correct answers on its test problems; None without test problems.
    """

    family: str
    met: int
    lessons: dict[str, int]
    base: float | None
    libraries: float | None


def report(
    output: Path,
    settings: Mapping[str, Any],
    *,
    model: str,
    trained_on: Sequence[Problem],
    tested_on: Sequence[Problem],
    libraries: Mapping[str, LibraryState],
    arms: Sequence[Arm],
    seconds: Mapping[str, float],
    stream: TextIO,
) -> None:
    """Print all figures and write them to ``results.json``.

    Args:
        output: the demo's output folder.
        settings: the demo's settings as JSON values.
        model: name of the model.
        trained_on: the training problems, with their family in ``meta``.
        tested_on: the test problems.
        libraries: the libraries by learner.
        arms: the arms of the evaluation; the base is the first.
        seconds: duration of each stage.
        stream: where the tables are printed.
    """
    rows = family_rows(trained_on, tested_on, libraries, arms)
    families = _families(trained_on)
    view = View(stream)
    view.line("")
    show_arms(view, arms)
    view.line(verdict(arms))
    gates = gate_lines(arms)
    for line in gates:
        view.line(line)
    view.line("")
    _show_families(view, rows)
    view.table(
        "The most used experiences",
        ("id", "content", "from family", "in prompts of", "of them right"),
        [_experience_row(one, families) for one in most_used(libraries)],
    )
    path = output / "results.json"
    result = {
        "settings": dict(settings),
        "model": model,
        "seconds": dict(seconds),
        "arms": [arm_json(arm, arms[0]) for arm in arms],
        "verdict": verdict(arms),
        "gates": gates,
        "families": [asdict(row) for row in rows],
        "libraries": {
            name: {"version": state.version, "lessons": [one.model_dump(mode="json") for one in state.experiences]}
            for name, state in libraries.items()
        },
    }
    replace_file(path, (json.dumps(result, indent=2, ensure_ascii=False) + "\n").encode())
    view.line(f"{sum(seconds.values()):.0f} s in total. Figures: {path}")
    view.line(f"Experiences: python -m grpo_training.experiences --experiences-dir {output / 'experiences'}")


def show_arms(view: View, arms: Sequence[Arm]) -> None:
    """The table of arms: accuracy, and the difference to the first arm."""
    view.table(
        f"On {len(arms[0].results)} held-out problems (95 % intervals, clustered by problem)",
        ("arm", "right", "95 % interval", "points over base (95 % interval)", "problems", "left out"),
        [_arm_row(arm, arms[0]) for arm in arms],
    )


def verdict(arms: Sequence[Arm]) -> str:
    """Whether the gain of the libraries is larger than chance, in a sentence."""
    by_name = {arm.name: arm for arm in arms}
    gain, noise = (differences(by_name[name], by_name[BASE]).get(1) for name in (LIBRARIES, BASE_AGAIN))
    if gain is None or gain.low is None:
        return "Too few problems were answered to tell whether the libraries help."
    if not gain.excludes_zero:
        text = f"The gain may be due to chance: the libraries make {_points_text(gain)}, and the interval includes 0."
    elif gain.value > 0:
        text = f"The libraries help: {_points_text(gain)}, and the interval excludes 0."
    else:
        text = f"The libraries do harm: {_points_text(gain)}, and the interval excludes 0."
    return text if noise is None else f"{text} For comparison, the base against itself: {_points_text(noise)}."


def gate_lines(arms: Sequence[Arm]) -> list[str]:
    """The verdict of the gate on each library, from the answers of the evaluation."""
    base = {one.problem_id: one for one in arms[0].complete}
    lines = []
    for arm in arms:
        results = [(one, base[one.problem_id]) for one in arm.complete if one.problem_id in base]
        if arm.name not in map(library_arm, GENERATORS) or len(results) < 2 * LOOKS:
            continue
        samples = len(results[0][0].verdicts)
        gains = [fmean(map(bool, one.verdicts)) - fmean(map(bool, other.verdicts)) for one, other in results]
        finding = GroupSequentialTest(len(results), samples).finding(gains)
        assert finding is not None
        said = sentence(verdict_of(finding), finding.mean, finding.low, finding.high)
        lines.append(f"Gate, {arm.name}: {said} after {finding.problems} of {len(results)} problems.")
    return lines


def family_rows(
    trained_on: Sequence[Problem],
    tested_on: Sequence[Problem],
    libraries: Mapping[str, LibraryState],
    arms: Sequence[Arm],
) -> list[FamilyRow]:
    """The families of the training problems. An experience belongs to the family of its source problem."""
    family_of = _families(trained_on)
    learned = {
        name: Counter(family_of.get(one.source_problem) for one in state.experiences)
        for name, state in libraries.items()
    }
    shares = {arm.name: _shares_by_family(arm, tested_on) for arm in arms}
    return [
        FamilyRow(
            family,
            met,
            {name: counts[family] for name, counts in learned.items()},
            shares[BASE].get(family),
            shares[LIBRARIES].get(family),
        )
        for family, met in sorted(Counter(family_of.values()).items())
    ]


def most_used(libraries: Mapping[str, LibraryState]) -> list[Experience]:
    """The experiences of all libraries that were in the prompts of most rollouts."""
    experiences = [one for state in libraries.values() for one in state.experiences]
    return sorted(experiences, key=lambda one: (-one.uses.rollouts, one.id))[:_MOST_USED]


def arm_json(arm: Arm, base: Arm) -> dict[str, Any]:
    """An arm's figures and verdicts as JSON values."""
    accuracy, difference = figures(arm).mean_at_n, _difference(arm, base)
    return {
        "name": arm.name,
        "accuracy": accuracy and asdict(accuracy),
        "difference_to_base": difference and asdict(difference),
        "problems": len(arm.complete),
        "left_out": list(arm.left_out),
        "verdicts": {one.problem_id: [int(bool(verdict)) for verdict in one.verdicts] for one in arm.complete},
    }


def _families(problems: Sequence[Problem]) -> dict[str, str]:
    """Problem id -> family; in a dataset without families, the name of the task."""
    return {problem.id: str(problem.meta.get("family", problem.task)) for problem in problems}


def _shares_by_family(arm: Arm, problems: Sequence[Problem]) -> dict[str, float]:
    """Family -> share of correct samples, over the complete problems."""
    family_of = _families(problems)
    verdicts: dict[str, list[bool]] = {}
    for result in arm.complete:
        verdicts.setdefault(family_of[result.problem_id], []).extend(map(bool, result.verdicts))
    return {family: sum(own) / len(own) for family, own in verdicts.items() if own}


def _difference(arm: Arm, base: Arm) -> Estimate | None:
    return None if arm is base else differences(arm, base).get(1)


def _show_families(view: View, rows: Sequence[FamilyRow]) -> None:
    names = list(rows[0].lessons) if rows else []
    view.table(
        "Experiences by family",
        ("family", "problems", *names, "right: base", "right: libraries"),
        [
            (
                row.family,
                str(row.met),
                *(str(row.lessons[name] or "-") for name in names),
                percent(row.base),
                percent(row.libraries),
            )
            for row in rows
        ],
    )
    for name in names:
        covered = sum(row.lessons[name] > 0 for row in rows)
        view.line(f"{name}: experiences for {covered} of the {len(rows)} families")
    covered = sum(any(row.lessons[name] for name in names) for row in rows)
    view.line(f"together: experiences for {covered} of the {len(rows)} families")
    view.line("")


def _arm_row(arm: Arm, base: Arm) -> tuple[str, ...]:
    accuracy, difference = figures(arm).mean_at_n, _difference(arm, base)
    return (
        arm.name,
        percent(accuracy.value if accuracy else None),
        percent_interval(accuracy),
        "-" if difference is None else f"{points(difference)} ({points_interval(difference)})",
        str(len(arm.complete)),
        str(len(arm.left_out) or "-"),
    )


def _experience_row(one: Experience, family_of: Mapping[str, str]) -> tuple[str, ...]:
    right = percent(one.uses.correct / one.uses.rollouts if one.uses.rollouts else None)
    family = family_of.get(one.source_problem, "-")
    return one.id, one.content, family, f"{one.uses.rollouts} rollouts", right


def _points_text(estimate: Estimate) -> str:
    return f"{points(estimate)} points (95 % interval {points_interval(estimate)})"
