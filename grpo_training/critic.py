"""Run the critic. Options: ``python -m grpo_training.critic --help``."""

from __future__ import annotations

from collections.abc import Sequence

from grpo_training.cli.entry import run_command


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code."""
    from grpo_training.cli.parsing import parse_settings
    from grpo_training.learning.settings import CriticSettings

    settings = parse_settings(CriticSettings, argv, "grpo_training.critic")
    from grpo_training.learning.critic import run_critic

    return run_critic(settings)


if __name__ == "__main__":
    run_command(main)
