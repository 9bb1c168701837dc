import asyncio
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

ROOT = Path(__file__).resolve().parents[3]


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


def test_the_key_of_a_request_is_stable_over_versions():
    """The text that is hashed, written out: another key would pay for everything again."""
    request = ask(sampling=Sampling(temperature=0.3, seed=7), json_schema={"type": "object"})
    text = (
        '{"extra_body":{"top_k":5},"json_schema":{"type":"object"},"messages":[["user","7 × 8?"]],'
        '"model":"m","sampling":{"seed":7,"temperature":0.3}}\n2'
    )
    assert request_keys(request, "m", {"top_k": 5}, [2]) == [hashlib.sha256(text.encode()).hexdigest()]


def test_what_decides_a_reply_is_in_the_key_and_nothing_else():
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


async def test_what_was_put_is_found_by_another_journal_of_the_same_file(journal, path):
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


async def test_the_first_reply_to_a_key_stays_and_the_second_asker_gets_it(journal, path):
    other = ResponseJournal(path)
    await other.put(key(1), Completion(text="first"))
    late = await asyncio.gather(*(journal.put(key(n), Completion(text="second")) for n in (0, 1, 2)))
    assert [completion.text for completion in late] == ["second", "first", "second"]
    assert journal.get_many([key(1)])[key(1)].text == "first"
    other.close()


async def test_many_replies_share_a_commit(journal):
    """At 256 in flight a reply costs less than 0.1 ms, and far fewer commits than replies are made."""
    commits = []
    journal._writing.set_trace_callback(lambda sql: commits.append(sql) if "INSERT" in sql else None)
    completion = Completion(text="a line of a reply\n" * 80)

    async def caller(name):
        for turn in range(8):
            await journal.put(key((name, turn)), completion)

    async def cpu_each(part):
        began = time.process_time()
        await asyncio.gather(*(caller((part, name)) for name in range(256)))
        return (time.process_time() - began) / (256 * 8)

    best = min([await cpu_each(part) for part in range(3)])
    assert len(commits) < 3 * 256
    assert best < 0.1e-3


async def test_more_keys_than_a_statement_takes(journal):
    names = [key(n) for n in range(1234)]
    await asyncio.gather(*(journal.put(name, Completion(text=name)) for name in names))
    found = journal.get_many(names)
    assert {name: completion.text for name, completion in found.items()} == {name: name for name in names}


async def test_a_row_that_cannot_be_read_counts_as_absent_and_is_mended(journal, path):
    await journal.put(key(1), Completion(text="x"))
    raw = sqlite3.connect(path)
    raw.execute("UPDATE replies SET completion = '{\"text\": 3'")
    raw.commit()
    raw.close()
    assert journal.get_many([key(1)]) == {}
    await journal.put(key(1), Completion(text="again"))
    assert journal.get_many([key(1)])[key(1)].text == "again"


async def test_a_cancelled_caller_loses_nothing(journal):
    async def caller():
        await journal.put(key(1), Completion(text="paid for"))

    task = asyncio.create_task(caller())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await journal.put(key(2), Completion(text="x"))
    assert journal.get_many([key(1)])[key(1)].text == "paid for"


async def test_closing_writes_what_is_queued(path):
    journal = ResponseJournal(path)
    future = journal.put(key(1), Completion(text="x"))
    journal.close()
    journal.close()
    assert (await future).text == "x"
    with pytest.raises(JournalError, match="closed"):
        journal.put(key(2), Completion(text="y"))
    again = ResponseJournal(path)
    assert set(again.get_many([key(1), key(2)])) == {key(1)}
    again.close()


async def test_a_full_disk_is_told_and_nothing_is_acknowledged(journal, path):
    await journal.put(key(0), Completion(text="before"))
    pages = journal._writing.execute("PRAGMA page_count").fetchone()[0]
    journal._writing.execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(JournalError, match="full") as caught:
        await journal.put(key(1), Completion(text="x" * 100_000))
    assert str(path) in str(caught.value)
    assert "disk space" in caught.value.fix
    assert set(journal.get_many([key(0), key(1)])) == {key(0)}
    journal._writing.execute("PRAGMA max_page_count=1000000")
    await journal.put(key(2), Completion(text="there is room again"))


def test_a_file_that_is_no_journal_is_named(tmp_path):
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


def test_abilities_are_remembered_for_a_while_per_address_and_model(journal, path):
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
            os.write(1, f"{n}\\n".encode())      # acknowledged: the parent holds us to it
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


def test_processes_that_write_at_the_same_time_lose_nothing(path):
    writers = {name: start_writer(path, name, 400) for name in ("a", "b", "c")}
    for writer in writers.values():
        writer.communicate(timeout=60)
        assert writer.returncode == 0
    journal = ResponseJournal(path)
    names = [f"{name}/{n}" for name in writers for n in range(400)]
    found = journal.get_many([key(name) for name in names])
    assert [found[key(name)].text for name in names] == [name * 50 for name in names]
    journal.close()


def test_kill_9_loses_nothing_that_was_acknowledged(path):
    rng = random.Random(3)
    for turn in range(4):
        writer = start_writer(path, f"w{turn}")
        acknowledged = [int(writer.stdout.readline())]  # it runs
        time.sleep(rng.uniform(0.0, 0.15))
        os.kill(writer.pid, signal.SIGKILL)
        lines = writer.stdout.read().split(b"\n")
        writer.wait(10)
        acknowledged += [int(line) for line in lines[:-1]]
        journal = ResponseJournal(path)
        names = [f"w{turn}/{n}" for n in acknowledged]
        found = journal.get_many([key(name) for name in names])
        assert [found[key(name)].text for name in names] == [name * 50 for name in names]
        assert journal._reader.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        journal.close()
