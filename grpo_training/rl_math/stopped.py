"""The error of a training that stops by itself."""

from engine.errors import ScaffoldError


class TrainingStoppedError(ScaffoldError, FloatingPointError):
    """A loss or a gradient is not finite. The weights are those of the last complete step."""

    exit_code = 3


def damaged_weights(step: int, weight: str) -> TrainingStoppedError:
    """The error of a step whose model has a weight that is not finite: neither its rows nor its settings are to blame.

    Args:
        step: its number, from 1.
        weight: the name of the weight.
    """
    return TrainingStoppedError(
        f"The loss of step {step} is not finite, as weights of the model are not",
        why=f"{weight} has values that are NaN or infinite. The model, its adapter or a checkpoint is damaged.",
        fix="Check the files of model_path, or download them again; after a resume, remove the damaged checkpoint so "
        "that the one before it is used.",
    )
