"""Record types of the fine-tune: groups of scored replies, their tokens, and a report of what was left out."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from engine.records import Message


@dataclass(frozen=True)
class TrainingResponse:
    """One scored reply.

    Args:
        text: what the model wrote, its reasoning included.
        reward: the total reward.
        is_correct: the verdict of the verifier, if any.
        truncated: the reply was truncated at its length limit, so it has no end-of-turn token.
        token_ids: the sampled ids, if the server returned them.
        logprobs: of each of ``token_ids``, in nats, if they may be used as those of the old policy.
        re_asked: whether it answers a second request, after an unreadable reply, which no record holds.
    """

    text: str
    reward: float
    is_correct: bool | None = None
    truncated: bool = False
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    re_asked: bool = False


@dataclass(frozen=True)
class TrainingGroup:
    """All replies to one prompt.

    Args:
        group_id: the same each time the same files are read, and unique among them.
        problem_id: the unit of the split into training and validation.
        task: the kind of task.
        messages: the prompt.
        responses: at least one, each with its reward.
        model: the name of the sampling model; empty if unknown.
    """

    group_id: str
    problem_id: str
    task: str
    messages: tuple[Message, ...]
    responses: tuple[TrainingResponse, ...]
    model: str = ""


@dataclass(frozen=True)
class Sample:
    """A row of a batch. By default it is a reply to imitate, which no server sampled.

    Args:
        group_id: id of its group.
        prompt_ids: the prompt in the chat template, with the generation prompt. Never labels.
        completion_ids: the labels. They end with the end-of-turn token unless the reply was truncated.
        reward: the total reward.
        advantage: relative to its group, before clipping.
        old_logps: of each of ``completion_ids``, in nats, under the sampling policy; NaN at a position that the
            server did not sample. None: unknown.
        ids_source: ``server``: the sampled ids; ``retokenized``: tokenised from the text.
        truncated: the reply was truncated at its length limit.
        is_correct: the verdict of the verifier, if any.
    """

    group_id: str
    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    reward: float = 1.0
    advantage: float = 0.0
    old_logps: tuple[float, ...] | None = None
    ids_source: Literal["server", "retokenized"] = "retokenized"
    truncated: bool = False
    is_correct: bool | None = None

    @property
    def length(self) -> int:
        """Number of tokens of prompt and completion."""
        return len(self.prompt_ids) + len(self.completion_ids)


Group = Sequence[Sample]
"""The samples of one prompt."""


def fingerprint(groups: Iterable[Sequence[Sample]]) -> str:
    """A hash of samples, to recognise them when a run is resumed."""
    digest = hashlib.sha256()
    for group in groups:
        digest.update(b"group")
        for sample in group:
            digest.update(repr(sample).encode())
    return digest.hexdigest()


@dataclass
class DropReport:
    """Counts of what was left out and of what was kept with a remark, by reason.

    Args:
        dropped: reason -> count; a reason names its unit ("groups: ...", "replies: ...").
        remarks: remark -> count; these were kept.
        details: messages for the user, such as the location of an invalid line.
    """

    dropped: Counter[str] = field(default_factory=Counter)
    remarks: Counter[str] = field(default_factory=Counter)
    details: list[str] = field(default_factory=list)

    def drop(self, reason: str, count: int = 1) -> None:
        """Count items that are left out."""
        if count:
            self.dropped[reason] += count

    def remark(self, text: str, count: int = 1) -> None:
        """Count items that are kept with a change."""
        if count:
            self.remarks[text] += count

    def detail(self, text: str) -> None:
        """Add a message, once."""
        if text not in self.details:
            self.details.append(text)

    def __bool__(self) -> bool:
        return bool(self.dropped or self.remarks or self.details)

    def __str__(self) -> str:
        lines = [f"left out {count:6d}  {reason}" for reason, count in self.dropped.most_common()]
        lines += [f"noted    {count:6d}  {text}" for text, count in self.remarks.most_common()]
        return "\n".join([*lines, *self.details])
