"""Serve a local model over the OpenAI protocol. Options: ``python -m grpo_training.serve --help``."""

from collections.abc import Sequence

from grpo_training.cli.entry import run_command
from grpo_training.cli.parsing import parse_settings
from grpo_training.serve.settings import ServeSettings


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns the exit code."""
    settings = parse_settings(ServeSettings, argv, "grpo_training.serve")
    from grpo_training.serve.run import serve

    return serve(settings)


if __name__ == "__main__":
    run_command(main, resumes=False)
