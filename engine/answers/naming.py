"""Which of several labels or options an answer names.

An answer names one by its whole text, by a beginning ("billing - it is about money"), or as the only one that a
sentence mentions. One that hedges, denies or names several names none.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from engine.answers.words import ARTICLE, COMMA, CONCLUDES, DENIES, EDGES, HEDGES, MARKUP, TURNS, folded, plain
from engine.mathematics.quantities.number_words import read_number_words

_ASIDE = re.compile(r"\s*[(（](?:and\s+|but\s+)?not\b[^()]*[)）](?=[\s.]*\Z)", re.IGNORECASE)
"""What an answer is not: "C (not B)"."""
_CLAUSE = re.compile(r"[,.;:!?()\n]|\s-|\b(?:because|since|as|for)\b|因为")
_REASON = re.compile(r"\s*(?:[.,;:!()\n-]|\Z|(?:because|since|as|is|would|best|fits)\b)|因为|，|。|：")
_ASKED = re.compile(
    r"(?:(?:the\s+)?(?:correct\s+|right\s+)?(?:answer|option|choice|letter|选项?)\s*(?:is\s*)?)?", re.IGNORECASE
)
_SENTENCE = re.compile(r"(?:\S+\s+){3,}\S+")
_ALSO = {"yes": "true", "true": "yes", "no": "false", "false": "no"}


def _key(text: str) -> str:
    """A name without its signs between words and at its end: ``card_arrival?`` is ``card arrival``."""
    return " ".join(re.sub(r"(?<=\w)[_-]+(?=\w)", " ", plain(text)).strip(" ?.!;:,").split())


class Named:
    """Labels, or options with their marks.

    Args:
        names: the labels, or the texts of the options; may be empty where only marks are known.
        marks: of options: A, B, C. Of labels: none.
        ids: of labels: the class id of each.
    """

    def __init__(self, names: Sequence[str], marks: Sequence[str] = (), ids: Sequence[str] = ()) -> None:
        self._raw = [name.strip() for name in names]
        self._keys = [_key(name) for name in names]
        self._marks, self._ids = [*marks], [*ids]
        self._is_plain = "" not in self._keys and len(set(self._keys)) == len(self._keys)
        also = _ALSO if len(self._keys) == 2 and _ALSO.keys() >= set(self._keys) else {}
        keys = self._keys if self._is_plain else []
        self._place = {way: index for index, key in enumerate(keys) for way in (key, also.get(key, key))}
        self._place |= {way.replace(" ", ""): index for way, index in self._place.items() if len(way) > 3}
        self._names = _any_of(sorted(self._place, key=len, reverse=True))
        mark = "|".join(sorted(map(re.escape, marks), key=len, reverse=True)) or "(?!)"
        in_text = r"(?<![\w'.,$-])(MARK)(?![\w'%/]|[.,]\d|\s+[a-z]{2,}\b(?<!\bis)(?<!\bor)(?<!\band))"
        if marks and not marks[0].isalpha():  # a number need not be a mark
            in_text = r"(?<=[,;]\s)(MARK)(?=\s*(?:[,;.]|\Z))"
        patterns = (
            rf"[(\[【]\s*(MARK)\s*[)\]】]|{in_text}|(?i:option|choice)\s+((?i:MARK))\b",
            r"(?i)[*_\s]*(?:[(\[{【]\s*(MARK)\s*[)\]}】]|(MARK)(?=\s*[.):*：]|\s+-|\s*,|\s|\Z))",
        )
        self._in_text, self._first = (re.compile(pattern.replace("MARK", mark)) for pattern in patterns)

    def exactly(self, answer: str) -> int | None:
        """The place of the name, mark or id that a whole answer is; else None."""
        bare = answer.strip()
        for text in (bare, bare.strip("`'\" ")):
            if self._raw.count(text) == 1:
                return self._raw.index(text)
        key = _key(bare)
        if self._marks and (mark := self._whole_mark(bare)) is not None:
            return mark
        key = key if key in self._place else str(read_number_words(key) or key)
        number = re.sub(r"\A(?:class|label|category|id) ", "", key)
        ids = [index for index, class_id in enumerate(self._ids) if number == _key(class_id)]
        return self._place.get(key, ids[0] if len(ids) == 1 else None)

    def said(self, answer: str) -> int | None:
        """The place of the only name that an answer gives; None where it gives none or several, hedges or denies."""
        answer = _ASIDE.sub("", answer)
        exact = self.exactly(answer)
        if exact is not None or not (self._is_plain or self._marks):
            return exact
        if (chosen := self._beginning_mark(answer)) is not None:
            return None if chosen < 0 else chosen
        named = self._mentioned_one(answer)
        marks = self.marks_in(answer)
        if named is None:
            is_sure = len(marks) == 1 and "?" not in answer and not DENIES.search(answer) and not HEDGES.search(answer)
            return marks.pop() if is_sure and not self._found(answer) else None
        return named if marks <= {named} else None

    def begins(self, line: str) -> int | None:
        """The place of the only name that a line gives, if it begins with it, or as a conclusion: "So (B) is right"."""
        bare = CONCLUDES.sub("", line.strip(EDGES), count=1)
        is_first = self._begins_with(bare) is not None or self._beginning_mark(bare) is not None
        return self.said(bare) if is_first else self.exactly(bare)

    def mentioned(self, text: str) -> set[int]:
        """The places of all names and marks in a text."""
        exact = self.exactly(text)
        return ({exact} if exact is not None else set()) | self._found(text) | self.marks_in(text)

    def marks_in(self, text: str) -> set[int]:
        """The places of the marks that a text names: (B), "option b", or a capital that is no article."""
        return {self._mark_place(next(filter(None, match.groups()))) for match in self._in_text.finditer(text)}

    def _mark_place(self, mark: str) -> int:
        return list(map(str.casefold, self._marks)).index(mark.casefold())

    def _whole_mark(self, text: str) -> int | None:
        bare = re.sub(r"选?项\Z", "", plain(text).strip("()[]{}<>【】 .:*_"))
        bare = plain(_ASKED.sub("", bare, count=1)).strip("()[]{}【】 .:*_")
        return next((index for index, mark in enumerate(self._marks) if mark.casefold() == bare), None)

    def _beginning_mark(self, answer: str) -> int | None:
        """The option whose mark an answer begins with; -1 if the rest contradicts it; None without a mark."""
        answer = MARKUP.sub(r"\1", unicodedata.normalize("NFKC", answer)).strip(EDGES + "$")
        asked = _ASKED.match(answer)
        match = self._first.match(answer, asked.end() if asked else 0) if self._marks else None
        if match is None:
            return None
        mark, rest = match[1] or match[2], answer[match.end() :]
        index = self._mark_place(mark)
        is_bare = match[2] is not None and not (asked and asked[0]) and not re.match(r"\s*[.):*：]|\s+-", rest)
        is_sentence = rest.startswith(". ") and _SENTENCE.match(rest[2:]) and not TURNS.search(rest)
        rest = rest.lstrip(" .):*：_-]，")
        text = self._begins_with(rest)
        if is_bare and text != index and (mark.islower() or not _REASON.match(rest)):
            return None
        after = self._after_name(rest, index) if text == index else rest
        is_other = text not in (None, index) or (not is_sentence and self.marks_in(after) - {index})
        return -1 if is_other or _is_unsure(after) else index

    def _begins_with(self, text: str) -> int | None:
        """The place of the longest name that a text begins with."""
        match = self._names.match(_folded(text))
        return self._place[match[0]] if match else None

    def _after_name(self, text: str, index: int) -> str:
        """What follows the name at an index, with which a text begins."""
        words = re.findall(r"\w+", self._keys[index])
        match = re.match(r"(?:\W*(?:the|an?)\b)?\W*" + r"[\W_]+".join(map(re.escape, words)), text, re.IGNORECASE)
        return text[match.end() :] if match else text

    def _found(self, text: str) -> set[int]:
        return {self._place[match[0]] for match in self._names.finditer(_folded(text))}

    def _mentioned_one(self, answer: str) -> int | None:
        text = _folded(answer)
        number = re.match(r"(\d+)\s*(?=[:(-])", text)
        if number and number[1] in self._ids:
            index = self._ids.index(number[1])
            return index if self._found(text) <= {index} else None
        hits = list(self._names.finditer(text))
        if len({self._place[hit[0]] for hit in hits}) != 1:
            return None
        first, last = hits[0], hits[-1]
        before, after, name = text[: first.start()].strip(EDGES + "([#-"), text[last.end() :], first[0]
        is_unsure = DENIES.search(before) or HEDGES.search(before) or _is_unsure(after, name)
        return None if is_unsure else self._place[name]


def _is_unsure(after: str, name: str = "") -> bool:
    """Whether the clause after a name denies it or hedges. A name that is a denial itself is denied by no word."""
    clause = _CLAUSE.split(after.lstrip(" ,.;:!)"))[0]
    return bool(
        HEDGES.search(clause) or (DENIES.search(clause) and not DENIES.fullmatch(name)) or after.startswith("?")
    )


def _folded(text: str) -> str:
    """A text as names are searched in it: without case, markup and the signs between words."""
    text = re.sub(r"[*`\"“”$]|\\text\w*\s*\{|\\[()\[\]]", "", folded(text))
    return ARTICLE.sub("", " ".join(re.sub(r"(?<=\w)[_-]+(?=\w)", " ", text).split()))


def _any_of(names: Sequence[str]) -> re.Pattern[str]:
    """A pattern of names between words. Chinese has no space between words."""
    ways = []
    for name in (COMMA.sub(",", name) for name in names):
        before = r"(?<!\w)" if name[0].isascii() else ""
        after = r"(?!\w|[.,]\d|[+#])" if name[-1].isascii() else ""
        ways.append(before + re.escape(name) + after)
    return re.compile("|".join(ways) or "(?!)")
