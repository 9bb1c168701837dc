import importlib

import pytest

from engine.errors import InputError
from engine.reading.plugins import load_object, source_digest


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


@pytest.mark.parametrize("source", ["p.jsonl", "data/p.jsonl", "./p.jsonl", "no_such_module", "json.no_such_module"])
def test_a_place_that_is_no_python_code_is_refused_with_what_is_expected(source):
    with pytest.raises(InputError) as refused:
        load_object(f"{source}:TASK")
    assert refused.value.what == f"There is no Python file or module {source!r}"
    assert "FILE.py:NAME or MODULE:NAME" in refused.value.fix


@pytest.mark.parametrize("place", ["own_task:TASK", "{folder}/own_task.py:TASK"])
def test_a_module_that_lacks_another_one_is_told_apart(place, tmp_path, monkeypatch):
    (tmp_path / "own_task.py").write_text("import no_such_module\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=r"Cannot import .*own_task(.py)?\nModuleNotFoundError: .*no_such_module"):
        load_object(place.format(folder=tmp_path))
