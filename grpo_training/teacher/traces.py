"""Teacher traces: the record of one scored reply, which of them are accepted for training, and statistics."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import Field

from engine.records import FORMAT, Message, Record, Usage

READABLE = "ok"
"""``status`` of a reply that was read without a fault."""


class TeacherMetadata(Record):
    """Model, usage, latency and finish reason of a reply. With ``n`` > 1 the usage is the share of one sample."""

    model: str = ""
    usage: Usage = Usage()
    finish_reason: str | None = None
    latency_s: float = 0.0


class TestVerdict(Record):
    """The result of the tests. ``status`` is ``pass``, else the status of the first test that did not pass."""

    __test__ = False  # the name looks like a test to pytest

    passed: int = 0
    total: int = 0
    status: str = "not_run"

    @property
    def all_passed(self) -> bool:
        """Whether there were tests and every one passed."""
        return self.status == "pass" and self.passed == self.total > 0


class TeacherTrace(Record):
    """A line of ``teacher_traces.jsonl``. The keys of the common format are first; the others are optional.

    Args:
        prompt: the text of the problem; ``messages`` holds what was sent.
        thinking: the reasoning, from its own field of the reply or from its tags.
        code: the program that was executed; empty if there was none.
        full_response: the text of the reply.
        status: how the reply was read (``ok``, ``no_code``, ``unclosed_think`` ...).
        accepted: whether it may be used for training; ``rejected`` says why not.
        config_hash: hash of everything that changes a reply and its acceptance.
    """

    task_id: str
    dataset: str = ""
    prompt: str
    thinking: str | None = None
    code: str = ""
    full_response: str = ""
    teacher_metadata: TeacherMetadata = TeacherMetadata()
    test_list: list[Any] = Field(default_factory=list)
    test_setup_code: str = ""

    sample_idx: int = 0
    messages: tuple[Message, ...] = ()
    difficulty: str = ""
    prompt_hash: str = ""
    config_hash: str = ""
    status: str = ""
    verdict: TestVerdict = TestVerdict()
    accepted: bool = False
    rejected: str = ""
    format: int = FORMAT

    @property
    def size(self) -> int:
        """Characters that are trained on: the reply, and its thinking if that is a separate field."""
        is_apart = self.thinking is not None and self.thinking not in self.full_response
        return len(self.full_response) + (len(self.thinking or "") if is_apart else 0)


@dataclass(frozen=True)
class KeptTrace:
    """The part of a stored trace that later decisions need."""

    sample_idx: int
    config_hash: str
    messages: str
    accepted_code: str | None

    @classmethod
    def of(cls, trace: TeacherTrace, canonical: Callable[[str], str]) -> KeptTrace:
        """Made of a stored trace."""
        code = _program_hash(canonical(trace.code)) if trace.accepted else None
        return cls(trace.sample_idx, trace.config_hash, messages_hash(trace.messages), code)


def accept(
    traces: Sequence[TeacherTrace],
    kept: Iterable[KeptTrace],
    canonical: Callable[[str], str],
    *,
    most: int,
    max_chars: int,
) -> list[TeacherTrace]:
    """Decide which traces of one problem are accepted for training.

    A trace qualifies if its reply was readable and complete, every test passed, and it is not longer than
    ``max_chars``. The shortest are accepted first, without those whose program equals an accepted one
    (``canonical``) and those beyond ``most``. The result does not change if some of the traces are already
    stored and the rest is decided again.

    Args:
        traces: scored traces of one problem.
        kept: the stored traces of the same problem.
        canonical: :meth:`engine.task_protocols.PreparesData.canonical`.
        most: maximum number of accepted traces of a problem.
        max_chars: see :attr:`TeacherTrace.size`.

    Returns:
        the traces in the order given, with ``accepted`` and ``rejected`` set.
    """
    programs = {trace.accepted_code for trace in kept if trace.accepted_code is not None}
    decided: dict[int, str] = {}
    for trace in sorted(traces, key=lambda trace: (trace.size, trace.sample_idx)):
        reason = _own_fault(trace, max_chars)
        if not reason:
            code = _program_hash(canonical(trace.code))
            reason = "duplicate" if code in programs else "enough" if len(programs) >= most else ""
            if not reason:
                programs.add(code)
        decided[trace.sample_idx] = reason
    return [
        trace.model_copy(update={"accepted": not decided[trace.sample_idx], "rejected": decided[trace.sample_idx]})
        for trace in traces
    ]


def _own_fault(trace: TeacherTrace, max_chars: int) -> str:
    """Why a trace does not qualify by itself; empty if it does."""
    if trace.teacher_metadata.finish_reason == "length":
        return "cut_off"
    if trace.status != READABLE:
        return trace.status
    if not trace.verdict.all_passed:
        return trace.verdict.status if trace.verdict.status != "pass" else "not_run"
    return "too_long" if trace.size > max_chars else ""


def _program_hash(canonical_code: str) -> str:
    """A hash of a program in canonical form."""
    return hashlib.sha256(canonical_code.encode("utf-8", "replace")).hexdigest()


def messages_hash(messages: Iterable[Message]) -> str:
    """A short hash of a conversation."""
    text = json.dumps([[message.role, message.content] for message in messages], ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


_COUNTED: Mapping[str, Callable[[TeacherTrace], bool]] = {
    "With thinking": lambda trace: bool(trace.thinking),
    "Code extracted": lambda trace: bool(trace.code),
    "Valid Python": lambda trace: bool(trace.code) and trace.status == READABLE,
    "Parse failures": lambda trace: not trace.code,
    "Cut off": lambda trace: trace.teacher_metadata.finish_reason == "length",
    "All tests passed": lambda trace: trace.verdict.all_passed,
    "Accepted": lambda trace: trace.accepted,
}
"""Row of the table -> which traces it counts."""


@dataclass
class TraceStatistics:
    """Counts over traces. Traces are not kept."""

    total: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    _is_accepted: dict[str, bool] = field(default_factory=dict)
    """Problem -> whether one of its traces is accepted."""

    def add(self, trace: TeacherTrace) -> None:
        """Count one trace."""
        self.total += 1
        self.counts.update(name for name, counts in _COUNTED.items() if counts(trace))
        if trace.rejected:
            self.rejected[trace.rejected] += 1
        self._is_accepted[trace.task_id] = trace.accepted or self._is_accepted.get(trace.task_id, False)

    def rows(self) -> list[tuple[str, str]]:
        """The rows of the table: a name, and a count with its share in percent."""
        return [
            ("Total responses", str(self.total)),
            *((name, _share(self.counts[name], self.total)) for name in _COUNTED),
            *((f"  not: {reason}", _share(count, self.total)) for reason, count in self.rejected.most_common()),
            ("Tasks with an accepted trace", f"{sum(self._is_accepted.values())} of {len(self._is_accepted)}"),
        ]


def table(rows: Sequence[tuple[str, str]]) -> str:
    """The rows as aligned lines."""
    width = max((len(name) for name, _ in rows), default=0)
    return "\n".join(f"{name + ':':<{width + 1}}  {value}" for name, value in rows)


def _share(count: int, total: int) -> str:
    return f"{count} ({100 * count / total if total else 0.0:.1f}%)"
