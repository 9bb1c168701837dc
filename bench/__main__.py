"""``python -m bench`` runs all benchmarks. The exit status is 1 if a bound is exceeded."""

import importlib.util
import statistics
import subprocess
import sys
import time

from bench import rollout_cost

HELP_S = 0.5
COMMANDS = ("generator1", "critic", "experiences", "train", "evaluate", "doctor", "view")
SCRIPTS = ("client_throughput", "sandbox_speed", "viewer", "phaser_speed", "full_server", "scale", "finetune_step")


def help_times() -> bool:
    """Measure the time of ``--help``, the median of five runs, for each command; whether all bounds hold."""
    holds = True
    for command in COMMANDS:
        took = []
        for _ in range(5):
            started = time.perf_counter()
            subprocess.run(
                [sys.executable, "-m", f"grpo_training.{command}", "--help"],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            took.append(time.perf_counter() - started)
        median = statistics.median(took)
        holds &= median < HELP_S
        print(f"{command} --help: {median:.2f} s (bound {HELP_S:g})")
    return holds


def main() -> int:
    """Run the benchmarks one after another, because concurrent ones would compete for the processor."""
    results = [help_times(), rollout_cost.main()]
    for script in SCRIPTS:
        if script == "finetune_step" and importlib.util.find_spec("trl") is None:
            print("fine-tune step: skipped, TRL is not installed (make finetune)")
            continue
        results.append(subprocess.run([sys.executable, "-m", f"bench.{script}"], check=False).returncode == 0)
    print("all bounds hold" if all(results) else "a bound is exceeded")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
