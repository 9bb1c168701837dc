"""Checks of the text of an experience. Pure functions.

An experience is part of every later prompt. So it must be short, must not hold the answer or the text of its problem,
must say something new, and must not imitate the structure of a prompt.
"""

from __future__ import annotations

import functools
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from engine.experience.said_values import said_values
from engine.experience.steering import mixed_word, steering_phrase
from engine.mathematics.parsing.notation import clean
from engine.mathematics.quantities.numerals import Numeral, find_numerals, numeral_prefix
from engine.mathematics.quantities.unit_text import read_unit
from engine.mathematics.quantities.units import convert, read_quantity
from engine.reading.control_characters import without_control_characters
from engine.reading.special_tokens import has_special_token
from engine.records import Experience, Problem

MAX_WORDS = 32
MAX_CHARACTERS = 400
"""A second limit, for text without word boundaries; it also bounds the cost of the other checks."""

MAX_CATEGORY = 32
_NEAR_DUPLICATE = 0.75
_SHARED_WORDS = 5
_SHARED_IDEOGRAPHS = 8
"""Five English words are about eight Chinese characters (a Chinese word has 1.5 to 1.7 of them)."""


@dataclass(frozen=True)
class Reason:
    """Why a text is refused: a short stable code, and a sentence for users and for the analyst."""

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
        content: the proposed text.
        problem: the problem of the group; None for manual edits.
        leaks_answer: whether a text gives away the answer of the problem.

    Returns:
        None if the text is valid, else the first reason of: ``empty``, ``too_many_characters``,
        ``not_one_line``, ``control_characters``, ``markup``, ``look_alike_letters``, ``injection``,
        ``too_many_words``, ``answer``, ``problem_text``.
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
    the sign is ignored, and units are converted. Number words, Roman numerals, other bases, digits one by one and sums
    ("203 + 1") are evaluated (``said_values``). An answer with one significant digit is common in prose, so it counts
    only where the text calls it the answer. Any other answer is searched as text without LaTeX markup; a single plain
    word, or up to two characters, count again only where the text calls them the answer.
    """
    answer = clean(answer.strip()[:_ANSWER_CHARACTERS])
    number = _leading_number(answer)
    if number is None:
        return _holds_text(content, answer)
    if answer.endswith("%") and _holds_number(content, replace(number, value=number.value / 100)):
        return True
    return _holds_number(content, number) or (number.figures > 1 and _holds_converted(content, answer))


class DuplicateIndex:
    """Texts that are searched for near-duplicates.

    Two texts are near-duplicates if the Jaccard index of their sets of words (for Chinese and Japanese: of
    neighbouring pairs of characters) is at least 0.75. They then share at least three quarters of the words of each, so
    that every near-duplicate of a text has one of any quarter of its words, and one more: the rarest are looked up.
    """

    def __init__(self, texts: Iterable[Experience] = ()) -> None:
        self._entries: list[tuple[Experience, frozenset[str]]] = []
        self._places: dict[str, list[int]] = {}
        for one in texts:
            self.add(one)

    def add(self, one: Experience) -> None:
        """Add a text."""
        words = shingles(one.content)
        for word in words:
            self._places.setdefault(word, []).append(len(self._entries))
        self._entries.append((one, words))

    def find(self, content: str, besides: str = "") -> Experience | None:
        """The near-duplicate of a text that was added first; the one with the id ``besides`` is passed over."""
        mine = shingles(content)
        found = sorted((self._places.get(word, []) for word in mine), key=len)
        few = found[: len(mine) - math.ceil(_NEAR_DUPLICATE * len(mine)) + 1]
        for place in sorted({place for places in few for place in places}):
            other, words = self._entries[place]
            if other.id != besides and _jaccard(mine, words) >= _NEAR_DUPLICATE:
                return other
        return None


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


_IDEOGRAPH = "\u3041-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_LETTER = rf"[^\W_{_IDEOGRAPH}]"
_WORD = re.compile(rf"[{_IDEOGRAPH}]|{_LETTER}(?:[^\W{_IDEOGRAPH}]|[-'’](?={_LETTER})|(?<=\d)[.,](?=\d))*")
_IS_IDEOGRAPH = re.compile(rf"[{_IDEOGRAPH}]")


def _words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


@functools.lru_cache(maxsize=4096)
def shingles(text: str) -> frozenset[str]:
    """The units that texts are compared by: Latin words, and pairs of neighbouring ideographs.

    An ideograph without a neighbour is a unit by itself.
    """
    words = _words(text)
    single = [bool(_IS_IDEOGRAPH.match(word)) for word in words]
    found = set()
    for index, word in enumerate(words):
        has_next = index + 1 < len(words) and single[index + 1]
        if single[index] and has_next:
            found.add(word + words[index + 1])
        elif not single[index] or index == 0 or not single[index - 1]:
            found.add(word)
    return frozenset(found)


def _jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    shared = len(one & other)
    union = len(one) + len(other) - shared
    return shared / union if union else 0.0


_MARKUP = re.compile(
    r"<\|[^|]*\|>"  # <|im_start|> and its like
    r"|</?(?:s|system|user|assistant|human|developer|tool|think|thinking|experiences?|problem|prompt|"
    r"instructions?|functions?|invoke|parameter|result|answer|message|context)\b[^<>]{0,40}>"
    r"|</?[a-z]+(?:[_:][a-z]+)+\b[^<>]{0,40}>"  # <tool_call>, <function_calls>
    r"|\[(?:begin|end) [0-9a-f]{6,}\]|\b(?:G\d{1,2}-\d{3}|[CX]-0\d\d)\b"  # marks and ids of our own prompts
    r"|<<\s*/?sys|\[/?(?:inst|sys)\]"
    r"|\{\{|\{%|\{\#|%\}"  # Jinja; }} alone is common in LaTeX
    r"|```"
    r"|^[\s#*]*(?:system|user|assistant|human|developer)\s*:",
    re.IGNORECASE,
)


def _check_form(content: str) -> Reason | None:
    if not content.strip():
        return Reason("empty", "The text is empty.")
    if reason := prompt_risk(content):
        return reason
    if (words := count_words(content)) > MAX_WORDS:
        return Reason("too_many_words", f"{words} words; at most {MAX_WORDS} are allowed.")
    if words == 0:
        return Reason("empty", "The text has no words.")
    return None


@functools.lru_cache(maxsize=4096)
def prompt_risk(content: str) -> Reason | None:
    """Why a text must not stand in a prompt: it imitates the structure of a prompt, or speaks to its reader.

    Returns:
        None, or the first reason of: ``too_many_characters`` (it cannot be checked in bounded time), ``not_one_line``,
        ``control_characters``, ``markup``, ``look_alike_letters``, ``injection``.
    """
    if len(content) > MAX_CHARACTERS:
        return Reason("too_many_characters", f"{len(content)} characters; at most {MAX_CHARACTERS} are allowed.")
    if content.splitlines() != [content]:
        return Reason("not_one_line", "The text has a line break; it must be a single line.")
    seen = without_control_characters(content).replace("\t", "")
    if seen != content:
        hidden = next(one for one, kept in zip(content, seen + "\n", strict=False) if one != kept)
        return Reason("control_characters", f"The character U+{ord(hidden):04X} cannot be seen.")
    text = unicodedata.normalize("NFKC", content)
    if found := _MARKUP.search(text):
        return Reason("markup", f"{found.group().strip()!r} is markup of prompts or templates.")
    if has_special_token(content):
        return Reason("markup", "The text has a token of chat templates.")
    if word := mixed_word(content):
        return Reason("look_alike_letters", f"{word!r} mixes letters of two alphabets that look the same.")
    if phrase := steering_phrase(text):
        return Reason("injection", f"{phrase!r} speaks to the reader of the prompt instead of about the problem.")
    return None


_UNIT = re.compile(r"%|(?:[a-zA-ZΩµμÅ°]++(?:\^?-?\d{1,2})?+[*/·.]?+)*+")
_UNIT_WORD = re.compile(r"\s*[A-Za-zµ\\][^\s,;.)]*")
_NOT_UNIT = re.compile(r"pi|sqrt", re.IGNORECASE)
_BOXED = re.compile(r"^\s*\\boxed\s*\{(.*)\}$")
_BEFORE_NUMBER = re.compile(
    r"^(?:.*(?:=|\\approx)|(?:about|approximately|around|roughly|ca\.)\s)?\s*(?:(?:[A-Z]{3}|euro|yuan|Rs\.?)\s*(?=\d))?"
)
_SAYS_ANSWER = re.compile(
    r"(?:answer|result|solution|\bans\b|boxed|答案|结果|解为|解是)[^.;。；\d]{0,16}$", re.IGNORECASE
)
_DRESSING = re.compile(r"\\boxed|\\left|\\right|\\text|\\math\w+|\\[,;!: ]|[\s${}]")
_ANSWER_CHARACTERS = 200


def _holds_number(content: str, number: Numeral) -> bool:
    text = clean(content)
    is_common = number.figures == 1
    if any(
        found.value == number.value and (not is_common or bool(_SAYS_ANSWER.search(text, 0, start)))
        for start, found in find_numerals(text)
    ):
        return True
    # Round numbers in words ("a hundred", "twenty") are as common in prose as digits.
    is_common = is_common or len(str(number.value).rstrip("0")) == 1
    return any(
        value == number.value and (not is_common or bool(_SAYS_ANSWER.search(before)))
        for before, value in said_values(content)
    )


def _holds_converted(content: str, answer: str) -> bool:
    """Whether a text has the value of an answer in another unit: 2500 m for 2.5 km."""
    text, truth = clean(content), None
    for start, number in find_numerals(text):
        written = _UNIT_WORD.match((numeral_prefix(text[start:]) or (None, ""))[1])
        unit = read_unit(written[0]) if written else None
        truth = truth or (read_quantity(answer) if unit else None)
        if not unit or not truth or not truth.number or truth.unit in ((), unit):
            continue
        if convert(number.value, unit, truth.unit) == abs(truth.number.value):
            return True
    return False


def _holds_text(content: str, answer: str) -> bool:
    wanted, text = _undressed(answer), clean(content).casefold()
    if not wanted:
        return False
    if re.fullmatch(r"[a-z]+(?:[ -][a-z]+)+", answer, re.IGNORECASE):
        words = r"[\s-]+".join(re.split(r"[ -]", answer.casefold()))
        return re.search(rf"(?<!\w){words}(?!\w)", text) is not None
    if len(wanted) < 3 or re.fullmatch(r"[a-z]+", wanted):
        alone = re.compile(rf"(?<!\w){re.escape(wanted)}(?!\w)(?! (?:only )?(?:if|when|where|unless)\b)")
        return any(_SAYS_ANSWER.search(text, 0, found.start()) for found in alone.finditer(text))
    # a digit beside the found text would make it a part of another number
    left = r"(?<!\d)" if wanted[0].isdigit() else ""
    right = r"(?!\d)" if wanted[-1].isdigit() else ""
    return bool(re.search(left + re.escape(wanted) + right, _undressed(text)))


def _leading_number(answer: str) -> Numeral | None:
    """The absolute number of an answer that is a number with a unit or a noun, or without one.

    "x =", "about" or the name of a currency may stand before a number with a unit or without one.
    """
    bare = _BEFORE_NUMBER.sub("", _BOXED.sub(r"\1", answer))
    prefix = numeral_prefix(bare.lstrip("+- "))
    if prefix is None:
        return None
    number, rest = prefix
    unit = "".join(_DRESSING.sub(" ", rest).split())
    if read_unit(rest) is None and (bare != answer or not _UNIT.fullmatch(unit) or _NOT_UNIT.search(unit)):
        return None
    return number


def _undressed(text: str) -> str:
    return _DRESSING.sub("", text).casefold()


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
