"""The restricted grammar of rules: text to a small tree, by our own tokenizer and Pratt parser.

Nothing here evaluates. What cannot be read in one way only is an error, never a guess.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NoReturn

from engine.mathematics.tokens import COMPARISONS, FRACTIONS, FUNCTIONS, GREEK, SERIES, SQUARABLE, Token, tokens
from engine.mathematics.tree import MAX_NESTING, Apply, Name, Node, Number, RuleSyntaxError, apply, series

_MAX_EXPONENT_DIGITS = 3

_CLOSING = {"(": ")", "[": "]", "{": "}", "⌊": "⌋", "⌈": "⌉"}
_COMPARE, _SUM, _PRODUCT, _SIGN, _POWER, _POSTFIX = 5, 10, 20, 25, 30, 40
_INFIX = {
    "+": (_SUM, "add"), "-": (_SUM, "sub"), "*": (_PRODUCT, "mul"), "/": (_PRODUCT, "div"),
    "//": (_PRODUCT, "floordiv"), "%": (_PRODUCT, "mod"),
    "mod": (_PRODUCT, "mod"), "choose": (_POWER - 1, "binomial"),
    "^": (_POWER, "pow"), "!": (_POSTFIX, "factorial"), "°": (_POSTFIX, "radians"),
    **{symbol: (_COMPARE, name) for symbol, name in COMPARISONS.items()},
}  # fmt: skip
_END = Token("end", "")
_WORDS = frozenset({"mod", "choose", "for", "if", "else", "and", "or", "in", "where", "text"})


class _Parser:
    """Precedence climbing: comparisons < sums < products < sign < powers < postfix."""

    def __init__(self, text: str) -> None:
        self._tokens = list(tokens(text))
        self._at = 0
        self._depth = 0
        self._bars = 0
        self._typeset = "\\" in text

    def whole(self) -> list[Node]:
        """The sides of the text around top-level ``=``."""
        sides = [self.expression(0)]
        while self._take("="):
            sides.append(self.expression(0))
        if self._peek is not _END:
            self._refuse()
        return sides

    @property
    def _peek(self) -> Token:
        return self._tokens[self._at] if self._at < len(self._tokens) else _END

    def _ahead(self, distance: int) -> Token:
        index = self._at + distance
        return self._tokens[index] if index < len(self._tokens) else _END

    def _next(self) -> Token:
        token = self._peek
        self._at += 1
        return token

    def _take(self, symbol: str) -> bool:
        if self._peek.kind == "symbol" and self._peek.text == symbol:
            self._at += 1
            return True
        return False

    def _expect(self, symbol: str) -> None:
        if not self._take(symbol):
            self._refuse()

    def _refuse(self) -> NoReturn:
        token = self._peek
        seen = repr(token.text[:20]) if token is not _END else "the end"
        prose = token.kind == "name" and self._at > 0 and self._ahead(-1).kind in ("name", "number")
        raise RuleSyntaxError("prose" if prose else "syntax", f"unexpected {seen}")

    def expression(self, minimum: int) -> Node:
        """An expression whose operators bind tighter than ``minimum``."""
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise RuleSyntaxError("too_large", "brackets are nested too deep")
        left = self._operand()
        joined = ""  # the operator that made ``left`` at this level
        while True:
            token = self._peek
            if self._multiplies_silently(token):
                if minimum >= _PRODUCT:
                    break
                self._guard_silent_product(joined, left, token)
                function, left = "mul", _join("mul", left, self.expression(_PRODUCT + 1))
            else:
                power, function = _INFIX.get(token.text, (0, "")) if token.kind != "number" else (0, "")
                if power <= minimum:
                    break
                self._at += 1
                left = self._joined(left, token.text, power, function)
            joined = function
        self._depth -= 1
        return left

    def _joined(self, left: Node, symbol: str, power: int, function: str) -> Node:
        """``left`` and what stands behind the operator, which has been read."""
        if power == _POSTFIX:
            return apply(function, left)
        if symbol == "%" and self._percent(left):
            return apply("div", left, Number(100))
        if power == _POWER:  # right to left: 2^3^2 = 2^9; a sign may stand in the exponent
            return apply(function, left, self.expression(_SIGN - 1 if self._sign_ahead() else _POWER - 1))
        return _join(function, left, self.expression(power))

    def _sign_ahead(self) -> bool:
        return self._peek.kind == "symbol" and self._peek.text in "+-"

    def _percent(self, left: Node) -> bool:
        after = self._peek
        closes = after is _END or (after.kind == "symbol" and after.text in ")]}|,+*/=")
        return isinstance(left, Number) and closes

    def _multiplies_silently(self, token: Token) -> bool:
        """Whether the token starts a factor: ``2x``, ``2(a+b)``, ``(a)(b)``, ``(a)b``; never ``a b``."""
        before = self._ahead(-1)
        closed = before.kind == "symbol" and before.text in (")", "}", "]", "!", "⌋", "⌉", "°")
        if before.kind == "name" and before.text == "pi":
            return token.kind == "name" or token.text == "("
        if before.kind == "name":  # "x(y + 1)" is a call, and read elsewhere; "a b" may be prose
            return self._typeset and _is_letter(before) and (_is_letter(token) or token.kind == "command")
        if before.kind != "number" and not closed:
            return False
        if token.kind in ("name", "command"):
            return token.text not in _WORDS
        if token.kind != "symbol":
            return False
        return token.text in ("(", "⌊", "⌈", "√", "∛") or (
            token.text in ("{", "[") and closed
        ) or (token.text == "|" and not self._bars)  # fmt: skip

    def _guard_silent_product(self, joined: str, left: Node, token: Token) -> None:
        """Refuse ``1/2x``, ``2^3x`` and ``e^2x``, which people read in two ways; ``x^2y`` they do not."""
        base = left.arguments[0] if isinstance(left, Apply) else left
        bare = isinstance(base, Number) or (isinstance(base, Name) and base.name == "e")
        if joined in ("div", "floordiv", "mod") or (joined == "pow" and bare):
            raise RuleSyntaxError("ambiguous", f"what {token.text!r} is multiplied with is not clear")

    def _operand(self) -> Node:
        token = self._next()
        if token.kind == "number":
            return Number(_number(token.text))
        if token.kind == "name":
            return self._named(token.text)
        if token.kind == "command":
            return self._latex(token.text)
        if token.kind != "symbol":
            self._at -= 1
            self._refuse()
        if token.text in _CLOSING:
            return self._bracketed(token.text)
        if token.text == "-":
            return apply("neg", self.expression(_SIGN))
        if token.text == "+":
            return self.expression(_SIGN)
        if token.text == "|":
            self._bars += 1
            inner = self.expression(0)
            self._expect("|")
            self._bars -= 1
            return apply("abs", inner)
        if token.text in ("√", "∛"):
            return apply("sqrt" if token.text == "√" else "cbrt", self.expression(_POWER))
        self._at -= 1
        return self._refuse()

    def _bracketed(self, opening: str) -> Node:
        bars, self._bars = self._bars, 0
        inner = self.expression(0)
        self._expect(_CLOSING[opening])
        self._bars = bars
        if opening in "⌊⌈":
            return apply("floor" if opening == "⌊" else "ceil", inner)
        return inner

    def _named(self, name: str) -> Node:
        opening = self._peek.text if self._peek.kind == "symbol" else ""
        if name in SERIES and opening == "(":
            return self._written_series(SERIES[name])
        if name in SQUARABLE and opening == "^":
            return self._squared_function(name)
        if name != "pi" and opening in ("(", "{") and not (opening == "{" and name not in FUNCTIONS):
            return self._call(name)
        simple = self._peek.kind in ("number", "name") and self._peek.text not in _WORDS
        if FUNCTIONS.get(name, "") in SQUARABLE | {"sqrt"} and simple:
            return self._bare_argument(name)
        return Name(name)

    def _call(self, name: str) -> Node:
        closing = _CLOSING[self._next().text]
        bars, self._bars = self._bars, 0
        arguments = [self.expression(0)]
        while self._take(","):
            arguments.append(self.expression(0))
        self._expect(closing)
        self._bars = bars
        base = re.fullmatch(r"log_?(\w+)", name)
        if base and name not in FUNCTIONS and len(arguments) == 1:
            text = base[1]
            return apply("log", arguments[0], Number(int(text)) if text.isdecimal() else Name(text))
        return apply(name, *arguments)

    def _bare_argument(self, name: str) -> Node:
        """``sin x``, ``sqrt 2``: one number or name, and no silent product behind it."""
        token = self._next()
        argument: Node = Number(_number(token.text)) if token.kind == "number" else Name(token.text)
        following = self._peek
        goes_on = following.kind in ("number", "name", "command") and following.text not in _WORDS
        if goes_on or following.text in ("(", "^", "_") or (following.text == "/" and not following.spaced):
            raise RuleSyntaxError("ambiguous", f"where the argument of {name} ends is not clear")
        return apply(name, argument)

    def _squared_function(self, name: str) -> Node:
        """``sin^2(x)`` is the square of the sine; ``sin^-1`` has two meanings and is refused."""
        self._expect("^")
        opened = self._take("(") or self._take("{")
        exponent = self._next()
        if exponent.kind != "number" or (opened and not (self._take(")") or self._take("}"))):
            raise RuleSyntaxError("ambiguous", f"the exponent of {name} is not a plain number")
        value = _number(exponent.text)
        if not (self._peek.kind == "symbol" and self._peek.text in "({"):
            self._refuse()
        return apply("pow", self._call(name), Number(value))

    def _latex(self, command: str) -> Node:
        base, _, subscript = command.partition("_")
        if base in FRACTIONS and not subscript:
            top = self._group()
            return apply(FRACTIONS[base], top, self._group())
        if base == "sqrt" and not subscript:
            if self._take("["):
                degree = self.expression(0)
                self._expect("]")
                return apply("root", self._group(), degree)
            return apply("sqrt", self._group())
        if base in ("sum", "prod"):
            return self._latex_series(SERIES[base])
        if base == "text":
            self._expect("{")
            token = self._next()
            self._expect("}")
            if token.kind != "name":
                raise RuleSyntaxError("prose", "text inside a formula")
            return self._named(token.text)
        return self._refuse()

    def _group(self) -> Node:
        """A braced group, or the one digit or name that LaTeX takes instead."""
        if self._take("{"):
            return self._bracketed("{")
        token = self._peek
        if token.kind == "number" and len(token.text) == 1:
            self._at += 1
            return Number(int(token.text))
        return self._refuse()

    def _latex_series(self, function: str) -> Node:
        self._expect("_")
        self._expect("{")
        index = self._next()
        self._expect("=")
        first = self.expression(0)
        self._expect("}")
        self._expect("^")
        last = self._group() if self._peek.kind != "name" else Name(self._next().text)
        if index.kind != "name":
            raise RuleSyntaxError("syntax", "a series without an index")
        return series(function, self.expression(_SUM), index.text, first, last)

    def _written_series(self, function: str) -> Node:
        """``sum(e, k, a, b)``, ``sum(e, (k, a, b))`` and ``sum(e for k in range(a, b))``."""
        self._expect("(")
        body = self.expression(0)
        if self._peek.kind == "name" and self._peek.text == "for":
            return self._python_series(function, body)
        self._expect(",")
        packed = self._peek.text == "(" and self._ahead(2).text == ","
        self._at += packed
        index = self._next()
        self._expect(",")
        first = self.expression(0)
        self._expect(",")
        last = self.expression(0)
        if packed:
            self._expect(")")
        self._expect(")")
        # sum(a, b, c, d) of four variables is not a series: its second argument is no index of the first.
        if index.kind != "name" or (index.text not in body.names and not isinstance(body, Number)):
            raise RuleSyntaxError("ambiguous", f"the index of a {function} does not occur in it")
        return series(function, body, index.text, first, last)

    def _python_series(self, function: str, body: Node) -> Node:
        self._at += 1
        index, word, called = self._next(), self._next(), self._next()
        if index.kind != "name" or word.text != "in" or called.text != "range":
            raise RuleSyntaxError("prose", "only 'for name in range(...)' can be read")
        self._expect("(")
        bounds = [self.expression(0)]
        if self._take(","):
            bounds.append(self.expression(0))
        self._expect(")")
        if self._peek.kind == "name" and self._peek.text == "if":
            self._at += 1
            neutral = Number(0 if function == "sum" else 1)
            body = apply("if", self.expression(0), body, neutral)
        self._expect(")")
        first = bounds[0] if len(bounds) == 2 else Number(0)
        return series(function, body, index.text, first, _join("sub", bounds[-1], Number(1)))


def _is_letter(token: Token) -> bool:
    base = token.text.partition("_")[0]
    return token.kind == "name" and (len(base) == 1 or base in GREEK)


def _join(function: str, left: Node, right: Node) -> Node:
    """A binary node; long sums and products stay flat, so that a chain of a hundred terms is not deep."""
    if function == "sub":
        function, right = "add", apply("neg", right)
    if function in ("add", "mul") and isinstance(left, Apply) and left.function == function:
        return apply(function, *left.arguments, right)
    return apply(function, left, right)


def _number(text: str) -> int | Fraction:
    mantissa, _, exponent = text.replace(",", "").lower().partition("e")
    if len(mantissa) > 300 or len(exponent.lstrip("+-")) > _MAX_EXPONENT_DIGITS:
        raise RuleSyntaxError("too_large", "a number has too many digits")
    value = Fraction(mantissa) * Fraction(10) ** int(exponent or 0)
    return value.numerator if value.denominator == 1 else value


def parse_sides(text: str) -> list[Node]:
    """Read a text into the expressions around its top-level ``=`` signs (one where there is none).

    Raises:
        RuleSyntaxError: the text is not an expression, can be read in two ways, or is too large.
    """
    if not text.strip():
        raise RuleSyntaxError("syntax", "the rule is empty")
    return _Parser(text).whole()


def parse_expression(text: str) -> Node:
    """Read one expression. Raises RuleSyntaxError, also where the text is an equation."""
    sides = parse_sides(text)
    if len(sides) != 1:
        raise RuleSyntaxError("syntax", "an equation where an expression is wanted")
    return sides[0]
