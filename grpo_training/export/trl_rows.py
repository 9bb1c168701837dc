"""Training groups as rows for TRL's trainers, conversational."""

from __future__ import annotations

from collections.abc import Iterable

from grpo_training.train.data.samples import TrainingGroup
from grpo_training.train.data.trl_datasets import Row, conversation


def prompt_completion(groups: Iterable[TrainingGroup], *, min_reward: float) -> list[Row]:
    """One row per complete reply with at least ``min_reward``: ``prompt``, ``completion``, for ``SFTTrainer``."""
    return [
        {"prompt": conversation(group.messages), "completion": _reply(response.text), "reward": response.reward}
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
                "prompt": conversation(group.messages),
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
            rows.append({"prompt": conversation(group.messages), **pair})
    return rows


def _reply(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]
