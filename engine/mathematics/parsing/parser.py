r"""The parser of formulas: text to a tree, by precedence climbing. Nothing is evaluated here.

One grammar reads the rules of scaffolds and final answers. Text that can be
read in two ways is refused (``ambiguous``). These are the decisions for text that authors write in different ways:

=================  ==========================================  ==================================================
text               reading                                     reason
=================  ==========================================  ==================================================
``sin 2x``         sin(2x)                                     usual convention
``sin x/2``        refused                                     sin(x/2) and sin(x)/2 are both usual
``sin^-1(x)``      asin(x)                                     usual convention; ``ln^-1`` is refused
``1/2x``           (1/2)x                                      a quotient of numbers is a coefficient: ``1/2mv^2``
``a/2x``           refused                                     a/(2x) and (a/2)x are both usual
``1/(2a)b``        (1/(2a))b                                   the bracket ends the denominator
``2^3x``, ``e^2x`` refused                                     e^(2x) in plain text, e^2 x in LaTeX
``e^2 x``          (e^2)x                                      the space or brace ends the exponent
``x^2y``           (x^2)y                                      a power of a variable is followed by another one
``C(5,2)``         a binomial coefficient                      with two arguments it can be nothing else
``a[0]``           refused in an answer                        an element of an array, or a product
``3!!``            refused                                     a double factorial is not a factorial twice
=================  ==========================================  ==================================================

The dialects differ where rules and answers do. The names of a rule are declared in its scaffold, so they can
be words; an answer has only symbols, which are letters:

=================  ==========================================  ==================================================
text               ``Dialect.RULE``                            ``Dialect.ANSWER``
=================  ==========================================  ==================================================
``abc``, ``xy``    one name                                    the product of the letters; more than three
                                                               letters that are no known word are refused
``x y``            refused as prose                            a product
``n(n - 1)``       a call; ``binding`` makes it a product      a product
                   where n is a variable
``sqrt``           a name, if nothing follows                  refused: a function without its argument
=================  ==========================================  ==================================================
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NoReturn

from engine.mathematics.parsing.tokens import (
    END,
    FRACTIONS,
    FUNCTIONS,
    MAX_DIGITS,
    MAX_TOKENS,
    Dialect,
    Token,
    number_value,
    tokens,
)
from engine.mathematics.parsing.tree import (
    MAX_NESTING,
    Apply,
    FormulaSyntaxError,
    Name,
    Node,
    Number,
    apply,
    join,
)

# Precedences: an operator binds tighter than all with a smaller number.
SUM, PRODUCT, SIGN, POWER, POSTFIX = 10, 20, 25, 30, 40
BRACKETS = {"(": ")", "[": "]", "{": "}", "⌊": "⌋", "⌈": "⌉"}
RESERVED_WORDS = frozenset({"mod", "choose", "for", "if", "else", "and", "or", "in", "where"})
_SERIES = {"sum": "sum", "prod": "product", "product": "product"}
_ROUNDING = {"⌊": "floor", "⌈": "ceil"}
_INVERSES = {"sin": "asin", "cos": "acos", "tan": "atan"}
# Functions that are written without brackets (sin x) and with a power in front of the argument (sin^2 x).
_PREFIX = frozenset("sin cos tan cot sec csc asin acos atan sinh cosh tanh exp ln log log2 log10".split())
_LOG_WITH_BASE = re.compile(r"log_?(\w+)")
_INFIX = {
    "+": (SUM, "add"), "-": (SUM, "sub"), "*": (PRODUCT, "mul"), "/": (PRODUCT, "div"),
    "//": (PRODUCT, "floordiv"), "%": (PRODUCT, "mod"),
    "mod": (PRODUCT, "mod"), "choose": (POWER - 1, "binomial"),
    "^": (POWER, "pow"), "!": (POSTFIX, "factorial"), "°": (POSTFIX, "radians"),
}  # fmt: skip


def parse_sides(text: str, dialect: Dialect = Dialect.RULE) -> list[Node]:
    """Read a text into the expressions around its top-level ``=`` signs (one where there is none).

    Raises:
        FormulaSyntaxError: the text is not an expression, can be read in two ways, or is too large.
    """
    if not text.strip():
        raise FormulaSyntaxError("syntax", "the formula is empty")
    return _Parser(text, dialect).whole()


def parse_expression(text: str, dialect: Dialect = Dialect.RULE) -> Node:
    """Read one expression. Raises FormulaSyntaxError, also where the text is an equation."""
    sides = parse_sides(text, dialect)
    if len(sides) != 1:
        raise FormulaSyntaxError("syntax", "an equation instead of an expression")
    return sides[0]


class _Parser:
    """Precedence climbing: sums < products < sign < powers < postfix."""

    def __init__(self, text: str, dialect: Dialect) -> None:
        self.tokens = tokens(text, dialect)
        self.at = 0
        self._is_answer = dialect is Dialect.ANSWER
        self._depth = 0
        self._bars = 0  # the open ``|`` in the innermost bracket

    @property
    def peek(self) -> Token:
        """The next token; ``END`` after the last."""
        return self.tokens[self.at] if self.at < len(self.tokens) else END

    @property
    def symbol(self) -> str:
        """The next token's text where it is a symbol, else an empty text."""
        token = self.peek
        return token.text if token.kind == "symbol" else ""

    def ahead(self, distance: int) -> Token:
        """The token at a distance from the next one; -1 is the one that was read last."""
        index = self.at + distance
        return self.tokens[index] if index < len(self.tokens) else END

    def next(self) -> Token:
        """Read one token."""
        token = self.peek
        self.at += 1
        return token

    def take(self, symbol: str) -> bool:
        """Read the next token if it is this symbol."""
        if self.symbol == symbol:
            self.at += 1
            return True
        return False

    def expect(self, symbol: str) -> None:
        """Read this symbol. Raises FormulaSyntaxError where it is missing."""
        if not self.take(symbol):
            self.refuse()

    def refuse(self) -> NoReturn:
        """Raise FormulaSyntaxError about the next token."""
        token = self.peek
        description = repr(token.text[:20]) if token is not END else "the end"
        prose = token.kind == "name" and self.at > 0 and self.ahead(-1).kind in ("name", "number")
        raise FormulaSyntaxError("prose" if prose else "syntax", f"unexpected {description}")

    def whole(self) -> list[Node]:
        """The sides of the text around top-level ``=``."""
        sides = [self._expression(0)]
        while self.take("="):
            sides.append(self._expression(0))
        if self.peek is not END:
            self.refuse()
        return sides

    def _expression(self, minimum: int) -> Node:
        """An expression whose operators bind tighter than ``minimum``."""
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise FormulaSyntaxError("too_large", "brackets are nested too deep")
        left = self._operand()
        joined = ""  # the operator that made ``left`` at this level
        while True:
            token = self.peek
            if self._multiplies_silently(token):
                if minimum >= PRODUCT:
                    break
                self._guard_silent_product(joined, left, token)
                function, left = "mul", join("mul", left, self._expression(PRODUCT + 1))
            else:
                power, function = _INFIX.get(token.text, (0, "")) if token.kind in ("symbol", "name") else (0, "")
                if power <= minimum:
                    break
                self.at += 1
                left = self._joined(left, token.text, power, function)
            joined = function
        self._depth -= 1
        return left

    def _joined(self, left: Node, symbol: str, power: int, function: str) -> Node:
        """``left`` combined with what follows the operator, which has been read."""
        if symbol == "!" and self.symbol == "!":
            raise FormulaSyntaxError("ambiguous", "a double factorial")
        if power == POSTFIX:
            return apply(function, left)
        if symbol == "%" and (self.peek is END or self.symbol in (")", "]", "}", "|", ",", "+", "*", "/", "=")):
            return apply("div", left, Number(100))  # a per cent sign, and no ``mod``
        if power < POWER:
            return join(function, left, self._expression(power))
        if self.take("°"):  # x^\circ is x degrees
            return apply("radians", left)
        # From right to left: 2^3^2 = 2^9. A sign may begin the exponent.
        return apply("pow", left, self._expression(SIGN - 1 if self.symbol in ("+", "-") else POWER - 1))

    def _multiplies_silently(self, token: Token) -> bool:
        """Whether the token starts a factor: ``2x``, ``2(a+b)``, ``(a)(b)``, ``(a)b``; ``a b`` only in answers."""
        before = self.ahead(-1)
        closed = before.kind == "symbol" and before.text in (")", "}", "]", "!", "⌋", "⌉", "°", "|")
        if token.kind == "symbol":
            starts = token.text in ("(", "⌊", "⌈") or (token.text in ("{", "[") and before.kind != "number")
            starts = starts or (token.text == "|" and not self._bars)
        elif token.kind == "number":
            starts = closed or (self._is_answer and before.kind == "name")
        else:
            starts = token.kind in ("name", "command") and token.text not in RESERVED_WORDS
        if self._is_answer or before.kind != "name":
            return starts
        # "x(y + 1)" is a call, and read elsewhere; "a b" may be prose
        return before.text == "pi" and (token.kind == "name" or token.text == "(")

    def _guard_silent_product(self, joined: str, left: Node, token: Token) -> None:
        """Refuse ``a/2x`` and ``e^2x``, which have two readings; ``1/2x``, ``1/(2a)b`` and ``x^2y`` have one."""
        operands = left.arguments if isinstance(left, Apply) else ()
        ended = self.ahead(-1).text in BRACKETS.values()
        if joined in ("div", "floordiv", "mod"):
            unclear = not ended and not all(map(_is_number, operands))
        elif joined == "pow":
            bare = isinstance(operands[0], Number) or (isinstance(operands[0], Name) and operands[0].name == "e")
            unclear = bare and not ended and not token.spaced and token.kind != "symbol"
        else:
            unclear = False
        if self._is_answer and token.text == "[" and self.ahead(-1).kind == "name" and self.ahead(2).text == "]":
            index = self.ahead(1)
            unclear = unclear or index.kind == "number" or (index.kind == "name" and index.text.islower())
        if unclear:
            raise FormulaSyntaxError("ambiguous", f"what {token.text!r} is multiplied with is not clear")

    def _operand(self) -> Node:
        token = self.next()
        if token.kind == "number":
            return self._numeral(token)
        if token.kind == "name":
            return self._call_or_name(token.text)
        if token.kind == "command":
            return self._latex(token.text)
        if token.kind == "symbol":
            if token.text in BRACKETS:
                (inner,) = self._inside(token.text, at_most=1)
                return apply(_ROUNDING[token.text], inner) if token.text in _ROUNDING else inner
            if token.text in ("+", "-"):
                inner = self._expression(SIGN)
                return apply("neg", inner) if token.text == "-" else inner
            if token.text == "|":
                self._bars += 1
                inner = self._expression(0)
                self._bars -= 1
                self.expect("|")
                return apply("abs", inner)
        self.at -= 1
        return self.refuse()

    def _inside(self, opening: str, at_most: int = MAX_TOKENS) -> list[Node]:
        """The expressions between commas, up to the bracket that closes the one that has been read."""
        bars, self._bars = self._bars, 0
        expressions = [self._expression(0)]
        while len(expressions) < at_most and self.take(","):
            expressions.append(self._expression(0))
        self.expect(BRACKETS[opening])
        self._bars = bars
        return expressions

    def _numeral(self, token: Token) -> Node:
        r"""A number: ``2.5``, ``0.1\overline{6}`` with a period."""
        value = number_value(token.text)
        if "." not in token.text or (self.peek.kind, self.peek.text) != ("command", "overline"):
            return Number(value)
        self.at += 1
        self.expect("{")
        period = self.next().text
        self.expect("}")
        if not period.isdecimal() or len(period) > MAX_DIGITS:
            raise FormulaSyntaxError("syntax", "digits are missing")
        shift = 10 ** len(token.text.partition(".")[2])
        return Number(value + Fraction(int(period), shift * (10 ** len(period) - 1)))

    def _latex(self, command: str) -> Node:
        if command in FRACTIONS:
            top = self._group(digit=True)
            return apply(FRACTIONS[command], top, self._group(digit=True))
        if command == "sqrt":
            if self.take("["):
                degree = self._expression(0)
                self.expect("]")
                return apply("root", self._group(), degree)
            return apply("sqrt", self._group())
        self.at -= 1
        return self.refuse()

    def _group(self, digit: bool = False) -> Node:
        r"""A braced group, or one atom instead.

        Args:
            digit: whether one digit is an atom, as LaTeX has it: ``\frac12`` is 1/2, but ``\sqrt 12`` is a cleaned √12.
        """
        token = self.peek
        if digit and token.kind == "number" and len(token.text) > 1 and token.text.isdecimal():
            self.tokens[self.at] = Token("number", token.text[1:])
            return Number(int(token.text[0]))
        if token.kind == "end":
            self.refuse()
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise FormulaSyntaxError("too_large", "brackets are nested too deep")
        if token.kind == "symbol" and token.text in ("+", "-", "|"):
            self.refuse()
        node = self._operand()
        self._depth -= 1
        return node

    def _call_or_name(self, name: str) -> Node:
        """Read the rest of a call of ``name``, which has been read; without an argument it is a name."""
        opening = self.symbol
        if self._is_answer and (not _is_function(name) or (len(name) == 1 and not self._lists_arguments())):
            return Name(name)  # C and P are symbols, unless several arguments follow
        if name in _SERIES and opening == "(":
            return self._series(_SERIES[name])
        if opening == "^" and _is_prefix(name):
            return self._raised_function(name)
        if name != "pi" and (opening == "(" or (opening == "{" and _is_function(name))):
            arguments = self._arguments()
            if opening == "{" and FUNCTIONS.get(name) == "binomial":
                arguments += self._arguments()
            return self._canonical(name, arguments)
        if self._is_answer and name in ("sqrt", "cbrt"):
            return apply(name, self._group())
        if (_is_prefix(name) or name == "sqrt") and self._starts_bare_argument():
            return self._bare_argument(name)
        return self.refuse() if self._is_answer else Name(name)

    def _canonical(self, name: str, arguments: list[Node]) -> Node:
        """A call; ``log_2(x)`` is a logarithm with its base.

        Rules keep the name as it is written, because it may be a variable of the scaffold.
        """
        name = FUNCTIONS.get(name, name) if self._is_answer else name
        base = _LOG_WITH_BASE.fullmatch(name)
        if base and name not in FUNCTIONS and len(arguments) == 1:
            return apply("log", arguments[0], Number(int(base[1])) if base[1].isdecimal() else Name(base[1]))
        return apply(name, *arguments)

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
        return self._inside(self.next().text)

    def _starts_bare_argument(self) -> bool:
        token = self.peek
        if token.kind == "symbol":
            return token.text == "|" and self._is_answer
        return token is not END and token.text not in RESERVED_WORDS

    def _bare_argument(self, name: str) -> Node:
        """``sin x``, ``sin 2x``: factors side by side, up to an operator, a bracket or the next function."""
        if name == "sqrt" and self.ahead(1).text == "^":
            self.refuse()
        argument = self._factor()
        is_unclear = name == "sqrt" and self._multiplies_silently(self.peek)  # "sqrt 2x" has two readings
        while not is_unclear and self.symbol not in ("(", "[", "{") and not _is_function(self.peek.text):
            if not self._multiplies_silently(self.peek):
                break
            argument = join("mul", argument, self._factor())
        is_call = self.symbol == "(" and not self._is_answer
        is_divided = self.symbol == "/" and not self.peek.spaced and not _is_function(self.ahead(1).text)
        if is_unclear or is_call or is_divided:
            raise FormulaSyntaxError("ambiguous", f"where the argument of {name} ends is not clear")
        return self._canonical(name, [argument])

    def _factor(self) -> Node:
        token = self.peek
        if token.kind == "name" and self.ahead(1).text == "(" and not self._is_answer and not _is_function(token.text):
            raise FormulaSyntaxError("ambiguous", f"{token.text!r} before a bracket is a factor or a function")
        return self._expression(PRODUCT)

    def _raised_function(self, name: str) -> Node:
        """``sin^2 x`` is the square of the sine; ``sin^-1 x`` is the inverse function."""
        self.expect("^")
        if self.symbol in ("(", "{"):
            (exponent,) = self._inside(self.next().text, at_most=1)
        else:
            is_negative, token = self.take("-"), self.next()
            if token.kind != "number" and (token.kind != "name" or not self._is_answer):
                raise FormulaSyntaxError("ambiguous", f"the exponent of {name} is not a plain number")
            exponent = Number(number_value(token.text)) if token.kind == "number" else Name(token.text)
            exponent = apply("neg", exponent) if is_negative else exponent
        if exponent == apply("neg", Number(1)):
            if name not in _INVERSES:
                raise FormulaSyntaxError("ambiguous", f"{name}^-1 is an inverse or a reciprocal")
            return self._applied(_INVERSES[name])
        return apply("pow", self._applied(name), exponent)

    def _applied(self, name: str) -> Node:
        """A function with its argument, in brackets or bare."""
        if self.symbol in ("(", "{"):
            return self._canonical(name, self._arguments())
        return self._bare_argument(name) if self._starts_bare_argument() else self.refuse()

    def _series(self, function: str) -> Node:
        """``sum(e, k, a, b)``, as the prompt has it, and ``sum(e for k in range(a, b))``."""
        self.expect("(")
        body = self._expression(0)
        if self.take(","):
            index = self.next()
            self.expect(",")
            first = self._expression(0)
            self.expect(",")
            last = self._expression(0)
        else:
            word_for, index, word_in, called = self.next(), self.next(), self.next(), self.next()
            if (word_for.text, word_in.text, called.text) != ("for", "in", "range"):
                raise FormulaSyntaxError("prose", "only 'for name in range(...)' can be read")
            *start, end = self._arguments()
            first, last = start[0] if start else Number(0), join("sub", end, Number(1))
        self.expect(")")
        # sum(a, b, c, d) of four variables is not a series: its second argument is no index of the first.
        if index.kind != "name" or (index.text not in body.names and not isinstance(body, Number)):
            raise FormulaSyntaxError("ambiguous", f"the index of a {function} does not occur in it")
        return apply(function, body, Name(index.text), first, last)


def _is_number(node: Node) -> bool:
    """Whether a node is a number, perhaps with a sign."""
    if isinstance(node, Apply) and node.function == "neg":
        node = node.arguments[0]
    return isinstance(node, Number)


def _is_function(name: str) -> bool:
    return name in FUNCTIONS or name.startswith("log_")


def _is_prefix(name: str) -> bool:
    return FUNCTIONS.get(name) in _PREFIX or name.startswith("log_")
