"""The update step of the fine-tuning compared with TRL's on the same batch: time, memory, and cost of imitation.

``python -m bench.finetune_step``. Our step is that of the offline training: rows to tensors, log-probs, loss, metrics,
gradient clipping, AdamW. TRL's step is ``GRPOTrainer.training_step`` on the ready batch with the same clipping and
AdamW, without sampling and scoring. Both train all weights of the same random model with beta 0 on one core, and both
compute the entropy. The losses are compared first, because a ratio is meaningful only for equal computations.
On a CPU, TRL also computes the logits of the prompt; on a GPU it does not, as we never do. The ratios are valid for
CPUs only.
Exits with status 1 if a bound is exceeded. Needs TRL (``make finetune``).
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Set before the imports, because huggingface_hub reads its variables at import.
os.environ["HF_HUB_OFFLINE"] = os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from transformers.utils import logging
from trl import GRPOConfig, GRPOTrainer

from grpo_training.train.config import GRPOTrainingConfig
from grpo_training.train.data.samples import Sample
from grpo_training.train.data.training_data import TrainingData
from grpo_training.train.offline.loop import optimizer_steps
from grpo_training.train.offline.training import prepare

TIME_RATIO, MEMORY_RATIO, IMITATION_MARGIN = 1.05, 1.0, 0.05
ROUNDS = 5
RATE, CLIP = 1e-4, 1.0


@dataclass(frozen=True)
class Case:
    """The size of a model's vocabulary and of a batch: ``prompt`` and ``completion`` are lengths in tokens."""

    name: str
    vocabulary: int
    rows: int
    prompt: int
    completion: int


SHORT = Case("1k vocabulary, short prompts", 1024, 8, 64, 128)
LONG = Case("32k vocabulary, long prompts", 32768, 4, 1024, 64)


def main() -> bool:
    """Measure, print the figures and return whether all bounds hold."""
    results = [compare_time(SHORT), compare_time(LONG), compare_memory(LONG), measure_imitation(SHORT)]
    return all(results)


def compare_time(case: Case) -> bool:
    """Compare the time of one update step on the same batch."""
    with tempfile.TemporaryDirectory() as folder:
        model = save_model(Path(folder), case)
        rows = samples(case)
        steps = {"ours": our_step(model, rows), "TRL": trl_step(model, rows, case)}
        difference = abs(steps["ours"]() - steps["TRL"]())
        if difference > 1e-5:
            print(f"update step, {case.name}: the losses differ by {difference:g}")
            return False
        seconds = interleaved_times(steps)
    ratio = statistics.median(seconds["ours"]) / statistics.median(seconds["TRL"])
    figures = ", ".join(f"{name} {summary(took)}" for name, took in seconds.items())
    print(f"update step, {case.name}: {figures}: {ratio:.2f} of TRL (bound {TIME_RATIO:g})")
    return ratio <= TIME_RATIO


def compare_memory(case: Case) -> bool:
    """Compare the peak memory of two update steps beyond the loaded model. Each side has its own process."""
    peaks = {}
    for name in ("ours", "TRL"):
        done = subprocess.run(
            [sys.executable, "-m", "bench.finetune_step", "--peak-of", name],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        peaks[name] = float(done.stdout.split()[-1])
    ratio = peaks["ours"] / peaks["TRL"]
    figures = ", ".join(f"{name} {peak:.0f} MiB" for name, peak in peaks.items())
    print(f"peak memory, {case.name}: {figures}: {ratio:.2f} of TRL (bound below {MEMORY_RATIO:g})")
    return ratio < MEMORY_RATIO


def measure_imitation(case: Case) -> bool:
    """Compare a step with teacher-SFT and self-SFT with one without. The bound grows with the number of tokens."""
    with tempfile.TemporaryDirectory() as folder:
        model = save_model(Path(folder), case)
        rows = samples(case)
        teacher = samples(case, seed=1)
        tokens: dict[str, int] = {}
        steps = {
            "off": our_step(model, rows, count_tokens=lambda count: tokens.update(off=count)),
            "on": our_step(model, rows, teacher=teacher, count_tokens=lambda count: tokens.update(on=count)),
        }
        seconds = interleaved_times(steps)
    ratio = statistics.median(seconds["on"]) / statistics.median(seconds["off"])
    share = tokens["on"] / tokens["off"] - 1
    bound = 1 + share + IMITATION_MARGIN
    figures = ", ".join(f"{name} {summary(took)}" for name, took in seconds.items())
    print(f"imitation, {share:.0%} more tokens: {figures}: {ratio:.2f} of a step without (bound {bound:.2f})")
    return ratio <= bound


def print_peak(name: str) -> None:
    """Print the peak resident memory of two steps minus the memory before them, in MiB."""
    with tempfile.TemporaryDirectory() as folder:
        model, rows = save_model(Path(folder), LONG), samples(LONG)
        step = our_step(model, rows) if name == "ours" else trl_step(model, rows, LONG)
        before = memory_mib("VmRSS")
        step()
        step()
    print(memory_mib("VmHWM") - before)


def memory_mib(field: str) -> float:
    """A field of ``/proc/self/status``. The peak of ``getrusage`` is not used, because it includes the parent's."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise LookupError(f"/proc/self/status has no {field}")


def our_step(
    model: Path,
    rows: list[Sample],
    teacher: list[Sample] | None = None,
    count_tokens: Callable[[int], Any] | None = None,
    **changes: Any,
) -> Callable[[], float]:
    """The step of the offline training on ``rows``. Each call updates the weights and returns the loss."""
    torch.set_num_threads(1)
    settings: dict[str, Any] = {
        "model_name_or_path": str(model),
        "dataset_path": model,  # required, but not read here
        "use_peft": False,
        "bf16": False,
        "learning_rate": RATE,
        "lr_scheduler_type": "constant",
        "warmup_steps": 0,
        "weight_decay": 0.0,
        "max_grad_norm": CLIP,
        "per_device_train_batch_size": len(rows),
        "max_steps": 1000,
        "loss_type": "dapo",
        "epsilon": 0.2,
        "beta": 0.0,
        "temperature": 1.0,
        "teacher_sft_weight": 0.3 if teacher else 0.0,
        "self_sft_weight": 0.2 if teacher else 0.0,
    }
    config = GRPOTrainingConfig.model_validate(settings | changes)
    training = prepare(config, TrainingData([rows], teacher=teacher or []), model)
    steps = optimizer_steps(training)

    def step() -> float:
        before = training.num_tokens
        _, metrics = next(steps)
        if count_tokens is not None:
            count_tokens(training.num_tokens - before)
        return metrics["loss"]

    return step


def trl_step(
    model: Path, rows: list[Sample], case: Case, *, bf16: bool = False, output_dir: Path | None = None
) -> Callable[[], float]:
    """TRL's training step on the same rows, as the tensors that its own sampling would return."""
    torch.set_num_threads(1)
    on_gpu = torch.cuda.is_available()
    batch = {name: tensor.to("cuda" if on_gpu else "cpu") for name, tensor in trl_batch(rows, case).items()}

    class StoredBatchTrainer(GRPOTrainer):  # type: ignore[misc] # the package is not typed
        def _prepare_inputs(self, generation_batch: Any) -> dict[str, Any]:
            return batch

    config = GRPOConfig(
        output_dir=str(output_dir or model / "trl"),
        use_cpu=not on_gpu,
        bf16=bf16,
        model_init_kwargs={"dtype": "float32"},
        gradient_checkpointing=False,
        report_to="none",
        save_strategy="no",
        per_device_train_batch_size=len(rows),
        gradient_accumulation_steps=1,
        num_generations=2,
        max_completion_length=case.completion,
        temperature=1.0,
        loss_type="dapo",
        epsilon=0.2,
        beta=0.0,
    )
    trainer = StoredBatchTrainer(
        model=str(model),
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=config,
        train_dataset=Dataset.from_list([{"prompt": "w2"}] * len(rows)),
    )
    trainer.current_gradient_accumulation_steps = 1  # otherwise set by its training loop
    weights = list(trainer.model.parameters())
    optimizer = torch.optim.AdamW(weights, lr=RATE, weight_decay=0.0)

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = trainer.training_step(trainer.model, {}, None)
        torch.nn.utils.clip_grad_norm_(weights, CLIP)
        optimizer.step()
        return float(loss)

    return step


def save_model(folder: Path, case: Case) -> Path:
    """Save a random model of two layers and a word-level tokenizer in ``folder``."""
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=case.vocabulary,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    words = {"<pad>": 0, "<eos>": 1} | {f"w{number}": number for number in range(2, case.vocabulary)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>").save_pretrained(folder)
    return folder


def samples(case: Case, seed: int = 0) -> list[Sample]:
    """A group: one prompt, completions of half to full length, alternately wrong and right."""
    draw = random.Random(seed)
    prompt = tuple(draw.randrange(2, case.vocabulary) for _ in range(case.prompt))
    lengths = [case.completion - row * case.completion // (2 * case.rows) for row in range(case.rows)]
    return [
        Sample(
            group_id="g",
            prompt_ids=prompt,
            completion_ids=tuple(draw.randrange(2, case.vocabulary) for _ in range(length)),
            reward=float(row % 2),
            advantage=1.0 if row % 2 else -1.0,
            old_logps=tuple(draw.uniform(-1, 1) - 7.0 for _ in range(length)),
            ids_source="server",
            truncated=False,
            is_correct=bool(row % 2),
        )
        for row, length in enumerate(lengths)
    ]


def trl_batch(rows: list[Sample], case: Case) -> dict[str, Any]:
    """The rows as the padded tensors that ``GRPOTrainer`` computes the loss from."""
    ids = torch.zeros(len(rows), case.completion, dtype=torch.long)
    mask, old = torch.zeros_like(ids), torch.zeros(len(rows), case.completion)
    for index, row in enumerate(rows):
        length = len(row.completion_ids)
        ids[index, :length] = torch.tensor(row.completion_ids)
        old[index, :length] = torch.tensor(row.old_logps)
        mask[index, :length] = 1
    prompts = torch.tensor([row.prompt_ids for row in rows])
    return {
        "prompt_ids": prompts,
        "prompt_mask": torch.ones_like(prompts),
        "completion_ids": ids,
        "completion_mask": mask,
        "advantages": torch.tensor([row.advantage for row in rows]),
        "old_per_token_logps": old,
        "num_items_in_batch": mask.sum(),
    }


def interleaved_times(steps: dict[str, Callable[[], float]], rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Seconds of each step in interleaved rounds, so that load affects all steps. The first round is a warm-up."""
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(rounds + 1):
        for name, step in steps.items():
            started = time.perf_counter()
            step()
            if number:
                seconds[name].append(time.perf_counter() - started)
    return seconds


def summary(seconds: list[float]) -> str:
    return f"{1000 * statistics.median(seconds):.0f} ms ({1000 * min(seconds):.0f}-{1000 * max(seconds):.0f})"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peak-of", choices=["ours", "TRL"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    logging.disable_progress_bar()
    if arguments.peak_of:
        print_peak(arguments.peak_of)
    else:
        sys.exit(0 if main() else 1)
