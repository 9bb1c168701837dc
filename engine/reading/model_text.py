"""Text of a model made safe to show and to put into a prompt: control characters, and tokens of chat templates.

Invisible characters could change how a text is shown. Tokens of chat templates would end a message of a prompt and
begin another one: a server's tokenizer turns ``<|im_end|>`` into a single control token wherever it stands, also within
the text of a message. Their forms are those of the most used families: Qwen, Llama, Mistral, Gemma, Phi, DeepSeek, GLM,
gpt-oss, Command, Granite, SmolLM, InternLM, Kimi, Hunyuan, MiniMax, EXAONE, Seed, PanGu; and those of T5, BERT and
Falcon.
"""

from __future__ import annotations

import re
import unicodedata

_REMOVED = ("Cc", "Cf", "Cs", "Co", "Cn")
_LINES = str.maketrans({"\r": "\n", "\x0b": "\n", "\x0c": "\n", "\x85": "\n", "\u2028": "\n", "\u2029": "\n"})
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0d\uffa0\U000e0100-\U000e01ef]+[\ufe0e\ufe0f]*"
    r"|(?<![^\w\s\ufe00-\ufe0f])[\ufe0e\ufe0f]+(?!\u20e3)"
)
"""Fillers, joiners and variation selectors, which are marks and letters by their category. After a sign a selector
chooses how it is drawn, and stays."""
_MARK = (
    "[\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u06d6-\u06dc\u0e31\u0e34-\u0e3a\u0e47-\u0e4e"
    "\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
)
_FLOOD = re.compile(f"({_MARK}{{8}}){_MARK}+")
"""More marks on one letter than any script has: they would be drawn over the lines above and below."""

_ANGLE = (
    r"[|\uff5c][^<>|\uff5c\n]{1,64}[|\uff5c]>",  # <|im_start|>, <|eot_id|>, <｜User｜>
    r"\|/?\w{2,64}>|\w{2,64}\|>",  # Gemma 4: <|turn>, <turn|>
    r"\[(?:fim-|[A-Za-z]{2,8}\u2581)[\w\u2581]{1,32}\]>",  # Seed-Coder: <[end▁of▁sentence]>
    r"/?s>",
    r"/?(?:bos|eos|pad|unk|mask|sep|cls|sop|eop|sos|tools?|think)>",
    r"/?(?:start|end|begin)_of_\w{1,32}>",  # Gemma
    r"/?(?:tool|function|image|audio|video|fim|vision)[_-]\w{1,32}>",
    r"(?:unused|reserved_|extra_id_|SPECIAL_)\d{1,6}>",
    r"(?:repo_?name|file_sep|gh_stars|empty_output|issue_(?:start|comment|closed)|commit_(?:before|msg|after))>",
    r"jupyter_(?:start|text|code|output|script)>",  # SmolLM, Granite
    r"/?arg_(?:key|value)>",  # GLM
    r"[A-Z_]{1,40}_TOKEN>",  # Command
    r"/?(?:seed|mm|minimax):[\w:/]{1,40}>",
    r"</?SYS>>",  # Llama 2
)
_SQUARE = (
    r"/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|MODEL_SETTINGS|THINK)\]",  # Mistral
    r"(?:ARGS|CALL_ID|IMG|IMG_BREAK|IMG_END|AUDIO|BEGIN_AUDIO|TRANSCRIBE|PREFIX|MIDDLE|SUFFIX|control_\d{1,6})\]",
    r"(?:[gs]?MASK|CLS|SEP|PAD|UNK|BOS|EOS|EOT|UNUSED_TOKEN_\d{1,6}|unused\d{1,6})\]",  # GLM, BERT, Kimi
    r"\|[^\[\]|\n]{1,64}\|\]",  # EXAONE
    r"e~\[",  # MiniMax
)
_CLOSED = r"~!?b[\[\]]|![a-z]~\[|<\][^\[\]\n]{1,64}\[>\["  # MiniMax: ]~b], ]!p~[, ]<]image[>[
_FIRST = re.compile(
    rf"<(?={'|'.join(_ANGLE)})|\[(?={'|'.join(_SQUARE)})|\](?={_CLOSED})|>(?=>[A-Z_]{{1,40}}<<)",
)
"""The first character of a token. The others are only looked at, as they may be part of a second token."""


def without_control_characters(text: str) -> str:
    """The text without characters that cannot be seen and lone surrogates; tabs and line breaks (as ``\\n``) stay.

    Of the marks on one letter, eight stay.
    """
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    if not text.replace("\n", "").replace("\t", "").isprintable():  # what is removed of most texts is not printable
        text = text.replace("\r\n", "\n").translate(_LINES)
        text = "".join(sign for sign in text if sign in "\n\t" or unicodedata.category(sign) not in _REMOVED)
    return _FLOOD.sub(r"\1", _UNSEEN.sub("", text))


def as_one_line(text: str) -> str:
    """The text without control characters, its line breaks and tabs as single spaces."""
    if text.isascii() and text.isprintable():
        return text
    return " ".join(without_control_characters(text).replace("\t", " ").split("\n"))


def break_special_tokens(text: str) -> str:
    """The text with a space after the first character of each token, so that it is read as the letters it consists of.

    Invisible characters must have been removed before: without them, a token may appear. A text in which tokens appear
    by the normal form NFKC (``＜eos＞``), which some tokenizers apply, is returned in that form.
    """
    normal = unicodedata.normalize("NFKC", text)
    if normal != text and len(_FIRST.findall(normal)) > len(_FIRST.findall(text)):
        text = normal
    return _FIRST.sub(r"\g<0> ", text)


def has_special_token(text: str) -> bool:
    """Whether the text has such a token, also in the normal form NFKC."""
    return any(_FIRST.search(form) for form in (text, unicodedata.normalize("NFKC", text)))
