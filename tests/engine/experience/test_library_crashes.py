import json
import multiprocessing
import os
import random
import select
import signal
import time

import pytest

from engine.errors import InputError
from engine.experience.library import ExperienceLibrary
from engine.records import Operation
from tests.support.library import CONTENTS, add, commit, contents, entries, log_of, outcome

FORK = multiprocessing.get_context("fork")


def test_a_log_cut_at_any_byte_of_its_last_line_is_recovered(library, path):
    log, stored = log_of(path).read_bytes(), path.read_bytes()
    start = log[:-1].rfind(b"\n") + 1
    before = library.history()[-1].before
    for cut in range(start, len(log) + 1):
        log_of(path).write_bytes(log[:cut])
        path.write_bytes(json.dumps(json.loads(stored)[:2], indent=2).encode() + b"\n")  # crash before this
        again = ExperienceLibrary(path)
        if cut >= len(log) - 1:
            assert again.state == library.state
            assert path.read_bytes() == stored
        else:
            assert again.state == before
            number = commit(again, outcome(2), [add(CONTENTS[2])]).applied[0].id
            assert number == "G1-003"


def test_after_a_crash_between_log_and_file_the_file_is_restored_from_the_log(library, path):
    stored = path.read_bytes()
    commit(library, outcome(3), [add(CONTENTS[3])])
    newer = path.read_bytes()
    for old in (stored, None):
        path.unlink() if old is None else path.write_bytes(old)
        again = ExperienceLibrary(path)
        assert again.state == library.state
        assert path.read_bytes() == newer
        assert again.notices == []
        assert len(again.history()) == 4


def test_an_import_or_edit_interrupted_by_a_crash_is_not_applied_twice(path):
    foreign = json.dumps([{"content": CONTENTS[0]}, {"id": "X-9", "content": CONTENTS[1]}]).encode()
    path.write_bytes(foreign)
    first = ExperienceLibrary(path).state
    path.write_bytes(foreign)
    again = ExperienceLibrary(path)
    assert again.state == first
    edited = json.dumps([*entries(path), {"content": CONTENTS[2]}]).encode()
    path.write_bytes(edited)
    after = ExperienceLibrary(path).state
    path.write_bytes(edited)
    assert ExperienceLibrary(path).state == after


def test_an_invalid_line_in_the_log_is_an_error_with_its_number(library, path):
    lines = log_of(path).read_bytes().splitlines(keepends=True)
    log_of(path).write_bytes(lines[0] + b'{"event": "step", "at": 3}\n' + lines[2])
    with pytest.raises(InputError, match="line 2"):
        ExperienceLibrary(path)


def test_a_log_that_is_removed_during_a_run_is_an_error(library, path):
    log_of(path).unlink()
    with pytest.raises(InputError, match="replaced or truncated"):
        commit(library, outcome(9))


def _commit_forever(path, run, pipe, first):
    library = ExperienceLibrary(path)
    for number in range(first, first + 10**6):
        if library.state.experiences[20:]:
            library.edit(Operation(op="remove", id=library.state.live[0].id))
        result = commit(library, outcome(number, run=run), [add(f"Rule w{number}a w{number}b of {run}.")])
        os.write(pipe, f"{number} {result.applied[-1].id}\n".encode())


def test_sigkill_of_two_writers_at_random_moments_loses_no_operation(path):
    chance = random.Random(2)
    reported = {}
    begun = {"a": 0, "b": 0}
    for _ in range(4):
        children = []
        for run in begun:
            inside, outside = os.pipe()
            process = FORK.Process(target=_commit_forever, args=(path, run, outside, begun[run]))
            process.start()
            os.close(outside)
            children.append((run, process, inside))
        for _, _, inside in children:  # on a busy machine one of them may start late
            select.select([inside], [], [], 30)
        time.sleep(chance.random() * 0.08)
        for run, process, inside in children:
            os.kill(process.pid, signal.SIGKILL)
            process.join()
            with os.fdopen(inside, "rb") as pipe:
                for line in pipe.read().splitlines(keepends=True):
                    if line.endswith(b"\n"):
                        number, experience_id = line.split()
                        reported[run, int(number)] = experience_id.decode()
        library = ExperienceLibrary(path)
        assert json.loads(path.read_bytes()) == [
            experience.model_dump(mode="json") for experience in library.state.experiences
        ]
        steps = [entry.event for entry in library.history() if entry.event.event == "step"]
        recorded = {(step.run, step.step): step.operations[-1].id for step in steps}
        assert reported.items() <= recorded.items()
        ids = [operation.id for step in steps for operation in step.operations]
        assert len(ids) == len(set(ids))
        begun = {run: 1 + max([step for name, step in recorded if name == run], default=-1) for run in begun}
    assert min(begun.values()) > 3


def test_two_concurrent_writers_lose_no_operation(path):
    def work(run):
        library = ExperienceLibrary(path)
        for number in range(25):
            commit(library, outcome(number, run=run), [add(f"Rule w{number}a w{number}b of {run}.")])

    processes = [FORK.Process(target=work, args=(run,)) for run in ("a", "b")]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    library = ExperienceLibrary(path)
    assert sorted(contents(library)) == sorted(f"Rule w{n}a w{n}b of {run}." for n in range(25) for run in "ab")
    assert [lesson.id for lesson in library.state.experiences] == [f"G1-{number:03d}" for number in range(1, 51)]
