"""The answer of a reply: after ``Answer:``, in ``<answer>`` tags, in a box, or a JSON object."""

from __future__ import annotations

import re

from engine.tasks.answers.comparison import Kind

_MAX = 100_000
"""Characters of a reply that are read, from its end."""
_LINE = re.compile(
    r"^[ \t>#*_-]*(?:the[ \t]+)?(?:final[ \t]+)?(?:answer|antwort|réponse|respuesta|(?:最终|最后|正确)?的?答案|回答)"
    r"[ \t]*(?:is[ \t]*|[是为])?[*_]*[ \t]*[:：][ \t*_]*",
    re.IGNORECASE | re.MULTILINE,
)
_FENCE = re.compile(r"```[a-zA-Z]*\n(.*?)```", re.DOTALL)
_SHORT = 200
_BOX = r"\boxed{"


def read_answer(text: str, kind: Kind) -> str | None:
    """The answer of a reply; None if there is none.

    The last marked answer counts. Without a mark, a reply of one short line is the answer itself; one of several lines
    has none. For JSON an object without a mark counts as well.
    """
    text = text[-_MAX:].rpartition("</think>")[2].strip()
    before, closing, _ = text.rpartition("</answer>")
    tagged = before.rpartition("<answer>")[2].strip() if closing else ""
    marks = list(_LINE.finditer(text))
    if tagged and (not marks or text.rindex("</answer>") > marks[-1].start()):
        found = tagged
    elif marks:
        rest = text[marks[-1].end() :].strip()
        found = rest if kind in ("json", "list", "set", "rubric") else rest.partition("\n")[0]
    elif (boxed := _last_box(text)) is not None:
        found = boxed
    elif kind in ("json", "rubric"):
        found = text
    else:
        found = text if "\n" not in text and len(text) <= _SHORT else ""
    found = _json_of(found) if kind == "json" else found
    return found.strip() or None


def _json_of(text: str) -> str:
    """The last fenced block, or what stands from the first brace to the last; else the text."""
    fenced = _FENCE.findall(text)
    text = fenced[-1] if fenced else text
    start, end = text.find("{"), text.rfind("}")
    return text[start : end + 1] if 0 <= start < end else text


def _last_box(text: str) -> str | None:
    """The content of the last box that is closed."""
    start = text.rfind(_BOX)
    if start < 0:
        return None
    depth, begin = 1, start + len(_BOX)
    for at in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return text[begin:at]
    return None
