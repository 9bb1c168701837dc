"""One step on stored rollouts of a real model, by the offline training and by TRL: equal log-probs, loss, KL, gradient?

``python -m bench.real_batch --model FOLDER --cache runs/NAME/cache``. Takes the first group whose rewards differ. The
reference, and the policy that sampled, are the model of the folder; the policy that learns is this model with noise on
its weights, so that ratios differ from 1, the KL is not 0 and clipping acts. Both train all weights on the CPU, in
float32 and, where the processor supports it, in bfloat16 (weights in float32, computation under autocast). The times
are printed. Exits with status 1 if a difference in float32 is above its bound. Needs TRL (``make finetune``) and about
10 GiB of memory per billion weights.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["HF_HUB_OFFLINE"] = os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"

import torch
from accelerate.state import AcceleratorState
from datasets import Dataset
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from grpo_training.train.config import GRPOTrainingConfig
from grpo_training.train.data.samples import Sample
from grpo_training.train.data.training_data import TrainingData, load_training_data
from grpo_training.train.models.tokenizer import supports_bf16
from grpo_training.train.offline.loop import optimizer_steps
from grpo_training.train.offline.training import Training, prepare, score_reference

BETA, EPSILON = 0.05, 0.2
LOGPS_BOUND, FIGURES_BOUND = 1e-3, 1e-3
"""In float32: absolute, of each log-prob in nats; relative, of loss, KL, entropy and gradient norm."""


@dataclass
class Step:
    """What one side computed: log-probs (B, C), 0 outside the completions, figures by name, seconds of the step."""

    logps_BC: Tensor  # noqa: N815 - the name ends in its shape
    figures: dict[str, float]
    seconds: float


def main(model: Path, cache: Path, *, rows: int, noise: float, temperature: float) -> bool:
    """Print the figures of both in both precisions, and return whether those in float32 agree."""
    with tempfile.TemporaryDirectory() as folder:
        moved = Path(folder) / "moved"
        save_moved(model, moved, noise)
        known = settings_of(model, cache, temperature, bf16=False)
        groups = load_training_data(GRPOTrainingConfig.model_validate(known)).groups
        group = groups[0][:rows]
        reference = prepare(GRPOTrainingConfig.model_validate(known), TrainingData([group]), Path(folder))
        score_reference(reference)
        scored = reference.reference
        del reference
        tokens = sum(len(row.completion_ids) for row in group)
        print(f"{model.name}: {len(group)} replies, {tokens} tokens, {group_lengths(group)}")
        agrees = True
        for bf16 in (False, True) if supports_bf16() else (False,):
            config = GRPOTrainingConfig.model_validate(settings_of(moved, cache, temperature, bf16=bf16))
            AcceleratorState._reset_state(reset_partial_state=True)  # the precision is a setting of the process
            training = prepare(config, TrainingData([group]), Path(folder))
            training.reference = scored
            batch = trl_batch(training, group)
            ours = our_step(training, group)
            del training
            gc.collect()
            theirs = trl_step(moved, batch, Path(folder) / "trl", temperature, bf16=bf16)
            gc.collect()
            agrees &= compare(ours, theirs, batch["completion_mask"].bool(), bf16=bf16) or bf16
    return agrees


def group_lengths(group: Sequence[Sample]) -> str:
    lengths = sorted(len(row.completion_ids) for row in group)
    return f"completions of {lengths[0]} to {lengths[-1]}, prompt of {len(group[0].prompt_ids)}"


def settings_of(model: Path, cache: Path, temperature: float, *, bf16: bool) -> dict[str, Any]:
    """Settings of the offline training for one step on all rows."""
    return {
        "model_name_or_path": str(model),
        "dataset_path": cache,
        "use_peft": False,
        "bf16": bf16,
        "temperature": temperature,
        "per_device_train_batch_size": 64,
        "max_steps": 1,
        "learning_rate": 1e-6,
        "loss_type": "dapo",
        "epsilon": EPSILON,
        "beta": BETA,
        "self_sft_weight": 0.0,
        "validation_share": 0.0,
        "max_grad_norm": 1e9,
    }


def save_moved(model: Path, folder: Path, noise: float) -> None:
    """Save the model with normal noise on each matrix, of ``noise`` times the standard deviation of its weights."""
    moved = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in moved.parameters():
            if weight.dim() == 2:
                weight += noise * weight.std() * torch.randn_like(weight)
    moved.save_pretrained(folder)
    AutoTokenizer.from_pretrained(model).save_pretrained(folder)


def our_step(training: Training, group: Sequence[Sample]) -> Step:
    """The first step of the offline training, and the log-probs before it."""
    with torch.no_grad():
        logps_BC = training.logps(training.collate(group))  # noqa: N806 - the name ends in its shape
    _, metrics = next(optimizer_steps(training))
    names = ("loss", "kl", "entropy", "grad_norm", "clip_ratio/region_mean")
    return Step(logps_BC.float(), {name: metrics[name] for name in names}, metrics["step_time"])


def trl_batch(training: Training, group: Sequence[Sample]) -> dict[str, Any]:
    """The rows as the tensors that ``GRPOTrainer`` computes the loss from."""
    batch = training.collate(group)
    reference_BC = training.reference.logps(group, batch)  # noqa: N806 - the name ends in its shape
    ids = torch.full(batch.mask_BC.shape, training.tokenizer.pad_token_id)
    for index, row in enumerate(group):
        ids[index, : len(row.completion_ids)] = torch.tensor(row.completion_ids)
    prompts = torch.tensor([row.prompt_ids for row in group])
    mask = batch.mask_BC.long()
    return {
        "prompt_ids": prompts,
        "prompt_mask": torch.ones_like(prompts),
        "completion_ids": ids,
        "completion_mask": mask,
        "advantages": torch.tensor([row.advantage for row in group]),
        "old_per_token_logps": reference_BC,
        "ref_per_token_logps": reference_BC,
        "num_items_in_batch": mask.sum(),
    }


def trl_step(model: Path, batch: dict[str, Any], output: Path, temperature: float, *, bf16: bool) -> Step:
    """Loss, gradient and figures of TRL's trainer on the batch, and its log-probs."""
    rows, completion = batch["completion_ids"].shape
    config = GRPOConfig(
        output_dir=str(output),
        use_cpu=True,
        bf16=bf16,
        model_init_kwargs={"dtype": "float32"},
        gradient_checkpointing=False,
        report_to="none",
        save_strategy="no",
        per_device_train_batch_size=rows,
        gradient_accumulation_steps=1,
        num_generations=rows,
        max_completion_length=completion,
        temperature=temperature,
        loss_type="dapo",
        epsilon=EPSILON,
        use_bias_correction_kl=False,  # TRL's default is True
        beta=0.0,  # a reference model would be loaded; its log-probs are in the batch
    )
    trainer = GRPOTrainer(
        model=str(model),
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=config,
        train_dataset=Dataset.from_list([{"prompt": "unused"}] * rows),
    )
    trainer.beta = BETA
    trainer.current_gradient_accumulation_steps = 1  # otherwise set by its training loop
    trainer.model.train()
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    with torch.no_grad(), trainer.compute_loss_context_manager():
        logps_BC = trainer._get_per_token_logps_and_entropies(trainer.model, ids, mask, completion)[0]  # noqa: N806
    began = time.monotonic()
    with trainer.compute_loss_context_manager():
        loss = trainer.compute_loss(trainer.model, batch)
    loss.backward()
    seconds = time.monotonic() - began
    norm = torch.nn.utils.clip_grad_norm_(trainer.model.parameters(), 1e9)
    metrics = trainer._metrics["train"]
    figures = {"loss": loss.item(), "kl": metrics["kl"][0], "entropy": metrics["entropy"][0], "grad_norm": float(norm)}
    figures["clip_ratio/region_mean"] = metrics["clip_ratio/region_mean"][0]
    return Step(logps_BC.float(), figures, seconds)


def compare(ours: Step, theirs: Step, mask_BC: Tensor, *, bf16: bool) -> bool:  # noqa: N803
    """Print the differences, and return whether they are within the bounds of float32."""
    apart = (ours.logps_BC - theirs.logps_BC)[mask_BC].abs()
    precision = "bfloat16" if bf16 else "float32"
    print(f"{precision}: {ours.seconds:.1f} s, TRL's passes {theirs.seconds:.1f} s")
    print(f"  log-probs differ by {apart.max():.2g} nats at most, {apart.mean():.2g} on average")
    agrees = float(apart.max()) <= LOGPS_BOUND
    for figure, value in ours.figures.items():
        other = theirs.figures[figure]
        share = abs(value - other) / max(abs(other), 1e-9)
        agrees &= share <= FIGURES_BOUND or abs(value - other) < 1e-6
        print(f"  {figure:24} ours {value:.6g}, TRL {other:.6g} ({share:.1e} apart)")
    return agrees


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=lambda text: Path(text).resolve(), required=True, help="folder of a model")
    parser.add_argument("--cache", type=Path, required=True, help="cache of a run of this model")
    parser.add_argument("--rows", type=int, default=8, help="replies of the group")
    parser.add_argument("--noise", type=float, default=0.02, help="of the noise, in standard deviations")
    parser.add_argument("--temperature", type=float, default=0.8, help="that of the rollouts")
    given = parser.parse_args()
    options = {name: getattr(given, name) for name in ("rows", "noise", "temperature")}
    sys.exit(0 if main(given.model, given.cache, **options) else 1)
