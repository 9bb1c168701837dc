"""A task in one file: sort words alphabetically.

python -m grpo_training.generator1 --task examples/sort_words.py:TASK --dataset sort_words --max-problems 20
"""

import random

from engine.tasks.simple import SimpleTask

WORDS = "apple bridge candle desert eagle forest garden hammer island jacket kettle ladder mirror needle".split()


def rows(count):
    rng = random.Random(0)
    return [{"words": " ".join(rng.sample(WORDS, 4))} for _ in range(count)]


def reward(text, row):
    expected, words = sorted(row["words"].split()), text.split()
    in_place = sum(left == right for left, right in zip(expected, words, strict=False))
    return {"exact": float(words == expected), "in_place": in_place / max(len(expected), len(words))}


TASK = SimpleTask(
    "Sort these words alphabetically and separate them by spaces: {words}",
    reward,
    name="sort_words",
    rows=rows,
    reward_weights={"exact": 0.8, "in_place": 0.2},
    right="exact",
)
