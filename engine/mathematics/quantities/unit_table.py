"""The units: their values in SI base units, their symbols, and their names in English and Chinese.

Values are exact definitions (SI Brochure, NIST SP 811) and CODATA 2022. The tests compare every value with pint's,
which takes 0.6 s of processor time to load.
"""

from __future__ import annotations

from fractions import Fraction

_PREFIXES = {
    "": ("", 0, ""), "femto": ("f", -15, ""), "pico": ("p", -12, ""), "nano": ("n", -9, "纳"),
    "micro": ("u", -6, "微"), "milli": ("m", -3, "毫"), "centi": ("c", -2, "厘"), "deci": ("d", -1, "分"),
    "hecto": ("h", 2, "百"), "kilo": ("k", 3, "千"), "mega": ("M", 6, "兆"), "giga": ("G", 9, "吉"),
    "tera": ("T", 12, ""), "peta": ("P", 15, ""),
}  # fmt: skip
"""Name -> symbol, power of ten, Chinese name."""
_PREFIXED = {
    "m": {"meter": ("1", "m", "metre metres 米"), "parsec": ("30856775814913673", "pc", "")},
    "kg": {"gram": ("0.001", "g", "gramme grammes 克")},
    "s": {"second": ("1", "s", "秒 秒钟")},
    "s-1": {"hertz": ("1", "Hz", "赫 赫兹"), "becquerel": ("1", "Bq", "")},
    "A": {"ampere": ("1", "A", "amp amps 安 安培")}, "K": {"kelvin": ("1", "K", "开尔文")},
    "mol": {"mole": ("1", "mol", "摩尔")}, "": {"radian": ("1", "rad", "弧度")},
    "m3": {"liter": ("0.001", "L l", "litre litres 升")},
    "kg m s-2": {"newton": ("1", "N", "牛 牛顿")},
    "kg m-1 s-2": {"pascal": ("1", "Pa", "帕 帕斯卡"), "bar": ("100000", "bar", "")},
    "kg m2 s-2": {
        "joule": ("1", "J", "焦 焦耳"), "calorie": ("4.184", "cal", "卡 卡路里"), "watt_hour": ("3600", "Wh", "瓦时"),
        "electron_volt": ("1.602176634e-19", "eV", "electronvolt electronvolts"),
    },
    "kg m2 s-3": {"watt": ("1", "W", "瓦 瓦特")}, "A s": {"coulomb": ("1", "C", "")},
    "kg m2 s-3 A-1": {"volt": ("1", "V", "伏 伏特")}, "kg m2 s-3 A-2": {"ohm": ("1", "ohm", "欧姆")},
    "kg-1 m-2 s4 A2": {"farad": ("1", "F", "")}, "kg m2 s-2 A-2": {"henry": ("1", "H", "")},
    "kg m2 s-2 A-1": {"weber": ("1", "Wb", "")}, "kg s-2 A-1": {"tesla": ("1", "T", "")},
    "m2 s-2": {"gray": ("1", "Gy", ""), "sievert": ("1", "Sv", "")},
}  # fmt: skip
_PLAIN = {
    "m": {
        "angstrom": ("1e-10", "AA", ""), "inch": ("0.0254", "in", "inches 英寸"), "foot": ("0.3048", "ft", "feet 英尺"),
        "yard": ("0.9144", "yd", ""), "mile": ("1609.344", "mi", "英里"), "nautical_mile": ("1852", "", "海里"),
        "astronomical_unit": ("149597870700", "au AU", ""), "light_year": ("9460730472580800", "ly", "光年"),
        "kilometer": ("1000", "", "公里"),
    },
    "m2": {"hectare": ("10000", "ha", "公顷"), "acre": ("62726400000/15499969", "", "英亩")},
    "m3": {
        "cubic_centimeter": ("1e-6", "cc", ""), "gallon": ("0.003785411784", "gal", ""),
        "quart": ("0.000946352946", "", ""), "pint": ("0.000473176473", "", ""), "cup": ("0.0002365882365", "cup", ""),
    },
    "kg": {
        "kilogram": ("1", "", "kilo kilos 公斤"), "metric_ton": ("1000", "t", "tonne tonnes 吨 公吨"),
        "pound": ("0.45359237", "lb lbs", ""), "ounce": ("0.028349523125", "oz", "盎司"),
        "unified_atomic_mass_unit": ("1.66053906892e-27", "u amu Da", ""),
    },
    "s": {
        "minute": ("60", "min mins", "分 分钟"), "hour": ("3600", "h hr hrs", "小时 个小时 钟头 个钟头"),
        "day": ("86400", "d day", "天"), "week": ("604800", "", "周 星期 个星期 礼拜 个礼拜"),
        "month": ("2629800", "mo", "个月"), "year": ("31557600", "yr yrs", "年"),
        "decayear": ("315576000", "", "decade decades"), "century": ("3155760000", "", "centuries 世纪 个世纪"),
        "second": ("1", "sec secs", ""),
    },
    "s-1": {"revolutions_per_minute": ("0.10471975511965977", "rpm", "")},
    "": {
        "turn": ("6.2831853071795865", "rev", "revolution revolutions"), "count": ("1", "", "piece pieces"),
        "degree": ("0.017453292519943296", "deg", "度"),
    },
    "m s-1": {
        "speed_of_light": ("299792458", "c", ""), "mile_per_hour": ("0.44704", "mph", ""),
        "kilometer_per_hour": ("1000/3600", "kph", "kmph"),
    },
    "kg m s-2": {"dyne": ("1e-5", "dyn", "")},
    "kg m-1 s-2": {
        "standard_atmosphere": ("101325", "atm", "atmosphere atmospheres"),
        "millimeter_Hg": ("133.322387415", "", "mmHg"), "pound_force_per_square_inch": ("6894.757293168361", "psi", ""),
    },
    "kg m2 s-2": {"erg": ("1e-7", "erg", "")},
    "kg m2 s-3": {"horsepower": ("745.69987158227022", "hp", "")},
    "kg s-2 A-1": {"si_gauss": ("0.0001", "G", "gauss")},
    "K": {
        "degree_Celsius": ("1", "degC", "celsius 摄氏度"), "degree_Fahrenheit": ("5/9", "degF", "fahrenheit 华氏度"),
    },
    "us_dollar": {"us_dollar": ("1", "USD", "dollar dollars 美元 美金"), "us_cent": ("0.01", "", "cent cents")},
    "british_pound": {"british_pound": ("1", "GBP", "英镑"), "british_penny": ("0.01", "", "pence")},
    "euro": {"euro": ("1", "EUR", "欧元")}, "rupee": {"rupee": ("1", "INR Rs", "")},
    "yuan": {"yuan": ("1", "RMB CNY", "元 人民币")}, "yen": {"yen": ("1", "yen JPY", "円 日元")},
    "yuan_or_yen": {"yuan_or_yen": ("1", "", "yensign")}, "brazilian_real": {"brazilian_real": ("1", "BRL", "reais")},
}  # fmt: skip
"""Dimension in SI base units (``m2 s-2``) or a currency -> unit -> value, symbols, and names beside its own.

No ``月``: it is a month, or March.
"""
DOUBTFUL = frozenset({"分"})
"""Units only where the other side of a comparison is a quantity of their dimension: else ``5 分`` may be points."""
_BASES = {
    "m": "[length]", "kg": "[mass]", "s": "[time]", "A": "[current]", "K": "[temperature]", "mol": "[substance]",
}  # fmt: skip

UNITS: dict[str, str] = {}
"""Spelling -> name of the unit, with its prefix. Names of more than three letters are also read in other cases."""
UNIT_VALUES: dict[str, tuple[dict[str, int], Fraction]] = {}
"""Name -> dimension and value: ``newton`` -> ({"[mass]": 1, "[length]": 1, "[time]": -2}, 1); steps of temperatures."""


def _fill() -> None:
    for table, prefixes in ((_PREFIXED, _PREFIXES), (_PLAIN, {"": _PREFIXES[""]})):
        for dimension, units in table.items():
            powers: dict[str, int] = {}
            for factor in dimension.split():
                base = factor.rstrip("-0123456789")
                powers[_BASES.get(base, f"[{base}_currency]")] = int(factor[len(base) :] or 1)
            for name, (value, symbols, words) in units.items():
                for prefix, (sign, power, chinese) in prefixes.items():
                    full = prefix + name
                    UNIT_VALUES[full] = powers, Fraction(value) * Fraction(10) ** power
                    UNITS.update({sign + symbol: full for symbol in symbols.split()})
                    for word in [*words.split(), *((name, f"{name}s") if "_" not in name else ())]:
                        before = prefix if word.isascii() else chinese
                        if before or not prefix:
                            UNITS[before + word] = full


_fill()
_FOLDED = {spelling.casefold(): name for spelling, name in UNITS.items() if len(spelling) > 3}


def unit_named(word: str) -> str | None:
    """The unit that a symbol or a word names; None for other words."""
    return UNITS.get(word) or _FOLDED.get(word.casefold())
