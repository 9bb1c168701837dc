"""Answers that are not the truth although they contain it, or read alike: a policy would be paid for them."""

from engine.answers.verify import verify_answer
from tests.support.table import table


@table(
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


@table(
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


@table(
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
@table("comparison", ["exact", "measured"])
def test_units_that_measure_different_things(answer, truth, comparison):
    assert verify_answer(answer, truth, comparison=comparison).correct is False


@table(
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


@table(
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


@table(
    ("answer", "truth"),
    [
        ("5 to 3", "3 to 5"),
        ("3 to 5", "5 to 3"),
        ("B to A", "A to B"),
        ("3 decades", "3 centuries"),
        ("3 hectares", "3 acres"),
        ("2 weeks", "2 fortnights"),
        ("2 miles", "2 furlongs"),
        ("42 less than the total", "42"),
        ("B. Actually D.", "B"),
        ("5 ± 3", "5"),
        (r"\triangle ACB", r"\triangle ABC"),
        ("1/f(x)", "f^{-1}(x)"),
        ("1/2/3", "1:2:3"),
        ("12:1", "12"),
        ("5 cd", "5 lm"),
        ("A) B) C) D)", "A"),
        (r"\sqrt23", r"\sqrt{23}"),
        (r"\sqrt{23}", r"\sqrt23"),
        ("6 to 10", "3 to 5"),
        ("3 to 10", "10 to 3"),
        ("5到3", "3到5"),
        ("5 à 3", "3 à 5"),
        ("5-3", "3-5"),
        ("5–3", "3–5"),
        ("C to A", "A to C"),
        (r"5 \text{ to } 3", r"3 \text{ to } 5"),
        ("2:1", "1:2"),
        ("3:2:1", "1:2:3"),
        ("3/2", "2:3"),
        ("1:2", "1:2:3"),
        ("1", "1:1"),
        ("5:1", "5"),
        ("1:15", "3:45"),
        ("3 centuries", "3 decades"),
        ("3 centuries", "3 millennia"),
        ("5 apples", "5 km"),
        ("2 scores", "2 dozen"),
        ("7 hours", "7 days"),
        ("4 pints", "4 cups"),
        ("2 pounds", "2 stones"),
        ("5 miles", "5 nautical miles"),
        ("42 more than half", "42"),
        ("42 times the sum", "42"),
        ("42 fewer than before", "42"),
        ("C. No, A", "C"),
        ("C or D", "C"),
        ("C) x D) y", "C"),
        ("not C", "C"),
        ("A. B", "A"),
        ("A, B, C, D", "A"),
        ("B (or D)", "B"),
        ("(D) or (E)", "D"),
        (r"\angle ACB", r"\angle ABC"),
        (r"\overrightarrow{BA}", r"\overrightarrow{AB}"),
        (r"\vec{BA}", r"\vec{AB}"),
        (r"\triangle ABC \cong \triangle EDF", r"\triangle ABC \cong \triangle DEF"),
        (r"\triangle ABC \sim \triangle FED", r"\triangle ABC \sim \triangle DEF"),
        ("△ACB", "△ABC"),
        ("f(x)", "f'(x)"),
        ("f(x)+1", "f(x+1)"),
        ("2f(x)", "f(2x)"),
        (r"\frac{1}{g(y)}", "g^{-1}(y)"),
        (r"1/\sin(x)", r"\sin^{-1}(x)"),
        ("1/f(2)", "f^{-1}(2)"),
        (r"\sqrt12", r"\sqrt{12}"),
        (r"\sqrt[3]10", r"\sqrt[3]{10}"),
        (r"\sqrt 32", r"\sqrt 23"),
        ("18", r"17 \pmod{20}"),
        (r"37 \pmod{20}", "17"),
        ("1 hour 90 minutes", "90 minutes"),
        ("1 hour 30 seconds", "90 minutes"),
        ("5", "x+y=5"),
        ("6", "xy=6"),
        ("22", "a+b=23"),
        ("1,2", "x=2,y=1"),
        ("x=1,y=2", "(2,1)"),
        ("(1,2)", "(2,1)"),
        ("(1,2)", "x=2,y=1"),
        (r"\text{eleven}", "12"),
        (r"\text{twelve or thirteen}", "12"),
        ("x^2+x", "x^2+C"),
        ("x^2", "x^2+C"),
        ("x^2+2", "x^2+C"),
        ("x^2+k x", "x^2+c x"),
        (r"\frac{\pi}{2}+2n\pi", r"\frac{\pi}{2}+k\pi"),
        (r"\frac{\pi}{3}+n\pi", r"\frac{\pi}{2}+k\pi"),
        ("n^2", "k^2"),
        ("kx", "nx"),
        (r"\pi", r"n\pi"),
        ("0", "undefined"),
        ("infinite", "undefined"),
        ("undefined", "no solution"),
        ("0", "None"),
        ("१३", "१२"),
        ("5+-3", "5"),
        (r"-\infty", r"\infty"),
        ("5 cd/m^2", "5 lx"),
        ("5 - 8", "5"),
        ("3y+2x", "3x+2y"),
        ("4 a.m.", "4 hours"),
        ("10", "10 percent"),
        ("2^10 0", "2^{10}"),
        ("f(y)", "f(x)"),
    ],
)
def test_other_orders_units_figures_and_choices_are_other_answers(answer, truth):
    assert verify_answer(answer, truth).correct is False


@table(
    ("answer", "truth"),
    [
        ("3 decades", "3 centuries"),
        ("3 hectares", "3 acres"),
        ("2 weeks", "2 fortnights"),
        ("2 miles", "2 furlongs"),
        (r"5 \pm 3 m", "5 m"),
        ("5 ± 3 m", "5 m"),
        ("5 cd", "5 lm"),
        ("(5 ± 3) m", "5 m"),
        ("5 m ± 3 m", "5 m"),
        ("5 +/- 3 m", "5 m"),
        ("5 ± 60% m", "5 m"),
        ("5 cd/m^2", "5 lx"),
    ],
)
def test_quantities_that_differ_in_spread_or_unit(answer, truth):
    assert verify_answer(answer, truth, comparison="measured").correct is False


@table(
    ("answer", "truth"),
    [
        ("mg", "Mg"),
        ("qv", "qV"),
        ("ab", "AB"),
        ("a-b", "a b"),
        ("n k", "n-k"),
        ("x'", "x"),
        ("y''", "y'"),
        ("x-", "x"),
        ("ACB", "ABC"),
        ("HTH", "HHT"),
        ("A, C, B", "ABC"),
        ("A, B, D", "ABC"),
        (r"g \circ f", r"f \circ g"),
        (r"\frac{\partial f}{\partial y}", r"\frac{\partial f}{\partial x}"),
        (r"\nabla \times F", r"\nabla \cdot F"),
        (r"\mathbf{B}\mathbf{A}", r"\mathbf{A}\mathbf{B}"),
        (r"\mathbf{b} \times \mathbf{a}", r"\mathbf{a} \times \mathbf{b}"),
        (r"\{\{1, 2\}\}", r"\{1, 2\}"),
        (r"\{\emptyset\}", r"\emptyset"),
        ("1, 2, ...", "1, 2"),
        ("A to C to B", "A to B to C"),
    ],
)
def test_short_texts_are_formulas_and_orders(answer, truth):
    assert verify_answer(answer, truth).correct is False


@table(
    ("answer", "truth"),
    [
        (r"x < 2 \text{ and } x > 3", r"(-\infty, 2) \cup (3, \infty)"),
        (r"x > 2 \text{ and } x < 3", r"x > 2 \text{ or } x < 3"),
        (r"\not= 5", "5"),
        (r"x \not= 5", "5"),
        (r"|x| < 3", r"(-\infty, 3)"),
        ("[2, 5[", "[2, 5]"),
        (r"\mathbb{R}", r"\mathbb{R} \setminus \{0\}"),
        (r"k\pi, k \in \mathbb{N}", r"k\pi"),
        (r"\begin{cases} x = 1 \\ y = 2 \end{cases}", "(2, 1)"),
        ("(5, 2)", "C(5, 2)"),
        ("60'", r"60^\circ"),
        ("5''", "5'"),
        ("5 pairs of shoes", "5 shoes"),
        ("5 boxes of apples", "5 apples"),
        ("20% increase", "20% decrease"),
        ("12 am", "12 pm"),
        ("3:00 am", "4:00 am"),
        ("5 pm", "5"),
        ("2020-03-05", "2020-05-03"),
        ("1/2/2020", "2/4/2020"),
        ("August 5", "August 6"),
        ("5 million", "5 billion"),
        ("4 dollars 5 cents", "4.5"),
        ("10 mod 7", "10"),
    ],
)
def test_conditions_times_and_counts_differ(answer, truth):
    assert verify_answer(answer, truth).correct is False


@table(
    ("answer", "truth"),
    [
        ("Quantity A is greater", "Quantity B is greater"),
        (r"\boxed{\text{Quantity A is greater}}", "Quantity B is greater"),
        ("Alice is the winner", "Bob is the winner"),
        ("I and III are true", "I and II are true"),
        ("Statement I is true", "Statement II is true"),
        ("No, f is continuous", "Yes, f is continuous"),
        ("Box 1 is red", "Box 2 is red"),
        ("g is even", "f is even"),
    ],
)
def test_sentences_about_different_things(answer, truth):
    assert verify_answer(answer, truth).correct is False


@table(
    ("answer", "truth"),
    [
        ("1", r"2\frac12"),
        (r"1 - \frac12", r"1\frac12"),
        (r"-1\frac12", r"-1 + \frac12"),
        (r"2\mathbf{j} + \mathbf{i}", r"2\mathbf{i} + \mathbf{j}"),
        (r"\vec{a} - \vec{b}", r"\vec{b} - \vec{a}"),
        (r"\vec{x}", "x"),
        ("y = c_1e^x", "C_1e^x + C_2e^{-x}"),
        ("HO2", "H2O"),
    ],
)
def test_mixed_numbers_vectors_and_molecules_are_no_products(answer, truth):
    assert verify_answer(answer, truth).correct is False


@table(
    ("answer", "truth"),
    [
        ("5 m/s not", "5 m/s"),
        ("5 m/s, not correct", "5 m/s"),
        ("5 m/s less", "5 m/s"),
        ("5 m/s more than v", "5 m/s"),
        ("5 m/s x", "5 m/s"),
        ("5 m/s backward", "5 m/s forward"),
        ("5 N out of the page", "5 N into the page"),
        ("5 N away from the wall", "5 N toward the wall"),
        ("5 m/s in the negative x direction", "5 m/s in the positive x direction"),
        (r"q\vec B\times\vec v", r"q\vec v\times\vec B"),
        (r"g \circ f", r"f \circ g"),
    ],
)
def test_words_after_a_unit_that_change_a_quantity(answer, truth):
    assert verify_answer(answer, truth, comparison="measured").correct is False


@table(
    ("answer", "truth"),
    [
        ("[[1, 2], [3, 4]]", r"\begin{pmatrix} 1 & 3 \\ 2 & 4 \end{pmatrix}"),
        ("[[1, 2, 3, 4]]", "[[1, 2], [3, 4]]"),
        ("(1, 2)^T", r"\begin{pmatrix} 1 & 2 \end{pmatrix}"),
        ("x < 0 or x > 1", r"x \ne 0"),
        ("0x1F", "0x1E"),
        ("10-12", "3-5"),
        (r"R \ {0}", "0"),
        ("x", "x1"),
        ("3x", "x1 + x2"),
        ("0", "x0"),
        ("A1", "A"),
        ("x1 2", "x_{12}"),
        ("0b101", "0b110"),
        ("0b2", "0b3"),
        ("0x10", "10"),
        ("5‰", "5%"),
        ("US$5", "€5"),
        ("50¢", "$50"),
        ("C)", "B. Paris"),
        ("A", "A) 3 B) 4"),
        ("A", "A) B) C) D)"),
        ("B. London", "B. Paris"),
        ("A or B", "A. Paris"),
        ("Ca(OH)2", "Ca(OH)3"),
        ("SO_4^{2-}", "SO_4^{2+}"),
        ("x^{2}y", "x^{2y}"),
        (r"\frac{1}{2} day", r"\frac12 hour"),
        (r"\frac12 mod", r"\frac12"),
    ],
)
def test_code_money_and_chemistry_that_differ(answer, truth):
    assert verify_answer(answer, truth).correct is False


@table(
    ("answer", "truth"),
    [
        ("a[0]", "a(0)"),
        ("a[n]", "a(n)"),
        ("0", "a[0]"),
        ("a", "a[1]"),
        ("C / C2", "c / c2"),
        (r"\pi", r"\pi°"),
        (r"\frac{\pi}{6}", r"\frac{\pi}{6}^\circ"),
        ("No", r"\ce{NO}"),
        ("No", r"\mathrm{NO}"),
    ],
)
@table("is_turned", [False, True])
def test_elements_degrees_and_formulas_of_substances(answer, truth, is_turned):
    assert verify_answer(*((truth, answer) if is_turned else (answer, truth))).correct is False


@table(
    ("answer", "truth"),
    [
        ("No", "no"),
        ("NO", r"\text{No}"),
        ("no", r"\mathrm{No}"),
        ("NO", r"\ce{NO}"),
        ("C(5, 2)", "(5, 2)"),
        ("P(5, 2)", "(5, 2)"),
        ("A(5, 2)", "(5, 2)"),
        ("a[0]", "a[ 0 ]"),
        ("x[y + 1]", "xy + x"),
        (r"\frac{180}{\pi}", r"\frac{180}{\pi}^\circ"),
        (r"\pi", "180°"),
        (r"\sqrt[3]{x}", "x^{1/3}"),
    ],
)
def test_what_is_near_to_them_stays_equal(answer, truth):
    assert verify_answer(answer, truth).correct is True


@table(
    ("answer", "truth"),
    [
        (r"\frac{1}{2} m v_0", r"\frac{m v^2_0}{2}"),
        (r"\frac{3}{2} k_{\mathrm{A}} T", r"\frac{3}{2} k_{\mathrm{B}} T"),
        (r"\frac{m \omega}{2}", r"\frac{m \omega^{\prime}}{2}"),
        (r"\frac{v \omega_{L}^{2}}{2}", r"\frac{v \omega_{L}^{\prime 2}}{2}"),
        (r"\sqrt{2 G M / R}", r"\sqrt{\frac{2 G M_{\odot}}{R_{\odot}}}"),
        (r"\frac{q}{4 \pi \epsilon_0 R}", r"\frac{q}{4 \pi \varepsilon_0 R^2}"),
        ("f(2x)", "2 f(x)"),
        ("g(m1 - m2)", "h (m_1 - m_2)"),
    ],
)
def test_indices_and_primes_count(answer, truth):
    assert verify_answer(answer, truth).correct is False
