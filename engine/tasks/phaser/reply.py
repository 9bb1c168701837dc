"""Reads the plan and the code of a reply. It only reads: nothing is parsed as JavaScript or executed here.

A reply is ``[PLAN] ... [/PLAN]`` and a fenced program. The code is, in this order: the last closed fence that is tagged
as JavaScript; the last closed fence without a tag. Prose is never read as code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

MAX_CHARS = 400_000
"""Characters of a reply that are read, from its end."""

Method = Literal["javascript_fence", "untagged_fence", "none"]

_JAVASCRIPT = frozenset({"js", "javascript", "ecmascript", "jsx", "mjs"})
_MOST_FENCES, _MOST_STEPS, _MOST_ITEM_CHARS = 64, 100, 2000
_FENCE = re.compile(r"^[ \t]{0,3}(`{3,}|~{3,})[ \t]*([^\s`]*)[^`\n]*$")
_REQUIREMENT = re.compile(r"^\s*(?:REQ|需求)\s*[:：]\s*(.*)$", re.IGNORECASE)
_APIS = re.compile(r"^\s*(?:APIS?|接口)\s*[:：]\s*(.*)$", re.IGNORECASE)
_STEPS = re.compile(r"^\s*(?:STEPS?|步骤)\s*[:：]?\s*(.*)$", re.IGNORECASE)
_STEP = re.compile(r"^\s*(?:[0-9]{1,3}[.)、]|[-*•])\s*(.+)$")
_SEPARATORS = re.compile(r"[,，、;；]")


@dataclass(frozen=True)
class Plan:
    """The plan of a reply: what is required, the symbols to use, the steps."""

    requirements: tuple[str, ...] = ()
    apis: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    notes: str = ""


@dataclass(frozen=True)
class Extraction:
    """How the code was found.

    Args:
        method: which rule gave the code.
        fences: number of closed fences.
        plan_closed: whether a ``[PLAN]`` has its ``[/PLAN]``; None without a plan block.
        is_cut_off: whether the last fence has no end.
    """

    method: Method = "none"
    fences: int = 0
    plan_closed: bool | None = None
    is_cut_off: bool = False


@dataclass(frozen=True)
class GameReply:
    """The parts of a reply. ``code`` is empty if there is none."""

    plan_raw: str = ""
    plan: Plan | None = None
    code: str = ""
    extraction: Extraction = field(default_factory=Extraction)


def read_reply(text: str) -> GameReply:
    """Read a reply; text before ``</think>`` is not part of it. Never raises."""
    text = text[-MAX_CHARS:].replace("\r\n", "\n").replace("\r", "\n").rpartition("</think>")[2].strip()
    plan_raw, rest, plan_closed = _plan_block(text)
    fences, is_cut_off = _fences(rest)
    method: Method = "none"
    code = ""
    tagged = [body for tag, body in fences if tag in _JAVASCRIPT]
    untagged = [body for tag, body in fences if not tag]
    if tagged or untagged:
        method = "javascript_fence" if tagged else "untagged_fence"
        code = (tagged or untagged)[-1]
    extraction = Extraction(method, len(fences), plan_closed, is_cut_off)
    return GameReply(plan_raw, read_plan(plan_raw), code.strip("\n"), extraction)


def read_plan(text: str) -> Plan | None:
    """A plan as a JSON object or in lines (``REQ:``, ``API:``, ``STEPS:``); None if nothing is in it."""
    plan = _plan_object(text) or _plan_lines(text)
    return plan if plan.requirements or plan.apis or plan.steps else None


def _plan_block(text: str) -> tuple[str, str, bool | None]:
    """The text of the plan, the text without it, and whether it is closed."""
    start = re.search(r"\[PLAN\]", text, re.IGNORECASE)
    if start is None:
        return "", text, None
    end = re.compile(r"\[/PLAN\]", re.IGNORECASE).search(text, start.end())
    if end is None:
        fence = re.compile(r"^[ \t]{0,3}(?:`{3,}|~{3,})", re.MULTILINE).search(text, start.end())
        stop = fence.start() if fence else len(text)
        return text[start.end() : stop].strip(), text[: start.start()] + "\n" + text[stop:], False
    return text[start.end() : end.start()].strip(), f"{text[: start.start()]}\n{text[end.end() :]}", True


def _fences(text: str) -> tuple[list[tuple[str, str]], bool]:
    """Tag and body of the last :data:`_MOST_FENCES` closed fences in order, and whether a last one has no end."""
    closed: list[tuple[str, str]] = []
    opening: tuple[str, str] | None = None
    body: list[str] = []
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if opening is None:
            if mark:
                opening, body = (mark[1], mark[2].lower().strip("{}.")), []
        elif mark and not mark[2] and mark[1][0] == opening[0][0] and len(mark[1]) >= len(opening[0]):
            closed = [*closed[1 - _MOST_FENCES :], (opening[1], "\n".join(body))]
            opening = None
        else:
            body.append(line)
    return closed, opening is not None


def _plan_object(text: str) -> Plan | None:
    if not text.lstrip().startswith("{"):
        return None
    try:
        loaded = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(loaded, Mapping):
        return None
    notes = loaded.get("notes")
    return Plan(
        requirements=_texts(loaded.get("requirements", loaded.get("req"))),
        apis=_texts(loaded.get("apis", loaded.get("api"))),
        steps=_texts(loaded.get("steps")),
        notes=notes[:_MOST_ITEM_CHARS] if isinstance(notes, str) else "",
    )


def _plan_lines(text: str) -> Plan:
    requirements: tuple[str, ...] = ()
    apis: list[str] = []
    steps: list[str] = []
    in_steps = False
    for line in text.split("\n"):
        if match := _REQUIREMENT.match(line):
            requirements, in_steps = _texts(match[1]), False
        elif match := _APIS.match(line):
            apis += _texts(_SEPARATORS.split(match[1]))
            in_steps = False
        elif in_steps and (match := _STEP.match(line)):
            steps += _texts(match[1])
        elif match := _STEPS.match(line):
            in_steps = True
            steps += _texts(match[1])
    return Plan(requirements, tuple(apis[:_MOST_STEPS]), tuple(steps[:_MOST_STEPS]))


def _texts(value: Any) -> tuple[str, ...]:
    """The texts of a list, or one text, without empty ones."""
    items = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    texts = (item.strip()[:_MOST_ITEM_CHARS] for item in items if isinstance(item, str))
    return tuple(text for text in texts if text)[:_MOST_STEPS]
