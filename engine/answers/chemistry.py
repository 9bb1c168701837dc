"""Chemical formulas, whose case has a meaning: CO is no Co, and NO is no No."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_GROUP = r"(?:[A-Z][a-z]?\d{0,3})"
_FORMULA = re.compile(rf"(?:{_GROUP}|\({_GROUP}{{1,9}}\)\d{{0,3}}){{1,20}}(?:\d?[+-])?", re.ASCII)
_MARKUP = re.compile(r"\\(?:ce|mathrm|text)(?=\s*\{)|[${}_^*`]")
_NO_WORD = re.compile(r"\d|[A-Z][a-z]?[A-Z][a-z]|[A-Z][a-z][A-Z]", re.ASCII)
_MAX_CHARS = 80


def are_other_formulas(answer: str, truth: str) -> bool:
    """Whether both texts have the form of a chemical formula, and are not the same one."""
    said, meant = _formula(answer), _formula(truth)
    return bool(said and meant) and said != meant


def are_of_chemistry(answers: Sequence[str]) -> bool:
    """Whether the answers of a dataset are chemical formulas, some of which are no word: H2O, NaCl."""
    formulas = list(map(_formula, answers))
    return all(formulas) and any(map(_NO_WORD.search, formulas))


def _formula(text: str) -> str:
    """A text without markup if it has the form of a chemical formula; empty for other texts."""
    bare = _MARKUP.sub("", unicodedata.normalize("NFKC", text[:_MAX_CHARS]))
    return bare if _FORMULA.fullmatch(bare) else ""
