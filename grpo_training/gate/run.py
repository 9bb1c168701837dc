"""The gate: a group-sequential test of answers with a library against answers without it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal, TextIO

from engine.api_manager import JUDGE_ROLE, ApiManager
from engine.errors import InputError, MissingInputError
from engine.experience.choice import LearnedExperiences
from engine.experience.events import GateEvent
from engine.experience.library import ExperienceLibrary
from engine.experience.state import LibraryState, kept_text, sources_of, texts_of_sources
from engine.llm.client import LLMClient
from engine.records import Problem
from engine.statistics.group_sequential import GroupSequentialTest, alpha_of_test, problems_needed
from grpo_training.cli.entry import run_async
from grpo_training.cli.terminal_text import counted
from grpo_training.evaluate.arms import sum_of_costs
from grpo_training.gate.earlier import (
    dataset_hash,
    gate_before,
    gates_of,
    problem_hashes,
    same_test,
    sampling_hash,
    tested_hash,
    tests_before,
)
from grpo_training.gate.looks import Arm, ask_until_clear
from grpo_training.gate.problems import check_number, shuffled
from grpo_training.gate.settings import GateSettings
from grpo_training.gate.verdicts import verdict_lines
from grpo_training.runs.folder import in_found_run, library_file, load_tasks_of, manifest_file
from grpo_training.runs.problems import read_problems, without_duplicates
from grpo_training.runs.run import as_in_learning
from grpo_training.serve.endpoints import check_budget, check_endpoint, named_endpoints, open_client, open_endpoints


def run_gate(settings: GateSettings, stream: TextIO) -> int:
    """Test the library of a role; the exit code.

    Raises:
        MissingInputError: there is no library.
        InputError: the library is empty, or there are too few problems.
        IncompleteRunError: some answers are missing.
        ScaffoldError: from the client.
    """
    settings = in_found_run(settings)
    settings = as_in_learning(settings, manifest_file(settings.cache_dir, settings.role), stream)
    load_tasks_of(settings.cache_dir, given=settings.task)
    path = library_file(settings.experiences_dir, settings.role)
    if not path.is_file():
        raise MissingInputError(
            f"No library at {path}",
            fix=f"Run python -m grpo_training.{settings.role.replace('_', '')} first, or pass --experiences-dir.",
        )
    check_endpoint(settings, settings.role)
    library = ExperienceLibrary(path)
    if not library.state.tested:
        raise InputError(f"{path} has no experience to test", fix="Learn first.")
    problems = _shuffled(settings, stream)
    if reported_before(settings, named_endpoints(settings), library, problems, stream) is not None:
        return 0
    with open_endpoints(settings) as manager:
        check_budget(settings, manager, settings.role)

        async def open_and_gate() -> None:
            async with open_client(settings, manager) as client:
                await gate(settings, client, manager, library, problems, stream)

        run_async(open_and_gate())
    return 0


def _shuffled(settings: GateSettings, stream: TextIO) -> list[Problem]:
    read = read_problems(settings).problems
    problems = without_duplicates(read)  # equal prompts have equal stored answers, which are no further evidence
    if len(problems) < len(read):
        print(f"{len(read) - len(problems)} problems are left out, as their text occurs twice.", file=stream)
    check_number(problems, settings.dataset)
    return shuffled(problems, settings.seed)


def reported_before(
    settings: GateSettings, manager: ApiManager, library: ExperienceLibrary, problems: Sequence[Problem], stream: TextIO
) -> GateEvent | None:
    """Print the verdict of an earlier gate that is valid; None if the library has to be tested.

    Args:
        settings, library, problems, stream: as :func:`gate`.
        manager: the endpoints, of which only the names of the models are used.
    """
    earlier = gate_before(settings, manager, library, problems)
    if earlier is None:
        return None
    if earlier.dataset == dataset_hash(problems):
        print("This version was tested on these problems before; nothing is asked.", file=stream)
    else:
        print(
            f"This version was rejected with {earlier.model}; nothing is asked until the library changes.", file=stream
        )
    print("\n".join(verdict_lines(earlier)), file=stream)
    return earlier


async def gate(
    settings: GateSettings,
    client: LLMClient,
    manager: ApiManager,
    library: ExperienceLibrary,
    problems: Sequence[Problem],
    stream: TextIO,
    *,
    tests: int = 1,
) -> GateEvent:
    """Test a library on problems in their order, and write the verdict into its log.

    Args:
        settings: role and sampling.
        client: asks.
        manager: the endpoints.
        library: is tested.
        problems: that are asked.
        stream: where the verdict is printed.
        tests: libraries that are tested together on these problems; they share the probability of a wrong verdict.

    Returns:
        the event in the library's log.

    Raises:
        IncompleteRunError: some answers are missing.
        ScaffoldError: from the client.
    """
    state, model = library.state, manager.endpoint(settings.role).model
    samples = settings.samples_of(problems)
    reported = reported_before(settings, manager, library, problems, stream)
    if reported is not None:
        return reported
    before, earlier = tests_before(library, problems, model), same_test(settings, manager, library, problems)
    # A test that goes on keeps its alpha: the intervals of all its looks hold together.
    alpha = alpha_of_test(before + 1) / tests if earlier is None else earlier.alpha
    test = GroupSequentialTest(len(problems), samples, alpha)
    source_count = _own(problems, state)
    print(*_introduction(settings, state, test, model, source_count, before, earlier, tests), sep="\n", file=stream)
    asked = await ask_until_clear(
        settings,
        client,
        (
            Arm("with", settings.role, settings.prompts, LearnedExperiences(state, without_own=True)),
            Arm("without", settings.role, settings.prompts),
        ),
        problems,
        test,
        settings.cache_dir / f"{settings.role}_gate_{len(gates_of(library)) + 1}.samples.jsonl",
        stream,
        judge_role=manager.role_of(JUDGE_ROLE, settings.role),
        what="prompts, with and without the library",
    )
    finding = asked.finding
    verdict: Literal["adopted", "rejected", "not_proven"] = "not_proven"
    if finding.verdict in ("better", "worse"):
        verdict = "adopted" if finding.verdict == "better" else "rejected"
    next_alpha = alpha_of_test(before + (2 if earlier is None else 1)) / tests  # of another gate on these problems
    event = GateEvent(
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        version=state.version,
        verdict=verdict,
        mean=round(finding.mean, 4),
        low=round(finding.low, 4),
        high=round(finding.high, 4),
        problems=finding.problems,
        of=len(problems),
        open=asked.open,
        own=source_count,
        samples=samples,
        alpha=round(test.alpha, 6),
        looks=asked.looks,
        dataset=dataset_hash(problems),
        problem_hashes=problem_hashes(problems),
        sampling=sampling_hash(settings),
        tested=tested_hash(state),
        model=model,
        right_with=round(asked.right[0], 4),
        right_without=round(asked.right[1], 4),
        tokens=sum(asked.tokens),
        tokens_ratio=asked.tokens_ratio,
        cost_usd=sum_of_costs(asked.costs),
        needed=problems_needed(finding.variance, alpha=next_alpha) if verdict == "not_proven" else None,
    )
    library.record_gate(event)
    print(*verdict_lines(event), sep="\n", file=stream)
    return event


def _introduction(
    settings: GateSettings,
    state: LibraryState,
    test: GroupSequentialTest,
    model: str,
    source_count: int,
    before: int,
    earlier: GateEvent | None,
    tests: int,
) -> list[str]:
    """What is going to be tested, and how sure its result will be, in sentences.

    Args:
        settings: of the gate.
        state: of the library.
        test: its looks and its alpha.
        model: that is asked.
        source_count: how many of the problems experiences were learned from.
        before: how many other tests have asked some of these problems.
        earlier: the test that goes on.
        tests: libraries that are tested together.
    """
    early = ", ".join(map(str, test.looks[:-1]))
    stops = "All are asked" if settings.ask_all else f"It may stop after {early} or {test.looks[-1]} problems"
    remarks = [
        f"Library of {settings.role}, version {state.version}, {counted(len(state.tested), 'experience')} in use; "
        f"{test.looks[-1]} problems with {test.samples} answers each way. {stops}."
    ]
    if earlier is not None:
        still_open = f", which has left {earlier.open} problems open," if earlier.open else ""
        remarks.append(f"The gate that stopped after {earlier.problems} problems{still_open} goes on.")
    elif before:
        remarks.append(
            f"Earlier gates that asked some of these problems: {before}. This one may be wrong with a probability of "
            f"{test.alpha:.2g} only (the first: {alpha_of_test(1) / tests:.2g}), so that its interval is wider. "
            "Problems that no gate has asked have no such loss."
        )
    if source_count:
        remarks.append(
            f"{source_count} of the problems are those that experiences were learned from; each is asked without "
            "its own. The result holds for these problems."
        )
    if state.trials.model not in ("", model):
        remarks.append(f"The experiences were measured with {state.trials.model}, and {model} is asked.")
    return remarks


def _own(problems: Sequence[Problem], state: LibraryState) -> int:
    """How many of the problems were learned from. One that is a case, and was not asked before, has decided nothing."""
    learned = [
        entry for entry in state.live if entry.kind != "case" or any(group.mean is not None for group in entry.evidence)
    ]
    ids = set[str]().union(*map(sources_of, learned))
    texts = set[str]().union(*map(texts_of_sources, learned))
    return sum(problem.id in ids or kept_text(problem) in texts for problem in problems)
