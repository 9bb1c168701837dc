"""Chats for supervised training: the last message of each is the label, everything before it is the prompt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from engine.errors import InputError, MissingInputError
from engine.llm.replies import clean
from engine.records import Message, first_fault
from grpo_training.teacher.traces import TeacherTrace
from grpo_training.train.config import GRPOTrainingConfig
from grpo_training.train.data.rollout_data import drawn
from grpo_training.train.data.samples import DropReport, Sample
from grpo_training.train.data.scored_files import REPAIR, placed_rows, prompt_messages, reply_text
from grpo_training.train.data.teacher_samples import prompt_hashes, trace_sample
from grpo_training.train.data.tokenising import TOO_LONG, WITHOUT_REASONING, ChatTokens
from grpo_training.train.data.training_data import TrainingData
from grpo_training.train.models.tokenizer import load_tokenizer

_ROW = "A row needs `messages` that end with one of the assistant, or is a trace of a teacher."


def load_chats(config: GRPOTrainingConfig) -> TrainingData:
    """The chats of ``config.dataset_path``, tokenised; each is a group of one sample with reward 1.

    A row has ``messages`` that end with the assistant's, or ``prompt`` and ``completion``, or is an accepted trace of a
    teacher. Only the last message is trained on, with the token that ends it. All chats of a random share of the
    prompts are held out.

    Raises:
        MissingInputError: there is no such file, or no such model.
        InputError: a row is no chat and no trace; or none can be used.
    """
    path = config.dataset_path
    if path is None or not path.is_file():
        raise MissingInputError(
            f"No file of chats: {path}", fix="Give a .jsonl or .json file whose rows have `messages`."
        )
    report, chat = DropReport(), ChatTokens(load_tokenizer(config))
    hashes = prompt_hashes(config)
    samples: list[Sample] = []
    for number, (where, row) in enumerate(placed_rows(path), 1):
        # A trace of a teacher may have its program alone, and no chat.
        if "full_response" in row or ("code" in row and "messages" not in row and "completion" not in row):
            sample = trace_sample(_trace(row, where), hashes, chat, config, report)
        else:
            sample = _sample(row, where, f"{path.stem}:{number}", chat)
        if sample is None:
            continue
        if sample.length > config.max_seq_length:
            report.drop(TOO_LONG)
        else:
            samples.append(sample)
        if len(samples) == config.max_problems:
            break
    if not samples:
        raise InputError(f"No chats to train on in {path}", why=str(report) or "It is empty.", fix=_ROW)
    report.remark(WITHOUT_REASONING, chat.without_reasoning)
    held_out = drawn(list(dict.fromkeys(sample.prompt_ids for sample in samples)), config.validation_share, config.seed)
    return TrainingData(
        groups=[[sample] for sample in samples if sample.prompt_ids not in held_out],
        validation=[[sample] for sample in samples if sample.prompt_ids in held_out],
        report=report,
    )


def _trace(row: Mapping[str, Any], where: str) -> TeacherTrace:
    try:
        return TeacherTrace.model_validate(row)
    except ValidationError as error:
        raise InputError(f"{where}: {first_fault(error)}", why=_ROW, fix=REPAIR) from None


def _sample(row: Mapping[str, Any], where: str, name: str, chat: ChatTokens) -> Sample:
    """A row as a sample.

    Raises:
        InputError: it is not a chat that ends with a reply.
    """
    messages = prompt_messages(row, where)
    completion = row.get("completion")
    if isinstance(completion, str):
        messages += (Message(role="assistant", content=clean(completion)),)
    elif completion is not None:
        messages += prompt_messages({"prompt": completion}, where)
    turns = completion or row.get("prompt") or row["messages"]
    facts = turns[-1] if isinstance(turns, list) else row
    *prompt, reply = messages
    if reply.role != "assistant" or not prompt:
        fault = "the messages do not end with a reply of the assistant to another message"
        raise InputError(f"{where}: {fault}", why=_ROW, fix=REPAIR)
    if not reply.content.strip():
        raise InputError(f"{where}: the reply has no text", why=_ROW, fix=REPAIR)
    return Sample(
        group_id=name,
        prompt_ids=chat.prompt(tuple(prompt)),
        completion_ids=chat.completion(reply_text(reply.content, facts), truncated=False),
    )
