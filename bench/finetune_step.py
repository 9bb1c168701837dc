"""An update step of the fine-tune beside TRL's on the same stored batch: time, peak memory, the price of imitation.

``python bench/finetune_step.py``. Ours is the step of the offline training, with all that it does: rows to tensors,
log-probs, loss, figures, gradient clipping, AdamW. TRL's is ``GRPOTrainer.training_step`` on the ready batch, the same
clipping and AdamW; its sampling and scoring are left out. Both train all weights of the same random model, with beta 0
and on one core. Their losses are compared first, for a ratio of two different things would mean nothing.
Both measure the entropy. On a CPU, TRL sends prompt positions through the head too; on a GPU it leaves them out as we
do, so these ratios are those of CPUs.
Leaves with status 1 where a bound is missed, with 0 and a reason where TRL is not installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

if TYPE_CHECKING:
    from collections.abc import Callable

    from grpo_training.finetune.data.samples import Sample

TIME_RATIO, MEMORY_RATIO, BEYOND_TOKENS = 1.05, 1.0, 0.05
ROUNDS = 5
RATE, CLIP = 1e-4, 1.0


@dataclass(frozen=True)
class Case:
    """A model's vocabulary and a batch's size, in tokens."""

    name: str
    vocabulary: int
    rows: int
    prompt: int
    completion: int


SHORT = Case("1k vocabulary, short prompts", 1024, 8, 64, 128)
LONG = Case("32k vocabulary, long prompts", 32768, 4, 1024, 64)


def main() -> bool:
    """Measure and print; whether all bounds hold."""
    if importlib.util.find_spec("trl") is None:
        print("fine-tune step: skipped, TRL is not installed (make finetune)")
        return True
    quiet()
    results = [time_beside_trl(SHORT), time_beside_trl(LONG), memory_beside_trl(LONG), price_of_imitation(SHORT)]
    return all(results)


def quiet() -> None:
    """No requests to the hub, no progress bars, no GPU."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "TOKENIZERS_PARALLELISM": "false"}
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    from transformers.utils import logging

    logging.disable_progress_bar()


def time_beside_trl(case: Case) -> bool:
    """The update step on one batch, in turns."""
    with tempfile.TemporaryDirectory() as folder:
        model = save_model(Path(folder), case)
        rows = samples(case)
        steps = {"ours": our_step(model, rows), "TRL": trl_step(model, rows, case)}
        difference = abs(steps["ours"]() - steps["TRL"]())
        if difference > 1e-5:
            print(f"update step, {case.name}: the losses differ by {difference:g}")
            return False
        seconds = in_turns(steps)
    ratio = statistics.median(seconds["ours"]) / statistics.median(seconds["TRL"])
    figures = ", ".join(f"{name} {described(took)}" for name, took in seconds.items())
    print(f"update step, {case.name}: {figures}: {ratio:.2f} of TRL (bound {TIME_RATIO:g})")
    return ratio <= TIME_RATIO


def memory_beside_trl(case: Case) -> bool:
    """What two update steps take beyond the loaded model, each in a process of its own."""
    peaks = {}
    for name in ("ours", "TRL"):
        done = subprocess.run(
            [sys.executable, __file__, "--peak-of", name], check=True, stdout=subprocess.PIPE, text=True
        )
        peaks[name] = float(done.stdout.split()[-1])
    ratio = peaks["ours"] / peaks["TRL"]
    figures = ", ".join(f"{name} {peak:.0f} MiB" for name, peak in peaks.items())
    print(f"peak memory, {case.name}: {figures}: {ratio:.2f} of TRL (bound below {MEMORY_RATIO:g})")
    return ratio < MEMORY_RATIO


def price_of_imitation(case: Case) -> bool:
    """A step with teacher-SFT and self-SFT beside one without, and how many more tokens it holds."""
    with tempfile.TemporaryDirectory() as folder:
        model = save_model(Path(folder), case)
        rows = samples(case)
        teacher = samples(case, seed=1)
        tokens: dict[str, int] = {}
        steps = {
            "off": our_step(model, rows, count_tokens=lambda seen: tokens.update(off=seen)),
            "on": our_step(model, rows, teacher=teacher, count_tokens=lambda seen: tokens.update(on=seen)),
        }
        seconds = in_turns(steps)
    ratio = statistics.median(seconds["on"]) / statistics.median(seconds["off"])
    share = tokens["on"] / tokens["off"] - 1
    bound = 1 + share + BEYOND_TOKENS
    figures = ", ".join(f"{name} {described(took)}" for name, took in seconds.items())
    print(f"imitation, {share:.0%} more tokens: {figures}: {ratio:.2f} of a step without (bound {bound:.2f})")
    return ratio <= bound


def print_peak(name: str) -> None:
    """Peak resident memory of two steps minus what was there before them, in MiB."""
    with tempfile.TemporaryDirectory() as folder:
        quiet()
        model, rows = save_model(Path(folder), LONG), samples(LONG)
        step = our_step(model, rows) if name == "ours" else trl_step(model, rows, LONG)
        before = memory_mib("VmRSS")
        step()
        step()
    print(memory_mib("VmHWM") - before)


def memory_mib(field: str) -> float:
    """A field of this process's status, on Linux. (The peak that ``getrusage`` gives includes the parent's.)"""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise LookupError(f"/proc/self/status has no {field}")


# ------------------------------------------------------------------ the two steps


def our_step(
    model: Path,
    rows: list[Sample],
    teacher: list[Sample] | None = None,
    count_tokens: Callable[[int], Any] | None = None,
) -> Callable[[], float]:
    """The offline training's step on ``rows``; each call updates the weights and gives the loss."""
    import torch

    from grpo_training.finetune.config import GRPOTrainingConfig
    from grpo_training.finetune.offline.loop import optimizer_steps
    from grpo_training.finetune.offline.training import prepare

    torch.set_num_threads(1)
    config = GRPOTrainingConfig(
        model_name_or_path=str(model),
        dataset_path=model,  # nothing is read from it
        use_peft=False,
        bf16=False,
        learning_rate=RATE,
        lr_scheduler_type="constant",
        warmup_ratio=0.0,
        weight_decay=0.0,
        max_grad_norm=CLIP,
        per_device_train_batch_size=len(rows),
        max_steps=1000,
        loss_type="dapo",
        epsilon=0.2,
        beta=0.0,
        temperature=1.0,
        teacher_sft_weight=0.3 if teacher else 0.0,
        self_sft_weight=0.2 if teacher else 0.0,
    )
    training = prepare(config, [rows], [], teacher or [], model)
    steps = optimizer_steps(training)

    def step() -> float:
        before = training.num_tokens
        _, metrics = next(steps)
        if count_tokens is not None:
            count_tokens(training.num_tokens - before)
        return metrics["loss"]

    return step


def trl_step(model: Path, rows: list[Sample], case: Case) -> Callable[[], float]:
    """TRL's training step on the same rows, in the tensors that its own sampling would have made."""
    import torch
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    torch.set_num_threads(1)
    batch = trl_batch(rows, case)

    class Stored(GRPOTrainer):
        def _prepare_inputs(self, generation_batch: Any) -> dict[str, Any]:
            return batch

    config = GRPOConfig(
        output_dir=str(model / "trl"),
        use_cpu=True,
        bf16=False,
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
    trainer = Stored(
        model=str(model),
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=config,
        train_dataset=Dataset.from_list([{"prompt": "w2"}] * len(rows)),
    )
    trainer.current_gradient_accumulation_steps = 1  # its training loop would set this
    weights = list(trainer.model.parameters())
    optimizer = torch.optim.AdamW(weights, lr=RATE, weight_decay=0.0)

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = trainer.training_step(trainer.model, {}, None)
        torch.nn.utils.clip_grad_norm_(weights, CLIP)
        optimizer.step()
        return float(loss)

    return step


# ------------------------------------------------------------------ a model, a batch, a clock


def save_model(folder: Path, case: Case) -> Path:
    """A random model of two layers with a tokenizer of words, in ``folder``."""
    import torch
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

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
    """A group: one prompt, completions of half the length and more, right and wrong in turns."""
    from grpo_training.finetune.data.samples import Sample

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
    import torch

    ids = torch.zeros(len(rows), case.completion, dtype=torch.long)
    mask, old = torch.zeros_like(ids), torch.zeros(len(rows), case.completion)
    for place, row in enumerate(rows):
        length = len(row.completion_ids)
        ids[place, :length] = torch.tensor(row.completion_ids)
        old[place, :length] = torch.tensor(row.old_logps)
        mask[place, :length] = 1
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


def in_turns(steps: dict[str, Callable[[], float]]) -> dict[str, list[float]]:
    """Seconds of each step, in interleaved rounds after one for warming up, so that a slow moment meets all."""
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(ROUNDS + 1):
        for name, step in steps.items():
            started = time.perf_counter()
            step()
            if number:
                seconds[name].append(time.perf_counter() - started)
    return seconds


def described(seconds: list[float]) -> str:
    return f"{1000 * statistics.median(seconds):.0f} ms ({1000 * min(seconds):.0f}-{1000 * max(seconds):.0f})"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peak-of", choices=["ours", "TRL"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peak_of:
        print_peak(arguments.peak_of)
    else:
        sys.exit(0 if main() else 1)
