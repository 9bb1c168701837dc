"""Reads teacher traces as samples to imitate."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from engine.errors import InputError
from engine.storage.rollout_store import read
from engine.tasks.registry import known_tasks
from grpo_training.agents.generator import prompt_hash
from grpo_training.teacher.traces import TeacherTrace
from grpo_training.train.config import GRPOTrainingConfig
from grpo_training.train.data.samples import DropReport, Sample
from grpo_training.train.data.scored_files import join_reasoning, report_broken
from grpo_training.train.data.tokenising import TOO_LONG, WITHOUT_REASONING, ChatTokens
from prompts import prompt_styles

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def load_teacher_samples(
    tokenizer: PreTrainedTokenizerBase, config: GRPOTrainingConfig, report: DropReport
) -> list[Sample]:
    """The accepted traces of ``config.traces_file``, with reward 1 and advantage 0; none where the term is off.

    Args:
        tokenizer: of the trained model.
        config: names the file, which ``python -m grpo_training.generate_teacher_traces`` writes.
        report: receives the counts of what was left out.

    Raises:
        MissingInputError: there is no such file.
        InputError: nothing in it can be imitated; says why.
        ConfigurationError: the tokenizer has no chat template, or the template rejects a prompt.
    """
    path = config.traces_file
    if path is None:
        return []
    contents = read(path, TeacherTrace)
    report_broken(report, [str(line) for line in contents.broken])
    hashes = prompt_hashes(config)
    chat = ChatTokens(tokenizer)
    traces = (trace_sample(trace, hashes, chat, config, report) for trace in contents.records)
    samples = [sample for sample in traces if sample is not None]
    if not samples:
        raise InputError(
            f"No trace of {path} can be imitated",
            why=str(report) or "The file is empty.",
            fix="Generate traces with python -m grpo_training.generate_teacher_traces in the same prompt style, or "
            "execute those of another program with python -m grpo_training.verify_teacher_traces.",
        )
    report.remark(WITHOUT_REASONING, chat.without_reasoning)
    return samples


def prompt_hashes(config: GRPOTrainingConfig) -> set[str]:
    """The hashes of the prompts of all tasks in the style of the training; in all styles if it has none of its own."""
    styles = prompt_styles() if config.prompts is None else (config.prompts,)
    return {prompt_hash(task, style) for task in known_tasks() for style in styles}


def trace_sample(
    trace: TeacherTrace, hashes: Collection[str], chat: ChatTokens, config: GRPOTrainingConfig, counts: DropReport
) -> Sample | None:
    """A trace as a sample; None, and counted, if it is not imitated.

    Args:
        trace: the trace.
        hashes: of the prompts that the student is trained with, see :func:`prompt_hashes`.
        chat: of the trained model.
        config: its ``max_seq_length`` is used.
        counts: receives the reason.
    """
    reason = _refusal(trace, hashes)
    if reason:
        counts.drop(reason)
        return None
    is_separate = trace.thinking is not None and trace.thinking not in trace.full_response
    text = join_reasoning(trace.thinking if is_separate else None, trace.full_response)
    prompt_ids, completion_ids = chat.prompt(trace.messages), chat.completion(text, truncated=False)
    if len(prompt_ids) + len(completion_ids) > config.max_seq_length:
        counts.drop(TOO_LONG)
        return None
    return Sample(
        group_id=f"teacher:{trace.task_id}:{trace.sample_idx}",
        prompt_ids=prompt_ids,
        completion_ids=completion_ids,
        is_correct=True,
    )


def _refusal(trace: TeacherTrace, hashes: Collection[str]) -> str:
    """Why a trace is not imitated; empty if it is."""
    if not trace.status and not trace.accepted:
        return "traces: of another program, and never executed here"
    if not trace.accepted or trace.teacher_metadata.finish_reason == "length":
        return "traces: not accepted by the tests"
    if trace.prompt_hash not in hashes:
        return "traces: made with another prompt than the student's"
    return "" if trace.messages and trace.full_response.strip() else "traces: accepted, but without prompt or reply"
