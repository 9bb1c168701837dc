"""Recognise texts that steer the reader of a prompt instead of advising on a kind of problem.

An experience is written by a model that has read what other models wrote, and is then part of every later prompt.
Phrases are looked up after look-alike letters were replaced by the Latin ones that they imitate.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from configparser import ConfigParser
from pathlib import Path

_CYRILLIC = dict(zip("АВЕЅІЈКМНОРСТУХаеѕіјкорсухԁѡѵӏһ", "ABESIJKMHOPCTYXaesijkopcyxdwvlh", strict=True))
_GREEK = dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧοαινκρτυχϲ", "ABEZHIKMNOPTYXoaivkptuxc", strict=True))
_LOOK_ALIKE = str.maketrans(_CYRILLIC | _GREEK)
_WORD = re.compile(r"[^\W\d_]{2,}")
_JOINED = re.compile(r"(?<=[A-Za-z]{2})[_-]+(?=[A-Za-z])")

_NOT = r"(?<!not )(?<!never )(?<!n't )(?<!avoid )(?<!than )"
_EARLIER = r"(?:above|previous|prior|earlier|preceding|foregoing|other|existing|given|system)"
_OF_DATA = r"(?!'| (?:(?:in|of)(?! (?:the|this|your) (?:prompt|task|system))|below|whose|when|if|that (?:are|have))\b)"
_ORDERS = (
    r"(?:(?:instructions?|prompts?|guidelines?)\b"
    rf"|(?:rules?|messages?|directions?|commands?|texts?|lessons?|experiences?)\b{_OF_DATA})"
)
_DOES_NOT_FOLLOW = r"(?:do not|don't|stop|never) (?:follow|obey|heed)(?:ing)?"
_CALLS_OFF = rf"(?:ignore|disregard|forget|override|overrule|bypass|skip|{_DOES_NOT_FOLLOW})"
_ALL = r"(?:(?:all|any|every|everything|of|the|these|those|this|that|your|my|what is|stated|said|written) )*"
_ANSWER = r"(?:final[ _]?answers?|answers?|results?(?! of\b)|targets?(?: variables?)?|solutions?)"
_SAYS = r"(?:answer|reply|respond|output|return|print|write|state|set|give)"
_AS_ANSWER = (
    r"(?:(?:an?|the|your|with|as|to|is|be|only|just|exactly|final|answers?|results?|targets?|numbers?)[ _=:]*)*"
)

_PHRASES = re.compile(
    # instructions about instructions
    rf"\b{_CALLS_OFF} {_ALL}(?:{_EARLIER} ?)+{_ORDERS}"
    rf"|\b{_CALLS_OFF} {_ALL}(?:above|everything)(?: (?:said|written|stated))?(?: (?:and|then|but)\b|[ ]*(?:$|[.,;:!]))"
    rf"|\b{_CALLS_OFF} (?:all|any|the|these|those|your|my) (?:instructions?|prompts?|guidelines?|commands?)\b"
    rf"|\b{_CALLS_OFF} {_ALL}rules (?:of|in) (?:the|this) (?:prompt|task|system)\b"
    r"|\b(?:system|developer|administrator|admin) ?(?:override\b|prompts?\b|instructions?\b|directives?\b"
    r"|(?:messages?|notice)(?= ?[:!]| (?:above|says?|tells?|asks?|orders?)\b))"
    r"|\b(?:new|updated|real|actual|hidden|secret) (?:system prompts?\b"
    r"|instructions?(?= ?(?:$|[.,;:!])| (?:are|is|say|tell|apply|follow|below|above)\b))"
    r"|\bfrom now on(?:wards?)?\b|\bhenceforth\b"
    r"|\bfrom (?:here|this (?:point|moment)) on(?:wards?)?,? (?:you|always|never|answer|reply|respond|write)\b"
    r"|\byou are now\b|\byou (?:must|will|shall) now (?:answer|reply|respond|say|write|obey|ignore|follow|act|be)\b"
    r"|\byou are (?:a|an|the) (?:helpful |new )?(?:assistant|ai|model|chatbot|system)\b"
    r"|(?:^|[.!;:] )(?:act as(?! (?:in|if the)\b)|roleplay"
    r"|pretend (?:to be|(?:that )?(?:you|(?:the|this|your) (?:answer|solution|result|reply|task|problem))))\b"
    # what to answer, and what is paid
    rf"|\b{_ANSWER}\b[^.;]{{0,12}}\balways (?:be |to |equals? |=)?[\"'“]?[-+]?\d"
    rf"|(?:(?:^|[.;:!] |\b(?:doubt|unsure|uncertain|sure),? )always {_SAYS}|\balways (?:answer|reply|respond)) "
    rf"{_AS_ANSWER}[\"'“]?[-+]?\d+[\"'”]?(?=$|[.,;!])"
    r"|\b(?:full|maximum|maximal|maximi[sz]e|highest|higher|more|best|get|earn|increase) (?:the )?(?:your )?"
    r"reward(?:\b(?! (?:points?|per|so far|for (?:each|every|less))\b)|s (?:by|if)\b)"
    r"|\br_(?:ans|logic|graph|fusion|total)\b|\b(?:reward (?:function|model)|grader)s?\b"
    # a scaffold that is given its answer
    rf"|{_NOT}\b(?:put|puts?|place|include|list|add|insert|copy|hide|store|declare|use|set|write|give)\b[^.;]{{0,30}}\b"
    rf"{_ANSWER}\b[^.;]{{0,30}}\b(?:among|into|in|to|inside|within|as)\b[^.;]{{0,16}}\bknowns?\b"
    rf"|\bknowns?\b[^.;]{{0,20}}\b(?:contain|hold|include|list|state)s?\b[^.;]{{0,12}}\bfinal[ _]?answer"
    r"|(?:忽略|无视|忘记|忘掉|抛开|(?:不要|不必|不用|别|无需|请勿)(?:再)?(?:理会|管|遵守|遵循|听从|执行|考虑)).{0,8}"
    r"(?:以上|之前|前面|上述|上文|上面|先前|此前|前文|系统|所有).{0,8}(?:指令|指示|规则|要求|提示|内容|说明|文字|命令)"
    r"|从(?:现在|此刻|今)(?:起|开始|以后)(?!的)|系统(?:提示|指令|消息|命令|覆盖)|你现在是"
    r"|(?:最终)?答案(?:总是|永远|始终|一律|都)(?:是|为|等于|写)?\s*[-+]?\d"
    r"|(?:把|将)(?:最终)?答案.{0,6}(?:放|写|填|列|加).{0,4}(?:已知|knowns)|(?:最高|更高|满分)(?:的)?奖励(?!分|道具|物品|关卡)",
    re.IGNORECASE,
)  # fmt: skip

_STEMS = (
    "ignore|disregard|forget|overr|bypass|skip|follow|obey|heed|instruction|prompt|system|developer|admin|from now"
    "|from here|from this|henceforth|you |act as|pretend|roleplay|always|reward|r_|grader|known"
    "|忽略|无视|忘|抛开|不|别|无需|请勿|从|系统|你现在|答案|奖励"
).split("|")
"""Each phrase contains one of these. Most texts contain none, and looking for these is a hundred times faster."""


def steering_phrase(text: str) -> str | None:
    """The part of a text that speaks to the reader of a prompt, about its instructions, its answer or its reward.

    Args:
        text: a text in the normal form NFKC.
    """
    text = " ".join(_JOINED.sub(" ", _comparable(text)).split())
    lower = text.casefold()
    has_stem = any(stem in lower for stem in _STEMS)
    found = (_PHRASES.search(text) if has_stem else None) or _other_phrases().search(text)
    return found.group().strip() if found else None


def without_marks(text: str) -> str:
    """A text in the normal form NFKD without accents and other marks, which a reader looks past."""
    if text.isascii():
        return text
    return "".join(one for one in unicodedata.normalize("NFKD", text) if unicodedata.category(one)[0] != "M")


def _comparable(text: str) -> str:
    return without_marks(text).translate(_LOOK_ALIKE)


_FORMS = (
    r"\b(?:{calls_off})\b(?! (?:nicht|pas)\b)[^.;:!]{{0,24}}?\b(?:{orders})",
    r"\b(?:{anew})\b",
    r"\b(?:{answer})\b[^.;\d]{{0,12}}\b(?:{always})\b[^.;\d]{{0,8}}[-+]?\d+(?=$|[.,;!])",
    r"\b(?:{always})\b[^.;\d]{{0,12}}\b(?:{answer})\b[^.;\d]{{0,8}}[-+]?\d+(?=$|[.,;!])",
    r"(?:^|[.;:!] )(?:{reveal})\b[^.;]{{0,24}}\b(?:{answer})\b",
    r"(?:^|[.;!] |\b(?:an|an den|au|al|all') )(?:{grader}) ?[:,]",
    r"\b(?:{gives})\b[^.;]{{0,20}}\b(?:{answer})\b[^.;]{{0,16}}\b(?:{marks})\b",
    r"\b(?:{gives})\b[^.;]{{0,12}}\b(?:{marks})\b[^.;]{{0,20}}\b(?:{answer})\b",
)
"""How the words of a language in ``steering_phrases.ini`` make phrases."""
_END = r"(?= ?(?:$|[.,;!]| (?:und|et|y|e|i|и)\b))"


@functools.cache  # compiling it takes longer than many commands run
def _other_phrases() -> re.Pattern[str]:
    table = ConfigParser(delimiters=("=",), interpolation=None)
    table.read_string(Path(__file__).with_name("steering_phrases.ini").read_text(encoding="utf-8"))
    patterns: list[str] = []
    for name in table.sections():
        words = dict(table[name])
        patterns += [form.format_map(words) for form in _FORMS] if "orders" in words else words.values()
    return re.compile(_comparable("|".join(patterns).replace("END", _END)), re.IGNORECASE)


def mixed_word(text: str) -> str | None:
    """The first word that mixes Latin letters with letters of another alphabet that look like Latin ones.

    Greek letters beside Latin ones are usual in formulas (``Δx``, ``θmax``), so that only those count that cannot be
    told from a Latin letter.
    """
    if text.isascii():
        return None
    for match in _WORD.finditer(text):
        word: str = match.group()
        scripts: set[str] = {unicodedata.name(letter, "?").partition(" ")[0] for letter in word}
        if "LATIN" in scripts and (scripts & {"CYRILLIC", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU"} or _imitates(word)):
            return word
    return None


def _imitates(word: str) -> bool:
    """Whether a word of four or more letters is Latin but for Greek letters that look Latin (``Ignοre``)."""
    return len(word) > 3 and any(letter in _GREEK for letter in word) and word.translate(_LOOK_ALIKE).isascii()
