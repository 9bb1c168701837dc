"""Which prompt style a model keeps to: both are tried on a few problems before anything is learned."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from agents.generator import generator_messages
from engine.api_manager import GENERATORS, JUDGE_ROLE, ApiManager
from engine.errors import IncompleteRunError
from engine.llm.client import LLMClient
from engine.llm.limits.budget import Budget
from engine.records import Problem, Sampling
from engine.storage.append_log import replace_file
from engine.tasks.registry import task_named
from grpo_training.cli.entry import run_async
from grpo_training.evaluate.arms import JudgedSample, ProblemResult
from grpo_training.evaluate.sampling import evaluate_problems
from grpo_training.improve.settings import FULL, TRY, ImproveSettings
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


def tried_problems(problems: Sequence[Problem], style: str) -> Sequence[Problem]:
    """The problems on which styles are tried: none if the style is set, or if the prompts of both are the same."""
    if style != TRY:
        return ()
    first = [generator_messages(task_named(one.task), one, (), FULL) for one in problems[:_PROBLEMS]]
    other = [generator_messages(task_named(one.task), one, (), _STYLES[1]) for one in problems[:_PROBLEMS]]
    return problems[:_PROBLEMS] if first != other else ()


def replies_of_trial(problems: Sequence[Problem]) -> int:
    """How many replies the trial asks for."""
    return len(_STYLES) * SAMPLES * len(problems)


def stored_style(path: Path) -> ChosenStyle | None:
    """The style that a run has chosen; None if it has not."""
    return ChosenStyle(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def chosen_style(
    settings: ImproveSettings, manager: ApiManager, problems: Sequence[Problem], path: Path, budget: Budget
) -> ChosenStyle:
    """The style with more right answers; of equal ones that with more replies that can be used whole, else ``full``.

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
    tried = run_async(_tried_all(settings, manager, problems, budget))
    refused = {name for own in tried.values() for name, one in own.items() if one is None}
    if len(refused) == len(problems):
        raise _incomplete("The endpoint refused all of them.")
    scores = {
        style: tuple(map(sum, zip(*(one for name, one in own.items() if one and name not in refused), strict=True)))
        for style, own in tried.items()
    }
    style = max(_STYLES, key=lambda one: scores[one])  # the first one if they are equal
    of = SAMPLES * (len(problems) - len(refused))
    shown = "; ".join(f"{one}: {right} right, {whole} usable" for one, (right, whole) in scores.items())
    why = f"Prompt style: {style}, of {of} answers each way ({shown}); --prompts sets it"
    chosen = ChosenStyle(style, why)
    replace_file(path, json.dumps(chosen._asdict()).encode())
    return chosen


async def _tried_all(
    settings: ImproveSettings, manager: ApiManager, problems: Sequence[Problem], budget: Budget
) -> dict[str, dict[str, tuple[int, int] | None]]:
    async with open_client(settings, manager, budget=budget) as client:
        return {style: await _tried(settings, client, manager, problems, style) for style in _STYLES}


async def _tried(
    settings: ImproveSettings, client: LLMClient, manager: ApiManager, problems: Sequence[Problem], style: str
) -> dict[str, tuple[int, int] | None]:
    """Of each problem the right answers and the replies that are neither cut off nor unreadable; None if refused."""
    sampling = Sampling(
        temperature=settings.temperature, top_p=settings.top_p, max_tokens=settings.max_tokens, seed=settings.seed
    )
    found: dict[str, tuple[int, int] | None] = {}

    def judged(result: ProblemResult, samples: Sequence[JudgedSample]) -> None:
        whole = sum(one.is_readable and not one.is_truncated for one in samples)
        found[result.problem_id] = None if result.refused else (sum(one.is_right is True for one in samples), whole)

    results = await evaluate_problems(
        client,
        GENERATORS[0],
        problems,
        samples=SAMPLES,
        sampling=sampling,
        first_sample=_FIRST_SAMPLE,
        style=style,
        judged=judged,
        judge_role=manager.role_of(JUDGE_ROLE, GENERATORS[0]),
    )
    if not all(result.is_complete or result.refused for result in results):
        raise _incomplete("Their requests failed, or an answer could not be checked.")
    return found


def _incomplete(why: str) -> IncompleteRunError:
    return IncompleteRunError(
        f"Answers are missing with which the prompt styles {' and '.join(_STYLES)} are compared",
        why=why,
        fix="Run the same command again: stored answers are reused. Or set the style: --prompts full.",
    )
