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


def test_after_a_crash_at_any_moment_the_old_or_the_new_folder_is_there(tmp_path):
    old, new = tmp_path / "merged.replaced", tmp_path / "merged"
    old.mkdir()
    (old / "a").write_text("old")
    (tmp_path / "merged.unfinished").mkdir()
    repair_folders(tmp_path)  # it died between the two renames
    assert (new / "a").read_text() == "old"
    old.mkdir()
    repair_folders(tmp_path)  # it died before the old one was removed
    assert [path.name for path in tmp_path.iterdir()] == ["merged"]
