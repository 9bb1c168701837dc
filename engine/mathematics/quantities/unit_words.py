"""Names of units in English and Chinese. Symbols are in ``unit_text``.

The English name of a unit and its plural with "s" need not be listed. Words of up to three ASCII letters may be
products of variables, and are no units. No ``月``: it is a month, or March.
"""

from __future__ import annotations

from collections.abc import Mapping

_PREFIXES: Mapping[str, str] = {
    "nano": "nano 纳", "micro": "micro 微", "milli": "milli 毫", "centi": "centi 厘", "deci": "deci 分",
    "hecto": "hecto 百", "kilo": "kilo 千", "mega": "mega 兆", "giga": "giga 吉", "femto": "femto", "pico": "pico",
    "tera": "tera", "peta": "peta",
}  # fmt: skip
_PREFIXED: Mapping[str, str] = {
    "meter": "metre metres 米", "gram": "gramme grammes 克", "liter": "litre litres 升", "second": "秒 秒钟",
    "watt": "瓦 瓦特", "watt_hour": "瓦时", "volt": "伏 伏特", "ampere": "amp amps 安 安培", "ohm": "欧姆",
    "newton": "牛 牛顿", "joule": "焦 焦耳", "pascal": "帕 帕斯卡", "hertz": "赫 赫兹", "calorie": "卡 卡路里",
    "mole": "摩尔", "kelvin": "开尔文", "electron_volt": "electronvolt electronvolts", "radian": "弧度",
}  # fmt: skip
_ENGLISH_PREFIXED = """
candela coulomb farad siemens weber tesla henry bar becquerel gray sievert lumen lux steradian curie parsec
"""
_ENGLISH_PLAIN = """
angstrom arcminute arcsecond cup dyne fathom fortnight furlong gallon horsepower knot peso pint pound quart rupee stone
tablespoon teaspoon yard
"""
_PLAIN: Mapping[str, str] = {
    "minute": "分 分钟", "hour": "小时 个小时 钟头 个钟头", "day": "天", "week": "周 星期 个星期 礼拜 个礼拜",
    "month": "个月", "year": "年", "decayear": "decade decades", "century": "centuries 世纪 个世纪",
    "millennium": "millennia", "kilometer": "公里", "kilogram": "kilo kilos 公斤", "metric_ton": "tonne tonnes 吨 公吨",
    "foot": "feet 英尺", "inch": "inches 英寸", "mile": "英里", "nautical_mile": "nauticalmile nauticalmiles 海里",
    "hectare": "hectare hectares 公顷", "acre": "英亩", "fluid_ounce": "fluidounce fluidounces",
    "light_year": "lightyear lightyears", "turn": "revolution revolutions", "si_gauss": "gauss",
    "standard_atmosphere": "atmosphere atmospheres", "us_cent": "cent cents", "ounce": "盎司", "degree": "度",
    "degree_Celsius": "摄氏度", "degree_Fahrenheit": "华氏度", "us_dollar": "dollar dollars 美元 美金", "euro": "欧元",
    "british_pound": "英镑", "yuan": "元 人民币", "yen": "円 日元", "brazilian_real": "reais",
    "count": "piece pieces", "ruble": "rouble roubles 卢布", "franc": "法郎",
}  # fmt: skip
_SHORTEST = 4
DOUBTFUL = frozenset({"分"})
"""Units only where the other side of a comparison is a quantity of their dimension: else ``5 ans`` may be a product."""

UNIT_SPELLINGS = (
    (r"每", "/"),
    (r"(?<=/)\s*时(?!\w)", "小时"),  # 3时 is a time of day
    (r"平方([^\W\d_]+)", r"\1^2"),
    (r"立方([^\W\d_]+)", r"\1^3"),
)
"""Powers and quotients in words, and how ``unit_text`` writes them."""


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
    return {word.casefold(): name for word, name in table.items()}


UNIT_WORDS: Mapping[str, str] = _table()


def unit_of_word(word: str) -> str | None:
    """The unit that a word names; None for other words."""
    is_short = len(word) < _SHORTEST and word.isascii() and word not in DOUBTFUL
    return None if is_short else UNIT_WORDS.get(word.casefold())
