"""The accuracy of visual question answering: an answer against those of ten people.

An answer is as right as three of the people who gave it: with each person left out in turn, it scores
``min(1, equal answers of the others / 3)``, and the mean counts. Answers are compared after the normalisation of the
VQA evaluation (visualqa.org/evaluation), which is applied to both sides.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_AGREE = 3
"""People who must have given an answer for it to be right."""
_PUNCTUATION = ';/[]"{}()=+\\_-><@`,?!'
"""All but the apostrophe (possessives) and the colon (times)."""
_COMMA_IN_NUMBER = re.compile(r"\d,\d")
_PERIOD = re.compile(r"\.(?!\d)")
"""A period that no digit follows; others belong to a decimal."""
_AROUND = "\"'`()[]{}<>;:!?,*"
"""Marks around a word that do not count where a row has one right answer."""
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_JOINED = re.compile(r"(?<=[^\W\d_])[-/](?=[^\W\d_])")
_NUMBERS = {
    name: str(number) for number, name in enumerate("zero one two three four five six seven eight nine ten".split())
} | {"none": "0"}
_ARTICLES = frozenset(("a", "an", "the"))
_CONTRACTIONS = """
ain't aren't can't could've couldn't couldn't've didn't doesn't don't hadn't hadn't've hasn't haven't he'd he'd've he's
how'd how'll how's isn't it'd it'd've it'll ma'am mightn't mightn't've might've mustn't must've needn't not've o'clock
oughtn't 'ow's'at shan't she'd've should've shouldn't shouldn't've somebody'd've somebody'll somebody's
someone'd someone'd've someone'll someone's something'd something'd've something'll that's there'd there'd've there're
there's they'd they'd've they'll they're they've 'twas wasn't we'd've we've weren't what'll what're what's what've
when's where'd where's where've who'd who'd've who'll who's who've why'll why're why's won't would've wouldn't
wouldn't've y'all y'all'll y'all'd've you'd you'd've you'll you're you've
""".split()
"""Forms whose missing apostrophe is added; not those that are another word without it (she'd, we'll)."""


def _with_one_missing(form: str) -> list[str]:
    return [form[:index] + form[index + 1 :] for index, letter in enumerate(form) if letter == "'"]


_WORDS = {missing: form for form in _CONTRACTIONS for missing in _with_one_missing(form)} | {"somebody'd": "somebodyd"}
"""The table of the VQA evaluation. Its last entry is as it has it: of this one form the apostrophe goes."""


def normalize_answer(text: str) -> str:
    """An answer in the form in which answers are compared.

    A punctuation mark becomes a space; it is removed without one if it stands beside a space somewhere in the text, or
    if the text has a comma between digits. Periods go unless a digit follows. Then words are lower-cased, numbers up to
    ten become digits (``none`` becomes 0), articles are dropped, and missing apostrophes of contractions are added.
    """
    text = text.replace("\n", " ").replace("\t", " ").strip()
    words = _without_punctuation(text).lower().split()
    numbers = (_NUMBERS.get(word, word) for word in words)
    return " ".join(_WORDS.get(word, word) for word in numbers if word not in _ARTICLES)


def _without_punctuation(text: str) -> str:
    has_number = _COMMA_IN_NUMBER.search(text) is not None
    cleaned = text
    for mark in _PUNCTUATION:
        beside_space = f"{mark} " in text or f" {mark}" in text
        cleaned = cleaned.replace(mark, "" if has_number or beside_space else " ")
    return _PERIOD.sub("", cleaned)


def vqa_accuracy(answer: str, references: Sequence[str]) -> float:
    """The accuracy of an answer in [0, 1].

    Args:
        answer: of the model.
        references: of the people, usually ten; equal ones are different people.

    Raises:
        ValueError: fewer than two references.
    """
    if len(references) < 2:
        raise ValueError(f"The accuracy needs the answers of at least two people, got {len(references)}")
    wanted = normalize_answer(answer)
    equal = [normalize_answer(reference) == wanted for reference in references]
    total = sum(equal)
    return sum(min(1.0, (total - is_equal) / _AGREE) for is_equal in equal) / len(equal)


def is_same_answer(answer: str, truth: str) -> bool:
    """Whether an answer is that of a row with one right answer.

    Case, articles, numbers in words and marks around words do not count, as for people's answers. Marks inside a word
    and signs do, as ``-5`` is not ``5``; and of ``A`` the article is left, so that an empty answer is never right.
    """
    return bool(given := _plain(answer)) and given == _plain(truth)


def _plain(text: str) -> str:
    words = _JOINED.sub(" ", _THOUSANDS.sub("", text.lower())).split()
    bare = (_PERIOD.sub("", word).strip(_AROUND) for word in words)
    numbers = [_NUMBERS.get(word, word) for word in bare if word]
    kept = [word for word in numbers if word not in _ARTICLES] or numbers
    return " ".join(_WORDS.get(word, word) for word in kept)


def own_part(text: str) -> str:
    """What of a completion answers its question: after any thinking, up to ``Question``, ``Answer`` or ``Short``."""
    return re.split(r"Question|Answer|Short|<think>", text.rpartition("</think>")[2], maxsplit=1)[0].strip()


def short_answer(text: str) -> str:
    """The answer in a completion: its own part up to a comma with a space."""
    return own_part(text).split(", ", 1)[0].strip()
