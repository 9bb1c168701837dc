"""What an agent needs of the client, and the one re-ask for a reply that cannot be read."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from engine.records import ChatRequest, Message, Outcome, Reply
from engine.task import JSON_OBJECT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ReadT = TypeVar("ReadT")

_RE_ASK = "This reply could not be read: {reason}. Send the same content once more as {form}, and nothing else."
_SHOWN = 8000  # characters of an unreadable reply that are sent back; the format is what matters


class ChatClient(Protocol):
    """Draws samples of a request. Infrastructure faults come back as replies, never as exceptions."""

    async def sample(self, request: ChatRequest, sample_indices: Sequence[int]) -> list[Reply]:
        """One reply for each sample index, in their order."""
        ...


@dataclass(frozen=True)
class Answer(Generic[ReadT]):
    """A reply and what was read from it; ``read`` is None for an infrastructure fault.

    ``first_kept``: it was re-asked in vain, so this is the reply to the first request.
    """

    reply: Reply
    read: ReadT | None
    re_asked: bool = False
    first_kept: bool = False


async def ask(
    client: ChatClient,
    request: ChatRequest,
    sample_indices: Sequence[int],
    read: Callable[[Reply], ReadT],
    unreadable: Callable[[ReadT], str | None],
    *,
    form: str = JSON_OBJECT,
) -> list[Answer[ReadT]]:
    """Draw samples and read them; a reply with text that cannot be read is re-asked once.

    Args:
        client: the client.
        request: what is asked.
        sample_indices: one reply each.
        read: turns a reply that is no infrastructure fault into a value; never raises for its text.
        unreadable: the reason why a value deserves a re-ask, or None.
        form: what the re-ask asks for.

    Returns:
        one answer per index, in their order. Where the re-ask is unreadable too, or fails for good, the first
        reading stands.
    """
    answers: list[Answer[ReadT]] = []
    for reply in await client.sample(request, sample_indices):
        if reply.outcome is Outcome.INFRA_FAULT:
            answers.append(Answer(reply, None))
            continue
        value = await asyncio.to_thread(read, reply)  # reading may wait for a checker
        reason = unreadable(value)
        text = reply.completion.text if reply.completion else ""
        if reason is None or not text.strip():
            answers.append(Answer(reply, value))
            continue
        again = request.model_copy(
            update={
                "messages": (
                    *request.messages,
                    Message(role="assistant", content=text[:_SHOWN]),
                    Message(role="user", content=_RE_ASK.format(reason=reason, form=form)),
                )
            }
        )
        [second] = await client.sample(again, [reply.sample_index])
        if second.outcome is Outcome.INFRA_FAULT:
            # Whether the model can mend its reply is not known yet: the sample stays open.
            answers.append(Answer(second, None, re_asked=True))
            continue
        second_value = await asyncio.to_thread(read, second)
        if unreadable(second_value) is None:
            answers.append(Answer(second, second_value, re_asked=True))
        else:
            answers.append(Answer(reply, value, re_asked=True, first_kept=True))
    return answers
