"""An exported environment of a user's task."""

import pytest

from engine.tasks import registry
from grpo_training.export import __main__ as export

TASK = """
from engine.tasks.simple import SimpleTask


def reward(text, row):
    if text == "crash":
        raise OSError("no checker")
    if text == "unmeasured length":
        return {"exact": 0.0}
    return {"exact": float(text == str(row["a"] + row["b"])), "short": 1.0 if len(text) < 4 else 0.5}


ROWS = [{"id": "one", "a": 1, "b": 2}, {"id": "two", "a": 3, "b": 4}]
WEIGHTS = {"exact": 0.5, "short": 0.5}
TASK = SimpleTask("Add {a} and {b}.", reward, name="add_two", rows=ROWS, reward_weights=WEIGHTS)
"""


@pytest.fixture
def task_file(tmp_path):
    file = tmp_path / "add_two.py"
    file.write_text(TASK)
    return file


@pytest.fixture
def exported(task_file, monkeypatch):
    """Exports the task in a format; the folder. The task is unknown afterwards, as in another process."""

    def run(form, folder, *flags):
        monkeypatch.setattr(registry, "_registered", {})
        given = ["--to", form, "--dataset", "add_two", "--task", f"{task_file}:TASK", "--output", str(folder), *flags]
        assert export.main(given) == 0
        registry._registered.clear()
        return folder

    return run
