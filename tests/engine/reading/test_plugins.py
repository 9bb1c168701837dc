import importlib
import json
import os
import shutil
import subprocess
import sys

import pytest

from engine.errors import InputError
from engine.reading.plugins import load_object, source_digest
from tests.conftest import ROOT


def test_the_digest_of_a_package_is_of_its_modules_and_not_of_packages_of_node(tmp_path, monkeypatch):
    (tmp_path / "digested/node/node_modules/flatted").mkdir(parents=True)
    (tmp_path / "digested/__init__.py").write_text("class Task:\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    task = importlib.import_module("digested").Task
    before = source_digest([task])
    (tmp_path / "digested/node/node_modules/flatted/flatted.py").write_text("installed = True")
    assert source_digest([task]) == before
    (tmp_path / "digested/node/reading.py").write_text("read = True")
    assert source_digest([task]) != before


DIGESTS = """
import json, os, sys
from engine.task import Task
from engine.tasks.registry import known_tasks
tasks = list(known_tasks())
for _ in sys.stdin:
    if os.fork() == 0:
        print(json.dumps({task.name: Task.verifier(task)["source"] for task in tasks}), flush=True)
        os._exit(0)
    os.wait()
"""
"""Prints the digests for each line that it reads, each time in a process that has computed none before."""


def test_the_digest_of_a_task_covers_what_its_verdicts_depend_on(tmp_path):
    """A line is added to one module after the other; the tasks that it changes."""
    for package in ("engine", "prompts"):
        shutil.copytree(
            ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("node_modules", "__pycache__")
        )

    changed = {}
    with subprocess.Popen(
        [sys.executable, "-c", DIGESTS], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip

        def digests():
            process.stdin.write("\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        before = digests()
        for module in (
            *("llm/retry.py", "llm/client.py", "task.py", "tasks/scaffold_task.py", "answers/comparison.py"),
            *("tasks/traffic/rows.py", "tasks/phaser/node/src/infer.js", "sandbox/levels.py"),
        ):
            path = tmp_path / "engine" / module
            source = path.read_bytes()
            path.write_bytes(source + b"\n// \n" if path.suffix == ".js" else source + b"\n# a comment\n")
            changed[module] = {name for name, digest in digests().items() if digest != before[name]}
            path.write_bytes(source)
    assert changed == {
        "llm/retry.py": set(),
        "llm/client.py": set(),
        "task.py": set(),
        "tasks/scaffold_task.py": {"math", "physics"},
        "answers/comparison.py": {"math", "physics", "answers"},
        "tasks/traffic/rows.py": {"traffic"},
        "tasks/phaser/node/src/infer.js": {"phaser"},
        "sandbox/levels.py": {"code", "phaser"},
    }


def test_the_digest_of_a_file_is_of_the_file_and_of_what_it_imports_from_the_engine(tmp_path, monkeypatch):
    def digest(name, source):
        (tmp_path / f"{name}.py").write_text(source)
        monkeypatch.syspath_prepend(tmp_path)
        return source_digest([importlib.import_module(name).reward])

    alone = digest("own_reward", "def reward(reply): return 1.0\n")
    assert digest("same_reward", "def reward(reply): return 1.0\n") == alone
    assert digest("other_reward", "def reward(reply): return 0.0\n") != alone
    with_import = "from engine.answers.verify import verify_answer\n\ndef reward(reply): return 1.0\n"
    assert digest("importing_reward", with_import) != alone


def test_the_digest_of_a_file_covers_the_modules_beside_it_that_it_imports(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "rates_beside.py").write_text("RATE = 1.0\n")
    (tmp_path / "fields_beside.py").write_text("import rates_beside\n")
    (tmp_path / "own.py").write_text("from fields_beside import rates_beside\n\ndef reward(text): return 1.0\n")
    reference = f"{tmp_path}/own.py:reward"
    digest = source_digest([load_object(reference)])
    (tmp_path / "not_used.py").write_text("RATE = 2.0\n")
    assert source_digest([load_object(reference)]) == digest
    (tmp_path / "rates_beside.py").write_text("RATE = 2.0\n")
    assert source_digest([load_object(reference)]) != digest


@pytest.mark.parametrize("line", ["import no_such_module_2", "import helper_beside", "from .helper_beside import x"])
def test_an_import_that_fails_says_why_and_where_modules_are_looked_for(line, tmp_path):
    (tmp_path / "own_task.py").write_text(f"{line}\n")
    (tmp_path / "helper_beside.py").write_text("x = 1\n")
    with pytest.raises(InputError) as refused:
        load_object(f"{tmp_path}/own_task.py:TASK")
    assert f"PYTHONPATH={tmp_path}" in refused.value.fix
    assert refused.value.why.endswith("(line 1)")


@pytest.mark.parametrize("source", ["p.jsonl", "data/p.jsonl", "./p.jsonl", "no_such_module", "json.no_such_module"])
def test_a_place_that_is_no_python_code_is_refused_with_what_is_expected(source):
    with pytest.raises(InputError) as refused:
        load_object(f"{source}:TASK")
    assert refused.value.what == f"Cannot import {source}"
    assert "FILE.py:NAME or MODULE:NAME" in refused.value.fix


@pytest.mark.parametrize("place", ["own_task:TASK", "{folder}/own_task.py:TASK"])
def test_a_module_that_lacks_another_one_is_told_apart(place, tmp_path, monkeypatch):
    (tmp_path / "own_task.py").write_text("import no_such_module\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=r"Cannot import .*own_task(.py)?\nModuleNotFoundError: .*no_such_module"):
        load_object(place.format(folder=tmp_path))


def test_the_line_of_an_error_in_a_file_of_the_user_is_named(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("import math\n\nTASK = SimpleTusk()\n")
    with pytest.raises(InputError, match=r"NameError: name 'SimpleTusk' is not defined \(line 3\)"):
        load_object(f"{path}:TASK")
