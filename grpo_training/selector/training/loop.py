"""The training of a selector: one loop over phases, epochs and batches.

Each epoch ends with figures on held-out queries and a checkpoint. The order of an epoch and the dropout of a step
depend on the seed and their numbers alone, so an interrupted training continues with the same weights.
"""

from __future__ import annotations

import copy
import statistics
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from grpo_training.rl_math.losses import LossTerm
from grpo_training.rl_math.metrics_log import MetricsLog, means, open_metrics
from grpo_training.rl_math.progress import TrainingProgress
from grpo_training.rl_math.schedules import AdaptiveKL, lr_factor, rce_temperature
from grpo_training.rl_math.stopped import TrainingStoppedError
from grpo_training.runs.stop_request import StopRequest
from grpo_training.selector.data.embeddings import EmbeddingTable
from grpo_training.selector.data.groups import Batch, ShotGroup, batches, make_batch
from grpo_training.selector.model.checkpoint import CheckpointInfo, save_model
from grpo_training.selector.model.pointer import PointerSelector
from grpo_training.selector.settings import SftSettings, TrainSettings
from grpo_training.selector.training.phases import Phase, grpo_step, rce_step, sft_step
from grpo_training.selector.training.state import TrainingState, is_best, load_state, save_state
from grpo_training.selector.training.validation import held_out_figures, stored_logps

_CONTROLLED = ("rce/temperature", "grpo/temperature", "beta", "learning_rate")
BEST = "best_model.ckpt"
_KL_EVERY = 5
"""Steps between changes of ``kl_beta``, by their mean KL."""
_TEMPERATURES = 0.5, 2.0
"""Bounds of the temperature of GRPO."""
_TEMPERATURE_FACTOR = 1.05
"""Of a change of it, after each step."""


@dataclass(frozen=True)
class TrainingTask:
    """What is trained on what.

    Args:
        model: is changed.
        phases: in order.
        train, held_out: queries to train on, and to measure on.
        table: embeddings of queries and shots.
        embeddings: where they come from, for the checkpoints.
        sft_learning_rate: the peak of SFT, for the checkpoints.
    """

    model: PointerSelector
    phases: Sequence[Phase]
    train: Sequence[ShotGroup]
    held_out: Sequence[ShotGroup]
    table: EmbeddingTable
    embeddings: dict[str, Any]
    sft_learning_rate: float

    @property
    def shots(self) -> int:
        """Length of the longest sequence."""
        return max(len(sequence.shots) for group in (*self.train, *self.held_out) for sequence in group.sequences)


def steps_of(task: TrainingTask, phase: Phase, batch_size: int) -> int:
    """Optimizer steps of a phase."""
    return phase.epochs * -(-len(task.train) // batch_size)


def train_selector(task: TrainingTask, settings: SftSettings | TrainSettings, run_dir: Path) -> TrainingState:
    """Train; write ``metrics.jsonl``, a checkpoint for each epoch, and the best ones. The same call again resumes.

    Raises:
        TrainingStoppedError: a loss or a gradient is not finite.
        KeyboardInterrupt: Ctrl-C, after the current step was finished and saved.
    """
    run = _Run(task, settings, run_dir)
    with ExitStack() as stack:
        total = sum(steps_of(task, phase, settings.batch_size) for phase in task.phases)
        log, shown = stack.enter_context(open_metrics(run_dir, total, run.progress.step))
        stop = stack.enter_context(StopRequest())
        while run.progress.phase < len(task.phases):
            run.begin_phase()
            while run.progress.epoch < run.phase.epochs:
                run.run_epoch(log, shown, stop)
            run.end_phase()
    return run.progress


class _Run:
    """The mutable side of a training."""

    def __init__(self, task: TrainingTask, settings: SftSettings | TrainSettings, run_dir: Path) -> None:
        self._task, self._settings, self._run_dir = task, settings, run_dir
        self.progress = TrainingState()
        self._kl = AdaptiveKL(0.0)
        if isinstance(settings, TrainSettings):
            self._kl = AdaptiveKL(settings.kl_beta, settings.kl_target_min, settings.kl_target_max)
        self._old: PointerSelector | None = None
        self._stored = load_state(run_dir)
        if self._stored is not None:
            self.progress = self._stored["progress"]
            task.model.load_state_dict(self._stored["model"])
            self._kl.beta = self._stored["beta"]["beta"]
        task.model.to(_device())

    @property
    def phase(self) -> Phase:
        """The present phase."""
        return self._task.phases[self.progress.phase]

    def begin_phase(self) -> None:
        """Make the optimizer; a new phase of rewards also records the policy that it starts from."""
        task, progress = self._task, self.progress
        self._optimizer = torch.optim.AdamW(
            task.model.parameters(), self.phase.learning_rate, weight_decay=self._settings.weight_decay
        )
        self._old = copy.deepcopy(task.model).eval() if self.phase.name == "grpo" else None
        if self._stored is not None:
            self._optimizer.load_state_dict(self._stored["optimizer"])
            if self._old is not None and self._stored["old"] is not None:
                self._old.load_state_dict(self._stored["old"])
            self._stored = None
        elif self.phase.name != "sft":
            stored = stored_logps(task.model, task.held_out, task.table)
            progress.old_logps = {query: logps.sum(-1) for query, logps in stored.items()}
            progress.temperature = 1.0
        self._total = steps_of(task, self.phase, self._settings.batch_size)
        self._step = progress.epoch * (self._total // max(self.phase.epochs, 1)) + progress.batch

    def run_epoch(self, log: MetricsLog, shown: TrainingProgress, stop: StopRequest) -> None:
        """The remaining batches of an epoch, then its figures and checkpoint."""
        task, settings, progress = self._task, self._settings, self.progress
        order = list(batches(task.train, settings.batch_size, f"{settings.seed}:{self.phase.name}:{progress.epoch}"))
        window: list[dict[str, float]] = []
        for groups in order[progress.batch :]:
            metrics = self._optimize(groups)
            window.append(metrics)
            is_last = progress.batch == len(order)
            figures = self._finish_epoch() if is_last else {}
            if len(window) == settings.log_every_steps or self._step == 1 or is_last or stop.number is not None:
                line = _summary(window) | figures
                log.write(progress.step, {"stage": self.phase.name, "epoch": self._step / len(order)} | line)
                shown.step_done(progress.step, self.phase.name, line)
                window.clear()
            if is_last or stop.number is not None:
                if is_last:
                    progress.epoch, progress.batch = progress.epoch + 1, 0
                save_state(self._run_dir, progress, task.model, self._old, self._optimizer, self._kl)
            stop.obey()

    def end_phase(self) -> None:
        """Keep the model at the end of the phase under a name of its own, and go on to the next one."""
        self._save(f"{self.phase.name}_final.ckpt", self.progress.epoch, {})
        self.progress.phase, self.progress.epoch, self.progress.best = self.progress.phase + 1, 0, []
        self.progress.old_logps, self._stored, self._old = {}, None, None

    def _optimize(self, groups: Sequence[ShotGroup]) -> dict[str, float]:
        task, settings, progress = self._task, self._settings, self.progress
        torch.manual_seed(settings.seed * 1_000_003 + progress.step)
        rate = self.phase.learning_rate * lr_factor(
            self._step,
            total_steps=self._total,
            warmup_steps=round(settings.warmup_ratio * self._total),
            schedule=settings.lr_scheduler,
        )
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        batch = make_batch(groups, task.table, device=_device())
        # The ratio of GRPO compares with a policy that was scored without dropout.
        task.model.train(self.phase.name != "grpo")
        step = self._loss(batch)
        self._check_finite("loss", float(step.loss.detach()))
        self._optimizer.zero_grad()
        step.loss.backward()
        norm = float(torch.nn.utils.clip_grad_norm_(task.model.parameters(), settings.gradient_clip_norm))
        self._check_finite("gradient", norm)
        self._optimizer.step()
        task.model.eval()
        progress.step, progress.batch, self._step = progress.step + 1, progress.batch + 1, self._step + 1
        if "kl" in step.metrics:  # the temperature follows the KL of a step, the weight of the KL its mean over some
            kl = step.metrics["kl"]
            progress.kl.append(kl)
            progress.temperature = adapted_temperature(progress.temperature, kl, self._kl.low, self._kl.high)
            if len(progress.kl) >= _KL_EVERY:
                self._kl.update(statistics.fmean(progress.kl))
                progress.kl = []
        return step.metrics | {"learning_rate": rate, "grad_norm": norm}

    def _loss(self, batch: Batch) -> LossTerm:
        task, settings = self._task, self._settings
        if self.phase.name == "sft" or not isinstance(settings, TrainSettings):
            return sft_step(task.model, batch)
        if self.phase.name == "rce":
            temperature = rce_temperature(
                self._step, self._total, settings.rce_temperature_start, settings.rce_temperature_end
            )
            return rce_step(task.model, batch, temperature)
        assert self._old is not None
        return grpo_step(
            task.model,
            batch,
            self._old,
            top_k=settings.early_top_k if self.progress.epoch < settings.early_epochs else None,
            beta=self._kl.beta,
            epsilon=settings.clip_epsilon,
            temperature=self.progress.temperature,
        )

    def _finish_epoch(self) -> dict[str, float]:
        """Figures on held-out queries, and the checkpoints of the epoch."""
        task, settings, progress = self._task, self._settings, self.progress
        rewards = settings if isinstance(settings, TrainSettings) else None
        figures = held_out_figures(
            task.model, task.held_out, task.table, progress.old_logps, has_rewards=rewards is not None
        )
        epoch = progress.epoch + 1
        self._save(f"{self.phase.name}_epoch{epoch}.ckpt", epoch, figures)
        if is_best(self.phase.name, figures, progress.best, rewards.kl_target_max if rewards else 0.0):
            self._save(BEST, epoch, figures)
        return figures

    def _save(self, name: str, epoch: int, figures: dict[str, float]) -> None:
        info = CheckpointInfo(
            phase=self.phase.name,
            epoch=epoch,
            embeddings=self._task.embeddings,
            shots=self._task.shots,
            sft_learning_rate=self._task.sft_learning_rate,
            kl_beta=self._kl.beta,
            metrics=figures,
        )
        save_model(self._run_dir / name, self._task.model, info)

    def _check_finite(self, quantity: str, value: float) -> None:
        if not torch.isfinite(torch.tensor(value)):
            raise TrainingStoppedError(
                f"The {quantity} of step {self.progress.step + 1} is not finite",
                why=f"It was {value} in the phase {self.phase.name}. The weights are those of the step before.",
                fix="Lower the learning rate, or look at the rewards of the beam data. The checkpoints are intact.",
            )


def adapted_temperature(temperature: float, kl: float, target_min: float, target_max: float) -> float:
    """The temperature of GRPO after a step.

    A KL below the target raises it, so that logits may move further before the ratios are clipped (exploration); one
    above lowers it. It stays within its bounds.

    Args:
        temperature: of the step.
        kl: of the step, at temperature 1.
        target_min, target_max: the target of the KL.
    """
    if kl < target_min:
        temperature *= _TEMPERATURE_FACTOR
    elif kl > target_max:
        temperature /= _TEMPERATURE_FACTOR
    return min(max(temperature, _TEMPERATURES[0]), _TEMPERATURES[1])


def _device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def _summary(window: Sequence[dict[str, float]]) -> dict[str, float]:
    """The means of the steps; of what a schedule or a controller sets, the last value."""
    return means(window) | {name: window[-1][name] for name in _CONTROLLED if name in window[-1]}
