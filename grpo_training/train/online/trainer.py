"""TRL's GRPO trainer with imitation terms.

``compute_loss`` calls TRL's and adds the terms; sampling, advantages and clipping are TRL's. With ``steps_ahead`` a
step trains on what the step before sampled, so that scoring has the time of a step. Where rows can be packed
(:mod:`grpo_training.train.objective.packing`), the log-probs are computed with each prompt once. A checkpoint that
cannot be written is removed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from trl import GRPOTrainer

from grpo_training.rl_math.losses import sft_loss
from grpo_training.rl_math.stopped import TrainingStoppedError
from grpo_training.train.config import GRPOTrainingConfig
from grpo_training.train.data.batches import collate
from grpo_training.train.data.rows import own_successes, teacher_rows
from grpo_training.train.data.samples import Sample
from grpo_training.train.folders import none_if_failed
from grpo_training.train.objective.logprobs import LogProbModel, can_pack, completion_logps
from grpo_training.train.online.rewards import TrlReward


class _Sampled(NamedTuple):
    """Rows of the dataset, and what TRL's ``_generate`` returns for their prompts."""

    rows: list[dict[str, Any]]
    generated: tuple[Any, ...]


class GRPOWithImitationTrainer(GRPOTrainer):  # type: ignore[misc]
    """``grpo_weight x`` TRL's loss ``+ teacher-SFT + self-SFT``.

    The imitated rows of a step are selected when it begins and divided among its micro-batches. Each term is divided
    by its own tokens of the whole step, so any number of micro-batches gives the same gradient. Metrics:
    ``loss/grpo``, ``loss/teacher_sft``, ``loss/self_sft`` (before their weights).

    Args:
        config: the training configuration.
        reward: the reward function; self-SFT selects from its latest batch.
        prompt_ids: the token ids of each prompt, by problem id.
        teacher: traces to imitate; empty turns the term off.
        arguments: of ``GRPOTrainer``.
    """

    def __init__(
        self,
        *,
        config: GRPOTrainingConfig,
        reward: TrlReward,
        prompt_ids: dict[str, tuple[int, ...]],
        teacher: Sequence[Sample],
        **arguments: Any,
    ) -> None:
        super().__init__(reward_funcs=reward, **arguments)
        is_alone = self.accelerator.num_processes == 1  # the gradients of several pass through the wrapped model
        self._packs = is_alone and can_pack(self.accelerator.unwrap_model(self.model), config.max_seq_length)
        self._settings, self._reward = config, reward
        self._prompt_ids, self._teacher = prompt_ids, teacher
        self._planned_step = -1
        self._micro_batch = 0
        self._weights = {"teacher_sft": config.teacher_sft_weight, "self_sft": config.self_sft_weight}
        self._imitated: dict[str, list[Sample]] = {}
        self._ahead: _Sampled | None = None
        self._given: tuple[Any, ...] | None = None

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Tensor:
        """TRL's weighted loss of a micro-batch, plus this micro-batch's share of the imitation terms.

        Raises:
            TrainingStoppedError: the loss is not finite.
        """
        if self.state.global_step != self._planned_step:
            self._plan_step()
        micro_batches = self.current_gradient_accumulation_steps
        policy: Tensor = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        loss, figures = self._settings.grpo_weight * policy, {"loss/grpo": policy.item()}
        for name, rows in self._imitated.items():
            figures[f"loss/{name}"] = 0.0
            if share := rows[self._micro_batch :: micro_batches]:
                term = self._imitation(share, sum(len(row.completion_ids) for row in rows))
                loss = loss + self._weights[name] * term
                figures[f"loss/{name}"] = term.item()
        if not math.isfinite(loss.item()):
            names = ", ".join(dict.fromkeys(scored.problem.id for scored in self._reward.latest))
            step = f"The loss of step {self.state.global_step + 1}"
            raise TrainingStoppedError.of(step, f"completions for {names[:200]}")
        metrics = self._metrics["train"]
        for name, value in figures.items():
            metrics[name].append(value * micro_batches)  # TRL logs the mean over them; these are shares of a sum
        self._micro_batch += 1
        return loss

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """TRL's inputs of a step; with ``steps_ahead`` those of the completions that the step before sampled.

        Then the first step, also of a resumed training, samples its problems twice, for the second step too, and the
        last one samples nothing. The ratio of a token has the log-prob of the weights that sampled it as denominator:
        vLLM's in the weight that TRL caps, else one that is computed after the sampling.
        """
        if not self._settings.steps_ahead:
            of_step: dict[str, Any] = super()._generate_and_score_completions(inputs)
            return of_step
        sampled = self._ahead or self._sample(inputs)
        is_last = self.state.global_step + 1 >= self.state.max_steps
        self._ahead = None if is_last else self._sample(inputs)
        self._given = sampled.generated
        of_step = super()._generate_and_score_completions(sampled.rows)
        of_step.setdefault("old_per_token_logps", of_step["sampling_per_token_logps"])
        return of_step

    def _generate(self, prompts: list[Any]) -> tuple[Any, ...]:
        """TRL's completions of the prompts; those that were sampled before, if there are any."""
        given, self._given = self._given, None
        if given is not None:
            return given
        generated: tuple[Any, ...] = super()._generate(prompts)
        return generated

    def _sample(self, rows: list[dict[str, Any]]) -> _Sampled:
        """Completions of the rows, whose scoring has begun."""
        generated = self._generate([row["prompt"] for row in rows])
        prompt_ids, completion_ids, tool_mask, completions, logps, *more = generated
        problems = [row["problem"] for row in rows]
        self._reward.begin(completions=completions, completion_ids=completion_ids, problem=problems)
        if logps is None:
            logps = self._sampling_logps(prompt_ids, completion_ids)
        return _Sampled(rows, (prompt_ids, completion_ids, tool_mask, completions, logps, *more))

    def _sampling_logps(
        self, prompt_ids: Sequence[Sequence[int]], completion_ids: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        """The log-probs of the sampled tokens by the present weights."""
        rows = [Sample("", tuple(prompt), tuple(ids)) for prompt, ids in zip(prompt_ids, completion_ids, strict=True)]
        model = LogProbModel(self.accelerator.unwrap_model(self.model), packs=self._packs)
        size, device = self.args.per_device_train_batch_size, self.accelerator.device
        by_row: list[list[float]] = []
        with torch.no_grad(), self.accelerator.autocast():
            for start in range(0, len(rows), size):
                chunk = rows[start : start + size]
                batch = collate(chunk, self.processing_class.pad_token_id).to(device)
                logps, _ = model(batch, temperature=self.temperature)
                by_row += [values[: len(row.completion_ids)] for values, row in zip(logps.tolist(), chunk, strict=True)]
        return by_row

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: Tensor, attention_mask: Tensor, logits_to_keep: int, *args: Any, **named: Any
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """TRL's log-probs, entropies and loss of experts; the first two by our own function where rows are packed."""
        if not self._packs or named.get("compute_aux_loss"):
            theirs: tuple[Tensor, Tensor | None, Tensor | None] = super()._get_per_token_logps_and_entropies(
                model, input_ids, attention_mask, logits_to_keep, *args, **named
            )
            return theirs
        rows, width = input_ids.shape
        with self.accelerator.autocast():
            logps, entropies = completion_logps(
                self.accelerator.unwrap_model(model),
                input_ids,
                attention_mask,
                input_ids.new_full((rows,), width - logits_to_keep),
                attention_mask[:, width - logits_to_keep :],
                temperature=self.temperature,
                entropy=bool(named.get("compute_entropy")),
                packs=True,
            )
        return logps, entropies, None

    def create_model_card(self, *_: Any, **__: Any) -> None:
        """No model card: the run directory documents the run."""

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """A checkpoint; none if it cannot be written.

        Raises:
            ScaffoldError: it cannot be written.
        """
        folder = Path(self.args.output_dir) / f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
        with none_if_failed(folder, folder):
            super()._save_checkpoint(model, trial)

    def _plan_step(self) -> None:
        """At the first micro-batch of a step: select the imitated rows."""
        config, step = self._settings, self.state.global_step
        self._planned_step, self._micro_batch = step, 0
        self._imitated = {}
        if self._teacher:
            count, share = config.rows_of_step, self.accelerator.process_index
            chosen = teacher_rows(self._teacher, step, count * self.accelerator.num_processes, config.seed)
            self._imitated["teacher_sft"] = chosen[share * count : (share + 1) * count]
        if config.self_sft_weight > 0:
            groups = self._scored_groups()
            self._imitated["self_sft"] = [
                group[index] for group in groups for index in own_successes(group, group, config)
            ]

    def _scored_groups(self) -> list[list[Sample]]:
        """The completions that this process scored last, by problem, without those that have no reward."""
        groups: dict[str, list[Sample]] = {}
        for scored in self._reward.latest:
            if scored.reward is None:
                continue
            sample = Sample(
                group_id=scored.problem.id,
                prompt_ids=self._prompt_ids[scored.problem.id],
                completion_ids=scored.token_ids,
                reward=scored.reward,
                ids_source="server",
                truncated=scored.token_ids[-1] not in self.eos_token_ids,
                is_correct=scored.is_correct,
            )
            groups.setdefault(scored.problem.id, []).append(sample)
        return list(groups.values())

    def _imitation(self, rows: Sequence[Sample], tokens: int) -> Tensor:
        """The cross-entropy on ``rows``; ``tokens`` counts all imitated rows of the step."""
        batch = collate(rows, self.processing_class.pad_token_id).to(self.accelerator.device)
        with self.accelerator.autocast():
            logps, _ = LogProbModel(self.accelerator.unwrap_model(self.model_wrapped))(batch, temperature=1.0)
        return sft_loss(logps, batch.mask_BC, tokens=tokens)
