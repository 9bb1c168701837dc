"""Look into what the agents learned, and correct it: ``python -m grpo_training.experiences``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from grpo_training.cli.entry import CommandParser

if TYPE_CHECKING:  # imported when a command runs, so that --help answers at once
    from engine.experience.library import ExperienceLibrary, HistoryEntry
    from engine.records import Evidence, Experience
    from grpo_training.libraries.tables import View

_SUFFIX = "_experiences.json"

_DESCRIPTION = """\
Each agent keeps a library of experiences: lessons of at most 32 words that stand in its later prompts.
This command shows what was learned, from what evidence, and what was refused; and it lets you step in.
"""
_EPILOG = """\
examples:
  python -m grpo_training.experiences                          all libraries
  python -m grpo_training.experiences show G1-003              one lesson: evidence, rollouts, uses, its past
  python -m grpo_training.experiences history --library critic what changed, and what was refused and why
  python -m grpo_training.experiences diff 3f2a 9c41           two versions, by the first digits of their hash
  python -m grpo_training.experiences rollback 3f2a            back to a version; nothing is erased
  python -m grpo_training.experiences pin G1-003               the analyst may no longer touch it
  python -m grpo_training.experiences export --library generator_1 > block.txt

You may also edit the JSON files in a text editor: the next run takes the edits in and records them.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: the arguments after the command's name; those of the process where None.

    Returns:
        0.

    Raises:
        ScaffoldError: an id, a version or a library is not there, or a file cannot be used.
    """
    args = _parser().parse_args(argv, _defaults())
    from grpo_training.libraries.tables import View

    _COMMANDS[args.command or "list"](args, View(sys.stdout))
    return 0


def _parser() -> argparse.ArgumentParser:
    where = CommandParser(add_help=False, argument_default=argparse.SUPPRESS)
    where.add_argument("--library", metavar="NAME", help="generator_1, generator_2, generator_3 or critic")
    where.add_argument("--experiences-dir", type=Path, metavar="DIR", help="default: data/grpo_experiences")
    where.add_argument("--cache-dir", type=Path, metavar="DIR", help="default: grpo_training/cache")
    parser = CommandParser(
        prog="python -m grpo_training.experiences",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[where],
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")

    def command(name: str, text: str, *arguments: tuple[str, str]) -> None:
        one = commands.add_parser(name, help=text, description=text, parents=[where])
        for argument, meaning in arguments:
            one.add_argument(argument.lower(), metavar=argument, help=meaning)

    command("list", "show the libraries (the default)")
    command("show", "show one experience with its evidence and its past", ("ID", "for example G1-003"))
    command("diff", "what changed between two versions", ("V1", "a version"), ("V2", "a version"))
    command("history", "every change, and what was refused and why")
    command("rollback", "make a library what it was in a version", ("VERSION", "its first 4 digits or more"))
    command("pin", "keep the analyst from changing or deleting an experience", ("ID", "for example G1-003"))
    command("unpin", "take a pin away", ("ID", "for example G1-003"))
    command("export", "print the block as it stands in a prompt")
    return parser


def _defaults() -> argparse.Namespace:
    """They stand apart from the parsers, as a sub-parser's default would undo what stood before the command."""
    experiences, cache = Path.cwd() / "data/grpo_experiences", Path.cwd() / "grpo_training/cache"
    return argparse.Namespace(library=None, experiences_dir=experiences, cache_dir=cache)


# ------------------------------------------------------------------ finding libraries


def _names(args: argparse.Namespace) -> list[str]:
    """The names of the libraries that are there, or of the one asked for."""
    from engine.errors import InputError, MissingInputError
    from engine.experience.library import library_prefix

    directory: Path = args.experiences_dir
    files = directory.glob("*_experiences.*") if directory.is_dir() else ()
    there = sorted({path.name.split("_experiences.")[0] for path in files})
    known = [name for name in there if _is_library(name)]
    if args.library is not None:
        library_prefix(args.library)
        if args.library not in known:
            what = f"There is no library of {args.library} in {directory}"
            raise InputError(what, fix=f"There are: {', '.join(known) or 'none yet'}.")
        return [args.library]
    if not known:
        raise MissingInputError(
            f"No experiences found in {directory}",
            why="They are written when a generator or the critic has learned something.",
            fix="Run python -m grpo_training.generator1 first, or say --experiences-dir DIR.",
        )
    return known


def _is_library(name: str) -> bool:
    from engine.errors import InputError
    from engine.experience.library import library_prefix

    try:
        library_prefix(name)
    except InputError:
        return False
    return True


def _open(args: argparse.Namespace, name: str, *, read_only: bool = True) -> ExperienceLibrary:
    from engine.experience.library import ExperienceLibrary, library_prefix

    library = ExperienceLibrary(args.experiences_dir / f"{name}{_SUFFIX}", library_prefix(name), read_only=read_only)
    for notice in library.notices:
        print(notice, file=sys.stderr)
    return library


def _find(args: argparse.Namespace, what: str, has: Callable[[ExperienceLibrary], bool]) -> str:
    """The name of the one library that has something."""
    from engine.errors import InputError

    names = _names(args)
    found = [name for name in names if has(_open(args, name))]
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(f"{what} is in {', '.join(found)}", fix=f"Say which: --library {found[0]}")
    raise InputError(f"{what} is not in {', '.join(names)}", fix="`list` shows ids, `history` shows versions.")


def _ever_had(experience_id: str) -> Callable[[ExperienceLibrary], bool]:
    return lambda library: any(entry.after.get(experience_id) for entry in library.history())


def _has_versions(*versions: str) -> Callable[[ExperienceLibrary], bool]:
    from engine.errors import InputError

    def has(library: ExperienceLibrary) -> bool:
        try:
            return all(library.at_version(version) for version in versions)
        except InputError:
            return False

    return has


# ------------------------------------------------------------------ commands


def _list(args: argparse.Namespace, view: View) -> None:
    for name in _names(args):
        state = _open(args, name).state
        view.table(
            f"{name}: {len(state.experiences)} experiences, version {state.version}",
            ("id", "content", "category", "from", "used", "right", ""),
            [
                (one.id, one.content, one.category, one.source_problem, *_uses(one), _mark(one))
                for one in state.experiences
            ],
        )


def _show(args: argparse.Namespace, view: View) -> None:
    name = _find(args, args.id, _ever_had(args.id))
    library = _open(args, name)
    history = library.history()
    past = [(entry, told) for entry in history if (told := _told(entry, args.id))]
    lives = (entry.after.get(args.id) or entry.before.get(args.id) for entry in reversed(history))
    last = next(one for one in lives if one is not None)
    used, right = _uses(last)
    status = last.status if library.state.get(args.id) else "deleted"
    view.line(f"{last.id} ({name}, {status})")
    view.line(last.content)
    view.line(f"category: {last.category or '-'}; since {last.created_at or '-'}")
    view.line(f"stood in the prompts of {used} rollouts, {right} of them right")
    view.table(
        "evidence",
        ("problem", "epoch", "μ", "σ", "rollouts"),
        [
            (proof.problem_id, str(proof.epoch), _number(proof.mean), _number(proof.std), rollouts)
            for proof, rollouts in zip(last.evidence, _rollouts(args, name, last.evidence), strict=True)
        ],
    )
    view.table(
        "its past",
        ("line", "when", "by", "what", "content"),
        [(str(entry.number), entry.event.at, _by(entry), *told) for entry, told in past],
    )


def _diff(args: argparse.Namespace, view: View) -> None:
    from engine.experience.state import diff

    name = _find(args, f"The pair of versions {args.v1}, {args.v2}", _has_versions(args.v1, args.v2))
    library = _open(args, name)
    before, after = library.at_version(args.v1), library.at_version(args.v2)
    view.line(f"{name}: {before.version} -> {after.version}")
    changes = diff(before, after)
    for change in changes:
        for sign, one in (("-", change.before), ("+", change.after)):
            if one is not None:
                view.line(f"{sign} [{one.id}] {one.content}{_tags(one)}", style="red" if sign == "-" else "green")
    if not changes:
        view.line("no difference")


def _history(args: argparse.Namespace, view: View) -> None:
    for name in _names(args):
        rows = []
        for entry in _open(args, name).history():
            lines = [*_operations(entry), *_refusals(entry)] or ["nothing to learn"]
            rows.append((str(entry.number), entry.event.at, _by(entry), entry.after.version, "\n".join(lines)))
        view.table(name, ("line", "when", "by", "version", "what"), rows)


def _rollback(args: argparse.Namespace, view: View) -> None:
    name = _find(args, f"Version {args.version}", _has_versions(args.version))
    state = _open(args, name, read_only=False).rollback(args.version)
    view.line(f"{name} is again at version {state.version}: {len(state.experiences)} experiences")


def _pin(args: argparse.Namespace, view: View) -> None:
    name = _find(args, args.id, lambda library: library.state.get(args.id) is not None)
    library = _open(args, name, read_only=False)
    state = library.pin(args.id) if args.command == "pin" else library.unpin(args.id)
    view.line(f"{args.id} is {'pinned' if args.command == 'pin' else 'not pinned'}; {name} is version {state.version}")


def _export(args: argparse.Namespace, view: View) -> None:
    from engine.errors import InputError

    names = _names(args)
    if len(names) > 1:
        raise InputError("Which library?", fix=f"Say --library with one of: {', '.join(names)}")
    from prompts import experience_block

    view.raw(experience_block(_open(args, names[0]).state.experiences))


_COMMANDS: dict[str, Callable[[argparse.Namespace, View], None]] = {
    "list": _list,
    "show": _show,
    "diff": _diff,
    "history": _history,
    "rollback": _rollback,
    "pin": _pin,
    "unpin": _pin,
    "export": _export,
}


# ------------------------------------------------------------------ words


def _uses(one: Experience) -> tuple[str, str]:
    share = f"{one.uses.correct / one.uses.rollouts:.0%}" if one.uses.rollouts else "-"
    return str(one.uses.rollouts), share


def _mark(one: Experience) -> str:
    return "pinned" if one.status == "pinned" else ""


def _tags(one: Experience) -> str:
    tags = [tag for tag in (one.category, _mark(one)) if tag]
    return f" ({', '.join(tags)})" if tags else ""


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _by(entry: HistoryEntry) -> str:
    event = entry.event
    if event.event == "step":
        return f"{event.run} step {event.step}: {event.problem_id} μ={_number(event.mean)} σ={_number(event.std)}"
    if event.event == "begin":
        return f"{event.run} begins"
    return {"edit": "a person", "rollback": "rollback", "import": "import"}[event.event]


def _operations(entry: HistoryEntry) -> Iterable[str]:
    event = entry.event
    if event.event in ("step", "edit"):
        for operation in event.operations:
            yield f"{operation.op} {operation.id} {operation.content or ''}".rstrip()
    elif event.event == "rollback":
        yield f"back to {event.version}"
    elif event.event == "import":
        yield f"{len(event.experiences)} experiences"
    elif event.event == "begin":
        yield "the run's first prompts know this version"


def _refusals(entry: HistoryEntry) -> Iterable[str]:
    for refusal in entry.event.refused if entry.event.event == "step" else ():
        operation = refusal.operation
        told = " ".join(part for part in (operation.op, operation.id, operation.content) if part)
        yield f"refused ({refusal.reason}) {told}: {refusal.message}"


def _told(entry: HistoryEntry, experience_id: str) -> tuple[str, str] | None:
    """What an event did to an experience and its content after that; None where it only counted a use."""
    before, after = entry.before.get(experience_id), entry.after.get(experience_id)
    if before == after:
        return None
    event = entry.event
    if event.event in ("import", "rollback"):
        return event.event, after.content if after else ""
    operations = event.operations if event.event in ("step", "edit") else []
    named = [operation.op for operation in operations if operation.id == experience_id]
    return (", ".join(named), after.content if after else "") if named else None


def _rollouts(args: argparse.Namespace, name: str, proofs: Sequence[Evidence]) -> list[str]:
    """For each proof, the rollouts of its group as the cache holds them."""
    from engine.records import Fusion, RolloutGroup
    from engine.storage.rollout_store import latest_by_problem, latest_fusions, read

    if name == "critic":
        fusions = latest_fusions(read(args.cache_dir / "critic_results.jsonl", Fusion, missing_ok=True).records)
        told: dict[tuple[str, int], list[str]] = {}
        for fusion in fusions.values():
            row = f"{fusion.generator_id}: {_answer(fusion.final_answer, fusion.is_correct, fusion.rewards.r_total)}"
            told.setdefault((fusion.problem_id, fusion.epoch), []).append(row)
    else:
        groups = latest_by_problem(
            read(args.cache_dir / f"{name}_rollouts.jsonl", RolloutGroup, missing_ok=True).records
        )
        told = {
            key: [f"{one.rollout_id}: {_answer(one.answer, one.is_correct, one.r_total)}" for one in group.rollouts]
            for key, group in groups.items()
        }
    return ["\n".join(told.get((proof.problem_id, proof.epoch), ["not in the cache"])) for proof in proofs]


def _answer(answer: str | None, is_correct: bool | None, r_total: float | None) -> str:
    verdict = {True: "right", False: "wrong", None: "not judged"}[is_correct]
    short = "no answer" if answer is None else answer.replace("\n", " ")[:40]
    return f"{short}, {verdict}, r={_number(r_total)}"
