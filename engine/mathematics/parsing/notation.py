r"""Normalise mathematical text: Unicode signs and variants of LaTeX become one plain LaTeX notation."""

from __future__ import annotations

import re
import unicodedata

_GREEK = "αβγδεζηθικλμνξρστυφχψωΓΔΘΛΞΣΦΨΩ"
GREEK_NAMES = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi rho sigma tau upsilon phi chi psi omega "
    "Gamma Delta Theta Lambda Xi Sigma Phi Psi Omega"
).split()
_SYMBOLS = {
    "×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ", "∙": r"\cdot ", "÷": "/", "−": "-", "–": "-", "—": "-",
    "‐": "-", "π": r"\pi ", "√": r"\sqrt ", "∛": r"\cbrt ", "∞": r"\infty ", "°": r"^\circ ", "º": r"^\circ ",
    "℃": r"^\circ C", "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ", "≈": r"\approx ", "±": r"\pm ", "∓": r"\mp ",
    "∪": r"\cup ", "∈": r"\in ", "∅": r"\emptyset ", "ℝ": r"\mathbb{R}", "\N{OHM SIGN}": r"\Omega ",
    "\N{MICRO SIGN}": r"\mu ", "Å": r"\AA ", "\N{ANGSTROM SIGN}": r"\AA ", "⟨": r"\langle ", "⟩": r"\rangle ",
    "⌊": r"\lfloor ", "⌋": r"\rfloor ", "⌈": r"\lceil ", "⌉": r"\rceil ", "∠": r"\angle ", "′": "'", "″": "''",
    "△": r"\triangle ",
    "’": "'", "ℓ": r"\ell ", "ħ": r"\hbar ",
    "€": " euro", "£": " GBP", "¥": " yensign", "￥": " yensign", "₹": " rupees", "¢": " cents", "、": ", ",
    **{letter: rf"\{name} " for letter, name in zip(_GREEK, GREEK_NAMES, strict=True)},
}  # fmt: skip
_SUPERSCRIPTS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "0123456789+-n", strict=True))
_SUBSCRIPTS = dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True))
_SUPERSCRIPT_RUN = re.compile(f"[{''.join(_SUPERSCRIPTS)}]+")
_SUBSCRIPT_RUN = re.compile(f"[{''.join(_SUBSCRIPTS)}]+")
_GREEK_INDEX = re.compile(f"(?<=[{_GREEK}])[0-9]+")
_VULGAR_FRACTION = re.compile("(?<=[0-9])(?=[¼-¾⅐-⅞])")
_UNICODE = re.compile("|".join(map(re.escape, _SYMBOLS)))

_OTHER_NAMES = {
    "leq": r"\le ", "leqslant": r"\le ", "geq": r"\ge ", "geqslant": r"\ge ", "neq": r"\ne ", "langle": "(",
    "rangle": ")", "lbrace": r"\{", "rbrace": r"\}", "degree": r"^\circ ", "degrees": r"^\circ ",
}  # fmt: skip
_COMMANDS = "[dtc]?frac|sqrt|pi|le|ge|ne|leq|geq|neq|lt|gt|text|boxed|cdot|times|infty|in|cup|pm"
# A text that a pattern can match contains the first string. The test for it saves most of the time of ``clean``.
_REWRITES = tuple(
    (needle, re.compile(pattern), new)
    for needle, pattern, new in (
        (r"\\", rf"(?<!\\)\\\\(?=(?:{_COMMANDS})(?![A-Za-z]))", r"\\"),  # escaped twice, as in JSON
        ("", r"(?<=\d)\s*(?:\{\s*,\s*\}|,\s*\\!|\\[,!;: ]|~)\s*(?=\d{3}(?!\d))", ""),  # 1{,}024, 1\,024, 1,\!024
        ("\\", r"\\(?:d|t|c|s|nice)(frac|binom)(?![A-Za-z])", r"\\\1"),
        ("C", r"(?<![A-Za-z\d)\]}])(?:\{\s*\})?[_^]\s*\{?(\d+)\}?\s*C\s*_\s*(?:\{(\d+)\}|(\d))(?!\d)",
         r"\\binom{\1}{\2\3}"),
        ("\\", r"\\(?:left|right|[bB]igg?[lrm]?|displaystyle|textstyle|limits|nolimits)(?![A-Za-z])", ""),
        ("", r"(?<!\\)\\(?:quad|qquad|;|:|,|!|>| )|~", " "),
        ("frac", r"\\frac\s*(\d)\s*(\d)(?!\d)", r"\\frac{\1}{\2}"),
        ("sqrt", r"\\sqrt(\[[^\[\]]*\])?(\d)(?=\d)", r"\\sqrt\1{\2}"),  # as LaTeX reads it; of √23 a space is left
        ("not", r"\\not\s*=", r"\\ne "),
        ("\\", r"(?<=[\d.])\s*\\(?:bar|dot(?=\s*\{?\s*\d))(?![A-Za-z])", r"\\overline"),  # the period of a decimal
        ("\\", r"\\(?:textcolor\s*\{[^{}]*\}|underline|emph|textit|textsf|mathsf)\s*(?=\{)", ""),
        ("\\", r"\\(?:color\s*\{[^{}]*\}|(?:bf|bfseries|small|large|Large|LARGE|huge|Huge)(?![A-Za-z]))", " "),
        ("o", r"(?<=\d)\s*\^\s*(?:o|\{\s*o\s*\}|\{?\s*\\text\s*\{\s*o\s*\}\s*\}?)(?![A-Za-z])", r"^\\circ "),
        ("\\", rf"\\({'|'.join(_OTHER_NAMES)})(?![A-Za-z])", lambda command: _OTHER_NAMES[command[1]]),
        ("\\", r"\\(?:text|mathrm|mbox|textrm|operatorname|textbf|mathbf|mathit|boldsymbol|rm)\*?\s*\{\s*"
         r"(sin|cos|tan|ln|log|pi|or|and|infinity)\s*\}", r" \1 "),
        ("\\", r"\\(?:text|mathrm|mbox|textrm|operatorname|mathit|rm)\*?\s*\{\s*(e|i)\s*\}", r" \1 "),  # bold: a vector
        ("\\", r"\\(?:text|mathrm|mbox|textrm|textnormal)\s*\{([^{}]*(?<![A-Za-z])(?:or|and)(?![A-Za-z])[^{}]*)\}",
         r" \1 "),
        ("ce", r"\\ce(?=\{)", r"\\mathrm"),
        ("\\var", r"\\var(?=(?:epsilon|theta|phi|rho|kappa|sigma)(?![A-Za-z]))", r"\\"),  # two shapes of one letter
        ("prime", r"\^\s*(?:\{\s*\\prime\s*(\d?)\}|\\prime(?![A-Za-z]))",
         lambda prime: f"'^{{{prime[1]}}}" if prime[1] else "'"),
        ("_", r"(\\[A-Za-z]+)\s+(?=_)", r"\1"),
        ("_", r"(_\s*)\\(?:text|mathrm|textrm|mathit)\s*(?=\{)", r"\1"),
        ("_", r"(_\s*\{[^{}]*)\\(?:text|mathrm|textrm|mathit|rm)\s*(?:\{([^{}]*)\}|(?![A-Za-z]))", r"\1\2"),
        ("_", r"_\s*(\\[A-Za-z]+)(?![A-Za-z]|\s*\{)", r"_{\1}"),  # R_\odot
        ("_", r"(?<=[A-Za-z])('+|\s*\^\s*(?:\{[^{}]*\}|\w))(\s*_\s*(?:\{[^{}]*\}|\w))", r"\2\1"),  # v^2_0 is v_0^2
        ("textnormal", r"\\textnormal(?![A-Za-z])", r"\\text"),
        ("%", r"\\%", "%"),
        ("", r"\\\$|\$|(?<!\\)\\[()\[\]]", " "),
    )
)  # fmt: skip
_PER_CENT = re.compile(
    r"(?<=[\d}])\s*(?:\\text\w*\s*\{\s*)?(?:per\s?cent(?:age|o)?|pct\.?|Prozent|pour\s?cents?|por\s?c(?:iento|ento))(?![A-Za-z])(?:\s*\})?"
)


def clean(text: str) -> str:
    """Normalise Unicode signs and LaTeX spacing, and remove delimiters and final punctuation."""
    if text.isalnum() and text.isascii():
        return text
    if not text.isascii():
        text = _SUPERSCRIPT_RUN.sub(lambda run: "^{" + "".join(map(_SUPERSCRIPTS.__getitem__, run[0])) + "}", text)
        text = _SUBSCRIPT_RUN.sub(lambda run: "_{" + "".join(map(_SUBSCRIPTS.__getitem__, run[0])) + "}", text)
        text = _VULGAR_FRACTION.sub(" ", _GREEK_INDEX.sub(r"_{\g<0>}", text))  # ω0 is an index, as in ω₀
        text = _UNICODE.sub(lambda sign: _SYMBOLS[sign[0]], text)
        text = unicodedata.normalize("NFKC", text).replace("\u2044", "/")
    if any(mark in text for mark in "\\$~{"):
        for needle, pattern, new in _REWRITES:
            if needle in text:
                text = pattern.sub(new, text)
    if "ent" in text or "pct" in text:
        text = _PER_CENT.sub("%", text)
    text = " ".join(text.replace("`", " ").replace("\u200b", "").split())
    if "**" in text and not re.search(r"[\w)}]\s*\*\*\s*[\w({-]", text):
        text = text.replace("**", " ")
    return text.strip(" \"*_").rstrip(".,;: \"*_。，；").strip()  # fmt: skip
