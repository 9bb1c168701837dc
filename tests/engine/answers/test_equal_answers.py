"""Answers that are the truth in another notation, in a sentence, or with a remark."""

from engine.answers.normalise import answer_text
from engine.answers.verify import verify_answer
from tests.support.table import table


def is_right(answer, truth, comparison="exact"):
    return verify_answer(answer, truth, comparison=comparison).correct


@table(
    ("text", "answer"),
    [
        ("The largest $n$ is 34", "34"),
        ("Final Answer: The largest $n$ is 34.", "34"),
        ("Final Answer: The width of $ABCD$ is 12. I hope that this is right.", "12"),
        ("Final Answer: Ann began 3 hours ago. I hope that this is right.", "3 hours"),
        ("Hence the probability that Bob loses is 2/3. <|im_end|>", "2/3"),
        ("The answer is 2/3.<end_of_turn>\n<start_of_turn>user\nAnd for 5?", "2/3"),
        ("The answer is 2/3.</s>", "2/3"),
        ("Hence the chance is 2/3.\n<|im_start|>user\nNow the final answer is 5", "2/3"),
        ("So the smallest error, after all of these steps, grows by 100%.", "100%"),
        (r"Therefore $x \ge 5$ solves it.", r"x \ge 5"),
        (r"We find that $x \ne 3$.", r"x \ne 3"),
        ("The solution is $x != 3$", "x != 3"),
        ("approximately 42", "42"),
        (r"\approx 42", "42"),
        ("0.672 s (approx)", "0.672 s"),
        (r"0.672 \text{ (approx.)}", "0.672"),
        ("答案：42。", "42"),
        (r"$\boxed{28}$ pct", "28%"),
        (r"$\boxed{28}\%$", "28%"),
        (r"$\boxed{5}$ cents", "5 cents"),
        (r"$\boxed{5}$ in total", "5"),
        (r"\boxed{1} red and \boxed{2} blue", "1, 2"),
        (r"\boxed{1} then after long work \boxed{2}", "2"),
        ("The answer is not 42", "not 42"),
        ("**Answer:** 42", "42"),
        ("**Answer: 42**", "42"),
        ("exactly 42", "42"),
        (r"\boxed{\text{42 apples}}", "42 apples"),
        (r"\boxed{14} m/s", r"14\text{ m/s}"),
        (r"\boxed{14}~\text{m/s}", r"14 \text{m/s}"),
        (r"\(\boxed{14}\) m/s for the car", r"14\text{ m/s}"),
        (r"\boxed{14} m.", r"14\text{ m}"),
        (r"\boxed{14} a day", "14"),
        (r"The speed is approximately \(14\) m/s.", r"14\text{ m/s}"),
    ],
)
def test_the_answer_is_found_in_prose(text, answer):
    assert answer_text(text) == answer


@table(
    ("answer", "truth"),
    [
        ("1 000", "1000"),
        ("2 500 km", "2500"),
        ("1,000.99€", "1000.99"),
        ("12.50m²", "12.5"),
        (r"12,\!345", "12345"),
        ("12345", r"12,\!345"),
        ("1 {, }916", "1916"),
        ("28 pct", r"28\%"),
        ("28 percentage", r"28\%"),
        (r"5\textnormal{ miles}", "5 miles"),
        ("500 cents", "5 dollars"),
        ("$5", "500 cents"),
        ("€1,234.50", "1234.5"),
        ("The total cost is £0.50.", "50 pence"),
        (r"$\$5.50$", "550 cents"),
        (r"\$32,\!348", "32348 dollars"),
        ("$5", "5"),
        ("5", "$5"),
        ("$5$", "5 cents"),
        ("-$5", "-5"),
        ("24 months", "2 yrs"),
        ("1 turn", r"2\pi \text{ rad}"),
        ("5 boys", "5 tall boys"),
        ("1 way", "1"),
        ("33 possible ways", "33"),
        ("12 ordered pairs", "12"),
        ("5 sixth graders", "5"),
        ("1/2 or 0.5", "1/2"),
        (r"\frac{1}{2} \text{ or } 0.5", "0.5"),
        (r"\boxed{42} m", "42"),
        (r"0.\bar{3}", "1/3"),
        (r"\bf 42", "42"),
        (r"\textcolor{red}{42}", "42"),
        (r"\color{blue}{42}", "42"),
        (r"\underline{42}", "42"),
    ],
)
def test_numbers(answer, truth):
    assert is_right(answer, truth) is True


@table(
    ("answer", "truth"),
    [
        ("(3,2)", "(p,q)=(3,2)"),
        ("(q, p) = (2, 3)", "(p, q) = (3, 2)"),
        ("(x, y) = (5, 8) and (8, 5)", "(5, 8), (8, 5)"),
        ("(1,2),(3,4),(1,2)", "(1,2),(3,4)"),
        (r"\{1, 1, 2\}", r"\{1, 2\}"),
        (r"\{1/2, 0.5\}", r"\{0.5\}"),
        (r"\{0.5\}", r"\{1/2, 0.5\}"),
        (r"\{1/2, 0.5, 3\}", r"\{3, 0.5\}"),
        (r"\{\sqrt{8}, 2\sqrt{2}, 1\}", r"\{1, \sqrt{8}\}"),
        (r"\langle 1, 2\rangle", "(1, 2)"),
        ("(11,7)or(7,11)", "(7,11), (11,7)"),
        (r"\emptyset", "no solution"),
        ("no real solutions", r"\emptyset"),
        (r"\{0\} \cup [1, 2)", r"[1,2) \cup \{0\}"),
    ],
)
def test_collections(answer, truth):
    assert is_right(answer, truth) is True


@table(
    ("answer", "truth"),
    [
        (r"1/3 \approx 0.333", "1/3"),
        (r"x = 1/3 \approx 0.333", "1/3"),
        (r"x \approx 11", "11"),
        ("f(2) = 5", "5"),
        ("5", "f(x) = 5"),
        ("1", "|AB| = 1"),
        ("7:32", "S_{AB}:S = 7:32"),
        ("a/b = 3/4", "3/4"),
        ("xy = 6", "6"),
        ("total = 6", "6"),
        ("x = 4 + 7 = 11", "11"),
        (r"1 \ge x", "x <= 1"),
        (r"-2 \\le x \\le 7", "[-2, 7]"),
        ("y = -3/2 x + 3", "3x + 2y = 6"),
    ],
)
def test_relations(answer, truth):
    assert is_right(answer, truth) is True


@table(
    ("answer", "truth"),
    [
        (r"\left[\begin{array}{cc} 1 & 2 \\ 3 & 4 \end{array}\right]", r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}"),
        (r"(\begin{pmatrix} 1 \\ 2 \end{pmatrix})", r"\begin{bmatrix} 1 \\ \frac42 \end{bmatrix}"),
        ("101", "101_2"),
        (r"101_{\text{two}}", "101_2"),
        ("(101)_2", "101 base 2"),
        ("1aF_{16}", "1AF_{16}"),
        ("-3, -1, 1, 3", r"\pm1\pm2"),
        (r"-1 \mp 2", r"\pm 2 - 1"),
    ],
)  # fmt: skip
def test_matrices_bases_and_signs(answer, truth):
    assert is_right(answer, truth) is True


@table(
    ("answer", "truth"),
    [
        ("Abs(x - 1)", "|x - 1|"),
        ("Max(2, 7)", "7"),
    ],
)
def test_names_as_sympy_prints_them(answer, truth):
    assert is_right(answer, truth) is True


@table(
    ("answer", "truth"),
    [("Option B", "B"), ("B", r"\text{(B)}"), ("(B)", r"\text{(B)}"), (r"\textbf{(B)}\ 42", r"\text{(B)}")],
)
def test_letters_of_choices(answer, truth):
    assert is_right(answer, truth) is True


@table(
    ("answer", "truth"),
    [
        ("0.672 s (approx)", "0.672 s"),
        ("about 5 €", "5 euros"),
        ("2 turns", "12.57 rad"),
        (r"\boxed{14} m/s", "14 m/s"),
        (r"\boxed{14} N.", "14 N"),
        (r"The final speed is approximately \(14\) m/s.", "14 m/s"),
        ("12 000 N", "12 kN"),
    ],
)
def test_quantities(answer, truth):
    assert is_right(answer, truth, "measured") is True


@table(
    ("answer", "truth"),
    [
        ("1 hour 30 minutes", "90 minutes"),
        ("90 minutes", "1 hour 30 minutes"),
        ("17", r"17 \pmod{20}"),
        (r"17 \pmod{20}", "17"),
        ("a+b=23", "23"),
        ("23", "a+b=23"),
        ("x=2,y=1", "(2,1)"),
        ("(2,1)", "x=2,y=1"),
        ("2, 1", "x=2, y=1"),
        ("x=2, y=1", "2, 1"),
        ("x=2,y=1", "x=2,y=1"),
        (r"\boxed{\text{twelve}}", "12"),
        (r"\boxed{\text{The answer is }\frac12}", r"\frac12"),
        ("x^2+c", "x^2+C"),
        (r"\frac{\pi}{2}+n\pi", r"\frac{\pi}{2}+k\pi"),
        ("DNE", "undefined"),
        ("undefined", "DNE"),
        ("None", "no solution"),
        ("no solution", "None"),
        ("3 to 5", "3 to 5"),
        ("3 to 5", "3:5"),
        ("7:32", "7:32"),
        ("90 min", "1 h 30 min"),
        ("1.5 hours", "1 hour and 30 minutes"),
        ("63 inches", "5 feet 3 inches"),
        ("125 s", "2 minutes 5 seconds"),
        ("26 hours", "1 day 2 hours"),
        ("1 hour 30 minutes", "1.5 hours"),
        ("90 minutes", "1 hour, 30 minutes"),
        ("17", "17 (mod 20)"),
        ("17", r"x \equiv 17 \pmod{20}"),
        ("17 (mod 20)", "17"),
        ("33", "m+n=33"),
        ("m+n=33", "33"),
        ("6", "ab=6"),
        ("(x,y)=(2,1)", "(2,1)"),
        ("y=1,x=2", "x=2,y=1"),
        ("x=2, y=1", "(x,y)=(2,1)"),
        ("(2,1)", r"x=2 \text{ and } y=1"),
        (r"\text{Twelve}", "12"),
        (r"\text{minus five}", "-5"),
        (r"\text{twenty-five}", "25"),
        (r"\text{three quarters}", "3/4"),
        (r"\text{two hundred and four}", "204"),
        (r"\text{twelve cm}", r"12 \text{ cm}"),
        (r"\text{The answer is: }\frac12", r"\frac12"),
        (r"\boxed{\text{answer = }5}", "5"),
        (r"\sin x + K", r"\sin x + C"),
        (r"c-\cos x", r"-\cos x + C"),
        (r"\ln|x|+c", r"\ln|x|+C"),
        (r"2n\pi", r"2k\pi"),
        ("30+360n", "30+360k"),
        (r"\frac{n\pi}{2}", r"\frac{k\pi}{2}"),
        ("does not exist", "undefined"),
        (r"\text{undefined}", r"\text{DNE}"),
        (r"\text{None}", "no solution"),
        ("None", r"\emptyset"),
        ("no solution", "no solutions"),
        ("12", "१२"),
        ("12", "١٢"),
        ("१२", "१२"),
        ("10 acres", "10 acres"),
        ("10 decades", "100 years"),
        ("B. The cat sat on it", "B"),
        ("(B) 12 apples", "B"),
        ("B) A triangle", "B"),
        ("Option B", "B"),
        ("A. a cow", "A"),
        (r"\triangle ABC", r"\triangle ABC"),
        ("△ABC", r"\triangle ABC"),
        (r"\overline{AB}", r"\overline{AB}"),
        ("f^{-1}(x)", "f^{-1}(x)"),
        (r"2\sqrt3", r"2\sqrt{3}"),
        (r"\sqrt{3}", r"\sqrt3"),
        (r"\sqrt{23}", "√23"),
        (r"5 \pm 0.1", r"5 \pm 0.1"),
        ("5, -1", r"2 \pm 3"),
        ("5 minutes", "5 mins"),
        ("12 square units", "12 cm^2"),
        (r"5^\circ", "5 degrees"),
        ("42", "42 apples"),
    ],
)
def test_other_ways_to_write_an_answer(answer, truth):
    assert verify_answer(answer, truth).correct is True


@table(
    ("answer", "truth"),
    [
        ("1 hour 30 minutes", "90 minutes"),
        ("90 minutes", "1 hour 30 minutes"),
        ("5.0 ± 0.1 m", "5 m"),
        ("(5.0 ± 0.1) m", "5 m"),
        ("300 years", "3 centuries"),
        ("1 m 60 cm", "1.60 m"),
        ("4047 m^2", "1 acre"),
        ("1 h 30 min", "90 min"),
        ("8.31 J/(K mol)", r"8.31 \mathrm{~JK}^{-1} \mathrm{~mol}^{-1}"),
        ("2500 J/mol", "2.5 kJmol^{-1}"),
    ],
)
def test_other_ways_to_write_a_quantity(answer, truth):
    assert verify_answer(answer, truth, comparison="measured").correct is True


@table(
    ("answer", "truth"),
    [
        ("3:45 p.m.", "3:45 PM"),
        ("5 pm", "5:00 p.m."),
        ("7:30", "7:30 AM"),
        ("March 5th", "5 March"),
        ("the 4th of July, 1776", "July 4, 1776"),
        ("03/05/2020", "3/5/2020"),
        ("1.5 million", "1500000"),
        ("$1.5 million", "1,500,000"),
        ("42 million dollars", "$42 million"),
        ("3 dozen eggs", "36"),
        ("42 dollars and 50 cents", "42.50"),
        ("4 dollars 5 cents", "405 cents"),
        ("0.1818...", "2/11"),
        (r"0.\dot{3}", "1/3"),
        ("2.718281828...", "e"),
        ("1.234.567", "1234567"),
        ("1'234'567", "1234567"),
        (r"3 \bmod 7", "3"),
        (r"x \equiv 3 \mod 7", r"3 \pmod{7}"),
        ("_{10}C_3", "120"),
        (r"101\text{ base }2", "101_2"),
        ("1101_{(2)}", "1101_2"),
        (r"\nicefrac{1}{2}", "1/2"),
        (r"\emph{5}", "5"),
        (r"60^{\text{o}}", r"60^\circ"),
        (r"\text{infinity}", r"\infty"),
        (r"\therefore 42", "42"),
        ("答案是5", "5"),
        ("'5'", "5"),
        (r"\frac{\sqrt{25}}{2}", r"2\frac12"),
        (r"3\text{ to }2", "3:2"),
        ("A to B to C", "A to B to C"),
    ],
)
def test_times_dates_and_large_numbers(answer, truth):
    assert is_right(answer, truth) is True


@table(
    ("answer", "truth"),
    [
        (r"42\text{ sq. units}", "42"),
        (r"42 \text{ units}^2", "42"),
        ("42 u^2", "42"),
        ("5 feet tall", "5 ft"),
        ("42 years", "42 years old"),
        ("42 cups of flour", "42 cups"),
        ("42 left", "42"),
        ("42 each", "42"),
        ("42% increase", "42%"),
        (r"42 \% \text{ increase}", "42%"),
        ("0.5 m", "50 cm"),
        ("72 km/h", "20 m/s"),
        ("2 L", "2000 mL"),
        ("5 kmph", "5 km/h"),
    ],
)
def test_units_and_counted_things(answer, truth):
    assert is_right(answer, truth) is True


@table(
    ("answer", "truth"),
    [
        (r"\text{Area} = 42 \text{ cm}^2", "42"),
        (r"\text{Total cost} = 42", "42"),
        (r"\mathbf{v} = \begin{pmatrix} 1 \\ 2 \end{pmatrix}", "(1, 2)"),
        (r"\vec{v} = (1, 2)", "(1, 2)"),
        (r"|\vec v| = 5", "5"),
        ("f(-2) = 5", "5"),
        ("f(10) = 5", "5"),
        ("f^{-1}(2) = 5", "5"),
        ("f(g(2)) = 5", "5"),
        (r"P(A \cap B) = \frac12", "1/2"),
        (r"\operatorname{Var}(X) = 5", "5"),
        (r"\lim_{x\to 0} f(x) = 5", "5"),
        (r"f_{\text{max}} = 5", "5"),
        (r"\|v\| = 5", "5"),
        ("Total: $42", "42"),
        ("Ans: 5", "5"),
        ("A(1, 2)", "(1, 2)"),
        ("(1, 2)", "A(1, 2)"),
        (r"2k\pi, k \in \mathbb{Z}", r"2k\pi"),
        (r"x = \frac{\pi}{4} + n\pi", r"x = \frac{\pi}{4} + k\pi\ (k \in \mathbb{Z})"),
        (r"k\pi \text{ where } k \text{ is an integer}", r"k\pi"),
        (r"\begin{pmatrix} 1 \\[4pt] 2 \end{pmatrix}", "(1, 2)"),
        (r"x = 1 \lor x = 2", "1, 2"),
        (r"\mathbf{x} + 1", "x + 1"),
    ],
)
def test_names_points_and_systems(answer, truth):
    assert is_right(answer, truth) is True


@table(
    ("answer", "truth"),
    [
        (r"x \ne 0", r"(-\infty, 0) \cup (0, \infty)"),
        (r"\mathbb{R} \setminus \{0\}", r"x \neq 0"),
        (r"\{x \in \mathbb{R} : x > 2\}", r"(2, \infty)"),
        (r"x > 2 \text{ and } x \le 5", "(2, 5]"),
        (r"\text{all real numbers}", r"\mathbb{R}"),
        (r"x \not= 0", r"x \ne 0"),
    ],
)
def test_intervals(answer, truth):
    assert is_right(answer, truth) is True


@table(
    ("answer", "truth"),
    [
        ("(c)", "C"),
        ("option c", "C"),
        ("C: because it rains", "C"),
        ("C - 42", "C"),
        ("BD", "B, D"),
        ("B, D", "BD"),
        ("YES", "yes"),
        ("Dog", "dog"),
        ("RED", "red"),
        (r"\text{A circle}", "circle"),
        (r"\boxed{\text{Quantity B is greater}}", "Quantity B is greater"),
        ("Therefore, Bob is the winner.", "Bob is the winner"),
        ("The function f is even", "f(x) is even"),
        ("even", "The function is even"),
        ("The capital of France is Paris", "Paris"),
        ("H_2O", "H2O"),
    ],
)
def test_choices_and_words(answer, truth):
    assert is_right(answer, truth) is True


@table(
    ("answer", "truth"),
    [
        (r"3.0\times10^8 ms^{-1}", "3.0e8 m/s"),
        ("9.8 ms^{-2}", "9.8 m/s^2"),
        ("5 m/s in the x direction", "5 m/s"),
        ("5 N towards the center", "5 N toward the center"),
        ("10 m above the ground", "10 m"),
    ],
)
def test_quantities_with_a_direction(answer, truth):
    assert is_right(answer, truth, "measured") is True


@table(
    ("answer", "truth"),
    [
        ("[[1, 2], [3, 4]]", r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}"),
        ("[[1, 2], [3, 4]]", "((1, 2), (3, 4))"),
        ("x1", "x_1"),
        ("3x2 + 2x1", "2x_1 + 3x_2"),
        ("sin30", r"\sin(30)"),
        ("(1, 2, 3)^T", "(1, 2, 3)"),
        (r"[1, 2, 3]^{\top}", r"\begin{pmatrix} 1 \\ 2 \\ 3 \end{pmatrix}"),
        ("x in (0, 1]", r"0 < x \le 1"),
        ("x < 0 or x > 0", r"x \ne 0"),
        (r"R \ {0}", r"x \ne 0"),
        ("0xff", "0xFF"),
        ("0x1F", "1F_{16}"),
        ("1_000_000", "10^6"),
        ("5X10^3", "5000"),
        ("5‰", "0.005"),
        ("EUR 5", "5 €"),
        ("US$1,200", "1200 dollars"),
        ("₹500", "500 INR"),
        ("50¢", "$0.50"),
        ("b)", "B"),
        ("B", "B. Paris"),
        ("B", "B. Vitamin C"),
        ("(B)", "B) 42"),
        ("Ca(OH)2", "Ca(OH)_2"),
        (r"\ce{H2SO4}", "H2SO4"),
        ("SO_4^{2-}", "SO₄²⁻"),
        (r"\frac{\pi}{2} rad", "90°"),
        (r"\sqrt{2} meters", r"\sqrt 2"),
        (r"2\pi 小时", r"2\pi\text{ h}"),
    ],
)
def test_other_notations_of_code_money_and_chemistry(answer, truth):
    assert is_right(answer, truth) is True


def test_a_number_with_its_parts_in_brackets_is_the_number():
    assert verify_answer("72 clips (48 in April and 24 in May)", "72").correct is True
    assert verify_answer("72 clips (48 in April and 24 in May)", "48").correct is False
    assert verify_answer("72 clips (not 48 in April)", "72").correct is False


@table(
    ("answer", "truth"),
    [
        (r"\frac{1}{2} m v^2_0", r"\frac{m v_{0}^{2}}{2}"),
        (r"\frac{v^2_0}{2g}, 1", r"\frac{v_0^2}{2 g}, 1"),
        (r"\frac{3}{2} k_{\mathrm{B}} T_{\text{s}}", r"\frac{3 T_s k_B}{2}"),
        (r"\frac{3}{2} k_\mathrm{B} T", r"\frac{3 T k_B}{2}"),
        (r"\frac{m_{\rm e}}{2} c^2", r"\frac{c^2 m_e}{2}"),
        (r"\sqrt{2 G M_\odot / R_\odot}", r"\sqrt{\frac{2 G M_{\odot}}{R_{\odot}}}"),
        (r"\frac{q}{4 \pi \varepsilon_0 R^2}", r"\frac{1}{4 \pi \epsilon_{0}} \frac{q}{R^{2}}"),
        (r"\frac{1}{2} m \omega'", r"m \frac{\omega^{\prime}}{2}"),
        (r"\frac{v \omega_{L}^{\prime 2}}{2}", r"v \frac{\omega_L'^2}{2}"),
        (r"F/m", r"a^{\prime}=\frac{F}{m}"),
        ("μ₀I/(2πr)", r"\frac{\mu_0 I}{2 \pi r}"),
        ("F0/(m(ω0² - ω²))", r"\frac{F_0}{m(\omega_0^2 - \omega^2)}"),
        ("g(m1 - m2)/(m1 + m2)", r"\frac{m_1 - m_2}{m_1 + m_2} g"),
    ],
)
def test_formulas_of_physics(answer, truth):
    """The forms of OlympiadBench and SciBench: two orders of indices, words as indices, primes, the Sun."""
    assert is_right(answer, truth) is True
    assert is_right(answer, truth, "measured") is True
