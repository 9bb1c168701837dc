"""Training groups as a Hugging Face ``Dataset`` of prompts, conversational as for TRL's trainers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import InputError
from engine.records import Message
from grpo_training.train.data.rollout_data import find_sources
from grpo_training.train.data.samples import TrainingGroup
from grpo_training.train.data.scored_files import placed_rows, prompt_messages

if TYPE_CHECKING:
    from datasets import Dataset

Row = dict[str, Any]


def load_grpo_dataset(dataset_path: Path | str) -> Dataset:
    """The prompts of ``grpo_dataset.json`` files for TRL's ``GRPOTrainer``, one row per prompt.

    Rows keep their other columns, such as ``id``, ``scenario`` and ``junction_id``; a value that a row lacks is None.
    Stored rollouts become such rows by ``python -m grpo_training.export --to trl-grpo``.

    Args:
        dataset_path: a file, or a folder that is searched.

    Raises:
        MissingInputError: there is no such path.
        InputError: it has no prompts, or a row is no prompt (file and line are named).
    """
    from datasets import Dataset  # optional, and slow to import

    path = Path(dataset_path)
    files = [source.path for source in find_sources(path) if source.kind == "prompts"]
    if not files:
        raise InputError(f"No prompts in {path}", fix="Give a grpo_dataset.json, or a folder with such files.")
    placed = [pair for file in files for pair in placed_rows(file)]
    rows = [{**row, "prompt": conversation(prompt_messages(row, where))} for where, row in placed]
    names = dict.fromkeys(name for row in rows for name in row)
    return Dataset.from_dict({name: [row.get(name) for row in rows] for name in names})


def prompt_only(group: TrainingGroup) -> list[Row]:
    """One row: ``prompt``, with replies and rewards as further columns, for ``GRPOTrainer``."""
    row = {
        "prompt": conversation(group.messages),
        "problem_id": group.problem_id,
        "task": group.task,
        "completions": [response.text for response in group.responses],
        "rewards": [response.reward for response in group.responses],
    }
    return [row]


def conversation(messages: Iterable[Message]) -> list[dict[str, str]]:
    """Messages as TRL has them."""
    return [{"role": message.role, "content": message.content} for message in messages]
