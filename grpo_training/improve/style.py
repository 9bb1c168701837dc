"""Which prompt style a model keeps to: both are tried on a few problems before anything is learned."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from engine.api_manager import GENERATORS, JUDGE_ROLE, ApiManager
from engine.errors import IncompleteRunError
from engine.llm.budget import Budget
from engine.records import Problem, Sampling
from engine.storage.append_log import replace_file
from engine.tasks.registry import task_named
from grpo_training.agents.generator import generator_messages
from grpo_training.cli.entry import run_async
from grpo_training.evaluate.arms import ProblemResult
from grpo_training.evaluate.sampling import evaluate_problems
from grpo_training.improve.settings import FULL, ImproveSettings
from grpo_training.serve.endpoints import open_client

PROMPT_STYLE = "prompt_style.json"
"""File of a run: the style that was chosen, and why."""
_STYLES = (FULL, "compact")
_PROBLEMS, SAMPLES = 6, 4
_FIRST_SAMPLE = 20_000_000
"""These samples have indices that no run and no test uses."""


class ChosenStyle(NamedTuple):
    """A prompt style, and a line that says why it was taken."""

    style: str
    why: str


def tried_problems(problems: Sequence[Problem]) -> Sequence[Problem]:
    """The problems on which styles are tried: none if their prompts are the same in both."""
    first = problems[:_PROBLEMS]
    full, compact = (
        [generator_messages(task_named(problem.task), problem, (), style) for problem in first] for style in _STYLES
    )
    return first if full != compact else ()


def replies_of_trial(problems: Sequence[Problem]) -> int:
    """How many replies the trial asks for."""
    return len(_STYLES) * SAMPLES * len(problems)


def stored_style(path: Path) -> ChosenStyle | None:
    """The style that a run has chosen; None if it has not."""
    return ChosenStyle(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def chosen_style(
    settings: ImproveSettings, manager: ApiManager, problems: Sequence[Problem], path: Path, budget: Budget
) -> ChosenStyle:
    """The style with more right answers; of equal ones that with more replies that can be read, else ``full``.

    The choice is stored, so that a run that is continued keeps it.

    Args:
        settings: the sampling.
        manager: the endpoints; the first generator's is asked.
        problems: those of :func:`tried_problems`.
        path: file of the choice.
        budget: is spent from.

    Raises:
        IncompleteRunError: answers are missing.
        ScaffoldError: from the client.
    """
    tried = run_async(_tried(settings, manager, problems, budget))
    pairs = [pair for pair in zip(*tried, strict=True) if not any(result.refused for result in pair)]
    if not pairs:
        raise _incomplete("The endpoint refused all of them.")
    if not all(result.is_complete for pair in pairs for result in pair):
        raise _incomplete("Their requests failed, or an answer could not be checked.")
    scores = {
        style: (sum(result.counts[1] for result in results), sum(SAMPLES - result.unreadable for result in results))
        for style, results in zip(_STYLES, zip(*pairs, strict=True), strict=True)
    }
    style = max(_STYLES, key=scores.__getitem__)  # the first one if they are equal
    shown = "; ".join(f"{name}: {right} right, {usable} usable" for name, (right, usable) in scores.items())
    why = f"Prompt style: {style}, of {SAMPLES * len(pairs)} answers each way ({shown}); --prompts sets it"
    chosen = ChosenStyle(style, why)
    replace_file(path, json.dumps(chosen._asdict()).encode())
    return chosen


async def _tried(
    settings: ImproveSettings, manager: ApiManager, problems: Sequence[Problem], budget: Budget
) -> list[list[ProblemResult]]:
    """The result of each problem, in each style."""
    sampling = Sampling(
        temperature=settings.temperature, top_p=settings.top_p, max_tokens=settings.max_tokens, seed=settings.seed
    )
    async with open_client(settings, manager, budget=budget) as client:
        return [
            await evaluate_problems(
                client,
                GENERATORS[0],
                problems,
                samples=SAMPLES,
                sampling=sampling,
                first_sample=_FIRST_SAMPLE,
                style=style,
                judge_role=manager.role_of(JUDGE_ROLE, GENERATORS[0]),
            )
            for style in _STYLES
        ]


def _incomplete(why: str) -> IncompleteRunError:
    return IncompleteRunError(
        f"Answers are missing with which the prompt styles {' and '.join(_STYLES)} are compared",
        why=why,
        fix="Run the same command again: stored answers are reused. Or set the style: --prompts full.",
    )
