"""The labels that a prompt lists, where the labels of a dataset are too many for it."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

LABEL_TOKENS = 1500
"""Tokens of the labels that a prompt lists, at four characters each."""
_OF_LABEL = 20
"""Texts of a label that are compared with a problem."""
_COMMON = 0.1
"""Words in a larger share of the texts are not compared."""


def tokens_of_labels(labels: Iterable[str]) -> int:
    """About how many tokens a list of labels has."""
    return sum(len(label) / 4 + 1 for label in labels).__ceil__()


class LabelShortlist:
    """Finds the likely labels of a problem: those of the most similar other texts, and those whose name it speaks of.

    The text itself is not compared with itself, as its label would be the first then. Each label is compared by its
    name too, so that a label of one text only can be listed.

    Args:
        examples: text and label of each row.
        labels: all labels.
        tokens: of the labels that are listed.
    """

    def __init__(self, examples: Iterable[tuple[str, str]], labels: Sequence[str], tokens: int = LABEL_TOKENS) -> None:
        self._labels, self._tokens = labels, tokens
        used: Counter[str] = Counter()
        self._texts: list[tuple[str, str]] = [("", label) for label in labels]
        words = [_words(label.replace("_", " ")) for label in labels]
        for text, label in examples:
            used[label] += 1
            if used[label] <= _OF_LABEL:
                self._texts.append((text, label))
                words.append(_words(text))
        counts = Counter(word for each in words for word in each)
        most = max(2.0, _COMMON * len(words))
        self._weights = {word: math.log(len(words) / number) for word, number in counts.items() if number <= most}
        self._lengths = [math.sqrt(sum(self._weights.get(word, 0.0) ** 2 for word in each)) or 1.0 for each in words]
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        for index, each in enumerate(words):
            for word in each:
                if word in self._weights:
                    self._places[word].append(index)

    def of(self, text: str) -> tuple[str, ...]:
        """The likely labels of a problem, in the order of all labels, so that the order tells nothing."""
        scores: defaultdict[int, float] = defaultdict(float)
        for word in _words(text) & self._weights.keys():
            for index in self._places[word]:
                scores[index] += self._weights[word] ** 2
        best: dict[str, float] = {}
        for index, score in scores.items():
            other, label = self._texts[index]
            if other != text:
                best[label] = max(best.get(label, 0.0), score / self._lengths[index])
        ranked = sorted(self._labels, key=lambda label: -best.get(label, 0.0))
        left, chosen = float(self._tokens), set()
        for label in ranked:
            left -= len(label) / 4 + 1
            if left < 0:
                break
            chosen.add(label)
        return tuple(label for label in self._labels if label in chosen)


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.casefold()))
