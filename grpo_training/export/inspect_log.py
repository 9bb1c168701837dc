"""Groups as an eval log of inspect_ai (version 2 of its JSON format)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

from engine.records import Rollout, RolloutGroup
from engine.statistics.paired import clustered_mean

_STOP_REASONS = {"stop": "stop", "length": "max_tokens", "content_filter": "content_filter"}
_EMPTY: dict[str, Any] = {"metadata": {}, "store": {}, "events": [], "model_usage": {}, "attachments": {}}


PromptOf = Callable[[RolloutGroup, Rollout], Sequence[Mapping[str, Any]] | None]


def inspect_log(role: str, groups: Sequence[RolloutGroup], prompt_of: PromptOf) -> dict[str, Any]:
    """The log of a generator: a sample per problem, an epoch per rollout.

    The scores are ``correct`` (C or I) and the reward with its components.

    Args:
        role: of the generator.
        groups: its groups.
        prompt_of: the messages that a rollout of a group answers; None if they are not known: then the text of the
            problem stands in their place.
    """
    model = next((g.policy.model for g in groups if g.policy and g.policy.model), "") or role
    samples = _samples(groups, model, prompt_of)
    task, name = groups[0].task or "task", f"{role} ({groups[0].task})"
    ids = list(dict.fromkeys(group.problem_id for group in groups))
    identity = hashlib.sha256("\n".join([role, model, *ids]).encode()).hexdigest()[:22]
    started, ended = groups[0].timestamp, groups[-1].timestamp
    return {
        "version": 2,
        "status": "success",
        "eval": {
            "run_id": identity,
            "eval_id": identity,
            "created": started,
            "task": name,
            "task_id": identity,
            "task_version": 0,
            "task_args": {},
            "dataset": {"name": task, "samples": len(ids), "sample_ids": ids},
            "model": model,
            "model_args": {},
            "config": {"epochs": max(sample["epoch"] for sample in samples)},
        },
        "plan": {"name": "plan", "steps": [], "config": {}},
        "results": {
            "total_samples": len(samples),
            "completed_samples": len(samples),
            "scores": _metrics(samples),
        },
        "stats": {"started_at": started, "completed_at": ended, "model_usage": {}},
        "samples": samples,
    }


def _samples(groups: Sequence[RolloutGroup], model: str, prompt_of: PromptOf) -> list[dict[str, Any]]:
    seen: dict[str, int] = {}
    samples = []
    for group in groups:
        for rollout in group.rollouts:
            seen[group.problem_id] = seen.get(group.problem_id, 0) + 1
            samples.append(_sample(group, rollout, prompt_of(group, rollout), seen[group.problem_id], model))
    return samples


def _sample(
    group: RolloutGroup, rollout: Rollout, prompt: Sequence[Mapping[str, Any]] | None, epoch: int, model: str
) -> dict[str, Any]:
    completion = rollout.completion
    reply = {"role": "assistant", "content": completion.text if completion else "", "source": "generate"}
    reason = _STOP_REASONS.get((completion.finish_reason if completion else None) or "", "unknown")
    answer = rollout.answer or ""
    asked = [{**message, "source": "input"} for message in prompt or [{"role": "user", "content": group.problem_text}]]
    scores: dict[str, Any] = {
        name: {"value": value, "answer": answer}
        for name, value in {"r_total": rollout.r_total, **rollout.rewards.by_name()}.items()
        if value is not None
    }
    if rollout.is_correct is not None:
        scores["correct"] = {"value": "C" if rollout.is_correct else "I", "answer": answer}
    return {
        **_EMPTY,
        "id": group.problem_id,
        "epoch": epoch,
        "input": group.problem_text if prompt is None else asked,
        "target": group.ground_truth,
        "messages": [*asked, reply],
        "output": {"model": model, "choices": [{"message": reply, "stop_reason": reason}]},
        "scores": scores,
        "metadata": {
            "experience_ids": rollout.experience_ids,
            "outcome": rollout.outcome.value,
            "training_epoch": group.epoch,
            "rollout_id": rollout.rollout_id,
            "repairs": rollout.repairs,
        },
    }


def _metrics(samples: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean and cluster-robust standard error of each score, over the problems."""
    names = dict.fromkeys(name for sample in samples for name in sample["scores"])
    metrics = []
    for name in names:
        clusters: dict[str, list[float]] = {}
        for sample in samples:
            if name in sample["scores"]:
                value = sample["scores"][name]["value"]
                number = {"C": 1.0, "I": 0.0}.get(value, value) if isinstance(value, str) else float(value)
                clusters.setdefault(sample["id"], []).append(float(number))
        label = "accuracy" if name == "correct" else "mean"
        values = {label: fmean(value for values in clusters.values() for value in values)}
        error = clustered_mean(clusters).standard_error
        if error is not None:
            values["stderr"] = error
        listed = {key: {"name": key, "value": value, "params": {}} for key, value in values.items()}
        metrics.append({"name": name, "scorer": name, "params": {}, "metrics": listed})
    return metrics
