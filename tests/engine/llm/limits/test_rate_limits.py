import os
import random
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time

import pytest

from engine.api_manager import ApiManager
from engine.llm.limits.rate_limits import Correction, LeaseRequest, LedgerError, RateLedger, RateLimits, fair_share
from engine.storage.process_identity import ProcessIdentity
from tests.conftest import ROOT
from tests.support.table import table


class Clock:
    def __init__(self):
        self.now = 1_700_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def ledgers(tmp_path, clock):
    """Three ledgers of one file, one per simulated process."""
    made = [RateLedger(tmp_path / "rates.sqlite", clock) for _ in range(3)]
    yield made
    for ledger in made:
        ledger.close()


@table(
    ("total", "demands", "shares"),
    [
        (10, {"a": 3, "b": 4}, {"a": 3, "b": 4}),
        (10, {"a": 2, "b": 20, "c": 20}, {"a": 2, "b": 4, "c": 4}),
        (10, {"a": 20, "b": 20, "c": 20}, {"a": 4, "b": 3, "c": 3}),
        (2, {"a": 5, "b": 5, "c": 5}, {"a": 1, "b": 1, "c": 0}),
        (10, {"a": 0, "b": 50}, {"a": 0, "b": 10}),
        (0, {"a": 1}, {"a": 0}),
        (5, {}, {}),
    ],
)
def test_shares_are_max_min_fair(total, demands, shares):
    assert shares_by_name(total, demands) == shares


def shares_by_name(total, demands):
    """The share of each holder, as it finds it from the counts of the others."""

    def others(name):
        rest = [(demand, other) for other, demand in demands.items() if other != name]
        for wanted in {demand for demand, _ in rest}:
            names = [other for demand, other in rest if demand == wanted]
            yield wanted, len(names), sum(other < name for other in names)

    return {name: fair_share(total, demand, others(name)) for name, demand in demands.items()}


def test_shares_equal_those_of_an_allocation_slot_by_slot():
    """Each slot goes to the holder with the fewest that wants more, the first by demand and name."""
    rng = random.Random(5)
    for _ in range(500):
        demands = {f"h{number}": rng.choice((0, 1, 2, 3, 8, 8, 20)) for number in range(rng.randint(1, 12))}
        total = rng.randint(0, 60)
        given = dict.fromkeys(demands, 0)
        for _ in range(total):
            wanting = [name for name in demands if given[name] < demands[name]]
            if not wanting:
                break
            given[min(wanting, key=lambda name: (given[name], demands[name], name))] += 1
        assert shares_by_name(total, demands) == given


def test_the_file_does_not_grow_with_the_requests_of_a_minute(ledgers, clock):
    ledger, limits = ledgers[0], RateLimits(max_concurrency=1000, rpm=10**6, tpm=10**9)
    sizes = []
    for number in range(2400):  # two minutes, 20 a second, by 40 holders
        clock.now += 0.05
        correction = Correction(clock.now - 0.5, -1, -300)
        asked = LeaseRequest(f"{number % 40}", 1, 2, requests=3, tokens=900, corrections=(correction,))
        assert ledger.exchange("s", limits, asked).requests == 3
        if number % 100 == 99:
            sizes.append(ledger._run("SELECT count(*) FROM uses")[0])
    assert max(sizes) <= 1215  # 60.5 s in slots of 0.05 s
    assert sizes[-1] == sizes[-8]
    used = ledger._run("SELECT total(requests), total(tokens) FROM uses")
    assert used == (pytest.approx(2 * 60.5 * 20, abs=30), pytest.approx(600 * 60.5 * 20, abs=9_000))


def test_the_slots_of_all_processes_never_exceed_the_limit(ledgers):
    limits = RateLimits(max_concurrency=10)
    rng = random.Random(2)
    held = [0, 0, 0]  # what each may have in flight
    in_use = [0, 0, 0]
    for _ in range(400):
        who = rng.randrange(3)
        in_use[who] = rng.randint(0, held[who])
        demand = rng.choice([0, in_use[who], 5, 20])
        held[who] = ledgers[who].exchange("s", limits, LeaseRequest(in_use=in_use[who], demand=demand)).slots
        assert sum(max(h, u) for h, u in zip(held, in_use, strict=True)) <= 10


def test_a_process_is_looked_up_once_for_all_its_holders(ledgers, monkeypatch):
    limits, looked_up = RateLimits(max_concurrency=100), []
    other = ProcessIdentity.current()._replace(pid=1)
    monkeypatch.setattr(ledgers[1], "_process", other)
    monkeypatch.setattr(ProcessIdentity, "alive", property(lambda process: looked_up.append(process) or True))
    for number in range(20):
        for ledger in ledgers[:2]:
            ledger.exchange("s", limits, LeaseRequest(holder=str(number), in_use=1, demand=1 + number % 2))
    looked_up.clear()
    assert ledgers[0].exchange("s", limits, LeaseRequest(holder="last", demand=100)).slots == 40
    assert looked_up == [other]
    monkeypatch.setattr(ProcessIdentity, "alive", property(lambda process: process != other))
    assert ledgers[0].exchange("s", limits, LeaseRequest(holder="last", demand=100)).slots == 70


def test_a_second_process_gets_its_share_as_requests_of_the_first_end(ledgers):
    limits = RateLimits(max_concurrency=10)
    first, second, _ = ledgers
    assert first.exchange("s", limits, LeaseRequest(in_use=0, demand=30)).slots == 10
    assert second.exchange("s", limits, LeaseRequest(demand=30)).slots == 0
    assert first.exchange("s", limits, LeaseRequest(in_use=8, demand=30)).slots == 5  # 8 still run
    assert second.exchange("s", limits, LeaseRequest(demand=30)).slots == 2
    assert first.exchange("s", limits, LeaseRequest(in_use=5, demand=30)).slots == 5
    assert second.exchange("s", limits, LeaseRequest(in_use=2, demand=30)).slots == 5
    second.exchange("s", limits, LeaseRequest())
    assert first.exchange("s", limits, LeaseRequest(in_use=5, demand=30)).slots == 10


def test_scopes_are_independent(ledgers):
    limits = RateLimits(max_concurrency=10)
    assert ledgers[0].exchange("s", limits, LeaseRequest(demand=10)).slots == 10
    assert ledgers[1].exchange("t", limits, LeaseRequest(demand=10)).slots == 10


def test_every_window_of_a_minute_has_at_most_rpm_requests(ledgers, clock):
    limits = RateLimits(rpm=100)
    rng = random.Random(4)
    granted = []
    for _ in range(600):
        clock.now += rng.choice([0.0, 0.1, 0.7])
        grant = rng.choice(ledgers).exchange("s", limits, LeaseRequest(requests=rng.randint(1, 9)))
        granted.append((clock.now, grant.requests))
    for start, _ in granted:
        assert sum(count for at, count in granted if start <= at < start + 60.0) <= 100
    # The limit is used: the first and the last minute are almost full.
    for start in (granted[0][0], granted[-1][0] - 60.0):
        assert sum(count for at, count in granted if start <= at < start + 60.0) > 90


def test_a_refused_request_gets_the_time_to_retry(ledgers, clock):
    limits = RateLimits(rpm=5)
    assert ledgers[0].exchange("s", limits, LeaseRequest(requests=5)).requests == 5
    clock.now += 20.0
    grant = ledgers[1].exchange("s", limits, LeaseRequest(requests=1))
    assert (grant.requests, grant.retry_in_s) == (0, 40.5)
    clock.now += 40.5
    assert ledgers[1].exchange("s", limits, LeaseRequest(requests=1)).requests == 1


def test_a_correction_takes_the_time_of_its_grant(ledgers, clock):
    limits = RateLimits(tpm=1000)
    first, second, _ = ledgers
    grant = first.exchange("s", limits, LeaseRequest(tokens=900, min_tokens=900))
    assert grant.tokens == 900
    assert second.exchange("s", limits, LeaseRequest(tokens=500, min_tokens=500)).tokens == 0
    clock.now += 30.0
    first.exchange("s", limits, LeaseRequest(corrections=(Correction(grant.granted_at, 0, -700),)))  # 200 were used
    assert second.exchange("s", limits, LeaseRequest(tokens=800, min_tokens=800)).tokens == 800
    clock.now += 30.5  # the grant and its correction leave the window together: 800 are used
    assert first.exchange("s", limits, LeaseRequest(tokens=1000)).tokens == 200


def test_fewer_tokens_than_the_minimum_are_not_granted(ledgers):
    limits = RateLimits(tpm=1000)
    ledgers[0].exchange("s", limits, LeaseRequest(tokens=600))
    assert ledgers[1].exchange("s", limits, LeaseRequest(tokens=500, min_tokens=500)).tokens == 0
    assert ledgers[1].exchange("s", limits, LeaseRequest(tokens=400, min_tokens=400)).tokens == 400


def test_a_pause_holds_for_all_processes_and_is_never_shortened(ledgers, clock):
    first, second, _ = ledgers
    assert second.pause_left_s("s") == 0.0
    first.pause("s", 30.0)
    first.pause("s", 10.0)
    assert second.pause_left_s("s") == 30.0
    assert second.pause_left_s("t") == 0.0


def test_usage_totals_of_all_processes_are_added(ledgers):
    ledgers[0].add_spent("s", 100, 0.25)
    ledgers[1].add_spent("s", 50, 0.5)
    assert ledgers[2].spent("s") == (150, 0.75)
    assert ledgers[2].spent("t") == (0, 0.0)


def test_the_file_does_not_contain_the_key(tmp_path):
    secret = "sk-test-0123456789abcdef"
    entries = {
        "a": {"api_key": secret, "base_url": "http://x/v1", "model": "m"},
        "b": {"api_key": secret, "base_url": "http://x/v1", "model": "m", "rpm": 5},
        "c": {"api_key": secret[::-1], "base_url": "http://x/v1", "model": "m"},
    }
    manager = ApiManager(tmp_path / "c.json", entries)
    ledger = RateLedger(tmp_path / "rates.sqlite")
    scopes = [ledger.scope(manager.endpoint(role)) for role in "abc"]
    assert scopes[0] == scopes[1] != scopes[2]
    ledger.add_spent(scopes[0], 1, 0.0)
    ledger.close()
    again = RateLedger(tmp_path / "rates.sqlite")
    assert again.scope(manager.endpoint("a")) == scopes[0]
    again.close()
    other = RateLedger(tmp_path / "other.sqlite")
    assert other.scope(manager.endpoint("a")) != scopes[0]
    other.close()
    written = b"".join(file.read_bytes() for file in tmp_path.glob("rates.sqlite*"))
    assert secret[:8].encode() not in written


def test_an_unusable_file_is_an_error_with_its_path(tmp_path):
    (tmp_path / "rates.sqlite").write_text("no database, but long enough to be taken for one " * 20)
    with pytest.raises(LedgerError, match=r"rates\.sqlite"):
        RateLedger(tmp_path / "rates.sqlite")


HOLDER = textwrap.dedent("""
    import sys, time
    from pathlib import Path
    from engine.llm.limits.rate_limits import RateLimits, LeaseRequest, RateLedger
    ledger = RateLedger(Path(sys.argv[1]))
    print(ledger.exchange("s", RateLimits(max_concurrency=10), LeaseRequest(in_use=10, demand=10)).slots, flush=True)
    time.sleep(60)
""")


def test_the_slots_of_a_killed_process_are_reclaimed_immediately(tmp_path):
    path = tmp_path / "rates.sqlite"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert holder.stdout.readline() == b"10\n"
    ledger = RateLedger(path)
    assert ledger.exchange("s", RateLimits(max_concurrency=10), LeaseRequest(demand=10)).slots == 0
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait(60)
    holder.stdout.close()
    assert ledger.exchange("s", RateLimits(max_concurrency=10), LeaseRequest(demand=10)).slots == 10
    ledger.close()


def test_the_slots_of_a_reused_process_id_and_of_a_silent_process_are_reclaimed(ledgers, clock, tmp_path):
    limits = RateLimits(max_concurrency=10)
    ledgers[0].exchange("s", limits, LeaseRequest(in_use=10, demand=10))
    raw = sqlite3.connect(tmp_path / "rates.sqlite")
    raw.execute("UPDATE holders SET started = '1'")
    raw.commit()
    raw.close()
    assert ledgers[1].exchange("s", limits, LeaseRequest(demand=10)).slots == 10
    ledgers[1].exchange("s", limits, LeaseRequest())
    ledgers[0].exchange("s", limits, LeaseRequest(in_use=10, demand=10))
    assert ledgers[1].exchange("s", limits, LeaseRequest(demand=10)).slots == 0
    clock.now += 61.0
    assert ledgers[1].exchange("s", limits, LeaseRequest(demand=10)).slots == 10


@pytest.mark.parametrize("jump_s", [-3600.0, -400 * 86400.0, 3600.0])
def test_a_clock_that_is_set_blocks_nothing_for_longer_than_a_minute(ledgers, clock, jump_s):
    """As after a restart of the machine, or with a file of an earlier version, whose times were of another clock."""
    first, second, _ = ledgers
    limits = RateLimits(rpm=10, max_concurrency=4)
    assert first.exchange("s", limits, LeaseRequest("a", demand=2, requests=10)).requests == 10
    first.pause("s", 30.0)
    clock.now += jump_s
    assert second.pause_left_s("s") <= 3600.0
    waited = 0.0
    while not second.exchange("s", limits, LeaseRequest("b", demand=2, requests=10)).requests:
        clock.now += 1.0
        waited += 1.0
    assert waited <= 61.0
    assert second.exchange("s", limits, LeaseRequest("b", in_use=2, demand=4)).slots > 0


def test_setting_the_clock_of_the_machine_does_not_change_the_ledger(tmp_path, monkeypatch):
    ledger = RateLedger(tmp_path / "rates.sqlite")
    ledger.pause("s", 30.0)
    monkeypatch.setattr(time, "time", lambda: 1.0)
    assert 25.0 < ledger.pause_left_s("s") <= 30.0
    ledger.close()
