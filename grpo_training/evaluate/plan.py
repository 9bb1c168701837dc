"""What an evaluation will ask, in sentences, before anything is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agents.generator import generator_messages
from engine.experience.choice import PromptExperiences, experiences_for
from engine.records import Message, Problem
from engine.tasks.registry import task_named
from grpo_training.cli.settings import POCKET_MODEL, shown_path
from grpo_training.evaluate.arms import sum_of_costs
from grpo_training.evaluate.models import EvaluatedModel, LocalModel
from grpo_training.evaluate.settings import EvaluateSettings
from grpo_training.runs.estimate import TOKENS_OF_REPLY, tokens_line, tokens_of


def prompt_of(problem: Problem, experiences: PromptExperiences, style: str) -> tuple[Message, ...]:
    """The messages of a problem."""
    return generator_messages(task_named(problem.task), problem, experiences_for(problem, experiences), style)


def subject_line(settings: EvaluateSettings) -> str:
    """Which model is evaluated on which dataset, and the flags that name others, as far as they were not given."""
    if settings.base_url is not None or settings.role is not None:
        model, is_default = settings.model or f"the model of {settings.role}", False
    else:
        parts = [one for one in (settings.model_path, settings.adapter) if one is not None]
        is_default = not parts
        model = " + ".join(str(shown_path(one)) for one in parts or [POCKET_MODEL])
    flags = ["--model-path FOLDER"] if is_default else []
    flags += [] if "dataset" in settings.model_fields_set else ["--dataset FILE"]
    others = f" (default; others: {', '.join(flags)})" if flags else ""
    return f"Evaluates {model} on {settings.dataset}{others}"


def plan_lines(
    settings: EvaluateSettings,
    problems: Sequence[Problem],
    models: Mapping[str, EvaluatedModel],
    experiences: PromptExperiences,
) -> list[str]:
    """How many answers, about how many tokens, and the price.

    Args:
        settings: of the evaluation.
        problems: its problems.
        models: by name; one on this machine costs nothing.
        experiences: those in the prompts.
    """
    of_model = len(problems) * (settings.num_samples + settings.greedy)
    read = of_model * tokens_of([prompt_of(problem, experiences, settings.prompts) for problem in problems[:20]])
    written, costs = of_model * TOKENS_OF_REPLY, list[float | None]()
    for model in models.values():
        endpoint = None if isinstance(model, LocalModel) else model.manager.endpoint(model.role)
        costs.append(0.0 if endpoint is None else endpoint.cost_usd(read, written))
    samples = f"{settings.num_samples} samples" if settings.num_samples > 1 else "1 sample"
    greedy = " and a greedy one" if settings.greedy else ""
    ways = f" of {len(models)} models" if len(models) > 1 else ""
    return [
        f"{len(problems)} problems, {samples}{greedy} each{ways}: {len(models) * of_model:,} answers of at most "
        f"{settings.max_tokens:,} tokens. Stored ones are not asked for again.",
        tokens_line(len(models) * read, len(models) * written, sum_of_costs(costs)),
    ]
