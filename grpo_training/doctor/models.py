"""Checks of the labels that the fine-tune makes, and of what a teacher and a student write for a small problem."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Iterable, Iterator
from pathlib import Path

from agents.teacher import ROLE
from engine.api_manager import ApiManager
from engine.contract.checks import CheckResult, passed_if, skipped
from engine.storage.installation import install_command
from grpo_training.cli.settings import POCKET_MODEL
from grpo_training.serve.shared_server import shared_server
from grpo_training.teacher.connection import ask_for_solution

_STYLE, _MOST_TOKENS = "full", 2048
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


def ask_teacher(manager: ApiManager) -> Iterable[CheckResult]:
    """One small problem to the teacher."""
    return asyncio.run(ask_for_solution(manager, ROLE, _STYLE, _MOST_TOKENS))


def ask_student(folder: Path) -> Iterator[CheckResult]:
    """Serve a model and send it the same problem."""
    with shared_server(folder) as entry:
        manager = ApiManager(folder, {"student": entry})
        yield from asyncio.run(ask_for_solution(manager, "student", _STYLE, _MOST_TOKENS))
