"""The error of a training that stops by itself."""

from __future__ import annotations

from engine.errors import ScaffoldError


class TrainingStoppedError(ScaffoldError, FloatingPointError):
    """A loss or a gradient is not finite. The weights are those of the last complete step."""

    exit_code = 3

    @classmethod
    def of(cls, quantity: str, computed_from: str) -> TrainingStoppedError:
        """The error of a step.

        Args:
            quantity: the loss or gradient, and the step.
            computed_from: names the rows.
        """
        return cls(
            f"{quantity} is not finite",
            why=f"It was computed from {computed_from}. No checkpoint has this step.",
            fix="Inspect those rows, lower learning_rate, or disable bf16. The last checkpoint is intact.",
        )
