"""Recorded rollouts and fusions as rows of their files."""

import json

SCAFFOLD = {"target_variable": "x", "knowns": {"a": 1}}
TEXT = "Let $x$ be a number with\n\\[x + 1 = 43\\]\nFind $x$."
OTHER = "How many sides has a square? Answer with an integer, please."


def recorded_group(text=TEXT, rollouts=(), problem_id="p1", **fields):
    pairs = rollouts or [(repr(SCAFFOLD), "40"), (json.dumps(SCAFFOLD), "41"), (SCAFFOLD, "42")]
    return {
        "problem_id": problem_id, "problem_text": text, "ground_truth": "42", "timestamp": "t", **fields,
        "rollouts": [{"rollout_id": k, "scaffold": s, "answer": a} for k, (s, a) in enumerate(pairs, 1)],
    }  # fmt: skip


def recorded_fusion(generator_id, answer, text=TEXT, problem_id="p1", scaffold=SCAFFOLD):
    return {
        "problem_id": problem_id, "problem_text": text, "ground_truth": "42", "generator_id": generator_id,
        "fused_scaffold": scaffold, "final_answer": answer, "rewards": {}, "timestamp": "t",
    }  # fmt: skip


def write_rows(path, *rows):
    """A file with one row per line; strings are written as they are."""
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path
