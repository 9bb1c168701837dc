"""Earlier gates of a library: which verdict is valid, which test may go on, and how many asked some of the problems."""

from __future__ import annotations

from collections.abc import Sequence

from engine.api_manager import ApiManager
from engine.experience.events import GateEvent
from engine.experience.library import ExperienceLibrary
from engine.experience.state import LibraryState
from engine.records import Problem
from grpo_training.gate.settings import GateSettings
from grpo_training.runs.problems import task_facts
from grpo_training.runs.run import hash_of
from grpo_training.runs.settings import HOW_ASKED


def gate_before(
    settings: GateSettings, manager: ApiManager, library: ExperienceLibrary, problems: Sequence[Problem]
) -> GateEvent | None:
    """An earlier gate on this version of a library whose verdict is valid; None if it has to be tested.

    It is that of a gate on the same problems, asked in the same way, which has left none open, or a rejection by any
    gate: the library has no experiences in prompts that could be tested until it changes.

    Args:
        settings, library, problems: as in :func:`grpo_training.gate.run.gate`.
        manager: the endpoints, of which only the names of the models are used.
    """
    earlier = same_test(settings, manager, library, problems)
    has_more = settings.ask_all and earlier is not None and earlier.problems < earlier.of
    if earlier is not None and not has_more and not earlier.open:
        return earlier
    if not library.state.is_rejected:
        return None
    of_version = [gate for gate in gates_of(library) if gate.version == library.state.version]
    return next(gate for gate in reversed(of_version) if gate.verdict == "rejected")


def same_test(
    settings: GateSettings, manager: ApiManager, library: ExperienceLibrary, problems: Sequence[Problem]
) -> GateEvent | None:
    """The last gate on the same experiences and problems, asked in the same way: its test may have more to ask."""
    wanted = (
        *(library.state.version, dataset_hash(problems), settings.samples_of(problems)),
        *(manager.endpoint(settings.role).model, sampling_hash(settings), tested_hash(library.state)),
    )
    return next((gate for gate in reversed(gates_of(library)) if _asked(gate) == wanted), None)


def tests_before(library: ExperienceLibrary, problems: Sequence[Problem], model: str) -> int:
    """How many tests of a library with this model have asked some of these problems; one that went on counts once."""
    hashes = set(problem_hashes(problems))
    of_model = [gate for gate in gates_of(library) if gate.model == model]
    return len({_asked(gate) for gate in of_model if not hashes.isdisjoint(gate.problem_hashes)})


def _asked(gate: GateEvent) -> tuple[str | int, ...]:
    """What tells the tests of a library apart."""
    return gate.version, gate.dataset, gate.samples, gate.model, gate.sampling, gate.tested


def gates_of(library: ExperienceLibrary) -> list[GateEvent]:
    """All gates of a library, in order."""
    return [entry.event for entry in library.history() if isinstance(entry.event, GateEvent)]


def dataset_hash(problems: Sequence[Problem]) -> str:
    """Of the problems in their order."""
    return hash_of([[problem.id, problem.text, problem.answer] for problem in problems])


def problem_hashes(problems: Sequence[Problem]) -> list[str]:
    """Of each problem, in an order of their own."""
    return sorted(hash_of([problem.text, problem.answer]) for problem in problems)


def tested_hash(state: LibraryState) -> str:
    """Of the experiences that a gate asks with."""
    return hash_of(sorted(experience.content for experience in state.tested))


def sampling_hash(settings: GateSettings) -> str:
    """Of how the problems are asked and scored: prompts, sampling, and the file of a user's task."""
    return hash_of([*(getattr(settings, name) for name in HOW_ASKED), *task_facts(settings.task).values()])
