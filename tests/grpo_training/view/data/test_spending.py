"""What the replies of a journal used, by role."""

import itertools
import sqlite3

import pytest

from engine.llm.interfaces import Entry
from engine.llm.journal import ResponseJournal
from engine.records import Completion, Usage
from grpo_training.view.data.spending import Asker, Spending, Spent

ANALYST = Asker("generator_1", "analysis", "large")


def completion(prompt, reply, cost=None, model="m"):
    usage = Usage(prompt_tokens=prompt, completion_tokens=reply, cost_usd=cost)
    return Completion(text="x", model=model, usage=usage)


def store(path, *entries):
    journal = ResponseJournal(path)
    journal.put_many(entries)
    journal.close()


def test_sums_by_role_and_purpose_grow_with_the_journal(tmp_path):
    path = tmp_path / "requests.sqlite"
    spending = Spending(path)
    assert spending.update() == []
    store(
        path,
        Entry("a", completion(100, 20, 0.001), "generator_1", "rollout"),
        Entry("b", completion(100, 30, 0.002), "generator_1", "rollout"),
        Entry("c", completion(900, 40, model="large"), "generator_1", "analysis"),
        Entry("d", completion(50, 1), "reward_evaluator", "judge"),
    )
    assert spending.update() == [
        (ANALYST, Spent(1, 900, 40)),
        (Asker("generator_1", "rollout", "m"), Spent(2, 200, 50, pytest.approx(0.003))),
        (Asker("reward_evaluator", "judge", "m"), Spent(1, 50, 1)),
    ]
    store(path, Entry("c", completion(1, 1), "critic", "fusion"), Entry("e", completion(7, 2), "critic", "fusion"))
    found = dict(spending.update())  # c was stored before
    assert found[Asker("critic", "fusion", "m")] == Spent(1, 7, 2)
    assert sum(one.replies for one in found.values()) == 5
    assert dict(spending.update()) == found


def test_rows_of_earlier_versions_and_damaged_ones(tmp_path):
    """Earlier versions stored the completion alone."""
    path = tmp_path / "requests.sqlite"
    store(path, Entry("a", completion(1, 2), "critic", "fusion"))
    with sqlite3.connect(path) as database:
        rows = [("b", completion(10, 20).model_dump_json(exclude_defaults=True)), ("c", "{"), ("d", '{"usage":{}}')]
        rows.append(("e", '{"usage":{"prompt_tokens":1e400}}'))
        database.executemany("INSERT INTO replies VALUES (?, ?, 0)", rows)
    assert Spending(path).update() == [
        (Asker("", "", "m"), Spent(1, 10, 20)),
        (Asker("critic", "fusion", "m"), Spent(1, 1, 2)),
        (Asker("", "", ""), Spent(1, 0, 0)),
    ]
    journal = ResponseJournal(path)
    assert journal.get_many(["a", "b"]) == {"a": completion(1, 2), "b": completion(10, 20)}
    journal.close()


def test_a_large_journal_is_read_in_parts_and_another_file_from_its_start(tmp_path):
    path = tmp_path / "requests.sqlite"
    store(path, *(Entry(str(number), completion(1, 1), "r", "rollout") for number in range(2500)))
    spending = Spending(path, clock=itertools.count().__next__)
    seen = []
    for _ in range(3):
        [(_, spent)] = spending.update(0.5)
        seen.append((spent.replies, spending.is_complete))
    assert seen == [(1000, False), (2000, False), (2500, True)]
    path.rename(tmp_path / "other")
    assert spending.update() == []
    store(path, Entry("a", completion(3, 4), "r", "rollout"))
    assert spending.update() == [(Asker("r", "rollout", "m"), Spent(1, 3, 4))]
    path.write_bytes(b"no database" * 100)
    spending.update()


def test_many_roles_are_one_line_from_the_hundredth_on(tmp_path):
    path = tmp_path / "requests.sqlite"
    store(path, *(Entry(str(number), completion(1, 1), f"r{number}", "rollout") for number in range(150)))
    found = dict(Spending(path).update())
    assert (len(found), found[Asker("", "rollout", "")].replies) == (101, 50)
