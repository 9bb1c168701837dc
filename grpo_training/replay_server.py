"""Serve recorded replies over the OpenAI protocol. Options: ``python -m grpo_training.replay_server --help``."""

from collections.abc import Sequence

from grpo_training.cli.entry import run_command
from grpo_training.serve.settings import ReplaySettings


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns the exit code."""
    settings = ReplaySettings.parse(argv)
    from grpo_training.serve.replay import run_replay_server

    return run_replay_server(settings)


if __name__ == "__main__":
    run_command(main, resumes=False)
