"""Experiences and history entries as text for tables."""

from __future__ import annotations

from engine.experience.log import HistoryEntry
from engine.experience.trial import Trials
from engine.records import Experience


def uses(experience: Experience) -> tuple[str, str]:
    """How many rollouts had the experience in their prompt, and the share of them that is right."""
    counts = experience.uses
    return str(counts.rollouts), f"{100 * counts.correct / counts.rollouts:.0f} %" if counts.rollouts else "-"


def measured(experience: Experience, trials: Trials) -> tuple[str, str, str, str]:
    """Effect in points, its 95 % interval, the probability that it helps, and the number of groups; or dashes."""
    interval = trials.interval(experience.id)
    if interval is None:
        return "-", "-", "-", "0"
    mean, low, high = map(points, interval)
    p_helps, groups = trials.belief(experience).p_helps, trials.of(experience.id).differences
    return mean, f"{low} to {high}", f"{p_helps:.2f}", str(groups)


def points(share: float) -> str:
    """A difference of shares in points."""
    return f"{100 * share:+z.0f}"


def number(value: float | None) -> str:
    """A figure with three digits, or a dash."""
    return "-" if value is None else f"{value:.3f}"


def origin(entry: HistoryEntry) -> str:
    """What caused a change: a step of a run, a person, a gate, or another content of the file."""
    event = entry.event
    if event.event == "step":
        return f"{event.run} step {event.step}: {event.problem_id} μ={number(event.mean)} σ={number(event.std)}"
    if event.event == "begin":
        return f"{event.run} begins"
    if event.event == "import":
        return event.origin
    return {"edit": "a person", "gate": "the gate"}[event.event]


def change_of(entry: HistoryEntry, experience_id: str) -> tuple[str, str] | None:
    """What an entry did to an experience, and its content afterwards; None if it only counted a use."""
    before, after = entry.before.get(experience_id), entry.after.get(experience_id)
    if before == after:
        return None
    content = after.content if after else ""
    event = entry.event
    operations = event.operations if event.event in ("step", "edit") else []
    names = [operation.op for operation in operations if operation.id == experience_id]
    names = ["import"] if event.event == "import" else names
    return (", ".join(names), content) if names else None
