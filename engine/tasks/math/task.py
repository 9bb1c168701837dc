"""Competition mathematics: an exact answer."""

from __future__ import annotations

from engine.tasks.scaffold_task import ScaffoldTask


class MathTask(ScaffoldTask):
    """Problems with an exact answer."""

    name = "math"
    answer_form = "an exact value: an integer, a fraction, an expression with radicals or pi"
    comparison = "exact"


TASK = MathTask()
