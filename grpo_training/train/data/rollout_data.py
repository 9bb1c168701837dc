"""Reads stored rollouts as training groups, from a file or a folder, and counts what is left out."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeVar

from engine.errors import InputError, MissingInputError
from engine.records import Completion, Message, Rollout, RolloutGroup
from engine.reward_evaluator import policy_reward
from engine.statistics.groups import group_stats
from engine.storage.stored_records import StoredGroups
from engine.task import Task
from engine.task_protocols import images_of
from engine.tasks.registry import DEFAULT_TASK, task_named
from grpo_training.agents.generator import generator_messages, prompt_hash
from grpo_training.runs.folder import load_tasks_of
from grpo_training.runs.stored_answers import problem_of
from grpo_training.train.config import GRPOTrainingConfig
from grpo_training.train.data.rows import succeeds
from grpo_training.train.data.samples import DropReport, TrainingGroup, TrainingResponse
from grpo_training.train.data.scored_files import (
    has_replies,
    join_reasoning,
    read_scored,
    readable_rows,
    report_broken,
)
from grpo_training.train.data.stored_logprobs import without_unusable_logprobs
from prompts import prompt_styles

KeyT = TypeVar("KeyT")
Kind = Literal["rollouts", "scored", "prompts", "other"]

EQUAL = "groups: all rewards are equal, so all advantages are 0 (--zero-variance keeps them)"
BUILT = "groups: their prompt is built from the present templates, so off-policy: stored log-probs are not used"
RE_ASKED = "replies: to a second request, so their stored log-probs are not used"
REASONING = "replies: stored with separate reasoning, which was put before the text in <think> tags"
_SNIFFED_ROWS = 20


@dataclass(frozen=True)
class Source:
    """A file to read. ``name`` is the prefix of its group ids, unique among the files that are read together."""

    path: Path
    name: str
    kind: Kind


def load_groups(settings: GRPOTrainingConfig) -> tuple[list[TrainingGroup], DropReport]:
    """All groups of ``settings.dataset_path`` that have a training signal, to train the model of ``settings``.

    Stored log-probs are those of the old policy: where another model or temperature gave them, they are left out.

    Raises:
        MissingInputError: there is no such file or folder.
        InputError: it holds nothing that can be trained on.
    """
    report = DropReport()
    groups = list(each_group(settings, report))
    return without_unusable_logprobs(groups, settings, report), report


def each_group(settings: GRPOTrainingConfig, report: DropReport, *, as_sent: bool = False) -> Iterator[TrainingGroup]:
    """The groups of a dataset one after the other, with log-probs as stored; a cache is read when it is its turn.

    Args:
        settings: of a training; its model is not used.
        report: receives what is left out; complete after the last group.
        as_sent: without replies to second requests, whose prompts are not stored.
    """
    if settings.dataset_path is None:
        raise InputError("dataset_path is needed: the rollouts to train on, such as runs/NAME/cache")
    sources = find_sources(settings.dataset_path)
    usable = [source for source in sources if source.kind in ("rollouts", "scored")]
    if not usable:
        raise InputError(
            f"No rollouts in {settings.dataset_path}",
            fix="Supported: *_rollouts.jsonl of a cache, and rows of prompt, response and reward as .json or .jsonl. "
            "Prompts without replies are for --mode online.",
        )
    problems: set[str] = set()
    for group in (group for source in usable for group in _groups_of(source, settings, report)):
        answered = _to_first_request(group, report) if as_sent else group
        if answered is None or not _has_signal(answered, settings, report):
            continue
        if settings.max_problems is None or group.problem_id in problems or len(problems) < settings.max_problems:
            problems.add(group.problem_id)
            yield answered
        else:
            report.drop("groups: of further problems (--max-problems)")


def _groups_of(source: Source, settings: GRPOTrainingConfig, report: DropReport) -> Iterator[TrainingGroup]:
    """The groups of a file; those of a cache in problem order, as the order of its file depends on the timing.

    One is in memory at a time. Of several groups of a problem and epoch the last complete one is used, else the last.
    """
    if source.kind == "scored":
        yield from read_scored(source.path, source.name, report)
        return
    load_tasks_of(source.path.parent, given=settings.task)
    stored = StoredGroups(source.path, with_incomplete=True)
    for group in stored.in_order():
        # Effects of experiences are in the rewards, so advantages are those among rollouts of one prompt.
        for of_prompt in group.by_prompt() if group.complete else [group]:
            yield from _training_groups(of_prompt, source.name, settings, report)
    report_broken(report, [str(line) for line in stored.broken])


def is_as_sent(group: RolloutGroup, rollout: Rollout, style: str | None, *, with_experiences: bool) -> bool:
    """Whether the prompt of a rollout is wanted as it was sent: in the same style, and with all its experiences.

    Args:
        group, rollout: a rollout of a group of a cache.
        style: that is wanted; None: that in which the group was asked.
        with_experiences: whether experiences are wanted.
    """
    if rollout.experience_ids and not with_experiences:
        return False
    asked = group.policy.prompt_hash if group.policy else ""
    return style is None or asked == prompt_hash(task_named(group.task or DEFAULT_TASK), style)


def built_prompt(group: RolloutGroup, style: str | None) -> tuple[Message, ...]:
    """The prompt of a group's problem by the present templates, without experiences.

    Args:
        group: a group of a cache.
        style: of the prompt. None: that of the templates with which the group was asked, else ``full``.

    Raises:
        InputError: the group's task is not known, or its problem is not one of that task.
    """
    task = task_named(group.task or DEFAULT_TASK)
    asked = group.policy.prompt_hash if group.policy else ""
    styles = (name for name in prompt_styles() if prompt_hash(task, name) == asked)
    return generator_messages(task, problem_of(group), (), style or next(styles, "full"))


def find_sources(path: Path) -> list[Source]:
    """The files of a path with their kinds, by name.

    Args:
        path: a file, or a folder that is searched recursively.

    Raises:
        MissingInputError: there is no such path.
    """
    if path.is_file():
        candidates = [(path, path.stem)]
    elif path.is_dir():
        files = sorted({*path.rglob("*.jsonl"), *path.rglob("grpo_dataset.json")})
        candidates = [(file, file.relative_to(path).with_suffix("").as_posix()) for file in files if file.is_file()]
    else:
        raise MissingInputError(
            f"Dataset not found: {path}", fix="Give a file or a folder of rollouts, such as grpo_training/cache."
        )
    return [Source(file, name, _kind(file)) for file, name in candidates]


def _kind(path: Path) -> Kind:
    """The kind of a file, by its first objects."""
    for _, row in itertools.islice(readable_rows(path, []), _SNIFFED_ROWS):
        if "rollouts" in row and "problem_id" in row:
            return "rollouts"
        if "fused_scaffold" in row:  # each of a prompt of its own, so fusions form no groups
            return "other"
        if has_replies(row):
            return "scored"
        if isinstance(row.get("prompt"), str | list) and "full_response" not in row:
            return "prompts"
    return "other"


def split_validation(
    groups: Sequence[TrainingGroup], share: float, seed: int
) -> tuple[list[TrainingGroup], list[TrainingGroup]]:
    """Hold out some problems with all their groups, so that no held-out prompt is in the training groups.

    Args:
        groups: all groups.
        share, seed: as of :func:`drawn`, which draws the problems.

    Returns:
        the groups to train on and the held-out ones, both in the given order.
    """
    held_out = drawn(sorted({group.problem_id for group in groups}), share, seed)
    return (
        [group for group in groups if group.problem_id not in held_out],
        [group for group in groups if group.problem_id in held_out],
    )


def drawn(keys: Sequence[KeyT], share: float, seed: int) -> set[KeyT]:
    """The keys of what is held out: a random share of them, so that no part of a sorted file is left out alone.

    Args:
        keys: without repetitions.
        share: rounded; if above 0, at least one key where there are two or more, and never all.
        seed: of the selection.
    """
    count = min(max(1, round(share * len(keys))), len(keys) - 1) if share > 0 else 0
    return set(random.Random(f"{seed}:validation").sample(keys, max(0, count)))  # noqa: S311


def _training_groups(
    group: RolloutGroup, name: str, settings: GRPOTrainingConfig, report: DropReport
) -> Iterator[TrainingGroup]:
    if not group.complete or any(rollout.r_total is None for rollout in group.rollouts):
        report.drop("groups: incomplete, a reply failed or a reward is missing")
        return
    task = task_named(group.task or DEFAULT_TASK)
    if images_of(task, problem_of(group)):
        report.drop("groups: their problem has an image, and the training is on texts")
        return
    responses = tuple(_response(rollout, task, report) for rollout in group.rollouts)
    if not any(response.text or response.token_ids for response in responses):
        report.drop("groups: the text of no reply is stored")
        return
    policy = group.policy
    if policy is not None and policy.sampling.top_p is not None and policy.sampling.top_p < 1:
        report.remark("groups: sampled with top_p below 1, so ratios to their stored log-probs are biased")
    first = group.rollouts[0]
    half, messages = first.prompt_half, group.prompt_of(first)
    with_experiences = settings.experiences == "keep"
    if not messages or not is_as_sent(group, first, settings.prompts, with_experiences=with_experiences):
        report.remark(BUILT)
        messages = built_prompt(group, settings.prompts)
        responses = tuple(replace(response, logprobs=None) for response in responses)
    yield TrainingGroup(
        group_id=":".join((name, group.problem_id, str(group.epoch), *([half] if half else []))),
        problem_id=group.problem_id,
        task=group.task or DEFAULT_TASK,
        messages=messages,
        responses=responses,
        model=_model(group),
    )


def _response(rollout: Rollout, task: Task, report: DropReport) -> TrainingResponse:
    completion = rollout.completion or Completion(text="")
    reward = policy_reward(task, rollout.rewards, rollout.is_correct)
    assert reward is not None
    is_second = "re_asked" in rollout.repairs and "first_kept" not in rollout.repairs
    logprobs = completion.logprobs
    report.remark(RE_ASKED, 1 if is_second and logprobs else 0)
    report.remark(REASONING, 1 if completion.reasoning else 0)
    return TrainingResponse(
        text=join_reasoning(completion.reasoning, completion.text),
        reward=reward,
        is_correct=rollout.is_correct,
        truncated=completion.finish_reason == "length",
        token_ids=tuple(completion.token_ids) if completion.token_ids else None,
        logprobs=tuple(logprobs) if logprobs and not is_second else None,
        re_asked=is_second,
    )


def _to_first_request(group: TrainingGroup, report: DropReport) -> TrainingGroup | None:
    """The group without replies to second requests; None if there are no others."""
    first = tuple(response for response in group.responses if not response.re_asked)
    report.drop("replies: to a second request, whose prompt is not stored", len(group.responses) - len(first))
    return replace(group, responses=first) if first else None


def _model(group: RolloutGroup) -> str:
    if group.policy and group.policy.model:
        return group.policy.model
    return next((rollout.completion.model for rollout in group.rollouts if rollout.completion), "")


def _has_signal(group: TrainingGroup, settings: GRPOTrainingConfig, report: DropReport) -> bool:
    """Whether the rewards of a group differ, or ``settings.zero_variance`` keeps it."""
    is_right = settings.zero_variance == "right" and all(succeeds(response) for response in group.responses)
    is_kept = settings.zero_variance == "keep" or is_right
    if is_kept or group_stats([response.reward for response in group.responses], tau=0.0).std > 0:
        return True
    report.drop("groups: a single reply, whose advantage is 0" if len(group.responses) == 1 else EQUAL)
    return False
