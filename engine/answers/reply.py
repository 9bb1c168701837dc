r"""Find the answer that a reply states: the first step from a reply to a verdict. The others normalise, parse, compare.

The last statement counts: ``<answer>`` tags, a box, ``#### 5``, ``Answer: 5``, "the answer is 5", a field of a JSON
object. Without one it is a bare value: the whole reply, its last line, or the end of its last sentence. The time is
linear in the length of the text. No text from a model is used as a format, as a path or as code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from engine.answers.words import DENIES, INVISIBLE, TURNS
from engine.mathematics.parsing.tokens import WORDS_AMONG_LETTERS
from engine.mathematics.quantities.unit_text import read_unit
from engine.reading.json_reading import leading_value, strict_objects

if TYPE_CHECKING:
    from engine.answers.how_compared import HowCompared

MAX_ANSWER_CHARS = 1000
_MAX = 50_000
"""Characters of a reply that are read, from its end."""
_MAX_MARKS, _MAX_LINES, _SHORT, _MAX_BOXES, _MAX_WORDS, _MAX_UNIT = 200, 4, 200, 16, 3, 40
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
_DOUBTED = re.compile(
    r"\b(?:if|whether|unless|doubt)\s+(?:the\s+)?(?:(?:final|correct)\s+)?$|\\(?:boxed|fbox|text\w*)\s*\{[^{}]*$",
    re.IGNORECASE,
)
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
    r"(?=[*\s]*[（(\[【]?(?-i:[A-ZＡ-Ｚ]+|[a-z])(?![A-Za-z]))(?P<chosen>)"
    rf"|^[ \t>*_#-]*(?:\d+[.)]\s*)?(?:(?:final|predicted|correct)[ \t]+)?(?:{_NOUN})[*_]*[ \t]*[:：][*_]*(?P<line>)"
    rf"|\"(?:{_NOUN})\"\s*:(?P<key>)",
    re.IGNORECASE | re.MULTILINE,
)
_FORMATTING = " \t\n*_#>|`:：\"'"
_FENCE = re.compile(r"[ \t\n*]*(?:```|~~~)[\w+-]*\n?(.*?)(?:```|~~~|\Z)", re.DOTALL)
_NO_ANSWER = re.compile(r"none|null|n/a|unknown|python|json|latex|text|math", re.IGNORECASE)
_BLOCKS = ("list", "set", "text", "rubric", "sql", "contains")
"""Kinds of answers that may have several lines."""

_BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{")
_PREFIX = re.compile(r"\A(?:(?:final[ _]answer|answer)\s*(?:is|:|=)\s*)+", re.IGNORECASE)
_WRAPPING = " \t\n*`_|\"'“”"  # emphasis, code fences, table bars, quotes
DELIMITED = re.compile(r"^(?:\$\$?|\\\(|\\\[)\s*(.*?)\s*(?:\$\$?|\\\)|\\\])[.。]?$", re.DOTALL)
_BOLD = re.compile(r"(?<![A-Za-z0-9)\]}])\*\*([^*\n]+)\*\*")  # in x**2 + y**2 these are powers
_MATH = re.compile(r"\$([^$\n]+)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)
_SAID = re.compile(r"\b(?:is|are|be|equals?|gives?|get|obtain|therefore|thus|hence|so)\b|:|(?<![!<>])=", re.IGNORECASE)
_CONCLUSION = re.compile(r"(?<=[A-Za-z)}$])\s+(?:is|are|equals)\s|\b(?:therefore|thus|hence|so)\b,?\s", re.IGNORECASE)
_SEVERAL = re.compile(r",|\b(?:and|or)\b")
_CLOSING_DELIMITER = re.compile(r"(?<=[^$\\])\s*(?:\$+|\\[)\]])\.?$")
_JSON_KEY = re.compile(r"[\"']\s*:")
_COMMAND = re.compile(r"\\[A-Za-z]+")
_WORD = re.compile("[A-Za-z]{2}")
_LONG_WORD = re.compile(r"[A-Za-z]{3,}")
_NAMES_IN_FORMULAS = frozenset(WORDS_AMONG_LETTERS)
_SENTENCE_END = re.compile(r"(?<=[\w$)}\]%*\"'`])[.!](?=[*_\"'`]*(?:\s+[A-Z<\[*]|\s*\Z))|。")
_INITIAL = re.compile(r"(?:^|[\s*_(\[])[A-Za-z]\Z")
"""An initial (A. Smith), or the letter of a choice (B. carrot)."""
_NUMBER = re.compile(r"(?<![\w.^/])[-+]?\d+(?:[.,]\d+)*(?:\s*/\s*\d+)?(?![\w^/])", re.ASCII)
_OPERATOR = r"(?:[*+/^]|\s+[*+/^]\s+|\s*\\(?:times|cdot)\s*)"
_OPERATOR_BEFORE, _OPERATOR_AFTER = re.compile(rf"[\w)]{_OPERATOR}\Z"), re.compile(rf"{_OPERATOR}[\w(]|\(")
_BARE_NUMBER = re.compile(r"[-+]?\s*\\?[$€£¥]?\s*[\d.,/]*\d\s*(?:\\?[%°]|[A-Za-z]+(?:\^\d)?)?", re.ASCII)
_AFTER_VALUE_UNIT = re.compile(
    r"(?:[ \t~$]|\\[)\],;:! ])*(?P<unit>.*?)(?:\n|[.,;:!?)](?=\s|\Z)|[。，；]|\$|\\[)\]]|\Z)"
)
_SHARE = re.compile(r"\\?%|per\s?cent(?:age)?|pct")
_COMPARES = re.compile(
    r"\s+(?:[A-Za-z]+\s+){0,2}(?:less|more|fewer|greater|smaller|larger|bigger|higher|lower|longer|shorter|older|younger)\s+than\b"
    r"|\s+(?:short of|times|below|above|over|under|beyond)\b",
    re.IGNORECASE,
)
"""What follows a number that is only a part of the value: "42 less than the total"."""


def read_answer(text: str, how: HowCompared | None = None) -> str | None:
    """The answer of a reply, without markup around it; None if it states none.

    Args:
        text: the reply.
        how: how the answer is compared; None: an answer of mathematics.
    """
    text = own_words(text)
    answer = stated(text, how)
    return (_bare(text, how) if answer is None else answer) or None


def answer_in_object(text: str, how: HowCompared) -> str | None:
    """The answer of a reply that is a JSON object: its value ``answer``, or the object; None if there is none.

    Of an object that is compared, keys that no right answer has are left out: a schema has them for the reasoning.
    """
    objects = list(strict_objects(own_words(text)))
    fields: dict[str, Any] = json.loads(objects[-1]) if objects else {}
    value: Any = fields.get("answer")
    if how.kind == "json" and (value is None or "answer" in how.keys):
        value = {key: field for key, field in fields.items() if not how.keys or key in how.keys} or None
    elif how.kind == "rubric" and value is None:
        value = fields or None
    if isinstance(value, bool) and {"yes", "no"} <= set(how.labels):
        value = "yes" if value else "no"
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def stated(text: str, how: HowCompared | None = None) -> str | None:
    """The last answer that a text marks; empty where the last one is empty tags; None where it marks none."""
    if how is not None and how.kind == "json":
        return _object(text)
    answer: str | None
    for mark in _marks(text, how):
        rest = text[mark.end() : mark.end() + (_MAX if how else 2 * MAX_ANSWER_CHARS)]
        match mark.lastgroup:
            case "tag":
                return unwrapped_answer(rest.partition("</answer>")[0], how) or ""
            case "box":
                answer = _joined_boxes(text[: (text + "\n").index("\n", mark.start())])
            case "hashes":
                is_last = "\n" not in rest.rstrip() or not re.search(r"[^\W\d_]{3}", rest.partition("\n")[0])
                answer = unwrapped_answer(rest.partition("\n")[0], how) if is_last else None
            case _:
                answer = _content(rest, how)
        if answer and _says_something(answer, mark, how):
            return answer
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


def unwrapped_answer(text: str, how: HowCompared | None = None) -> str | None:
    """The content of an answer field, without markup around it; None where nothing is left."""
    inner = unwrapped(text)
    if how is None:
        return None if inner and _NO_ANSWER.fullmatch(inner) else inner
    return inner or (text.strip() if re.search(r"\S", text.strip("*_` \t\n")) or how.kind == "label" else None) or None


def unwrapped(text: str) -> str | None:
    """A text without emphasis, quotes, math delimiters, tag and box around it; None where no word is left."""
    text = text.strip()[: 2 * MAX_ANSWER_CHARS]
    if boxes := _joined_boxes(text):
        return boxes
    text = _PREFIX.sub("", _BOLD.sub(r"\1", text).lstrip("# ").strip(_WRAPPING)).strip(_WRAPPING).rstrip(",;")
    while text.endswith("}") and text.count("}") > text.count("{"):  # the end of a JSON object
        text = text[:-1].rstrip(",;")
    text = text.strip(_WRAPPING)
    delimited = DELIMITED.match(text)
    text = (delimited[1] if delimited else text).strip(_WRAPPING)
    text = text.removesuffix(".") if not text.endswith("..") else text
    return text if re.search(r"\w", text) and len(text) <= MAX_ANSWER_CHARS else None


def end_of_prose(text: str) -> str:
    """The value in the last sentence: its end, its bold or math part if there is only one, or its only number."""
    sentence, end = _last_sentence(text)
    value = end.strip(" *_\n")
    if value and not words_in(value):
        return value
    for passage in () if DENIES.search(end or sentence) else (end, sentence):
        for pattern in (_BOLD, _MATH):
            marked = list(pattern.finditer(passage))
            if len(marked) == 1:
                return str(next(filter(None, marked[0].groups()))) + _unit_at(passage, marked[0].end())
    if words_in(value) > _MAX_WORDS or not value:
        return _only_number(end or sentence) or text
    return value


def words_in(text: str) -> int:
    """The number of words that are no names in formulas."""
    return sum(word not in _NAMES_IN_FORMULAS for word in _LONG_WORD.findall(_COMMAND.sub(" ", text)))


def is_prose(text: str) -> bool:
    """Whether a text has more words than a value has."""
    return words_in(text) > _MAX_WORDS


def balanced(text: str, start: int) -> str | None:
    """The text up to the brace that closes the one before ``start``; None if there is none in 2,000 characters."""
    level = 1
    for at in range(start, min(len(text), start + 2 * MAX_ANSWER_CHARS)):
        level += (text[at] == "{") - (text[at] == "}")
        if not level:
            return text[start:at]
    return None


def _marks(text: str, how: HowCompared | None) -> Iterator[re.Match[str]]:
    """The marks of answers, the last one first."""
    end, remaining = len(text), _MAX_MARKS
    while end >= 0 and remaining:
        start = text.rfind("\n", 0, end) + 1
        for mark in list(_MARK.finditer(text, start, end + 1))[: -remaining - 1 : -1]:
            remaining -= 1
            before, kind = text[max(start, mark.start() - 60) : mark.start()], mark.lastgroup
            is_other = {
                "said": not _BEFORE.search(before) or _DOUBTED.search(before),
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
    rest = fenced[1] if fenced else rest
    if (value := leading_value(rest)) is not None:
        return unwrapped_answer(value, how)
    if r"\begin{" in rest and how is None:
        return unwrapped_answer(rest.strip().partition("\n\n")[0], how)
    first, _, others = rest.partition("\n")
    is_block = fenced or not first.strip(_FORMATTING)
    if kind == "rubric" or (kind in _BLOCKS and is_block) or (kind == "sql" and ";" not in first and others):
        block = rest.strip() if kind == "rubric" or fenced else rest.strip("\n *").partition("\n\n")[0]
        if kind != "text" or all(len(line.split()) <= _MAX_LINES for line in block.splitlines()):
            return block.strip(" \n`") or None
    for line in rest.splitlines()[:_MAX_LINES]:
        answer = unwrapped_answer(line if kind in ("list", "set", "sql") else _first_sentence(line), how)
        if answer:
            return answer
    return None


def _first_sentence(line: str) -> str:
    """The first sentence of a line, if it holds the first of its numbers, and the next one takes nothing back."""
    for end in _SENTENCE_END.finditer(line):
        sentence, rest = line[: end.start()], line[end.end() :]
        if not (_INITIAL.search(sentence) and rest.strip()):
            is_cut = re.search(r"\d", sentence) or not re.search(r"\d", rest)
            return sentence if is_cut and not TURNS.match(rest.lstrip(_WRAPPING)) else line
    return line


def _object(text: str) -> str | None:
    """The last complete JSON object; with a mark the first one after it. Text that is none where there is none."""
    mark = next((mark.end() for mark in _marks(text, None) if mark.lastgroup != "hashes"), 0)
    for start in dict.fromkeys((mark, 0)):
        if objects := list(strict_objects(text[start:])):
            return objects[0] if start else objects[-1]
    return text[mark:].strip() or None


def _says_something(answer: str, mark: re.Match[str], how: HowCompared | None) -> bool:
    """Whether a statement in prose names a value: "the answer is correct" does not."""
    if mark.lastgroup != "said" or how is None or not re.search(rf"\b{_VERB}\W*\Z", mark[0], re.IGNORECASE):
        return True
    if how.kind == "choice" or how.labels:
        return bool(how.named().mentioned(answer))
    return how.kind != "number" or any(map(str.isdigit, answer)) or len(answer.split()) <= _MAX_LINES


def _bare(text: str, how: HowCompared | None) -> str | None:
    """The answer of a reply that marks none."""
    kind = how.kind if how else "formula"
    is_short = "\n" not in text and len(text) <= _SHORT and text[-1:] not in (":", "：")
    if kind in ("number", "formula"):
        line = unwrapped(text.rpartition("\n")[2]) or ""
        bare_number = line if _BARE_NUMBER.fullmatch(line) else None
        return _concluded(text) or (unwrapped_answer(text, how) if how and is_short else bare_number)
    fences = _FENCE.findall(text) if "```" in text else []
    if how is None or kind == "rubric":
        return text
    if fences and kind in ("sql", "list", "set"):
        return str(fences[-1]).strip() or None
    if is_short:
        return unwrapped_answer(_first_sentence(text) if kind == "text" else text, how)
    if kind == "sql":
        return text if re.match(r"\s*(?:select|with)\b", text, re.IGNORECASE) else None
    if kind in ("list", "set"):
        return leading_value(text[text.rfind("\n[") + 1 :])
    lines = [line for line in text.splitlines() if line.strip()]
    values = [line for line in (lines[0], lines[-1]) if len(line) <= _SHORT and how.is_value(line)]
    if how.kind == "choice" or how.labels:
        named = {how.named().begins(line) for line in lines} - {None}
        return unwrapped_answer(values[0], how) if values and len(named) == 1 else None
    is_marked = re.fullmatch(r"\s*(?:\*\*[^*]+\*\*|`[^`]+`)\.?\s*", lines[-1])
    return unwrapped_answer(lines[-1], how) if is_marked or values[-1:] == lines[-1:] else None


def _last_sentence(text: str) -> tuple[str, str]:
    """The last paragraph of a text, and the part of it after the last "is", "=" or the like."""
    sentence = text.rstrip(" .*_\n").rpartition("\n\n")[2][-2 * MAX_ANSWER_CHARS :]
    marks = list(_SAID.finditer(sentence))
    return sentence, sentence[marks[-1].end() :] if marks else ""


def _concluded(text: str) -> str | None:
    """The value at the end of a reply's last sentence; None if there are several, or if a JSON object was cut off."""
    sentence, _ = _last_sentence(text)
    conclusion = _CONCLUSION.split(sentence)[-1]
    value = conclusion.rpartition("=")[2].strip(" *_\n")
    is_list = value != conclusion.strip(" *_\n") and _SEVERAL.search(conclusion)
    has_value = re.search(r"\d", value) and not words_in(value) and not _JSON_KEY.search(sentence)
    if conclusion == sentence or is_list or not has_value:
        return None
    return unwrapped(value if value.startswith(("$", "\\(", "\\[")) else _CLOSING_DELIMITER.sub("", value))


def _only_number(sentence: str) -> str | None:
    """The only number of a sentence that denies nothing, with its unit: "Jane started 3 hours ago".

    None if it is a part of a formula: "length * width * height * 2".
    """
    numbers = list(_NUMBER.finditer(sentence))
    if len(numbers) != 1 or DENIES.search(sentence) or _MATH.search(sentence):
        return None
    start, end = numbers[0].span()
    before = sentence[max(0, start - _MAX_UNIT) : start]
    is_compared = not sentence[:start].strip() and _COMPARES.match(sentence, end)
    if is_compared or _OPERATOR_BEFORE.search(before) or _OPERATOR_AFTER.match(sentence, end):
        return None
    return numbers[0][0] + _unit_at(sentence, end)


def _joined_boxes(text: str) -> str:
    r"""The contents of the last boxes of the last line that has boxes, without repetitions, joined by commas.

    A box is joined to the next one by "and", "or", a comma or no words between them. A unit or a per cent sign after
    the only box belongs to its content.
    """
    contents: list[str] = []
    line = next_box = 0
    unit = ""
    for opening in list(_BOXED.finditer(text))[: -_MAX_BOXES - 1 : -1]:
        if contents and opening.start() < line:
            break
        inside = balanced(text, opening.end())
        if inside is None or not re.search(r"\w", inside):
            continue
        end = opening.end() + len(inside) + 1
        if not contents:
            line = text.rfind("\n", 0, opening.start())
            unit = _unit_at(text, end)
        elif not _SEVERAL.search(between := text[end:next_box]) and _WORD.search(_COMMAND.sub(" ", between)):
            break
        next_box = opening.start()
        contents.append(inside.strip())
    return contents[0] + unit if len(contents) == 1 else ", ".join(dict.fromkeys(reversed(contents)))


def _unit_at(text: str, position: int) -> str:
    r"""The unit or the per cent sign after a value: ``m/s``, ``\text{kg}``, "hours"; empty if there is none.

    A short word is a unit if it is marked as one, or if it ends a line or a part of a sentence.
    """
    match = _AFTER_VALUE_UNIT.match(text, position)
    phrase = match["unit"].strip() if match else ""
    share = _SHARE.match(phrase)
    if share:
        return share[0] if share[0][-1] == "%" else f" {share[0]}"
    word = phrase.split(maxsplit=1)[0] if phrase else ""
    is_marked = len(word) > 2 or "/" in word or "^" in word or "\\" in word
    for unit in (phrase, word) if is_marked else (phrase,):
        if 0 < len(unit) <= _MAX_UNIT and unit[0] not in "/*^(" and read_unit(unit):
            is_word = "\\" in unit or (len(unit) > 2 and unit.isalpha())
            return f" {unit}" if is_word else rf"\text{{ {unit.replace('{', '').replace('}', '')}}}"
    return ""
