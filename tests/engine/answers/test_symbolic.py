"""The jobs of the worker: which answers Math-Verify compares."""

import time

import math_verify  # noqa: F401 - the worker imports it before the job
import pytest

from engine.answers.symbolic import judge


def test_math_verify_compares_formulas_that_our_parser_cannot_read():
    payload = {"answer": r"\int_0^1 x dx", "truth": r"\frac{1}{2}", "comparison": "exact", "rel_tol": None}
    assert judge(payload) == {"correct": True, "method": "math_verify"}


def test_math_verify_is_not_used_for_tiny_numbers_and_physics():
    tiny = {"answer": r"\int_0^1 10^{-20} dx", "truth": r"\int_0^1 10^{-21} dx", "comparison": "exact", "rel_tol": None}
    assert judge(tiny)["correct"] is False
    physics = {"answer": r"\int_0^1 x dx", "truth": r"\frac{1}{2}", "comparison": "measured", "rel_tol": None}
    assert judge(physics)["correct"] is False


@pytest.mark.parametrize(
    "answer",
    [
        r"10^{10^{10}}_{16}",
        r"9^{9^{9^{9}}}_{3}",
        r"2^{1000000000}_{5}",
        r"((10^{999})^{999})^{999}_{3}",
        r"\frac{1}{10^{10^{10}}}'",
        r"0.5^{10^{10}}'",
        r"(1+i)^{100000000}'",
        r"(x+1)^{100000}_{a}",
        r"(10^{10})!'",
        r"\gcd(10^{10^{10}}, 3)'",
        r"\int_0^1 10^{10^{10}} x dx",
        r"\begin{pmatrix}1&1\\1&0\end{pmatrix}^{1000000}",
    ],
)
def test_math_verify_is_not_asked_for_numbers_of_too_many_digits(answer):
    started = time.process_time()
    assert judge({"answer": answer, "truth": "7", "comparison": "exact", "rel_tol": None})["correct"] is False
    assert time.process_time() - started < 5


def test_math_verify_compares_usual_powers():
    payload = {"answer": r"\int_0^1 x^{2023} \cdot 2^{100} dx", "truth": r"\frac{2^{100}}{2024}", "comparison": "exact"}
    assert judge({**payload, "rel_tol": None}) == {"correct": True, "method": "math_verify"}
