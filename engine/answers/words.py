"""The words of English and Chinese that frame an answer, take it back or hedge it; and texts in plain form."""

from __future__ import annotations

import re
import unicodedata

INVISIBLE = dict.fromkeys(
    [0xAD, 0x180E, 0xFEFF, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2065)]
)
"""Characters without width, which are left out."""
EDGES = " \t\r\n\"'`*_“”‘’«»„‚「」『』"
MARKUP = re.compile(r"\\(?:boxed|fbox|text\w*|math(?:rm|bf|it|tt|sf)|mbox|operatorname|rm)\s*\{([^{}]*)\}")
_DELIMITERS = re.compile(r"\A(?:\$\$?|\\\(|\\\[)|(?:\$\$?|\\\)|\\\])\Z")
_DASHES = str.maketrans("‐‑‒–—−", "------")
_FULL_WIDTH = {0x3000: " ", **{code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}}
_POWERS = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻]+")
COMMA = re.compile(r"\s*[,、]\s*")
_BESIDE_CHINESE = re.compile(r"(?<=[\u3400-\u9fff]) | (?=[\u3400-\u9fff])")
"""A space that separates no words: Chinese has none between them."""
_IN_BRACKETS = re.compile(r"\(([^()\[\],;]+)\)|【([^】【,;]+)】")
ARTICLE = re.compile(r"\A(?:the|an?) (?=\w{2})", re.IGNORECASE)
_CHOICES = re.compile(r"[A-H](?:[\s,;、&和及与]*[A-H])*")
_AND = re.compile(r"(?<![A-Za-z])and(?![A-Za-z])", re.IGNORECASE)

DENIES = re.compile(
    r"\b(?:not?|never|neither|nor|without|none|cannot|incorrect|wrong|false|unless|except|everything|anything|besides"
    r"|(?:rul|exclud|eliminat)\w+)\b|n['’]t\b|[不没非无]",
    re.IGNORECASE,
)
HEDGES = re.compile(
    r"\b(?:or|either|(?-i:may)|might|could|maybe|perhaps|possibly|unsure|unclear|uncertain|unknown|depends|if)\b|或|可能|也许",
    re.IGNORECASE,
)
TURNS = re.compile(
    r"\b(?:actually|no|not|wait|rather|instead|or|but|however|correction|sorry|hmm+|maybe|perhaps)\b", re.IGNORECASE
)
"""A turn after an answer: "5. No, 6." """

CHANGES_MEANING = re.compile(
    r"(?i)\b(?:sqrt|pi|sin|cos|tan|log|ln|exp|half|halves|thirds?|quarters?|over|times|plus|minus|and|or|nor|to|mod|"
    r"choose|through|factorial|squared|cubed|percent|out|with|i|e|"
    r"(?:hundred|thousand|million|billion|trillion)(?:s|ths?)?|lakhs?|crores?|dozens?|gross|"
    r"(?:fif|six|seven|eigh|nin|twelf)ths|tenths?|tens|basis|"
    r"not|no|never|none|neither|cannot|without|except|wrong|incorrect|false|invalid|untrue|"
    r"more|less|fewer|least|most|than|under|below|above|beyond|short|extra|additional|another|else|am|pm)\b|n't\b"
)
"""Words after a number that make another one of it."""

CONCLUDES = re.compile(r"\A(?:so|thus|hence|therefore|所以|因此|综上所述)[,，:：]?\s*", re.IGNORECASE)


def half_width(text: str) -> str:
    """A text whose full-width letters, digits and signs are ASCII."""
    return text if text.isascii() else text.translate(_FULL_WIDTH)


def folded(text: str) -> str:
    """A text without case, invisible characters and forms of the same sign; one space between words."""
    text = unicodedata.normalize("NFKC", text.translate(INVISIBLE)).casefold().translate(_DASHES)
    return COMMA.sub(",", " ".join(text.split()))


def plain(text: str) -> str:
    """A text without case, quotes and markup around it, brackets around the whole, a final dot, and spaces that repeat.

    Commas have no space beside them, and neither have Chinese characters. The Chinese 、 is a comma. An article at the
    start and delimiters of mathematics are left out.
    """
    text = text if text.isascii() else _POWERS.sub(lambda power: "^" + power[0], text)
    if "\\" in text or "$" in text:
        text = _DELIMITERS.sub("", MARKUP.sub(r"\1", MARKUP.sub(r"\1", text.strip(EDGES))).rstrip("."))
    words = _BESIDE_CHINESE.sub("", folded(text)).strip(EDGES).rstrip(".。!").rstrip(EDGES)
    inner = _IN_BRACKETS.fullmatch(words)
    return ARTICLE.sub("", (inner[1] or inner[2]).strip(EDGES) if inner else words)


def read_choices(text: str) -> frozenset[str] | None:
    """The letters of the choices that a text names, each once: A、C, ``AC``, ``(A) and (C)``; None if it names none."""
    letters = re.sub(r"[()\[\]{}【】*_`\"'“”.。$]|\\(?:text|mathrm|boxed)", " ", _AND.sub(",", half_width(text)))
    letters = letters.upper().strip()
    choices = re.findall("[A-H]", letters) if _CHOICES.fullmatch(letters) else []
    return frozenset(choices) if choices and len(set(choices)) == len(choices) else None
