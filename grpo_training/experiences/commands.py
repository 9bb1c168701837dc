"""The subcommands of ``python -m grpo_training.experiences``."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable, Iterable
from typing import Any

from engine.errors import InputError
from engine.experience.effect import described
from engine.experience.log import HistoryEntry
from engine.experience.state import LibraryState
from engine.records import Experience, Operation
from grpo_training.cli.pager import paged
from grpo_training.cli.tables import View
from grpo_training.cli.terminal_text import counted
from grpo_training.experiences.arguments import LISTINGS
from grpo_training.experiences.descriptions import (
    change_of,
    changes,
    effect,
    evidence_rollouts,
    measured,
    number,
    origin,
    pin_mark,
    uses,
)
from grpo_training.experiences.folder import LibraryFolder
from grpo_training.experiences.selection import check_category, selected
from grpo_training.runs.named import known_runs, places, unnamed_run
from prompts import experience_block

_MOST_CATEGORY = 12
"""Characters of a category in a line of the list."""


def run_subcommand(arguments: argparse.Namespace) -> int:
    """Run the subcommand that the command line names; the exit code.

    Args:
        arguments: from :func:`~grpo_training.experiences.arguments.parse_arguments`.

    Raises:
        ScaffoldError: an id, a version or a library does not exist, or a file cannot be used.
    """
    given = arguments.run, arguments.cache_dir, arguments.experiences_dir
    if any(given) or known_runs():
        arguments.cache_dir, arguments.experiences_dir = places(*given)
    else:
        arguments.cache_dir, arguments.experiences_dir = unnamed_run().cache, unnamed_run().experiences
    folder = LibraryFolder(arguments.experiences_dir, arguments.library)
    subcommand = _SUBCOMMANDS[arguments.command]
    if arguments.command in LISTINGS and sys.stdout.isatty():
        with paged(sys.stdout) as stream:
            subcommand(folder, arguments, View(stream))
    else:
        subcommand(folder, arguments, View(sys.stdout))
    return 0


def _list(folder: LibraryFolder, arguments: argparse.Namespace, view: View) -> None:
    states = {name: folder.open(name).state for name in folder.names()}
    if arguments.category is not None:
        check_category(arguments.category, states.values())
    if arguments.json:
        view.json(
            {
                name: {
                    "version": state.version,
                    "experiences": _json(selected(arguments, state.experiences, state.trials)),
                }
                for name, state in states.items()
            }
        )
        return
    for name, state in states.items():
        if state.trials.by_id or state.retired:
            _list_trials(name, state, view, arguments)
            continue
        found = selected(arguments, state.experiences, state.trials)
        view.lines(
            f"{name}: {_count(len(found), len(state.experiences))}, version {state.version}",
            ("id", "category", "from", "used", "right when present", "", "content")
            if not view.is_terminal
            else ("id", "category", "used", "right", "content"),
            [
                (one.id, one.category, one.source_problem, *uses(one), pin_mark(one), one.content)
                if not view.is_terminal
                else (one.id, one.category[:_MOST_CATEGORY], *uses(one), _marked(one, pin_mark(one)))
                for one in found
            ],
        )


def _count(found: int, all_of_them: int) -> str:
    whole = counted(all_of_them, "experience")
    return whole if found == all_of_them else f"{found} of {whole}"


def _marked(one: Experience, mark: str) -> str:
    return f"({mark}) {one.content}" if mark else one.content


def _list_trials(name: str, state: LibraryState, view: View, arguments: argparse.Namespace) -> None:
    """The experiences by the probability that they help, then the retired and the forbidden ones."""
    ordered = sorted(state.experiences, key=lambda one: -state.trials.belief(one.id).p_helps)
    found = [(one, pin_mark(one) or "on trial") for one in selected(arguments, ordered, state.trials)]
    for status, out in (("retired", state.retired), ("forbidden", state.forbidden)):
        found += [(one, status) for one in selected(arguments, map(state.with_uses, out), state.trials)]
    gate = state.gate
    is_current = gate is not None and gate.version == state.version
    verdict = f"; gate: {gate.verdict.replace('_', ' ')}" if gate is not None and is_current else ""
    listed = sum(one in state.experiences for one, _ in found)
    title = (
        f"{name}: {_count(listed, len(state.texts))}, version {state.version}, measured in "
        f"{counted(state.trials.groups, 'group')}{verdict}"
    )
    if not view.is_terminal:
        head = ("id", "category", "effect", "95 % interval", "P(helps)", "groups", "state", "content")
        rows = [(one.id, one.category, *measured(one.id, state.trials), mark, one.content) for one, mark in found]
        view.lines(title, head, rows)
        return
    short = []
    for one, mark in found:
        effect, _, p_helps, groups = measured(one.id, state.trials)
        text = _marked(one, "" if mark == "on trial" else mark)
        short.append((one.id, one.category[:_MOST_CATEGORY], effect, p_helps, groups, text))
    view.lines(title, ("id", "category", "effect", "P(helps)", "groups", "content"), short)


def _show(folder: LibraryFolder, arguments: argparse.Namespace, view: View) -> None:
    arguments.id = arguments.id.upper()
    name = folder.with_experience(arguments.id, deleted_too=True)
    library = folder.open(name)
    history = library.history()
    versions = (entry.after.get(arguments.id) or entry.before.get(arguments.id) for entry in reversed(history))
    last = next(one for one in versions if one is not None)
    figures = effect(arguments.cache_dir, name, last.id)
    if arguments.json:
        shown = [_entry_json(entry) for entry in history if change_of(entry, arguments.id)]
        status = last.status if library.state.get(arguments.id) else "deleted"
        fields = {**last.model_dump(mode="json"), "status": status, "library": name}
        view.json(fields | {"effect": dataclasses.asdict(figures), "history": shown})
        return
    view.line(f"{last.id} ({name}, {last.status if library.state.get(arguments.id) else 'deleted'})")
    view.line(last.content)
    view.line(f"category: {last.category or '-'}; since {last.created_at or '-'}")
    view.line(f"in the prompts of {counted(last.uses.rollouts, 'rollout')}")
    if library.state.trials.interval(last.id) is not None:
        mean, interval, p_helps, groups = measured(last.id, library.state.trials)
        in_groups = counted(int(groups), "group")
        view.line(f"effect: {mean} points (95 % interval {interval}), measured by lot in {in_groups}")
        view.line(f"probability that it helps: {p_helps}")
    if figures.when_present is None and last.uses.rollouts:
        view.line(f"right when present: {uses(last)[1]} (its rollouts are not in {arguments.cache_dir})")
    else:
        view.line(described(figures))
    view.line("evidence:")
    rollouts = evidence_rollouts(arguments.cache_dir, name, last.evidence)
    for one, answers in zip(last.evidence, rollouts, strict=True):
        epoch = f", epoch {one.epoch}" if one.epoch else ""
        view.line(f"  {one.problem_id}{epoch}: μ={number(one.mean)}, σ={number(one.std)}")
        view.text(answers, indent="    ")
    view.line("history:")
    for entry in history:
        if change := change_of(entry, arguments.id):
            what, content = change
            view.line(f"  line {entry.number}, {entry.event.at}: {what} by {origin(entry)}")
            if content and content != last.content:
                view.line(f"    {content}")


def _history(folder: LibraryFolder, arguments: argparse.Namespace, view: View) -> None:
    if arguments.json:
        view.json({name: [_entry_json(entry) for entry in folder.open(name).history()] for name in folder.names()})
        return
    for name in folder.names():
        rows = [
            (str(entry.number), entry.event.at, origin(entry), entry.after.version, "\n".join(changes(entry)))
            for entry in folder.open(name).history()
        ]
        view.entries(name, ("line", "when", "by", "version", "what"), rows)


def _change(folder: LibraryFolder, arguments: argparse.Namespace, view: View) -> None:
    arguments.id = arguments.id.upper()
    name = folder.with_experience(arguments.id, deleted_too=False)
    state = folder.open(name, read_only=False).edit([Operation(op=arguments.command, id=arguments.id)])
    view.line(f"{arguments.id} {_CHANGES[arguments.command]}; {name} is version {state.version}")


def _export(folder: LibraryFolder, arguments: argparse.Namespace, view: View) -> None:
    names = folder.names()
    if len(names) > 1:
        raise InputError("--library is required: there are several libraries", fix=f"Choose one of {', '.join(names)}.")
    state = folder.open(names[0]).state
    if arguments.json:
        view.json(_json(state.experiences))
        return
    view.raw(experience_block(state.helpful))


def _json(experiences: Iterable[Experience]) -> list[dict[str, Any]]:
    return [one.model_dump(mode="json") for one in experiences]


def _entry_json(entry: HistoryEntry) -> dict[str, Any]:
    return {"line": entry.number, "version": entry.after.version, **entry.event.model_dump(mode="json")}


_CHANGES = {
    "pin": "is pinned",
    "unpin": "is not pinned",
    "remove": "is removed",
    "forbid": "is forbidden: the analyst cannot add it again",
}
"""Subcommand that changes an experience -> what is said of it then."""

_SUBCOMMANDS: dict[str, Callable[[LibraryFolder, argparse.Namespace, View], None]] = {
    "list": _list,
    "show": _show,
    "history": _history,
    **dict.fromkeys(_CHANGES, _change),
    "export": _export,
}
