"""Train the pocket model from scratch. Options: ``python -m grpo_training.pocket.train --help``."""

from collections.abc import Sequence

from grpo_training.cli.entry import run_command
from grpo_training.cli.parsing import parse_settings
from grpo_training.pocket.settings import PocketTrainSettings


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Continues from the checkpoint of the run folder, if there is one. Returns the exit code."""
    settings = parse_settings(
        PocketTrainSettings,
        argv,
        prog="python -m grpo_training.pocket.train",
        description="Makes the pocket model: tokenizer, training from scratch, evaluation, model card.",
    )
    from grpo_training.pocket.trainer import make_model

    make_model(settings)
    return 0


if __name__ == "__main__":
    run_command(main)
