"""Learn, test, and say what was found."""

from __future__ import annotations

import asyncio
import functools
import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TextIO, TypeVar

from engine.api_manager import GENERATORS, ApiManager
from engine.errors import BudgetExceededError, ScaffoldError
from engine.experience.library import ExperienceLibrary
from engine.llm.budget import Budget
from grpo_training.cli.entry import run_async
from grpo_training.cli.settings import shown_path
from grpo_training.gate.earlier import gate_before
from grpo_training.gate.problems import shuffled
from grpo_training.gate.run import gate, reported_before
from grpo_training.gate.settings import GateSettings
from grpo_training.improve.improved import Improved
from grpo_training.improve.improved_folder import ImprovedFolder, Results
from grpo_training.improve.plan import Plan
from grpo_training.improve.problems import read_plan
from grpo_training.improve.settings import ImproveSettings
from grpo_training.learning.cases import add_other_cases
from grpo_training.learning.critic import prepared_critic
from grpo_training.learning.generator import prepared_generator
from grpo_training.learning.learner import Learner
from grpo_training.learning.run import learn, shown_again
from grpo_training.learning.settings import CriticSettings, GeneratorSettings
from grpo_training.runs.estimate import show_prompt
from grpo_training.runs.folder import RunFolder, automatic_name, library_file, manifest_file, model_of, run_folder
from grpo_training.runs.problems import prompt_of, remarks_on
from grpo_training.runs.run import OtherRunError, load_manifest
from grpo_training.runs.settings import ClientSettings, tell_what_is_missing
from grpo_training.runs.trackers import open_trackers
from grpo_training.serve.endpoints import (
    check_budget,
    check_endpoint,
    named_endpoints,
    open_client,
    open_endpoints,
    price,
)

_SEED_STEP = 1000
"""Difference between the seeds of generators: equal prompts to one model must draw different samples."""
_NO_GAIN = 3

SettingsT = TypeVar("SettingsT", bound=ClientSettings)


def run_improve(settings: ImproveSettings, stream: TextIO) -> int:
    """Learn from problems, test what was learned, and write what can be used; the exit code.

    Raises:
        InputError: the problems cannot be used.
        ScaffoldError: a refusing endpoint, an exhausted budget, missing answers.
    """
    if settings.dry_run:
        _prepared(settings, stream)
        return 0
    improved, _ = improve_with(settings, stream)
    return _NO_GAIN if settings.fail_without_gain and improved.result.verdict != "adopted" else 0


def improve_with(settings: ImproveSettings, stream: TextIO) -> tuple[Improved, Path]:
    """Learn, test, and write what can be used; that, and the folder of the run.

    Raises:
        InputError, ScaffoldError: as :func:`run_improve`.
    """
    settings, run, plan = _prepared(settings, stream)
    print(f"Run: {run.name}, in {shown_path(run.folder)}", file=stream, flush=True)
    with open_trackers(settings.report_to, run.name, settings) as trackers:
        improved = _improve(settings, run, plan, stream)
        trackers.log(improved.figures())
    result = improved.result
    print(f"\n{result.sentence}", file=stream)
    if result.remark:
        print(f"  {result.remark}", file=stream)
    if lines := _open_problems(settings, run):
        print(f"  {len(lines)} problems of the learning are open; the same command asks for these again:", file=stream)
        print(*(f"    {text}" for text in lines), sep="\n", file=stream)
    _say_places(run, bool(improved.experiences), stream)
    return improved, run.folder


def _prepared(settings: ImproveSettings, stream: TextIO) -> tuple[ImproveSettings, RunFolder, Plan]:
    """The settings that hold, the folder of the run, and its plan.

    Shows what will be asked, in a dry run with a prompt.
    """
    settings = settings.for_its_model()
    run = run_folder(settings.run or automatic_name(settings.dataset, model_of(settings)))
    settings = settings.model_copy(update={"run": run.name, "cache_dir": run.cache, "experiences_dir": run.experiences})
    plan, note = read_plan(settings)
    # A task that cannot score the problems is refused here.
    for text in filter(None, (note, *remarks_on([*plan.learned_from, *plan.tested]))):
        print(text, file=stream)
    check_endpoint(settings, GENERATORS[0])
    _show(plan, settings, stream)
    if settings.dry_run:
        first = plan.learned_from[0]
        show_prompt(prompt_of(first, (), settings.prompts), stream)
        tell_what_is_missing(lambda: check_endpoint(settings.to_ask(), GENERATORS[0]), stream)
    return settings, run, plan


def _say_places(run: RunFolder, has_learned: bool, stream: TextIO) -> None:
    """Where the result is, and how to look at it."""
    print(f"  to use it: {shown_path(run.folder / 'improved')} (README.md says how)", file=stream)
    if has_learned:
        print(f"  what was learned: python -m grpo_training.experiences --run {run.name}", file=stream)
    print(f"  in a browser: python -m grpo_training.view --run {run.name}", file=stream, flush=True)


def _improve(settings: ImproveSettings, run: RunFolder, plan: Plan, stream: TextIO) -> Improved:
    """Learn and test, and write what can be used. No server is started if all was answered and tested before.

    Args:
        settings: of the run.
        run: its folder.
        plan: what is asked.
        stream: gets what is said.
    """
    run.cache.mkdir(parents=True, exist_ok=True)
    budget = settings.open_budget()
    with ExitStack() as stack:

        @functools.cache
        def endpoints() -> ApiManager:
            manager = stack.enter_context(open_endpoints(settings))
            for role in GENERATORS[: settings.generators]:
                check_budget(settings, manager, role)
            return manager

        _allow(budget, settings, sum(plan.learning_tokens) / sum(plan.tokens))  # so that the test can be paid for
        stopped = _learn(settings, plan, endpoints, budget, stream)
        nothing_to_test = stopped is not None and not _has_to_test(settings, plan)
        _allow(budget, settings, 1.0)
        if nothing_to_test:  # the results of before are set aside already
            stopped = _learn(settings.model_copy(update={"fresh": False}), plan, endpoints, budget, stream)
        for library in _libraries(settings) if stopped is None else ():
            add_other_cases(library, [*plan.learned_from, *(plan.tested if settings.test is None else ())])
        result_folder = ImprovedFolder(settings, run, plan, _model(settings))
        results = _tested(result_folder, endpoints, budget, stopped, stream)
        if not endpoints.cache_info().currsize:
            print("All was answered and tested before; nothing is asked.", file=stream)
    return result_folder.write(results, has_learned_all=stopped is None)


def _model(settings: ImproveSettings) -> str:
    is_local = settings.endpoint == "local"
    return settings.local_model.name if is_local else named_endpoints(settings).endpoint(GENERATORS[0]).model


def _tested(
    result_folder: ImprovedFolder,
    endpoints: Callable[[], ApiManager],
    budget: Budget,
    stopped: ScaffoldError | None,
    stream: TextIO,
) -> Results:
    """Test the library of each generator; one without experiences in use has no test.

    What was learned is written before, so that it is there if the test does not end.

    Args:
        result_folder: where it is written.
        endpoints: opens the endpoints.
        budget: of the run.
        stopped: what has ended the learning before it was complete.
        stream: gets what is said.

    Raises:
        ScaffoldError: ``stopped``, if there is nothing to test; from the test.
    """
    settings, libraries = result_folder.settings, _libraries(result_folder.settings)
    problems, named = shuffled(result_folder.plan.tested, settings.seed), named_endpoints(settings)
    results: Results = []
    to_test = []
    for role, library in zip(GENERATORS, libraries, strict=False):
        of_role, event = _gate_settings(settings, result_folder.plan, role), None
        if library.state.tested:
            event = reported_before(of_role, named, library, problems, stream)
            to_test += [(len(results), of_role)] if event is None else []
        results.append((library, event))
    if stopped is None and not to_test:
        return results

    async def test(manager: ApiManager) -> None:
        async with open_client(settings, manager, budget=budget) as client:
            for index, of_role in to_test:
                library = libraries[index]
                event = await gate(of_role, client, manager, library, problems, stream, tests=settings.generators)
                results[index] = library, event

    try:
        if stopped is not None and not any(library.state.tested for library in libraries):
            raise stopped
        if to_test:
            result_folder.write_unfinished(libraries)
            run_async(test(endpoints()))
    except (ScaffoldError, KeyboardInterrupt):
        print(f"\n{result_folder.write_unfinished(libraries)}", file=stream)
        _say_places(result_folder.run, any(library.state.live for library in libraries), stream)
        raise
    return results


def _show(plan: Plan, settings: ImproveSettings, stream: TextIO) -> None:
    is_local = settings.endpoint == "local"
    cost = 0.0 if is_local else price(settings, settings.load_endpoints(), GENERATORS[0], *plan.tokens)
    for line in plan.lines(cost):
        print(line, file=stream)
    of_tokens = math.inf if settings.budget_tokens is None else settings.budget_tokens / sum(plan.tokens)
    of_usd = math.inf if settings.budget_usd is None or not cost else settings.budget_usd / cost
    share = min(of_tokens, of_usd)
    if share < 1:
        print(
            f"The budget is {max(1, round(100 * share))} % of this: learning will stop early, and the test may end "
            "without a verdict. The same command then continues with as much again.",
            file=stream,
        )


def _allow(budget: Budget, settings: ImproveSettings, share: float) -> None:
    """Let what is done from now on use this share of the budget."""
    budget.usd = None if settings.budget_usd is None else settings.budget_usd * share
    budget.tokens = None if settings.budget_tokens is None else max(1, int(settings.budget_tokens * share))


def _open_problems(settings: ImproveSettings, run: RunFolder) -> list[str]:
    """The problems of each generator and of the critic that are open although it has ended, with the reason."""
    learners = [*GENERATORS[: settings.generators], *(["critic"] if settings.critic else [])]
    manifests = [(name, load_manifest(manifest_file(run.cache, name))) for name in learners]
    return [f"{name}, {text}" for name, manifest in manifests if manifest is not None for text in manifest.open]


def _libraries(settings: ImproveSettings) -> list[ExperienceLibrary]:
    roles = GENERATORS[: settings.generators]
    return [ExperienceLibrary(library_file(settings.experiences_dir, role)) for role in roles]


def _has_to_test(settings: ImproveSettings, plan: Plan) -> bool:
    """Whether a library has experiences in use that no earlier start has tested."""
    problems, manager = shuffled(plan.tested, settings.seed), named_endpoints(settings)
    return any(
        library.state.tested and gate_before(_gate_settings(settings, plan, role), manager, library, problems) is None
        for role, library in zip(GENERATORS, _libraries(settings), strict=False)
    )


def _learn(
    settings: ImproveSettings, plan: Plan, endpoints: Callable[[], ApiManager], budget: Budget, stream: TextIO
) -> BudgetExceededError | None:
    """Run the generators and the critic; the error if the budget has stopped them before they were complete."""
    numbers = ",".join(str(number) for number in range(1, settings.generators + 1))
    of_critic = _of_settings(CriticSettings, settings, generators=numbers) if settings.critic else None
    try:
        generators = [
            prepared_generator(role, _generator_settings(settings, plan, index))
            for index, role in enumerate(GENERATORS[: settings.generators])
        ]
        for generator in generators:
            generator.is_announced = True
            generator.may_end = settings.epochs is None and not settings.critic  # a critic needs the groups of all
        starts = [generator for generator in generators if shown_again(generator) is None]
        if not starts and (of_critic is None or shown_again(prepared_critic(of_critic)) is not None):
            return None
        run_async(_learn_together(settings, starts, of_critic, endpoints(), budget))
    except BudgetExceededError as error:
        print(f"Learning has used its part of the budget ({error.why}).", file=stream, flush=True)
        return error
    except OtherRunError as error:  # its advice names --resume, a flag of the generators
        fix = "Pass --fresh to set the stored results aside, or another --run to keep both."
        raise OtherRunError(error.what, why=error.why, fix=fix) from None
    return None


async def _learn_together(
    settings: ImproveSettings,
    generators: Sequence[Learner],
    critic: CriticSettings | None,
    manager: ApiManager,
    budget: Budget,
) -> None:
    """Run generators with one client, and then the critic. The first error stops all of them."""
    is_one_of_several = settings.generators > 1 or settings.critic
    async with open_client(settings, manager, budget=budget) as client:

        async def run(learner: Learner) -> None:
            await learn(learner, manager, nullcontext(client), is_one_of_several=is_one_of_several)

        tasks = [asyncio.ensure_future(run(generator)) for generator in generators]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if critic is not None:
            await run(prepared_critic(critic))


def _generator_settings(settings: ImproveSettings, plan: Plan, index: int) -> GeneratorSettings:
    return _of_settings(
        GeneratorSettings,
        settings,
        epochs=plan.epochs,
        hold_out=settings.test is None,
        seed=settings.seed + _SEED_STEP * index,
    )


def _of_settings(model: type[SettingsT], settings: ImproveSettings, **own_settings: object) -> SettingsT:
    """The settings of a step: those that it shares with this command, and its own."""
    shared = {name: getattr(settings, name) for name in model.model_fields if hasattr(settings, name)}
    return model.model_validate(shared | {"run": None} | own_settings)  # its folders are given


def _gate_settings(settings: ImproveSettings, plan: Plan, role: str) -> GateSettings:
    return _of_settings(GateSettings, settings, role=role, samples=plan.samples)
