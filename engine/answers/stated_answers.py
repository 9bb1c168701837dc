"""The answer that a text states outside of any scaffold."""

from __future__ import annotations

import re

_TAIL = 20_000
_MAX_ANSWER = 300

# Formatting that stands around an answer and is none: emphasis, code fences, table bars, math brackets.
_WRAPPING = " \t*`_#|\"'"
_MARKER = re.compile(
    r"final[ _]answer(?: is)?[\"'*`]*\s*[:=]?|(?:the|my|our) answer is:?|answer[\"'*`]*\s*[:=]"
    r"|答案(?:是|为)?[:：]?",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"\s*\"([^\"\n]{1,300})\"")
_NO_ANSWER = re.compile(r"python|json|latex|text|math|none|null|n/a|unknown", re.IGNORECASE)
_MATH = re.compile(r"^(?:\$\$?|\\\(|\\\[)\s*(.*?)\s*(?:\$\$?|\\\)|\\\])\.?$", re.DOTALL)


def stated_answer(text: str) -> str | None:
    """The last answer that a text states, without its wrapping; None where there is none.

    Args:
        text: a model's reply. Boxed answers come first, then "Final answer: ..." and its like; a line that
            holds only formatting (a code fence, asterisks, an opening bracket) is stepped over.
    """
    text = text[-_TAIL:]
    boxed = _boxed(text)
    if boxed is not None:
        return boxed
    for marker in reversed(list(_MARKER.finditer(text))):
        answer = _first_content(text[marker.end() :])
        if answer is not None:
            return answer
    return None


def clean_answer(text: str) -> str | None:
    """An answer without emphasis, code marks, math delimiters and box; None where nothing is left of it."""
    text = text.strip()[: 4 * _MAX_ANSWER]
    boxed = _boxed(text)
    if boxed is not None:
        return boxed
    text = re.sub(r"^(?:(?:final[ _]answer|answer)\s*(?:is|:|=)\s*)+", "", text.strip(_WRAPPING), flags=re.IGNORECASE)
    text = text.strip(_WRAPPING).rstrip(",;}").strip(_WRAPPING)
    inner = _MATH.match(text)
    text = (inner[1] if inner else text).strip(_WRAPPING)
    text = text.removesuffix(".") if not text.endswith("..") else text
    if not re.search(r"\w", text) or len(text) > _MAX_ANSWER:
        return None
    return None if re.fullmatch(r"python|json|latex|text|math|none|null|n/a|unknown", text, re.IGNORECASE) else text


def _boxed(text: str) -> str | None:
    """The content of the last ``\\\\boxed{...}`` that is closed and not empty."""
    end = len(text)
    for _ in range(8):
        start = text.rfind("\\boxed", 0, end)
        if start < 0:
            return None
        content = _braced(text, start + len("\\boxed"))
        if content is not None and re.search(r"\w", content):
            return content.strip()
        end = start
    return None


def _braced(text: str, start: int) -> str | None:
    match = re.compile(r"\s*\{").match(text, start)
    if match is None:
        return None
    depth = 1
    for brace in re.compile(r"\\.|[{}]", re.DOTALL).finditer(text, match.end(), match.end() + 4 * _MAX_ANSWER):
        if brace[0] == "{":
            depth += 1
        elif brace[0] == "}":
            depth -= 1
            if not depth:
                return text[match.end() : brace.start()]
    return None


def _first_content(text: str) -> str | None:
    """The quoted text of a JSON value, or the first line that says something, within the next few."""
    quoted = _QUOTED.match(text)
    if quoted:
        return clean_answer(quoted[1])
    for line in text[: 4 * _MAX_ANSWER].splitlines()[:4]:
        answer = clean_answer(line)
        if answer is not None:
            return answer
    return None
