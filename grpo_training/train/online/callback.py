"""Connects TRL's trainer to a run directory: metrics, progress, samples, Ctrl-C."""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.nn.utils import get_total_norm
from transformers import TrainerCallback

from grpo_training.rl_math.metrics_log import MetricsLog
from grpo_training.rl_math.progress import TrainingProgress
from grpo_training.rl_math.stopped import TrainingStoppedError
from grpo_training.runs.stop_request import StopRequest
from grpo_training.train.online.rewards import ScoredCompletion, TrlReward
from grpo_training.train.processes import agreed

STAGE = "online"
SAMPLES = "samples.jsonl"
_SAMPLES_PER_STEP = 6


@dataclass(eq=False, kw_only=True)
class RunCallback(TrainerCallback):  # type: ignore[misc]
    """Writes the metrics of each step, shows progress, and stops on Ctrl-C.

    Args:
        reward: its latest batch is sampled for ``samples.jsonl``.
        run_dir: gets ``samples.jsonl``: completions of the first and of the last step.
        log, progress: receive the figures; None on all processes but the first.
        stop: checked after each step.
    """

    reward: TrlReward
    run_dir: Path
    log: MetricsLog | None
    progress: TrainingProgress | None
    stop: StopRequest
    _tokens_then: float = 0.0
    _then: float = 0.0
    _noted_error: bool = False

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Note where the measured speed begins; a new training begins new samples."""
        self._tokens_then, self._then = float(state.num_input_tokens_seen), time.monotonic()
        if self.log is not None and state.global_step == 0:
            (self.run_dir / SAMPLES).unlink(missing_ok=True)

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, *, model: Any = None, **_: Any) -> None:
        """Stop before a gradient that is not finite changes the weights."""
        gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
        largest = get_total_norm(gradients, norm_type=math.inf)  # one transfer from the device for all weights
        if not math.isfinite(float(largest)):
            names = ", ".join(dict.fromkeys(scored.problem.id for scored in self.reward.latest))
            raise TrainingStoppedError.of(f"The gradient of step {state.global_step + 1}", names[:200])

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Write samples of the first step, and stop if a stop was requested."""
        if state.global_step == 1:
            self._write_samples(1)
        stops = agreed(self.stop, args.world_size) is not None
        if state.global_step >= state.max_steps or stops:
            control.should_log = True  # also the steps since the last log, fewer than logging_steps
        if stops:
            control.should_save = control.should_training_stop = True

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Write samples of the last step, and say how many completions had no reward."""
        if state.global_step > 1:
            self._write_samples(state.global_step)
        if self.reward.without_reward and self.progress is not None:
            self.progress.note(
                f"{self.reward.without_reward} of {self.reward.scored} completions had no reward; their groups were "
                "trained without them"
            )

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        """Write the metrics since the last log."""
        if self.log is None or self.progress is None or logs is None or "loss" not in logs:
            return  # not the first process, or the summary at the end
        tokens, now = float(logs.get("num_tokens") or self._tokens_then), time.monotonic()
        speed = (tokens - self._tokens_then) / max(now - self._then, 1e-9)
        self._tokens_then, self._then = tokens, now
        figures = {"epoch": logs["epoch"], "stage": STAGE, **logs, "tokens_per_s": speed}
        self.log.write(state.global_step, figures)
        self.progress.step_done(state.global_step, STAGE, figures)
        if self.reward.first_error and not self._noted_error:
            self._noted_error = True
            self.progress.note(f"A completion could not be scored: {self.reward.first_error}")

    def _write_samples(self, step: int) -> None:
        """Append one completion for each of a few problems to ``samples.jsonl``."""
        if self.log is None:
            return
        chosen: dict[str, ScoredCompletion] = {}
        for scored in self.reward.latest:
            chosen.setdefault(scored.problem.id, scored)
        rows = [
            {
                "step": step,
                "problem_id": scored.problem.id,
                "problem": scored.problem.text,
                "answer": scored.problem.answer,
                "completion": scored.text,
                "reward": scored.reward,
                "is_correct": scored.is_correct,
            }
            for scored in list(chosen.values())[:_SAMPLES_PER_STEP]
        ]
        with (self.run_dir / SAMPLES).open("a", encoding="utf-8", errors="replace") as file:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
