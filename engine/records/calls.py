"""Requests to models, and the replies to them."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import model_validator

from engine.records.record import Fault, Outcome, Record


class Message(Record):
    """One chat message."""

    role: Literal["system", "user", "assistant"]
    content: str


class Sampling(Record):
    """Sampling parameters. None leaves the choice to the server. Each prompt and sample has its seed, from ``seed``."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    logprobs: bool = False


IMAGE_MARK = "\ufffc"
"""Unicode's object replacement character: the place of an image in the text of a message."""


class ChatRequest(Record):
    """A chat request to the endpoint of a role; several samples may be drawn from it.

    Args:
        role: the api role (``generator_1``, ``critic``, ``analyst`` ...); selects endpoint and model.
        messages: the conversation.
        sampling: sampling parameters.
        json_schema: schema of the reply; sent to servers that support guided decoding.
        purpose: ``rollout``, ``fusion``, ``analysis``, ``judge``; for accounting only, not part of the request key.
        images: data URLs of images. Each stands in the messages where its :data:`IMAGE_MARK` is, in their order.
    """

    role: str
    messages: tuple[Message, ...]
    sampling: Sampling = Sampling()
    json_schema: dict[str, Any] | None = None
    purpose: str = "rollout"
    images: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _each_image_has_a_place(self) -> Self:
        places = sum(message.content.count(IMAGE_MARK) for message in self.messages) if self.images else 0
        if places != len(self.images):
            raise ValueError(f"{len(self.images)} images, the messages have places for {places}")
        return self


class Usage(Record):
    """Tokens, attempts and cost of one sample; ``cost_usd`` is None if no price is configured."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    attempts: int = 1
    cost_usd: float | None = None


class Completion(Record):
    """What an endpoint returned for one sample. ``ids_source`` is the origin of ``token_ids``."""

    text: str
    reasoning: str | None = None
    finish_reason: str | None = None
    usage: Usage = Usage()
    model: str = ""
    latency_s: float = 0.0
    request_key: str = ""
    token_ids: list[int] | None = None
    logprobs: list[float] | None = None
    ids_source: Literal["server"] | None = None


class Reply(Record):
    """One sample of a request: a completion or an infrastructure fault."""

    sample_index: int
    outcome: Outcome
    completion: Completion | None = None
    fault: Fault | None = None
