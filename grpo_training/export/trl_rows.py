"""Training groups as rows for TRL's trainers, conversational."""

from __future__ import annotations

from grpo_training.train.data.samples import TrainingGroup
from grpo_training.train.data.trl_datasets import Row, conversation


def prompt_completion(group: TrainingGroup, *, min_reward: float) -> list[Row]:
    """One row per complete reply with at least ``min_reward``: ``prompt``, ``completion``, for ``SFTTrainer``."""
    return [
        {"prompt": conversation(group.messages), "completion": _reply(response.text), "reward": response.reward}
        for response in group.responses
        if response.reward >= min_reward and response.text and not response.truncated
    ]


def unpaired_preference(group: TrainingGroup) -> list[Row]:
    """One row per reply above or below the group's mean: ``prompt``, ``completion``, ``label``, for ``KTOTrainer``."""
    mean = sum(response.reward for response in group.responses) / len(group.responses)
    prompt = conversation(group.messages)
    return [
        {"prompt": prompt, "completion": _reply(response.text), "label": response.reward > mean}
        for response in group.responses
        if response.text and response.reward != mean
    ]


def preference(group: TrainingGroup) -> list[Row]:
    """The best and worst reply as ``prompt``, ``chosen``, ``rejected``, for ``DPOTrainer``; none if they are equal."""
    ranked = sorted((response for response in group.responses if response.text), key=lambda response: response.reward)
    if not ranked or ranked[0].reward == ranked[-1].reward:
        return []
    pair = {"chosen": _reply(ranked[-1].text), "rejected": _reply(ranked[0].text)}
    return [{"prompt": conversation(group.messages), **pair}]


def _reply(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]
