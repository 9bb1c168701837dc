"""The requests of a group: tokens, price, latency from its record, and the moments from the journal."""

import sqlite3

import pytest
from starlette.testclient import TestClient

from engine.llm.interfaces import Entry
from engine.llm.journal import ResponseJournal
from engine.records import Completion, Usage
from engine.storage.lines import encode_line
from grpo_training.view.data.journal import moments_of
from grpo_training.view.data.runs import Store
from grpo_training.view.pages import group as page
from grpo_training.view.web.page import Request
from grpo_training.view.web.server import application
from tests.grpo_training.view.pages.test_fusions import fusion
from tests.support.viewer_runs import group, rollout, write

PAGES = {"generator": ["overview", "groups", "groups/1"], "critic": ["fusions", "fusions/1", "against"]}


def completion(key, latency, **usage):
    used = Usage(**{"prompt_tokens": 100, "completion_tokens": 20, "cost_usd": 0.01, **usage})
    return Completion(text=key, usage=used, latency_s=latency, request_key=key, model="tiny", finish_reason="stop")


@pytest.fixture
def folder(tmp_path):
    """Two rollouts, a failed call and a fusion. Replies were stored 10, 14 and 20 s after a moment."""
    first = completion("a", 2.0, cached_tokens=64)
    second = completion("b", 5.0, attempts=3)
    fused = completion("c", 4.0, cost_usd=0.5)
    one = group("p", [0.9, 0.1])
    rollouts = [rollout(1, 0.9, completion=first), rollout(2, 0.1, completion=second), rollout(3, None)]
    write(tmp_path / "generator_1_rollouts.jsonl", [one.model_copy(update={"rollouts": rollouts, "stats": None})])
    made = [fusion(completion=fused), fusion(problem_id="other", completion=completion("d", 1.0))]
    (tmp_path / "critic_results.jsonl").write_bytes(b"".join(encode_line(each) + b"\n" for each in made))
    journal = ResponseJournal(tmp_path / "requests.sqlite")
    journal.put_many([Entry(each.request_key, each) for each in (first, second, fused)])
    journal.close()
    with sqlite3.connect(tmp_path / "requests.sqlite") as database:
        for key, moment in (("a", 1010.0), ("b", 1014.0), ("c", 1020.0)):
            database.execute("UPDATE replies SET stored_at = ? WHERE key = ?", (moment, key))
    database.close()
    return tmp_path


def trace(folder):
    store = Store([folder])
    [run] = [one for one in store.runs if one.kind == "generator"]
    return page.build(store, Request({"run": run.id, "line": "1"}))["trace"]


def test_requests_stand_in_the_order_in_which_they_were_sent(folder):
    found = trace(folder)
    assert [(row.kind, row.name) for row in found.rows] == [
        ("rollout", "1"), ("rollout", "2"), ("fusion", "1"), ("rollout", "3"),
    ]  # fmt: skip
    assert found.span_s == pytest.approx(12.0)  # 1008 to 1020
    bars = [row.bar for row in found.rows[:3]]
    assert bars[0] == pytest.approx((0.0, 100 * 2 / 12))
    assert bars[1] == pytest.approx((100 * 1 / 12, 100 * 5 / 12))
    assert bars[2] == pytest.approx((100 * 8 / 12, 100 * 4 / 12))
    assert found.rows[3].bar is None  # the failed call has no reply


def test_tokens_price_and_attempts_are_those_of_the_records(folder):
    found = trace(folder)
    assert (found.prompt_tokens, found.completion_tokens) == (300, 60)
    assert found.cost_usd == pytest.approx(0.52)
    rows = {(row.kind, row.name): row for row in found.rows}
    assert rows["rollout", "1"].usage.cached_tokens == 64
    assert rows["rollout", "2"].usage.attempts == 3
    assert rows["rollout", "3"].finish == "http_429"
    assert rows["fusion", "1"].latency_s == 4.0


@pytest.mark.parametrize("damage", ["missing", "no database", "other tables"])
def test_without_a_journal_the_requests_have_no_order(folder, damage):
    path = folder / "requests.sqlite"
    path.unlink()
    if damage == "no database":
        path.write_bytes(b"no database at all" * 100)
    elif damage == "other tables":
        sqlite3.connect(path).close()
    found = trace(folder)
    assert found.span_s is None
    assert [row.name for row in found.rows if row.kind == "rollout"] == ["1", "2", "3"]


def test_the_journal_is_not_written(folder):
    path = folder / "requests.sqlite"
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    assert moments_of(path, ["a", "", "unknown"]) == {"a": 1010.0}
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


def test_absurd_numbers_of_damaged_files_do_not_break_the_pages(folder):
    """Times and prices of 300 digits, integers that no float holds, and a moment that is none."""
    absurd = completion("c", 1e300, cost_usd=1e300, prompt_tokens=10**400)
    (folder / "critic_results.jsonl").write_bytes(encode_line(fusion(completion=absurd)) + b"\n")
    with sqlite3.connect(folder / "requests.sqlite") as database:
        database.execute("UPDATE replies SET stored_at = 9e999 WHERE key = 'a'")
    database.close()
    site = TestClient(application(Store([folder])), base_url="http://localhost")
    for page_of in ("index", *(f"{one.id}/{name}" for one in Store([folder]).runs for name in PAGES[one.kind])):
        assert site.get(f"/{page_of}.html").status_code == 200, page_of
