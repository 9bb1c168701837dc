"""What the text of an experience must be: the model proposes, these checks dispose. Pure functions.

An experience stands in every later prompt. So it is short, it is a lesson and not an answer or a piece of its
problem, it says something new, and it cannot pass for a part of the prompt's frame.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from engine.records import Experience, Problem

MAX_WORDS = 32
MAX_CHARACTERS = 400
"""A second limit, for text that has no word boundaries and for the cost of all later checks."""

MAX_CATEGORY = 32
_NEAR_DUPLICATE = 0.75
_SHARED_WORDS = 5
_SHARED_IDEOGRAPHS = 8
"""Five English words are about eight Chinese characters (a Chinese word has 1.5 to 1.7 of them)."""


@dataclass(frozen=True)
class Reason:
    """Why a text is refused: a short stable code, and a sentence for a person and for the analyst."""

    code: str
    message: str


def leaks_short_answer(content: str, problem: Problem) -> bool:
    """Whether a text gives away the answer of a problem, for answers that are a number, a formula or a few words."""
    return holds_answer(content, problem.answer)


LeakCheck = Callable[[str, Problem], bool]
"""Whether a text gives away the answer of a problem; see ``Task.leaks_answer``."""


def check_text(
    content: str, problem: Problem | None = None, leaks_answer: LeakCheck = leaks_short_answer
) -> Reason | None:
    """Check the text of an experience by itself and against the problem that it comes from.

    Args:
        content: the text as proposed.
        problem: the problem of the group; None where there is none (a person's edit).

    Returns:
        None where the text is good, else the first reason of: ``empty``, ``too_many_characters``,
        ``not_one_line``, ``control_characters``, ``markup``, ``injection``, ``too_many_words``, ``answer``,
        ``problem_text``.
    """
    reason = _check_form(content)
    if reason is None and problem is not None:
        if leaks_answer(content, problem):
            return Reason("answer", "The text holds the answer of its problem.")
        reason = _check_problem_text(content, problem.text)
    return reason


def holds_answer(content: str, answer: str) -> bool:
    """Whether a text gives away a short answer.

    A number, also with a unit, is searched as a number: 7 is not found in 17, but 025 is found as 25 and 1/2 as 0.5;
    the sign is ignored. An answer with one significant digit is common in prose, so it counts only where the text
    calls it the answer. Any other answer is searched as text without LaTeX markup; a single plain word, or up to two
    characters, count again only where the text calls them the answer.
    """
    answer = _plain(answer.strip()[:_ANSWER_CHARACTERS])
    number = _leading_number(answer)
    return _holds_text(content, answer) if number is None else _holds_number(content, *number)


def find_duplicate(content: str, others: Iterable[Experience]) -> Experience | None:
    """The first of ``others`` that says nearly the same.

    Two texts are compared by the Jaccard index of their sets of words (for Chinese, Japanese: of neighbouring
    pairs of characters); from 0.75 on they are near-duplicates. The sets are remembered, and a library is small
    by its capacity, so the cost is one set comparison for each other text.
    """
    mine = _shingles(content)
    return next((other for other in others if _jaccard(mine, _shingles(other.content)) >= _NEAR_DUPLICATE), None)


def count_words(text: str) -> int:
    """The number of words, as word processors count.

    A run of letters and digits is one word, also with apostrophes or hyphens inside (``don't``,
    ``right-angled``) or a point or comma between digits (``3.14``). Each Chinese character and each hiragana is
    one word; a run of katakana or of hangul is one. This is the default segmentation of Unicode (UAX #29), with
    hyphens joining.
    """
    return len(_words(text))


def category_slug(category: str) -> str:
    """A category as a short slug: lower case, runs of other characters as ``_``, at most 32 characters."""
    slug = re.sub(r"[^\w-]+", "_", unicodedata.normalize("NFKC", category[:200]).lower())
    return slug.strip("_")[:MAX_CATEGORY].strip("_")  # twice the same is the same


# ------------------------------------------------------------------ words

_IDEOGRAPH = "\u3041-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_LETTER = rf"[^\W_{_IDEOGRAPH}]"
_WORD = re.compile(rf"[{_IDEOGRAPH}]|{_LETTER}(?:[^\W{_IDEOGRAPH}]|[-'’](?={_LETTER})|(?<=\d)[.,](?=\d))*")
_IS_IDEOGRAPH = re.compile(rf"[{_IDEOGRAPH}]")


def _words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


@functools.lru_cache(maxsize=4096)
def _shingles(text: str) -> frozenset[str]:
    """Latin words, and pairs of neighbouring ideographs (a single one where it has no neighbour)."""
    words = _words(text)
    single = [bool(_IS_IDEOGRAPH.match(word)) for word in words]
    shingles = set()
    for index, word in enumerate(words):
        has_next = index + 1 < len(words) and single[index + 1]
        if single[index] and has_next:
            shingles.add(word + words[index + 1])
        elif not single[index] or index == 0 or not single[index - 1]:
            shingles.add(word)
    return frozenset(shingles)


def _jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    union = len(one | other)
    return len(one & other) / union if union else 0.0


# ------------------------------------------------------------------ form

_MARKUP = re.compile(
    r"<\|[^|]*\|>"  # <|im_start|> and its like
    r"|</?(?:s|system|user|assistant|human|developer|tool|think|thinking|experiences?|problem|prompt|"
    r"instructions?)\s*/?>"
    r"|<<\s*/?sys|\[/?(?:inst|sys)\]"
    r"|\{\{|\{%|\{\#|%\}"  # Jinja; }} alone is common in LaTeX
    r"|```"
    r"|^[\s#*]*(?:system|user|assistant|human|developer)\s*:",
    re.IGNORECASE,
)
_INJECTION = re.compile(
    r"\b(?:ignore|disregard|forget)\b[^.]{0,30}\b(?:previous|prior|above|earlier|preceding)\b[^.]{0,20}"
    r"\b(?:instruction|prompt|rule|message|text)"
    r"|(?:忽略|无视|忘记).{0,8}(?:以上|之前|前面|上述|先前).{0,8}(?:指令|指示|规则|要求|提示|内容)",
    re.IGNORECASE,
)


def _check_form(content: str) -> Reason | None:
    if not content.strip():
        return Reason("empty", "The text is empty.")
    if len(content) > MAX_CHARACTERS:
        return Reason("too_many_characters", f"{len(content)} characters; at most {MAX_CHARACTERS} are allowed.")
    if content.splitlines() != [content]:
        return Reason("not_one_line", "The text has a line break; it must be a single line.")
    for character in content:
        if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn"):
            return Reason("control_characters", f"The character U+{ord(character):04X} cannot be seen.")
    text = unicodedata.normalize("NFKC", content)
    if found := _MARKUP.search(text):
        return Reason("markup", f"{found.group().strip()!r} is markup of prompts or templates.")
    if found := _INJECTION.search(text):
        return Reason("injection", f"{found.group()!r} speaks to the prompt instead of about the problem.")
    if (words := count_words(content)) > MAX_WORDS:
        return Reason("too_many_words", f"{words} words; at most {MAX_WORDS} are allowed.")
    if words == 0:
        return Reason("empty", "The text has no words.")
    return None


# ------------------------------------------------------------------ against the problem

_SUPERSCRIPT = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻]+")
_TIMES_TEN = re.compile(
    r"(?<=\d)\s*(?:×|\\times|\\cdot|·|\*|x)\s*10\s*(?:\^|\*\*)\s*[{(]?\s*([-+]?\d{1,3})(?!\d)\s*[})]?",
    re.IGNORECASE,
)
_FRACTION = re.compile(r"\\[dt]?frac\s*\{\s*(\d+)\s*\}\s*\{\s*(\d+)\s*\}")
_NUMBER = re.compile(
    r"(?<![A-Za-z_\d])(?<!\d\.)(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[-+]?\d{1,3}(?!\d))?(?:\s*/\s*\d+)?(?!\d)",
    re.IGNORECASE,
)
_UNIT = re.compile(r"%|(?:[a-zA-ZΩµμÅ°]++(?:\^?-?\d{1,2})?+[*/·.]?+)*+")
_NOT_UNIT = re.compile(r"pi|sqrt", re.IGNORECASE)
_SAYS_ANSWER = re.compile(
    r"(?:answer|result|solution|\bans\b|boxed|答案|结果|解为|解是)[^.;。；\d]{0,16}$", re.IGNORECASE
)
_DRESSING = re.compile(r"\\boxed|\\left|\\right|\\text|\\math\w+|\\[,;!: ]|[\s${}]")
_ANSWER_CHARACTERS = 200


def _holds_number(content: str, value: Fraction, digits: int) -> bool:
    text = _plain(content)
    return any(
        _value(found.group()) == value and (digits > 1 or bool(_SAYS_ANSWER.search(text, 0, found.start())))
        for found in _NUMBER.finditer(text)
    )


def _holds_text(content: str, answer: str) -> bool:
    wanted, text = _undressed(answer), _plain(content).casefold()
    if not wanted:
        return False
    if len(wanted) < 3 or re.fullmatch(r"[a-z]+", wanted):
        alone = re.compile(rf"(?<!\w){re.escape(wanted)}(?!\w)")
        return any(_SAYS_ANSWER.search(text, 0, found.start()) for found in alone.finditer(text))
    # a digit beside the found text would make it a part of another number
    left = r"(?<!\d)" if wanted[0].isdigit() else ""
    right = r"(?!\d)" if wanted[-1].isdigit() else ""
    return bool(re.search(left + re.escape(wanted) + right, _undressed(text)))


def _leading_number(answer: str) -> tuple[Fraction, int] | None:
    """The absolute value and the count of significant digits of an answer that is a number with a unit or none."""
    text = re.sub(r"\s*([/^*·])\s*", r"\1", _DRESSING.sub(" ", answer)).strip().lstrip("+-= ")
    found = _NUMBER.match(text)
    if not found:
        return None
    value, unit = _value(found.group()), "".join(text[found.end() :].split())
    if value is None or not _UNIT.fullmatch(unit) or _NOT_UNIT.search(unit):
        return None
    return value, len(re.sub(r"\D", "", found.group().lower().partition("e")[0]).lstrip("0"))


def _plain(text: str) -> str:
    """Usual forms of full-width characters, superscripts, powers of ten (as exponents) and simple fractions."""
    text = _SUPERSCRIPT.sub(lambda found: "^" + found.group(), text)
    text = unicodedata.normalize("NFKC", text).replace("−", "-")
    text = _FRACTION.sub(r" \1/\2", text)
    return _TIMES_TEN.sub(lambda found: "e" + found.group(1).lstrip("+"), text)


def _undressed(text: str) -> str:
    return _DRESSING.sub("", text).casefold()


def _value(number: str) -> Fraction | None:
    try:
        return Fraction(re.sub(r"[,\s]", "", number))
    except (ValueError, ZeroDivisionError):  # 1.5/2, which is no Fraction's text, or 1/0
        return None


def _check_problem_text(content: str, problem_text: str) -> Reason | None:
    words = _words(content)
    for length, of_ideographs in ((_SHARED_WORDS, False), (_SHARED_IDEOGRAPHS, True)):
        known = _known_runs(problem_text, length)
        for run in _runs(words, length):
            if run in known and any(_IS_IDEOGRAPH.match(word) for word in run) == of_ideographs:
                phrase = ("" if of_ideographs else " ").join(run)
                return Reason("problem_text", f"'{phrase}' is copied from the problem.")
    return None


@functools.lru_cache(maxsize=64)
def _known_runs(problem_text: str, length: int) -> frozenset[tuple[str, ...]]:
    return frozenset(_runs(_words(problem_text), length))


def _runs(words: list[str], length: int) -> Iterator[tuple[str, ...]]:
    return (tuple(words[begin : begin + length]) for begin in range(len(words) - length + 1))
