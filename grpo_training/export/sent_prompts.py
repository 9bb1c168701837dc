"""The prompts of stored rollouts, as they were sent."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from engine.records import RolloutGroup
from grpo_training.runs.named import libraries_of, load_tasks_of
from grpo_training.runs.stored_prompts import UNKNOWN_PROMPT, PromptNotFoundError, StoredPrompts

Messages = list[dict[str, Any]]


def sent_prompts(arguments: argparse.Namespace) -> Callable[[RolloutGroup], dict[int, Messages | None]]:
    """A function that renders the prompts of a group: ``rollout_id`` -> the messages; None: they cannot be told.

    A reply to a second request (``re_asked`` in ``repairs``) has the prompt of the first one.

    Args:
        arguments: of ``export``: the cache, and what its prompts are rendered with.
    """
    load_tasks_of(arguments.cache, given=arguments.task)
    prompts = StoredPrompts(arguments.prompts, arguments.experiences_dir or libraries_of(arguments.cache))

    def messages_of(half: RolloutGroup) -> Messages | None:
        try:
            prompt = prompts.render(half, with_experiences=not arguments.strip_experiences)
        except PromptNotFoundError:
            return None
        is_known = prompt.difference != UNKNOWN_PROMPT or arguments.prompts is not None
        return [message.model_dump() for message in prompt.messages] if is_known else None

    def prompts_of(group: RolloutGroup) -> dict[int, Messages | None]:
        by_rollout: dict[int, Messages | None] = {}
        for half in group.by_prompt():
            by_rollout |= dict.fromkeys((rollout.rollout_id for rollout in half.rollouts), messages_of(half))
        return by_rollout

    return prompts_of
