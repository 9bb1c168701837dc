"""Answers that are not the truth although they contain it, or read alike: a policy would be paid for them."""

import pytest

from engine.answers.verify import verify_answer


@pytest.mark.parametrize(
    ("answer", "truth"),
    [
        ("25", "x^2+y^2=25"),  # the truth is a circle
        ("5", "x + y = 5"),  # a line
        ("0", "2x - 3y = 0"),
        ("6", "xy = 6"),
        ("1", "x^2 + b = 1"),
        ("2x=5", "5"),
        ("5=2x", "5"),
        ("x^2=5", "5"),
        (r"\sqrt{x} = 5", "5"),
        (r"\sin x = 1", "1"),
        ("|x| = 5", "5"),
        ("2x + 3y = 5", "5"),
        ("3+3=5", "5"),
        ("1 + 1 = 3 = 5", "5"),
        ("2x = 3 + 2 = 5", "5"),
        ("x + x = 5", "5"),
        (r"\pi = 5", "5"),
        ("x > 3", "y > 3"),
        ("2x > 6", "x < 3"),
        ("-x > 1", "x > -1"),
        (r"2x \ge 6", "x > 3"),
    ],
)
def test_equations_are_no_values(answer, truth):
    assert verify_answer(answer, truth).correct is False


@pytest.mark.parametrize(
    ("answer", "truth"),
    [
        ("sqrt(x) + sin(y) + cos(z) + log(w) + 5", "5"),
        ("alpha + beta + gamma + delta + 5", "5"),
        ("length * width * height * depth * 5", "5"),
        ("5(length + width + height + depth)", "5"),
        (r"force \cdot distance + mass \cdot speed \cdot 5", "5"),
        ("log(7)**2 + log(102)**2 + log(8) + log(9)", "2 + log(102)"),
    ],
)
def test_a_formula_is_no_sentence_with_its_number(answer, truth):
    assert verify_answer(answer, truth).correct is False


@pytest.mark.parametrize(
    ("answer", "truth"),
    [
        ("60 rad/s", "60 Hz"),
        ("60 Hz", "60 rad/s"),
        ("5 kHz", "5000 rad/s"),
        ("5 Bq", "5 Hz"),
        ("5 Gy", "5 Sv"),
        ("5 cents", "5 dollars"),
        ("$5", "5 cents"),
        ("£5", "$5"),
        (r"\$5", "5 cents"),
        ("5 cents", r"\boxed{\$5}"),
        ("5 cents", "The cost is $5."),
        ("$5", "5 euros"),
        ("5 dollars", "5 euros"),
        ("2 months", "2 years"),
        ("3 weeks", "3 months"),
        ("5 ms", "5 m s"),
        ("5 m s", "5 ms"),
    ],
)
@pytest.mark.parametrize("comparison", ["exact", "measured"])
def test_units_that_measure_different_things(answer, truth, comparison):
    assert verify_answer(answer, truth, comparison=comparison).correct is False


@pytest.mark.parametrize(
    ("answer", "truth"),
    [
        ("42 lakh", "42"),
        (r"42 \text{ crore}", "42"),
        ("42 wrong", "42"),
        ("42 wrong answers", "42"),
        (r"42 \text{ is false}", "42"),
        ("42 is not the answer", "42"),
        ("$42$ is wrong", "42"),
        ("42 less than before", "42"),
        ("42 or so", "42"),
        ("12 dozens", "12"),
        ("5 tenths", "5"),
        ("5 hundredths", "5"),
        ("19 basis points", "19"),
        ("5 apples", "5 oranges"),
        (r"5 \text{ boys}", "5 girls"),
        ("10 am", "10 pm"),
        (r"12 \text{ or 13}", "12"),
        (r"12\text{ and 13}", "12"),
        (r"12 \text{ (or 13)}", "12"),
        ("12 or maybe 13", "12"),
    ],
)
def test_words_that_change_a_number(answer, truth):
    assert verify_answer(answer, truth).correct is False


@pytest.mark.parametrize(
    ("answer", "truth"),
    [
        ("5", "101_2"),
        ("101_3", "101_2"),
        ("11_4", "101_2"),
        ("101", "5_{10}"),
        ("101_2", "101"),
        (r"\begin{vmatrix} 1 & 2 \\ 3 & 4 \end{vmatrix}", r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}"),
        (r"\left|\begin{array}{cc} 1 & 2 \\ 3 & 4 \end{array}\right|", r"\begin{bmatrix} 1 & 2 \\ 3 & 4 \end{bmatrix}"),
        (r"\begin{pmatrix} 1 & 2 \end{pmatrix}", r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}"),
        (r"\begin{pmatrix} 1 & 2 & 3 & 4 \end{pmatrix}", r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}"),
        (r"\ln 2", r"\lg 2"),
        (r"\lg x", r"\ln x"),
        ("3, -3", r"\pm1\pm2"),
        (r"\pm 3", r"\pm1\pm2"),
        (r"1 \pm 2 \mp 1", r"1 \pm 2 \pm 1"),
        ("12, 345", r"12,\!345"),
        ("1 23", "123"),
        ("1.5", "1, 5"),
        ("1,500", "1.5"),
        (r"\{1, 2, 3\}", r"\{1, 2\}"),
        ("(1,2),(1,2)", "(1,2),(2,1)"),
        (r"\emptyset", "0"),
        ("no solution", "0"),
        ("5, 6", "5"),
        ("x = 5, y = 5", "5"),
        (r"\{1/2, 0.5\}", r"\{1/2, 3\}"),
        (r"\{1, 2\}", r"\{1\}"),
        ("E", "2e"),
        ("E + e", "2e"),
        ("C", r"\text{(B)}"),
    ],
)
def test_notations_that_look_alike(answer, truth):
    assert verify_answer(answer, truth).correct is False
