"""The subcommands of ``python -m grpo_training.experiences``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from engine.errors import InputError
from engine.experience.state import diff
from engine.records import Operation
from grpo_training.cli.tables import View
from grpo_training.libraries.descriptions import (
    change_of,
    changes,
    evidence_rollouts,
    mark_of,
    number,
    origin,
    tags,
    uses,
)
from grpo_training.libraries.folder import LibraryFolder
from prompts import experience_block

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable


def run_subcommand(arguments: argparse.Namespace) -> int:
    """Run the subcommand that the command line names; the exit code.

    Args:
        arguments: from :func:`~grpo_training.libraries.arguments.parse_arguments`.

    Raises:
        ScaffoldError: an id, a version or a library does not exist, or a file cannot be used.
    """
    folder = LibraryFolder(arguments.experiences_dir, arguments.library)
    _SUBCOMMANDS[arguments.command](folder, arguments, View(sys.stdout))
    return 0


def _list(folder: LibraryFolder, arguments: argparse.Namespace, view: View) -> None:
    for name in folder.names():
        state = folder.open(name).state
        view.table(
            f"{name}: {len(state.experiences)} experiences, version {state.version}",
            ("id", "content", "category", "from", "used", "right", ""),
            [
                (one.id, one.content, one.category, one.source_problem, *uses(one), mark_of(one, state))
                for one in state.experiences
            ],
        )


def _show(folder: LibraryFolder, arguments: argparse.Namespace, view: View) -> None:
    name = folder.with_experience(arguments.id, deleted_too=True)
    library = folder.open(name)
    history = library.history()
    versions = (entry.after.get(arguments.id) or entry.before.get(arguments.id) for entry in reversed(history))
    last = next(one for one in versions if one is not None)
    used, right = uses(last)
    view.line(f"{last.id} ({name}, {last.status if library.state.get(arguments.id) else 'deleted'})")
    view.line(last.content)
    if reason := library.state.quarantined.get(last.id):
        view.line(f"kept out of prompts ({reason.code}): {reason.message}", style="red")
    view.line(f"category: {last.category or '-'}; since {last.created_at or '-'}")
    view.line(f"used in the prompts of {used} rollouts, {right} of them right")
    view.table(
        "evidence",
        ("problem", "epoch", "μ", "σ", "rollouts"),
        [
            (one.problem_id, str(one.epoch), number(one.mean), number(one.std), rollouts)
            for one, rollouts in zip(
                last.evidence, evidence_rollouts(arguments.cache_dir, name, last.evidence), strict=True
            )
        ],
    )
    view.table(
        "history",
        ("line", "when", "by", "what", "content"),
        [
            (str(entry.number), entry.event.at, origin(entry), *change)
            for entry in history
            if (change := change_of(entry, arguments.id))
        ],
    )


def _diff(folder: LibraryFolder, arguments: argparse.Namespace, view: View) -> None:
    name = folder.with_versions(arguments.v1, arguments.v2)
    library = folder.open(name)
    before, after = library.at_version(arguments.v1), library.at_version(arguments.v2)
    view.line(f"{name}: {before.version} -> {after.version}")
    differences = diff(before, after)
    for difference in differences:
        for sign, one in (("-", difference.before), ("+", difference.after)):
            if one is not None:
                view.line(f"{sign} [{one.id}] {one.content}{tags(one)}", style="red" if sign == "-" else "green")
    if not differences:
        view.line("no difference")


def _history(folder: LibraryFolder, arguments: argparse.Namespace, view: View) -> None:
    for name in folder.names():
        rows = [
            (str(entry.number), entry.event.at, origin(entry), entry.after.version, "\n".join(changes(entry)))
            for entry in folder.open(name).history()
        ]
        view.table(name, ("line", "when", "by", "version", "what"), rows)


def _rollback(folder: LibraryFolder, arguments: argparse.Namespace, view: View) -> None:
    name = folder.with_versions(arguments.version)
    state = folder.open(name, read_only=False).rollback(arguments.version)
    view.line(f"{name} is again at version {state.version}: {len(state.experiences)} experiences")


def _pin(folder: LibraryFolder, arguments: argparse.Namespace, view: View) -> None:
    name = folder.with_experience(arguments.id, deleted_too=False)
    state = folder.open(name, read_only=False).pin(arguments.id)
    view.line(f"{arguments.id} is pinned; {name} is version {state.version}")


def _unpin(folder: LibraryFolder, arguments: argparse.Namespace, view: View) -> None:
    name = folder.with_experience(arguments.id, deleted_too=False)
    state = folder.open(name, read_only=False).unpin(arguments.id)
    view.line(f"{arguments.id} is not pinned; {name} is version {state.version}")


def _edit(folder: LibraryFolder, arguments: argparse.Namespace, view: View) -> None:
    name = folder.with_experience(arguments.id, deleted_too=False)
    operation = Operation(op="modify", id=arguments.id, content=arguments.text)
    state = folder.open(name, read_only=False).edit([operation])
    view.line(f"{arguments.id} has another text; {name} is version {state.version}")


def _forbid(folder: LibraryFolder, arguments: argparse.Namespace, view: View) -> None:
    name = folder.with_experience(arguments.id, deleted_too=False)
    state = folder.open(name, read_only=False).forbid(arguments.id)
    view.line(f"{arguments.id} is forbidden: the analyst cannot add it again; {name} is version {state.version}")


def _allow(folder: LibraryFolder, arguments: argparse.Namespace, view: View) -> None:
    name = folder.with_experience(arguments.id, deleted_too=True)
    folder.open(name, read_only=False).allow(arguments.id)
    view.line(f"{arguments.id} is no longer forbidden; it is not restored (`rollback` does that)")


def _export(folder: LibraryFolder, arguments: argparse.Namespace, view: View) -> None:
    names = folder.names()
    if len(names) > 1:
        raise InputError("--library is required: there are several libraries", fix=f"Choose one of {', '.join(names)}.")
    view.raw(experience_block(folder.open(names[0]).state.for_prompts))


_SUBCOMMANDS: dict[str, Callable[[LibraryFolder, argparse.Namespace, View], None]] = {
    "list": _list,
    "show": _show,
    "diff": _diff,
    "history": _history,
    "rollback": _rollback,
    "pin": _pin,
    "unpin": _unpin,
    "edit": _edit,
    "forbid": _forbid,
    "allow": _allow,
    "export": _export,
}
