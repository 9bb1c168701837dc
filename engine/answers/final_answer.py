r"""Find the answer in a model's text: tagged, boxed, announced ("Final answer: ..."), or at the end of a sentence.

``stated_answer`` reads a whole reply and returns its answer as written. ``answer_text`` reads a text that is meant to
be an answer and returns its cleaned form for comparison. Both look for the same marks in the same order. The time is
linear in the length of the text. No text from a model is used as a format, as a path or as code.
"""

from __future__ import annotations

import re

from engine.mathematics.parsing.notation import clean
from engine.mathematics.parsing.tokens import WORDS_AMONG_LETTERS
from engine.mathematics.quantities.number_words import read_number_words
from engine.mathematics.quantities.numerals import read_numeral
from engine.mathematics.quantities.unit_text import read_unit

MAX_ANSWER_CHARS = 1000
_MAX_TEXT_CHARS = 50_000
_MAX_BOXES = 16
_MAX_MARKS = 200
_MAX_LINES = 4  # lines after a mark that may hold only formatting

_BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{")
_TAG = "<answer>"
_LINE_OF_GSM8K = re.compile(r"####[ \t]*([^\n#]+)")
_ANNOUNCED = re.compile(
    r"final[ _\n]answer(?:\s+(?:is|are)\b)?[\"'*`]*\s*[:=]?|\banswer\s+(?:is|are)\b:?|answer[\"'*`]*\s*[:=]"
    r"|\A\W*answer\b[\"'*`]*\s*[:=]?|答案(?:是|为)?[:：]?",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"\s*\"([^\"\n]{1,300})\"")
_PREFIX = re.compile(r"\A(?:(?:final[ _]answer|answer)\s*(?:is|:|=)\s*)+", re.IGNORECASE)
_NO_ANSWER = re.compile(r"python|json|latex|text|math|none|null|n/a|unknown", re.IGNORECASE)
_WRAPPING = " \t\n*`_#|\"'"  # emphasis, code fences, table bars, quotes
_DELIMITED = re.compile(r"^(?:\$\$?|\\\(|\\\[)\s*(.*?)\s*(?:\$\$?|\\\)|\\\])\.?$", re.DOTALL)
_BOLD = re.compile(r"(?<![A-Za-z0-9)\]}])\*\*([^*\n]+)\*\*")  # in x**2 + y**2 these are powers
_MATH = re.compile(r"\$([^$\n]+)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)
_SAID = re.compile(r"\b(?:is|are|be|equals?|gives?|get|obtain|therefore|thus|hence|so)\b|:|(?<![!<>])=", re.IGNORECASE)
_COPULA = re.compile(r"[A-Za-z)}$]\s+(?:is|are|equals)\s")
_CONCLUSION = re.compile(r"(?<=[A-Za-z)}$])\s+(?:is|are|equals)\s|\b(?:therefore|thus|hence|so)\b,?\s", re.IGNORECASE)
_SEVERAL = re.compile(r",|\b(?:and|or)\b")
_CLOSING_DELIMITER = re.compile(r"(?<=[^$\\])\s*(?:\$+|\\[)\]])\.?$")
_JSON_KEY = re.compile(r"[\"']\s*:")
_COMMAND = re.compile(r"\\[A-Za-z]+")
_LONG_WORD = re.compile(r"[A-Za-z]{3,}")
_NAMES_IN_FORMULAS = frozenset(WORDS_AMONG_LETTERS)
_MAX_WORDS = 3
_NEXT_TURN = re.compile(r"<\|(?:im_start|im_end|endoftext|eot_id|end_of_text|end)\|>|<(?:end_of_turn|eos|/s)>")
_SENTENCE_END = re.compile(r"(?<=[\w$)}\]%*\"'])[.!?](?=\s+[A-Z<\[*]|\s*\Z)|。")
_WORDS_BEFORE_MATH = re.compile(r"(?!US\$|R\$)\W*[A-Za-z]{2}[^$\\\d]*(?:\$|\\\(|\\\[)")
_CODES = "USD|EUR|GBP|CNY|RMB|JPY|INR|BRL"
_MONEY = re.compile(rf"([-+]?)\s*\\?(US\$|R\$|[$€£₹¥￥]|(?:{_CODES})(?![A-Za-z]))\s*([-+]?[\d.][\d,.{{}}\\!;: ]*)")
_SIGN_OF_MONEY = re.compile(rf"US\$|R\$|[$€£₹¥￥]|\b(?:{_CODES})\b")
_CURRENCIES = {"$": "dollars", "US$": "dollars", "€": "euro", "£": "GBP", "₹": "rupees", "R$": "BRL"}
_CURRENCIES |= dict.fromkeys("¥￥", "yensign")
_UNIT = re.compile(r"\$?\s*(\\?%|per\s?cent(?:age)?|pct|[^\W\d_]{3,}(?:/[^\W\d_]+)?(?:\^\d)?)(?![^\W\d_])")
_NUMBER = re.compile(r"(?<![\w.^/])[-+]?\d+(?:[.,]\d+)*(?:\s*/\s*\d+)?(?![\w^/])", re.ASCII)
_OPERATOR = r"(?:[*+/^]|\s+[*+/^]\s+|\s*\\(?:times|cdot)\s*)"
_OPERATOR_BEFORE, _OPERATOR_AFTER = re.compile(rf"[\w)]{_OPERATOR}\Z"), re.compile(rf"{_OPERATOR}[\w(]|\(")
_MAX_UNIT_CHARS = 40
_BEFORE_UNIT = re.compile(r"(?:[ \t~$]|\\[)\],;:! ])*")
_AFTER_UNIT = re.compile(r"\n|[.,;:!?)](?=\s|\Z)|[。，；]|\$|\\[)\]]")
_WHOLE_TEXT = re.compile(r"\\text(?:bf|rm)?\s*\{([^{}]*(?:\d|\s(?:is|are)\s)[^{}]*)\}")
_ANNOUNCED_IN_TEXT = re.compile(r"^\\text\w*\s*\{[^{}]*(?:\b(?:is|are|equals)|[:=])\s*\}\s*(?=\S)", re.IGNORECASE)
_LABEL = re.compile(r"^\W*(?:ans|result|solution|total)\b[.*_]*\s*[:=][*_\s]*(?=\S)", re.IGNORECASE)
_DOTS = r"\s*(?:\.{3,}|…|\\[cl]?dots(?![A-Za-z]))"
_REPEATING = re.compile(
    rf"(?<![\d.])(?P<start>\d*\.\d*?)(?:(?P<digit>\d)(?P=digit){{2,}}|(?<=\.)(?P<period>\d{{2,6}})(?P=period)+){_DOTS}",
    re.ASCII,
)
"""A period of several digits begins at the point: e is 2.718281828..."""
_BRACKETED_PERIOD = re.compile(r"(?<=\d\.)(\d*)\((\d{1,6})\)(?!\w)", re.ASCII)
_LIST_WITHOUT_END = re.compile(rf",{_DOTS}(?=\W*$)")
_COMPARES = re.compile(
    r"\s+(?:[A-Za-z]+\s+){0,2}(?:less|more|fewer|greater|smaller|larger|bigger|higher|lower|longer|shorter|older|younger)\s+than\b"
    r"|\s+(?:short of|times|below|above|over|under|beyond)\b",
    re.IGNORECASE,
)
"""What follows a number that is only a part of the value: "42 less than the total"."""
_NUMBER_WORDS = re.compile(r"\\(?:text(?:bf|rm)?|mathrm|mbox)\s*\{((?:[^\W\d_]|[\s-]){2,80})\}")
_DENIES = re.compile(
    r"\b(?:not|no|never|nor|neither|cannot|wrong|incorrect|false|unless|except)\b|n't\b", re.IGNORECASE
)
_HEDGE = re.compile(
    r"^(?:\\(?:approx|sim|therefore|implies|Rightarrow)(?![A-Za-z])|approximately|approx\.?|about|roughly|around|exactly"
    r"|ca\.|circa|etwa|ungefähr|rund|environ|aproximadamente|大?约)\s*(?=[-+\\\d.(])",
    re.IGNORECASE,
)
_HEDGE_AT_END = re.compile(
    r"(?<=[\w)}%])\s*(?:\\text\w*\s*\{\s*)?[,(]?\s*(?:approx(?:imately|\.)?|roughly)\s*\.?\s*\)?\s*\}?$", re.IGNORECASE
)


def stated_answer(text: str) -> str | None:
    """The last answer that a reply states, without emphasis and math delimiters; None where it states none.

    In order: ``<answer>`` tags, the boxes of the last line that has one, a last line ``#### ...``, what follows the
    last "final answer" or "the answer is", and a value at the end of the last sentence ("So the length is 3.").
    """
    text = _own_turn(text[-_MAX_TEXT_CHARS:])
    answer = _marked(text)
    if answer is None and "<think>" not in text:  # a reply that ends inside its thinking has no conclusion
        answer = _concluded(text)
    return answer or None


def answer_text(text: str, *, reads_dollars: bool = True) -> str:
    """The cleaned text of an answer, for comparison; empty where there is none.

    Args:
        text: an answer, or a whole reply. In prose without any mark, the answer is the end of the last sentence, its
            only bold or math part, or the only number after its last "is", "=" or the like.
        reads_dollars: whether a number with one dollar sign before it is a sum of money ("$5" is 5 dollars). Else the
            sign is a delimiter of mathematics that has no partner.
    """
    text = _own_turn(text[-_MAX_TEXT_CHARS:]).strip()
    if len(text) <= 20 and text.isalnum() and text.isascii():
        return clean(text)
    text = _ANNOUNCED_IN_TEXT.sub("", text, count=1)
    answer = _marked(text)
    text = _LABEL.sub("", text, count=1) if answer is None else answer
    text = _with_period(_ANNOUNCED_IN_TEXT.sub("", text, count=1))
    text = text[1:-1] if text[:1] == text[-1:] == "'" else text
    spelled = _NUMBER_WORDS.fullmatch(text)
    if spelled and (number := read_number_words(spelled[1])) is not None:
        return str(number)
    in_text = _WHOLE_TEXT.fullmatch(text)
    text = in_text[1] if in_text else text
    is_sentence = _is_prose(text) or _COPULA.search(text) or _WORDS_BEFORE_MATH.match(text)
    text = _end_of_prose(text) if is_sentence else text
    sign = _SIGN_OF_MONEY.search(text)
    is_money = sign is not None and (sign[0] != "$" or reads_dollars)
    return _without_hedge((_money(text) if is_money else None) or clean(text))


def _with_period(text: str) -> str:
    r"""A text with ``0.\overline{3}`` for 0.333... and 0.(3), and ``\ldots`` at the end of a list that goes on."""
    if len(text) <= MAX_ANSWER_CHARS and any(mark in text for mark in (".", "…", "dots")):
        text = _LIST_WITHOUT_END.sub(r", \\ldots", text)
        text = _BRACKETED_PERIOD.sub(r"\1\\overline{\2}", text)
        text = _REPEATING.sub(lambda found: rf"{found['start']}\overline{{{found['digit'] or found['period']}}}", text)
    return text


def _money(text: str) -> str | None:
    """A sum of money with the sign of a currency, cleaned and with the name of the unit; None for other texts."""
    text = text.strip(_WRAPPING).rstrip(",;.")
    delimited = _DELIMITED.match(text)
    found = _MONEY.fullmatch((delimited[1] if delimited else text)[:MAX_ANSWER_CHARS].strip())
    number = clean(found[3]) if found else ""
    is_number = read_numeral(number) or read_numeral(number.replace(".", "").replace(",", "."))
    return f"{found[1]}{number} {_CURRENCIES.get(found[2], found[2])}" if found and is_number else None


def unwrapped_answer(text: str) -> str | None:
    """The content of an answer field, without emphasis, math delimiters, tag and box; None where nothing is left."""
    text = text.strip()[: 2 * MAX_ANSWER_CHARS]
    if _TAG in text:
        text = _tagged(text)
    boxes = _last_boxes(text)
    if boxes:
        return boxes
    text = _PREFIX.sub("", text.strip(_WRAPPING)).strip(_WRAPPING).rstrip(",;")
    while text.endswith("}") and text.count("}") > text.count("{"):  # the end of a JSON object
        text = text[:-1].rstrip(",;")
    text = text.strip(_WRAPPING)
    delimited = _DELIMITED.match(text)
    text = (delimited[1] if delimited else text).strip(_WRAPPING)
    text = text.removesuffix(".") if not text.endswith("..") else text
    if not re.search(r"\w", text) or len(text) > MAX_ANSWER_CHARS or _NO_ANSWER.fullmatch(text):
        return None
    return text


def _without_hedge(text: str) -> str:
    """A cleaned text without "about" before the value and "(approx.)" after it."""
    if text[:1] in "-+0123456789" and "approx" not in text and "roughly" not in text:
        return text
    return _HEDGE_AT_END.sub("", _HEDGE.sub("", text))


def _own_turn(text: str) -> str:
    """A text up to the first token by which a chat template ends a turn."""
    turns = (turn.removeprefix("assistant").strip() for turn in _NEXT_TURN.split(text))
    return next(filter(None, turns), "") if "<" in text else text


def _marked(text: str) -> str | None:
    """The answer that a text marks by a tag, a box, a last line or a phrase."""
    if _TAG in text:
        return unwrapped_answer(_tagged(text)) or ""
    boxes = _last_boxes(text)
    if boxes:
        return boxes
    last_line = _LINE_OF_GSM8K.fullmatch(text.rstrip().rpartition("\n")[2])
    if last_line:
        return unwrapped_answer(last_line[1])
    for mark in list(_ANNOUNCED.finditer(text))[: -_MAX_MARKS - 1 : -1]:
        answer = _first_content(text[mark.end() : mark.end() + 2 * MAX_ANSWER_CHARS])
        if answer is not None:
            return answer
    return None


def _tagged(text: str) -> str:
    return text.rpartition(_TAG)[2].partition("</answer>")[0]


def _first_content(text: str) -> str | None:
    """The quoted text of a JSON value, or the first line that is not only formatting, within the next few."""
    quoted = _QUOTED.match(text)
    if quoted:
        return unwrapped_answer(quoted[1])
    if r"\begin{" in text:
        return unwrapped_answer(text.strip().partition("\n\n")[0])
    for line in text.splitlines()[:_MAX_LINES]:
        answer = unwrapped_answer(_first_sentence(line))
        if answer is not None:
            return answer
    return None


def _first_sentence(line: str) -> str:
    """The first sentence of a line, if it holds all its numbers or the first of them."""
    end = _SENTENCE_END.search(line)
    if end is None or (re.search(r"\d", line) and not re.search(r"\d", line[: end.start()])):
        return line
    return line[: end.start()]


def _last_boxes(text: str) -> str:
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


def _is_prose(text: str) -> bool:
    return _words(text) > _MAX_WORDS


def _last_sentence(text: str) -> tuple[str, str]:
    """The last paragraph of a text, and the part of it after the last "is", "=" or the like."""
    sentence = text.rstrip(" .*_\n").rpartition("\n\n")[2][-2 * MAX_ANSWER_CHARS :]
    said = list(_SAID.finditer(sentence))
    return sentence, sentence[said[-1].end() :] if said else ""


def _concluded(text: str) -> str | None:
    """The value at the end of a reply's last sentence; None if there are several, or if a JSON object was cut off."""
    sentence, _ = _last_sentence(text)
    conclusion = _CONCLUSION.split(sentence)[-1]
    value = conclusion.rpartition("=")[2].strip(" *_\n")
    is_list = value != conclusion.strip(" *_\n") and _SEVERAL.search(conclusion)
    if conclusion == sentence or is_list or not re.search(r"\d", value) or _words(value) or _JSON_KEY.search(sentence):
        return None
    is_delimited = value.startswith(("$", "\\(", "\\["))
    return unwrapped_answer(value if is_delimited else _CLOSING_DELIMITER.sub("", value))


def _end_of_prose(text: str) -> str:
    """The answer in the last sentence: its end, or its bold or math part if there is only one."""
    sentence, end = _last_sentence(text)
    rest = end.strip(" *_\n")
    if rest and not _words(rest):
        return rest
    for place in () if _DENIES.search(end) else (end, sentence):
        for pattern in (_BOLD, _MATH):
            marked = list(pattern.finditer(place))
            if len(marked) == 1:
                return str(next(filter(None, marked[0].groups()))) + _unit_at(place, marked[0].end())
    if _is_prose(rest) or not rest:
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
