"""Names of units in English, German, French, Spanish, Italian, Portuguese and Chinese. Symbols are in ``unit_text``.

The English name of a unit and its plural with "s" need not be listed. A word is listed only if it means one unit in all
of these languages: no pound (``livre``, ``Pfund``), no
``mille`` (a mile, a thousand), no ``月`` (a month, March). Words of up to three ASCII letters (``an``, ``Tag``) may be
products of variables, and are no units, except for those in ``DOUBTFUL``.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping

_PREFIXES: Mapping[str, str] = {
    "nano": "nano 纳", "micro": "micro mikro 微", "milli": "milli mili 毫", "centi": "centi zenti 厘",
    "deci": "deci dezi 分", "hecto": "hecto hekto etto 百", "kilo": "kilo chilo quilo 千", "mega": "mega 兆",
    "giga": "giga 吉", "femto": "femto", "pico": "pico", "tera": "tera", "peta": "peta",
}  # fmt: skip
_PREFIXED: Mapping[str, str] = {
    "meter": "Meter Metern mètre mètres metro metros metri 米",
    "gram": "Gramm gramme grammes gramo gramos grama gramas grammo grammi 克",
    "liter": "Liter Litern litre litres litro litros litri 升",
    "second": "Sekunde Sekunden seconde secondes segundo segundos secondo secondi 秒 秒钟",
    "watt": "Watt vatio vatios 瓦 瓦特",
    "watt_hour": "Wattstunde Wattstunden wattheure wattheures 瓦时",
    "volt": "Volt voltio voltios 伏 伏特",
    "ampere": "amp amps ampère ampères amperio amperios 安 安培",
    "ohm": "Ohm ohmio ohmios 欧姆",
    "newton": "Newton 牛 牛顿",
    "joule": "Joule julio julios 焦 焦耳",
    "pascal": "Pascal pascales 帕 帕斯卡",
    "hertz": "Hertz hercio hercios 赫 赫兹",
    "calorie": "Kalorie Kalorien calorie calories caloría calorías caloria calorias 卡 卡路里",
    "mole": "Mol moles 摩尔",
    "kelvin": "开尔文",
    "electron_volt": "electronvolt electronvolts",
    "radian": "Radiant radián radianes radianti radiano radianos 弧度",
}
_ENGLISH_PREFIXED = """
candela coulomb farad siemens weber tesla henry bar becquerel gray sievert lumen lux steradian curie parsec
"""
_ENGLISH_PLAIN = """
angstrom arcminute arcsecond cup dyne fathom fortnight furlong gallon horsepower knot peso pint pound quart rupee stone
tablespoon teaspoon yard
"""
_PLAIN: Mapping[str, str] = {
    "minute": "Minute Minuten minute minutes minuto minutos minuti 分 分钟",
    "hour": "Stunde Stunden heure heures hora horas ora ore 小时 个小时 钟头 个钟头",
    "day": "Tage Tagen jour jours día días dias giorno giorni 天",
    "week": "Woche Wochen semaine semaines semana semanas settimana settimane 周 星期 个星期 礼拜 个礼拜",
    "month": "Monat Monate Monaten mois meses mês mese mesi 个月",
    "year": "Jahr Jahre Jahren ans année années año años anos anno anni 年",
    "decayear": "decade decades Jahrzehnt Jahrzehnte décennie décennies década décadas decennio decenni",
    "century": "centuries Jahrhundert Jahrhunderte siècle siècles siglo siglos século séculos secolo secoli 世纪"
    " 个世纪",
    "kilometer": "公里",
    "kilogram": "Kilo Kilos chilo chili quilo quilos 公斤",
    "metric_ton": "Tonne Tonnen tonne tonnes tonelada toneladas tonnellata tonnellate 吨 公吨",
    "foot": "feet Fuß pied pieds piede piedi 英尺",
    "inch": "inches Zoll pouce pouces pulgada pulgadas polegada polegadas pollice pollici 英寸",
    "mile": "Meile Meilen milla millas milha milhas miglio miglia 英里",
    "nautical_mile": "nauticalmile nauticalmiles Seemeile Seemeilen 海里",
    "hectare": "Hektar hectare hectares hectárea hectáreas ettaro ettari 公顷",
    "acre": "英亩",
    "fluid_ounce": "fluidounce fluidounces",
    "light_year": "lightyear lightyears",
    "millennium": "millennia",
    "turn": "revolution revolutions",
    "si_gauss": "gauss",
    "standard_atmosphere": "atmosphere atmospheres",
    "us_cent": "cent cents",
    "ounce": "Unze Unzen 盎司",
    "kilometer_per_hour": "Stundenkilometer",
    "degree": "Grad degré degrés grado grados gradi grau graus 度",
    "degree_Celsius": "摄氏度",
    "degree_Fahrenheit": "华氏度",
    "us_dollar": "Dollar Dollars dólar dólares dollaro dollari 美元 美金",
    "euro": "Euro Euros 欧元",
    "british_pound": "英镑",
    "yuan": "元 人民币",
    "yen": "円 日元",
    "brazilian_real": "reais",
    "count": "Stück Stücke Stücken Stk. pièce pièces pieza piezas pezzo pezzi peça peças",
    "ruble": "rouble roubles Rubel rublo rublos rubli 卢布",
    "franc": "Franken 法郎",
}
_SHORTEST = 4
_CAPITALS = frozenset({"Grad", "Mol"})
"""Words that mean a unit only with a capital: ``grad`` is a gradient, or a hundredth of a right angle."""
DOUBTFUL = frozenset({"ore", "ora", "ans", "分"})
"""Units only where the other side of a comparison is a quantity of their dimension: else ``5 ans`` may be a product."""

UNIT_SPELLINGS = (
    (r"\b(?:Grad|degrés?|grados?|gradi|graus?)\s+([Cc]elsius|[Ff]ahrenheit)\b", r" \1 "),
    (r"\b(?:pro|par|por)\b|\bal(?=\s+(?:secondo|minuto|giorno)\b)|\ball'\s*(?=ora\b)|à\s+l'\s*(?=heure\b)|每", "/"),
    (r"(?<=/)\s*时(?!\w)", "小时"),  # 3时 is a time of day
    (r"\bQuadrat([^\W\d_]{4,})", r"\1^2"),
    (r"\bKubik([^\W\d_]{4,})", r"\1^3"),
    (r"([^\W\d_]{4,})\s+(?:carrés?|cuadrados?|quadrat[oi]|quadri|quadrados?)\b", r"\1^2"),
    (r"([^\W\d_]{4,})\s+(?:cubes?|cúbicos?|cub[oi])\b", r"\1^3"),
    (r"平方([^\W\d_]+)", r"\1^2"),
    (r"立方([^\W\d_]+)", r"\1^3"),
)
"""Powers and quotients in words, and how ``unit_text`` writes them."""


def folded(word: str) -> str:
    """A word without accents and case: ``Kilómetro`` is ``kilometro``."""
    parts = unicodedata.normalize("NFD", word.casefold())
    return unicodedata.normalize("NFC", "".join(part for part in parts if not unicodedata.combining(part)))


def _spellings(name: str, words: str) -> list[str]:
    return [*words.split(), *((name, f"{name}s") if "_" not in name else ())]


def _table() -> dict[str, str]:
    plain = {**dict.fromkeys(_ENGLISH_PLAIN.split(), ""), **_PLAIN}
    table = {word: name for name, words in plain.items() for word in _spellings(name, words)}
    prefixes = [(spelling, prefix) for prefix, spellings in _PREFIXES.items() for spelling in spellings.split()]
    for name, words in {**dict.fromkeys(_ENGLISH_PREFIXED.split(), ""), **_PREFIXED}.items():
        for word in _spellings(name, words):
            table[word] = name
            together = [(prefix, known) for prefix, known in prefixes if prefix.isascii() == (ord(word[0]) < 0x2E80)]
            table.update({prefix + word.casefold(): known + name for prefix, known in together})
    return {word if word in _CAPITALS else folded(word): name for word, name in table.items()}


UNIT_WORDS: Mapping[str, str] = _table()


def unit_of_word(word: str) -> str | None:
    """The unit that a word names in one of the languages; None for other words."""
    if word in _CAPITALS:
        return UNIT_WORDS[word]
    is_short = len(word) < _SHORTEST and word.isascii() and word not in DOUBTFUL
    return None if is_short else UNIT_WORDS.get(folded(word))
