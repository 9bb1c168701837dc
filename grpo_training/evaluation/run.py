"""One evaluation from its settings to its files: what is served, who is asked, what is written."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.datasets import load_problems
from engine.errors import IncompleteRunError, InputError, MissingInputError
from engine.llm.client import LLMClient
from engine.llm.journal import ResponseJournal
from engine.records import Outcome, Sampling, timestamp
from engine.task import task_named
from grpo_training.cli.problem_bar import problem_bar
from grpo_training.cli.settings import POCKET_MODEL
from grpo_training.evaluation.files import FORMAT, ResultFiles
from grpo_training.evaluation.sampling import evaluate_problems
from grpo_training.evaluation.tables import differences, estimates_json, figures, figures_json, show, task_results
from grpo_training.evaluation.targets import (
    BASE,
    GREEDY,
    MODEL,
    SAMPLED,
    arms_of,
    draws_by_server,
    name_by_content,
    served,
)
from grpo_training.libraries.tables import View

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import TextIO

    from engine.records import Experience, Problem
    from grpo_training.evaluation.sampling import JudgedSample, ProblemResult
    from grpo_training.evaluation.settings import EvaluateSettings
    from grpo_training.evaluation.targets import Arm, Served

    Judged = Callable[[ProblemResult, Sequence[JudgedSample]], None]


@dataclass
class ArmResult:
    """What came of asking one model."""

    model: str = ""
    draws: dict[str, list[ProblemResult]] = field(default_factory=dict)
    seconds: float = 0.0
    from_journal: int = 0


def evaluate(settings: EvaluateSettings, stream: TextIO) -> int:
    """Ask, judge, show and write; the exit code.

    Raises:
        InputError, MissingInputError: a model, an adapter, a dataset or a library is not there or cannot be used;
            the results there are of another configuration.
        IncompleteRunError: some problems are left out; the figures of the others are written.
        ScaffoldError: as the client's and the local server's.
    """
    if settings.output.is_dir():
        raise InputError(f"--output: {settings.output} is a folder", fix="Give a file, such as results.json in it.")
    files = ResultFiles(settings.output)
    settings = files.run.resumed(settings)
    problems = load_problems(settings.dataset, max_problems=settings.max_problems)
    lessons = _lessons(settings.experiences)
    arms = arms_of(settings)
    facts = _facts(settings, problems, lessons, arms)
    with files.run.open(settings, facts) as manifest:
        told = _ask_all(settings, arms, problems, lessons, files)
        files.write_figures(_report(settings, facts, told))
        manifest.finish()
    view = View(stream)
    show(view, {name: (arm.draws[SAMPLED], arm.draws.get(GREEDY)) for name, arm in told.items()}, settings.k_values)
    view.line(f"{sum(arm.seconds for arm in told.values()):.0f} s. Figures: {files.figures}")
    view.line(f"Samples: {files.samples}")
    _refuse_missing(told, len(problems))
    return 0


def _ask_all(
    settings: EvaluateSettings,
    arms: Mapping[str, Arm],
    problems: Sequence[Problem],
    lessons: Sequence[Experience],
    files: ResultFiles,
) -> dict[str, ArmResult]:
    told: dict[str, ArmResult] = {}
    with closing(ResponseJournal(files.journal)) as journal, files.new_samples() as write:
        for name, arm in arms.items():
            told[name] = _ask_arm(
                settings, arm, problems, lessons, journal, partial(_followed, write, name, len(problems))
            )
    return told


@contextmanager
def _followed(
    write: Callable[[str, str, ProblemResult, Sequence[JudgedSample]], None], name: str, problems: int, draw: str
) -> Iterator[Judged]:
    """While a model is asked for one draw: what is judged goes to the file of samples and is counted on a bar."""
    with problem_bar(problems, f"{name}, {draw}") as done:

        def judged(result: ProblemResult, samples: Sequence[JudgedSample]) -> None:
            write(name, draw, result, samples)
            count, right = result.counts
            done(right, count)

        yield judged


def _refuse_missing(told: Mapping[str, ArmResult], problems: int) -> None:
    results = [result for arm in told.values() for own in arm.draws.values() for result in own]
    missing = {result.problem_id for result in results if not result.is_complete}
    if missing:
        reasons = sum((Counter(result.outcomes) for result in results if not result.is_complete), Counter[str]())
        faults = Counter({name: count for name, count in reasons.items() if name.startswith(Outcome.INFRA_FAULT)})
        often = "".join(f"Most often: {name} ({count} samples). " for name, count in faults.most_common(1))
        raise IncompleteRunError(
            f"{len(missing)} of {problems} problems are left out: a reply or its checker could not be had",
            why=f"{often}The figures hold for the others only.",
            fix="The same command asks for what is missing, and for nothing else.",
        )


def _report(settings: EvaluateSettings, facts: Mapping[str, Any], told: Mapping[str, ArmResult]) -> dict[str, Any]:
    """The file's content: the keys that readers know first."""
    arms = {name: _arm_json(arm, settings.k_values) for name, arm in told.items()}
    report = {
        "model_path": told[MODEL].model if settings.role else str(settings.model_path or POCKET_MODEL),
        "test_data_path": settings.dataset,
        **arms[MODEL],
        "format": FORMAT,
        "settings": settings.model_dump(mode="json"),
        "facts": facts,
        "timestamp": timestamp(),
    }
    if BASE in told:
        after, before = told[MODEL].draws, told[BASE].draws
        report["base"] = arms[BASE]
        report["difference_to_base"] = {
            draw: estimates_json(differences(after[draw], before[draw], settings.k_values if draw == SAMPLED else [1]))
            for draw in after
        }
    return report


def _arm_json(arm: ArmResult, k_values: Sequence[int]) -> dict[str, Any]:
    greedy = arm.draws.get(GREEDY)
    return {
        **figures_json(figures(arm.draws[SAMPLED], k_values), figures(greedy, [1]) if greedy is not None else None),
        "task_results": task_results(arm.draws[SAMPLED]),
        "model": arm.model,
        "seconds": round(arm.seconds, 3),
        "replies_from_journal": arm.from_journal,
    }


# ------------------------------------------------------------------ before anything is asked


def _lessons(path: Path | None) -> Sequence[Experience]:
    if path is None:
        return ()
    from engine.experience.library import ExperienceLibrary

    if not path.is_file():
        raise MissingInputError(f"No library at {path}", fix="Give a file such as generator_1_experiences.json.")
    return ExperienceLibrary(path, read_only=True).state.experiences


def _facts(
    settings: EvaluateSettings,
    problems: Sequence[Problem],
    lessons: Sequence[Experience],
    arms: Mapping[str, Arm],
) -> dict[str, Any]:
    """What shapes the figures beside the settings: words, problems, lessons, weights."""
    from agents.generator import prompt_hash

    tasks = sorted({problem.task for problem in problems})
    return {
        "prompt_hash": {name: prompt_hash(task_named(name), settings.prompts) for name in tasks},
        "problems_hash": _hash([problem.model_dump(mode="json") for problem in problems]),
        "lessons_hash": _hash([lesson.content for lesson in lessons]),
        "models": {name: name_by_content(arm, settings.role) for name, arm in arms.items()},
    }


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:12]


# ------------------------------------------------------------------ asking


def _ask_arm(
    settings: EvaluateSettings,
    arm: Arm,
    problems: Sequence[Problem],
    lessons: Sequence[Experience],
    journal: ResponseJournal,
    followed: Callable[[str], AbstractContextManager[Judged]],
) -> ArmResult:
    """All draws of one model; ``followed`` gives, by the draw, who is told what was judged."""
    result = ArmResult()
    for draws in draws_by_server(settings, arm):
        with served(settings, arm, next(iter(draws.values()))) as at:
            began = time.monotonic()
            asyncio.run(_ask(settings, at, draws, problems, lessons, journal, followed, result))
            result.seconds += time.monotonic() - began
    return result


async def _ask(
    settings: EvaluateSettings,
    at: Served,
    draws: Mapping[str, Sampling],
    problems: Sequence[Problem],
    lessons: Sequence[Experience],
    journal: ResponseJournal,
    followed: Callable[[str], AbstractContextManager[Judged]],
    result: ArmResult,
) -> None:
    """Add some draws of one endpoint to a result."""
    result.model = at.manager.endpoint(at.role).model
    async with LLMClient(at.manager, journal=journal, ledger=at.ledger, retry=at.retry, budget=at.budget) as client:
        for draw, sampling in draws.items():
            with followed(draw) as judged:

                def one(own: ProblemResult, samples: Sequence[JudgedSample], judged: Judged = judged) -> None:
                    judged(own, samples)
                    at.check()

                result.draws[draw] = await evaluate_problems(
                    client,
                    at.role,
                    problems,
                    samples=_samples_of(settings, draw),
                    sampling=sampling,
                    style=settings.prompts,
                    lessons=lessons,
                    judged=one,
                )
        result.from_journal += client.counters.journal_hits


def _samples_of(settings: EvaluateSettings, draw: str) -> int:
    return 1 if draw == GREEDY else settings.num_samples
