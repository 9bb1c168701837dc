"""The prompts of stored rollouts, as they were sent."""

from __future__ import annotations

import argparse
from typing import Any

from engine.records import RolloutGroup
from grpo_training.runs.named import libraries_of, load_tasks_of
from grpo_training.runs.stored_prompts import UNKNOWN_PROMPT, PromptNotFoundError, StoredPrompts


class SentPrompts:
    """Renders the prompts of the groups of a cache.

    Args:
        arguments: of ``export``: the cache, and what its prompts are rendered with.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        load_tasks_of(arguments.cache, given=arguments.task)
        libraries = arguments.experiences_dir or libraries_of(arguments.cache)
        self._prompts = StoredPrompts(arguments.prompts, libraries)
        self._style = arguments.prompts
        self._with_experiences = not arguments.strip_experiences

    def of(self, group: RolloutGroup) -> dict[int, list[dict[str, Any]] | None]:
        """``rollout_id`` -> the messages of the prompt; None: it cannot be told.

        A reply to a second request (``re_asked`` in ``repairs``) has the prompt of the first one.
        """
        found: dict[int, list[dict[str, Any]] | None] = {}
        for part in group.by_prompt():
            try:
                prompt = self._prompts.render(part, with_experiences=self._with_experiences)
            except PromptNotFoundError:
                messages = None
            else:
                is_known = prompt.difference != UNKNOWN_PROMPT or self._style is not None
                messages = [one.model_dump() for one in prompt.messages] if is_known else None
            found |= dict.fromkeys((one.rollout_id for one in part.rollouts), messages)
        return found
