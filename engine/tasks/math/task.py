"""Competition mathematics: an exact answer."""

from __future__ import annotations

from engine.contract.datasets import Dataset
from engine.tasks.math import DATASET_NAMES
from engine.tasks.math.datasets import AIME, aime_dataset, quickstart_dataset
from engine.tasks.scaffold_task import ScaffoldTask


class MathTask(ScaffoldTask):
    """Problems with an exact answer."""

    name = "math"
    dataset_names = DATASET_NAMES
    answer_form = "an exact value: an integer, a fraction, an expression with radicals or pi"
    comparison = "exact"

    def dataset(self, name: str) -> Dataset:
        """AIME or quickstart."""
        if name in AIME:
            return aime_dataset(name, self.problem_from_row)
        return quickstart_dataset(name)


TASK = MathTask()
