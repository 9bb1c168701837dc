"""Reads scored replies of other programs: prompts with replies and rewards, as JSON lines or one JSON array.

A row holds ``prompt`` (text, or chat messages; also ``messages``), and either one reply (``completion``/``response``,
with ``reward`` or ``score``) or all replies to it (a list under one of these names or under ``completions`` or
``responses``, with as many ``rewards``, or as objects with their own). Optional: ``id`` or ``problem_id``, ``task``,
``model``, ``temperature``, and of each reply ``is_correct``, ``finish_reason``, ``token_ids``, ``logprobs``. Rows of
one prompt form one group.

Files of ``score_rollouts`` are read too: the reply is ``text`` (or another name that the command reads), ``reward`` is
an object with ``total``, and rows of one ``step`` and ``prompt_id`` form one group. There ``group_id`` is the place of
a reply within its group.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from engine.errors import InputError
from engine.llm.wire.replies import clean
from engine.records import Message
from engine.storage.lines import MAX_LINE_BYTES, LineReader
from engine.tasks.registry import DEFAULT_TASK
from grpo_training.teacher.traces import messages_hash
from grpo_training.train.data.samples import DropReport, TrainingGroup, TrainingResponse

REPAIR = "Correct or remove that row."
BROKEN_ROWS = "rows: could not be read"
NO_REWARD = "groups: incomplete, a reply has no reward"
_REPLY, _REPLIES, _REWARD = (
    ("completion", "response", "text", "output"),
    ("completions", "responses"),
    ("reward", "score"),
)
_SHOWN_BROKEN = 5
_REASONING = ("reasoning_content", "reasoning", "thinking")
_LARGEST = 1e30
"""Larger rewards are mistakes: their sums and squares are not finite."""
_LARGEST_LOGPROB = 0.01
"""A log-prob is at most 0, but for rounding."""
_ELEMENT = re.compile(r"\s*,?\s*(?=[^\s\],])")
"""What is before an element of a JSON array."""


class RowError(ValueError):
    """A row cannot be used; the message says why."""


class _NoReward(NamedTuple):
    """A reply without a reward; ``why`` names a value that is none, and is empty where none was given."""

    why: str = ""


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
    reasoning = next((one for one in beside if isinstance(one, str) and one.strip() and one not in text), "")
    return join_reasoning(clean(reasoning), clean(text))


def json_rows(path: Path, report: DropReport | None = None) -> Iterator[dict[str, Any]]:
    """The objects of a file: a JSON array in ``.json``, else one per line. Invalid lines are reported.

    Raises:
        InputError: a ``.json`` file is not an array of objects, or too large.
    """
    if path.suffix == ".json":
        yield from _array(path)
        return
    broken: list[str] = []
    for line in LineReader(path).read(to_the_end=True):
        try:
            row = json.loads(line.text) if not line.fault else None
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict):
            yield row
        else:
            broken.append(f"{path}:{line.number}: {line.fault or 'not a JSON object'}")
    if report is not None:
        report_broken(report, broken)


def placed_rows(path: Path, *, with_surrogates: bool = False) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a file, each with its place for messages: ``path, line N``.

    Args:
        path: the file.
        with_surrogates: accept unpaired surrogates, which the caller replaces.

    Raises:
        InputError: a line or an element of the array is no JSON object, or cannot be encoded; names file and line.
    """
    for where, value in _placed_values(path):
        if not isinstance(value, dict):
            raise InputError(f"{where}: not a JSON object", fix=REPAIR)
        if not with_surrogates:
            _check_encodable(value, where)
        yield where, value


def _placed_values(path: Path) -> Iterator[tuple[str, Any]]:
    if path.suffix == ".json" and path.stat().st_size <= 16 * MAX_LINE_BYTES:
        try:
            text = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(f"{path} is not UTF-8", why=str(error), fix="Save the file as UTF-8.") from None
        if text.lstrip().startswith("["):
            yield from _placed_elements(text, path)
            return
    for line in LineReader(path).read(to_the_end=True):
        where = f"{path}, line {line.number}"
        if line.fault:
            raise InputError(f"{where}: {line.fault}", fix=REPAIR)
        try:
            yield where, json.loads(line.text)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where}: not JSON", why=str(error), fix=REPAIR) from None


def _placed_elements(text: str, path: Path) -> Iterator[tuple[str, Any]]:
    """The elements of a JSON array, each with the line that it begins in."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{path}, line {error.lineno}: not JSON", why=error.msg) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON", why=str(error)) from None
    decoder, place, line, counted = json.JSONDecoder(), text.index("[") + 1, 1, 0
    while match := _ELEMENT.match(text, place):
        line, counted = line + text.count("\n", counted, match.end()), match.end()
        value, place = decoder.raw_decode(text, match.end())
        yield f"{path}, line {line}", value


def _check_encodable(value: Any, where: str) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{where}: unpaired surrogate (\\ud800 to \\udfff)", fix="Replace it, or remove the row."
        ) from None


def report_broken(report: DropReport, places: Sequence[str]) -> None:
    """Count the lines that could not be read and name the first of them."""
    report.drop(BROKEN_ROWS, len(places))
    for place in places[:_SHOWN_BROKEN]:
        report.detail(f"skipped {place}")


def _array(path: Path) -> list[dict[str, Any]]:
    if path.stat().st_size > 16 * MAX_LINE_BYTES:
        raise InputError(f"{path} is too large for one JSON array", fix="Convert it to .jsonl, one object per line.")
    try:
        rows = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON", why=str(error)) from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{path} must hold an array of objects")
    return rows


def has_replies(row: Mapping[str, Any]) -> bool:
    """Whether a row has this format; a prompt without replies has not."""
    return ("prompt" in row or "messages" in row) and any(key in row for key in (*_REPLY, *_REPLIES))


def read_scored(path: Path, name: str, report: DropReport) -> list[TrainingGroup]:
    """The groups of a file, in the order of their first rows. Unusable rows are counted in ``report``.

    Args:
        path: the file.
        name: prefix of the group ids.
        report: receives the counts.
    """
    groups: dict[str, tuple[tuple[Message, ...], dict[str, Any], list[TrainingResponse | _NoReward]]] = {}
    broken, unread = [], []
    for number, row in enumerate(json_rows(path, report), 1):
        try:
            messages = prompt_messages(row)
            responses = _responses(row)
        except RowError as error:
            broken.append(f"{path}, row {number}: {error}")
            continue
        key = json.dumps([_group_key(row), *((one.role, one.content) for one in messages)])
        groups.setdefault(key, (messages, row, []))[2].extend(responses)
        unread += [f"{path}, row {number}: {one.why}" for one in responses if isinstance(one, _NoReward) and one.why]
    report_broken(report, broken)
    for place in unread[:_SHOWN_BROKEN]:
        report.detail(place)
    report.stored_groups += len(groups)
    found = []
    for number, (messages, row, responses) in enumerate(groups.values(), 1):
        scored = tuple(response for response in responses if isinstance(response, TrainingResponse))
        if len(scored) < len(responses):
            report.drop(NO_REWARD)
        else:
            found.append(_group(messages, row, scored, f"{name}:{number}"))
    return found


def _group_key(row: Mapping[str, Any]) -> list[Any]:
    """What tells apart the groups of one prompt."""
    return [row.get("step"), _text(row, "prompt_id")] if row.get("prompt_id") is not None else [_text(row, "group_id")]


def prompt_messages(row: Mapping[str, Any]) -> tuple[Message, ...]:
    """The prompt of a row as a conversation; plain text is a user message.

    Raises:
        RowError: there is no prompt.
    """
    prompt = row.get("messages") if row.get("prompt") is None else row["prompt"]
    if isinstance(prompt, str) and prompt.strip():
        return (Message(role="user", content=clean(prompt)),)
    if not isinstance(prompt, list) or not prompt:
        raise RowError("no prompt")
    return tuple(_message(one) for one in prompt)


def _message(raw: Any) -> Message:
    role = raw.get("role") if isinstance(raw, dict) else None
    if role not in ("system", "user", "assistant") or not isinstance(raw.get("content"), str):
        raise RowError("a prompt message needs a role (system, user, assistant) and content")
    return Message(role=role, content=clean(raw["content"]))


def _responses(row: Mapping[str, Any]) -> list[TrainingResponse | _NoReward]:
    """The replies of a row."""
    replies = next((row[key] for key in _REPLIES if isinstance(row.get(key), list)), None)
    if replies is None:
        replies = next((row[key] for key in _REPLY if _is_list_of_replies(row.get(key))), None)
    if replies is None:
        one = next((row[key] for key in _REPLY if row.get(key) is not None), None)
        if one is None:
            raise RowError("no reply")
        return [_response(one, row)]
    rewards = row.get("rewards")
    if rewards is None:
        rewards = next((row[key] for key in _REWARD if isinstance(row.get(key), list)), None)
    if rewards is not None and (not isinstance(rewards, list) or len(rewards) != len(replies)):
        raise RowError(f"{len(replies)} replies, but not as many rewards")
    if not replies:
        raise RowError("no reply")
    return [
        _response(reply, {} if rewards is None else {"reward": reward})
        for reply, reward in zip(replies, rewards or [None] * len(replies), strict=True)
    ]


def _is_list_of_replies(value: Any) -> bool:
    """Whether a value is a list of replies: texts, conversations, or objects with rewards; not the messages of one."""
    return isinstance(value, list) and all(
        isinstance(one, str | list) or (isinstance(one, dict) and any(key in one for key in _REWARD)) for one in value
    )


def _response(reply: Any, facts: Mapping[str, Any]) -> TrainingResponse | _NoReward:
    if isinstance(reply, list) and reply and isinstance(reply[-1], dict):  # as a conversation with one message
        reply = reply[-1]
    if isinstance(reply, dict):
        facts = {**facts, **{key: value for key, value in reply.items() if value is not None}}
        reply = next((reply[key] for key in ("content", "text", *_REPLY) if isinstance(reply.get(key), str)), None)
    if not isinstance(reply, str):
        raise RowError("a reply is not text")
    given = [value for key in _REWARD if (value := _total(facts.get(key))) is not None]
    reward = next((number for value in given if (number := reward_number(value)) is not None), None)
    if reward is None:
        return _NoReward(f"the reward {str(given[0])[:60]!r} is no number" if given else "")
    token_ids, logprobs = facts.get("token_ids"), facts.get("logprobs")
    verdict = facts.get("is_correct")
    return TrainingResponse(
        text=reply_text(reply, facts),
        reward=reward,
        is_correct=verdict if isinstance(verdict, bool) else None,
        truncated=facts.get("finish_reason") == "length",
        token_ids=tuple(token_ids) if isinstance(token_ids, list) and all(map(_is_id, token_ids)) else None,
        logprobs=tuple(map(float, logprobs))
        if isinstance(logprobs, list) and all(map(_is_logprob, logprobs))
        else None,
    )


def _group(
    messages: tuple[Message, ...], row: Mapping[str, Any], responses: tuple[TrainingResponse, ...], group_id: str
) -> TrainingGroup:
    """A group with the facts of its first row."""
    temperature = row.get("temperature")
    return TrainingGroup(
        group_id=group_id,
        problem_id=_problem_id(row, messages),
        task=_text(row, "task") or DEFAULT_TASK,
        messages=messages,
        responses=responses,
        model=_text(row, "model"),
        temperature=float(temperature) if _is_number(temperature) else None,
    )


def _total(reward: Any) -> Any:
    """The total of a reward that is an object with its parts."""
    return reward.get("total") if isinstance(reward, dict) else reward


def _problem_id(row: Mapping[str, Any], messages: Sequence[Message]) -> str:
    """The id that a row has; without one all rows of a prompt are of one problem, in all files."""
    own = next((text for key in ("problem_id", "prompt_id", "id", "task_id") if (text := _text(row, key))), "")
    return own or f"prompt_{messages_hash(messages)}"


def _text(row: Mapping[str, Any], key: str) -> str:
    value = row.get(key)
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and -_LARGEST <= value <= _LARGEST


def _is_logprob(value: Any) -> bool:
    return _is_number(value) and value <= _LARGEST_LOGPROB


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
