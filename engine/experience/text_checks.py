"""Checks of the text of an experience. Pure functions.

An experience is part of every later prompt. So it must be short, must not hold the answer or the text of its problem,
must say something new, and must not imitate the structure of a prompt.
"""

from __future__ import annotations

import functools
import math
import re
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from engine.mathematics.parsing.notation import clean
from engine.mathematics.quantities.numerals import find_numerals
from engine.reading.model_text import has_special_token, without_control_characters
from engine.records import Experience, ExperienceKind, Problem

MAX_WORDS, MAX_INSTRUCTION_WORDS = 32, 120
MAX_CHARACTERS: dict[ExperienceKind, int] = {"lesson": 400, "instruction": 1500, "case": 1500}
"""A second limit, for text without word boundaries; it also bounds the cost of the other checks. A case is a shortened
problem, its answer, and a short reply."""

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
    content: str,
    problem: Problem | None = None,
    leaks_answer: LeakCheck = leaks_short_answer,
    *,
    kind: ExperienceKind = "lesson",
) -> Reason | None:
    """Check the text of an experience by itself and against the problem that it comes from.

    A case holds its problem and its answer, on several lines: only its length and its characters are checked.

    Args:
        content: the proposed text.
        problem: the problem of the group; None for a file that a person wrote.
        leaks_answer: whether a text gives away the answer of the problem.
        kind: of the experience.

    Returns:
        None if the text is valid, else the first reason of: ``empty``, ``too_many_characters``,
        ``not_one_line``, ``control_characters``, ``markup``, ``too_many_words``, ``answer``, ``problem_text``.
    """
    if reason := _check_form(content, kind):
        return reason
    if kind == "case" or problem is None:
        return None
    if leaks_answer(content, problem):
        return Reason("answer", "The text holds the answer of its problem.")
    return _check_problem_text(content, problem.text)


def holds_answer(content: str, answer: str) -> bool:
    """Whether a text contains an answer: the same number, or the same text without LaTeX markup.

    Numbers of one significant digit, single words and up to two characters are common in prose, so that they count only
    where the text calls them the answer.
    """
    text, wanted = _undressed(content), _undressed(answer[:_ANSWER_CHARACTERS])
    numbers = [number for _, number in find_numerals(_EXPONENT_OF_UNIT.sub("", wanted))]
    if len(numbers) == 1:
        is_common = numbers[0].figures == 1
        starts = [start for start, number in find_numerals(text) if number.value == numbers[0].value]
    else:
        tokens = re.findall(r"\w+|[^\w\s]", wanted)
        is_common = len(tokens) == 1 and (len(wanted) < 3 or wanted.isascii())
        spaced = r"[\s-]*".join(map(re.escape, tokens))
        alone = rf"(?<![a-z0-9]){spaced}(?![a-z0-9])(?! (?:only )?(?:if|when|unless)\b)"
        starts = [match.start() for match in re.finditer(alone, text) if tokens]
    return any(not is_common or _SAYS_ANSWER.search(text, 0, start) for start in starts)


class _DuplicateIndex:
    """Texts that are searched for near-duplicates.

    Two texts are near-duplicates if the Jaccard index of their sets of words (for Chinese and Japanese: of
    neighbouring pairs of characters) is at least 0.75. They then share at least three quarters of the words of each, so
    that every near-duplicate of a text has one of any quarter of its words, and one more: the rarest are looked up.
    """

    def __init__(self) -> None:
        self.texts: tuple[Experience, ...] = ()
        self._places: dict[str, list[int]] = {}

    def grow(self, texts: tuple[Experience, ...]) -> None:
        """Add those of the texts that come after the ones that are there."""
        for index in range(len(self.texts), len(texts)):
            for word in shingles(texts[index].content):
                self._places.setdefault(word, []).append(index)
        self.texts = texts

    def find(self, content: str) -> Experience | None:
        """The near-duplicate of a text that was added first."""
        words = shingles(content)
        by_rarity = sorted((self._places.get(word, []) for word in words), key=len)
        rarest = by_rarity[: len(words) - math.ceil(_NEAR_DUPLICATE * len(words)) + 1]
        for index in sorted({index for indices in rarest for index in indices}):
            other = shingles(self.texts[index].content)
            if len(words & other) >= _NEAR_DUPLICATE * len(words | other):
                return self.texts[index]
        return None


_INDICES: dict[int, _DuplicateIndex] = {}
"""By the first experience of a library, to which further ones are added."""
_LIBRARIES = 8
"""Indices that are kept at a time: a process has few libraries."""
_GUARD = threading.Lock()


def near_duplicate(content: str, experiences: Iterable[Experience]) -> Experience | None:
    """The first experience that says nearly the same as a text; see :class:`_DuplicateIndex`."""
    texts = tuple(experiences)
    key = id(texts[0]) if texts else 0
    with _GUARD:
        index = _INDICES.pop(key, _DuplicateIndex())
        if texts[: len(index.texts)] != index.texts:  # the same objects are not compared further
            index = _DuplicateIndex()
        index.grow(texts)
        _INDICES[key] = index  # the newest comes last
        if len(_INDICES) > _LIBRARIES:
            del _INDICES[next(iter(_INDICES))]
        return index.find(content)


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
    units = set()
    for index, word in enumerate(words):
        has_next = index + 1 < len(words) and single[index + 1]
        if single[index] and has_next:
            units.add(word + words[index + 1])
        elif not single[index] or index == 0 or not single[index - 1]:
            units.add(word)
    return frozenset(units)


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


def _check_form(content: str, kind: ExperienceKind) -> Reason | None:
    is_case = kind == "case"
    if not content.strip():
        return Reason("empty", "The text has no words.")
    if len(content) > (most := MAX_CHARACTERS[kind]):
        return Reason("too_many_characters", f"{len(content)} characters; at most {most} are allowed in a {kind}.")
    if not is_case and content.splitlines() != [content]:
        return Reason("not_one_line", "The text has a line break; it must be a single line.")
    visible = without_control_characters(content)
    visible = visible if is_case else visible.replace("\t", "")
    if visible != content:
        hidden = next(character for character, kept in zip(content, visible + "\n", strict=False) if character != kept)
        return Reason("control_characters", f"The character U+{ord(hidden):04X} cannot be seen.")
    if is_case:
        return None
    if match := _MARKUP.search(unicodedata.normalize("NFKC", content)):
        return Reason("markup", f"{match.group().strip()!r} is markup of prompts or templates.")
    if has_special_token(content):
        return Reason("markup", "The text has a token of chat templates.")
    words, most = count_words(content), MAX_INSTRUCTION_WORDS if kind == "instruction" else MAX_WORDS
    if words > most:
        return Reason("too_many_words", f"{words} words; at most {most} are allowed.")
    return None if words else Reason("empty", "The text has no words.")


_SAYS_ANSWER = re.compile(
    r"(?:answer|result|solution|\bans\b|boxed|答案|结果|解为|解是)[^.;。；\d]{0,16}$", re.IGNORECASE
)
_DRESSING = re.compile(r"\\boxed|\\left|\\right|\\text|\\math\w+|\\[,;!: ]|[\s${}]")
_EXPONENT_OF_UNIT = re.compile(r"(?<=[a-z])\^ *-?\d\b")
_ANSWER_CHARACTERS = 200


def _undressed(text: str) -> str:
    return _DRESSING.sub(" ", clean(re.sub("[€£¥]", " ", text))).casefold().strip()


def _check_problem_text(content: str, problem_text: str) -> Reason | None:
    words, words_of_problem = _words(content), _words(problem_text)
    for length, of_ideographs in ((_SHARED_WORDS, False), (_SHARED_IDEOGRAPHS, True)):
        known = set(_runs(words_of_problem, length))
        for run in _runs(words, length):
            if run in known and any(_IS_IDEOGRAPH.match(word) for word in run) == of_ideographs:
                phrase = ("" if of_ideographs else " ").join(run)
                return Reason("problem_text", f"'{phrase}' is copied from the problem.")
    return None


def _runs(words: list[str], length: int) -> Iterator[tuple[str, ...]]:
    return (tuple(words[begin : begin + length]) for begin in range(len(words) - length + 1))
