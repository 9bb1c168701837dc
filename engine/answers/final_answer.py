r"""From what a model wrote to the text of its answer: boxed, "final answer:", bold, $...$, or a sentence's end.

Pure text work in linear time; no text from a model reaches a formatter, a path or an evaluator here.
"""

from __future__ import annotations

import re

from engine.mathematics.notation import clean

MAX_ANSWER_CHARS = 1000
_MAX_TEXT_CHARS = 50_000
_MAX_BOXES = 16

_BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{")
_TAG = "<answer>"
_ANNOUNCED = re.compile(r"(?:final\s+answer|\banswer)\b[\s*_:=$`]*(?:(?:is|are)\b[\s*_:=$`]*)?", re.IGNORECASE)
_BOLD = re.compile(r"\*\*([^*\n]+)\*\*")
_MATH = re.compile(r"\$([^$\n]+)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)
_SAID = re.compile(r"\b(?:is|are|be|equals?|gives?|get|obtain|therefore|thus|hence|so)\b|[:=]", re.IGNORECASE)
_COPULA = re.compile(r"[A-Za-z)}]\s+(?:is|are|equals)\s")
_COMMAND = re.compile(r"\\[A-Za-z]+")
_LONG_WORD = re.compile(r"[A-Za-z]{3,}")
_MAX_WORDS = 3


def answer_text(text: str) -> str:
    """The cleaned text of the answer that a text ends in; empty where there is none.

    In order: <answer> tags, the boxes of the last line that has one, what follows the last "(final) answer",
    "####", then for prose: the end of its last sentence ("... is 4."), its last bold or math part.
    """
    return clean(_marked(text[-_MAX_TEXT_CHARS:]))


def _marked(text: str) -> str:
    """Cut down to the marked part, without cleaning it."""
    text = text.strip()
    if len(text) <= 20 and text.isalnum():
        return text
    if _TAG in text:
        text = text.rpartition(_TAG)[2].partition("</answer>")[0]
    boxes = _last_boxes(text)
    if boxes:
        return boxes
    if "####" in text:
        text = text.rpartition("####")[2]
    announced = list(_ANNOUNCED.finditer(text))
    if announced:
        rest = text[announced[-1].end() :].strip(" \n*_`")
        text = rest.partition("\n\n")[0] or text
    return _end_of_prose(text) if _is_prose(text) or _COPULA.search(text) else text


def _last_boxes(text: str) -> str:
    r"""What the boxes of the last line with boxes hold, joined by commas where they differ."""
    found: list[str] = []
    line = 0
    for opening in list(_BOXED.finditer(text))[: -_MAX_BOXES - 1 : -1]:
        if found and opening.start() < line:
            break
        inside = _balanced(text, opening.end())
        if inside is not None and inside.strip():
            if not found:
                line = text.rfind("\n", 0, opening.start())
            found.append(inside.strip())
    return ", ".join(dict.fromkeys(reversed(found)))


def _balanced(text: str, start: int) -> str | None:
    level = 1
    for at in range(start, min(len(text), start + 2 * MAX_ANSWER_CHARS)):
        if text[at] == "{":
            level += 1
        elif text[at] == "}":
            level -= 1
            if not level:
                return text[start:at]
    return None


def _words(text: str) -> int:
    return len(_LONG_WORD.findall(_COMMAND.sub(" ", text)))


def _is_prose(text: str) -> bool:
    return _words(text) > _MAX_WORDS


def _end_of_prose(text: str) -> str:
    """The answer in a last sentence: its end, or its one bold or math part. Of several parts none is chosen."""
    sentence = text.rstrip(" .*_\n").rpartition("\n\n")[2][-2 * MAX_ANSWER_CHARS :]
    said = list(_SAID.finditer(sentence))
    rest = sentence[said[-1].end() :].strip(" *_\n") if said else ""
    if rest and not _words(rest):
        return rest
    for place in (sentence[said[-1].end() :] if said else "", sentence):
        for marked in (_BOLD.findall(place), [next(filter(None, groups)) for groups in _MATH.findall(place)]):
            if len(marked) == 1:
                return str(marked[0])
    return rest if rest and not _is_prose(rest) else text
