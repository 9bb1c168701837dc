"""Split formula text into tokens. Plain, Python, Unicode and LaTeX notation give the same tokens.

The two dialects read a sequence of letters differently; ``parser`` lists the differences and the reasons.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from engine.mathematics.parsing.notation import GREEK_NAMES
from engine.mathematics.parsing.tree import FormulaSyntaxError

MAX_CHARACTERS = 1000
MAX_TOKENS = 400
MAX_DIGITS = 300
_MAX_EXPONENT_DIGITS = 3
_MAX_LETTERS = 3  # a longer run of letters in an answer is a word, not a product


class Dialect(Enum):
    """Where a formula is written: in a rule, whose names are words, or in an answer, whose names are letters."""

    RULE = "rule"
    ANSWER = "answer"


# Spellings of a function, mapped to the name that the evaluator knows.
FUNCTIONS = {
    **{name: name for name in (
        "sqrt cbrt root abs sin cos tan cot sec csc asin acos atan sinh cosh tanh exp ln log log2 log10 gcd lcm mod "
        "floor ceil factorial binomial permutations min max numerator denominator radians"
    ).split()},
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "lg": "log10", "C": "binomial", "comb": "binomial",
    "choose": "binomial", "nCr": "binomial", "binom": "binomial", "P": "permutations", "perm": "permutations",
    "nPr": "permutations", "Fraction": "div", "Abs": "abs", "Min": "min", "Max": "max",
}  # fmt: skip
FRACTIONS = {"frac": "div", "dfrac": "div", "tfrac": "div", "binom": "binomial", "dbinom": "binomial"}
GREEK = frozenset({*GREEK_NAMES, *"varepsilon vartheta varrho varphi Upsilon ell hbar".split()})
_COMMANDS = {
    "cdot": "*", "times": "*", "div": "/", "bmod": "mod", "mod": "mod", "pi": "pi", "infty": "inf", "le": "<=",
    "leq": "<=", "ge": ">=", "geq": ">=", "lt": "<", "gt": ">", "ne": "!=", "neq": "!=", "lvert": "|", "rvert": "|",
    "vert": "|", "mid": "|", "lfloor": "⌊", "rfloor": "⌋", "lceil": "⌈", "rceil": "⌉", "degree": "°", "circ": "°",
}  # fmt: skip
_WITHOUT_MEANING = frozenset({"left", "right", "displaystyle", "big", "Big", "bigl", "bigr", "Bigl", "Bigr"})
# Words that are found inside a run of letters of an answer ("sinx"), the longest first.
WORDS_AMONG_LETTERS = sorted(
    {
        *"sin cos tan cot sec csc arcsin arccos arctan asin acos atan sinh cosh tanh ln log lg exp abs".split(),
        *"floor ceil max min gcd lcm sqrt cbrt binom pi infinity inf Abs Max Min".split(),
        *(name for name in GREEK if len(name) > 2),
    },
    key=len,
    reverse=True,
)
_NOT_NUMBERED = frozenset("CPei")
"""Letters before a number that are no names with an index: ``10C3``, ``e2``."""
_ONE_WORD = {"infinity": "inf"}

_CHARACTERS = str.maketrans({
    "×": "*", "·": "*", "∙": "*", "⋅": "*", "∗": "*", "÷": "/", "∕": "/", "⁄": "/", "−": "-", "–": "-",
    "π": " pi ", "∣": "|", "≤": "<=", "≥": ">=", "≠": "!=", "\u00a0": " ", "\u2009": " ", "\u202f": " ",
    "√": r"\sqrt ", "∛": r"\sqrt[3]",
    **{sub: str(digit) for digit, sub in enumerate("₀₁₂₃₄₅₆₇₈₉")},
})  # fmt: skip
_DIGITS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_SUPERSCRIPTS = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+")


def _token_pattern(name: str, subscript: str) -> re.Pattern[str]:
    return re.compile(
        rf"""\s*(?:
          (?P<number>(?:\d{{1,3}}(?:,\d{{3}})+(?![\d,])|\d+)(?:\.\d+|\.(?=\s*\\overline))?(?:[eE][+-]?\d+(?![\w.]))?
                     |\.\d+(?:[eE][+-]?\d+)?)
        | (?P<name>{name})
        | \\(?P<command>[A-Za-z]+(?:{subscript})?)
        | (?P<skip>\\[,;:!\x20]|\$|~)
        | (?P<symbol>\*\*|//|<=|>=|==|!=|\\%|\\[{{}}|]|[-+*/%^!(){{}}\[\]|,<>=⌊⌋⌈⌉°_])
        )""",
        re.VERBOSE,
    )


_LETTER_SUBSCRIPT = r"(?:_(?:\{[^{}]*\}|\d+|max|min|[A-Za-z]))?'*"
_TOKEN = {
    Dialect.RULE: _token_pattern(r"[^\W\d_]\w*(?:_\{\w+\})?", r"_\w+|_\{\w+\}"),
    Dialect.ANSWER: _token_pattern(rf"[A-Za-z]+(?:\d+(?![\d.])|{_LETTER_SUBSCRIPT})", _LETTER_SUBSCRIPT),
}
_SAME_SIGN = {"**": "^", "==": "=", "\\{": "{", "\\}": "}", "\\|": "|", "\\%": "%"}


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a formula's text."""

    kind: str  # "number", "name", "command", "symbol", "end"
    text: str
    spaced: bool = False  # there is white space before it


END = Token("end", "")


def tokens(text: str, dialect: Dialect) -> list[Token]:
    """The tokens of a formula, with LaTeX and Unicode notation normalised.

    Raises:
        FormulaSyntaxError: the text has an unknown character or command, or is too long.
    """
    if len(text) > MAX_CHARACTERS:
        raise FormulaSyntaxError("too_large", f"a formula is longer than {MAX_CHARACTERS} characters")
    text = _one_spelling(text)
    pieces: list[Token] = []
    pattern = _TOKEN[dialect]
    position = 0
    while position < len(text):
        match = pattern.match(text, position)
        if match is None:
            raise FormulaSyntaxError("syntax", f"cannot read {text[position : position + 20]!r}")
        kind = match.lastgroup or ""
        spaced = match.start(kind) > position + (kind == "command")
        position = match.end()
        pieces.extend(_tokens_of(kind, match[kind], spaced, dialect))
        if len(pieces) > MAX_TOKENS:
            raise FormulaSyntaxError("too_large", f"a formula has more than {MAX_TOKENS} tokens")
    return pieces


def _one_spelling(text: str) -> str:
    if any(dot in text for dot in "·⋅∙") and "×" in text:
        raise FormulaSyntaxError("ambiguous", "dot and cross together are products of vectors")
    if not text.isascii():
        text = _SUPERSCRIPTS.sub(lambda run: f"^({run[0].translate(_DIGITS)})", text).translate(_CHARACTERS)
    return text.strip().rstrip(".;")


def _tokens_of(kind: str, text: str, spaced: bool, dialect: Dialect) -> Iterator[Token]:
    """The tokens of one match of the token pattern, in most cases one."""
    if kind == "name" and dialect is Dialect.ANSWER:
        yield from _letters(text, spaced)
    elif kind == "name":
        yield Token(kind, _without_braces(text), spaced)
    elif kind == "command":
        kind, text = _command(text)
        if text:
            yield Token(kind, text, spaced)
    elif kind != "skip":
        yield Token(kind, _SAME_SIGN.get(text, text), spaced)


def _letters(text: str, spaced: bool) -> Iterator[Token]:
    """Split letters that are written together: ``sinx`` is sin x, ``abc`` is a b c, ``number`` is refused.

    Digits behind a letter are its index: ``x1`` is ``x_1``; behind a function, they are its argument.
    """
    letters = re.match("[A-Za-z]+", text)
    end = letters.end() if letters else 0
    subscript = _without_braces(text[end:])
    index = subscript if subscript.isdecimal() else ""
    if index:
        subscript = f"_{index}"
    at, run = 0, 0
    while at < end:
        word = next((word for word in WORDS_AMONG_LETTERS if text.startswith(word, at, end)), "")
        piece = word or text[at]
        run = 0 if word else run + 1
        if run > _MAX_LETTERS:
            raise FormulaSyntaxError("prose", f"a word: {text[:20]!r}")
        at += len(piece)
        if index and at == end and (word or piece in _NOT_NUMBERED):
            yield Token("name", _ONE_WORD.get(piece, piece), spaced)
            yield Token("number", index)
            return
        yield Token("name", _ONE_WORD.get(piece, piece) + (subscript if at == end else ""), spaced)
        spaced = False


def _command(text: str) -> tuple[str, str]:
    """Kind and text of a LaTeX command's token; the text is empty for a command without a meaning."""
    base, _, subscript = _without_braces(text).partition("_")
    if base in _WITHOUT_MEANING:
        return "symbol", ""
    if base in FRACTIONS or base in ("sqrt", "overline"):
        return ("command", f"{base}_{subscript}" if subscript else base)
    if base in _COMMANDS:
        meaning = _COMMANDS[base]
        return ("name" if meaning.isalpha() else "symbol"), meaning
    if base in FUNCTIONS or base.rstrip("'") in GREEK:
        return "name", f"{base}_{subscript}" if subscript else base
    raise FormulaSyntaxError("syntax", f"unknown command \\{text[:20]}")


def _without_braces(text: str) -> str:
    return re.sub(r"[{}\s]", "", text) if "{" in text else text


def number_value(text: str) -> int | Fraction:
    """The value of a number token. Raises FormulaSyntaxError (``too_large``)."""
    if text.isdecimal() and len(text) <= MAX_DIGITS:
        return int(text)
    mantissa, _, exponent = text.replace(",", "").lower().partition("e")
    if len(mantissa) > MAX_DIGITS or len(exponent.lstrip("+-")) > _MAX_EXPONENT_DIGITS:
        raise FormulaSyntaxError("too_large", "a number has too many digits")
    value = Fraction(mantissa.removesuffix(".")) * Fraction(10) ** int(exponent or 0)
    return value.numerator if value.denominator == 1 else value
