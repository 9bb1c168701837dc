"""The subcommands of ``python -m grpo_training.experiences``."""

from __future__ import annotations

import argparse
import sys

from engine.experience.library import ExperienceLibrary
from engine.experience.state import LibraryState
from engine.records import Operation
from grpo_training.cli.tables import View
from grpo_training.cli.terminal_text import counted
from grpo_training.experiences.descriptions import change_of, measured, number, origin, uses
from grpo_training.experiences.folder import libraries_in, library_with, open_library
from grpo_training.runs.folder import found_run, known_runs, library_file, unnamed_run

_MOST_CATEGORY = 12
"""Characters of a category in a line of the list."""

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
        arguments: ``command``, ``id``, ``library``, ``search`` and the places of the libraries.

    Raises:
        ScaffoldError: an id or a library does not exist, or a file cannot be used.
    """
    given = arguments.run, arguments.cache_dir, arguments.experiences_dir
    run = found_run(*given) if any(given) or known_runs() else unnamed_run()
    libraries, view = libraries_in(run.experiences, arguments.library), View(sys.stdout)
    if arguments.command == "list":
        for name, library in libraries.items():
            _list(name, library.state, view, (arguments.search or "").casefold())
        return 0
    name = library_with(arguments.id, libraries)
    if arguments.command == "show":
        _show(arguments.id, name, libraries[name], view)
        return 0
    library = open_library(library_file(run.experiences, name), read_only=False)
    state = library.edit(Operation(op=arguments.command, id=arguments.id))
    view.line(f"{arguments.id} {_CHANGES[arguments.command]}; {name} is version {state.version}")
    return 0


def _list(name: str, state: LibraryState, view: View, search: str) -> None:
    """The experiences with a text, the likeliest to help first, then the retired and the forbidden ones."""
    on_trial = bool(state.trials.by_id or state.retired)
    listed = list(state.experiences)
    if on_trial:
        listed.sort(key=lambda experience: -state.trials.belief(experience).p_helps)
    active = "on trial" if on_trial else ""
    marks = [(experience, "pinned" if experience.status == "pinned" else active) for experience in listed]
    for status, taken_out in (("retired", state.retired), ("forbidden", state.forbidden)):
        marks += [(state.with_uses(experience), status) for experience in taken_out]
    title = f"{name}: {counted(len(listed), 'experience')}, version {state.version}"
    if on_trial:
        title += f", measured in {counted(state.trials.groups, 'group')}"
    gate = state.gate
    if gate is not None and gate.version == state.version:
        title += f"; gate: {gate.verdict.replace('_', ' ')}"
    head = ("effect", "P(helps)", "groups") if on_trial else ("used", "right")
    rows = []
    for experience, mark in marks:
        texts = experience.id, experience.content, experience.category, experience.source_problem
        if search and not any(search in text.casefold() for text in texts):
            continue
        effect, _, p_helps, groups = measured(experience, state.trials)
        figures = (effect, p_helps, groups) if on_trial else uses(experience)
        rows.append((experience.id, experience.category[:_MOST_CATEGORY], *figures, mark, experience.content))
    view.table(title, ("id", "category", *head, "state", "content"), rows, is_cut=True)


def _show(experience_id: str, name: str, library: ExperienceLibrary, view: View) -> None:
    """An experience, also one that was deleted, with its evidence and history."""
    history, state = library.history(), library.state
    versions = (entry.after.get(experience_id) or entry.before.get(experience_id) for entry in reversed(history))
    last = next(experience for experience in versions if experience is not None)
    view.line(f"{last.id} ({name}, {last.status if state.get(experience_id) else 'deleted'})")
    view.line(last.content)
    view.line(f"category: {last.category or '-'}; since {last.created_at or '-'}")
    rollouts, share_right = uses(last)
    view.line(f"in the prompts of {counted(int(rollouts), 'rollout')}; right when present: {share_right}")
    if state.trials.interval(last.id) is not None:
        mean, interval, p_helps, groups = measured(last, state.trials)
        in_groups = counted(int(groups), "group")
        view.line(f"effect: {mean} points (95 % interval {interval}), measured by lot in {in_groups}")
        view.line(f"probability that it helps: {p_helps}")
    view.line("evidence (python -m grpo_training.show PROBLEM prints its rollouts):")
    for evidence in last.evidence:
        epoch = f", epoch {evidence.epoch}" if evidence.epoch else ""
        view.line(f"  {evidence.problem_id}{epoch}: μ={number(evidence.mean)}, σ={number(evidence.std)}")
    view.line("history:")
    for entry in history:
        if change := change_of(entry, experience_id):
            action, content = change
            view.line(f"  line {entry.number}, {entry.event.at}: {action} by {origin(entry)}")
            if content and content != last.content:
                view.line(f"    {content}")
