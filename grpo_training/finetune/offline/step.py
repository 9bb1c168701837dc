"""One optimiser step of the offline training.

A step is cut into micro-batches, and those are dealt out to the processes. Each adds its share of the gradient; the
shares are summed over the processes by hand, so any cut and any number of processes give the same step.
"""
# ruff: noqa: N803, N806 - names end in their shape

from __future__ import annotations

import json
import math
import random
import statistics
from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from engine.errors import ScaffoldError
from engine.storage.append_log import replace_file
from grpo_training.finetune.model_loading import trained_weights
from grpo_training.finetune.objective.logprobs import completion_logps, completion_logps_and_entropy
from grpo_training.finetune.objective.losses import (
    LossTerm,
    StepTotals,
    policy_loss,
    rce_loss,
    sft_loss,
    truncated_importance_weights,
)
from grpo_training.finetune.objective.schedules import TermWeights, lr_factor, rce_temperature, term_weights
from grpo_training.finetune.offline.batches import (
    best_of,
    collate,
    cut,
    cut_groups,
    own_successes,
    teacher_rows,
    with_standard_rewards,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from accelerate import Accelerator
    from torch import Tensor

    from grpo_training.finetune.config import GRPOTrainingConfig
    from grpo_training.finetune.data.samples import Sample
    from grpo_training.finetune.objective.reference_policy import ReferencePolicy
    from grpo_training.finetune.objective.schedules import AdaptiveKL
    from grpo_training.finetune.offline.batches import Batch, PlannedStep

    Group = Sequence[Sample]

T = TypeVar("T")


class TrainingStoppedError(ScaffoldError, FloatingPointError):
    """A loss or a gradient is not finite. The weights are those of the last whole step."""

    exit_code = 3


@dataclass
class Run:
    """A training in this process: what it was given, and what changes."""

    config: GRPOTrainingConfig
    run_dir: Path
    accelerator: Accelerator
    model: Any
    tokenizer: Any
    groups: Sequence[Group]
    validation: Sequence[Group]
    teacher: Sequence[Sample]
    plan: list[PlannedStep]
    reference: ReferencePolicy
    optimizer: torch.optim.Optimizer
    kl: AdaptiveKL
    num_tokens: int = 0

    @property
    def beta(self) -> float:
        """The weight of the KL now."""
        return self.kl.beta if self.config.adaptive_kl else self.config.beta

    def batch(self, rows: Sequence[Sample]) -> Batch:
        """Rows as tensors on this process's device."""
        batch = collate(
            rows,
            self.tokenizer.pad_token_id,
            advantage_clip=self.config.advantage_clip,
            mask_truncated=self.config.mask_truncated_completions,
        )
        return batch.to(self.accelerator.device)

    def logps(self, model: Any, batch: Batch) -> Tensor:
        """Log-probs (B, C) of a batch's completions at the temperature of the sampling."""
        return self._score(completion_logps, model, batch, self.config.temperature)

    def logps_and_entropy(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Those of the model that learns, and the entropy (nats, no gradient) at each token, in one pass."""
        return self._score(completion_logps_and_entropy, self.model, batch, self.config.temperature)

    def plain_logps(self, batch: Batch) -> Tensor:
        """Those of the model that learns at temperature 1, for cross-entropies."""
        return self._score(completion_logps, self.model, batch, 1.0)

    def mine(self, parts: Sequence[Any]) -> Sequence[Any]:
        """This process's share of a step's micro-batches."""
        return parts[self.accelerator.process_index :: self.accelerator.num_processes]

    def _score(self, score: Callable[..., T], model: Any, batch: Batch, temperature: float) -> T:
        with self.accelerator.autocast():
            return score(
                model,
                batch.input_ids_BT,
                batch.attention_mask_BT,
                batch.completion_start_B,
                batch.mask_BC,
                temperature=temperature,
                chunk_size=self.config.logprob_chunk_size,
            )


def train_step(run: Run, index: int) -> dict[str, float]:
    """Do one optimiser step.

    Args:
        run: is changed: weights, optimizer, beta, tokens seen.
        index: the step's place in the plan, from 0.

    Returns:
        The step's metrics under TRL's names where TRL has them, the same on each process.

    Raises:
        TrainingStoppedError: something is not finite; the weights are as before.
    """
    config, step = run.config, run.plan[index]
    groups = [run.groups[number] for number in step.groups]
    torch.manual_seed(_draw_seed(run, index))
    run.optimizer.zero_grad(set_to_none=True)
    shares, common = _rce_step(run, index, groups) if step.stage == "rce" else _policy_step(run, index, groups)
    figures = _sum_over_processes(run, shares) | common | _reward_figures(groups)
    weights = list(trained_weights(run.model).values())
    _sum_gradients(run, weights)
    norm = float(torch.nn.utils.clip_grad_norm_(weights, config.max_grad_norm))
    if not math.isfinite(norm):
        raise _stopped(run, index, "gradient", {"grad_norm": norm}, [row for group in groups for row in group])
    rate = _learning_rate(step, config)
    for parameters in run.optimizer.param_groups:
        parameters["lr"] = rate
    run.optimizer.step()
    if config.adaptive_kl and "kl" in figures:
        run.kl.update(figures["kl"])
    return figures | {"learning_rate": rate, "grad_norm": norm}


def _rce_step(run: Run, index: int, groups: Sequence[Group]) -> tuple[defaultdict[str, float], dict[str, float]]:
    """Gradients of the reward-weighted warm-up."""
    config, step = run.config, run.plan[index]
    temperature = rce_temperature(
        step.number, step.phase_steps, config.rce_temperature_start, config.rce_temperature_end
    )
    scored = [_countable(with_standard_rewards(group), config) for group in groups]
    scored = [group for group in scored if group]
    shares: defaultdict[str, float] = defaultdict(float)
    for part in run.mine(cut_groups(scored, config.per_device_train_batch_size)):
        rows = [row for group in part for row in group]
        batch = run.batch(rows)
        term = rce_loss(
            run.plain_logps(batch),
            batch.mask_BC,
            batch.rewards_B,
            batch.group_of_B,
            temperature=temperature,
            groups=len(scored),
        )
        _backward(run, index, term.loss, {"loss/rce": term.loss} | term.metrics, shares, rows)
    run.num_tokens += sum(row.length for group in scored for row in group)
    return shares, {"rce_temperature": temperature}


def _policy_step(run: Run, index: int, groups: Sequence[Group]) -> tuple[defaultdict[str, float], dict[str, float]]:
    """Gradients of the policy loss and of both imitation terms.

    Self-SFT takes rows that the policy loss takes as well: both share one pass through the model, at the temperature
    of the sampling. Teacher traces are scored at temperature 1, as many as a step has rows.
    """
    config, step, size = run.config, run.plan[index], run.config.per_device_train_batch_size
    weights = _weights(run, step)
    kept = [best_of(group, step.top_k) for group in groups]
    rows = [row for chosen in kept for row in chosen]
    own: list[Sample] = []
    if weights.self_sft > 0:
        own = [row for pair in zip(groups, kept, strict=True) for row in own_successes(*pair, config)]
    counted = _countable(rows, config)
    pulled = [row for row in counted if weights.grpo > 0 and (run.beta > 0 or row.advantage != 0)]
    needed = list({id(row): row for row in (*pulled, *own)}.values())
    totals, passed = StepTotals(len(rows), _tokens(counted)), _tokens(needed)
    imitated = {id(row) for row in own}
    shares: defaultdict[str, float] = defaultdict(float, {"loss": 0.0, "loss/grpo": 0.0})
    for part in run.mine(cut(needed, size)):
        batch = run.batch(part)
        logps_BC, entropy_BC = run.logps_and_entropy(batch)
        policy = _policy_loss(run, part, batch, logps_BC, totals)
        loss, figures = weights.grpo * policy.loss, {"loss/grpo": policy.loss} | policy.metrics
        figures["entropy"] = entropy_BC.sum() / passed
        own_B = torch.tensor([id(row) in imitated for row in part], device=logps_BC.device)
        if own_B.any():
            term = sft_loss(logps_BC, batch.mask_BC & own_B[:, None], tokens=_tokens(own), phi=config.chord_phi)
            loss, figures = loss + weights.self_sft * term.loss, figures | {"loss/self_sft": term.loss}
        _backward(run, index, loss, figures, shares, part)
    if "ratio_mean" in shares:  # a share of all tokens or rows; those that stayed out have no ratio
        per_token = config.importance_sampling_level == "token"
        shares["ratio_mean"] *= totals.tokens / passed if per_token else len(rows) / len(needed)

    lessons: list[Sample] = []
    if weights.teacher_sft > 0:
        count = size * config.gradient_accumulation_steps * run.accelerator.num_processes
        lessons = teacher_rows(run.teacher, index, count, config.seed)
    for part in run.mine(cut(lessons, size)):
        batch = run.batch(part)
        term = sft_loss(run.plain_logps(batch), batch.mask_BC, tokens=_tokens(lessons), phi=config.chord_phi)
        _backward(run, index, weights.teacher_sft * term.loss, {"loss/teacher_sft": term.loss}, shares, part)
    run.num_tokens += sum(row.length for row in (*needed, *lessons))
    return shares, {
        "beta": run.beta,
        "rows_without_gradient": float(len(rows) - len(needed)),
        **{f"weight/{name}": weight for name, weight in asdict(weights).items()},
    }


def _policy_loss(run: Run, rows: Sequence[Sample], batch: Batch, logps_BC: Tensor, totals: StepTotals) -> LossTerm:
    """A micro-batch's share of the policy loss.

    Where the log-probs of the policy that sampled are unknown and ``missing_logprobs`` is ``start``, the model that
    training began with stands in their place. Then clipping ends the pull of a token that has moved far enough, which
    nothing does at ratio 1: a disliked token would be pushed down without end.
    """
    config, old_BC = run.config, batch.old_logps_BC
    unknown_BC = old_BC.isnan() & batch.mask_BC
    starts_from_itself = config.missing_logprobs == "start" and bool(unknown_BC.any())
    reference_BC = importance_BC = None
    if run.beta > 0 or config.importance_cap is not None or starts_from_itself:
        reference_BC = run.reference.logps(rows, batch, run.logps)
    if config.importance_cap is not None and reference_BC is not None:
        # Here the policy that sampled is the start of this training, as this machine scores it; the server's figures
        # only weigh how far the two are apart.
        importance_BC = truncated_importance_weights(reference_BC, old_BC, cap=config.importance_cap)
        old_BC = torch.where(old_BC.isnan(), old_BC, reference_BC)
    if starts_from_itself and reference_BC is not None:
        old_BC = torch.where(unknown_BC, reference_BC, old_BC)
    term = policy_loss(
        logps_BC,
        old_BC,
        batch.advantages_B,
        batch.mask_BC,
        loss_type=config.loss_type,
        epsilon=config.epsilon,
        epsilon_high=config.epsilon_high,
        delta=config.delta,
        importance_sampling_level=config.importance_sampling_level,
        beta=run.beta,
        ref_logps_BC=reference_BC if run.beta > 0 else None,
        kl_estimator=config.kl_estimator,
        use_bias_correction_kl=config.use_bias_correction_kl,
        max_completion_length=config.max_completion_length,
        totals=totals,
        importance_weights_BC=importance_BC,
    )
    return LossTerm(term.loss, term.metrics | {"old_logps_missing": float(unknown_BC.sum())})


def _backward(
    run: Run,
    index: int,
    loss: Tensor,
    figures: Mapping[str, Any],
    shares: defaultdict[str, float],
    rows: Sequence[Sample],
) -> None:
    """Add one micro-batch's gradient and figures to the step's, or stop where its loss is not finite."""
    values = {name: float(torch.as_tensor(value).detach()) for name, value in (("loss", loss), *figures.items())}
    if not math.isfinite(values["loss"]):
        raise _stopped(run, index, "loss", values, rows)
    for name, value in values.items():
        shares[name] += value
    run.accelerator.backward(loss)


# ------------------------------------------------------------------ parts of a step


def _weights(run: Run, step: PlannedStep) -> TermWeights:
    config = run.config
    return term_weights(
        step.number,
        step.phase_steps,
        TermWeights(config.grpo_weight, config.teacher_sft_weight if run.teacher else 0.0, config.self_sft_weight),
        # CHORD shares the weight between rewards and teacher; without a teacher there is nothing to share
        schedule=config.sft_schedule if run.teacher or config.sft_schedule != "chord" else "constant",
        chord_mu_peak=config.chord_mu_peak,
        chord_mu_end=config.chord_mu_end,
        chord_warmup_steps=config.chord_warmup_steps,
        chord_decay_steps=config.chord_decay_steps,
    )


def _learning_rate(step: PlannedStep, config: GRPOTrainingConfig) -> float:
    peak = config.learning_rate
    if step.stage == "rce" and config.rce_learning_rate is not None:
        peak = config.rce_learning_rate
    steps = step.phase_steps
    warmup = config.warmup_steps or math.ceil(config.warmup_ratio * steps)
    return peak * lr_factor(step.number, total_steps=steps, warmup_steps=warmup, schedule=config.lr_scheduler_type)


def _countable(rows: Sequence[Sample], config: GRPOTrainingConfig) -> list[Sample]:
    """The rows whose tokens count: all, or those that came to their end."""
    return [row for row in rows if not (config.mask_truncated_completions and row.truncated)]


def _tokens(rows: Iterable[Sample]) -> int:
    return sum(len(row.completion_ids) for row in rows)


def _draw_seed(run: Run, index: int) -> int:
    """Of dropout: another for each step and process, so that there is no state of a generator to keep."""
    return random.Random(f"{run.config.seed}:{index}:{run.accelerator.process_index}").getrandbits(63)  # noqa: S311


def _sum_gradients(run: Run, weights: Sequence[Tensor]) -> None:
    if run.accelerator.num_processes == 1:
        return
    for weight in weights:
        share = torch.zeros_like(weight) if weight.grad is None else weight.grad
        weight.grad = run.accelerator.reduce(share, reduction="sum")


def _sum_over_processes(run: Run, shares: defaultdict[str, float]) -> dict[str, float]:
    if run.accelerator.num_processes == 1:
        return dict(shares)
    from accelerate.utils import gather_object

    total: defaultdict[str, float] = defaultdict(float)
    for others in gather_object([dict(shares)]):
        for name, value in others.items():
            total[name] += value
    return dict(total)


def _reward_figures(groups: Sequence[Group]) -> dict[str, float]:
    """About the stored responses of a step: all of its groups, also what a curriculum leaves out."""
    rewards = [[row.reward for row in group] for group in groups]
    rows = [row for group in groups for row in group]
    return {
        "reward": statistics.fmean(value for group in rewards for value in group),
        "reward_std": statistics.fmean(statistics.pstdev(group) for group in rewards),
        "frac_reward_zero_std": statistics.fmean(float(max(group) == min(group)) for group in rewards),
        "completions/mean_length": statistics.fmean(len(row.completion_ids) for row in rows),
        "completions/clipped_ratio": statistics.fmean(float(row.truncated) for row in rows),
    }


def _stopped(
    run: Run, index: int, what: str, values: Mapping[str, float], rows: Sequence[Sample]
) -> TrainingStoppedError:
    """The error of a step that is not finite; its rows are written to a file first."""
    path = run.run_dir / f"stopped-at-step-{index + 1}.json"
    content = {
        "step": index + 1,
        "stage": run.plan[index].stage,
        "not_finite": what,
        "figures": {name: str(value) for name, value in values.items()},
        "rows": [asdict(row) for row in rows],
    }
    replace_file(path, json.dumps(content, indent=1).encode() + b"\n")
    names = ", ".join(dict.fromkeys(row.group_id for row in rows))
    return TrainingStoppedError(
        f"The {what} of step {index + 1} is not finite ({', '.join(f'{k} {v:g}' for k, v in values.items())})",
        why=f"It came from {len(rows)} rows of {names[:200]}, which stand in {path}. The weights were not changed.",
        fix="Look at those rows; else lower learning_rate, or leave bf16 off. The last checkpoint is as it was.",
    )
