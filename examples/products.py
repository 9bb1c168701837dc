"""A task in one file: products of two numbers, for models that are too small for scaffolds.

python -m grpo_training.generator1 --task examples/products.py:TASK --dataset products --learn none
"""

import random
import re

from engine.tasks.simple import SimpleTask

PAIRS = [(a, b) for a in range(1, 31) for b in range(1, 31)]
random.Random(0).shuffle(PAIRS)
HELD_OUT = 200
"""Problems of ``products_test``; no run of ``products`` has them."""


def rows(pairs):
    return [{"a": a, "b": b, "answer": str(a * b)} for a, b in pairs]


def reward(text, row):
    numbers = re.findall(r"\d+", text.replace(",", ""))
    return float(bool(numbers) and numbers[-1] == row["answer"])


def task(name, pairs):
    return SimpleTask(
        "What is {a} * {b}?",
        reward,
        name=name,
        rows=lambda count: rows(pairs[:count]),
        instructions="Answer with the number only.",
    )


TASK = task("products", PAIRS[HELD_OUT:])
TEST = task("products_test", PAIRS[:HELD_OUT])
