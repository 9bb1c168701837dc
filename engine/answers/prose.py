r"""Read values in prose: without the markup around them, in boxes, and at the end of a sentence."""

from __future__ import annotations

import re

from engine.mathematics.parsing.tokens import WORDS_AMONG_LETTERS
from engine.mathematics.quantities.unit_text import read_unit

MAX_ANSWER_CHARS = 1000
_MAX_BOXES = 16
_BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{")
_PREFIX = re.compile(r"\A(?:(?:final[ _]answer|answer)\s*(?:is|:|=)\s*)+", re.IGNORECASE)
_TAG = "<answer>"
_WRAPPING = " \t\n*`_|\"'“”"  # emphasis, code fences, table bars, quotes
_DELIMITED = re.compile(r"^(?:\$\$?|\\\(|\\\[)\s*(.*?)\s*(?:\$\$?|\\\)|\\\])[.。]?$", re.DOTALL)
_BOLD = re.compile(r"(?<![A-Za-z0-9)\]}])\*\*([^*\n]+)\*\*")  # in x**2 + y**2 these are powers
_MATH = re.compile(r"\$([^$\n]+)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)
_SAID = re.compile(r"\b(?:is|are|be|equals?|gives?|get|obtain|therefore|thus|hence|so)\b|:|(?<![!<>])=", re.IGNORECASE)
_CONCLUSION = re.compile(r"(?<=[A-Za-z)}$])\s+(?:is|are|equals)\s|\b(?:therefore|thus|hence|so)\b,?\s", re.IGNORECASE)
_SEVERAL = re.compile(r",|\b(?:and|or)\b")
_CLOSING_DELIMITER = re.compile(r"(?<=[^$\\])\s*(?:\$+|\\[)\]])\.?$")
_JSON_KEY = re.compile(r"[\"']\s*:")
_COMMAND = re.compile(r"\\[A-Za-z]+")
_LONG_WORD = re.compile(r"[A-Za-z]{3,}")
_NAMES_IN_FORMULAS = frozenset(WORDS_AMONG_LETTERS)
_MAX_WORDS = 3
_SENTENCE_END = re.compile(r"(?<=[\w$)}\]%*\"'`])[.!](?=[*_\"'`]*(?:\s+[A-Z<\[*]|\s*\Z))|。")
_INITIAL = re.compile(r"(?:^|[\s*_(\[])[A-Za-z]\Z")
"""An initial (A. Smith), or the letter of a choice (B. carrot)."""
_REVERSED = re.compile(
    r"\W*(?:actually|no|not|wait|rather|instead|correction|sorry|hmm+|or|but|however|maybe|perhaps)\b", re.IGNORECASE
)
_UNIT = re.compile(r"\$?\s*(\\?%|per\s?cent(?:age)?|pct|[^\W\d_]{3,}(?:/[^\W\d_]+)?(?:\^\d)?)(?![^\W\d_])")
_NUMBER = re.compile(r"(?<![\w.^/])[-+]?\d+(?:[.,]\d+)*(?:\s*/\s*\d+)?(?![\w^/])", re.ASCII)
_OPERATOR = r"(?:[*+/^]|\s+[*+/^]\s+|\s*\\(?:times|cdot)\s*)"
_OPERATOR_BEFORE, _OPERATOR_AFTER = re.compile(rf"[\w)]{_OPERATOR}\Z"), re.compile(rf"{_OPERATOR}[\w(]|\(")
_BARE_NUMBER = re.compile(r"[-+]?\s*\\?[$€£¥]?\s*[\d.,/]*\d\s*(?:\\?[%°]|[A-Za-z]+(?:\^\d)?)?", re.ASCII)
_MAX_UNIT_CHARS = 40
_BEFORE_UNIT = re.compile(r"(?:[ \t~$]|\\[)\],;:! ])*")
_AFTER_UNIT = re.compile(r"\n|[.,;:!?)](?=\s|\Z)|[。，；]|\$|\\[)\]]")
_COMPARES = re.compile(
    r"\s+(?:[A-Za-z]+\s+){0,2}(?:less|more|fewer|greater|smaller|larger|bigger|higher|lower|longer|shorter|older|younger)\s+than\b"
    r"|\s+(?:short of|times|below|above|over|under|beyond)\b",
    re.IGNORECASE,
)
"""What follows a number that is only a part of the value: "42 less than the total"."""
_DENIES = re.compile(
    r"\b(?:not|no|never|nor|neither|cannot|wrong|incorrect|false|unless|except)\b|n't\b", re.IGNORECASE
)


def unwrapped(text: str) -> str | None:
    """A text without emphasis, quotes, math delimiters, tag and box around it; None where no word is left."""
    text = text.strip()[: 2 * MAX_ANSWER_CHARS]
    if _TAG in text:
        text = text.rpartition(_TAG)[2].partition("</answer>")[0]
    boxes = joined_boxes(text) if "box{" in text or "boxed" in text else ""
    if boxes:
        return boxes
    text = _PREFIX.sub("", _BOLD.sub(r"\1", text).lstrip("# ").strip(_WRAPPING)).strip(_WRAPPING).rstrip(",;")
    while text.endswith("}") and text.count("}") > text.count("{"):  # the end of a JSON object
        text = text[:-1].rstrip(",;")
    text = text.strip(_WRAPPING)
    delimited = _DELIMITED.match(text)
    text = (delimited[1] if delimited else text).strip(_WRAPPING)
    text = text.removesuffix(".") if not text.endswith("..") else text
    return text if re.search(r"\w", text) and len(text) <= MAX_ANSWER_CHARS else None


def first_sentence(line: str) -> str:
    """The first sentence of a line, if it holds the first of its numbers, and the next one takes nothing back."""
    for end in _SENTENCE_END.finditer(line):
        said, rest = line[: end.start()], line[end.end() :]
        if not (_INITIAL.search(said) and rest.strip()):
            is_cut = re.search(r"\d", said) or not re.search(r"\d", rest)
            return said if is_cut and not _REVERSED.match(rest) else line
    return line


def joined_boxes(text: str) -> str:
    r"""The contents of the last boxes of the last line that has boxes, without repetitions, joined by commas.

    A box is joined to the next one by "and", "or", a comma or no words between them. A unit or a per cent sign after
    the only box belongs to its content.
    """
    found: list[str] = []
    line = next_box = 0
    for opening in list(_BOXED.finditer(text))[: -_MAX_BOXES - 1 : -1]:
        if found and opening.start() < line:
            break
        inside = balanced(text, opening.end())
        if inside is None or not re.search(r"\w", inside):
            continue
        end = opening.end() + len(inside) + 1
        if not found:
            line = text.rfind("\n", 0, opening.start())
            unit = _unit_at(text, end)
        elif not _joins(text[end:next_box]):
            break
        next_box = opening.start()
        found.append(inside.strip())
    return found[0] + unit if len(found) == 1 else ", ".join(dict.fromkeys(reversed(found)))


def _joins(between: str) -> bool:
    return _SEVERAL.search(between) is not None or not re.search("[A-Za-z]{2}", _COMMAND.sub(" ", between))


def _unit_at(text: str, position: int) -> str:
    """The unit or the per cent sign that begins there, after a space; empty if there is none."""
    found = _UNIT.match(text[position : position + _MAX_UNIT_CHARS])
    is_unit = found is not None and (not found[1][0].isalpha() or found[1][:3] in ("per", "pct") or read_unit(found[1]))
    if not found or not is_unit:
        return _short_unit(text, position)
    return f" {found[1]}" if found[1][0].isalpha() else found[1]


def _short_unit(text: str, position: int) -> str:
    """A unit such as ``m/s`` or ``\\text{kg}``; one letter only at the end of a line or of a part of a sentence."""
    before = _BEFORE_UNIT.match(text, position)
    start = before.end() if before else position
    after = _AFTER_UNIT.search(text, start)
    end = after.start() if after else len(text)
    rest = text[start:end].strip()
    word = rest.split(maxsplit=1)[0] if rest else ""
    is_marked = "/" in word or "^" in word or word.startswith(("\\text", "\\mathrm"))
    for unit in (rest, word) if is_marked else (rest,):
        if len(unit) <= _MAX_UNIT_CHARS and unit[:1] not in "/*^(" and read_unit(unit):
            return f" {unit}" if "\\" in unit else rf"\text{{ {unit.replace('{', '').replace('}', '')}}}"
    return ""


def balanced(text: str, start: int, most: int = 2 * MAX_ANSWER_CHARS) -> str | None:
    """The text up to the brace that closes the one before ``start``; None if there is none in ``most`` characters."""
    level = 1
    for at in range(start, min(len(text), start + most)):
        if text[at] == "{":
            level += 1
        elif text[at] == "}":
            level -= 1
            if not level:
                return text[start:at]
    return None


def _words(text: str) -> int:
    return sum(word not in _NAMES_IN_FORMULAS for word in _LONG_WORD.findall(_COMMAND.sub(" ", text)))


def is_prose(text: str) -> bool:
    """Whether a text has more words than a value has."""
    return _words(text) > _MAX_WORDS


def _last_sentence(text: str) -> tuple[str, str]:
    """The last paragraph of a text, and the part of it after the last "is", "=" or the like."""
    sentence = text.rstrip(" .*_\n").rpartition("\n\n")[2][-2 * MAX_ANSWER_CHARS :]
    said = list(_SAID.finditer(sentence))
    return sentence, sentence[said[-1].end() :] if said else ""


def bare_number(text: str) -> str | None:
    """The last line of a text if it is a number without further words; else None."""
    line = unwrapped(text.rpartition("\n")[2]) or ""
    return line if _BARE_NUMBER.fullmatch(line) else None


def concluded(text: str) -> str | None:
    """The value at the end of a reply's last sentence; None if there are several, or if a JSON object was cut off."""
    sentence, _ = _last_sentence(text)
    conclusion = _CONCLUSION.split(sentence)[-1]
    value = conclusion.rpartition("=")[2].strip(" *_\n")
    is_list = value != conclusion.strip(" *_\n") and _SEVERAL.search(conclusion)
    if conclusion == sentence or is_list or not re.search(r"\d", value) or _words(value) or _JSON_KEY.search(sentence):
        return None
    is_delimited = value.startswith(("$", "\\(", "\\["))
    return unwrapped(value if is_delimited else _CLOSING_DELIMITER.sub("", value))


def end_of_prose(text: str) -> str:
    """The answer in the last sentence: its end, or its bold or math part if there is only one."""
    sentence, end = _last_sentence(text)
    rest = end.strip(" *_\n")
    if rest and not _words(rest):
        return rest
    for place in () if _DENIES.search(end or sentence) else (end, sentence):
        for pattern in (_BOLD, _MATH):
            marked = list(pattern.finditer(place))
            if len(marked) == 1:
                return str(next(filter(None, marked[0].groups()))) + _unit_at(place, marked[0].end())
    if is_prose(rest) or not rest:
        return _only_number(end or sentence) or text
    return rest


def _only_number(sentence: str) -> str | None:
    """The only number of a sentence that denies nothing, with its unit: "Jane started 3 hours ago".

    None if it is a part of a formula: "length * width * height * 2".
    """
    numbers = list(_NUMBER.finditer(sentence))
    if len(numbers) != 1 or _DENIES.search(sentence) or _MATH.search(sentence):
        return None
    start, end = numbers[0].span()
    before = sentence[max(0, start - _MAX_UNIT_CHARS) : start]
    is_compared = not sentence[:start].strip() and _COMPARES.match(sentence, end)
    if is_compared or _OPERATOR_BEFORE.search(before) or _OPERATOR_AFTER.match(sentence, end):
        return None
    return numbers[0][0] + _unit_at(sentence, end)
