"""Competition mathematics: an exact answer."""

from engine.tasks.scaffold_task import REPLY_SCHEMA, ScaffoldTask

TASK = ScaffoldTask(
    name="math",
    answer_form="an exact value: an integer, a fraction, an expression with radicals or pi",
    kind="math",
    reply_schema=REPLY_SCHEMA,
)
