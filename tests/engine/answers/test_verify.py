"""Verdicts: known errors of other verifiers, recorded answers of a real model, threads, and random texts."""

import json
import subprocess
import sys
import threading
import time
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.answers import layers
from engine.answers.verify import check_ground_truth, verify_answer
from engine.errors import InputError
from engine.records import Outcome
from engine.sandbox.worker import KillablePool, WorkResult
from tests.support.table import table

PATIENT = KillablePool(start_timeout_s=600)
"""Workers that may start slowly, as on a busy machine."""


def correct(answer, truth, **options):
    verdict = verify_answer(answer, truth, pool=PATIENT, **options)
    assert verdict.outcome is Outcome.OK, verdict
    return verdict.correct


HANG = r"\frac{5^{5^{5^{5^5}}-4}}{16}"


@table(
    ("truth", "answer", "comparison", "right"),
    [
        ("73", "**73**", "exact", True),
        ("73", "Final Answer: **73**", "exact", True),
        ("1/2", "0.5", "exact", True),
        ("2√3", "√12", "exact", True),
        ("025", "25", "exact", True),
        ("3.0×10⁸", "300000000", "exact", True),
        ("1.6×10⁻¹⁹", "9.1×10⁻³¹", "exact", False),
        ("1.6×10⁻¹⁹", "9.1×10⁻³¹", "measured", False),
        ("0.0000004", "0.0000001", "exact", False),
        ("1/2^{99}", "1/2^{98}", "exact", False),
        ("5 m/s", "5 kg", "exact", False),
        ("5 m/s", "5 kg", "measured", False),
        ("5 m", "5 cm", "exact", False),
        ("5 m", "5 cm", "measured", False),
        ("5 m", "500 cm", "measured", True),
        ("3.0×10⁸", "3e8", "exact", True),
        ("3.0×10⁸", "3e8", "measured", True),
        ("9.81", "9.8", "measured", True),
        ("9.81", "9.8", "exact", False),
        ("3.00×10⁸", "2.998×10⁸", "measured", True),
        ("0.5", "50 %", "exact", True),
        ("10", "10 %", "exact", False),
        ("2,3", "3,2", "exact", True),  # a bare list has no order ...
        ("(2,3)", "(3,2)", "exact", False),  # ... a pair has
        ("√(1/n)", "1/√n", "exact", True),
        (HANG, "7", "exact", False),
        ("7", HANG, "exact", False),
        ("3*x-1*y+13=0", "3x+4y+14=0", "exact", False),
        ("3*x-1*y+13=0", "y = 3x + 13", "exact", True),
    ],
)
def test_known_errors_of_other_verifiers(truth, answer, comparison, right):
    assert correct(answer, truth, comparison=comparison) is right


@table(
    ("answer", "truth"),
    [
        ("33 + 1 + 24 = 58", "58"),
        ("p + q = 23", "23"),
        (r"\( m + n + p = 1 + 7 + 96 = 104 \)", "104"),
        ("1,024", "1024"),
        ("79.99999999999999", "80"),
        ("33 ways", "33"),
        ("5 cm", "5"),
        ("90", r"90^\circ"),
        (r"30^\circ", r"\frac{\pi}{6}"),
        ("30 degrees", r"\frac{\pi}{6}"),
        (r"2+\sqrt{3}", r"\tan 75^\circ"),  # the argument is in degrees, the value is not
        (r"2\cos(20^\circ)", r"2\cos 20^\circ"),
        ("1.8794", r"2\cos 20^\circ"),
        ("5 m", r"5\text{ m}"),
        ("2 ft", "24 inches"),
        (r"\frac{\sqrt{3}}{2}", "0.866"),
        ("0.8660", r"\frac{\sqrt{3}}{2}"),
        (r"2\sqrt{3}\text{ cm}", r"\sqrt{12}"),
        ("x=1 or x=2", r"\{2, 1\}"),
        ("x = 1, y = 2", "(1, 2)"),
        ("y = 2, x = 1", "x = 1, y = 2"),
        (r"\pm 2", "-2, 2"),
        ("{1, 2}", "2 and 1"),
        (r"(\frac12, \sqrt{12})", r"(0.5, 2\sqrt3)"),
        ("[0, 1)", r"[0, \frac{2}{2})"),
        ("x > 3", r"(3, \infty)"),
        (r"(2,\infty) \cup (-\infty,1)", r"(-\infty,1)\cup(2,\infty)"),
        (r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", "(1, 2)"),
        ("2x = 10", "x - 5 = 0"),
        ("x = 2y", "y = x/2"),
        ("(C)", "C"),
        ("C) 5", "C"),
        (r"\text{evelyn}", "Evelyn"),
    ],
)
def test_correct_answers_in_mathematics(answer, truth):
    assert correct(answer, truth) is True


@table(
    ("answer", "truth"),
    [
        ("246.67", "247"),
        ("79.999", "80"),
        ("1,2", "12"),
        ("0.87", r"\frac{\sqrt{3}}{2}"),
        ("[0,1]", "[0,1)"),
        ("(0,1)", "[0,1]"),
        ("x = 2, y = 1", "x = 1, y = 2"),
        ("(1, 2)", r"\{1, 2\}"),
        ("1 or 2", "2"),
        (r"\boxed{1}, \boxed{2}, \boxed{3}", "2"),
        ("1, 1, 2", "1, 2"),
        ("x = 5", "y = 5"),
        ("50", "50%"),
        ("5 thousand", "5"),
        ("5 m", "5"),  # m may be an unknown
        ("20 4", "204"),
        ("x-1)", "x+1"),
        (r"60^\circ", r"30^\circ"),
        (r"\tan 70^\circ", r"2+\sqrt{3}"),
        ("e|x}", "e^{x}"),
        ("B", "C"),
        ("Tuesday", "Evelyn"),
        ("three", "3"),
        (r"\( m = 1 \), \( n = 818 \), \( p = 240 \)", "104"),
        ("__import__('os').system('true')", "3"),
        ("9" * 5000, "9"),
        ("1" * 100_000, "1"),
    ],
)
def test_wrong_answers_in_mathematics(answer, truth):
    assert correct(answer, truth) is False


@table(
    ("answer", "truth", "right"),
    [
        (r"$\boxed{5\ \mathrm{m\,s^{-1}}}$", "5 m/s", True),
        ("36 km/h", "10 m/s", True),
        ("The speed is 5 m/s.", "5 m/s", True),
        ("5", "5 m/s", False),
        ("5 m/s", "5", False),
        (r"3e8\text{ m/s}", r"3\times10^{8} m/s", True),
        ("298.15 K", "25 °C", True),
        ("27 °C", "25 °C", False),
        ("0.5236", "30°", True),
        ("0.5236 rad", "30°", True),
        ("30", "30°", False),
        ("4.7 kΩ", "4700 Ω", True),
        ("10 μF", "1e-5 F", True),
        ("0.1 nm", "1 Å", True),
        ("100 J", "100 N·m", True),
        ("F = ma = 10 N", "10 N", True),
        ("2π s", "6.28 s", True),
        (r"\sqrt{2} m", "1.414 m", True),
        ("1.24 s", "1.2 s", True),  # rounds to the truth
        ("1.3 s", "1.2 s", False),
        ("4.6 m", "5 m", False),
        ("-5 V", "5 V", False),
        ("5 m/s south", "5 m/s north", False),
        ("5 apples", "5 m", False),
        (r"\frac{1}{2}mv^2", "m v^2/2", True),
        ("m v^2", "m v^2/2", False),
        ("3 m, 4 s", "3 m, 4 s", True),
        ("(4 s, 3 m)", "(3 m, 4 s)", False),
        ("increases", "increases", True),
    ],
)
def test_answers_in_physics(answer, truth, right):
    assert correct(answer, truth, comparison="measured") is right


def test_rel_tol():
    assert correct("9.5 m/s^2", "9.81 m/s^2", comparison="measured") is False
    assert correct("9.5 m/s^2", "9.81 m/s^2", comparison="measured", rel_tol=0.05) is True
    assert correct("9.8", "9.81", rel_tol=0.01) is True
    assert correct("3", r"\pi", rel_tol=0.05) is True


@table("junk", [None, "", " ", "**", "```", "\\[", "```python", '{positions}")', "\x00", "\ud800", "$$"])
def test_text_without_an_answer_is_wrong(junk):
    assert correct(junk, "80") is False


@table(
    ("answer", "truth", "comparison", "method"),
    [
        ("25", "025", "exact", "integer"),
        ("2/4", "1/2", "exact", "rational"),
        ("0.5", "1/2", "exact", "numeric"),
        ("1, 2", "2, 1", "exact", "set"),
        ("[0, 1)", "[0, 1)", "exact", "interval"),
        (r"\sqrt{12}", r"2\sqrt{3}", "exact", "symbolic"),
        ("5 m", "500 cm", "measured", "units"),
        ("5 rad", "5", "measured", "units"),
        ("blue", "Blue", "exact", "text"),
    ],
)
def test_method_names_the_layer_that_decided(answer, truth, comparison, method):
    verdict = verify_answer(answer, truth, comparison=comparison)
    assert (verdict.correct, verdict.method) == (True, method)


@table(
    ("truth", "comparison"),
    [(None, "exact"), ("", "exact"), ("  ", "exact"), ("**", "exact"), ("N/A", "exact"), ("nan", "exact"),
     ("1" * 2000, "exact"), ("5 foos", "measured"), ("5 m, 3 bars/foo", "measured"), (7, "exact")],
)  # fmt: skip
def test_check_ground_truth_refuses_unusable_truths(truth, comparison):
    with pytest.raises(InputError) as refused:
        check_ground_truth(truth, comparison)
    assert "Unusable ground truth" in refused.value.what
    assert refused.value.why
    assert refused.value.fix


@table(
    ("truth", "comparison"),
    [("204", "exact"), ("Evelyn", "exact"), (r"\frac{1}{2}", "exact"), ("9.81 m/s^2", "measured"), ("0.75", "measured"),
     (r"\frac{1}{2} m v^2", "measured"), (r"2\pi \text{ s}", "measured"), ("25 °C", "measured")],
)  # fmt: skip
def test_usable_truths_are_accepted_as_answers_to_themselves(truth, comparison):
    check_ground_truth(truth, comparison)
    assert verify_answer(truth, truth, comparison=comparison).correct is True


def test_an_empty_truth_raises_an_error():
    with pytest.raises(InputError):
        verify_answer("5", "")


WRONGLY_RECORDED = {
    ("critic_results", 49, "aime2024_022"): "the fused answer is two asterisks; nothing in it is 80",
    ("critic_results", 50, "aime2024_022"): "the fused answer is two asterisks; nothing in it is 80",
}


def recorded_answers(recorded):
    for name, path in recorded.items():
        for line, text in enumerate(path.read_text(encoding="utf-8").splitlines()):
            record = json.loads(text)
            for index, rollout in enumerate(record.get("rollouts", [record])):
                answer = rollout["answer"] if "rollouts" in record else rollout["final_answer"]
                key = (name, line if "rollouts" not in record else (line, index), record["problem_id"])
                yield key, answer, record["ground_truth"], rollout["is_correct"]


def test_recorded_verdicts_are_reproduced_except_the_wrong_ones(recorded):
    cases = list(recorded_answers(recorded))
    assert len(cases) == 3 * 33 + 3 * 30 + 67
    differing = {
        key for key, answer, truth, was_correct in cases if verify_answer(answer, truth).correct != was_correct
    }
    assert differing == set(WRONGLY_RECORDED)


def test_aime_answers_are_correct_in_all_notations(aime2024):
    problems = [json.loads(line) for line in aime2024.read_text(encoding="utf-8").splitlines()]
    assert len(problems) == 30
    for problem in problems:
        truth = problem["answer"]
        check_ground_truth(truth)
        number = int(truth)
        for text in (
            truth, f"{number:03d}", f"{number}.0", f"**{number}**", f"\\boxed{{{number}}}",
            f"$\\boxed{{{number:03d}}}$",
            f"Final Answer: {number}", f"The answer is ${number}$.", f"m + n = {number}",
            f"{number - 1} + 1 = {number}",
            f"\\[ x = {number} \\]", f"\\frac{{{2 * number}}}{{2}}", f"{number}e0", f" {number}. ",
        ):  # fmt: skip
            assert correct(text, truth) is True, text
        for text in (str(number + 1), f"-{number}", f"{number}0", f"{number}.4", f"{number} or {number + 1}"):
            assert correct(text, truth) is False, text


def test_an_answer_is_wrong_if_the_worker_exceeds_its_time_limit(monkeypatch):
    monkeypatch.setattr(layers, "_JOB", "tests.support.worker_jobs:spin")
    pool = KillablePool(size=1)
    started = time.perf_counter()
    verdict = verify_answer("x", r"\sqrt{2}", pool=pool, timeout_s=0.3)
    assert (verdict.correct, verdict.outcome) == (False, Outcome.VERIFIER_TIMEOUT)
    assert time.perf_counter() - started < 25
    pool.close()


def test_an_answer_is_wrong_if_the_job_crashes(monkeypatch):
    monkeypatch.setattr(layers, "_JOB", "tests.support.worker_jobs:hoard")
    pool = KillablePool(size=1)
    verdict = verify_answer("x", r"\sqrt{2}", pool=pool)
    assert (verdict.correct, verdict.outcome) == (False, Outcome.OK)
    pool.close()


class NoWorker:
    def run(self, function, payload, timeout_s):
        return WorkResult(Outcome.INFRA_FAULT, error="the worker did not start")


def test_there_is_no_verdict_if_no_worker_could_be_started():
    verdict = verify_answer("x", r"\sqrt{2}", pool=NoWorker())
    assert (verdict.correct, verdict.outcome) == (None, Outcome.VERIFIER_TIMEOUT)


@pytest.fixture
def one_worker():
    pool = KillablePool(size=1, start_timeout_s=600)
    yield pool
    pool.close()


def test_verdicts_from_many_threads():
    cases = [(r"\sqrt{12}", r"2\sqrt{3}", True), ("x", "y", False), ("25", "025", True), (HANG, "7", False)] * 6
    verdicts = [None] * len(cases)

    def work(index):
        answer, truth, _ = cases[index]
        verdicts[index] = verify_answer(answer, truth).correct

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(cases))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert verdicts == [right for *_, right in cases]


def test_simple_answers_are_compared_without_heavy_imports():
    code = (
        "import sys; from engine.answers.verify import verify_answer as v;"
        "assert v('**73**', '73').correct and v('0.5', '1/2').correct;"
        "assert v('5 m', '500 cm', comparison='measured').correct;"
        "print([m for m in ('sympy', 'mpmath', 'math_verify') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


PIECES = [
    *"{}()[]^_10xnei!%+-*/,=<|$&°½\n\x00\ud800中", "23", r"\frac", r"\sqrt", r"\pi", " or ", r"\le", r"\pm",
    r"\cup", r"\infty", r"\text{", "m/s", " kg", "e9", "e-400", r"\log_", r"\sin", "gcd(", r"\binom", r"\boxed{",
    "**", r"\begin{pmatrix}", r"\\", "⁻¹", "answer: ", " is ", r"\overline{3}",
]  # fmt: skip
TRUTHS = ["204", r"\frac{1}{2}", r"2\sqrt{3}", "(1,2)", "[0,1)", "x+1", "5 m/s", r"\{1,2\}", "y=2x+3"]


@settings(max_examples=300)
@given(
    st.lists(st.sampled_from(PIECES), max_size=12).map("".join),
    st.sampled_from(TRUTHS),
    st.sampled_from(["exact", "measured"]),
)
def test_any_answer_gets_a_verdict(answer, truth, comparison):
    assert verify_answer(answer, truth, comparison=comparison, pool=PATIENT).correct in (True, False)


@settings(max_examples=200)
@given(st.fractions(max_denominator=10**6), st.fractions(max_denominator=10**6))
def test_fractions_are_compared_by_value(left, right):
    for a, b in ((left, right), (left, left)):
        texts = f"{a}", rf"\frac{{{b.numerator}}}{{{b.denominator}}}"
        assert correct(*texts) is correct(*texts[::-1]) is (a == b)


LEFT = [
    r"2\sqrt{3}",
    r"\sqrt{12}",
    "x+1",
    "1+x",
    "(1,2)",
    "1,2",
    r"\{1,2\}",
    "[1,2]",
    "1/2",
    r"\pi",
    "x=5",
    "2x=10",
]
RIGHT = [r"2\sqrt{3}", "x+1", "(1,2)", r"\{2,1\}", "[1,2]", "(1,2]", r"\frac{2}{4}", r"\pi", "5", "x-5=0"]


@settings(max_examples=60)
@given(st.sampled_from(LEFT), st.sampled_from(RIGHT))
def test_exact_forms_are_compared_symmetrically(left, right):
    assert correct(left, right) is correct(right, left)


def test_a_decimal_is_accepted_as_rounded_only_in_the_truth():
    assert correct(r"\pi", "3.14") is True
    assert correct("3.14", r"\pi") is False


def test_a_repeating_decimal_equals_its_fraction():
    assert Fraction(1, 6) == Fraction(1, 10) + Fraction(6, 90)
    assert correct(r"0.1\overline{6}", "1/6") is True
