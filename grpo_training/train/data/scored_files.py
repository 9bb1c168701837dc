"""Reads scored replies of other programs: JSON lines, or one JSON array in a ``.json`` file.

A row holds ``prompt`` (text, or chat messages; also ``messages``), one reply (``completion``, ``response``, ``text`` or
``output``: text, or chat messages whose last one is the reply) and its ``reward`` or ``score``: a number, or an object
with ``total``. Optional: ``id``, ``problem_id`` or ``prompt_id``, ``step``, ``group_id``, ``task``, ``model``,
``is_correct``, ``finish_reason``. Rows of one prompt form one group;
where they have a ``prompt_id``, as those of ``score_rollouts``, rows of one step and prompt.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.errors import InputError
from engine.llm.replies import clean
from engine.records import Message
from engine.storage.data_files import file_rows
from engine.storage.lines import LineReader
from engine.tasks.registry import DEFAULT_TASK
from grpo_training.teacher.traces import messages_hash
from grpo_training.train.data.samples import DropReport, TrainingGroup, TrainingResponse

REPAIR = "Correct or remove that row."
_REPLY = ("completion", "response", "text", "output")
_REASONING = ("reasoning_content", "reasoning", "thinking")
_SHOWN_BROKEN = 5
_LARGEST = 1e30
"""Larger rewards are mistakes: their sums and squares are not finite."""


def reward_number(value: Any) -> float | None:
    """A reward as programs give it: a number, true or false, or a number as text. None for anything else."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # RuntimeError: a tensor of several numbers
        return None
    return number if -_LARGEST <= number <= _LARGEST else None


def join_reasoning(reasoning: str | None, text: str) -> str:
    """Reasoning and reply as one text, with the reasoning in ``<think>`` tags."""
    if not reasoning or not reasoning.strip() or "</think>" in text:
        return text
    return f"<think>\n{reasoning.strip()}\n</think>\n\n{text.lstrip()}"


def reply_text(text: str, facts: Mapping[str, Any]) -> str:
    """The text of a reply with the reasoning that its message or row holds in a field beside it."""
    beside = (facts.get(name) for name in _REASONING)
    reasoning = next((value for value in beside if isinstance(value, str) and value.strip() and value not in text), "")
    return join_reasoning(clean(reasoning), clean(text))


def placed_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of a file, each with its place for messages.

    Raises:
        InputError: a value is no JSON object; names file and line.
    """
    unit = "row" if path.suffix == ".json" else "line"
    for number, row in enumerate(file_rows(path), 1):
        if row is None:
            continue  # a blank line
        if not isinstance(row, dict):
            raise InputError(f"{path}, {unit} {number}: not a JSON object", fix=REPAIR)
        yield f"{path}, {unit} {number}", row


def readable_rows(path: Path, broken: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """As :func:`placed_rows`, without lines that cannot be read, of which ``broken`` receives place and reason."""
    if path.suffix == ".json":
        yield from placed_rows(path)
        return
    for line in LineReader(path).read(to_the_end=True):
        where = f"{path}, line {line.number}"
        try:
            row = {} if line.fault else json.loads(line.text)
            reason = line.fault or ("" if isinstance(row, dict) else "not a JSON object")
        except (ValueError, RecursionError) as error:
            row, reason = {}, f"not JSON: {error}"
        if reason:
            broken.append(f"{where}: {reason}")
        else:
            yield where, row


def report_broken(report: DropReport, lines: Sequence[str]) -> None:
    """Count the lines that could not be read and name the first of them."""
    report.drop("rows: could not be read", len(lines))
    for line in lines[:_SHOWN_BROKEN]:
        report.detail(f"skipped {line}")


def has_replies(row: Mapping[str, Any]) -> bool:
    """Whether a row has this format; a prompt without replies has not."""
    return ("prompt" in row or "messages" in row) and any(key in row for key in _REPLY)


def read_scored(path: Path, name: str, report: DropReport) -> list[TrainingGroup]:
    """The groups of a file, in the order of their first rows, each with the facts of its first row.

    Without an id all rows of a prompt are of one problem. Unusable rows are counted in ``report``.

    Args:
        path: the file.
        name: prefix of the group ids.
        report: receives the counts.
    """
    groups: dict[str, tuple[tuple[Message, ...], dict[str, Any], list[TrainingResponse | None]]] = {}
    broken: list[str] = []
    for where, row in readable_rows(path, broken):
        try:
            messages, response = prompt_messages(row, where), _response(row, where, report)
        except InputError as error:
            broken.append(error.what)
            continue
        given = ["step", "prompt_id"] if row.get("prompt_id") is not None else ["group_id"]
        key = json.dumps(
            [*(row.get(name) for name in given), *((message.role, message.content) for message in messages)]
        )
        groups.setdefault(key, (messages, row, []))[2].append(response)
    report_broken(report, broken)
    complete = []
    for number, (messages, row, responses) in enumerate(groups.values(), 1):
        scored = tuple(response for response in responses if response is not None)
        if len(scored) < len(responses):
            report.drop("groups: incomplete, a reply has no reward")
            continue
        ids = (_text(row, key) for key in ("problem_id", "prompt_id", "id", "task_id"))
        group = TrainingGroup(
            group_id=f"{name}:{number}",
            problem_id=next(filter(None, ids), f"prompt_{messages_hash(messages)}"),
            task=_text(row, "task") or DEFAULT_TASK,
            messages=messages,
            responses=scored,
            model=_text(row, "model"),
        )
        complete.append(group)
    return complete


def prompt_messages(row: Mapping[str, Any], where: str) -> tuple[Message, ...]:
    """The prompt of a row as a conversation; plain text is a user message.

    Args:
        row: of a file.
        where: its place, for messages.

    Raises:
        InputError: there is no prompt.
    """
    prompt = row.get("messages") if row.get("prompt") is None else row["prompt"]
    if isinstance(prompt, str) and prompt.strip():
        return (Message(role="user", content=clean(prompt)),)
    if not isinstance(prompt, list) or not prompt:
        raise InputError(f"{where}: no prompt", fix=REPAIR)
    messages = []
    for raw in prompt:
        role = raw.get("role") if isinstance(raw, dict) else None
        if role not in ("system", "user", "assistant") or not isinstance(raw.get("content"), str):
            needed = "a prompt message needs a role (system, user, assistant) and content"
            raise InputError(f"{where}: {needed}", fix=REPAIR)
        messages.append(Message(role=role, content=clean(raw["content"])))
    return tuple(messages)


def _response(row: Mapping[str, Any], where: str, report: DropReport) -> TrainingResponse | None:
    """The reply of a row; None where it has no reward."""
    reply, facts = next((row[key] for key in _REPLY if row.get(key) is not None), None), row
    if isinstance(reply, list) and reply and isinstance(reply[-1], dict):
        facts = {**row, **reply[-1]}
        reply = reply[-1].get("content")
    if not isinstance(reply, str):
        raise InputError(f"{where}: no reply, or one that is not text", fix=REPAIR)
    given = row.get("reward") if row.get("reward") is not None else row.get("score")
    reward = reward_number(given.get("total") if isinstance(given, dict) else given)
    if reward is None:
        if given is not None and not isinstance(given, dict):
            report.detail(f"{where}: the reward {str(given)[:60]!r} is no number")
        return None
    verdict = row.get("is_correct")
    return TrainingResponse(
        text=reply_text(reply, facts),
        reward=reward,
        is_correct=verdict if isinstance(verdict, bool) else None,
        truncated=row.get("finish_reason") == "length",
    )


def _text(row: Mapping[str, Any], key: str) -> str:
    value = row.get(key)
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
