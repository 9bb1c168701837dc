"""The worker's jobs: what Math-Verify is asked for."""

import math_verify  # noqa: F401 - the worker imports it before the job

from engine.answers.symbolic import judge


def test_math_verify_is_asked_for_what_our_reader_does_not_know():
    payload = {"answer": r"\int_0^1 x dx", "truth": r"\frac{1}{2}", "comparison": "exact", "rel_tol": None}
    assert judge(payload) == {"correct": True, "method": "math_verify"}


def test_math_verify_says_nothing_about_tiny_numbers_or_for_physics():
    tiny = {"answer": r"\int_0^1 10^{-20} dx", "truth": r"\int_0^1 10^{-21} dx", "comparison": "exact", "rel_tol": None}
    assert judge(tiny)["correct"] is False
    physics = {"answer": r"\int_0^1 x dx", "truth": r"\frac{1}{2}", "comparison": "measured", "rel_tol": None}
    assert judge(physics)["correct"] is False
