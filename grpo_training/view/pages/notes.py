"""The form that writes the notes of a run."""

from __future__ import annotations

from collections.abc import Mapping

from grpo_training.view.data.notes import write_notes
from grpo_training.view.data.runs import LANDING, Store
from grpo_training.view.web.page import Operation, Params


def change(store: Store, fields: Mapping[str, str]) -> tuple[str, Params]:
    """Write the notes of the folder of a run."""
    run = store.run(fields.get("run", ""))
    write_notes(run.folder, fields.get("name", ""), fields.get("tags", ""), fields.get("note", ""))
    return LANDING[run.kind], {"run": run.id}


CHANGE = Operation("notes", change)
