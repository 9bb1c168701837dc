"""Chemical formulas, whose case has a meaning: CO is no Co, and NO is no No."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_ELEMENTS = (
    "H|He|Li|Be|B|C|N|O|F|Ne|Na|Mg|Al|Si|P|S|Cl|Ar|K|Ca|Sc|Ti|V|Cr|Mn|Fe|Co|Ni|Cu|Zn|Ga|Ge|As|Se|Br|Kr|Rb|Sr|Y|Zr|Nb|Mo|Tc"
    "|Ru|Rh|Pd|Ag|Cd|In|Sn|Sb|Te|I|Xe|Cs|Ba|La|Ce|Pr|Nd|Pm|Sm|Eu|Gd|Tb|Dy|Ho|Er|Tm|Yb|Lu|Hf|Ta|W|Re|Os|Ir|Pt|Au|Hg|Tl|Pb"
    "|Bi|Po|At|Rn|Fr|Ra|Ac|Th|Pa|U|Np|Pu|Am|Cm|Bk|Cf|Es|Fm|Md|No|Lr|Rf|Db|Sg|Bh|Hs|Mt|Ds|Rg|Cn|Nh|Fl|Mc|Lv|Ts|Og"
)
_GROUP = rf"(?:(?:{_ELEMENTS})\d{{0,3}})"
_FORMULA = re.compile(rf"(?:{_GROUP}|\({_GROUP}{{1,9}}\)\d{{0,3}}){{1,20}}(?:\d?[+-])?", re.ASCII)
_MARKUP = re.compile(r"\\(?:ce|mathrm|text)(?=\s*\{)|[\s${}_^*`]")
_NO_WORD = re.compile(r"\d|[A-Z][a-z]?[A-Z][a-z]|[A-Z][a-z][A-Z]", re.ASCII)
_MAX_CHARS = 80


def are_other_formulas(answer: str, truth: str) -> bool:
    """Whether both texts are chemical formulas, and not the same one."""
    said, meant = _formula(answer), _formula(truth)
    return bool(said and meant) and said != meant


def are_of_chemistry(answers: Sequence[str]) -> bool:
    """Whether the answers of a dataset are chemical formulas, some of which are no word: H2O, NaCl."""
    formulas = list(map(_formula, answers))
    return all(formulas) and any(map(_NO_WORD.search, formulas))


def _formula(text: str) -> str:
    """A chemical formula without markup; empty for other texts."""
    bare = _MARKUP.sub("", unicodedata.normalize("NFKC", text[:_MAX_CHARS]))
    return bare if _FORMULA.fullmatch(bare) else ""
