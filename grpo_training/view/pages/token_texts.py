"""The texts of sampled tokens, from the tokenizer of their model where it is on this machine."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grpo_training.cli.settings import WORKING_DIR

_TOKENIZER = "tokenizer.json"


def token_texts(model: str, ids: Sequence[int], reply: str) -> list[str] | None:
    """The text of each token. One that only begins a character has none; the character is at the token that ends it.

    Args:
        model: a folder, or the name of a model of the hub that was downloaded before. Nothing is downloaded.
        ids: of the tokens.
        reply: the text that they gave.

    Returns:
        None without a tokenizer, without the optional package ``tokenizers``, or if the texts are not those of the
        reply.
    """
    path = _tokenizer_path(model)
    if path is None:
        return None
    try:
        from tokenizers.decoders import DecodeStream

        tokenizer = _tokenizer(path, path.stat().st_mtime_ns)
        stream = DecodeStream(skip_special_tokens=False)
        texts = [stream.step(tokenizer, one) or "" for one in ids]
    except Exception:  # noqa: BLE001 - the package is missing or refuses the file or an id: it has no error type
        return None
    return texts if reply.strip() in "".join(texts) else None


def _tokenizer_path(model: str) -> Path | None:
    """The tokenizer file of a model; None if it is not on this machine."""
    if not model or "\0" in model:
        return None
    path = WORKING_DIR / Path(model).expanduser() / _TOKENIZER
    try:
        if path.is_file():
            return path
        from huggingface_hub import try_to_load_from_cache

        cached = try_to_load_from_cache(model, _TOKENIZER)
    except (ImportError, OSError, RuntimeError, ValueError):
        return None
    return Path(cached) if isinstance(cached, str) else None


@functools.lru_cache(maxsize=4)
def _tokenizer(path: Path, changed: int) -> Any:
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(path))
