"""The error of a training that stops by itself."""

from engine.errors import ScaffoldError


class TrainingStoppedError(ScaffoldError, FloatingPointError):
    """A loss or a gradient is not finite. The weights are those of the last complete step."""

    exit_code = 3
