"""Keep the teacher traces that pass the tests. Options: ``python -m grpo_training.generate_teacher_traces --help``."""

from grpo_training.cli.entry import run_command
from grpo_training.teacher.generate import main

__all__ = ["main"]

if __name__ == "__main__":
    run_command(main)
