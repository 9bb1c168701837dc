"""Which experiences are about the subject of a text: cosine of word counts, weighted by how rare a word is.

No model is needed, so that a library can always be cut to what fits into a prompt.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from engine.experience.review import shingles
from engine.records import Experience


def most_similar(text: str, experiences: Sequence[Experience], count: int) -> list[Experience]:
    """The ``count`` experiences that are the most similar to a text, the most similar first.

    Words are compared by their TF-IDF cosine; the document frequencies are those of the experiences. Category and
    content of an experience count. Equal ones keep the order of the library.

    Args:
        text: the text of a problem.
        experiences: the library.
        count: number of experiences; all of them if the library has no more.
    """
    contents = [_tokens(f"{one.category.replace('_', ' ')} {one.content}") for one in experiences]
    frequency = Counter(token for tokens in contents for token in tokens)
    total = len(experiences)
    weight = {token: math.log((1 + total) / (1 + found)) + 1 for token, found in frequency.items()}
    wanted = _tokens(text) & weight.keys()
    scores = []
    for tokens in contents:
        shared = math.fsum(weight[token] ** 2 for token in sorted(tokens & wanted))
        length = math.sqrt(math.fsum(weight[token] ** 2 for token in sorted(tokens)))
        scores.append(shared / length if length else 0.0)
    order = sorted(range(total), key=lambda place: (-scores[place], place))
    return [experiences[place] for place in order[:count]]


def _tokens(text: str) -> frozenset[str]:
    return shingles(text.casefold())
