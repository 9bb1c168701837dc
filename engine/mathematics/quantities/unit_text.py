r"""Unit texts such as ``m/s^2``, ``\text{ kg m}^2`` or ``J/(kg·K)``, read into powers of known units.

Only the spellings of ``unit_table`` are units. No heavy imports.

Reading rules: a space or a dot multiplies, also within the denominator (``J/kg·K`` is J/(kg K)); the factor after ``*``
is in the numerator (``m/s*kg`` is m kg/s); powers are integers between -12 and 12.
This holds for the total power of a unit too: values are exact, so a larger power could take any amount of time.
"""

from __future__ import annotations

import re
from functools import lru_cache
from operator import itemgetter

from engine.mathematics.quantities.unit_table import unit_named

MAX_UNIT_CHARS = 120
_MAX_POWER = 12
_MAX_FACTORS = 12

_ONE_SPELLING = tuple(
    (re.compile(pattern), new)
    for pattern, new in (
        (r"每", "/"),
        (r"(?<=/)\s*时(?!\w)", "小时"),  # 3时 is a time of day
        (r"平方([^\W\d_]+)", r"\1^2"),
        (r"立方([^\W\d_]+)", r"\1^3"),
        (r"\^\s*\{?\s*\\circ\s*\}?\s*(?:\\(?:text|mathrm|rm)\s*\{)?\s*([CF])(?![A-Za-z])\}?", r" deg\1 "),
        (r"\b[Dd]eg(?:ree)?s?\s+([CF])(?![A-Za-z])", r" deg\1 "),
        (r"\b[Dd]egrees?\s+([Cc]elsius|[Ff]ahrenheit)\b", r" \1 "),
        (r"\^\s*\{?\s*\\circ\s*\}?", " deg "),
        (r"\\(?:text|mathrm|mbox|textrm|operatorname|rm|si|unit)\s*\{((?:[^{}]|\{[^{}]*\})*)\}", r" \1 "),
        (r"\\(?:text|mathrm|rm)(?![A-Za-z])", " "),
        (r"\\mu\s*", "u"),
        (r"(?<![A-Za-z])(k?m)s\s*\^\s*(?=[{(]?\s*-)", r"\1 s^"),  # metres per second, as often written
        (r"(?:(?<![A-Za-z])([kMGmu])\s+)?\\(?:Omega|ohm)(?![A-Za-z])", r"\1ohm"),
        (r"\\per(?![A-Za-z])|\bper\b", "/"),
        (r"\\(?:cdot|times)(?![A-Za-z])|\.(?=\s*[A-Za-z])", " "),
        (r"\\AA(?![A-Za-z])", "AA"),
        (r"\bsquared\b", "^2"),
        (r"\bcubed\b", "^3"),
        (r"\b[Ss]quare\s+([A-Za-z]+)|\b[Ss]q\.?\s+([A-Za-z]+)", r"\1\2^2"),
        (r"\b[Cc]ubic\s+([A-Za-z]+)", r"\1^3"),
        (r"\blight[\s-]years?\b", "ly"),
        (r"\\ell", "l"),
    )
)  # fmt: skip
_FRACTION = re.compile(r"\\frac\s*\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}\s*\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}")
_TOKEN = re.compile(
    r"(?P<word>[^\W\d_]+)|(?P<power>\s*(?:\^|\*\*)\s*(?:\(\s*([+-]?\s*[0-9]{1,2})\s*\)|([+-]?[0-9]{1,2})))"
    r"|(?P<glued>[+-]?[0-9](?![0-9]))|(?P<mark>[/*()])|(?P<space>\s+)",
)

Powers = tuple[tuple[str, int], ...]
"""Unit names with their powers, sorted by name, without zero powers."""


class UnknownUnitError(ValueError):
    """The text is not a unit."""


@lru_cache(maxsize=2048)
def read_unit(text: str) -> Powers | None:
    """Read a whole text as a unit; None if it is not one. An empty text is dimensionless: ``()``."""
    if len(text) > MAX_UNIT_CHARS:
        return None
    text = text.strip()
    if not text:
        return ()
    text = text[1:] if re.match(r"1\s*/", text) else text  # 1/s
    try:
        tokens = _tokens(_one_spelling(text))
        powers = _product(tokens)
    except UnknownUnitError:
        return None
    if tokens or not powers or max(map(abs, powers.values())) > _MAX_POWER:
        return None
    return tuple(sorted(filter(itemgetter(1), powers.items())))


def _one_spelling(text: str) -> str:
    for pattern, new in _ONE_SPELLING:
        text = pattern.sub(new, text)
    return _FRACTION.sub(r"(\1)/(\2)", text).replace("{", "(").replace("}", ")")


def _tokens(text: str) -> list[tuple[str, str]]:
    """The kinds and contents of the tokens of a unit, the first one last. At most 12 of them are factors."""
    tokens: list[tuple[str, str]] = []
    text, at = text.strip(), 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise UnknownUnitError(text[at])
        at = token.end()
        kind = next(name for name, content in token.groupdict().items() if content is not None)
        tokens.append((kind, (token[3] or token[4] or token[0]).strip()))
    if sum(kind == "word" or content == "(" for kind, content in tokens) > _MAX_FACTORS:
        raise UnknownUnitError("too many factors")
    return tokens[::-1]


def _product(tokens: list[tuple[str, str]]) -> dict[str, int]:
    """The powers of the units up to a closing bracket or the end; the tokens are removed."""
    total: dict[str, int] = {}
    sign = 1
    while tokens and tokens[-1] != ("mark", ")"):
        kind, content = tokens.pop()
        if kind == "space":
            continue
        if content in ("/", "*"):
            sign = -1 if content == "/" else 1
            continue
        if kind == "word":
            *before, name = _units_of(content, is_raised=bool(tokens) and tokens[-1][0] == "power")
            base = {name: 1}
            for first in before:
                total[first] = total.get(first, 0) + sign
        else:
            base = _product(tokens) if content == "(" else {}
            if not base or not tokens:
                raise UnknownUnitError("unbalanced")
            tokens.pop()
        power = _power(tokens.pop()[1]) if tokens and tokens[-1][0] in ("power", "glued") else 1
        for name, value in base.items():
            total[name] = total.get(name, 0) + sign * power * value
    return total


def _units_of(word: str, *, is_raised: bool) -> list[str]:
    """The unit of a word; the two units of one with a power, as ``kJmol^-1``. Raises ``UnknownUnitError``."""
    if name := unit_named(word):
        return [name]
    pairs = [[unit_named(word[:at]), unit_named(word[at:])] for at in range(1, len(word))] if is_raised else []
    pairs = [pair for pair in pairs if None not in pair]
    if len(pairs) != 1 or word.endswith("ms"):  # kg m s^-1
        raise UnknownUnitError(word)
    return [name for name in pairs[0] if name is not None]


def _power(text: str) -> int:
    power = int(text.replace(" ", ""))
    if not 0 < abs(power) <= _MAX_POWER:
        raise UnknownUnitError("no usual power")
    return power
