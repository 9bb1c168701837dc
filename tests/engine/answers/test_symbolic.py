"""The jobs of the worker: which answers Math-Verify compares."""

import math_verify  # noqa: F401 - the worker imports it before the job

from engine.answers.symbolic import judge


def test_math_verify_compares_formulas_that_our_parser_cannot_read():
    payload = {"answer": r"\int_0^1 x dx", "truth": r"\frac{1}{2}", "comparison": "exact", "rel_tol": None}
    assert judge(payload) == {"correct": True, "method": "math_verify"}


def test_math_verify_is_not_used_for_tiny_numbers_and_physics():
    tiny = {"answer": r"\int_0^1 10^{-20} dx", "truth": r"\int_0^1 10^{-21} dx", "comparison": "exact", "rel_tol": None}
    assert judge(tiny)["correct"] is False
    physics = {"answer": r"\int_0^1 x dx", "truth": r"\frac{1}{2}", "comparison": "measured", "rel_tol": None}
    assert judge(physics)["correct"] is False
