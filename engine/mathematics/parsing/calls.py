"""Parse calls: a function with its argument (``sin x``, ``sin^2 x``, ``max(a, b)``), and sums and products of a series.

``parser`` lists the decisions about text that can be read in more than one way.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod

from engine.mathematics.parsing.tokens import (
    BRACKETS,
    END,
    FUNCTIONS,
    PRODUCT,
    RESERVED_WORDS,
    SERIES,
    Token,
    TokenCursor,
    number_value,
)
from engine.mathematics.parsing.tree import FormulaSyntaxError, Name, Node, Number, apply, join, series

_INVERSES = {"sin": "asin", "cos": "acos", "tan": "atan"}
# Functions that are written without brackets (sin x) and with a power in front of the argument (sin^2 x).
_PREFIX = frozenset("sin cos tan cot sec csc asin acos atan sinh cosh tanh exp ln log log2 log10".split())
_LOG_WITH_BASE = re.compile(r"log_?(\w+)")


class CallParser(TokenCursor, ABC):
    """The part of the parser that reads calls. The arguments are read by the methods that ``parser`` implements.

    Args:
        tokens: the tokens of the formula.
        is_answer: whether the formula is an answer, not a rule (``Dialect``).

    Attributes:
        bars: the number of open ``|`` in the innermost bracket.
    """

    def __init__(self, tokens: list[Token], is_answer: bool) -> None:
        super().__init__(tokens)
        self.is_answer = is_answer
        self.bars = 0

    @abstractmethod
    def expression(self, minimum: int) -> Node:
        """Read an expression whose operators bind tighter than ``minimum``."""

    @abstractmethod
    def bracketed(self, opening: str) -> Node:
        """Read the rest of a bracket whose opening sign has been read."""

    @abstractmethod
    def group(self, digit: bool = False) -> Node:
        """Read a braced group, or one operand."""

    @abstractmethod
    def multiplies_silently(self, token: Token) -> bool:
        """Whether the token starts a factor that is written without a multiplication sign."""

    def call_or_name(self, name: str) -> Node:
        """Read the rest of a call of ``name``, which has been read; without an argument it is a name."""
        if self.is_answer:
            return self._function_of_answer(name) if _is_function(name) else Name(name)
        opening = self.symbol
        if name in SERIES and opening == "(":
            return self._python_series(SERIES[name])
        if opening == "^" and _is_prefix(name):
            return self._raised_function(name)
        if name != "pi" and (opening == "(" or (opening == "{" and name in FUNCTIONS)):
            return _called(name, self._arguments())
        if (_is_prefix(name) or name == "sqrt") and self._starts_bare_argument():
            return self._bare_argument(name)
        return Name(name)

    def _function_of_answer(self, name: str) -> Node:
        if len(name) == 1:  # C and P are symbols, unless several arguments follow
            return self._canonical(name, self._arguments()) if self._lists_arguments() else Name(name)
        if self.symbol == "^" and _is_prefix(name):
            return self._raised_function(name)
        if self.symbol in ("(", "{"):
            arguments = self._arguments()
            if FUNCTIONS.get(name) == "binomial" and self.symbol == "{":
                arguments += self._arguments()
            return self._canonical(name, arguments)
        if name in ("sqrt", "cbrt"):
            return apply(name, self.group())
        if not _is_prefix(name) or not self._starts_bare_argument():
            self.refuse()
        return self._bare_argument(name)

    def _canonical(self, name: str, arguments: list[Node]) -> Node:
        """A call. Rules keep the name as it is written, because it may be a variable of the scaffold."""
        return _called(FUNCTIONS.get(name, name) if self.is_answer else name, arguments)

    def _lists_arguments(self) -> bool:
        """Whether a bracket with a comma in it follows."""
        level = 0
        for token in self.tokens[self.at :]:
            if token.kind == "symbol":
                level += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))
            if level == 0:
                return False
            if level == 1 and token.text == ",":
                return True
        return False

    def _arguments(self) -> list[Node]:
        """The arguments of a call, from its opening bracket on."""
        closing = BRACKETS[self.next().text]
        bars, self.bars = self.bars, 0
        arguments = [self.expression(0)]
        while self.take(","):
            arguments.append(self.expression(0))
        self.expect(closing)
        self.bars = bars
        return arguments

    def _starts_bare_argument(self) -> bool:
        token = self.peek
        if token.kind == "symbol":
            return token.text == "|" and self.is_answer
        return token is not END and token.text not in RESERVED_WORDS

    def _bare_argument(self, name: str) -> Node:
        """``sin x``, ``sin 2x``: factors side by side, up to an operator, a bracket or the next function."""
        if name == "sqrt":
            argument = self._single_argument(name)
        else:
            argument = self._factor()
            while self.symbol not in ("(", "[", "{") and not _is_function(self.peek.text):
                if not self.multiplies_silently(self.peek):
                    break
                argument = join("mul", argument, self._factor())
        is_call = self.symbol == "(" and not self.is_answer
        divided = self.symbol == "/" and not self.peek.spaced and not _is_function(self.ahead(1).text)
        if is_call or divided:
            raise FormulaSyntaxError("ambiguous", f"where the argument of {name} ends is not clear")
        return self._canonical(name, [argument])

    def _factor(self) -> Node:
        token = self.peek
        if token.kind == "name" and self.ahead(1).text == "(" and not self.is_answer and not _is_function(token.text):
            raise FormulaSyntaxError("ambiguous", f"{token.text!r} before a bracket is a factor or a function")
        return self.expression(PRODUCT)

    def _single_argument(self, name: str) -> Node:
        """``sqrt 2``: one number or name, because ``sqrt 2x`` has two readings."""
        argument = self._factor() if self.ahead(1).text != "^" else self.refuse()
        if self.multiplies_silently(self.peek):
            raise FormulaSyntaxError("ambiguous", f"where the argument of {name} ends is not clear")
        return argument

    def _raised_function(self, name: str) -> Node:
        """``sin^2 x`` is the square of the sine; ``sin^-1 x`` is the inverse function."""
        self.expect("^")
        if self.symbol in ("(", "{"):
            exponent = self.bracketed(self.next().text)
        elif self.take("-"):
            exponent = apply("neg", self._digit_or_letter(name))
        else:
            exponent = self._digit_or_letter(name)
        if exponent == apply("neg", Number(1)):
            inverse = _INVERSES.get(name)
            if inverse is None:
                raise FormulaSyntaxError("ambiguous", f"{name}^-1 is an inverse or a reciprocal")
            return self._applied(inverse)
        return apply("pow", self._applied(name), exponent)

    def _digit_or_letter(self, name: str) -> Node:
        token = self.next()
        if token.kind == "number":
            return Number(number_value(token.text))
        if token.kind != "name" or not self.is_answer:
            raise FormulaSyntaxError("ambiguous", f"the exponent of {name} is not a plain number")
        return Name(token.text)

    def _applied(self, name: str) -> Node:
        """A function with its argument, in brackets or bare."""
        if self.symbol in ("(", "{"):
            return self._canonical(name, self._arguments())
        return self._bare_argument(name) if self._starts_bare_argument() else self.refuse()

    def _python_series(self, function: str) -> Node:
        """``sum(e for k in range(a, b))``."""
        self.expect("(")
        body = self.expression(0)
        word_for, index, word_in, called = self.next(), self.next(), self.next(), self.next()
        if index.kind != "name" or (word_for.text, word_in.text, called.text) != ("for", "in", "range"):
            raise FormulaSyntaxError("prose", "only 'for name in range(...)' can be read")
        self.expect("(")
        bounds = [self.expression(0)]
        if self.take(","):
            bounds.append(self.expression(0))
        self.expect(")")
        self.expect(")")
        first = bounds[0] if len(bounds) == 2 else Number(0)
        return series(function, body, index.text, first, join("sub", bounds[-1], Number(1)))


def _is_function(name: str) -> bool:
    return name in FUNCTIONS or name.startswith("log_")


def _is_prefix(name: str) -> bool:
    return FUNCTIONS.get(name) in _PREFIX or name.startswith("log_")


def _called(name: str, arguments: list[Node]) -> Node:
    """A call; ``log_2(x)`` is a logarithm with its base."""
    base = _LOG_WITH_BASE.fullmatch(name)
    if base and name not in FUNCTIONS and len(arguments) == 1:
        return apply("log", arguments[0], Number(int(base[1])) if base[1].isdecimal() else Name(base[1]))
    return apply(name, *arguments)
