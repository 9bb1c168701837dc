"""Finding an answer in a model's text, and reading its shape."""

from hypothesis import given
from hypothesis import strategies as st

from engine.answers.normalise import answer_text
from engine.answers.reply import read_answer
from engine.answers.shapes import Shape, read_shape
from engine.mathematics.parsing.notation import clean
from tests.support.table import table


@table(
    ("text", "answer"),
    [
        ("**73**", "73"),
        ("Final Answer: **73**", "73"),
        ("**Final Answer**\n\n$\\boxed{73}$", "73"),
        (r"\[ \boxed{79.99999999999999} \]", "79.99999999999999"),
        (r"We get $\boxed{\frac{1}{\sqrt{2}}}$.", r"\frac{1}{\sqrt{2}}"),
        ("\\boxed{1}\nno, \\boxed{3}", "3"),
        (r"$x=\boxed{1}$ or $x=\boxed{2}$", "1, 2"),
        (r"\boxed{unbalanced", r"\boxed{unbalanced"),
        ("<answer> 5 </answer>", "5"),
        ("first 3\n#### 42", "42"),
        ("The answer is (C).", "(C)"),
        ("The speed is 5 m/s.", "5 m/s"),
        ("So the number of such graphs and points in the plane is 4.", "4"),
        ("Adding all of these we obtain that **17** holds", "17"),
        ("We have $a=3$, so the wanted number of pairs must then $7$ surely", "7"),
        (r"\( m = 1 \), \( n = 8 \)", "m = 1 , n = 8"),
        ("1{,}024", "1024"),
        (r"1\,024", "1024"),
        ("3.0×10⁸ m/s", r"3.0\times 10^{8} m/s"),
        ("2½", "2 1/2"),
        (r"\dfrac12", r"\frac{1}{2}"),
        (r"\left[0,1\right)", "[0,1)"),
        (r"\$18.90", "18.90 dollars"),
        ("50 percent", "50%"),
        ("2**3", "2**3"),
        ("log(2)**2 + log(3)**2 + log(5)**2 + log(7)**2", "log(2)**2 + log(3)**2 + log(5)**2 + log(7)**2"),
        ("sqrt(x) + sin(y) + cos(z) + log(w) + 5", "sqrt(x) + sin(y) + cos(z) + log(w) + 5"),
        ("length * width * height * depth * 2", "length * width * height * depth * 2"),
        ("2(length + width + height + depth)", "2(length + width + height + depth)"),
    ],
)
def test_answer_text(text, answer):
    assert answer_text(text) == answer


@table(
    ("text", "answer"),
    [
        ("<answer> 5 </answer>", "5"),
        ("\\[ \\boxed{113} \\]", "113"),
        ("so \\boxed{25} or rather \\boxed{\\frac{1}{2}}.", "25, \\frac{1}{2}"),  # two answers
        ("#### Step 1\nfirst 3\n#### 42", "42"),
        ("**Final answer:** $73$.", "73"),
        ("Final Answer:\n```\n204\n```", "204"),
        ("Final answer: 73\nIt is the sum of 60 and 13.", "73"),
        ("The answer is: **12 m/s**", "12 m/s"),
        ("答案是：42", "42"),
        ("Answer: 1\nAnswer: 2", "2"),
        ('"final_answer": "m = 3, n = 4", "x": 1', "m = 3, n = 4"),
        ("So the length is 3.", "3"),
        (r"Thus \( m + n = 1 + 7 = 8 \).", "8"),
        ("Therefore m = 3, n = 4", None),  # several values: none is chosen
        ('{"problem_model": "the total is 5', None),  # a truncated object
        ("<think> So the length is 3.", None),
        ("#### Step 1\nWe count", None),
        ("Final answer:\n```python", None),
        ("Final answer: **", None),
        ("Final answer: \\[", None),
        ("\\boxed{}", None),
        ("\\boxed{25", None),
        ("<answer>", None),
        ("I think 5", None),
        ("m = 3, n = 4", None),
        ("", None),
    ],
)
def test_read_answer(text, answer):
    assert read_answer(text) == answer


def test_no_answer_is_chosen_among_several():
    text = "The values that remain after all of this work, **5** perhaps, or **6**, or even **7**, remain open"
    assert answer_text(text) not in ("5", "6", "7")


@table("junk", ["", " ", "**", "```", "\\[", "\\(\\)", "$$", "...", "\u200b"])
def test_text_without_an_answer(junk):
    assert answer_text(junk) == ""


def test_cleaning_keeps_the_row_ends_of_a_matrix():
    assert clean(r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}") == r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}"


@table("piece", ["\\boxed{", "<answer>", "answer ", "$x", "\\[ a ", "**a", "is ", "{", "10^{ ", "\\text{", "1,0", "m"])
def test_long_texts_are_read_before_the_time_limit_of_a_test(piece):
    # Read in quadratic time, a text of this length takes minutes.
    text = piece * (200_000 // len(piece))
    assert len(answer_text(text)) <= len(text)
    read_answer(text)


def show(shape: Shape) -> str:
    name = f"{shape.name}:" if shape.name else ""
    return (
        f"{name}{shape.text}"
        if shape.kind == "value"
        else f"{shape.kind}{shape.text}<{' '.join(map(show, shape.parts))}>"
    )


@table(
    ("text", "shape"),
    [
        ("1,024", "1024"),
        ("1,2", "list<1 2>"),
        ("1,000, 2,000", "list<1000 2000>"),
        ("(1,024)", "tuple<1 024>"),
        ("(1, 2)", "tuple<1 2>"),
        (r"\{1, 2\}", "set<1 2>"),
        ("[0,1)", "interval[)<0 1>"),
        (r"(-\infty,1)\cup(2,\infty)", r"union<interval()<-\infty 1> interval()<2 \infty>>"),
        ("x = 1 or x = 2", "list<x:1 x:2>"),
        ("1, 2, and 3", "list<1 2 3>"),
        (r"2 \text{ or } 3", "list<2 3>"),
        ("(1,2),(3,4)", "list<tuple<1 2> tuple<3 4>>"),
        (r"\pm 2", "list<+ 2 - 2>"),
        ("x > 3", r"interval()<3 \infty>"),
        ("5 > x", r"interval()<-\infty 5>"),
        (r"3 < x \le 5", "interval(]<3 5>"),
        (r"\{x \mid x \ge 3\}", r"interval[)<3 \infty>"),
        (r"x \in [1,2]", "interval[]<1 2>"),
        ("33 + 1 + 24 = 58", "relation=<33 + 1 + 24 58>"),
        ("m + n = 1 + 7 = 8", "relation=<m + n 8>"),
        ("y = 2x+3", "y:2x+3"),
        ("(x+1)(x-2)", "(x+1)(x-2)"),
        (r"\gcd(1,2)", r"\gcd(1,2)"),
        (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", "matrix<tuple<1 2> tuple<3 4>>"),
        ("orange and lemon", "list<orange lemon>"),
        (r"\mathbb{R}", r"interval()<-\infty \infty>"),
    ],
)
def test_read_shape(text, shape):
    assert show(read_shape(text)) == shape


@given(st.text(alphabet="(){}[]|,;=<>12x\\ or", max_size=1000))
def test_read_shape_never_raises(text):
    assert isinstance(read_shape(clean(text)), Shape)


@given(st.text(max_size=300))
def test_cleaning_twice_changes_nothing(text):
    assert isinstance(answer_text(text), str)
