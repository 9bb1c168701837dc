"""Training groups as a Hugging Face ``Dataset``, in the row formats of TRL's trainers (conversational form)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import ConfigurationError
from grpo_training.finetune.config import GRPOTrainingConfig
from grpo_training.finetune.data.rollout_data import find_sources, load_groups
from grpo_training.finetune.data.samples import DropReport
from grpo_training.finetune.data.scored_files import json_rows, prompt_messages

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from datasets import Dataset

    from engine.records import Message
    from grpo_training.finetune.data.samples import TrainingGroup

Row = dict[str, Any]


def load_grpo_dataset(dataset_path: Path | str, **reading: Any) -> Dataset:
    """The prompts of a file or folder as TRL's ``GRPOTrainer`` takes them, one row a prompt.

    Rows of ``grpo_dataset.json`` (prompts without replies) keep their other columns, such as ``id``, ``scenario`` and
    ``junction_id``. Stored rollouts and scored replies come with ``problem_id``, ``task``, ``completions`` and
    ``rewards``; groups that teach nothing are left out, as for a training.

    Args:
        dataset_path: a file, or a folder that is searched.
        reading: fields of ``GRPOTrainingConfig`` that say how rollouts are read: ``prompts``, ``experiences``,
            ``experiences_dir``, ``max_problems``, ``zero_variance``.

    Raises:
        MissingInputError: there is no such path.
        InputError: nothing in it can be used.
        ConfigurationError: the ``datasets`` package is not installed.
    """
    path = Path(dataset_path)
    prompt_files = [source.path for source in find_sources(path, DropReport()) if source.kind == "prompts"]
    if prompt_files:
        return to_dataset([_prompt_row(row) for file in prompt_files for row in json_rows(file)])
    settings = GRPOTrainingConfig(model_name_or_path="none", dataset_path=path, **reading)
    groups, _ = load_groups(settings)
    return to_dataset(prompt_only(groups))


def _prompt_row(row: Row) -> Row:
    return {**row, "prompt": _conversation(prompt_messages(row))}


def prompt_only(groups: Iterable[TrainingGroup]) -> list[Row]:
    """One row a group: ``prompt``, and what was answered to it as further columns."""
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
    """One row for each whole reply of at least ``min_reward``: ``prompt``, ``completion``, for ``SFTTrainer``."""
    return [
        {"prompt": _conversation(group.messages), "completion": _reply(response.text), "reward": response.reward}
        for group in groups
        for response in group.responses
        if response.reward >= min_reward and response.text and not response.truncated
    ]


def unpaired_preference(groups: Iterable[TrainingGroup]) -> list[Row]:
    """One row a reply above or below its group's mean: ``prompt``, ``completion``, ``label``, for ``KTOTrainer``."""
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
    """One row a group: its best and its worst reply as ``prompt``, ``chosen``, ``rejected``, for ``DPOTrainer``."""
    rows = []
    for group in groups:
        said = sorted((one for one in group.responses if one.text), key=lambda one: one.reward)
        if said and said[0].reward < said[-1].reward:
            pair = {"chosen": _reply(said[-1].text), "rejected": _reply(said[0].text)}
            rows.append({"prompt": _conversation(group.messages), **pair})
    return rows


def to_dataset(rows: Sequence[Row]) -> Dataset:
    """Rows as a Hugging Face ``Dataset``.

    Raises:
        ConfigurationError: the ``datasets`` package is not installed.
    """
    try:
        from datasets import Dataset
    except ImportError:
        raise ConfigurationError(
            "The datasets package is not installed", fix="pip install -c constraints.txt -e '.[finetune]'"
        ) from None
    return Dataset.from_list(list(rows))


def _conversation(messages: Iterable[Message]) -> list[dict[str, str]]:
    return [{"role": one.role, "content": one.content} for one in messages]


def _reply(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]
