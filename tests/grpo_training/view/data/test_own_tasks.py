"""Which files of tasks the viewer runs for the runs that name them."""

import pytest

from engine.tasks import registry
from grpo_training.view.data import own_tasks
from grpo_training.view.data.runs import Store
from grpo_training.view.pages import group as page
from grpo_training.view.web.page import Request
from tests.support.viewer_runs import group, write

TASK = """
from engine.tasks.simple import SimpleTask
class Own(SimpleTask):
    def truth(self, problem):
        return f'the word {problem.answer}'
TASK = Own('Say {word}', lambda text, row: 1.0, name='own')
"""


@pytest.fixture(autouse=True)
def working_dir(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.setattr(own_tasks, "WORKING_DIR", tmp_path / "work")
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def truth_on_the_page(folder, task):
    one = group("p", [0.1, 0.9]).model_copy(update={"task": "own", "ground_truth": "seven"})
    write(folder / "mails/cache/generator_1_rollouts.jsonl", [one], settings={"task": task})
    store = Store([folder])
    found = page.build(store, Request({"run": store.runs[0].id, "line": "1"}))
    return found["group"].truth.text


@pytest.mark.parametrize("is_absolute", [False, True])
def test_a_task_in_the_working_folder_is_known_without_the_flag(working_dir, is_absolute):
    path = working_dir / "tasks/own.py"
    path.parent.mkdir()
    path.write_text(TASK, encoding="utf-8")
    place = str(path) if is_absolute else "tasks/own.py"
    assert truth_on_the_page(working_dir / "runs", f"{place}:TASK") == "the word seven"


@pytest.mark.parametrize(
    "place",
    ["../own.py:TASK", "runs/own.py:TASK", "runs/mails/own.py:TASK", "tasks/../runs/own.py:TASK", "link.py:TASK"],
)
def test_a_file_that_may_have_come_with_the_results_is_not_run(working_dir, place):
    for path in ("runs/own.py", "runs/mails/own.py", "../own.py"):
        file = working_dir / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("from pathlib import Path\nPath(__file__).with_suffix('.ran').touch()\n" + TASK)
    (working_dir / "tasks").mkdir()
    (working_dir / "link.py").symlink_to(working_dir / "runs/own.py")
    assert truth_on_the_page(working_dir / "runs", place) == "seven"
    assert list(working_dir.parent.rglob("*.ran")) == []


@pytest.mark.parametrize(
    "text",
    ["TASK = 1\n", "from engine.records import Problem\n", "import engine\nTASK_OF = 1\n", "engine = TASK = 1\n"],
)
def test_another_script_of_the_user_is_not_run(working_dir, text):
    script = working_dir / "deploy.py"
    script.write_text(f"{text}from pathlib import Path\nPath(__file__).with_suffix('.ran').touch()\n")
    assert truth_on_the_page(working_dir / "runs", "deploy.py:TASK") == "seven"
    assert not script.with_suffix(".ran").exists()


@pytest.mark.parametrize("task", ["missing.py:TASK", "broken.py:TASK", "os:system", "math", ":", "\0.py:TASK", 7])
def test_a_task_that_cannot_be_loaded_leaves_the_page_as_it_is(working_dir, task):
    (working_dir / "broken.py").write_text("1 / 0\n")
    assert truth_on_the_page(working_dir / "runs", task) == "seven"
