"""What the demo shows at its end: accuracies, the libraries by family, the most used lessons, and all as JSON."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from engine.storage.append_log import replace_file
from grpo_training.evaluation.libraries import BASE, LIBRARIES, figures, verdict
from grpo_training.libraries.tables import View

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TextIO

    from engine.experience.state import LibraryState
    from engine.records import Experience, Problem
    from engine.statistics.paired import Estimate
    from grpo_training.demos.learning import DemoSettings
    from grpo_training.evaluation.libraries import Arm, ArmFigures

_MOST_USED = 5


@dataclass(frozen=True)
class FamilyRow:
    """One family of problems.

    Args:
        family: its name.
        met: how many of its problems were trained on.
        lessons: learner -> lessons that came from its problems and are in the library now.
        base, libraries: the share of right answers on its test problems; None where there is none.
    """

    family: str
    met: int
    lessons: dict[str, int]
    base: float | None
    libraries: float | None


def report(
    settings: DemoSettings,
    *,
    model: str,
    trained_on: Sequence[Problem],
    tested_on: Sequence[Problem],
    libraries: Mapping[str, LibraryState],
    arms: Sequence[Arm],
    seconds: Mapping[str, float],
    stream: TextIO,
) -> None:
    """Show all figures and keep them in ``results.json`` of the output folder.

    Args:
        settings: the demo's.
        model: the model's name.
        trained_on: the training problems; ``meta`` names their family.
        tested_on: the test problems.
        libraries: the libraries by learner.
        arms: the evaluation; the base first.
        seconds: the time that each stage took.
        stream: where to show.
    """
    told, rows = figures(arms), family_rows(trained_on, tested_on, libraries, arms)
    lessons = most_used(libraries)
    view = View(stream)
    view.line("")
    show_arms(view, told, len(tested_on))
    view.line(verdict(told))
    view.line("")
    _show_families(view, rows)
    view.table(
        "The most used lessons",
        ("id", "content", "from family", "in prompts of", "of them right"),
        [_lesson_row(one, _families(trained_on)) for one in lessons],
    )
    path = settings.output / "results.json"
    result = {
        "settings": settings.model_dump(mode="json"),
        "model": model,
        "seconds": dict(seconds),
        "arms": [arm_json(one) for one in told],
        "verdict": verdict(told),
        "families": [asdict(row) for row in rows],
        "libraries": {
            name: {"version": state.version, "lessons": [one.model_dump(mode="json") for one in state.experiences]}
            for name, state in libraries.items()
        },
    }
    replace_file(path, (json.dumps(result, indent=2, ensure_ascii=False) + "\n").encode())
    whole = sum(seconds.values())
    view.line(f"{whole:.0f} s in all. Figures: {path}")
    experiences = settings.output / "experiences"
    view.line(f"Lessons: python -m grpo_training.experiences --experiences-dir {experiences}")


def show_arms(view: View, told: Sequence[ArmFigures], problems: int) -> None:
    """The table of arms: accuracy, and the difference to the first one.

    Args:
        view: where to show.
        told: the arms; the base first.
        problems: how many problems they were asked.
    """
    view.table(
        f"On {problems} problems that nobody trained on (95 % intervals, clustered by problem)",
        ("arm", "right", "95 % interval", "points over base (95 % interval)", "problems", "left out"),
        [_arm_row(one) for one in told],
    )


def family_rows(
    trained_on: Sequence[Problem],
    tested_on: Sequence[Problem],
    libraries: Mapping[str, LibraryState],
    arms: Sequence[Arm],
) -> list[FamilyRow]:
    """The families that were met, by name. A lesson belongs to the family of the problem that it came from."""
    family_of = _families(trained_on)
    learned = {
        name: Counter(family_of.get(one.source_problem) for one in state.experiences)
        for name, state in libraries.items()
    }
    by_name = {arm.name: _by_family(arm, tested_on) for arm in arms}
    return [
        FamilyRow(
            family,
            met,
            {name: counts[family] for name, counts in learned.items()},
            by_name[BASE].get(family),
            by_name[LIBRARIES].get(family),
        )
        for family, met in sorted(Counter(family_of.values()).items())
    ]


def most_used(libraries: Mapping[str, LibraryState]) -> list[Experience]:
    """The lessons that stood in the prompts of most rollouts, of all libraries."""
    lessons = [one for state in libraries.values() for one in state.experiences]
    return sorted(lessons, key=lambda one: (-one.uses.rollouts, one.id))[:_MOST_USED]


def _families(problems: Sequence[Problem]) -> dict[str, str]:
    """Problem id -> family; a dataset without families is one family."""
    return {problem.id: str(problem.meta.get("family", problem.task)) for problem in problems}


def _by_family(arm: Arm, problems: Sequence[Problem]) -> dict[str, float]:
    verdicts: dict[str, list[bool]] = {}
    for problem_id, family in _families(problems).items():
        verdicts.setdefault(family, []).extend(arm.verdicts.get(problem_id, ()))
    return {family: sum(of_family) / len(of_family) for family, of_family in verdicts.items() if of_family}


# ------------------------------------------------------------------ words


def _show_families(view: View, rows: Sequence[FamilyRow]) -> None:
    names = list(rows[0].lessons) if rows else []
    view.table(
        "Lessons by family",
        ("family", "met", *names, "right: base", "right: libraries"),
        [
            (
                row.family,
                str(row.met),
                *(str(row.lessons[name] or "-") for name in names),
                _share(row.base),
                _share(row.libraries),
            )
            for row in rows
        ],
    )
    for name in names:
        having = sum(row.lessons[name] > 0 for row in rows)
        view.line(f"{name}: lessons for {having} of the {len(rows)} families met")
    having = sum(any(row.lessons[name] for name in names) for row in rows)
    view.line(f"together: lessons for {having} of the {len(rows)} families met")
    view.line("")


def _arm_row(one: ArmFigures) -> tuple[str, ...]:
    accuracy = one.accuracy
    return (
        one.arm.name,
        _share(accuracy.value if accuracy else None),
        "-" if accuracy is None else _interval(accuracy),
        "-" if one.difference is None else _points(one.difference),
        str(len(one.arm.verdicts)),
        str(len(one.arm.left_out) or "-"),
    )


def _interval(accuracy: Estimate) -> str:
    """A share's interval; what a t interval has beyond 0 and 1 is cut off."""
    if accuracy.low is None or accuracy.high is None:
        return "-"
    return f"{max(0.0, accuracy.low):.1%} to {min(1.0, accuracy.high):.1%}"


def _points(difference: Estimate) -> str:
    value = f"{100 * difference.value:+.1f}"
    if difference.low is None or difference.high is None:
        return value
    return f"{value} ({100 * difference.low:+.1f} to {100 * difference.high:+.1f})"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _lesson_row(one: Experience, family_of: Mapping[str, str]) -> tuple[str, ...]:
    right = _share(one.uses.correct / one.uses.rollouts) if one.uses.rollouts else "-"
    family = family_of.get(one.source_problem, "-")
    return one.id, one.content, family, f"{one.uses.rollouts} rollouts", right


def arm_json(one: ArmFigures) -> dict[str, Any]:
    """An arm's figures and verdicts as JSON values."""
    return {
        "name": one.arm.name,
        "accuracy": one.accuracy and asdict(one.accuracy),
        "difference_to_base": one.difference and asdict(one.difference),
        "problems": len(one.arm.verdicts),
        "left_out": list(one.arm.left_out),
        "verdicts": {name: [int(item) for item in verdicts] for name, verdicts in one.arm.verdicts.items()},
    }
