import importlib

from engine.reading.plugins import source_digest


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
