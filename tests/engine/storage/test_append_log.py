import errno
import json
import multiprocessing
import os
import random
import shutil
import signal
import time

import pytest

from engine.errors import InputError, LockHeldError
from engine.storage import append_log
from engine.storage.append_log import AppendLog, FileChangedError, replace_file, replacement, write_file, writer_of
from engine.storage.lines import LineReader, is_json_object
from tests.support.full_disk import largest_file
from tests.support.table import table

FORK = multiprocessing.get_context("fork")


def lines(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_lines_are_read_in_order(tmp_path):
    log = AppendLog(tmp_path / "deep" / "a.jsonl")
    with log.hold():
        for number in range(3):
            log.append(json.dumps({"n": number}).encode())
    assert [json.loads(line.text)["n"] for line in LineReader(log.path).read()] == [0, 1, 2]


def test_a_last_line_cut_at_any_byte_is_repaired(tmp_path):
    encoded = [json.dumps({"n": number, "text": "ünï\\n"}, ensure_ascii=False).encode() for number in range(3)]
    last = encoded[2] + b"\n"
    for cut in range(len(last) + 1):
        path = tmp_path / f"{cut}.jsonl"
        path.write_bytes(encoded[0] + b"\n" + encoded[1] + b"\n" + last[:cut])
        log = AppendLog(path)
        with log.hold():
            log.append(b'{"n": 9}')
        survived = cut >= len(last) - 1  # a line without its newline is complete
        assert [line["n"] for line in lines(path)] == ([0, 1, 2, 9] if survived else [0, 1, 9])


def test_a_very_long_torn_line_is_removed(tmp_path):
    path = tmp_path / "a.jsonl"
    tail = b"x" * 200_000
    path.write_bytes(b"{}\n" + tail)
    with AppendLog(path).hold():
        pass
    assert path.read_bytes() == b"{}\n"


def test_the_error_of_a_second_writer_names_the_first(tmp_path):
    first, second = AppendLog(tmp_path / "a.jsonl"), AppendLog(tmp_path / "a.jsonl", wait_s=0)
    with first.hold():
        assert str(os.getpid()) in (writer_of(first.path) or "")
        with (
            pytest.raises(LockHeldError, match=rf"a\.jsonl[\s\S]*process {os.getpid()} on ") as caught,
            second.hold(),
        ):
            pass
        assert isinstance(caught.value, BlockingIOError)
    assert writer_of(first.path) is None
    with second.hold():
        pass


def test_a_writer_waits_for_the_lock_up_to_its_limit(tmp_path):
    now = [0.0]

    def sleep(seconds):
        now[0] += seconds

    waiting = AppendLog(tmp_path / "a.jsonl", wait_s=3, sleep=sleep, clock=lambda: now[0])
    with AppendLog(tmp_path / "a.jsonl").hold(), pytest.raises(LockHeldError), waiting.hold():
        pass
    assert 3 <= now[0] < 3.1


def test_the_lock_of_a_killed_process_is_free(tmp_path):
    path = tmp_path / "a.jsonl"
    ready = FORK.Event()

    def hang():
        with AppendLog(path).hold():
            ready.set()
            time.sleep(60)

    process = FORK.Process(target=hang)
    process.start()
    assert ready.wait(60)
    assert f"process {process.pid} " in writer_of(path)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert writer_of(path) is None
    with AppendLog(path, wait_s=0).hold():
        pass


def test_sigkill_at_random_moments_loses_no_acknowledged_line(tmp_path):
    path = tmp_path / "a.jsonl"
    path.touch()  # on a busy machine the first writer may be killed before it begins
    chance = random.Random(1)

    def write(pipe, start):
        log = AppendLog(path)
        with log.hold():
            for number in range(start, start + 10**6):
                log.append(json.dumps({"n": number, "pad": "x" * (number * 37 % 5000)}).encode())
                os.write(pipe, b"%d\n" % number)

    count = 0
    for _ in range(12):
        inside, outside = os.pipe()
        process = FORK.Process(target=write, args=(outside, count))
        process.start()
        os.close(outside)
        time.sleep(0.02 + chance.random() * 0.05)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        with os.fdopen(inside, "rb") as stream:
            reported = [int(line) for line in stream.read().splitlines(keepends=True) if line.endswith(b"\n")]
        with AppendLog(path).hold():
            pass
        numbers = [line["n"] for line in lines(path)]
        assert numbers == list(range(len(numbers)))
        assert len(numbers) >= count + len(reported)
        count = len(numbers)
    assert count > 0


def test_a_full_disk_leaves_the_file_unchanged(tmp_path, monkeypatch):
    log = AppendLog(tmp_path / "a.jsonl")
    real = os.write

    def short(fd, content):
        if len(content) > 8:
            return real(fd, bytes(content[:8]))
        raise OSError(errno.ENOSPC, "No space left on device")

    with log.hold():
        log.append(b"{}")
        monkeypatch.setattr(append_log.os, "write", short)
        with pytest.raises(OSError, match="No space"):
            log.append(b'{"a": "long enough"}')
        monkeypatch.undo()
        log.append(b'{"b": 1}')
    assert lines(log.path) == [{}, {"b": 1}]


def test_short_writes_are_continued(tmp_path, monkeypatch):
    log = AppendLog(tmp_path / "a.jsonl")
    real = os.write
    monkeypatch.setattr(append_log.os, "write", lambda fd, content: real(fd, bytes(content[:3])))
    with log.hold():
        log.append(b'{"a": "long enough"}')
    assert lines(log.path) == [{"a": "long enough"}]


def test_append_needs_the_lock_and_a_single_line(tmp_path):
    log = AppendLog(tmp_path / "a.jsonl")
    with pytest.raises(RuntimeError, match="hold"):
        log.append(b"{}")
    with log.hold(), pytest.raises(ValueError, match="newline"):
        log.append(b"{\n}")


def test_a_line_that_is_too_long_is_refused_with_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(append_log, "MAX_LINE_BYTES", 10)
    log = AppendLog(tmp_path / "a.jsonl")
    with log.hold(), pytest.raises(InputError, match="at most 9 bytes, got 10") as caught:
        log.append(b"1234567890")
    assert "--rollouts" in caught.value.fix


def test_only_a_complete_object_is_a_complete_line():
    text = b'{"a": [1, {"b": "}"}]}'
    assert is_json_object(text)
    assert not any(is_json_object(text[:cut]) for cut in range(len(text)))
    assert not is_json_object(b"12")
    assert not is_json_object(b"[" * 100_000)


def test_a_reader_yields_each_complete_line_once(tmp_path):
    path = tmp_path / "a.jsonl"
    reader = LineReader(path)
    assert list(reader.read()) == []
    batches = []
    for chunk in (b'{"a"', b": 1}\n\n", b'{"b": 2}\n{"c"', b": 3}"):
        with path.open("ab") as stream:
            stream.write(chunk)
        batches.append([(line.number, line.text) for line in reader.read()])
    assert batches == [[], [(1, b'{"a": 1}')], [(3, b'{"b": 2}')], []]
    assert [(line.number, line.text) for line in reader.read(to_the_end=True)] == [(4, b'{"c": 3}')]


def test_a_torn_last_line_is_reported_at_the_end(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{}\n{"a')
    assert [line.fault for line in LineReader(path).read(to_the_end=True)] == ["", "the last line is cut off"]


def test_a_file_that_was_replaced_is_read_again(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": 2}\n')
    reader = LineReader(path)
    assert len(list(reader.read())) == 2
    assert not reader.replaced()
    replace_file(path, b'{"b": 1}\n')
    assert reader.replaced()
    assert [(line.number, line.text) for line in reader.read()] == [(1, b'{"b": 1}')]


def test_a_line_longer_than_the_limit_is_skipped_without_its_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr("engine.storage.lines.MAX_LINE_BYTES", 1 << 20)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1}\n' + b"x" * (3 << 20) + b'\n{"b": 2}\n')
    read_lines = [(line.number, line.text, line.fault) for line in LineReader(path).read()]
    assert read_lines == [(1, b'{"a": 1}', ""), (2, b"", "longer than 1 MiB"), (3, b'{"b": 2}', "")]


def test_a_file_is_replaced_atomically(tmp_path):
    path = tmp_path / "a.json"
    replace_file(path, b"old")
    with path.open("rb") as before:
        replace_file(path, b"new")
        assert before.read() == b"old"
    assert path.read_bytes() == b"new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


@table(
    ("change", "said"),
    [
        (lambda path: path.unlink(), "was deleted or moved"),
        (lambda path: path.rename(path.with_suffix(".moved")), "was deleted or moved"),
        (lambda path: shutil.move(path.parent, path.parent.with_suffix(".moved")), "was deleted or moved"),
        (lambda path: replace_file(path, b'{"n": 1}'), "was replaced"),
        (lambda path: path.write_bytes(b""), "was truncated"),
        (lambda path: os.truncate(path, 3), "was truncated"),
    ],
)
def test_a_file_that_another_program_changes_is_noticed_by_the_next_append_and_at_the_end(
    tmp_path_factory, change, said
):
    def run(log, appends):
        with log.hold():
            log.append(b'{"n": 1}')
            change(log.path)
            for _ in range(appends):
                log.append(b'{"n": 2}')

    for appends in (1, 0):
        log = AppendLog(tmp_path_factory.mktemp("a") / "deep" / "a.jsonl")
        with pytest.raises(FileChangedError, match=said) as caught:
            run(log, appends)
        assert str(log.path) in caught.value.what


def test_a_file_that_grows_by_another_program_is_accepted(tmp_path):
    log = AppendLog(tmp_path / "a.jsonl")
    with log.hold():
        log.append(b'{"n": 1}')
        with log.path.open("ab") as other:
            other.write(b'{"n": 2}\n')
        log.append(b'{"n": 3}')
    assert [line["n"] for line in lines(log.path)] == [1, 2, 3]


def test_a_full_disk_names_the_file(tmp_path, monkeypatch):
    def full(fd, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    log = AppendLog(tmp_path / "a.jsonl")
    monkeypatch.setattr(append_log, "write_all", full)
    with pytest.raises(OSError, match="No space left on device") as caught, log.hold():
        log.append(b"{}")
    assert caught.value.filename == str(log.path)


def test_processes_that_replace_the_same_file_do_not_disturb_each_other(tmp_path):
    path = tmp_path / "a.json"
    with replacement(path) as first:
        first.write(b"first")
        with replacement(path) as second:
            second.write(b"second")
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


def test_threads_that_replace_the_same_file_have_files_of_their_own(tmp_path):
    path = tmp_path / "a.json"
    with replacement(path) as first, replacement(path) as second, replacement(path) as third:
        for stream, content in ((first, b"first"), (second, b"second"), (third, b"third")):
            stream.write(content)
    assert [(entry.name, entry.read_bytes()) for entry in tmp_path.iterdir()] == [("a.json", b"first")]


def test_a_file_that_cannot_be_replaced_stays_and_is_named(tmp_path):
    path = tmp_path / "a.json"
    replace_file(path, b"old")
    with largest_file(1000), pytest.raises(OSError, match=r"a\.json") as caught:
        replace_file(path, bytes(5000))
    assert caught.value.filename == str(path)
    with pytest.raises(FileNotFoundError) as caught:
        replace_file(tmp_path / "no" / "b.json", b"new")
    assert caught.value.filename == str(tmp_path / "no" / "b.json")
    assert [(entry.name, entry.read_bytes()) for entry in tmp_path.iterdir()] == [("a.json", b"old")]


def test_a_file_is_written_in_a_folder_that_is_made(tmp_path):
    path = tmp_path / "new" / "folder" / "a.json"
    write_file(path, b"one")
    write_file(path, b"two")
    assert [(entry.name, entry.read_bytes()) for entry in path.parent.iterdir()] == [("a.json", b"two")]


def test_a_lock_that_cannot_name_its_holder_names_the_file(tmp_path, monkeypatch):
    def full(fd, content, offset):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="No space left on device") as caught, AppendLog(tmp_path / "a.jsonl").hold():
        pass
    assert caught.value.filename == str(tmp_path / "a.jsonl")
