"""The subcommands of ``python -m grpo_training.experiences``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from typing import Any

from engine.experience.log import HistoryEntry
from engine.experience.state import LibraryState
from engine.records import Experience, Operation
from grpo_training.cli.tables import View
from grpo_training.cli.terminal_text import counted
from grpo_training.experiences.descriptions import change_of, evidence_rollouts, measured, number, origin, uses
from grpo_training.experiences.folder import LibraryFolder
from grpo_training.runs.folder import found_run, known_runs, unnamed_run

_MOST_CATEGORY = 12
"""Characters of a category in a line of the list on a terminal."""

_CHANGES = {
    "pin": "is pinned",
    "unpin": "is not pinned",
    "remove": "is removed",
    "forbid": "is forbidden: the analyst cannot add it again",
}
"""Subcommand that changes an experience -> what is said of it then."""


def run_subcommand(arguments: argparse.Namespace) -> int:
    """Run the subcommand that the command line names; the exit code.

    Args:
        arguments: from :func:`~grpo_training.experiences.arguments.parse_arguments`.

    Raises:
        ScaffoldError: an id or a library does not exist, or a file cannot be used.
    """
    given = arguments.run, arguments.cache_dir, arguments.experiences_dir
    run = found_run(*given) if any(given) or known_runs() else unnamed_run()
    arguments.cache_dir, arguments.experiences_dir = run.cache, run.experiences
    folder = LibraryFolder(arguments.experiences_dir, arguments.library)
    if arguments.command in _CHANGES:
        _change(folder, arguments, View(sys.stdout))
        return 0
    subcommand = _show if arguments.command == "show" else _list
    subcommand(folder, arguments, View(sys.stdout))
    return 0


def _list(folder: LibraryFolder, arguments: argparse.Namespace, view: View) -> None:
    states = {name: folder.open(name).state for name in folder.names()}
    if arguments.json:
        listed = {
            name: {"version": state.version, "experiences": _json(_matching(state.experiences, arguments.search))}
            for name, state in states.items()
        }
        view.json(listed)
        return
    for name, state in states.items():
        _list_library(name, state, view, arguments.search)


def _list_library(name: str, state: LibraryState, view: View, search: str | None) -> None:
    """The experiences, the likeliest to help first, then the retired and the forbidden ones."""
    on_trial = bool(state.trials.by_id or state.retired)
    ordered = sorted(state.experiences, key=lambda experience: -state.trials.belief(experience).p_helps)
    listed = _matching(ordered if on_trial else state.experiences, search)
    marks = [(experience, "pinned" if experience.status == "pinned" else "on trial") for experience in listed]
    for status, taken_out in (("retired", state.retired), ("forbidden", state.forbidden)):
        marks += [(experience, status) for experience in _matching(map(state.with_uses, taken_out), search)]
    total = counted(len(state.experiences), "experience")
    title = f"{name}: {total if len(listed) == len(state.experiences) else f'{len(listed)} of {total}'}"
    title += f", version {state.version}"
    if on_trial:
        title += f", measured in {counted(state.trials.groups, 'group')}"
    gate = state.gate
    if gate is not None and gate.version == state.version:
        title += f"; gate: {gate.verdict.replace('_', ' ')}"
    head = ("effect", "P(helps)", "groups") if on_trial else ("used", "right")
    rows = []
    for experience, mark in marks:
        effect, _, p_helps, groups = measured(experience, state.trials)
        figures = (effect, p_helps, groups) if on_trial else uses(experience)
        category = experience.category[:_MOST_CATEGORY] if view.is_terminal else experience.category
        shown_mark = "" if mark == "on trial" and not on_trial else mark
        rows.append((experience.id, category, *figures, shown_mark, experience.content))
    view.lines(title, ("id", "category", *head, "state", "content"), rows)


def _matching(experiences: Iterable[Experience], search: str | None) -> list[Experience]:
    """The experiences with a text in their id, content, category or source problem, in any case; None: all."""

    def has_text(experience: Experience) -> bool:
        texts = (experience.id, experience.content, experience.category, experience.source_problem)
        return search is None or any(search.casefold() in text.casefold() for text in texts)

    return [experience for experience in experiences if has_text(experience)]


def _show(folder: LibraryFolder, arguments: argparse.Namespace, view: View) -> None:
    name = folder.with_experience(arguments.id, deleted_too=True)
    library = folder.open(name)
    history = library.history()
    versions = (entry.after.get(arguments.id) or entry.before.get(arguments.id) for entry in reversed(history))
    last = next(experience for experience in versions if experience is not None)
    status = last.status if library.state.get(arguments.id) else "deleted"
    if arguments.json:
        shown = [_entry_json(entry) for entry in history if change_of(entry, arguments.id)]
        view.json({**last.model_dump(mode="json"), "status": status, "library": name, "history": shown})
        return
    view.line(f"{last.id} ({name}, {status})")
    view.line(last.content)
    view.line(f"category: {last.category or '-'}; since {last.created_at or '-'}")
    rollouts, share_right = uses(last)
    view.line(f"in the prompts of {counted(int(rollouts), 'rollout')}; right when present: {share_right}")
    if library.state.trials.interval(last.id) is not None:
        mean, interval, p_helps, groups = measured(last, library.state.trials)
        in_groups = counted(int(groups), "group")
        view.line(f"effect: {mean} points (95 % interval {interval}), measured by lot in {in_groups}")
        view.line(f"probability that it helps: {p_helps}")
    view.line("evidence:")
    answers_of_groups = evidence_rollouts(arguments.cache_dir, name, last.evidence)
    for evidence, answers in zip(last.evidence, answers_of_groups, strict=True):
        epoch = f", epoch {evidence.epoch}" if evidence.epoch else ""
        view.line(f"  {evidence.problem_id}{epoch}: μ={number(evidence.mean)}, σ={number(evidence.std)}")
        view.text(answers, indent="    ")
    view.line("history:")
    for entry in history:
        if change := change_of(entry, arguments.id):
            what, content = change
            view.line(f"  line {entry.number}, {entry.event.at}: {what} by {origin(entry)}")
            if content and content != last.content:
                view.line(f"    {content}")


def _change(folder: LibraryFolder, arguments: argparse.Namespace, view: View) -> None:
    name = folder.with_experience(arguments.id, deleted_too=False)
    state = folder.open(name, read_only=False).edit([Operation(op=arguments.command, id=arguments.id)])
    view.line(f"{arguments.id} {_CHANGES[arguments.command]}; {name} is version {state.version}")


def _json(experiences: Iterable[Experience]) -> list[dict[str, Any]]:
    return [experience.model_dump(mode="json") for experience in experiences]


def _entry_json(entry: HistoryEntry) -> dict[str, Any]:
    return {"line": entry.number, "version": entry.after.version, **entry.event.model_dump(mode="json")}
