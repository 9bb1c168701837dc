"""The update step of the offline training with a real model, compared with TRL's on the same batch: tokens per second.

``python -m bench.real_model_step --model FOLDER``. Both train all weights with equal settings (see
:mod:`bench.finetune_step`): on the CPU in float32 with one thread; with ``CUDA_VISIBLE_DEVICES=0`` on that GPU in
bfloat16 with float32 weights, where the peak memory of a step is printed too. The rows are replies to one prompt,
which our step computes once on a CPU, and on a GPU with FlexAttention. Tokens are those of the prompt and the
completion of each row, without padding. ``--profile`` also prints which operators (on a GPU: which kernels) take the
time of a step. Exits with status 1 if the losses differ. Needs TRL (``make finetune``).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from bench.finetune_step import Case, interleaved_times, our_step, samples, summary, trl_step

# After bench.finetune_step, which sets what these two read when they are imported.
from grpo_training.train.objective.packing import FLEX  # isort: skip
import torch  # isort: skip
from torch.profiler import ProfilerActivity, profile  # isort: skip
from transformers import AutoConfig  # isort: skip

if TYPE_CHECKING:
    from collections.abc import Callable


OPERATORS = 10  # of a profile


def main(
    model: Path, output_dir: Path, *, rows: int, prompt: int, completion: int, rounds: int, profiled: bool
) -> bool:
    """Measure, print the figures and return whether the losses agree."""
    case = Case(model.name, AutoConfig.from_pretrained(model).vocab_size, rows, prompt, completion)
    batch, bf16 = samples(case), torch.cuda.is_available()
    steps = {
        "TRL": trl_step(model, batch, case, bf16=bf16, output_dir=output_dir),
        "ours": our_step(model, batch, bf16=bf16, max_seq_length=prompt + completion),
    }
    if bf16:
        steps["FlexAttention"] = our_step(
            model, batch, bf16=bf16, max_seq_length=prompt + completion, attn_implementation=FLEX
        )
    losses = {name: step() for name, step in steps.items()}
    tolerance = 1e-2 if bf16 else 1e-4
    agree = max(abs(loss - losses["TRL"]) for loss in losses.values()) <= tolerance
    if not agree:
        print(f"the losses differ: {losses}")
    seconds = interleaved_times(steps, rounds)
    tokens = sum(row.length for row in batch)
    print(f"{case.name}: {rows} rows, {tokens} tokens a step, {'bfloat16 on a GPU' if bf16 else 'float32 on one core'}")
    base = statistics.median(seconds["TRL"])
    for name, took in seconds.items():
        median = statistics.median(took)
        memory = f", peak {peak_mib(steps[name]):.0f} MiB above the models" if bf16 else ""
        print(f"  {name:13} {summary(took)}, {tokens / median:.0f} tokens/s, {base / median:.2f} of TRL{memory}")
    if profiled:
        for name, step in steps.items():
            print(f"  {name}: {', '.join(largest_parts(step, on_gpu=bf16))}")
    return agree


def peak_mib(step: Callable[[], float]) -> float:
    """The peak of the GPU memory of a step above what was allocated before it."""
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step()
    return float(torch.cuda.max_memory_allocated() - before) / 2**20


def largest_parts(step: Callable[[], float], *, on_gpu: bool) -> list[str]:
    """The operators or kernels that take most of a step, each with its share of the step's time in percent."""
    with profile(activities=[ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU]) as recorded:
        step()
    times = {
        event.key: event.self_device_time_total if on_gpu else event.self_cpu_time_total
        for event in recorded.key_averages()
    }
    total = sum(times.values())
    largest = sorted(times.items(), key=lambda entry: entry[1], reverse=True)[:OPERATORS]
    return [f"{name} {100 * time / total:.0f} %" for name, time in largest]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=lambda text: Path(text).resolve(), required=True, help="folder of a model")
    parser.add_argument("--rows", type=int, default=4, help="rows of the batch")
    parser.add_argument("--prompt", type=int, default=64, help="tokens of the prompt")
    parser.add_argument("--completion", type=int, default=64, help="tokens of the longest completion")
    parser.add_argument("--rounds", type=int, default=5, help="measured rounds")
    parser.add_argument("--profile", action="store_true", help="print what takes the time of a step")
    given = parser.parse_args()
    sizes = {name: getattr(given, name) for name in ("rows", "prompt", "completion", "rounds")}
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(0 if main(given.model, Path(folder), **sizes, profiled=given.profile) else 1)
