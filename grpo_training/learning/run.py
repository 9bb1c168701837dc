"""One run of a learner, a generator or the critic: everything is opened, the loop runs, and the table is printed."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, TypeVar

from engine.api_manager import JUDGE_ROLE, ApiManager
from engine.experience.events import BeginEvent
from engine.experience.library import ExperienceLibrary
from engine.experience.state import LibraryState
from engine.experience.trial import PROBABLE
from engine.llm.budget import Counters
from engine.llm.client import LLMClient
from engine.storage.rollout_store import RolloutStore
from grpo_training.agents.judge import Judge
from grpo_training.cli.entry import run_async
from grpo_training.cli.progress import Progress, Row, print_next
from grpo_training.cli.settings import shown_path
from grpo_training.cli.terminal_text import counted, say
from grpo_training.learning.analysis import ExperienceExtractor, make_analyst
from grpo_training.learning.experience_choice import choice_record
from grpo_training.learning.learner import Learner
from grpo_training.learning.loop import LearningLoop
from grpo_training.learning.scoring import open_scorer
from grpo_training.learning.settings import CriticSettings, GeneratorSettings
from grpo_training.runs.folder import library_file, manifest_file, results_file
from grpo_training.runs.problems import task_facts
from grpo_training.runs.run import OPEN, Run, stamp_of
from grpo_training.runs.window import default_window
from grpo_training.serve.endpoints import (
    asks_in_batches,
    check_budget,
    check_endpoint,
    model_facts,
    named_endpoints,
    open_client,
    open_endpoints,
)

SettingsT = TypeVar("SettingsT", GeneratorSettings, CriticSettings)


def prepared(
    role: str, settings: SettingsT, make_learner: Callable[[RolloutStore, Run, SettingsT], Learner]
) -> Learner:
    """A learner with its input read and its files checked. Starts no server, and moves nothing with ``--fresh``.

    Args:
        role: of the learner.
        settings: as given; ``--resume`` replaces them by the stored ones.
        make_learner: called with where its records are kept, its run, and the settings that hold. Raises
            ``InputError`` for unusable input.

    Raises:
        ScaffoldError: bad input, or an endpoint that is not configured.
    """
    check_endpoint(settings, role)
    may_grow = settings.window is None
    store = RolloutStore(results_file(settings.cache_dir, role))
    manifest = manifest_file(settings.cache_dir, role)
    run = Run(manifest, [store.path], lock=store, experiences=settings.experiences_dir)
    settings = run.resumed(settings)
    stored = run.stored(settings)
    if settings.window is None and stored is not None:
        settings = settings.model_copy(update={"window": stored.window})
    learner = make_learner(store, run, settings)
    learner.may_grow = may_grow
    run.check(settings, task_facts(settings.task))
    return learner


def run_learner(learner: Learner) -> int:
    """Run a learner until all its steps are done, and name the commands that show the run; the exit code.

    Raises:
        ScaffoldError: a refusing endpoint, an exhausted budget, or a step that stayed open.
    """
    settings = learner.settings
    has_learned = shown_again(learner)
    if has_learned is None:
        with open_endpoints(settings) as manager:
            has_learned = run_async(learn(learner, manager, open_client(settings, manager)))
    print_next(next_commands(learner.role, settings, has_learned=has_learned))
    return 0


def shown_again(learner: Learner) -> bool | None:
    """Print the table of a run that an earlier start has completed; whether its library has experiences.

    Starts no server.

    Returns:
        None if there may be something to ask; then nothing is printed.
    """
    settings = learner.settings
    if settings.window is None:  # nothing has begun
        return None
    manifest = learner.run.finished(settings, _facts(named_endpoints(settings), learner))
    report = None if manifest is None else manifest.report_of(_stamp(learner))
    # One that ended early is complete only for a start that may end early too.
    if report is None or (report["totals"]["groups"] < learner.total and not learner.may_end):
        return None
    progress = Progress(learner.role, report["totals"]["groups"], Counters, verbose=settings.verbose)
    with progress:
        for text in report["notes"]:
            progress.note(text)
        progress.restored_all(report["totals"])
    table = report["table"]
    progress.summary([Row(name, Path(value) if is_path else value, detail) for name, value, is_path, detail in table])
    for line in report["after"]:
        say(line)
    return bool(report["has_learned"])


def _facts(manager: ApiManager, learner: Learner) -> dict[str, Any]:
    known = {"prompt_hash": learner.prompt_hash, **model_facts(manager, learner.role)}
    return known | task_facts(learner.settings.task)


async def learn(
    learner: Learner,
    manager: ApiManager,
    opened: AbstractAsyncContextManager[LLMClient],
    *,
    is_one_of_several: bool = False,
) -> bool:
    """Run a learner until all its steps are done; whether its library has experiences then.

    Args:
        learner: what is run.
        manager: the endpoints.
        opened: gives the client, once the files are locked.
        is_one_of_several: the client and the terminal are those of other learners too.
    """
    role, settings, learns = learner.role, learner.settings, learner.settings.learn != "none"
    check_budget(settings, manager, role)
    in_batches, steps = asks_in_batches(settings), learner.total
    # What is learned from the batches of a pass is in the prompts of the next one.
    of_batches = math.ceil(steps / settings.passes) if in_batches and learns else None
    slots = manager.endpoint(role).max_concurrency
    window = settings.window or of_batches or default_window(slots, steps, learns=learns)
    settings = settings.model_copy(update={"window": window})
    with learner.run.open(settings, _facts(manager, learner)) as manifest:
        skipped = [f"skipped {line}" for line in learner.read_stored()]
        path = library_file(settings.experiences_dir, role)
        library = ExperienceLibrary(path, settings.library_capacity, read_only=not learns)
        async with opened as client:
            judge_role = manager.role_of(JUDGE_ROLE, role)
            judge = Judge(client, judge_role, max_tokens=settings.max_tokens, style=settings.prompts)
            with open_scorer(settings, judge) as scorer:
                progress = Progress(
                    role,
                    steps,
                    lambda: client.counters,
                    verbose=settings.verbose,
                    is_one_of_several=is_one_of_several,
                )
                client.report_notices_to(progress.note)
                learner.open(client, manager, scorer, progress)
                analyst = make_analyst(settings, manager, client, role, learner.tasks)
                analysis = ExperienceExtractor(
                    _begun(learner, manager, manifest.run),
                    analyst,
                    library,
                    on_trial=settings.learn == "trial",
                    kinds=learner.kinds,
                    asks=settings.k > 0 or settings.selected_by == "all",
                    makes_cases=settings.cases_in_prompt > 0,
                    makes_instructions=settings.makes_instructions,
                    learns=learns,
                )
                at_once = max(window, steps) if in_batches and not learns else window
                may_grow = learner.may_grow and not in_batches
                loop = LearningLoop(at_once, learner, learner.store, analysis, manifest, progress, may_grow)
                await _run_loop(loop, learner, [*analysis.notes(), *skipped])
                after = list(await learner.after(client, manager, library))
        has_learned = learns and bool(library.state.experiences)
        if loop.open:
            manifest.finish({OPEN: list(dict.fromkeys(loop.open))})
        elif library.notices:
            manifest.finish()
        else:
            table = [
                (row.name, str(row.value), isinstance(row.value, Path), row.is_detail) for row in _rows(loop, learner)
            ]
            printed = {"notes": [*skipped, *learner.notes()], "table": table, "after": after}
            manifest.finish({"totals": progress.totals, **printed, "has_learned": has_learned}, _stamp(learner))
    return has_learned


def _begun(learner: Learner, manager: ApiManager, run: str) -> BeginEvent:
    """What the library's log says of a run."""
    settings = learner.settings
    begun = BeginEvent(at="", run=run, choice=choice_record(settings))
    if settings.learn != "trial":
        return begun
    tasks = sorted({task.name for task in learner.tasks or ()})
    model = manager.endpoint(learner.role).model
    return begun.model_copy(update={"model": model, "tasks": tasks, **task_facts(settings.task)})


def _stamp(learner: Learner) -> str:
    """What the report of a complete run is made of."""
    digest, read = learner.inputs()
    library = library_file(learner.settings.experiences_dir, learner.role)
    experiences = library.read_text(encoding="utf-8", errors="replace") if library.exists() else ""
    return stamp_of([digest, experiences], [*learner.run.results, *read])  # its log grows with each gate


def next_commands(
    role: str, settings: GeneratorSettings | CriticSettings, *, has_learned: bool
) -> list[tuple[str, str]]:
    """Where a complete run can be looked at: what a command shows, and the command.

    Args:
        role: of the learner.
        settings: its settings.
        has_learned: whether its library has experiences.
    """
    experiences, cache = (shlex.quote(str(shown_path(path))) for path in (settings.experiences_dir, settings.cache_dir))
    named = f"--run {settings.run}" if settings.run else ""
    folders = named or f"--experiences-dir {experiences} --cache-dir {cache}"
    learned = [("what was learned", f"python -m grpo_training.experiences --library {role} {folders}")]
    return [
        *(learned if has_learned else []),
        ("in a browser", f"python -m grpo_training.view {named or f'{experiences} {cache}'}"),
    ]


async def _run_loop(loop: LearningLoop, learner: Learner, notes: Iterable[str]) -> None:
    """Run the loop with its display, and print the final table, also after an error."""
    progress = loop.progress
    try:
        with progress:
            for text in [*notes, *learner.notes_before()]:
                progress.note(text)
            progress.restored(learner.stored_groups(), len(loop.analysis.library.state.experiences))
            await loop.run(learner.steps())
            for text in learner.notes():
                progress.note(text)
    finally:
        progress.summary(_rows(loop, learner))


def _rows(loop: LearningLoop, learner: Learner) -> list[Row]:
    totals = loop.progress.totals
    used = f"{totals['with experiences']} of {counted(totals['groups'], 'group')}"
    return [
        Row("learning", f"experiences were in the prompts of {used} (--window {loop.window})"),
        *loop_rows(loop),
        *learner.summary_rows(totals),
    ]


def loop_rows(loop: LearningLoop) -> list[Row]:
    """Rows of the final table: library, effect, open steps; as details ranges of the rewards."""
    state = loop.analysis.library.state
    rows = []
    if loop.analysis.learns:
        rows.append(Row("library", f"{counted(len(state.experiences), 'experience')} (version {state.version})"))
        rows += _trial_rows(state)
    rows += [
        Row("analyst not asked", f"for {counted(count, 'group')}: {reason}") for reason, count in loop.not_asked.items()
    ]
    for item in loop.watch.summary():
        alarm = f"  ⚠ {item.dead.reason}" if item.dead else ""
        rows.append(Row(item.component, f"{item.low:.3f} to {item.high:.3f}{alarm}", is_detail=not alarm))
    still_open = dict.fromkeys(loop.open)  # a problem has one group in each epoch
    if still_open:
        rows.append(Row("open problems", f"{len(still_open)}; the same command asks for these again"))
    return rows + [Row("open", text) for text in still_open]


def _trial_rows(state: LibraryState) -> list[Row]:
    """What was measured: how many experiences, and the best of them."""
    measured = [experience for experience in state.experiences if experience.trial is not None]
    if not measured and not state.retired:
        return []
    beliefs = {experience.id: state.trials.belief(experience) for experience in measured}
    helpful = [experience for experience in measured if beliefs[experience.id].p_helps >= PROBABLE]
    counts = f"{len(helpful)} of {len(measured)} measured probably help; {len(state.retired)} retired"
    rows = [Row("experiences on trial", f"{counts} ({counted(state.trials.groups, 'group')})")]
    for kind in state.trials.together:
        of_kind = state.trials.belief_in(kind)
        rows.append(Row(f"a {kind} more", f"{100 * of_kind.effect:+.1f} points, helps with p = {of_kind.p_helps:.2f}"))
    best = max(helpful, key=lambda experience: beliefs[experience.id].effect, default=None)
    if best is not None and best.trial is not None:
        of_best = beliefs[best.id]
        evidence = f"helps with p = {of_best.p_helps:.2f}, {counted(best.trial.differences, 'group')}"
        rows.append(Row("largest effect", f"{best.id} {100 * of_best.effect:+z.0f} points expected ({evidence})"))
    return rows
