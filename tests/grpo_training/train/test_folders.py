import pytest

pytest.importorskip("safetensors")

from engine.errors import ScaffoldError
from grpo_training.train.folders import repair_folders, write_folder


def test_a_folder_is_replaced_completely(tmp_path):
    target = tmp_path / "merged"
    write_folder(target, lambda folder: (folder / "a").write_text("old"))
    write_folder(target, lambda folder: (folder / "b").write_text("new"))
    assert [path.name for path in target.iterdir()] == ["b"]
    assert [path.name for path in tmp_path.iterdir()] == ["merged"]


def test_a_writer_that_fails_leaves_the_old_folder_and_nothing_else(tmp_path):
    target = tmp_path / "merged"
    write_folder(target, lambda folder: (folder / "a").write_text("old"))

    def broken(folder):
        (folder / "a").write_text("half")
        raise OSError(28, "No space left on device")

    def interrupted(folder):
        (folder / "a").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(ScaffoldError, match=r"Cannot write .*merged") as raised:
        write_folder(target, broken)
    assert "No space left" in raised.value.why

    def without_a_type(folder):
        raise Exception("No space left on device (os error 28)")  # as tokenizers does

    with pytest.raises(ScaffoldError, match=r"Cannot write .*merged\nNo space left"):
        write_folder(target, without_a_type)
    with pytest.raises(KeyboardInterrupt):
        write_folder(target, interrupted)
    assert (target / "a").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["merged"]


def test_after_a_crash_only_whole_folders_are_there(tmp_path):
    write_folder(tmp_path / "merged", lambda folder: (folder / "a").write_text("whole"))
    (tmp_path / "merged.unfinished").mkdir()  # it died before the renaming
    repair_folders(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["merged"]
    assert (tmp_path / "merged/a").read_text() == "whole"
