"""The answer of a reply: after ``Answer:``, in ``<answer>`` tags, in a box, or a JSON object."""

from __future__ import annotations

import re

from engine.answers.final_answer import balanced
from engine.answers.kinds import HowCompared

_MAX = 100_000
"""Characters of a reply that are read, from its end."""
_BEFORE = "so|the|my|final|also|die|endgültige|la|ma|mi|il|a|最终|最后|所以|因此"
_AFTER = "is|ist|lautet|est|es|è|é|finale?"
_WORD = "answer|antwort|réponse|respuesta|risposta|resposta|答案|回答"
_LINE = re.compile(
    rf"^[ \t>#*_-]*(?:(?:{_BEFORE})[ \t,，]*){{0,4}}(?:{_WORD})(?:[ \t]*(?:(?:{_AFTER})(?![^\W\d_])|[是为])){{0,2}}"
    r"(?:[*_]*[ \t]*[:：]|(?<=是)(?![否不]))[ \t*_]*"
    rf"|^[ \t]*(?:#+[ \t]*\**|\*\*)(?:final[ \t]+)?(?:{_WORD})\**[ \t]*$(?=\s+\S)",
    re.IGNORECASE | re.MULTILINE,
)
"""``Answer:`` in several languages, and a heading without a colon."""
_FENCE = re.compile(r"```[a-zA-Z]*\n(.*?)```", re.DOTALL)
_SHORT = 200
_BOX = r"\boxed{"


def read_answer(text: str, how: HowCompared) -> str | None:
    """The answer of a reply; None if there is none.

    The last marked answer counts. Without a mark, a reply of one short line is the answer itself; one of several lines
    has none. For JSON an object without a mark counts as well.
    """
    kind = how.kind
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
    return balanced(text, start + len(_BOX), _MAX) if start >= 0 else None
