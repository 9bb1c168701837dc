"""The index beside a log: it saves decoding, and what it holds never differs from what the log holds."""

import errno
import json
import os
import subprocess
import sys
import time

import pytest

from engine.storage import index_file
from engine.storage.index_file import Unreadable
from engine.storage.indexed_log import IndexedLog
from engine.storage.stored_records import StoredGroups
from engine.storage.summaries import GroupSummary, summarise_group

GROUPS = 12


def line(number, reward=0.5):
    rollouts = [{"rollout_id": 1, "answer": str(number), "r_total": reward, "r_ans": 1.0}]
    return json.dumps({"problem_id": f"p{number}", "ground_truth": "1", "step": number, "rollouts": rollouts}) + "\n"


class Log:
    """Reads a log through its index and counts the lines that are decoded."""

    def __init__(self, path, now_ns=lambda: time.time_ns() + 10**10):
        self.path, self.decoded, self._now_ns = path, 0, now_ns

    def read(self):
        self.decoded = 0
        log = IndexedLog(self.path, GroupSummary, self._summarise, save_bytes=1, now_ns=self._now_ns)
        return list(log.read(to_the_end=True))

    def _summarise(self, text, place):
        self.decoded += 1
        return summarise_group(text, place)

    @property
    def index(self):
        return self.path.with_name(self.path.name + ".index")

    def truth(self):
        """What a reader without an index reads."""
        bare = self.path.with_name("bare.jsonl")
        bare.write_bytes(self.path.read_bytes())
        return list(IndexedLog(bare, GroupSummary, summarise_group).read(to_the_end=True))


@pytest.fixture
def log(tmp_path):
    log = Log(tmp_path / "g.jsonl")
    log.path.write_text("\n".join(["", *map(line, range(GROUPS))]) + "{broken\n")
    log.read()
    assert log.decoded == GROUPS + 1
    return log


def test_a_log_that_has_not_changed_is_not_decoded_again(log):
    entries = log.read()
    assert log.decoded == 0
    assert entries == log.truth()
    assert [one.line for one in entries if isinstance(one, Unreadable)] == [2 * GROUPS + 1]


def test_what_was_appended_is_decoded_alone(log):
    with log.path.open("a") as stream:
        stream.write(line(98) + line(99))
    assert log.read() == log.truth()
    assert log.decoded == 2
    assert log.read() == log.truth()
    assert log.decoded == 0


def test_a_small_log_has_no_index(tmp_path):
    path = tmp_path / "g.jsonl"
    path.write_text(line(1))
    assert len(StoredGroups(path)) == 1
    assert [one.name for one in tmp_path.iterdir()] == ["g.jsonl"]


def edited(path):
    """The reward of a line in the middle, in the same number of bytes, with the time of change as it was."""
    status = path.stat()
    with path.open("r+b") as stream:
        content = stream.read().replace(line(5).encode(), line(5, 0.7).encode())
        stream.seek(0)
        stream.write(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def replaced(path):
    other = path.with_name("other")
    other.write_text("".join(line(number, 0.1) for number in range(GROUPS + 3)))
    other.replace(path)


CHANGES = {
    "edited": (edited, 2 + GROUPS - 6),
    "replaced": (replaced, GROUPS + 3),
    "truncated": (lambda path: os.truncate(path, 400), 1),
    "shortened to nothing": (lambda path: os.truncate(path, 0), 0),
    "a line put in front": (lambda path: path.write_text(line(77) + path.read_text()), GROUPS + 2),
    "last line not ended": (lambda path: path.write_text(path.read_text() + line(50).strip()), 1),
}


@pytest.mark.parametrize(("change", "decoded"), CHANGES.values(), ids=CHANGES)
def test_a_log_that_was_changed_is_read_as_it_is(log, change, decoded):
    change(log.path)
    assert log.read() == log.truth()
    assert log.decoded == decoded
    assert log.read() == log.truth()


def test_a_change_that_the_clock_cannot_tell_is_seen(tmp_path):
    """A log that was indexed right after it was written may change again within the same tick of the clock."""
    log = Log(tmp_path / "g.jsonl", now_ns=lambda: log.path.stat().st_mtime_ns)
    log.path.write_text("".join(map(line, range(GROUPS))))
    log.read()
    kept = index_file.LogState(*_state(log.path))
    index = index_file.IndexFile(log.index, GroupSummary)
    assert index.open() != kept


def _state(path):
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def test_a_line_whose_end_was_not_there_is_not_indexed(tmp_path):
    log = Log(tmp_path / "g.jsonl")
    log.path.write_text(line(1) + line(2).strip())
    log.read()
    with log.path.open("a") as stream:
        stream.write("\n" + line(3))
    assert log.read() == log.truth()
    assert log.decoded == 2


def test_the_index_may_be_cut_off_or_damaged_at_any_byte(log):
    whole, truth = log.index.read_bytes(), log.truth()
    for size in range(0, len(whole), 61):
        log.index.write_bytes(whole[:size])
        assert log.read() == truth
    for place in range(0, len(whole), 37):
        damaged = bytearray(whole)
        damaged[place] ^= 0x41
        log.index.write_bytes(damaged)
        assert log.read() == truth
        assert log.decoded > 0 or place < 80  # a header only vouches for frames
    assert log.read() == truth
    assert log.decoded == 0  # it was mended


def test_an_index_of_another_layout_is_not_used(log, monkeypatch):
    monkeypatch.setattr(index_file, "_VERSION", 2)
    assert log.read() == log.truth()
    assert log.decoded == GROUPS + 1


@pytest.mark.parametrize("written", [0, 10, 100, 500])
def test_a_full_disk_leaves_the_log_readable_and_takes_no_space(log, monkeypatch, written):
    truth, real, left = log.truth(), os.pwrite, [written]

    def pwrite(fd, content, offset):
        part = bytes(content)[: left[0]]
        left[0] -= len(part)
        if not part:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, part, offset)

    log.index.unlink()
    monkeypatch.setattr(index_file.os, "pwrite", pwrite)
    assert log.read() == truth
    assert log.index.stat().st_size == 0
    monkeypatch.undo()
    assert log.read() == truth
    assert log.decoded == GROUPS + 1
    assert log.read() == truth
    assert log.decoded == 0


def test_an_index_that_cannot_be_written_is_done_without(log):
    log.index.unlink()
    log.index.mkdir()
    assert log.read() == log.truth()
    assert log.decoded == GROUPS + 1


def test_two_readers_at_once_leave_a_valid_index(tmp_path):
    path = tmp_path / "g.jsonl"
    path.write_text("".join(map(line, range(GROUPS))))
    logs = [IndexedLog(path, GroupSummary, summarise_group, save_bytes=1) for _ in range(2)]
    entries = [[], []]
    readers = [log.read() for log in logs]
    for one in range(GROUPS):  # the lines in turn; each saves after every line
        for reader, found in zip(readers, entries, strict=True):
            found.append(next(reader))
        assert len(entries[0]) == one + 1
    with path.open("a") as stream:
        stream.write(line(99))
    for reader, found in zip(readers, entries, strict=True):
        found += reader
    log = Log(path)
    assert entries == [log.read()] * 2
    assert log.read() == log.truth()
    assert log.decoded == 0


def test_a_process_that_is_killed_leaves_a_valid_index(tmp_path):
    """It is killed in the middle of its writes, at another place each time; the next one goes on."""
    log = Log(tmp_path / "g.jsonl")
    log.path.write_text("".join(map(line, range(200))))
    program = (
        "import os, signal, sys; from pathlib import Path; from engine.storage import index_file\n"
        "from engine.storage.indexed_log import IndexedLog\n"
        "from engine.storage.summaries import GroupSummary, summarise_group\n"
        "real, left = os.pwrite, [int(sys.argv[2])]\n"
        "def pwrite(fd, content, offset):\n"
        "    done = real(fd, bytes(content)[: max(1, left[0])], offset); left[0] -= done\n"
        "    if left[0] <= 0: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return done\n"
        "index_file.os.pwrite = pwrite\n"
        "list(IndexedLog(Path(sys.argv[1]), GroupSummary, summarise_group, save_bytes=2000).read(to_the_end=True))\n"
    )
    for left in (1, 50, 1234, 5000):
        process = subprocess.run([sys.executable, "-c", program, log.path, str(left)], check=False)
        assert process.returncode == -9
    assert log.read() == log.truth()
    assert 0 < log.decoded < 200


def test_leaving_the_iteration_goes_on_with_the_next_line(log):
    reading = IndexedLog(log.path, GroupSummary, summarise_group)
    first = [one for _, one in zip(range(5), reading.read(to_the_end=True), strict=False)]
    assert [*first, *reading.read(to_the_end=True)] == log.truth()
