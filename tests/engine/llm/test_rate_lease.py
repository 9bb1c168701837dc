import asyncio
import itertools
import time

import pytest

from engine.llm.rate_lease import RateLease
from engine.llm.rate_limits import LedgerError, Limits, RateLedger


class World:
    """Virtual time: a sleeper wakes when all are asleep and its moment is the next."""

    def __init__(self):
        self.now = 1_700_000_000.0
        self.sleepers = []
        self.numbers = itertools.count()

    def clock(self):
        return self.now

    async def sleep(self, seconds):
        future = asyncio.get_running_loop().create_future()
        entry = (self.now + seconds, next(self.numbers), future)
        self.sleepers.append(entry)
        try:
            await future
        finally:
            self.sleepers.remove(entry)

    async def run(self, seconds):
        """Let so many seconds pass."""
        end = self.now + seconds
        while True:
            for _ in range(50):  # whatever can go on without time passing does so first
                await asyncio.sleep(0)
            due = min(self.sleepers, default=None)
            if due is None or due[0] > end:
                self.now = end
                return
            self.now = max(self.now, due[0])
            if not due[2].done():
                due[2].set_result(None)


@pytest.fixture
def world():
    return World()


@pytest.fixture
def ledger(tmp_path, world, monkeypatch):
    async def at_once(function, *args):  # no thread: how long one takes is no part of virtual time
        return function(*args)

    monkeypatch.setattr(asyncio, "to_thread", at_once)
    ledger = RateLedger(tmp_path / "rates.sqlite", world.clock)
    yield ledger
    ledger.close()


async def test_the_hot_path_makes_no_transactions(ledger, world):
    exchanges = []
    exchange = ledger.exchange
    ledger.exchange = lambda *args: exchanges.append(1) or exchange(*args)
    lease = RateLease(ledger, "s", Limits(max_concurrency=8), world.sleep)
    for _ in range(2000):
        lease.release(await lease.acquire(0), 0)
    assert len(exchanges) < 5
    await lease.close()


async def test_a_growing_load_costs_a_logarithm_of_exchanges(ledger, world):
    exchanges = []
    exchange = ledger.exchange
    ledger.exchange = lambda *args: exchanges.append(1) or exchange(*args)
    lease = RateLease(ledger, "s", Limits(max_concurrency=500), world.sleep)
    for _ in range(300):
        await lease.acquire(0)
    assert len(exchanges) <= 10  # 2, 4, 8, ... 512
    await lease.close()


async def test_nothing_is_handed_out_while_the_books_are_open(ledger, world, monkeypatch):
    """What is reported as in use must still be true when the answer comes, or two would use one slot."""
    opened = asyncio.Event()
    opened.set()

    async def slowly(function, *args):
        result = function(*args)
        await opened.wait()
        return result

    monkeypatch.setattr(asyncio, "to_thread", slowly)
    lease = RateLease(ledger, "s", Limits(max_concurrency=2), world.sleep)
    await asyncio.wait_for(lease.acquire(0), 2)  # two are leased, one is in use
    opened.clear()
    await world.run(1.5)  # the keeper is at the ledger
    second = asyncio.create_task(lease.acquire(0))
    await world.run(0.0)
    assert not second.done()
    opened.set()
    await asyncio.wait_for(second, 2)
    await lease.close()


async def test_slots_are_shared_by_two_and_all_are_served(ledger, world, tmp_path):
    other = RateLedger(tmp_path / "rates.sqlite", world.clock)
    limits = Limits(max_concurrency=4)
    leases = [RateLease(ledger, "s", limits, world.sleep), RateLease(other, "s", limits, world.sleep)]
    running, most, served = 0, 0, [0, 0]

    async def caller(who):
        nonlocal running, most
        permit = await leases[who].acquire(0)
        running += 1
        most = max(most, running)
        await world.sleep(1.0)
        running -= 1
        served[who] += 1
        leases[who].release(permit, 0)

    tasks = [asyncio.create_task(caller(number % 2)) for number in range(40)]
    await world.run(20.0)
    await asyncio.wait_for(asyncio.gather(*tasks), 1)
    assert served == [20, 20]
    assert most <= 4
    for lease in leases:
        await lease.close()
    other.close()


async def test_two_shares_of_one_process_count_as_two(ledger, world):
    limits = Limits(max_concurrency=3)
    leases = [RateLease(ledger, "s", limits, world.sleep) for _ in range(2)]
    first = [await asyncio.wait_for(leases[0].acquire(0), 2) for _ in range(3)]
    other = asyncio.create_task(leases[1].acquire(0))
    await world.run(3.0)
    assert not other.done()
    leases[0].release(first.pop(), 0)
    await world.run(3.0)
    assert other.done()
    for lease in leases:
        await lease.close()


async def test_closing_cancels_whoever_waits_and_gives_the_slots_back(ledger, world):
    limits = Limits(max_concurrency=1)
    lease, other = (RateLease(ledger, "s", limits, world.sleep) for _ in range(2))
    await lease.acquire(0)
    waiting = asyncio.create_task(lease.acquire(0))
    await world.run(0.5)
    await asyncio.wait_for(lease.close(), 2)
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.wait_for(other.acquire(0), 2)
    await other.close()


async def test_requests_per_minute_hold(ledger, world):
    lease = RateLease(ledger, "s", Limits(rpm=30), world.sleep)
    started = []

    async def caller():
        permit = await lease.acquire(0)
        started.append(world.now)
        lease.release(permit, 0)

    tasks = [asyncio.create_task(caller()) for _ in range(75)]
    await world.run(30.0)
    assert len(started) == 30
    await world.run(40.0)
    assert len(started) == 60
    await world.run(60.0)
    assert len(started) == 75
    await asyncio.gather(*tasks)
    for at in started:
        assert sum(at <= other < at + 60.0 for other in started) <= 30
    await lease.close()


async def test_tokens_that_were_not_taken_are_free_for_others(ledger, world):
    lease = RateLease(ledger, "s", Limits(tpm=1000), world.sleep)
    first = await lease.acquire(900)
    waiting = asyncio.create_task(lease.acquire(800))
    await world.run(2.0)
    assert not waiting.done()
    lease.release(first, 150)  # 850 of the minute are left
    await world.run(2.0)
    assert waiting.done()
    lease.release(waiting.result(), 800)
    await lease.close()


async def test_a_request_larger_than_the_minute_is_counted_as_the_minute(ledger, world):
    lease = RateLease(ledger, "s", Limits(tpm=1000), world.sleep)
    permit = await asyncio.wait_for(lease.acquire(50_000), 2)
    assert permit.tokens == 1000
    lease.release(permit, 1000)
    await lease.close()


async def test_a_cancelled_waiter_leaks_no_slot(ledger, world):
    lease = RateLease(ledger, "s", Limits(max_concurrency=1), world.sleep)
    held = await lease.acquire(0)
    gone = [asyncio.create_task(lease.acquire(0)) for _ in range(3)]
    await world.run(0.5)
    last = asyncio.create_task(lease.acquire(0))
    await world.run(0.5)
    lease.release(held, 0)  # hands its slot to the first, which is cancelled in the same moment
    for task in gone:
        task.cancel()
    await asyncio.gather(*gone, return_exceptions=True)
    await world.run(1.0)
    assert last.done()
    lease.release(last.result(), 0)
    await lease.close()


async def test_an_idle_share_gives_its_slots_back(ledger, world, tmp_path):
    lease = RateLease(ledger, "s", Limits(max_concurrency=2), world.sleep)
    lease.release(await lease.acquire(0), 0)
    await world.run(3.0)
    other = RateLedger(tmp_path / "rates.sqlite", world.clock)
    second = RateLease(other, "s", Limits(max_concurrency=2), world.sleep)
    permits = [await asyncio.wait_for(second.acquire(0), 2) for _ in range(2)]
    for permit in permits:
        second.release(permit, 0)
    await second.close()
    other.close()
    await lease.close()


async def test_a_broken_ledger_is_told_to_all_who_wait(ledger, world):
    lease = RateLease(ledger, "s", Limits(max_concurrency=2), world.sleep)
    ledger.close()
    with pytest.raises(LedgerError):
        await asyncio.wait_for(lease.acquire(0), 2)


async def test_a_lease_costs_little(tmp_path):
    """In real time: 20000 requests by 32 callers, well under 0.1 ms each."""
    ledger = RateLedger(tmp_path / "rates.sqlite")
    lease = RateLease(ledger, "s", Limits(max_concurrency=64, rpm=10**6, tpm=10**9), asyncio.sleep)

    async def caller():
        for _ in range(625):
            permit = await lease.acquire(100)
            await asyncio.sleep(0)
            lease.release(permit, 100)

    began = time.process_time()
    await asyncio.gather(*(caller() for _ in range(32)))
    assert (time.process_time() - began) / 20_000 < 0.1e-3
    await lease.close()
    ledger.close()
