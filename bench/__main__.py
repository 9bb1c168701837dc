"""``python -m bench``: all benchmarks; status 1 where a bound is missed."""

import statistics
import subprocess
import sys
import time

from bench import rollout_cost

HELP_S = 0.5
COMMANDS = ("generator1", "critic", "experiences", "replay_server", "train", "evaluate", "doctor", "demo")
SCRIPTS = ("client_throughput", "sandbox_speed", "finetune_step")


def help_times() -> bool:
    """Seconds until ``--help`` has answered, median of five, for each command."""
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
    """Run them one after another: they would disturb each other side by side."""
    results = [help_times(), rollout_cost.main()]
    for script in SCRIPTS:
        results.append(subprocess.run([sys.executable, f"bench/{script}.py"], check=False).returncode == 0)
    print("all bounds hold" if all(results) else "a bound is missed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
