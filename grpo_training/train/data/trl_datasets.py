"""Training groups as a Hugging Face ``Dataset`` of prompts, conversational as for TRL's trainers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.records import Message
from grpo_training.train.config import GRPOTrainingConfig
from grpo_training.train.data.rollout_data import each_group, find_sources
from grpo_training.train.data.samples import DropReport, TrainingGroup
from grpo_training.train.data.scored_files import placed_rows, prompt_messages

if TYPE_CHECKING:
    from datasets import Dataset

Row = dict[str, Any]


def load_grpo_dataset(dataset_path: Path | str, **reading: Any) -> Dataset:
    """The prompts of a file or folder for TRL's ``GRPOTrainer``, one row per prompt.

    Rows of ``grpo_dataset.json`` (prompts without replies) keep their other columns, such as ``id``, ``scenario`` and
    ``junction_id``. Stored rollouts and scored replies come with ``problem_id``, ``task``, ``completions`` and
    ``rewards``; groups without a training signal are left out, as in a training.

    Args:
        dataset_path: a file, or a folder that is searched.
        reading: fields of ``GRPOTrainingConfig`` for reading rollouts: ``prompts`` (default: the style in which each
            prompt was sent), ``experiences``, ``max_problems``, ``zero_variance``.

    Raises:
        MissingInputError: there is no such path.
        InputError: it has nothing usable, or a row is no prompt (file and line are named).
    """
    path = Path(dataset_path)
    prompt_files = [source.path for source in find_sources(path, DropReport()) if source.kind == "prompts"]
    if prompt_files:
        placed = (pair for file in prompt_files for pair in placed_rows(file))
        return to_dataset([{**row, "prompt": conversation(prompt_messages(row, where))} for where, row in placed])
    settings = GRPOTrainingConfig(model_name_or_path="none", dataset_path=path, **reading)
    groups = each_group(settings, DropReport(), as_sent="prompts" not in reading)
    return to_dataset([row for group in groups for row in prompt_only(group)])


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


def to_dataset(rows: Sequence[Row]) -> Dataset:
    """Rows as a Hugging Face ``Dataset``, with the columns of all rows; a value that a row lacks is None."""
    from datasets import Dataset  # optional, and slow to import

    names = dict.fromkeys(name for row in rows for name in row)
    return Dataset.from_dict({name: [row.get(name) for row in rows] for name in names})


def conversation(messages: Iterable[Message]) -> list[dict[str, str]]:
    """Messages as TRL has them."""
    return [{"role": message.role, "content": message.content} for message in messages]
