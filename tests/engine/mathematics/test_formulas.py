import ast
import json
import math
import operator
import time
from fractions import Fraction

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.mathematics.binding import bind_rule
from engine.mathematics.evaluation import evaluate
from engine.mathematics.parsing.parser import parse_expression, parse_sides
from engine.mathematics.parsing.tokens import Dialect
from engine.mathematics.parsing.tree import MAX_NODES, FormulaSyntaxError, Name
from engine.mathematics.rule import Rule, parse_rule
from engine.mathematics.values import FormulaValueError, WorkBudget, as_rational, format_value
from engine.scaffold.parsing import scaffold_from_object
from tests.support.table import table


def value(text, **names):
    """The value of a rule for an effect that it does not mention."""
    return evaluate(canonical_calls(parse_expression(text)), names)


def canonical_calls(node):
    return bind_rule(Rule(None, node), "effect", sorted(node.names), node.names).right


def syntax_kind(text):
    with pytest.raises(FormulaSyntaxError) as caught:
        parse_expression(text)
    return caught.value.kind


def evaluation_kind(text, **names):
    with pytest.raises(FormulaValueError) as caught:
        value(text, **names)
    return caught.value.kind


@table(
    ("text", "expected"),
    [
        ("1/2 + 1/3", Fraction(5, 6)),
        ("0.1 + 0.2", Fraction(3, 10)),
        ("2^3^2", 512),
        ("-3^2", -9),
        ("2^-2", Fraction(1, 4)),
        ("2 ** 10", 1024),
        ("7 // 2 + 7 % 3", 4),
        ("-7 mod 3", 2),
        ("1.6e-19 * 1e19", Fraction(8, 5)),
        ("6,000,000 / 3", 2_000_000),
        ("max(1, 000)", 1),
        ("5!", 120),
        ("C(10, 4)", 210),
        ("10 choose 4", 210),
        ("P(5, 2)", 20),
        ("binomial(5, 6)", 0),
        ("|3 - 5| + ||-2| - 1/2|", Fraction(7, 2)),
        ("2|3 - 5|", 4),
        ("3(1 + 1)(2)", 12),
        ("sqrt(9/4)", Fraction(3, 2)),
        ("8^(2/3)", 4),
        ("cbrt(-27)", -3),
        ("root(81, 4)", 3),
        ("gcd(12, 18) + lcm(4, 6)", 18),
        ("floor(-1/2) + ceil(1/2)", 0),
        ("sum(k^2, k, 1, 10)", 385),
        ("sum(k^2 for k in range(1, 11))", 385),
        ("product(k, k, 1, 6)", 720),
        ("sum(sum(i*j, i, 1, 3), j, 1, 4)", 60),
        ("prod(k + 1 for k in range(6))", 720),
        ("min(3, 1/2, 2) + max(1, 2)", Fraction(5, 2)),
        ("numerator(6/8) + denominator(6/8)", 7),
        ("log(100)/log(10)", 2.0),
        ("50% * 8", 4),
        ("2^2024 mod 1000", 216),
        (r"\frac{1}{2} + \dfrac{3}{4}", Fraction(5, 4)),
        (r"\sqrt{16} \cdot \sqrt[3]{8} \times \left(1 + 1\right)", 16),
        (r"\binom{5}{2} \div 5", 2),
        (r"\lfloor 7/2 \rfloor + \lceil 7/2 \rceil", 7),
        ("3² − 2³", 1),
        ("6 ÷ 4 × 2", 3),
        ("√16 + √(9)", 7),
        ("⌊7/2⌋", 3),
        ("Fraction(3, 4)", Fraction(3, 4)),
    ],
)
def test_exact_values(text, expected):
    result = value(text)
    assert result == expected
    assert isinstance(result, float) == isinstance(expected, float)


@table(
    ("text", "expected"),
    [
        ("2 pi", 2 * math.pi),
        ("sin(pi/6) + cos(π/3)", 1.0),
        ("sin(30°)", 0.5),
        ("sin^2(1) + cos^2(1)", 1.0),
        ("exp(1) - e", 0.0),
        ("log2(8) + log10(1000) + log(81, 3) + log_5(25)", 12.0),
        ("radians(180)", math.pi),
        ("tanh(1)", math.tanh(1)),
        ("2^0.5", math.sqrt(2)),
        (r"\sin(\pi/2) + \ln(e^2)", 3.0),
    ],
)
def test_float_values(text, expected):
    assert value(text) == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_products_without_a_sign_and_their_precedence():
    assert value("x^4y^3z^2", x=2, y=3, z=5) == 16 * 27 * 25
    assert value("2x + 3(a + b)", x=5, a=1, b=2) == 19
    assert value("n(n - 3)/2", n=12) == 54  # a product, although it looks like a call, because n is a variable
    assert value("2πr", r=1) == pytest.approx(6.283185307179586)


X, Y, ABC = 3, 5, 100
_NAMES = {"x": X, "y": Y, "a": 2, "b": 4, "c": 6, "m": 7, "v": 9, "abc": ABC, "xy": 50}


def reading(text, dialect):
    """The value of a text, or the kind of its error."""
    try:
        node = parse_expression(text, dialect)
    except FormulaSyntaxError as error:
        return error.kind
    if dialect is Dialect.RULE:
        node = bind_rule(Rule(None, node), "effect", sorted(node.names), _NAMES).right
    return evaluate(node, _NAMES)


@table(
    ("text", "meaning"),
    [
        ("1/2/3", Fraction(1, 6)),
        ("-2^2", -4),
        ("2^3^2", 512),
        ("2*-3", -6),
        ("50%", Fraction(1, 2)),
        ("(1+2)(3+4)", 21),
        ("|3 - |-5||", 2),
        ("gcd(12, 18)", 6),
        (r"\lfloor -7/2 \rfloor", -4),
        ("5!/(2!3!)", 10),
        (r"\binom{5}{2}", 10),
        ("sin 2x", math.sin(2 * X)),
        (r"\sin^2 x", math.sin(X) ** 2),
        ("ln 2/ln 3", math.log(2) / math.log(3)),
        (r"\tan^{-1} x", math.atan(X)),
        (r"\log_2 8", 3),
        ("1/2x", Fraction(X, 2)),
        ("1/2 m", Fraction(7, 2)),
        ("1/(2a)b", 1),
        ("x^2y", X**2 * Y),
        ("2^{3}x", 8 * X),
        ("e^2 x", math.e**2 * X),
        ("C(5,2)", 10),
        (r"\frac12", Fraction(1, 2)),
        (r"0.1\overline{6}", Fraction(1, 6)),
        ("30^\\circ", math.pi / 6),
        ("sin x/2", "ambiguous"),
        ("ln^-1(x)", "ambiguous"),
        ("a/2x", "ambiguous"),
        ("a/2(b)", "ambiguous"),
        ("2^3x", "ambiguous"),
        ("e^2x", "ambiguous"),
        ("3!!", "ambiguous"),
    ],
)
def test_notation_with_one_meaning_in_rules_and_answers(text, meaning):
    expected = pytest.approx(meaning) if isinstance(meaning, float) else meaning
    assert reading(text, Dialect.RULE) == expected
    assert reading(text, Dialect.ANSWER) == expected


@table(
    ("text", "rule", "answer"),
    [
        ("abc", ABC, 2 * 4 * 6),  # a name is a word in a rule, a letter in an answer
        ("xy", 50, X * Y),
        ("x y", "prose", X * Y),
        ("x2", "unknown_name", "unknown_name"),  # the digit is an index
        ("e2", "unknown_name", 2 * math.e),
        ("a(b + 1)", 10, 10),
        ("number", "unknown_name", "prose"),
        ("sqrt", "unknown_name", "syntax"),
        ("sum(a, b, c, m)", "ambiguous", "syntax"),
        (r"\text{x}", "syntax", "syntax"),
    ],
)
def test_notation_with_different_meanings_in_rules_and_answers(text, rule, answer):
    def outcome(dialect):
        try:
            return reading(text, dialect)
        except FormulaValueError as error:
            return error.kind

    assert (outcome(Dialect.RULE), outcome(Dialect.ANSWER)) == (rule, answer)


def test_products_of_vectors_are_refused():
    assert syntax_kind("|AB · (AC × AD)| / 6") == "ambiguous"


@table(
    "text",
    [
        "__import__('os')",
        "__import__('os').system('true')",
        "().__class__",
        "lambda: 0",
        "x.y",
        "a[0]",
        "x y",
        "Count the number of ways",
        "N is the greatest four-digit number",
        "a and b",
        "{1, 2, 3}",
        "(1, 2)",
        "1 +",
        "* 2",
        "(1",
        "1)",
        "",
        "   ",
        "'text'",
        "f'{x}'",
        r"\input{file}",
        "2 3",
    ],
)
def test_text_that_is_not_an_expression_raises_an_error(text):
    assert syntax_kind(text) in ("syntax", "prose")


@table("text", ["(" * 5000, "1+" * 5000 + "1", "-" * 300 + "1", "2^" * 150 + "1", "|" * 200, "9" * 999])
def test_too_large_expressions_raise_an_error(text):
    start = time.process_time()
    assert syntax_kind(text) == "too_large"
    assert time.process_time() - start < 2


@table(
    "text",
    [
        "9**9**9**9",
        "(9^9)^(9^9)",
        "2^65536 * 2^65536",
        "factorial(10^9)",
        "factorial(5000) * factorial(5000)",
        "C(10^6, 5 * 10^5)",
        "10^308 * 10.5 * pi * 10^30",
        "exp(10000)",
        "1e999 * pi",
        "sum(k for k in range(10^12))",
        "sum(sum(sum(i*j*k for i in range(300)) for j in range(300)) for k in range(300))",
        "sum(factorial(4000 + k) for k in range(90000))",
        "(1/3)^4000",
        "(10^300)^(1/7) + 9^9^9",
    ],
)
def test_the_work_of_an_evaluation_is_bounded(text):
    tree = canonical_calls(parse_expression(text))
    start = time.process_time()
    with pytest.raises(FormulaValueError) as caught:
        evaluate(tree, {})
    assert caught.value.kind == "too_large"
    assert time.process_time() - start < 5


def test_a_tower_of_powers_is_refused_quickly():
    tree = parse_expression("9**9**9**9")
    start = time.process_time()
    for _ in range(100):
        with pytest.raises(FormulaValueError):
            evaluate(tree, {})
    assert (time.process_time() - start) / 100 < 0.01


@table(
    ("text", "kind"),
    [
        ("1/(2 - 2)", "division_by_zero"),
        ("5 mod 0", "division_by_zero"),
        ("0^-1", "division_by_zero"),
        ("sqrt(-1)", "domain"),
        ("(-8)^(1/3)", "domain"),
        ("ln(0)", "domain"),
        ("asin(2)", "domain"),
        ("factorial(-1)", "domain"),
        ("factorial(1/2)", "not_an_integer"),
        ("gcd(1/2, 3)", "not_an_integer"),
        ("numerator(sqrt(2))", "not_rational"),
        ("sin(30)", "ambiguous_angle"),
        ("sqrt(1, 2)", "arity"),
        ("max(3)", "arity"),
        ("unknown_function(3)", "unknown_function"),
    ],
)
def test_kind_of_an_evaluation_error(text, kind):
    assert evaluation_kind(text) == kind


def test_an_unknown_name_has_no_value():
    assert evaluation_kind("x + 1 - x + q", x=2, q=None) == "unknown_name"


def test_an_angle_that_could_be_in_degrees_is_refused():
    assert evaluation_kind("sin(2 * theta)", theta=30) == "ambiguous_angle"
    assert value("sin(omega * t)", omega=2, t=20) == pytest.approx(math.sin(40))
    assert value("sin(theta)", theta=math.pi / 6) == pytest.approx(0.5)


def test_float_rounding_changes_neither_floor_nor_fractions():
    assert value("floor(3 * (x^2 / 2))", x=math.sqrt(2)) == 3  # the product is 3.0000000000000004 or less
    assert value("ceil(0.1 * x)", x=30.000000000000004) == 3
    assert as_rational(0.1 + 0.2) == Fraction(3, 10)
    assert value("x mod 5", x=14.999999999999998) == 0


@table(
    ("number", "text"),
    [
        (116, "116"),
        (Fraction(25, 8), "25/8"),
        (Fraction(-1, 3), "-1/3"),
        (115.99999999999999, "116"),
        (0.30000000000000004, "0.3"),
        (2.4000000000000004, "2.4"),
        (1.4142135623730951, "1.4142135623730951"),
        (3.3333333333333335, "3.3333333333333335"),
        (1.6e-19, "1.6e-19"),
        (299792458.0, "299792458"),
    ],
)
def test_format_value(number, text):
    assert format_value(number) == text


def test_format_value_returns_none_for_very_long_numbers():
    assert format_value(2**5000) is None


def test_forms_of_a_rule():
    assert parse_rule("y = x + 1", "y").left == Name("y")
    assert parse_rule("x + 1", "y").left is None
    assert parse_rule("area = pi*r^2 = 3.14*9 = 28.26", "area").right == parse_expression("pi*r^2")
    assert parse_rule("x = 2*3 = 6", "x").right == parse_expression("2*3")
    assert parse_rule("  $y = 2x$. ", "y").right == parse_expression("2x")
    assert parse_rule("2^n - 1 == total", "n").left == parse_expression("2^n - 1")


@table(
    ("text", "same_as"),
    [
        ("p = numerator of r in simplest form", "numerator(r)"),
        ("the denominator of r when written in lowest terms", "denominator(r)"),
        ("numerator + denominator of r", "numerator(r) + denominator(r)"),
        ("sum of the numerator and denominator of r", "numerator(r) + denominator(r)"),
        ("|r| in simplest form", "|r|"),
        ("sqrt(s * (s - a)), where s = (a + b) / 2", "sqrt((a + b) / 2 * ((a + b) / 2 - a))"),
    ],
)
def test_english_phrases_are_parsed_as_formulas(text, same_as):
    names = {"r": Fraction(6, 8), "N": 9731, "a": 12, "b": 18, "c": 5}
    tree = canonical_calls(parse_rule(text, "p").right)
    assert evaluate(tree, names) == value(same_as, **names)


def test_the_simplified_fraction_means_the_only_cause():
    assert parse_rule("numerator of the simplified fraction", "m", ["probability"]).right.names == {"probability"}
    with pytest.raises(FormulaSyntaxError):
        parse_rule("numerator of the simplified fraction", "m", ["a", "b"])


@table(
    "text",
    [
        "sum of valid colorings for each rotation",
        "Count the number of integers",
        "m is the least positive integer such that m^4 + 1 is divisible by 17",
        "r = p / q, where p and q are relatively prime",
        "a * b = v, 2 * (a + b) = s",
        "x < 3",
        "count of n where n is even",
        "largest value of f",
        "sum of a, b and c",
        "remainder when N is divided by 1000",
    ],
)
def test_prose_raises_an_error(text):
    with pytest.raises(FormulaSyntaxError):
        parse_rule(text, "r")


def test_recorded_rules_are_parsed_or_raise_a_syntax_error(recorded_rules):
    read, prose = 0, 0
    for rule, effect, causes in recorded_rules:
        try:
            parse_rule(rule, effect, causes)
            read += 1
        except FormulaSyntaxError as error:
            assert error.kind in ("prose", "syntax", "ambiguous", "comparison")  # noqa: PT017
            prose += 1
    assert (read, prose) == (856, 180)


@pytest.fixture(scope="module")
def recorded_rules(recorded):
    rules = []
    for path in recorded.values():
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            texts = [r["scaffold"] for r in record.get("rollouts", [])] or [record.get("fused_scaffold")]
            for text in texts:
                scaffold = scaffold_from_object(text).scaffold
                rules += [(e.rule, e.effect, e.cause) for e in scaffold.causal_graph] if scaffold else []
    return rules


_leaves = st.one_of(
    st.integers(0, 30).map(str), st.sampled_from(["x", "y"]), st.integers(1, 99).map(lambda n: f"{n / 10}")
)
_expressions = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner).map(
            lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"
        ),
        inner.map(lambda text: f"(-{text})"),
        st.tuples(inner, st.integers(-3, 3)).map(lambda parts: f"({parts[0]})**({parts[1]})"),
        inner.map(lambda text: f"abs({text})"),
    ),
    max_leaves=12,
)
_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}


def _python_value(node, names):
    """The value of the text as a Python expression, calculated with fractions."""
    match node:
        case ast.Constant():
            return Fraction(str(node.value))
        case ast.Name():
            return names[node.id]
        case ast.UnaryOp():
            return -_python_value(node.operand, names)
        case ast.Call():
            return abs(_python_value(node.args[0], names))
    left, right = _python_value(node.left, names), _python_value(node.right, names)
    return Fraction(_OPERATORS[type(node.op)](left, right))


@settings(max_examples=300)
@given(_expressions)
def test_agrees_with_python_on_random_expressions(text):
    names = {"x": Fraction(7, 3), "y": Fraction(-2)}
    try:
        expected = _python_value(ast.parse(text, mode="eval").body, names)
    except ZeroDivisionError:
        expected = None
    try:
        result = evaluate(parse_expression(text), names)
    except FormulaValueError as error:
        assert error.kind in ("division_by_zero", "too_large")  # noqa: PT017
        assert expected is None or error.kind == "too_large"  # noqa: PT017
        return
    except FormulaSyntaxError as error:
        assert error.kind == "too_large"  # noqa: PT017
        return
    if isinstance(result, float):  # only fractions beyond the limit become floats
        assert expected is not None
        assert result == pytest.approx(float(expected))
    else:
        assert result == expected


def test_agrees_with_sympy():
    texts = [
        "sin(x)^2 + x*exp(-x)", "log(x, 2) + ln(x)/3", "sqrt(x^2 + 1) - cbrt(x)", "atan(x) + tanh(x/2)",
        "binomial(10, 3)*x - factorial(4)/x", "gcd(12, 18)*cosh(x)",
    ]  # fmt: skip
    x = sympy.Symbol("x")
    wanted = [
        sympy.sin(x) ** 2 + x * sympy.exp(-x), sympy.log(x, 2) + sympy.log(x) / 3,
        sympy.sqrt(x**2 + 1) - sympy.cbrt(x), sympy.atan(x) + sympy.tanh(x / 2),
        sympy.binomial(10, 3) * x - sympy.Rational(24) / x, 6 * sympy.cosh(x),
    ]  # fmt: skip
    for text, expression in zip(texts, wanted, strict=True):
        expected = float(expression.subs(x, sympy.Rational(7, 5)).evalf(30))
        assert float(value(text, x=Fraction(7, 5))) == pytest.approx(expected, rel=1e-12)


_WORDS = [
    "**", "//", "sqrt(", "sum(", ", k, 1, ", "C(", "factorial(", "9**9", "\\frac{", "for k in range(", " choose ",
    " mod ", "where ", " of ", "numerator of ", "if(", "1e9", "99999999", "log_", "__import__", "sin ",
]  # fmt: skip
_pieces = st.sampled_from([*"0123456789xyz+-*/%^!()|{}[],.=<>_\\ $√²π°⌊⌋'\"", *_WORDS])


@settings(max_examples=400)
@given(st.lists(_pieces, max_size=60).map("".join))
def test_any_text_gives_a_value_or_a_typed_error(text):
    budget = WorkBudget(units=20_000)
    start = time.process_time()
    try:
        for side in parse_sides(text):
            assert side.size <= MAX_NODES
            result = evaluate(side, {"x": 3, "y": Fraction(1, 7), "k": 2.5}, budget)
            assert isinstance(result, int | Fraction | float)
        parse_rule(text, "x", ["y"])
    except (FormulaSyntaxError, FormulaValueError):
        pass
    assert time.process_time() - start < 5
