"""Tokens of chat templates in text: as part of a prompt, they would end a message and begin another one.

A server's tokenizer turns ``<|im_end|>`` into a single control token wherever it stands, also within the text of a
message. The forms are those of the most used families: Qwen, Llama, Mistral, Gemma, Phi, DeepSeek, GLM, gpt-oss,
Command, Granite, SmolLM, InternLM, Kimi, Hunyuan, MiniMax, EXAONE, Seed, PanGu; and those of T5, BERT and Falcon.
"""

from __future__ import annotations

import re
import unicodedata

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
