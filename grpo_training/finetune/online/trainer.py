"""TRL's GRPO trainer with our further terms, and what ties it to a run directory.

The trainer is TRL's but for ``compute_loss``, which calls TRL's and adds to it. So what TRL changes in its own steps
(sampling, advantages, clipping) reaches us as it is.
"""

from __future__ import annotations

import json
import math
import statistics
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback
from transformers.trainer_callback import ExportableState
from trl import GRPOTrainer

from engine.storage.append_log import replace_file
from grpo_training.finetune.data.samples import Sample
from grpo_training.finetune.objective.logprobs import completion_logps
from grpo_training.finetune.objective.losses import sft_loss
from grpo_training.finetune.objective.schedules import TermWeights, term_weights
from grpo_training.finetune.offline.batches import collate, own_successes, teacher_rows
from grpo_training.finetune.offline.step import TrainingStoppedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from torch import Tensor

    from grpo_training.finetune.config import GRPOTrainingConfig
    from grpo_training.finetune.objective.losses import LossTerm
    from grpo_training.finetune.objective.schedules import AdaptiveKL
    from grpo_training.finetune.online.rewards import ScoredCompletion, TaskReward
    from grpo_training.finetune.tracking import RunLog, TrainingProgress
    from grpo_training.runs.stop_request import StopRequest

STAGE = "online"
SAMPLES = "samples.jsonl"
_KEPT_SAMPLES = 6
_DEAD_STEPS = 10


class DualSourceTrainer(GRPOTrainer):  # type: ignore[misc]
    """``grpo_weight x`` TRL's loss ``+ teacher-SFT + self-SFT``, with a beta that may follow the measured KL.

    The imitated rows of a step are known when it begins, and are dealt out to its micro-batches. Each term divides by
    its own tokens of the whole step, so any number of micro-batches gives the same gradient. Metrics:
    ``loss/grpo``, ``loss/teacher_sft``, ``loss/self_sft`` (before their weights), ``weight/...`` and ``beta``.

    Args:
        config: of the training.
        reward: the reward function; its latest batch holds the completions that self-SFT chooses from.
        prompt_ids: the tokens of each problem's prompt, by the problem's id.
        teacher: traces to imitate; empty turns the term off.
        kl: adapts beta where ``config.adaptive_kl``.
        arguments: of ``GRPOTrainer``.
    """

    def __init__(
        self,
        *,
        config: GRPOTrainingConfig,
        reward: TaskReward,
        prompt_ids: dict[str, tuple[int, ...]],
        teacher: Sequence[Sample],
        kl: AdaptiveKL,
        **arguments: Any,
    ) -> None:
        super().__init__(reward_funcs=reward, **arguments)
        self._settings, self._reward, self._adaptive_kl = config, reward, kl
        self._prompt_ids, self._teacher = prompt_ids, teacher
        self._planned_step = -1
        self._micro_batch = 0
        self._weights = TermWeights(config.grpo_weight, 0.0, 0.0)
        self._imitated: dict[str, list[Sample]] = {}
        self._measured_kl: list[float] = []

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Tensor:
        """TRL's loss of a micro-batch, weighed, and this micro-batch's share of the imitation terms.

        Raises:
            TrainingStoppedError: the loss is not finite.
        """
        if self.state.global_step != self._planned_step:
            self._plan_step()
        parts, limit = self.current_gradient_accumulation_steps, self._settings.advantage_clip
        clipped = inputs | {"advantages": inputs["advantages"].clamp(-limit, limit)}
        policy: Tensor = super().compute_loss(model, clipped, return_outputs, num_items_in_batch)
        loss, figures = self._weights.grpo * policy, {"loss/grpo": policy.item()}
        for name, rows in self._imitated.items():
            term = self._imitation(rows[self._micro_batch :: parts], sum(len(row.completion_ids) for row in rows))
            if term is not None:
                loss = loss + getattr(self._weights, name) * term.loss
            figures[f"loss/{name}"] = 0.0 if term is None else term.loss.item()
        if not math.isfinite(loss.item()):
            raise self._stopped(figures)
        metrics = self._metrics["train"]
        for name, share in figures.items():
            metrics[name].append(share * parts)  # TRL logs the mean over micro-batches; these are shares of a sum
        for name, weight in asdict(self._weights).items():
            metrics[f"weight/{name}"].append(weight)
        metrics["beta"].append(self.beta)
        self._micro_batch += 1
        if self._settings.adaptive_kl:
            self._measured_kl.append(metrics["kl"][-1])
            if self._micro_batch == parts:
                self._adaptive_kl.update(statistics.fmean(self._measured_kl))
        return loss

    def create_model_card(self, *_: Any, **__: Any) -> None:
        """No card: what a run is stands in its own files."""

    def _plan_step(self) -> None:
        """At a step's first micro-batch: the weights of its terms and the rows that it imitates."""
        config, step = self._settings, self.state.global_step
        teacher_weight = config.teacher_sft_weight if self._teacher else 0.0
        self._planned_step, self._micro_batch, self._measured_kl = step, 0, []
        if config.adaptive_kl:
            self.beta = self._adaptive_kl.beta
        self._weights = term_weights(
            step,
            self.state.max_steps,
            TermWeights(config.grpo_weight, teacher_weight, config.self_sft_weight),
            # CHORD shares the weight between rewards and teacher; without a teacher there is nothing to share
            schedule=config.sft_schedule if self._teacher or config.sft_schedule != "chord" else "constant",
            chord_mu_peak=config.chord_mu_peak,
            chord_mu_end=config.chord_mu_end,
            chord_warmup_steps=config.chord_warmup_steps,
            chord_decay_steps=config.chord_decay_steps,
        )
        self._imitated = {}
        if self._weights.teacher_sft > 0:
            count = config.per_device_train_batch_size * config.gradient_accumulation_steps
            share = self.accelerator.process_index
            chosen = teacher_rows(self._teacher, step, count * self.accelerator.num_processes, config.seed)
            self._imitated["teacher_sft"] = chosen[share * count : (share + 1) * count]
        if self._weights.self_sft > 0:
            groups = self._scored_groups()
            self._imitated["self_sft"] = [row for group in groups for row in own_successes(group, group, config)]

    def _scored_groups(self) -> list[list[Sample]]:
        """The completions that this process scored last, by problem; those without a reward are left out."""
        groups: dict[str, list[Sample]] = {}
        for one in self._reward.latest:
            if one.reward is not None:
                groups.setdefault(one.problem.id, []).append(self._sample(one, one.reward))
        return list(groups.values())

    def _sample(self, scored: ScoredCompletion, reward: float) -> Sample:
        return Sample(
            group_id=scored.problem.id,
            prompt_ids=self._prompt_ids[scored.problem.id],
            completion_ids=scored.token_ids,
            reward=reward,
            advantage=0.0,
            old_logps=None,
            ids_source="server",
            truncated=scored.token_ids[-1] not in self.eos_token_ids,
            is_correct=scored.is_correct,
        )

    def _imitation(self, rows: Sequence[Sample], tokens: int) -> LossTerm | None:
        """The cross-entropy on some of a step's imitated rows; ``tokens`` is of all of them."""
        if not rows:
            return None
        batch = collate(rows, self.processing_class.pad_token_id).to(self.accelerator.device)
        with self.accelerator.autocast():
            logps_BC = completion_logps(  # noqa: N806 - names end in their shape
                self.accelerator.unwrap_model(self.model_wrapped),
                batch.input_ids_BT,
                batch.attention_mask_BT,
                batch.completion_start_B,
                batch.mask_BC,
                chunk_size=self._settings.logprob_chunk_size,
            )
        return sft_loss(logps_BC, batch.mask_BC, tokens=tokens, phi=self._settings.chord_phi)

    def _stopped(self, figures: dict[str, float]) -> TrainingStoppedError:
        told = ", ".join(f"{name} {value:g}" for name, value in figures.items())
        names = ", ".join(dict.fromkeys(one.problem.id for one in self._reward.latest))
        return TrainingStoppedError(
            f"The loss of step {self.state.global_step + 1} is not finite ({told})",
            why=f"It came from completions for {names[:200]}. The weights were not changed.",
            fix="Lower learning_rate, or leave bf16 off. The last checkpoint is as it was.",
        )


class RunCallback(TrainerCallback, ExportableState):  # type: ignore[misc]
    """Writes each step's metrics, shows progress, obeys Ctrl-C, and keeps beta in the checkpoints.

    Args:
        kl: its state goes into each checkpoint and comes back from it.
        reward: the latest batch is what samples are shown of.
        run_dir: gets ``samples.jsonl``: completions of the first step and of the last.
        log, screen: where figures go; None on processes that are not the first.
        stop: asked after each step.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        *,
        kl: AdaptiveKL,
        reward: TaskReward,
        run_dir: Path,
        log: RunLog | None,
        screen: TrainingProgress | None,
        stop: StopRequest,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kl, self._reward, self._path, self._log, self._screen = kl, reward, run_dir / SAMPLES, log, screen
        self._stop, self._clock = stop, clock
        self._tokens_then, self._then = 0.0, 0.0
        self._dead_steps = 0

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds of it."""
        return {"args": {}, "attributes": self._kl.state_dict()}

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Take beta from the checkpoint."""
        saved = state.stateful_callbacks.get(type(self).__name__)
        if state.global_step and saved:
            self._kl.load_state_dict(saved["attributes"])
        self._tokens_then, self._then = float(state.num_input_tokens_seen), self._clock()
        if self._log is not None and state.global_step == 0:
            self._path.unlink(missing_ok=True)

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, *, model: Any = None, **_: Any) -> None:
        """Stop before a gradient that is not finite reaches the weights."""
        gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
        if gradients and not math.isfinite(sum(float(gradient.abs().max()) for gradient in gradients)):
            raise TrainingStoppedError(
                f"The gradient of step {state.global_step + 1} is not finite",
                why="The loss was. The weights were not changed.",
                fix="Lower learning_rate, or leave bf16 off. The last checkpoint is as it was.",
            )

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Keep samples of the first step, and stop where that was asked for."""
        if state.global_step == 1:
            self._keep_samples(1)
        if self._stop.number is not None:
            control.should_save = control.should_training_stop = True

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Keep samples of the last step."""
        if state.global_step > 1:
            self._keep_samples(state.global_step)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        """Write the figures since the last log."""
        if self._log is None or self._screen is None or logs is None or "loss" not in logs:
            return  # another process, or the summary at the end
        tokens, now = float(logs.get("num_tokens") or self._tokens_then), self._clock()
        speed = (tokens - self._tokens_then) / max(now - self._then, 1e-9)
        self._tokens_then, self._then = tokens, now
        figures = {"epoch": logs["epoch"], "stage": STAGE, **logs, "tokens_per_s": speed}
        self._log.write(state.global_step, figures)
        self._screen.step_done(state.global_step, STAGE, figures)
        self._watch_rewards(logs)

    def _watch_rewards(self, logs: dict[str, Any]) -> None:
        """Say it once when rewards have not differed within any group for many logs: nothing is learnt then."""
        self._dead_steps = self._dead_steps + 1 if logs.get("frac_reward_zero_std") == 1 else 0
        if self._dead_steps == _DEAD_STEPS and self._screen is not None:
            self._screen.note(
                f"Rewards have been equal within every group for {_DEAD_STEPS} logs (mean {logs.get('reward')}): "
                "nothing is learnt. The problems are too easy or too hard, or the reward measures nothing."
            )

    def _keep_samples(self, step: int) -> None:
        """Add one completion of each of a few problems to ``samples.jsonl``."""
        if self._log is None:
            return
        chosen: dict[str, ScoredCompletion] = {}
        for one in self._reward.latest:
            chosen.setdefault(one.problem.id, one)
        lines = [json.dumps(_shown(one, step), ensure_ascii=False) for one in list(chosen.values())[:_KEPT_SAMPLES]]
        before = self._path.read_bytes() if self._path.exists() else b""
        replace_file(self._path, before + "".join(line + "\n" for line in lines).encode())


def _shown(scored: ScoredCompletion, step: int) -> dict[str, Any]:
    return {
        "step": step,
        "problem_id": scored.problem.id,
        "problem": scored.problem.text,
        "answer": scored.problem.answer,
        "completion": scored.text,
        "reward": scored.reward,
        "is_correct": scored.is_correct,
    }
