r"""The subject of an answer that is a sentence: "Quantity A is greater" and "Quantity B is greater" differ in it.

Where an answer is a sentence, its value is read after the verb (``final_answer``). That is no value alone where the
sentence says it of one of several things.
"""

from __future__ import annotations

import re

_MAX_CHARS = 400
_TEXT = re.compile(r"\\(?:boxed|text\w*|mbox)\s*\{([^{}]*)\}|[$*]|\\[()]")
_SENTENCE = re.compile(
    r"(?:(?:therefore|thus|so|hence|then|(?:the\s+)?(?:final\s+)?answer\s*(?:is|:))\b[,:\s]*)?"
    r"(?P<subject>[^.\n]{1,80}?)\s+(?:is|are|was|were)\s+[a-z][A-Za-z\s'-]*",
    re.IGNORECASE,
)
_CHOSEN = frozenset("yes no not only both neither none first second third fourth last".split())
_PRONOUNS = frozenset("it this that they these those he she there which".split())


def have_other_subjects(answer: str, truth: str) -> bool:
    """Whether two answers are sentences about different things: other letters, numbers or names.

    A subject without any of these ("the function") may be the other one's in other words.
    """
    said, meant = _marks(answer), _marks(truth)
    if said is None or meant is None:
        return False
    (said_names, said_letters), (meant_names, meant_letters) = said, meant
    if said_names and meant_names and said_names != meant_names:
        return True
    return bool(said_letters and meant_letters and not said_letters & meant_letters)


def _marks(text: str) -> tuple[frozenset[str], frozenset[str]] | None:
    """The names, numbers and chosen parts in the subject of the last sentence, and its small letters."""
    last = _TEXT.sub(r" \1 ", _TEXT.sub(r" \1 ", text[-_MAX_CHARS:])).strip(" .\n").rpartition("\n")[2]
    found = _SENTENCE.fullmatch(" ".join(last.rpartition(". ")[2].split()))
    if found is None:
        return None
    words = re.findall(r"[A-Za-z]+|\d+", found["subject"])
    names = {
        word.casefold()
        for place, word in enumerate(words)
        if word.isdigit()
        or word.casefold() in _CHOSEN
        or (word[0].isupper() and (place > 0 or len(words) == 1 or (len(word) == 1 and word != "A")))
    }
    return frozenset(names - _PRONOUNS), frozenset(word for word in words if len(word) == 1 and word.islower()) - {"a"}
