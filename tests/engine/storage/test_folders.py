from pathlib import Path

import pytest

from engine.errors import InputError
from engine.storage.folders import replace_folder


def write(folder: Path, content: str = "new") -> None:
    folder.mkdir()
    for name in ("a", "b"):
        (folder / name).write_text(content)


def nothing() -> None:
    pass


def contents(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_a_failure_leaves_the_folder_that_was_there(tmp_path, monkeypatch):
    replace_folder(tmp_path / "out", lambda folder: write(folder, "old"), nothing)

    def broken(folder):
        write(folder)
        raise OSError("broken")

    with pytest.raises(OSError, match="broken"):
        replace_folder(tmp_path / "out", broken, nothing)
    rename = Path.rename

    def once(path, target):
        if path.name == "new":
            raise OSError("broken")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", once)
    with pytest.raises(OSError, match="broken"):
        replace_folder(tmp_path / "out", write, nothing)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert contents(tmp_path / "out") == {"a": "old", "b": "old"}


def test_what_another_process_has_made_meanwhile_is_checked_too(tmp_path):
    def check():
        if (tmp_path / "out").exists() and not (tmp_path / "out/a").exists():
            raise InputError("not one of ours")

    def beside_another(folder):
        write(folder)
        (tmp_path / "out").mkdir()
        (tmp_path / "out/theirs").write_text("kept")

    with pytest.raises(InputError, match="not one of ours"):
        replace_folder(tmp_path / "out", beside_another, check)
    assert contents(tmp_path / "out") == {"theirs": "kept"}
