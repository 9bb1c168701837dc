"""Parse the rules that models write: an expression, an equation, or one of a fixed set of English phrases.

Other prose raises FormulaSyntaxError.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from engine.mathematics.parsing.parser import parse_expression, parse_sides
from engine.mathematics.parsing.tokens import MAX_CHARACTERS
from engine.mathematics.parsing.tree import FormulaSyntaxError, Node, substitute

_MAX_PHRASE_DEPTH = 3


@dataclass(frozen=True, slots=True)
class Rule:
    """A parsed rule.

    Args:
        left: the left side of an equation; None where the rule is an expression alone.
        right: the right side, or the expression.
    """

    left: Node | None
    right: Node


def parse_rule(text: str, effect: str, causes: Sequence[str] = ()) -> Rule:
    """Parse a rule.

    Args:
        text: ``effect = expression``, an expression, an equation, a chain ``a = b = c``, or an exact phrase
            such as "numerator of x in simplest form"; ``, where s = (a + b) / 2`` may follow.
        effect: the variable that the rule is for.
        causes: the declared causes; if there is only one, "the simplified fraction" means this cause.

    Raises:
        FormulaSyntaxError: the text cannot be read, or can be read in two ways.
    """
    rule = _read(text, effect, causes[0] if len(causes) == 1 else "")
    if isinstance(rule, Rule):
        return rule
    raise FormulaSyntaxError(*rule)


# Cached because the rollouts of a group have many rules in common, and several measurements parse each of them.
@lru_cache(maxsize=1024)
def _read(text: str, effect: str, only_cause: str) -> Rule | tuple[str, str]:
    try:
        return _rule(text, effect, only_cause)
    except FormulaSyntaxError as error:
        return error.kind, error.what


def _rule(text: str, effect: str, only_cause: str) -> Rule:
    if len(text) > MAX_CHARACTERS:
        raise FormulaSyntaxError("too_large", f"a rule is longer than {MAX_CHARACTERS} characters")
    text = " ".join(text.split()).strip("$ ").rstrip(".; ")
    text, *clauses = re.split(r",? (?:where|with) ", text, maxsplit=1)
    local: dict[str, Node] = {}
    for clause in re.split(r", and |, | and ", clauses[0]) if clauses else ():
        _read_clause(clause, local)
    *left, right = re.split(r"(?<![<>=!])=(?!=)", text)
    phrase = _phrase(right, only_cause)
    sides = parse_sides(f"{'='.join(left)} = {phrase}" if left else phrase)
    if local:
        # Substitute twice, because a clause may use a name that a later clause defines.
        sides = [substitute(substitute(side, local), local) for side in sides]
    return Rule(sides[0], sides[1]) if len(sides) > 1 else Rule(None, sides[0])


def _read_clause(clause: str, local: dict[str, Node]) -> None:
    """Read one clause after "where", the definition of a name."""
    name, equals, expression = clause.partition("=")
    if not equals or not re.fullmatch(r"[^\W\d]\w*", name.strip()):
        raise FormulaSyntaxError("prose", f"cannot read the condition {clause[:40]!r}")
    local[name.strip()] = parse_expression(_phrase(expression.strip(), ""))


_LOWEST = (
    r"(?:,? (?:when |if )?(?:expressed |written |reduced |simplified )?(?:as a fraction )?"
    r"(?:in|to) (?:its |the )?(?:simplest|lowest|reduced|irreducible)(?: (?:form|terms|fraction))?)?"
)
_THE_FRACTION = re.compile(r"(?:simplified|reduced|simplest|irreducible) fraction", re.IGNORECASE)
_PHRASES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), template)
    for pattern, template in (
        (rf"(?:numerator (?:\+|plus)|sum of (?:the )?numerator and) (?:the )?denominator of (.+?){_LOWEST}",
         "numerator<0> + denominator<0>"),
        (rf"numerator of (.+?){_LOWEST}", "numerator<0>"),
        (rf"denominator of (.+?){_LOWEST}", "denominator<0>"),
        (r"(.+?) (?:in|to) (?:its |the )?(?:simplest|lowest|reduced) (?:form|terms)", "<0>"),
    )
)  # fmt: skip
_PHRASE_WORDS = re.compile(r"\b(?:of|form|terms)\b", re.IGNORECASE)


def _phrase(text: str, only_cause: str, depth: int = 0) -> str:
    """Translate an English phrase to a formula; return other text unchanged."""
    text = re.sub(r"^(?:the|The) ", "", text.strip())
    if not _PHRASE_WORDS.search(text):
        return only_cause if only_cause and _THE_FRACTION.fullmatch(text) else text
    if depth >= _MAX_PHRASE_DEPTH:
        raise FormulaSyntaxError("prose", "phrases stand in phrases too deep")
    for pattern, template in _PHRASES:
        match = pattern.fullmatch(text)
        if match:
            return template.replace("<0>", f"({_phrase(match[1], only_cause, depth + 1)})")
    return text
