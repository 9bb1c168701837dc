"""Tokens of chat templates in text: as part of a prompt, they would end a message and begin another one.

A server's tokenizer turns ``<|im_end|>`` into a single control token wherever it stands, also within the text of a
message. The forms are those of the most used families: Qwen, Llama, Mistral, Gemma, Phi, DeepSeek, GLM, gpt-oss,
Command, Granite, InternLM, Kimi, Hunyuan, MiniMax, EXAONE, Seed; and the tokens of T5, BERT and Falcon.
"""

from __future__ import annotations

import re

_ANGLE = (
    r"[|\uff5c][^<>|\uff5c\n]{1,64}[|\uff5c]>",  # <|im_start|>, <|eot_id|>, <｜User｜>
    r"/?s>",
    r"/?(?:bos|eos|pad|unk|mask|sep|cls|sop|eop|sos|tools?|think)>",
    r"/?(?:start|end|begin)_of_\w{1,32}>",  # Gemma
    r"/?(?:tool|function|image|audio|video|fim|vision)[_-]\w{1,32}>",
    r"(?:unused|reserved_|extra_id_|SPECIAL_)\d{1,6}>",
    r"[A-Z_]{1,40}_TOKEN>",  # Command
    r"seed:[\w:/]{1,40}>",
    r"</?SYS>>",  # Llama 2
)
_SQUARE = (
    r"/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|MODEL_SETTINGS|THINK)\]",  # Mistral
    r"(?:ARGS|CALL_ID|IMG|IMG_BREAK|IMG_END|AUDIO|BEGIN_AUDIO|TRANSCRIBE|PREFIX|MIDDLE|SUFFIX|control_\d{1,6})\]",
    r"(?:[gs]?MASK|CLS|SEP|PAD|UNK|BOS|EOS|UNUSED_TOKEN_\d{1,6})\]",  # GLM, BERT, InternLM
    r"\|[^\[\]|\n]{1,64}\|\]",  # EXAONE
    r"e~\[",  # MiniMax
)
_FIRST = re.compile(
    rf"<(?={'|'.join(_ANGLE)})|\[(?={'|'.join(_SQUARE)})|\](?=~!?b[\[\]])|>(?=>[A-Z_]{{1,40}}<<)",
)
"""The first character of a token. The others are only looked at, as they may be part of a second token."""


def break_special_tokens(text: str) -> str:
    """The text with a space after the first character of each token, so that it is read as the letters it consists of.

    Invisible characters must have been removed before: without them, a token may appear.
    """
    return _FIRST.sub(r"\g<0> ", text)


def has_special_token(text: str) -> bool:
    """Whether the text has such a token."""
    return _FIRST.search(text) is not None
