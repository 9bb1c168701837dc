"""A rule's text as tokens: plain, Python, Unicode and LaTeX spellings of the same mathematics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from engine.mathematics.tree import RuleSyntaxError

MAX_CHARACTERS = 1000
MAX_TOKENS = 400


def _words(text: str) -> list[str]:
    return text.split()


# Other spellings of a function, to the name that the evaluator knows.
FUNCTIONS = {
    **{name: name for name in _words(
        "sqrt cbrt root abs sin cos tan asin acos atan atan2 sinh cosh tanh exp ln log log2 log10 gcd lcm mod "
        "floor ceil round factorial binomial permutations min max numerator denominator sign degrees radians "
        "if pow isqrt"
    )},
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2", "lg": "log10", "fabs": "abs",
    "C": "binomial", "comb": "binomial", "choose": "binomial", "nCr": "binomial", "ncr": "binomial",
    "binom": "binomial", "Binomial": "binomial", "P": "permutations", "perm": "permutations",
    "nPr": "permutations", "npr": "permutations", "fact": "factorial", "ceiling": "ceil", "sgn": "sign",
    "numer": "numerator", "denom": "denominator", "rad2deg": "degrees", "deg2rad": "radians",
    "Fraction": "div", "Rational": "div", "GCD": "gcd", "LCM": "lcm", "Abs": "abs", "Min": "min",
    "Max": "max",
}  # fmt: skip
SERIES = {"sum": "sum", "Sum": "sum", "prod": "product", "product": "product", "Product": "product"}
COMPARISONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
SQUARABLE = frozenset(_words("sin cos tan sinh cosh tanh ln log log2 log10"))
_COMMANDS = {
    "cdot": "*", "times": "*", "div": "/", "bmod": "mod", "mod": "mod", "pi": "pi", "le": "<=", "leq": "<=",
    "ge": ">=", "geq": ">=", "lt": "<", "gt": ">", "ne": "!=", "neq": "!=", "lvert": "|", "rvert": "|",
    "vert": "|", "mid": "|", "lfloor": "⌊", "rfloor": "⌋", "lceil": "⌈", "rceil": "⌉", "degree": "°",
}  # fmt: skip
_SILENT = frozenset({"left", "right", "displaystyle", "big", "Big", "bigl", "bigr", "Bigl", "Bigr"})
FRACTIONS = {"frac": "div", "dfrac": "div", "tfrac": "div", "binom": "binomial", "dbinom": "binomial"}
GREEK = frozenset(
    _words(
        "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi rho sigma "
        "tau phi varphi chi psi omega Gamma Delta Theta Lambda Xi Sigma Phi Psi Omega ell"
    )
)
_CHARACTERS = str.maketrans({
    "×": "*", "·": "*", "∙": "*", "⋅": "*", "∗": "*", "÷": "/", "∕": "/", "⁄": "/", "−": "-", "–": "-",
    "π": " pi ", "∣": "|", "≤": "<=", "≥": ">=", "≠": "!=", "\u00a0": " ", "\u2009": " ", "\u202f": " ",
    **{sub: str(digit) for digit, sub in enumerate("₀₁₂₃₄₅₆₇₈₉")},
})  # fmt: skip
_DIGITS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_SUPERSCRIPTS = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+")

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>(?:\d{1,3}(?:,\d{3})+(?![\d,])|\d+)(?:\.\d+)?(?:[eE][+-]?\d+(?![\w.]))?|\.\d+(?:[eE][+-]?\d+)?)
    | (?P<name>[^\W\d_]\w*(?:_\{\w+\})?)
    | \\(?P<command>[A-Za-z]+(?:_\w+|_\{\w+\})?)
    | (?P<skip>\\[,;:!\x20]|\$|~)
    | (?P<symbol>\*\*|//|<=|>=|==|!=|\\%|\\[{}|]|[-+*/%^!(){}\[\]|,<>=⌊⌋⌈⌉√∛°_])
    )""",
    re.VERBOSE,
)
_MODULES = re.compile(r"\b(?:math|np|numpy|sympy|sp|cmath)\.(?=[A-Za-z])")


_SAME = {"**": "^"}
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a rule's text."""

    kind: str  # "number", "name", "command", "symbol", "end"
    text: str
    spaced: bool = False  # white space stands before it


def tokens(text: str) -> Iterator[Token]:
    """The tokens of a rule, LaTeX and Unicode brought to one spelling. Raises RuleSyntaxError."""
    if len(text) > MAX_CHARACTERS:
        raise RuleSyntaxError("too_large", f"a rule is longer than {MAX_CHARACTERS} characters")
    if any(dot in text for dot in "·⋅∙") and "×" in text:
        raise RuleSyntaxError("ambiguous", "dot and cross together are products of vectors")
    if not text.isascii():
        text = _SUPERSCRIPTS.sub(lambda run: f"^({run[0].translate(_DIGITS)})", text).translate(_CHARACTERS)
    text = _MODULES.sub("", text).strip().rstrip(".;")
    position, count = 0, 0
    calls: list[bool] = []  # for each open bracket: does a comma in it part arguments?
    previous = ""
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise RuleSyntaxError("syntax", f"cannot read {text[position : position + 20]!r}")
        kind, token = match.lastgroup or "", match[match.lastgroup or 0]
        if kind == "number" and "," in token and any(calls):
            token = token.split(",")[0]
        spaced = match.start(kind) > position
        position = match.start(kind) + len(token)
        count += 1
        if count > MAX_TOKENS:
            raise RuleSyntaxError("too_large", f"a rule has more than {MAX_TOKENS} tokens")
        if kind == "skip":
            continue
        if kind == "name":
            token = token.replace("{", "").replace("}", "")
        elif kind == "command":
            kind, token = _command(token)
            if not token:
                continue
        elif token in ("\\{", "\\}", "\\|", "\\%"):
            token = token[1:]
        if token in _OPENING and kind == "symbol":
            calls.append(previous == "name")
        elif token in _CLOSING and kind == "symbol" and calls:
            calls.pop()
        previous = kind
        yield Token(kind, _SAME.get(token, token), spaced)


def _command(text: str) -> tuple[str, str]:
    """Kind and text of a LaTeX command's token; an empty text is a command that changes no meaning."""
    base, _, subscript = text.replace("{", "").replace("}", "").partition("_")
    if base in _SILENT:
        return "symbol", ""
    if base in FRACTIONS or base == "sqrt" or base in ("sum", "prod"):
        return ("command", base) if not subscript else ("command", f"{base}_{subscript}")
    if base in ("text", "mathrm", "operatorname", "mathit", "mathbf"):
        return "command", "text"
    if base in _COMMANDS:
        meaning = _COMMANDS[base]
        return ("name" if meaning.isalpha() else "symbol"), meaning
    if base in FUNCTIONS or base in GREEK:
        return "name", f"{base}_{subscript}" if subscript else base
    raise RuleSyntaxError("syntax", f"unknown command \\{text[:20]}")
