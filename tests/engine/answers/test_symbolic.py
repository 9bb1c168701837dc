"""The jobs of the worker: formulas that would take long to evaluate."""

import time

import pytest

from engine.answers.symbolic import judge


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
def test_numbers_of_too_many_digits_are_decided_at_once(answer):
    started = time.process_time()
    assert judge({"answer": answer, "truth": "7", "comparison": "exact", "rel_tol": None})["correct"] is False
    assert time.process_time() - started < 5
