"""Measure what the pocket model can do. Options: ``python -m examples.pocket_model.evaluate --help``."""

from collections.abc import Sequence

from examples.pocket_model.settings import PocketEvaluateSettings
from grpo_training.cli.entry import run_command
from grpo_training.cli.parsing import parse_settings
from grpo_training.serve.model_folder import find_model


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Prints the figures as JSON. Returns the exit code."""
    settings = parse_settings(PocketEvaluateSettings, argv, "examples.pocket_model.evaluate")
    find_model(settings.model)
    from examples.pocket_model.evaluation import print_figures

    return print_figures(settings)


if __name__ == "__main__":
    run_command(main)
