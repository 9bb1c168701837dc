"""Generator 2: ``python -m grpo_training.generator2``."""

from grpo_training.cli.entry import run_command


def main(argv: list[str] | None = None) -> int:
    """The command. Returns the exit code."""
    from grpo_training.learning import generator as generator_process

    return generator_process.main(2, argv)


if __name__ == "__main__":
    run_command(main)
