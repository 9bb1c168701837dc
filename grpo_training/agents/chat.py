"""Sending a request and reading its replies; an unreadable or blank reply is asked for once more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from engine.llm.replies import is_blank
from engine.reading.model_text import as_one_line, break_special_tokens
from engine.records import IMAGE_MARK, ChatRequest, ImageReference, Message, Outcome, Problem, Reply
from engine.task import JSON_OBJECT, Task
from engine.task_protocols import images_of

ReadT = TypeVar("ReadT")

_RE_ASK = "This reply could not be read: {reason}. Send the same content once more as {form}, and nothing else."
_RE_ASK_BLANK = "\n\nThe last reply to this was empty. Reply with {form}."
_SHOWN = 8000  # characters of an unreadable reply that are sent back; the format is what matters


class ChatClient(Protocol):
    """Samples chat requests. Infrastructure faults are returned as replies, not raised."""

    async def sample(self, request: ChatRequest, sample_indices: Sequence[int]) -> list[Reply]:
        """One reply for each sample index, in their order."""
        ...


@dataclass(frozen=True)
class ReadReply(Generic[ReadT]):
    """A reply and what was read from it.

    Args:
        reply: the reply.
        read: what was read; None after an infrastructure fault.
        re_asked: whether the model was asked to send an unreadable or blank reply again.
        first_kept: whether the second reply was unreadable too, so that this is the first one.
    """

    reply: Reply
    read: ReadT | None
    re_asked: bool = False
    first_kept: bool = False


async def with_images(request: ChatRequest, task: Task, problem: Problem) -> ChatRequest:
    """The request with the images of its problem, which are read now.

    Raises:
        MissingInputError, InputError: a file is missing, or has changed since its row was read.
    """
    images = images_of(task, problem)
    return await asyncio.to_thread(showing, request, images, problem) if images else request


def showing(request: ChatRequest, images: Sequence[ImageReference], problem: Problem) -> ChatRequest:
    """The request with these images in the place of their tags; where a prompt does not show the text, at its begin.

    What other models wrote, and stands beside the text of the problem, has no image.
    """
    from engine.storage.images import sent_image  # few problems have images

    contents = [message.content.replace(IMAGE_MARK, "") for message in request.messages]
    at = max((index for index, content in enumerate(contents) if problem.text in content), default=-1)
    before, text, after = contents[at].rpartition(problem.text)
    for image in images:
        text = text.replace(image.tag, IMAGE_MARK, 1)
    contents[at] = before + IMAGE_MARK * (len(images) - text.count(IMAGE_MARK)) + text + after
    messages = [
        turn.model_copy(update={"content": content}) for turn, content in zip(request.messages, contents, strict=True)
    ]
    sent = tuple(map(sent_image, images))
    return request.model_copy(update={"messages": tuple(messages), "images": sent})


async def ask(
    client: ChatClient,
    request: ChatRequest,
    sample_indices: Sequence[int],
    read: Callable[[Reply], ReadT],
    unreadable: Callable[[ReadT], str | None],
    *,
    form: str = JSON_OBJECT,
) -> list[ReadReply[ReadT]]:
    """Sample a request and read the replies; the model is asked once to send an unreadable or blank reply again.

    A reply that is blank because its tokens were used up, or withheld by a content filter, is not asked for again.

    Args:
        client: the client.
        request: the request.
        sample_indices: one reply is sampled for each.
        read: reads a reply without infrastructure fault; never raises for its text.
        unreadable: the reason to ask again for what was read, or None.
        form: description of a readable reply, for the second request.

    Returns:
        one answer per index, in their order. If the second reply is unreadable too, the first one counts, except for a
        blank one.
    """

    async def answer(reply: Reply) -> ReadReply[ReadT]:
        if reply.outcome is Outcome.INFRA_FAULT:
            return ReadReply(reply, None)
        value = await asyncio.to_thread(read, reply)  # reading a long reply takes time
        reason = unreadable(value)
        completion = reply.completion
        if completion is None or (reason is None and (completion.text.strip() or completion.reasoning)):
            return ReadReply(reply, value)
        was_blank = not completion.text.strip()
        if was_blank and not is_blank(completion.text, completion.finish_reason):
            return ReadReply(reply, value)
        again = _again(request, completion.text, reason or "it is empty", form)
        [second] = await client.sample(again, [reply.sample_index])
        if second.outcome is Outcome.INFRA_FAULT:
            # It is not known whether the model can repair its reply, so the sample stays open.
            return ReadReply(second, None, re_asked=True)
        second_value = await asyncio.to_thread(read, second)
        if unreadable(second_value) is None or (was_blank and second.completion and second.completion.text.strip()):
            return ReadReply(second, second_value, re_asked=True)
        return ReadReply(reply, value, re_asked=True, first_kept=True)

    return await asyncio.gather(*(answer(reply) for reply in await client.sample(request, sample_indices)))


def _again(request: ChatRequest, text: str, reason: str, form: str) -> ChatRequest:
    """The request for the same content once more.

    A blank reply is not sent back, as servers refuse empty messages, and many templates refuse two messages of a person
    in a row: the last message is extended.
    """
    *before, last = request.messages
    if text.strip():
        asked = Message(
            role="user", content=_RE_ASK.format(reason=break_special_tokens(as_one_line(reason)), form=form)
        )
        shown = break_special_tokens(text[:_SHOWN])
        shown = shown.replace(IMAGE_MARK, "") if request.images else shown
        messages = (*request.messages, Message(role="assistant", content=shown), asked)
    else:
        longer = last.content + _RE_ASK_BLANK.format(form=form)
        messages = (*before, last.model_copy(update={"content": longer}))
    return request.model_copy(update={"messages": messages})
