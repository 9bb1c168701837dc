"""Training groups as a Hugging Face ``Dataset``, in the conversational formats of TRL's trainers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import ConfigurationError, InputError, first_line
from engine.records import Message
from engine.storage.installation import install_command
from grpo_training.train.config import GRPOTrainingConfig
from grpo_training.train.data.rollout_data import each_group, find_sources
from grpo_training.train.data.samples import DropReport, TrainingGroup
from grpo_training.train.data.scored_files import RowError, placed_rows, prompt_messages

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
        ConfigurationError: the ``datasets`` package is not installed.
    """
    path = Path(dataset_path)
    prompt_files = [source.path for source in find_sources(path, DropReport()) if source.kind == "prompts"]
    if prompt_files:
        placed = (pair for file in prompt_files for pair in placed_rows(file))
        return to_dataset([{**row, "prompt": _prompt(row, where)} for where, row in placed])
    settings = GRPOTrainingConfig(model_name_or_path="none", dataset_path=path, **reading)
    return to_dataset(prompt_only(each_group(settings, DropReport(), as_sent="prompts" not in reading)))


def prompt_only(groups: Iterable[TrainingGroup]) -> list[Row]:
    """One row per group: ``prompt``, with replies and rewards as further columns."""
    return [
        {
            "prompt": _conversation(group.messages),
            "problem_id": group.problem_id,
            "task": group.task,
            "completions": [response.text for response in group.responses],
            "rewards": [response.reward for response in group.responses],
        }
        for group in groups
    ]


def prompt_completion(groups: Iterable[TrainingGroup], *, min_reward: float) -> list[Row]:
    """One row per complete reply with at least ``min_reward``: ``prompt``, ``completion``, for ``SFTTrainer``."""
    return [
        {"prompt": _conversation(group.messages), "completion": _reply(response.text), "reward": response.reward}
        for group in groups
        for response in group.responses
        if response.reward >= min_reward and response.text and not response.truncated
    ]


def unpaired_preference(groups: Iterable[TrainingGroup]) -> list[Row]:
    """One row per reply above or below its group's mean: ``prompt``, ``completion``, ``label``, for ``KTOTrainer``."""
    rows = []
    for group in groups:
        mean = sum(response.reward for response in group.responses) / len(group.responses)
        rows += [
            {
                "prompt": _conversation(group.messages),
                "completion": _reply(response.text),
                "label": response.reward > mean,
            }
            for response in group.responses
            if response.text and response.reward != mean
        ]
    return rows


def preference(groups: Iterable[TrainingGroup]) -> list[Row]:
    """One row per group: its best and worst reply as ``prompt``, ``chosen``, ``rejected``, for ``DPOTrainer``."""
    rows = []
    for group in groups:
        ranked = sorted(
            (response for response in group.responses if response.text), key=lambda response: response.reward
        )
        if ranked and ranked[0].reward < ranked[-1].reward:
            pair = {"chosen": _reply(ranked[-1].text), "rejected": _reply(ranked[0].text)}
            rows.append({"prompt": _conversation(group.messages), **pair})
    return rows


def to_dataset(rows: Sequence[Row]) -> Dataset:
    """Rows as a Hugging Face ``Dataset``, with the columns of all rows; a value that a row lacks is None.

    Raises:
        InputError: a column holds values of different types.
        ConfigurationError: the ``datasets`` package is not installed.
    """
    try:
        from datasets import Dataset  # optional, and slow to import
    except ImportError:
        raise ConfigurationError("The datasets package is not installed", fix=install_command("finetune")) from None
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: [row.get(name) for row in rows] for name in names}
    try:
        return Dataset.from_dict(columns)
    except (TypeError, ValueError, OverflowError) as error:  # pyarrow's errors are ValueError and TypeError
        raise InputError(
            "A column holds values of different types",
            why=first_line(error),
            fix="A dataset has one type for each column: make the values alike, or leave the column out.",
        ) from None


def _prompt(row: Row, where: str) -> list[dict[str, str]]:
    try:
        return _conversation(prompt_messages(row))
    except RowError as error:
        raise InputError(f"{where}: {error}", fix="Correct the row, or remove it.") from None


def _conversation(messages: Iterable[Message]) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.content} for message in messages]


def _reply(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]
