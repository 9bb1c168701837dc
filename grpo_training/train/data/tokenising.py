"""Tokenises groups: exact labels, stored token ids where available, advantages within each group."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.errors import ConfigurationError
from engine.records import Message
from grpo_training.rl_math.advantages import advantages
from grpo_training.train.config import GRPOTrainingConfig
from grpo_training.train.data.samples import DropReport, Sample, TrainingGroup, TrainingResponse

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


EMPTY = "replies: without text"
TOO_LONG = "replies: prompt and reply are longer than max_seq_length"
OTHER_TOKENIZER = "replies: stored ids of another tokenizer; tokenised from the text, without log-probs"
NO_LOGPROBS = "replies: without log-probs of the sampling policy; those of the initial model take their place"

WITHOUT_REASONING = (
    "replies: without reasoning, although the chat template opens <think>; trained on as text inside the thinking"
)
_MARKER = "kJq7vRw2"
_IGNORED = re.compile(r"\s+|</?think(?:ing)?>")


def tokenise_groups(
    groups: Sequence[TrainingGroup],
    tokenizer: PreTrainedTokenizerBase,
    config: GRPOTrainingConfig,
    report: DropReport,
) -> list[list[Sample]]:
    """One list of samples for each group, in order.

    The prompt is rendered by the chat template with its generation prompt. The reply is tokenised separately and
    appended, so that no token spans both; it ends with the end-of-turn token unless it was truncated. Stored ids and
    their log-probs are used if the ids decode to the text of the reply. An advantage is relative to all rewards of its
    group, also those of replies that are left out.

    Args:
        groups: from ``load_groups``.
        tokenizer: of the trained model.
        config: its ``max_seq_length`` and ``scale_rewards`` are used.
        report: receives what is left out.

    Raises:
        ConfigurationError: the tokenizer has no chat template, or the template rejects a prompt.
    """
    chat = ChatTokens(tokenizer)
    rewards = [[response.reward for response in group.responses] for group in groups]
    scaled = advantages(rewards, config.scale_rewards)
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
            report.drop("groups: none of their replies is usable")
    report.remark(WITHOUT_REASONING, chat.without_reasoning)
    return result


class ChatTokens:
    """Tokenises prompts and replies as the model sees them.

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
                why="Rollouts are conversations, which need a template.",
                fix="Train a chat model, or add a chat_template.jinja to the folder of the model.",
            )
        self._prompts: dict[tuple[Message, ...], tuple[int, ...]] = {}
        self._vocabulary = len(tokenizer)
        self._special = frozenset(tokenizer.all_special_ids)
        self.end_of_turn = self._find_end_of_turn()
        opening = self._render((("user", _MARKER),), add_generation_prompt=True)
        self._opens_thinking = opening.rstrip().endswith("<think>")
        self.without_reasoning = 0

    def prompt(self, messages: tuple[Message, ...]) -> tuple[int, ...]:
        """The ids of a conversation with the generation prompt."""
        if messages not in self._prompts:
            text = self._render([(message.role, message.content) for message in messages], add_generation_prompt=True)
            self._prompts[messages] = tuple(self._tokenizer(text, add_special_tokens=False).input_ids)
        return self._prompts[messages]

    def completion(self, text: str, *, truncated: bool) -> tuple[int, ...]:
        """The ids of a reply's text. Special tokens that are spelled out in it stay plain text.

        If the generation prompt opens the reasoning, the opening tag of the reply is removed, and replies that never
        close it are counted.
        """
        if self._opens_thinking:
            self.without_reasoning += not truncated and "</think>" not in text
            text = re.sub(r"\A\s*<think>\n?", "", text)
        ids = tuple(self._tokenizer(text, add_special_tokens=False, split_special_tokens=True).input_ids)
        return ids if truncated else (*ids, self.end_of_turn)

    def matches_text(self, ids: Sequence[int], text: str) -> bool:
        """Whether ids decode to a text, ignoring white space and reasoning tags, which a server may trim."""
        if not all(0 <= token < self._vocabulary for token in ids):
            return False
        return _IGNORED.sub("", self._tokenizer.decode(ids, skip_special_tokens=True)) == _IGNORED.sub("", text)

    def is_ended(self, ids: Sequence[int]) -> bool:
        """Whether ids end with a token that ends a turn."""
        return bool(ids) and (ids[-1] == self.end_of_turn or ids[-1] in self._special)

    def _find_end_of_turn(self) -> int:
        """The first token after an assistant message in a conversation, else the end-of-text token.

        The two differ in many chat models. A model that is trained on the wrong one does not end its replies.
        """
        text = self._render((("user", _MARKER), ("assistant", _MARKER)), add_generation_prompt=False)
        after = self._tokenizer(text.rpartition(_MARKER)[2].lstrip(), add_special_tokens=False).input_ids
        if after and after[0] in {*self._special, *self._tokenizer.added_tokens_decoder}:
            return int(after[0])
        return int(self._tokenizer.eos_token_id)

    def _render(self, messages: Sequence[tuple[str, str]], *, add_generation_prompt: bool) -> str:
        conversation = [{"role": role, "content": content} for role, content in messages]
        try:
            return str(
                self._tokenizer.apply_chat_template(
                    conversation, add_generation_prompt=add_generation_prompt, tokenize=False
                )
            )
        except Exception as error:  # a template can raise any: of jinja2, of the values that it computes with
            roles = ", ".join(role for role, _ in messages)
            raise ConfigurationError(
                f"The chat template of {self._tokenizer.name_or_path} rejects a conversation of {roles}",
                why=str(error),
                fix="Choose another prompt style (--prompts) or another model.",
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
    is_from_server = bool(ids) and chat.matches_text(ids or (), response.text)
    if not is_from_server:
        report.remark(OTHER_TOKENIZER if ids else "replies: tokenised from the text, as no ids are stored")
        ids, old = chat.completion(response.text, truncated=response.truncated), None
        if not response.text.strip() or not ids:  # no ids: cut off within the tag that opens its reasoning
            report.drop(EMPTY)
            return None
    ids = ids or ()
    old = old if old is not None and len(old) == len(ids) else None
    if not response.truncated and not chat.is_ended(ids):  # the server does not return its stop token
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
