"""How often does the experience that fits come first? By the words of texts, and by a sentence encoder.

Each experience comes from one problem. A new problem is compared with these problems, and the experience of its own
family should be the most similar one. ``quickstart:test`` has 17 of its 26 families in the library, as in a small run,
or all. MBPP has no families: there a problem's own family are the problems whose solutions call the same function of a
module, such as ``re.search`` or ``heapq.merge``.

    python -m bench.matching --mbpp mbpp_train.jsonl --encoder DIR_OF_MINILM
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from engine.datasets import load_problems
from engine.experience.similarity import ExperienceMatcher
from engine.records import Evidence, Experience

Ranking = Callable[[Sequence[str], str], list[float]]
"""The similarity of source texts to a text."""


def by_words(sources: Sequence[str], text: str) -> list[float]:
    """As runs match: cosine of weighted words."""
    return [sum(cosines) for cosines in _matcher(tuple(sources)).cosines(text)]


_MATCHERS: dict[tuple[str, ...], ExperienceMatcher] = {}


def _matcher(sources: tuple[str, ...]) -> ExperienceMatcher:
    if sources not in _MATCHERS:
        _MATCHERS.clear()
        _MATCHERS[sources] = ExperienceMatcher(
            [
                Experience(
                    id=f"G1-{n}", content="Check it.", evidence=[Evidence(problem_id=str(n), problem_text=source)]
                )
                for n, source in enumerate(sources)
            ]
        )
    return _MATCHERS[sources]


def by_encoder(folder: Path, texts: Sequence[str]) -> Ranking:
    """Cosine of the embeddings of a sentence-transformers model, for these texts."""
    from sentence_transformers import SentenceTransformer  # an optional package, and slow to import

    model = SentenceTransformer(str(folder), device="cpu")
    unique = list(dict.fromkeys(texts))
    known = dict(zip(unique, model.encode(unique, normalize_embeddings=True).tolist(), strict=True))

    def ranking(sources: Sequence[str], text: str) -> list[float]:
        return [sum(a * b for a, b in zip(known[source], known[text], strict=True)) for source in sources]

    return ranking


def quickstart(families: int, seed: int) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Text and family of a library, a problem each of some families, and of the new problems of these."""
    rng = random.Random(seed)

    def named(split: str) -> list[tuple[str, str]]:
        return [(problem.text, problem.id.rpartition("-")[0].partition("-")[2]) for problem in load_problems(split)]

    train = named("quickstart")
    chosen = rng.sample(sorted({family for _, family in train}), families)
    library = [rng.choice([pair for pair in train if pair[1] == family]) for family in chosen]
    return library, [pair for pair in named("quickstart:test") if pair[1] in chosen]


def mbpp(path: Path, seed: int) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Half of the problems that share a library function with others; text and function, and the other half."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    named = [(row["text"], name) for row in rows for name in sorted(_functions(row["code"]))[:1]]
    counts = {name: sum(other == name for _, other in named) for _, name in named}
    kept = [pair for pair in named if counts[pair[1]] >= 2]
    random.Random(seed).shuffle(kept)
    library = kept[: len(kept) // 2]
    present = {name for _, name in library}
    return library, [pair for pair in kept[len(kept) // 2 :] if pair[1] in present]


def _functions(code: str) -> set[str]:
    """Functions of imported modules that a program calls, except ``math``, which most programs may use."""
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return set()
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update({alias.asname or alias.name: alias.name for alias in node.names})
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
    called = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            first, _, rest = name.partition(".")
            if first in names:
                called.add(names[first] + (f".{rest}" if rest else ""))
    return {name for name in called if not name.startswith(("math", "sys"))}


def shares(
    ranking: Ranking, library: Sequence[tuple[str, str]], new: Sequence[tuple[str, str]]
) -> tuple[float, float, float, float]:
    """How often one of the own family is first, among 4 and among 8; and the first by chance."""
    texts, hits = [text for text, _ in library], [0, 0, 0]
    for text, family in new:
        scores = ranking(texts, text)
        order = sorted(range(len(texts)), key=lambda index: (-scores[index], index))
        for column, count in enumerate((1, 4, 8)):
            hits[column] += any(library[index][1] == family for index in order[:count])
    by_chance = sum(sum(other == family for _, other in library) / len(library) for _, family in new) / len(new)
    first, among_4, among_8 = (hit / len(new) for hit in hits)
    return first, among_4, among_8, by_chance


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mbpp", type=Path, help="problems with text and code")
    parser.add_argument("--encoder", type=Path, help="folder of a sentence-transformers model")
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args(argv)
    sets = {f"quickstart:test, {n} families": partial(quickstart, n) for n in (17, 26)}
    if arguments.mbpp:
        sets["MBPP"] = partial(mbpp, arguments.mbpp)
    for name, make in sets.items():
        drawn = [make(seed) for seed in range(arguments.seeds)]
        rankings: dict[str, Ranking] = {"words": by_words}
        if arguments.encoder:
            texts = [text for pair in drawn for problems in pair for text, _ in problems]
            rankings["encoder"] = by_encoder(arguments.encoder, texts)
        for way, ranking in rankings.items():
            results = [shares(ranking, library, new) for library, new in drawn]
            first, among_4, among_8, by_chance = (sum(values) / len(results) for values in zip(*results, strict=True))
            asked = sum(len(new) for _, new in drawn) / len(drawn)
            print(
                f"{name}, by {way}: first {first:.0%} (by chance {by_chance:.0%}), among 4 {among_4:.0%}, among 8 "
                f"{among_8:.0%}; {len(drawn[0][0])} in the library, {asked:.0f} new problems",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
