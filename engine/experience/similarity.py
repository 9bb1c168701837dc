"""Which experiences fit a problem: those that come from similar problems, or that speak of its subject.

Texts are compared by the cosine of their words, weighted by how rare a word is. No model is needed.
"""

import functools
import math
from collections import Counter
from collections.abc import Callable, Collection, Sequence

from engine.experience.review import shingles
from engine.records import Experience


class ExperienceMatcher:
    """Ranks the experiences of a library by their similarity to a problem.

    Problems that resemble each other need the same experience. So the similarity is the highest cosine between the
    problem and one of the problems that an experience was learned from, plus the cosine between the problem and the
    experience's own words. An experience that a person wrote has its own words only. The weights of words come from
    the library alone, so that the same library ranks equally everywhere.

    Args:
        experiences: the library.
    """

    def __init__(self, experiences: Sequence[Experience]) -> None:
        self._experiences = experiences
        sources = [
            list(dict.fromkeys(_words(one.problem_text) for one in each.evidence if one.problem_text))
            for each in experiences
        ]
        self._sources = _Texts({words for each in sources for words in each})
        self._sources_of = sources
        self._contents = [_words(f"{one.category.replace('_', ' ')} {one.content}") for one in experiences]
        self._content_texts = _Texts(self._contents)

    def similarities(self, text: str) -> list[float]:
        """The similarity of each experience to a problem, from 0 to 2, in the order of the library."""
        words = _words(text)
        to_source, to_content = self._sources.compared_with(words), self._content_texts.compared_with(words)
        return [
            max(map(to_source, sources), default=0.0) + to_content(own)
            for sources, own in zip(self._sources_of, self._contents, strict=True)
        ]

    def most_similar(self, text: str, count: int) -> list[Experience]:
        """The experiences that are the most similar to a problem, the most similar first.

        Equal ones keep the order of the library.

        Args:
            text: the text of the problem.
            count: number of experiences; all of them if the library has no more.
        """
        scores = self.similarities(text)
        order = sorted(range(len(scores)), key=lambda place: (-scores[place], place))
        return [self._experiences[place] for place in order[:count]]


class _Texts:
    """Texts that others are compared with, by the cosine of their words.

    The weight of a word is the logarithm of how rare it is among the texts, plus 1.

    Args:
        texts: their words.
    """

    def __init__(self, texts: Collection[frozenset[str]]) -> None:
        frequency = Counter(word for words in texts for word in words)
        self._squares = {word: (math.log((1 + len(texts)) / (1 + found)) + 1) ** 2 for word, found in frequency.items()}
        self._rarest = max(self._squares.values(), default=1.0)
        # fsum does not depend on the order of a set, which differs between processes.
        self._lengths = {words: math.sqrt(math.fsum(map(self._squares.__getitem__, words))) or 1.0 for words in texts}

    def compared_with(self, words: frozenset[str]) -> Callable[[frozenset[str]], float]:
        """The cosine between these words, of which unknown ones count in the length, and one of the texts."""
        length = math.sqrt(math.fsum(self._squares.get(word, self._rarest) for word in words)) or 1.0

        def cosine(text: frozenset[str]) -> float:
            return math.fsum(map(self._squares.__getitem__, text & words)) / (length * self._lengths[text])

        return cosine


@functools.lru_cache(maxsize=4096)
def _words(text: str) -> frozenset[str]:
    return shingles(text.casefold())
