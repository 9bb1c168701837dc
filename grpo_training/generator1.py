"""Generator 1: ``python -m grpo_training.generator1``."""

from grpo_training.command import run_command
from grpo_training.generator_process import main

if __name__ == "__main__":
    run_command(lambda: main(1))
