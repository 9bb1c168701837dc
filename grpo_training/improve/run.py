"""Learn, test, and say what was found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TextIO, TypeVar

from agents.generator import generator_messages
from engine.api_manager import GENERATORS, ApiManager
from engine.errors import BudgetExceededError, ScaffoldError
from engine.experience.library import ExperienceLibrary
from engine.records import Problem
from engine.tasks.registry import check_verifiers, task_named
from grpo_training.cli.entry import run_async
from grpo_training.cli.parsing import flags_of
from grpo_training.cli.settings import shown_path
from grpo_training.gate.earlier import gate_before
from grpo_training.gate.problems import check_number, few, shuffled, split
from grpo_training.gate.run import gate
from grpo_training.gate.settings import GateSettings
from grpo_training.improve.home import Home, Results
from grpo_training.improve.improved import Improved
from grpo_training.improve.manifest import is_complete, open_problems, own_manifest, run_stamp
from grpo_training.improve.plan import Plan, passes
from grpo_training.improve.settings import FULL, TRY, ImproveSettings
from grpo_training.improve.style import PROMPT_STYLE, chosen_style, replies_of_trial, stored_style, tried_problems
from grpo_training.learning.generator import run_generator
from grpo_training.learning.settings import CriticSettings, GeneratorSettings
from grpo_training.learning.status import LearnerStatus, is_writing
from grpo_training.runs.estimate import show_prompt, tokens_of
from grpo_training.runs.learner_files import library_file
from grpo_training.runs.manifest import OtherRunError
from grpo_training.runs.named import RunFolder, own_name, run_folder
from grpo_training.runs.problems import read_problems, remarks_on, without_duplicates
from grpo_training.runs.settings import ClientSettings, tell_what_is_missing
from grpo_training.runs.supervisor import Command, CommandFailedError, supervise
from grpo_training.serve.endpoints import (
    check_budget,
    check_endpoint,
    named_endpoints,
    open_client,
    open_endpoints,
)

_SEED_STEP = 1000
"""Difference between the seeds of generators: equal prompts to one model must draw different samples."""
_STOPPED_BY_BUDGET = BudgetExceededError.exit_code
_NO_GAIN = 3

SettingsT = TypeVar("SettingsT", bound=ClientSettings)


def run_improve(settings: ImproveSettings, stream: TextIO) -> int:
    """Learn from problems, test what was learned, and write what can be used; the exit code.

    Raises:
        InputError: the problems cannot be used.
        ScaffoldError: a refusing endpoint, an exhausted budget, missing answers.
    """
    settings = settings.for_its_model()
    run = run_folder(settings.run or own_name(settings, settings.dataset))
    settings = settings.model_copy(update={"run": run.name, "cache_dir": run.cache, "experiences_dir": run.experiences})
    asked_for, settings = settings.prompts, _estimated(settings)
    plan, note = read_plan(settings)
    tried = tried_problems(plan.learned_from, asked_for)
    stored = stored_style(run.folder / PROMPT_STYLE) if tried else None
    if stored is not None:
        settings, tried = settings.model_copy(update={"prompts": stored.style}), ()
    remarks = remarks_on([*plan.learned_from, *plan.tested])  # refuses a task that cannot score them
    if note:
        print(note, file=stream)
    check_endpoint(settings, GENERATORS[0])
    _show(plan, settings, stream)
    if tried:
        number = replies_of_trial(tried)
        print(f"  Before that, {number} answers without experiences show which prompt style is better.", file=stream)
    if stored is not None:
        print(f"  {stored.why}", file=stream)
    if settings.dry_run:
        print(*remarks, sep="\n", file=stream)  # a run has them from its generators
        first = plan.learned_from[0]
        show_prompt(generator_messages(task_named(first.task), first, (), settings.prompts), stream)
        tell_what_is_missing(lambda: check_endpoint(settings.to_ask(), GENERATORS[0]), stream)
        return 0
    print(f"Run: {run.name}, in {shown_path(run.folder)}", file=stream, flush=True)
    if not tried and is_complete(own_manifest(settings, run, plan, named_endpoints(settings)), settings, run):
        print("All was answered and tested before; nothing is asked.", file=stream)
        improved = Improved.load(run.folder / "improved")
    else:
        improved = _improve(settings, run, plan, tried, stream)
    result = improved.result
    print(f"\n{result.sentence}", file=stream)
    if result.remark:
        print(f"  {result.remark}", file=stream)
    if left := open_problems(settings, run):
        print(f"  {len(left)} problems of the learning are open; the same command asks for these again:", file=stream)
        print(*(f"    {text}" for text in left), sep="\n", file=stream)
    _say_places(run, bool(improved.experiences), stream)
    return _NO_GAIN if settings.fail_without_gain and result.verdict != "adopted" else 0


def _say_places(run: RunFolder, has_learned: bool, stream: TextIO) -> None:
    """Where the result is, and how to look at it."""
    print(f"  to use it: {shown_path(run.folder / 'improved')} (README.md says how)", file=stream)
    if has_learned:
        print(f"  what was learned: python -m grpo_training.experiences --run {run.name}", file=stream)
    print(f"  in a browser: python -m grpo_training.view --run {run.name}", file=stream, flush=True)


def _estimated(settings: ImproveSettings) -> ImproveSettings:
    """With the style whose prompts are counted and shown where the style is still to be chosen."""
    return settings.model_copy(update={"prompts": FULL}) if settings.prompts == TRY else settings


def _improve(
    settings: ImproveSettings, run: RunFolder, plan: Plan, tried: Sequence[Problem], stream: TextIO
) -> Improved:
    """Learn and test, and write what can be used; the manifest too, unless a budget has stopped the learning.

    Args:
        settings: of the run.
        run: its folder.
        plan: what is asked.
        tried: problems on which the prompt styles are tried first.
        stream: gets what is said.
    """
    run.cache.mkdir(parents=True, exist_ok=True)
    settings = settings.spending_from(settings.open_budget())
    with open_endpoints(settings) as manager:
        for role in GENERATORS[: settings.generators]:
            check_budget(settings, manager, role)
        _allow(settings, plan.share_of_learning)  # so that the test can be paid for
        if tried:
            chosen = chosen_style(settings, manager, tried, run.folder / PROMPT_STYLE)
            print(chosen.why, file=stream, flush=True)
            settings = settings.model_copy(update={"prompts": chosen.style})
        stopped = _learn(settings, plan, run, stream)
        nothing_to_test = stopped is not None and not _has_to_test(settings, manager, plan)
        _allow(settings, 1.0)
        if nothing_to_test:
            stopped = _learn(settings, plan, run, stream)
        is_local = settings.endpoint == "local"
        model = settings.local_model.name if is_local else manager.endpoint(GENERATORS[0]).model
        home = Home(settings, run, plan, model)
        results = _tested(home, settings, manager, stopped, stream)
    improved = home.write(results, has_learned_all=stopped is None)
    is_open = open_problems(settings, run) or any(event is not None and event.open for _, event in results)
    if stopped is None and not is_open:
        own_manifest(settings, run, plan, manager).finish({}, run_stamp(settings, run))
    return improved


def _tested(
    home: Home,
    settings: ImproveSettings,
    manager: ApiManager,
    stopped: ScaffoldError | None,
    stream: TextIO,
) -> Results:
    """Test what was learned. It is written before, so that it is there if the test does not end.

    Args:
        home: where it is written.
        settings: with the budget of the test.
        manager: the endpoints.
        stopped: what has ended the learning before it was complete.
        stream: gets what is said.

    Raises:
        ScaffoldError: ``stopped``, if there is nothing to test; from the test.
    """
    libraries = _libraries(settings)
    is_testable = any(library.state.tested for library in libraries)
    if stopped is None and not is_testable:
        return [(library, None) for library in libraries]
    home.write_unfinished(libraries)
    try:
        if stopped is not None and not is_testable:
            raise stopped
        return run_async(_test(settings, manager, home.plan, libraries, stream))
    except (ScaffoldError, KeyboardInterrupt):
        print(f"\n{home.write_unfinished(libraries)}", file=stream)
        _say_places(home.run, any(library.state.texts for library in libraries), stream)
        raise


def read_plan(settings: ImproveSettings) -> tuple[Plan, str]:
    """The problems of a run and how often they are asked; and what was found out about the rows.

    Raises:
        InputError: the problems cannot be read, or there are too few.
    """
    loaded = read_problems(settings)
    notes = [loaded.note] if loaded.note else []
    if settings.test is None:
        learned_from, tested = split(loaded.problems, settings.dataset)
        left_out = len(loaded.problems) - len({one.text for one in loaded.problems})
    else:
        learned_from = list(loaded.problems)
        of_test = read_problems(settings.model_copy(update={"dataset": settings.test, "max_problems": None})).problems
        tested = without_duplicates(of_test, learned_from)
        left_out = len(of_test) - len(tested)
        check_number(tested, settings.test)
    if left_out:
        place = settings.dataset if settings.test is None else settings.test
        disputed = _disputed(loaded.problems)
        notes.append(f"{left_out} problems of {place} are left out, as their text occurs twice{disputed}")
    check_verifiers(tested)
    prompts = [generator_messages(task_named(one.task), one, (), settings.prompts) for one in learned_from[:20]]
    plan = Plan(
        learned_from,
        tested,
        is_held_out={one.id for one in learned_from}.isdisjoint(one.id for one in tested),
        roles=settings.generators,
        rollouts=settings.rollouts,
        epochs=settings.epochs or passes(len(learned_from)),
        samples=settings.samples or (8 if few(tested) else 4),
        prompt_tokens=tokens_of(prompts),
    )
    return plan, "\n".join(notes)


def _disputed(problems: Sequence[Problem]) -> str:
    """How many texts have two different answers, of which the first one counts; empty if none has."""
    of_text: dict[str, set[str]] = {}
    for one in problems:
        of_text.setdefault(one.text, set()).add(task_named(one.task).truth(one).casefold())
    disputed = sum(len(answers) > 1 for answers in of_text.values())
    return f"; {disputed} of these texts have different answers, of which the first one counts" if disputed else ""


def _show(plan: Plan, settings: ImproveSettings, stream: TextIO) -> None:
    cost = _cost(plan, settings)
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


def _cost(plan: Plan, settings: ImproveSettings) -> float | None:
    """The price of all tokens, estimated; a model on this machine costs nothing; None if the prices are not known."""
    if settings.endpoint == "local":
        return 0.0
    manager = settings.load_endpoints()
    if manager.local_model(GENERATORS[0]) is not None:
        return 0.0
    return manager.endpoint(GENERATORS[0]).cost_usd(*plan.tokens)


def _allow(settings: ImproveSettings, share: float) -> None:
    """Let what is done from now on use the budget up to this share of it."""
    budget = settings.open_budget()
    budget.usd = None if settings.budget_usd is None else settings.budget_usd * share
    budget.tokens = None if settings.budget_tokens is None else max(1, int(settings.budget_tokens * share))


def _libraries(settings: ImproveSettings) -> list[ExperienceLibrary]:
    roles = GENERATORS[: settings.generators]
    return [ExperienceLibrary(library_file(settings.experiences_dir, role)) for role in roles]


def _gate_settings(settings: ImproveSettings, plan: Plan, role: str) -> GateSettings:
    return _of_settings(GateSettings, settings, role=role, samples=plan.samples)


def _has_to_test(settings: ImproveSettings, manager: ApiManager, plan: Plan) -> bool:
    """Whether a library has experiences in use that no earlier start has tested."""
    problems = shuffled(plan.tested, settings.seed)
    return any(
        library.state.tested and gate_before(_gate_settings(settings, plan, role), manager, library, problems) is None
        for role, library in zip(GENERATORS, _libraries(settings), strict=False)
    )


def _learn(settings: ImproveSettings, plan: Plan, run: RunFolder, stream: TextIO) -> ScaffoldError | None:
    """Run the generators; what has stopped them before they were complete: the budget of the settings was used."""
    generators = [_generator_settings(settings, plan, index) for index in range(settings.generators)]
    stopped: ScaffoldError
    try:
        if len(generators) == 1 and not settings.critic:
            run_generator(1, generators[0], names_next=False)
        else:
            _learn_in_processes(settings, plan, generators, run)
    except BudgetExceededError as error:
        stopped, reason = error, error.why
    except OtherRunError as error:  # its advice names --resume, a flag of the generators
        fix = "Pass --fresh to set the stored results aside, or another --run to keep both."
        raise OtherRunError(error.what, why=error.why, fix=fix) from None
    except CommandFailedError as error:
        if error.exit_code != _STOPPED_BY_BUDGET:
            raise
        stopped, reason = error, "its processes have spent it"
    else:
        return None
    print(f"Learning has used its part of the budget ({reason}).", file=stream, flush=True)
    return stopped


def _generator_settings(settings: ImproveSettings, plan: Plan, index: int) -> GeneratorSettings:
    return _of_settings(
        GeneratorSettings,
        settings,
        epochs=plan.epochs,
        hold_out=settings.test is None,
        seed=settings.seed + _SEED_STEP * index,
    )


def _of_settings(model: type[SettingsT], settings: ImproveSettings, **own: object) -> SettingsT:
    """The settings of a step: those that it shares with this command, and its own."""
    shared = {name: getattr(settings, name) for name in model.model_fields if hasattr(settings, name)}
    step = model.model_validate(shared | {"run": None} | own)  # its folders are given
    return step.spending_from(settings.open_budget())


def _learn_in_processes(
    settings: ImproveSettings, plan: Plan, generators: Sequence[GeneratorSettings], run: RunFolder
) -> None:
    """Run each generator in a process, and the critic in one more. The budget of each is an equal part of what is left.

    What a process does not use of its part is not used at all: nothing says what it has spent.
    """
    budget, parts = settings.open_budget(), len(generators) + settings.critic
    usd = None if budget.usd is None else max(0.0, budget.usd - budget.spent_usd) / parts
    tokens = None if budget.tokens is None else max(1, (budget.tokens - budget.spent_tokens) // parts)
    budget.spend(parts * (tokens or 0), parts * (usd or 0.0))
    part = {"budget_usd": usd, "budget_tokens": tokens}
    commands = []
    for number, of_generator in enumerate(generators, 1):
        name, words = GENERATORS[number - 1], flags_of(of_generator.model_copy(update=part))
        status = LearnerStatus(run.cache, run.experiences, name, plan.groups)
        commands.append(Command(name, [f"generator{number}", *words], run.folder / "logs" / f"{name}.log", status))
    if settings.critic:
        numbers = ",".join(str(number) for number in range(1, len(generators) + 1))
        of_critic = _of_settings(CriticSettings, settings, generators=numbers, follow=True, **part)
        status = LearnerStatus(run.cache, run.experiences, "critic", plan.groups)
        commands.append(Command("critic", ["critic", *flags_of(of_critic)], run.folder / "logs/critic.log", status))
    supervise(commands, ready=lambda command: is_writing(run.cache, command.name), check=lambda: None)


async def _test(
    settings: ImproveSettings,
    manager: ApiManager,
    plan: Plan,
    libraries: Sequence[ExperienceLibrary],
    stream: TextIO,
) -> Results:
    """Test the library of each generator; one without experiences in use has no test."""
    results: Results = []
    async with open_client(settings, manager) as client:
        for role, library in zip(GENERATORS, libraries, strict=False):
            event = None
            if library.state.tested:
                own, problems = _gate_settings(settings, plan, role), shuffled(plan.tested, settings.seed)
                event = await gate(own, client, manager, library, problems, stream, tests=settings.generators)
            results.append((library, event))
    return results
