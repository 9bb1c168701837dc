"""Which problems a run learns from, and which it tests on."""

from __future__ import annotations

from engine.errors import InputError
from engine.task_protocols import AsksByItself
from engine.tasks.registry import check_verifiers, task_named
from grpo_training.gate.problems import check_number, drawn, split
from grpo_training.improve.plan import Plan, passes
from grpo_training.improve.settings import ImproveSettings
from grpo_training.runs.estimate import tokens_of
from grpo_training.runs.problems import prompt_of, read_problems, without_duplicates


def read_plan(settings: ImproveSettings) -> tuple[Plan, str]:
    """The problems of a run and how often they are asked; and what was found out about the rows.

    Raises:
        InputError: the problems cannot be read, or there are too few.
    """
    loaded = read_problems(settings)
    notes = [loaded.note] if loaded.note else []
    if settings.test is None:
        learned_from, tested = split(loaded.problems, settings.dataset)
        left_out = len(loaded.problems) - len({problem.text for problem in loaded.problems})
    else:
        learned_from = list(loaded.problems)
        of_test = read_problems(settings.model_copy(update={"dataset": settings.test, "max_problems": None})).problems
        tested = without_duplicates(of_test, learned_from)
        left_out = len(of_test) - len(tested)
        check_number(tested, settings.test)
    if left_out:
        dataset = settings.dataset if settings.test is None else settings.test
        notes.append(f"{left_out} problems of {dataset} are left out, as their text occurs twice")
    if len(learned_from) > settings.draw:
        notes.append(f"{settings.draw} of {len(learned_from)} problems are learned from (--draw sets it)")
        learned_from = drawn(learned_from, settings.draw)
    check_verifiers(tested)
    if settings.critic and any(isinstance(task_named(problem.task), AsksByItself) for problem in learned_from):
        raise InputError("A program has no critic", fix="Leave out --critic.")
    prompts = [prompt_of(problem, (), settings.prompts) for problem in learned_from[:20]]
    plan = Plan(
        learned_from,
        tested,
        is_held_out={problem.id for problem in learned_from}.isdisjoint(problem.id for problem in tested),
        roles=settings.generators,
        rollouts=settings.rollouts,
        epochs=settings.epochs or passes(len(learned_from)),
        samples=settings.samples_of(tested),
        prompt_tokens=tokens_of(prompts),
    )
    return plan, "\n".join(notes)
