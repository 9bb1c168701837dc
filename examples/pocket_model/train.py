"""Train the pocket model from scratch. Options: ``python -m examples.pocket_model.train --help``."""

from collections.abc import Sequence

from examples.pocket_model.settings import PocketTrainSettings
from grpo_training.cli.entry import run_command
from grpo_training.cli.parsing import parse_settings


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Continues from the checkpoint of the run folder, if there is one. Returns the exit code."""
    settings = parse_settings(PocketTrainSettings, argv, "examples.pocket_model.train")
    from examples.pocket_model.trainer import make_model

    make_model(settings)
    return 0


if __name__ == "__main__":
    run_command(main)
