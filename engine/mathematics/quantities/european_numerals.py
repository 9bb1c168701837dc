"""Whole numbers below 1000 in words of German, French, Spanish, Italian and Portuguese: zwölf, quatre-vingt-un.

The words are written here without accents, spaces and hyphens. One table serves all five languages, because no word has
different values in two of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from engine.mathematics.quantities.unit_words import folded

_MAX_CHARS = 60
_UP_TO_19 = (
    "null zero cero/eins ein eine un une uno una um uma/zwei zwo deux dos due dois duas/drei trois tres tre"
    "/vier quatre cuatro quattro quatro/funf fuenf cinq cinco cinque/sechs six seis sei/sieben sept siete sette sete"
    "/acht huit ocho otto oito/neun neuf nueve nove/zehn dix diez dieci dez/elf onze once undici"
    "/zwolf zwoelf douze doce dodici doze/dreizehn treize trece tredici treze"
    "/vierzehn quatorze catorce quattordici catorze/funfzehn fuenfzehn quinze quince quindici"
    "/sechzehn seize dieciseis diezyseis sedici dezesseis dezasseis"
    "/siebzehn dixsept diecisiete diezysiete diciassette dezessete dezassete"
    "/achtzehn dixhuit dieciocho diezyocho diciotto dezoito"
    "/neunzehn dixneuf diecinueve diezynueve diciannove dezenove dezanove"
)
_TENS = (
    "zehn/zwanzig vingt veinte veinti venti vent vinte/dreissig trente treinta trenta trent trinta"
    "/vierzig quarante cuarenta quaranta quarant quarenta"
    "/funfzig fuenfzig cinquante cincuenta cinquanta cinquant cinquenta"
    "/sechzig soixante sesenta sessanta sessant sessenta/siebzig septante setenta settanta settant"
    "/achtzig quatrevingt quatrevingts huitante octante ochenta ottanta ottant oitenta"
    "/neunzig nonante noventa novanta novant"
)
_HUNDREDS = "hundert cent cents cento cien ciento cientos cientas centos centas cem"
_ODD_HUNDREDS = {"duzent": 200, "trezent": 300, "quinient": 500, "quinhent": 500}
_VALUES = {
    word: step * value
    for step, words in ((1, _UP_TO_19), (10, f"/{_TENS}"))
    for value, alike in enumerate(words.split("/"))
    for word in alike.split()
}
_ENGLISH = frozenset("cent cents due elf null once seize sept sixcent sixcents vent".split())
"""Numbers that mean something else in English."""


def _one_of(words: Iterable[str]) -> str:
    return f"(?:{'|'.join(sorted(words, key=len, reverse=True))})"


_DIGIT = _one_of(word for word, value in _VALUES.items() if value < 10)
_TEEN = _one_of(word for word, value in _VALUES.items() if 10 <= value < 20)
_TEN = _one_of(word for word, value in _VALUES.items() if value >= 20)
_NUMBER = re.compile(
    rf"(?:(?P<count>{_DIGIT})?(?P<hundred>{_one_of(_HUNDREDS.split())})|(?P<odd>{_one_of(_ODD_HUNDREDS)})[oa]s)?"
    rf"(?:(?<=.)(?:und|et|y|e)(?=.))?(?:(?P<before>{_DIGIT})und(?P<tens>{_TEN})|(?P<ten>{_TEN})(?:(?:et|y|e)?(?P<after>{_DIGIT}))?"
    rf"|(?P<old>soixante|quatrevingt)(?:et)?(?P<from_ten>{_TEEN})|(?P<alone>{_DIGIT}|{_TEEN}))?"
)


def read_european_number(text: str, *, skips_english: bool) -> int | None:
    """The number that a whole text says; None for other texts.

    Args:
        text: words.
        skips_english: whether "once" and "due", which are English words too, are none.
    """
    words = re.sub(r"[\s-]+", "", folded(text)) if len(text) <= _MAX_CHARS else ""
    found = _NUMBER.fullmatch(words)
    if not words or found is None or (skips_english and words in _ENGLISH):
        return None
    rest = ("before", "tens", "ten", "after", "old", "from_ten", "alone")
    hundreds = 100 * _VALUES[found["count"] or "un"] if found["hundred"] else _ODD_HUNDREDS.get(found["odd"], 0)
    return hundreds + sum(_VALUES[found[part]] for part in rest if found[part])
