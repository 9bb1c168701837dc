"""Prompts of shots and a query, and asking an endpoint with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.errors import IncompleteRunError
from engine.llm.client import LLMClient
from engine.records import IMAGE_MARK, ChatRequest, Completion, Message, Problem, Sampling
from grpo_training.selector.data.images import data_url


@dataclass(frozen=True)
class ShotPrompts:
    """Prompts of shots and a query.

    Args:
        problems: shots and queries refer to them by their number.
        images: file of each problem; empty: prompts have no images.
    """

    problems: Sequence[Problem]
    images: Sequence[Path] = ()

    def text(self, shots: Sequence[int], query: int) -> str:
        """A question with its short answer for each shot, then the question of the query; images have their marks."""
        mark = IMAGE_MARK if self.images else ""
        answered = (self.problems[shot] for shot in shots)
        examples = [f"{mark}Question:{shot.text} Short answer:{shot.answer}\n" for shot in answered]
        return "".join(examples) + f"{mark}Question:{self.problems[query].text} Short answer:"

    async def completion(
        self, client: LLMClient, role: str, shots: Sequence[int], query: int, max_tokens: int, given: str = ""
    ) -> Completion:
        """The completion of an endpoint. A stored reply is used again.

        Args:
            client: of the endpoint.
            role: of the endpoint.
            shots: ids of the shots, in the order of the prompt.
            query: id of the query.
            max_tokens: of the reply.
            given: an answer whose log-probs are asked for, in place of another one.

        Raises:
            IncompleteRunError: the request was not answered.
        """
        asked = Message(role="user", content=self.text(shots, query))
        request = ChatRequest(
            role=role,
            messages=(asked, Message(role="assistant", content=given)) if given else (asked,),
            sampling=Sampling(temperature=0.0, max_tokens=max_tokens),
            purpose="evaluation",
            images=tuple(data_url(self.images[number]) for number in (*shots, query) if self.images),
        )
        [reply] = await client.sample(request, [0])
        if reply.completion is None:
            raise IncompleteRunError(
                f"{self.problems[query].id}: no reply",
                why=reply.fault.message if reply.fault else "",
                fix="Run the same command again; stored replies are used.",
            )
        return reply.completion
