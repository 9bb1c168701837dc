"""Generator 3: ``python -m grpo_training.generator3``."""

from grpo_training.command import run_command
from grpo_training.generator_process import main

if __name__ == "__main__":
    run_command(lambda: main(3))
