r"""Find the answer that a reply states: the first step from a reply to a verdict. The others normalise, parse, compare.

The last statement counts: ``<answer>`` tags, a box, ``#### 5``, ``Answer: 5``, "the answer is 5", a field of a JSON
object. Without one it is a bare value: the whole reply, its last line, or the end of its last sentence. The time is
linear in the length of the text. No text from a model is used as a format, as a path or as code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from engine.answers.how import HowCompared
from engine.answers.naming import INVISIBLE, Named
from engine.answers.prose import (
    MAX_ANSWER_CHARS,
    bare_number,
    concluded,
    first_sentence,
    joined_boxes,
    unwrapped,
)

_MAX = 50_000
"""Characters of a reply that are read, from its end."""
_MAX_MARKS, _MAX_LINES, _SHORT, _MAX_OBJECTS = 200, 4, 200, 1000
_REASONING = re.compile(
    r"[<\[](/?)(?:think(?:ing)?|thoughts?|reason(?:ing)?|reflection|scratchpad|analysis)[>\]]", re.IGNORECASE
)
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)[^<]*<\|message\|>")
_TURN = re.compile(r"<[|｜][^<>|｜\s]{1,40}[|｜]>|</?(?:s|eos|bos|pad|[a-z]+_of_[a-z]+)>|\[/?INST\]")
"""A token of a chat template, which ends a turn or begins one."""

_BEFORE = re.compile(
    r"(?:^|[^A-Za-z\s]|(?<![A-Za-z])(?:the|my|our|final|correct|right|best|short|overall|actual|most|likely|so|thus|hence"
    r"|therefore|and|then|is))[\s*_\"'`]*$",
    re.IGNORECASE,
)
"""What may stand before the word answer. "Another answer: 5" states none."""
_IN_COMMAND = re.compile(r"\\(?:boxed|fbox|text\w*)\s*\{[^{}]*$")
_DOUBTED = re.compile(r"\b(?:if|whether|unless|doubt)\s+(?:the\s+)?(?:(?:final|correct)\s+)?$", re.IGNORECASE)
_VERB = r"(?:is|are|was|(?:would|should|must|will)\s+be)"
_NOUN = r"label|category|class|classification|prediction|choice|verdict|result|output|sentiment|intent|topic"
_MARK = re.compile(
    r"<answer>(?P<tag>)"
    r"|\\(?:boxed|fbox)\s*\{(?P<box>)"
    r"|####(?!#)(?P<hashes>)[ \t]*"
    r"|(?<![^\W\d_])(?:answers?|ans)(?:[ \t]*\([^()\n]{1,30}\))?[\"'*_`\])]*"
    rf"(?:\s*[:：=][*_]*(?:[ \t]*{_VERB}\b[ \t]*:?)?"
    rf"|[ \t]+{_VERB}\b(?:[ \t]+(?:then|thus|therefore|simply|clearly|indeed))?[*_]*[ \t]*[:：]?"
    r"|(?=[ \t#]*\n)|(?<=inal answer)(?=[*_ \t]))(?P<said>)"
    r"|(?:答案|回答)(?:应该|应当|应)?(?:是|为|选)?[*_ \t]*[:：]?[*_]*(?P<chinese>)"
    r"|(?:(?<![\u4e00-\u9fff])|故|应|所以|因此|正确|本题|答案)(?:选项?|选择)(?:是|为)?[ \t]*[:：]?"
    r"(?=[*\s]*[（(\[【]?[A-HＡ-Ｈ])(?P<chosen>)"
    rf"|^[ \t>*_#-]*(?:\d+[.)]\s*)?(?:(?:final|predicted|correct)[ \t]+)?(?:{_NOUN})[*_]*[ \t]*[:：][*_]*(?P<line>)"
    rf"|\"(?:{_NOUN})\"\s*:(?P<key>)",
    re.IGNORECASE | re.MULTILINE,
)
_FORMATTING = " \t\n*_#>|`:：\"'"
_FENCE = re.compile(r"[ \t\n*]*(?:```|~~~)[\w+-]*\n?(.*?)(?:```|~~~|\Z)", re.DOTALL)
_AFTER_VALUE = re.compile(r"\s*(?:[.;}*`\n]|,\s*\"|\Z)|[ \t]*\n")
_LIST_MARK = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")
_NO_ANSWER = re.compile(r"none|null|n/a|unknown|python|json|latex|text|math", re.IGNORECASE)
_BLOCKS = ("list", "set", "text", "rubric", "sql", "regex", "contains")
"""Kinds of answers that may have several lines."""


def read_answer(text: str, how: HowCompared | None = None) -> str | None:
    """The answer of a reply, without markup around it; None if it states none.

    Args:
        text: the reply.
        how: how the answer is compared; None: an answer of mathematics.
    """
    text = own_words(text)
    found = stated(text, how)
    if found is None:
        found = concluded(text) or bare_number(text) if how is None else _bare(text, how)
    return found or None


def stated(text: str, how: HowCompared | None = None) -> str | None:
    """The last answer that a text marks; empty where the last one is empty tags; None where it marks none."""
    if how is not None and how.kind == "json":
        return _object(text)
    found: str | None
    for mark in _marks(text, how):
        rest = text[mark.end() : mark.end() + (_MAX if how else 2 * MAX_ANSWER_CHARS)]
        match mark.lastgroup:
            case "tag":
                return unwrapped_answer(rest.partition("</answer>")[0], how) or ""
            case "box":
                found = joined_boxes(text[: _end_of_line(text, mark.start())])
            case "hashes":
                is_last = "\n" not in rest.rstrip() or not re.search(r"[^\W\d_]{3}", rest.partition("\n")[0])
                found = unwrapped_answer(rest.partition("\n")[0], how) if is_last else None
            case _:
                found = _content(rest, how)
        if found and _says_something(found, mark, how):
            return found
    return None


def own_words(text: str) -> str:
    """What a reply says, without reasoning, tokens of a chat template, further turns and invisible characters."""
    text = text[-_MAX:]
    text = text if text.isascii() else text.translate(INVISIBLE)
    if "<" not in text and "[" not in text:
        return text.strip()
    channels = list(_CHANNEL.finditer(text))
    if channels:
        text = text[channels[-1].end() :] if channels[-1][1] == "final" else ""
    text, opened = after_reasoning(text)
    text = text[: opened.start()] if opened else text
    turns = (turn.removeprefix("assistant").strip() for turn in _TURN.split(text))
    return next(filter(None, turns), "")


def after_reasoning(text: str) -> tuple[str, re.Match[str] | None]:
    """The text after the last closing tag of reasoning, and the first tag in it that is not closed."""
    start = max((tag.end() for tag in _REASONING.finditer(text) if tag[1]), default=0)
    text = text[start:]
    return text, _REASONING.search(text)


def _marks(text: str, how: HowCompared | None) -> Iterator[re.Match[str]]:
    """The marks of answers, the last one first."""
    end, left = len(text), _MAX_MARKS
    while end >= 0 and left:
        start = text.rfind("\n", 0, end) + 1
        for mark in list(_MARK.finditer(text, start, end + 1))[: -left - 1 : -1]:
            left -= 1
            before, kind = text[max(start, mark.start() - 60) : mark.start()], mark.lastgroup
            is_other = {
                "said": not _BEFORE.search(before) or _DOUBTED.search(before) or _IN_COMMAND.search(before),
                "line": how is None,
                "key": how is None,
                "chinese": text[mark.end() : mark.end() + 1] in "否不没无" or (how and mark[0][-1] in "案答"),
            }
            if not is_other.get(kind or ""):
                yield mark
        end = start - 1


def _content(rest: str, how: HowCompared | None) -> str | None:
    """What follows a mark: a fence, a JSON value, several lines, or the first line that is not only formatting."""
    kind = how.kind if how else "formula"
    fenced = _FENCE.match(rest)
    if fenced:
        rest = fenced[1]
    value = _json_value(rest)
    if value is not None:
        return unwrapped_answer(value, how)
    if r"\begin{" in rest and how is None:
        return unwrapped_answer(rest.strip().partition("\n\n")[0], how)
    first, _, others = rest.partition("\n")
    if kind in _BLOCKS and (kind == "rubric" or fenced or not first.strip(_FORMATTING) or _LIST_MARK.match(first)):
        block = rest.strip() if kind == "rubric" or fenced else rest.strip("\n *").partition("\n\n")[0]
        if kind != "text" or all(len(line.split()) <= _MAX_LINES for line in block.splitlines()):
            return block.strip(" \n`") or None
    if kind == "sql" and ";" not in first and others:
        first = rest.partition("\n\n")[0]
        return first.strip(" \n`*") or None
    for line in rest.splitlines()[:_MAX_LINES]:
        found = unwrapped_answer(line if kind in ("list", "set", "regex", "sql") else first_sentence(line), how)
        if found:
            return found
    return None


def unwrapped_answer(text: str, how: HowCompared | None = None) -> str | None:
    """The content of an answer field, without markup around it; None where nothing is left."""
    found = unwrapped(text)
    if how is None:
        return None if found and _NO_ANSWER.fullmatch(found) else found
    return found or (text.strip() if re.search(r"\S", text.strip("*_` \t\n")) or how.kind == "label" else None) or None


def _json_value(text: str) -> str | None:
    """The JSON text, list or object that a text begins with, if nothing but an end or a further key follows."""
    text = text.lstrip(" \t\n*`")
    if text[:1] not in ('"', "[", "{"):
        return None
    try:
        value, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None
    if not _AFTER_VALUE.match(text, end):
        return None
    return value if isinstance(value, str) else text[:end]


def _object(text: str) -> str | None:
    """The last complete JSON object; with a mark the first one after it. Text that is none where there is none."""
    mark = next((mark.end() for mark in _marks(text, None) if mark.lastgroup != "hashes"), 0)
    for start in dict.fromkeys((mark, 0)):
        found = list(_objects(text[start:]))
        if found:
            return found[0] if start else found[-1]
    return text[mark:].strip() or None


def _objects(text: str) -> Iterator[str]:
    at, decoder = text.find("{"), json.JSONDecoder()
    for _ in range(_MAX_OBJECTS):
        if at < 0:
            return
        try:
            _, end = decoder.raw_decode(text, at)
            yield text[at:end]
        except (ValueError, RecursionError):
            end = at + 1
        at = text.find("{", end)


def _says_something(found: str, mark: re.Match[str], how: HowCompared | None) -> bool:
    """Whether a statement in prose names a value: "the answer is correct" does not."""
    if mark.lastgroup != "said" or how is None or not re.search(rf"\b{_VERB}\W*\Z", mark[0], re.IGNORECASE):
        return True
    named = _named(how)
    if named is not None:
        return bool(named.mentioned(found))
    return how.kind != "number" or any(map(str.isdigit, found)) or len(found.split()) <= _MAX_LINES


def _named(how: HowCompared) -> Named | None:
    return how.named() if how.kind == "choice" or how.labels else None


def _bare(text: str, how: HowCompared) -> str | None:
    """The answer of a reply that marks none."""
    if how.kind == "rubric":
        return text
    fences = _FENCE.findall(text) if "```" in text else []
    if fences and how.kind in ("sql", "list", "set", "regex"):
        return str(fences[-1]).strip() or None
    if "\n" not in text and len(text) <= _SHORT and text[-1:] not in (":", "："):
        if how.kind in ("number", "formula"):
            return concluded(text) or unwrapped_answer(text, how)
        return unwrapped_answer(first_sentence(text) if how.kind == "text" else text, how)
    if how.kind in ("number", "formula"):
        return concluded(text) or bare_number(text)
    if how.kind == "sql":
        return text if re.match(r"\s*(?:select|with)\b", text, re.IGNORECASE) else None
    if how.kind in ("list", "set"):
        return _json_value(text[text.rfind("\n[") + 1 :])
    lines = [line for line in text.splitlines() if line.strip()]
    values = [line for line in (lines[0], lines[-1]) if len(line) <= _SHORT and how.is_value(line)]
    if _named(how) is not None:
        places = {how.named().begins(line) for line in lines} - {None}
        return unwrapped_answer(values[0], how) if values and len(places) == 1 else None
    is_marked = re.fullmatch(r"\s*(?:\*\*[^*]+\*\*|`[^`]+`)\.?\s*", lines[-1])
    return unwrapped_answer(lines[-1], how) if is_marked or values[-1:] == lines[-1:] else None


def _end_of_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end
