import asyncio
import contextlib
import hashlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from engine.llm.journal import JournalError, ResponseJournal, request_keys
from engine.records import ChatRequest, Completion, Message, Sampling, Usage
from tests.conftest import ROOT


@pytest.fixture
def path(tmp_path):
    return tmp_path / "cache" / "journal.sqlite"


@pytest.fixture
def journal(path):
    journal = ResponseJournal(path)
    yield journal
    journal.close()


def key(name):
    return hashlib.sha256(str(name).encode()).hexdigest()


def ask(**changes):
    fields = {"role": "generator_1", "messages": (Message(role="user", content="7 × 8?"),), **changes}
    return ChatRequest(**fields)


def test_the_key_of_a_request_does_not_change_between_versions():
    """The hashed text in full. With another key all stored replies would be requested again."""
    request = ask(sampling=Sampling(temperature=0.3, seed=7), json_schema={"type": "object"})
    text = (
        '{"extra_body":{"top_k":5},"json_schema":{"type":"object"},"messages":[["user","7 × 8?"]],'
        '"model":"m","sampling":{"seed":7,"temperature":0.3}}\n2'
    )
    assert request_keys(request, "m", {"top_k": 5}, [2]) == [hashlib.sha256(text.encode()).hexdigest()]


def test_the_key_covers_exactly_what_determines_the_reply():
    def one(request, model="m", extra=None, index=0):
        return request_keys(request, model, extra or {}, [index])[0]

    plain = one(ask())
    assert one(ask(role="critic")) == plain
    assert one(ask(purpose="fusion")) == plain
    others = [
        one(ask(), model="m2"),
        one(ask(), extra={"top_k": 1}),
        one(ask(), index=1),
        one(ask(sampling=Sampling(temperature=0.0))),
        one(ask(sampling=Sampling(logprobs=True))),
        one(ask(json_schema={})),
        one(ask(messages=(Message(role="system", content="7 × 8?"),))),
        one(ask(messages=(Message(role="user", content="7 × 8?"), Message(role="user", content="")))),
    ]
    assert len({plain, *others}) == 1 + len(others)


async def test_stored_replies_are_found_by_another_journal_of_the_same_file(journal, path):
    completion = Completion(
        text="Ω = 3\n",
        reasoning="…",
        usage=Usage(prompt_tokens=3, cost_usd=0.5),
        token_ids=[1, 2],
        logprobs=[-0.5, -1.0],
        ids_source="server",
        request_key=key(1),
    )
    assert await journal.put(key(1), completion) == completion
    other = ResponseJournal(path)
    assert other.get_many([key(1), key(2)]) == {key(1): completion}
    other.close()


async def test_replies_to_one_request_are_stored_together_or_not_at_all(journal, path):
    with contextlib.suppress(ZeroDivisionError), journal.at_once():
        await journal.put(key(1), Completion(text="x"))
        raise ZeroDivisionError  # a kill would end here
    assert journal.get_many([key(1)]) == {}
    with journal.at_once():
        for n in (1, 2):
            await journal.put(key(n), Completion(text=str(n)))
            other = sqlite3.connect(path)
            assert other.execute("SELECT COUNT(*) FROM replies").fetchone() == (0,)
            other.close()
    assert list(journal.get_many([key(1), key(2)])) == [key(1), key(2)]


async def test_the_first_reply_for_a_key_is_kept_and_returned_to_the_second_caller(journal, path):
    other = ResponseJournal(path)
    await other.put(key(1), Completion(text="first"))
    late = await asyncio.gather(*(journal.put(key(n), Completion(text="second")) for n in (0, 1, 2)))
    assert [completion.text for completion in late] == ["second", "first", "second"]
    assert journal.get_many([key(1)])[key(1)].text == "first"
    other.close()


async def test_a_reply_is_stored_in_less_than_a_tenth_of_a_millisecond(journal):
    completion = Completion(text="a line of a reply\n" * 80)

    async def cpu_each(run):
        began = time.process_time()
        for number in range(2048):
            await journal.put(key((run, number)), completion)
        return (time.process_time() - began) / 2048

    assert min([await cpu_each(run) for run in range(3)]) < 0.1e-3


async def test_more_keys_than_fit_into_one_statement(journal):
    names = [key(n) for n in range(1234)]
    await asyncio.gather(*(journal.put(name, Completion(text=name)) for name in names))
    completions = journal.get_many(names)
    assert {name: completion.text for name, completion in completions.items()} == {name: name for name in names}


async def test_an_unreadable_row_counts_as_absent_and_is_replaced(journal, path):
    await journal.put(key(1), Completion(text="x"))
    raw = sqlite3.connect(path)
    raw.execute("UPDATE replies SET completion = '{\"text\": 3'")
    raw.commit()
    raw.close()
    assert journal.get_many([key(1)]) == {}
    await journal.put(key(1), Completion(text="again"))
    assert journal.get_many([key(1)])[key(1)].text == "again"


@pytest.mark.parametrize("damage", ["CAST(x'ff00fe' AS TEXT)", "x'ff00fe'", "''", "7", "'[' || completion"])
async def test_a_damaged_row_leaves_the_others_readable(journal, path, damage):
    await journal.put(key(1), Completion(text="x"))
    await journal.put(key(2), Completion(text="y"))
    with sqlite3.connect(path) as raw:
        raw.execute(f"UPDATE replies SET completion = {damage} WHERE key = ?", (key(1),))
    raw.close()
    assert [completion.text for completion in journal.get_many([key(1), key(2)]).values()] == ["y"]
    await journal.put(key(1), Completion(text="again"))
    assert journal.get_many([key(1)])[key(1)].text == "again"


@pytest.mark.parametrize("damage", ["'{\"dropped\": ['", "CAST(x'ff00fe' AS TEXT)", "7", "''", "'[1]'"])
def test_damaged_capabilities_count_as_unknown_and_are_learnt_again(journal, path, damage):
    journal.remember_capabilities("http://a/v1", "m", {"dropped": ["n"]})
    with sqlite3.connect(path) as raw:
        raw.execute(f"UPDATE abilities SET facts = {damage}")
    raw.close()
    assert journal.capabilities("http://a/v1", "m", 60.0) == {}
    journal.remember_capabilities("http://a/v1", "m", {"dropped": ["n"]})
    assert journal.capabilities("http://a/v1", "m", 60.0) == {"dropped": ["n"]}


async def test_a_closed_journal_keeps_what_was_stored_and_stores_no_more(path):
    journal = ResponseJournal(path)
    assert (await journal.put(key(1), Completion(text="x"))).text == "x"
    journal.close()
    journal.close()
    with pytest.raises(JournalError, match="closed"):
        await journal.put(key(2), Completion(text="y"))
    again = ResponseJournal(path)
    assert set(again.get_many([key(1), key(2)])) == {key(1)}
    again.close()


async def test_on_a_full_disk_no_reply_is_acknowledged(journal, path):
    await journal.put(key(0), Completion(text="before"))
    pages = journal._database.execute("PRAGMA page_count").fetchone()[0]
    journal._database.execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(JournalError, match="full") as caught:
        await journal.put(key(1), Completion(text="x" * 100_000))
    assert str(path) in str(caught.value)
    assert "disk space" in caught.value.fix
    assert set(journal.get_many([key(0), key(1)])) == {key(0)}
    journal._database.execute("PRAGMA max_page_count=1000000")
    await journal.put(key(2), Completion(text="there is room again"))


def test_a_file_that_is_not_a_journal_is_an_error_with_its_path(tmp_path):
    path = tmp_path / "journal.sqlite"
    path.write_text("this is no database, and long enough to be looked at as one " * 20)
    with pytest.raises(JournalError, match=r"journal\.sqlite"):
        ResponseJournal(path)


def test_a_journal_of_a_newer_version_is_refused(path):
    ResponseJournal(path).close()
    raw = sqlite3.connect(path)
    raw.execute("PRAGMA user_version=99")
    raw.close()
    with pytest.raises(JournalError, match="newer"):
        ResponseJournal(path)


def test_capabilities_are_stored_per_address_and_model_and_expire(journal, path):
    journal.remember_capabilities("http://a/v1", "m", {"dropped": ["n"]})
    journal.remember_capabilities("http://a/v1", "m", {"dropped": ["n", "seed"]})
    other = ResponseJournal(path)
    assert other.capabilities("http://a/v1", "m", 60.0) == {"dropped": ["n", "seed"]}
    assert other.capabilities("http://a/v1", "m2", 60.0) == {}
    assert other.capabilities("http://a/v1", "m", -1.0) == {}
    other.close()


WRITER = textwrap.dedent("""
    import asyncio, hashlib, os, sys, time
    from pathlib import Path
    from engine.records import Completion
    from engine.llm.journal import ResponseJournal

    async def main(path, name, count):
        journal = ResponseJournal(Path(path))
        async def one(n):
            key = hashlib.sha256(f"{name}/{n}".encode()).hexdigest()
            await journal.put(key, Completion(text=f"{name}/{n}" * 50))
            os.write(1, f"{n}\\n".encode())      # acknowledged
        if count:
            await asyncio.gather(*(one(n) for n in range(count)))
        else:
            for start in range(0, 10**9, 16):
                await asyncio.gather(*(one(n) for n in range(start, start + 16)))
        journal.close()
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
""")


def start_writer(path, name, count=0):
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), name, str(count)],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def test_concurrent_processes_lose_no_reply(path):
    writers = {name: start_writer(path, name, 400) for name in ("a", "b", "c")}
    for writer in writers.values():
        writer.communicate(timeout=60)
        assert writer.returncode == 0
    journal = ResponseJournal(path)
    names = [f"{name}/{n}" for name in writers for n in range(400)]
    completions = journal.get_many([key(name) for name in names])
    assert [completions[key(name)].text for name in names] == [name * 50 for name in names]
    journal.close()


def test_sigkill_loses_no_acknowledged_reply(path):
    rng = random.Random(3)
    for turn in range(4):
        writer = start_writer(path, f"w{turn}")
        acknowledged = [int(writer.stdout.readline())]  # wait until it runs
        time.sleep(rng.uniform(0.0, 0.15))
        os.kill(writer.pid, signal.SIGKILL)
        lines = writer.stdout.read().split(b"\n")
        writer.wait(60)
        acknowledged += [int(line) for line in lines[:-1]]
        journal = ResponseJournal(path)
        names = [f"w{turn}/{n}" for n in acknowledged]
        completions = journal.get_many([key(name) for name in names])
        assert [completions[key(name)].text for name in names] == [name * 50 for name in names]
        assert journal._database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        journal.close()


@pytest.mark.parametrize("change", [Path.unlink, lambda path: path.rename(path.with_suffix(".moved"))])
async def test_a_journal_that_was_deleted_or_moved_is_an_error(tmp_path, change):
    journal = ResponseJournal(tmp_path / "own.sqlite")
    await journal.put("a", Completion(text="kept"))
    change(journal.path)
    with pytest.raises(JournalError, match=r"own\.sqlite[\s\S]*deleted or moved while it was in use"):
        await journal.put("b", Completion(text="lost"))
    journal.close()
