"""Checks of the labels that the fine-tune makes."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

from engine.installation_checks import CheckResult, passed_if, skipped
from engine.storage.installation import install_command
from grpo_training.cli.settings import POCKET_MODEL

_EXAMPLES = [
    {"prompt": "Add two numbers.", "code": "def add(a, b):\n    return a + b"},
    {"prompt": "One.", "code": "1"},
]


def labels() -> Iterator[CheckResult]:
    """The labels of a row are its reply, without the prompt and without padding. Needs torch and transformers."""
    if missing := [name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None]:
        yield skipped(f"{missing[0]} is not installed: {install_command('finetune')}")
        return
    # Optional libraries, installed by now.
    from transformers import AutoTokenizer

    from grpo_training.train.data.sft_batch import prepare_teacher_sft_batch

    tokenizer = AutoTokenizer.from_pretrained(POCKET_MODEL)
    rows = prepare_teacher_sft_batch(_EXAMPLES, tokenizer)["labels"]
    for number, (example, row) in enumerate(zip(_EXAMPLES, rows, strict=True), 1):
        kept = row[row >= 0]
        text = tokenizer.decode(kept)
        yield passed_if(
            example["code"] in text and example["prompt"] not in text,
            f"row {number}: its {len(kept)} labels are the reply, without the prompt and without padding",
            "The installed code was changed: compare it with its repository (git status), or install it again.",
        )
