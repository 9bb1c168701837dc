r"""Formulas as they are written, read into trees: LaTeX (\frac{\sqrt{3}}{2}) and plain (2*sqrt(3)/4) text.

A recursive-descent reader of its own: the text is never evaluated as code, and its length, depth and digits
are bounded, so reading takes linear time. What it does not know it refuses (``UnreadableError``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

MAX_CHARS = 1000
_MAX_DEPTH = 60
_MAX_DIGITS = 400
_MAX_EXPONENT = 400
_MAX_LETTERS = 3

_FUNCTION_NAMES = (
    "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh ln log exp abs floor ceil max min gcd lcm"
)
FUNCTIONS = frozenset(_FUNCTION_NAMES.split())
_ALIASES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "lg": "log", "sqrt": "sqrt", "cbrt": "cbrt"}
_CONSTANTS = {"pi": "pi", "infty": "inf", "infinity": "inf", "inf": "inf", "e": "e", "i": "i"}
_GREEK_NAMES = """
alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi rho varrho sigma
tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Sigma Phi Psi Omega ell hbar
"""
_GREEK = frozenset(_GREEK_NAMES.split())
_WORDS = sorted(
    {*FUNCTIONS, *_ALIASES, *(n for n in _GREEK if len(n) > 2), "pi", "infinity", "inf", "binom"},
    key=len,
    reverse=True,
)
_LEXEME = re.compile(
    r"\s*(?:(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+(?![\w.]))?)|(?P<command>\\[A-Za-z]+)"
    r"|(?P<word>[A-Za-z]+)|(?P<mark>\*\*|[-+*/^_()\[\]{}|!',%]))",
    re.ASCII,
)
_CLOSING = {"(": ")", "[": "]", "{": "}", r"\lfloor": r"\rfloor", r"\lceil": r"\rceil", r"\lvert": r"\rvert"}
_PRODUCT = {"*", r"\cdot", r"\times"}


class UnreadableError(ValueError):
    """The text is no formula that this reader knows."""


class TooComplexError(UnreadableError):
    """The text passes a limit of length, depth or digits."""


@dataclass(frozen=True, slots=True)
class Node:
    """A tree: ``op`` is num, sym, const, add, mul, div, pow, neg, root, fact, binom or a function's name."""

    op: str
    args: tuple[Node, ...] = ()
    value: Fraction = Fraction(0)
    name: str = ""


def read_formula(text: str) -> Node:
    """Read a cleaned text into a tree.

    Raises:
        UnreadableError: words, unknown commands, unbalanced brackets, relations.
        TooComplexError: a limit is passed.
    """
    if len(text) > MAX_CHARS:
        raise TooComplexError("too long")
    reader = _Reader(_lexemes(text))
    node = reader.sum()
    if reader.position < len(reader.lexemes):
        raise UnreadableError(f"unexpected {reader.peek()!r}")
    return node


def symbols_of(node: Node) -> set[str]:
    """The names of the free symbols of a tree."""
    found, open_nodes = set(), [node]
    while open_nodes:
        current = open_nodes.pop()
        if current.op == "sym":
            found.add(current.name)
        open_nodes.extend(current.args)
    return found


def uses(node: Node, op: str, name: str = "") -> bool:
    """Whether an operation (or a named constant) occurs in a tree."""
    open_nodes = [node]
    while open_nodes:
        current = open_nodes.pop()
        if current.op == op and (not name or current.name == name):
            return True
        open_nodes.extend(current.args)
    return False


def _lexemes(text: str) -> list[str]:
    lexemes, at = [], 0
    text = text.rstrip()
    while at < len(text):
        found = _LEXEME.match(text, at)
        if not found:
            raise UnreadableError(f"unknown character {text[at : at + 1]!r}")
        at = found.end()
        lexemes.extend(_split_word(found["word"]) if found["word"] else [found[0].strip()])
    return lexemes


def _split_word(word: str) -> list[str]:
    """Split letters written together: ``sinx`` is sin x, ``abc`` is a b c, ``number`` is refused."""
    parts, at, run = [], 0, 0
    while at < len(word):
        known = next((name for name in _WORDS if word.startswith(name, at)), None)
        if known:
            parts.append("\\" + known)
            at, run = at + len(known), 0
            continue
        parts.append(word[at])
        at, run = at + 1, run + 1
        if run > _MAX_LETTERS:
            raise UnreadableError(f"a word: {word!r}")
    return parts


class _Reader:
    """Grammar: sum = product (+- product)*; product = power ((* / or nothing) power)*; power = atom ^ power."""

    def __init__(self, lexemes: list[str]) -> None:
        self.lexemes = lexemes
        self.position = 0
        self.depth = 0
        self.bars = 0

    def peek(self) -> str:
        return self.lexemes[self.position] if self.position < len(self.lexemes) else ""

    def take(self) -> str:
        lexeme = self.peek()
        if not lexeme:
            raise UnreadableError("the text ends too early")
        self.position += 1
        return lexeme

    def expect(self, lexeme: str) -> None:
        if self.take() != lexeme:
            raise UnreadableError(f"{lexeme!r} is missing")

    def sum(self) -> Node:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise TooComplexError("nested too deeply")
        terms = [self.product()]
        while self.peek() in ("+", "-"):
            sign = self.take()
            term = self.product()
            terms.append(Node("neg", (term,)) if sign == "-" else term)
        self.depth -= 1
        return terms[0] if len(terms) == 1 else Node("add", tuple(terms))

    def product(self) -> Node:
        negative = False
        while self.peek() in ("+", "-"):
            negative ^= self.take() == "-"
        node = self.power()
        while True:
            lexeme = self.peek()
            if lexeme in _PRODUCT:
                self.take()
                node = Node("mul", (node, self.signed_power()))
            elif lexeme in ("/", r"\div"):
                self.take()
                node = Node("div", (node, self.signed_power()))
            elif self.starts_factor(lexeme):
                if lexeme[0] in "0123456789." and self.lexemes[self.position - 1][-1] in "0123456789.":
                    raise UnreadableError("two numbers side by side")
                node = Node("mul", (node, self.power()))
            else:
                return Node("neg", (node,)) if negative else node

    def starts_factor(self, lexeme: str) -> bool:
        if lexeme == "|":
            return not self.bars
        if lexeme in _PRODUCT or lexeme in (r"\div", r"\rfloor", r"\rceil", r"\rvert", r"\circ"):
            return False
        return bool(lexeme) and (lexeme in "([{" or lexeme[0].isalnum() or lexeme[0] in "\\.")

    def signed_power(self) -> Node:
        negative = False
        while self.peek() in ("+", "-"):
            negative ^= self.take() == "-"
        node = self.power()
        return Node("neg", (node,)) if negative else node

    def power(self) -> Node:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise TooComplexError("nested too deeply")
        node = self.atom()
        node = self.factorial(node)
        if self.peek() == "%":
            self.take()
            node = Node("div", (node, _number(100)))
        if self.peek() in ("^", "**"):
            self.take()
            node = self.factorial(self.raised(node))
        self.depth -= 1
        return node

    def factorial(self, node: Node) -> Node:
        if self.peek() != "!":
            return node
        self.take()
        if self.peek() == "!":
            raise UnreadableError("a double factorial")
        return Node("fact", (node,))

    def raised(self, base: Node) -> Node:
        if self.lexemes[self.position : self.position + 3] == ["{", r"\circ", "}"]:
            self.position += 3
            return _degrees(base)
        if self.peek() == r"\circ":
            self.take()
            return _degrees(base)
        return Node("pow", (base, self.signed_power()))

    def atom(self) -> Node:
        lexeme = self.take()
        if lexeme[0].isdigit() or lexeme[0] == ".":
            return self.number(lexeme)
        if lexeme in _CLOSING:
            node = self.sum()
            self.expect(_CLOSING[lexeme])
            name = {r"\lfloor": "floor", r"\lceil": "ceil", r"\lvert": "abs"}.get(lexeme)
            return Node(name, (node,)) if name else node
        if lexeme == "|":
            self.bars += 1
            node = self.sum()
            self.expect("|")
            self.bars -= 1
            return Node("abs", (node,))
        if lexeme[0] == "\\":
            return self.command(lexeme[1:])
        if lexeme in ("e", "i"):
            return Node("const", name=lexeme) if self.peek() not in ("_", "'") else self.symbol(lexeme)
        if lexeme.isalpha():
            return self.symbol(lexeme)
        raise UnreadableError(f"unexpected {lexeme!r}")

    def number(self, lexeme: str) -> Node:
        digits, _, exponent = lexeme.lower().partition("e")
        if len(digits) > _MAX_DIGITS or (exponent and (len(exponent) > 5 or abs(int(exponent)) > _MAX_EXPONENT)):
            raise TooComplexError("too large a number")
        value = Fraction(digits.removesuffix(".")) * Fraction(10) ** int(exponent or 0)
        if "." in digits and self.peek() == r"\overline":  # 0.1\overline{6}
            self.take()
            period = self.group_text()
            if not period.isdecimal() or len(period) > _MAX_DIGITS:
                raise UnreadableError("no period of digits")
            shift = 10 ** len(digits.partition(".")[2])
            value += Fraction(int(period), shift * (10 ** len(period) - 1))
        if self.peek() == "_":  # 1010_2: digits in a base
            self.take()
            base = self.group_text() if self.peek() == "{" else self.take()
            if not base.isdecimal() or not 2 <= int(base[:4]) <= 36:
                raise UnreadableError("no base")
            try:
                value = Fraction(int(digits, int(base)))
            except ValueError:
                raise UnreadableError("no digits of that base") from None
        return Node("num", value=value)

    def symbol(self, name: str) -> Node:
        if self.peek() == "_":
            self.take()
            name += "_" + (self.group_text() if self.peek() == "{" else self.take())
        while self.peek() == "'":
            name += self.take()
        return Node("sym", name=name)

    def group_text(self) -> str:
        """The text of a {group}, without reading it."""
        self.expect("{")
        start, level = self.position, 1
        while level:
            level += {"{": 1, "}": -1}.get(self.take(), 0)
        return "".join(self.lexemes[start : self.position - 1])

    def command(self, name: str) -> Node:
        name = _ALIASES.get(name, name)
        if name in _CONSTANTS:
            return Node("const", name=_CONSTANTS[name])
        if name in _GREEK:
            return self.symbol(name)
        if name == "frac":
            return Node("div", (self.argument(), self.argument()))
        if name == "binom":
            return Node("binom", self.arguments(2) if self.peek() == "(" else (self.argument(), self.argument()))
        if name == "cbrt":
            return Node("root", (self.power_free(), _number(3)))
        if name == "sqrt":
            degree = _number(2)
            if self.peek() == "[":
                self.take()
                degree = self.sum()
                self.expect("]")
            return Node("root", (self.power_free(), degree))
        if name in FUNCTIONS:
            return self.function(name)
        raise UnreadableError(f"unknown command {name!r}")

    def argument(self) -> Node:
        r"""A {group}, or one character: \frac12 is 1/2."""
        lexeme = self.peek()
        if lexeme.isdigit() and len(lexeme) > 1:
            self.lexemes[self.position] = lexeme[1:]
            return _number(int(lexeme[0]))
        return self.power_free()

    def power_free(self) -> Node:
        """One atom: in ``sqrt 2 ^ 3`` the power is outside."""
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise TooComplexError("nested too deeply")
        node = self.atom()
        self.depth -= 1
        return node

    def arguments(self, count: int) -> tuple[Node, ...]:
        self.expect("(")
        args = [self.sum()]
        while self.peek() == ",":
            self.take()
            args.append(self.sum())
        self.expect(")")
        if count and len(args) != count:
            raise UnreadableError("wrong number of arguments")
        return tuple(args)

    def function(self, name: str) -> Node:
        base: Node | None = None
        power: Node | None = None
        if name == "log" and self.peek() == "_":
            self.take()
            base = self.argument()
        if self.peek() in ("^", "**"):
            self.take()
            power = self.signed_power()
        if name in ("max", "min", "gcd", "lcm"):
            return Node(name, self.arguments(0))
        if self.peek() == "(":
            args = self.arguments(2 if name == "log" and base is None and self.has_comma() else 1)
            base, inner = (args[1], args[0]) if len(args) == 2 else (base, args[0])
        else:
            inner = self.bare_argument()
        if power is not None and power == Node("neg", (_number(1),)) and "arc" + name in FUNCTIONS:
            name, power = "arc" + name, None
        node = Node(name, (inner,))
        if base is not None:
            node = Node("div", (Node("ln", (inner,)), Node("ln", (base,))))
        return Node("pow", (node, power)) if power is not None else node

    def has_comma(self) -> bool:
        level = 0
        for lexeme in self.lexemes[self.position :]:
            level += {"(": 1, ")": -1}.get(lexeme, 0)
            if level == 0:
                return False
            if lexeme == "," and level == 1:
                return True
        return False

    def bare_argument(self) -> Node:
        r"""What \sin takes without brackets: factors side by side, up to a sign or the next function."""
        node = self.signed_power()
        while (
            self.starts_factor(self.peek()) and self.peek() not in ("(", "[", "{") and self.peek()[1:] not in FUNCTIONS
        ):
            node = Node("mul", (node, self.power()))
        return node


def _number(value: int) -> Node:
    return Node("num", value=Fraction(value))


def _degrees(node: Node) -> Node:
    return Node("div", (Node("mul", (node, Node("const", name="pi"))), _number(180)))
