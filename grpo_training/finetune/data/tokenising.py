"""Groups as token ids: exact labels, the server's own ids where they are stored, advantages within each group."""

from __future__ import annotations

import math
import re
import statistics
from typing import TYPE_CHECKING

from engine.errors import ConfigurationError
from engine.statistics.groups import group_stats
from grpo_training.finetune.data.samples import DropReport, Sample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from transformers import PreTrainedTokenizerBase

    from engine.records import Message
    from grpo_training.finetune.config import GRPOTrainingConfig
    from grpo_training.finetune.data.samples import TrainingGroup, TrainingResponse

EMPTY = "replies: no text is stored"
TOO_LONG = "replies: prompt and reply are longer than max_seq_length"
NOTHING_LEFT = "groups: none of their replies could be used"
OTHER_TOKENIZER = "replies: the stored ids are of another tokenizer; cut anew from the text, without log-probs"
RETOKENIZED = "replies: cut from their text, as the server stored no ids"
NO_LOGPROBS = "replies: without log-probs of the policy that sampled, so their ratio is 1"

_BATCH_EPS = 1e-4  # TRL's, in the divisor of scale_rewards=batch
_MARK = "kJq7vRw2"
_UNSEEN = re.compile(r"\s+|</?think(?:ing)?>")


def tokenise_groups(
    groups: Sequence[TrainingGroup], tokenizer: PreTrainedTokenizerBase, config: GRPOTrainingConfig
) -> tuple[list[list[Sample]], DropReport]:
    """One list of samples for each group, in order.

    The prompt is what the chat template gives with its generation prompt; the reply is tokenised apart and put
    behind it, so that no token spans both, and ends with the end-of-turn token unless it was cut off. Ids of the
    server are taken where they decode to the reply's text, with their log-probs. An advantage is relative to all
    rewards of its group, also those of replies that are left out here.

    Args:
        groups: as ``load_groups`` gives them.
        tokenizer: of the model that is trained.
        config: ``max_seq_length`` and ``scale_rewards`` are read.

    Raises:
        ConfigurationError: the tokenizer has no chat template, or its template refuses a prompt.
    """
    report = DropReport()
    chat = ChatTokens(tokenizer)
    scaled = advantages([[response.reward for response in group.responses] for group in groups], config.scale_rewards)
    result = []
    for group, values in zip(groups, scaled, strict=True):
        prompt_ids = chat.prompt(group.messages)
        samples = [
            sample
            for response, advantage in zip(group.responses, values, strict=True)
            if (sample := _sample(group, response, advantage, prompt_ids, chat, config, report)) is not None
        ]
        if samples:
            result.append(samples)
        else:
            report.drop(NOTHING_LEFT)
    return result, report


def advantages(rewards: Sequence[Sequence[float]], scale: str) -> list[list[float]]:
    """Advantages of groups.

    Args:
        rewards: of each group.
        scale: ``group``: (r - mean) / std by the population standard deviation of the group, 0 where it is 0 (Shao
            et al. 2024, section 4.1.2); ``batch``: (r - mean of the group) / (std + 1e-4) by the sample standard
            deviation of all rewards given; ``none``: r - mean of the group (Liu et al. 2025, Dr. GRPO).

    Raises:
        ValueError: another ``scale``, or a group without rewards.
    """
    if scale == "group":
        return [group_stats(group, tau=0.0).advantages for group in rewards]
    if scale not in ("batch", "none"):
        raise ValueError(f"scale_rewards is group, batch or none, not {scale!r}")
    centred = [[reward - statistics.fmean(group) for reward in group] for group in rewards]
    if scale == "none":
        return centred
    everything = [reward for group in rewards for reward in group]
    divisor = (statistics.stdev(everything) if len(everything) > 1 else 0.0) + _BATCH_EPS
    return [[difference / divisor for difference in group] for group in centred]


class ChatTokens:
    """Prompts and replies as the ids that a model sees.

    Args:
        tokenizer: with a chat template.

    Raises:
        ConfigurationError: it has none.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        if not tokenizer.chat_template:
            raise ConfigurationError(
                f"The tokenizer of {tokenizer.name_or_path} has no chat template",
                why="Rollouts are conversations; without a template the model cannot be asked, nor served, as a chat.",
                fix="Train a chat model, or put a chat_template.jinja into the model's folder.",
            )
        self._prompts: dict[tuple[Message, ...], tuple[int, ...]] = {}
        self._vocabulary = len(tokenizer)
        self._special = frozenset(tokenizer.all_special_ids)
        self.end_of_turn = self._find_end_of_turn()
        opening = self._text((("user", _MARK),), add_generation_prompt=True)
        self._opens_thinking = opening.rstrip().endswith("<think>")

    def prompt(self, messages: tuple[Message, ...]) -> tuple[int, ...]:
        """The conversation with the generation prompt behind it."""
        if messages not in self._prompts:
            text = self._text([(one.role, one.content) for one in messages], add_generation_prompt=True)
            self._prompts[messages] = tuple(self._tokenizer(text, add_special_tokens=False).input_ids)
        return self._prompts[messages]

    def completion(self, text: str, *, truncated: bool) -> tuple[int, ...]:
        """A reply, from its text. Control tokens that are spelled out in it stay plain text.

        Where the generation prompt opens the reasoning by itself, the reply's own opening tag is left out.
        """
        if self._opens_thinking:
            text = re.sub(r"\A\s*<think>\n?", "", text)
        ids = tuple(self._tokenizer(text, add_special_tokens=False, split_special_tokens=True).input_ids)
        return ids if truncated else (*ids, self.end_of_turn)

    def are_of(self, ids: Sequence[int], text: str) -> bool:
        """Whether ids decode to a text, white space and reasoning tags aside: a server may trim those."""
        if not all(0 <= one < self._vocabulary for one in ids):
            return False
        return _UNSEEN.sub("", self._tokenizer.decode(ids, skip_special_tokens=True)) == _UNSEEN.sub("", text)

    def is_ended(self, ids: Sequence[int]) -> bool:
        """Whether ids end with a token that ends a turn."""
        return bool(ids) and (ids[-1] == self.end_of_turn or ids[-1] in self._special)

    def _find_end_of_turn(self) -> int:
        """The first token behind an assistant's words in a finished conversation, else the end-of-text token.

        The two differ in many chat models, and a reply that is trained to end with the wrong one never ends.
        """
        text = self._text((("user", _MARK), ("assistant", _MARK)), add_generation_prompt=False)
        behind = self._tokenizer(text.rpartition(_MARK)[2].lstrip(), add_special_tokens=False).input_ids
        if behind and behind[0] in {*self._special, *self._tokenizer.added_tokens_decoder}:
            return int(behind[0])
        return int(self._tokenizer.eos_token_id)

    def _text(self, messages: Sequence[tuple[str, str]], *, add_generation_prompt: bool) -> str:
        from jinja2 import TemplateError

        conversation = [{"role": role, "content": content} for role, content in messages]
        try:
            return str(
                self._tokenizer.apply_chat_template(
                    conversation, add_generation_prompt=add_generation_prompt, tokenize=False
                )
            )
        except TemplateError as error:
            roles = ", ".join(role for role, _ in messages)
            raise ConfigurationError(
                f"The chat template of {self._tokenizer.name_or_path} refuses a conversation of {roles}",
                why=str(error),
                fix="Take prompts that the model knows (--prompts), or another model.",
            ) from error


def _sample(
    group: TrainingGroup,
    response: TrainingResponse,
    advantage: float,
    prompt_ids: tuple[int, ...],
    chat: ChatTokens,
    config: GRPOTrainingConfig,
    report: DropReport,
) -> Sample | None:
    ids, old = response.token_ids, response.logprobs
    is_from_server = bool(ids) and chat.are_of(ids or (), response.text)
    if not is_from_server:
        report.remark(OTHER_TOKENIZER if ids else RETOKENIZED)
        if not response.text.strip():
            report.drop(EMPTY)
            return None
        ids, old = chat.completion(response.text, truncated=response.truncated), None
    ids = ids or ()
    old = old if old is not None and len(old) == len(ids) else None
    if not response.truncated and not chat.is_ended(ids):  # the server keeps its stop token to itself
        ids = (*ids, chat.end_of_turn)
        old = (*old, math.nan) if old is not None else None
    if len(prompt_ids) + len(ids) > config.max_seq_length:
        report.drop(TOO_LONG)
        return None
    report.remark(NO_LOGPROBS, int(old is None))
    return Sample(
        group_id=group.group_id,
        prompt_ids=prompt_ids,
        completion_ids=ids,
        reward=response.reward,
        advantage=advantage,
        old_logps=old,
        ids_source="server" if is_from_server else "retokenized",
        truncated=response.truncated,
        is_correct=response.is_correct,
    )
