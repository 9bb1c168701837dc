import asyncio
import itertools
import random
import time

import pytest

from engine.llm.limits.rate_lease import RateLease
from engine.llm.limits.rate_limits import LedgerError, RateLedger, RateLimits


class VirtualTime:
    """Virtual time: the clock advances to the next deadline when all tasks are waiting."""

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
        """Advance the clock by this many seconds."""
        end = self.now + seconds
        while True:
            for _ in range(50):  # let the tasks run that do not wait for time
                await asyncio.sleep(0)
            due = min(self.sleepers, default=None)
            if due is None or due[0] > end:
                self.now = end
                return
            self.now = max(self.now, due[0])
            if not due[2].done():
                due[2].set_result(None)


@pytest.fixture
def virtual():
    return VirtualTime()


@pytest.fixture
def ledger(tmp_path, virtual, monkeypatch):
    async def at_once(function, *args):  # no threads: their duration is not virtual
        return function(*args)

    monkeypatch.setattr(asyncio, "to_thread", at_once)
    ledger = RateLedger(tmp_path / "rates.sqlite", virtual.clock)
    yield ledger
    ledger.close()


async def test_permits_within_the_grant_need_no_transaction(ledger, virtual):
    exchanges = []
    exchange = ledger.exchange
    ledger.exchange = lambda *args: exchanges.append(1) or exchange(*args)
    lease = RateLease(ledger, "s", RateLimits(max_concurrency=8), virtual.sleep)
    for _ in range(2000):
        lease.release(await lease.acquire(0), 0)
    assert len(exchanges) < 5
    await lease.close()


async def test_a_growing_load_takes_a_logarithmic_number_of_exchanges(ledger, virtual):
    exchanges = []
    exchange = ledger.exchange
    ledger.exchange = lambda *args: exchanges.append(1) or exchange(*args)
    lease = RateLease(ledger, "s", RateLimits(max_concurrency=500), virtual.sleep)
    for _ in range(300):
        await lease.acquire(0)
    assert len(exchanges) <= 10  # 2, 4, 8, ... 512
    await lease.close()


@pytest.mark.parametrize(("waits", "times"), [(False, 4), (True, 16)])
async def test_the_grant_is_renewed_as_often_as_the_ledger_says(ledger, virtual, waits, times):
    exchanges, exchange = [], ledger.exchange

    def slower(*args):
        exchanges.append(virtual.now)
        grant = exchange(*args)
        grant.renew_in_s = 5.0
        return grant

    ledger.exchange = slower
    lease = RateLease(ledger, "s", RateLimits(max_concurrency=1), virtual.sleep)
    permit = await lease.acquire(0)
    waiting = asyncio.ensure_future(lease.acquire(0)) if waits else None
    await virtual.run(1)
    before = len(exchanges)
    await virtual.run(20)
    assert len(exchanges) - before == times
    lease.release(permit, 0)
    if waiting is not None:
        await virtual.run(2)
        lease.release(waiting.result(), 0)


async def test_no_permit_is_issued_during_an_exchange(ledger, virtual, monkeypatch):
    """The number of slots reported as in use must not grow during an exchange, or two processes could use one slot."""
    opened = asyncio.Event()
    opened.set()

    async def slowly(function, *args):
        result = function(*args)
        await opened.wait()
        return result

    monkeypatch.setattr(asyncio, "to_thread", slowly)
    lease = RateLease(ledger, "s", RateLimits(max_concurrency=2), virtual.sleep)
    await asyncio.wait_for(lease.acquire(0), 2)  # two are leased, one is in use
    opened.clear()
    await virtual.run(1.5)  # the renewal waits for the ledger
    second = asyncio.create_task(lease.acquire(0))
    await virtual.run(0.0)
    assert not second.done()
    opened.set()
    await asyncio.wait_for(second, 2)
    await lease.close()


async def test_two_processes_share_the_slots_and_all_callers_are_served(ledger, virtual, tmp_path):
    other = RateLedger(tmp_path / "rates.sqlite", virtual.clock)
    limits = RateLimits(max_concurrency=4)
    leases = [RateLease(ledger, "s", limits, virtual.sleep), RateLease(other, "s", limits, virtual.sleep)]
    running, most, served = 0, 0, [0, 0]

    async def caller(who):
        nonlocal running, most
        permit = await leases[who].acquire(0)
        running += 1
        most = max(most, running)
        await virtual.sleep(1.0)
        running -= 1
        served[who] += 1
        leases[who].release(permit, 0)

    tasks = [asyncio.create_task(caller(number % 2)) for number in range(40)]
    await virtual.run(20.0)
    await asyncio.wait_for(asyncio.gather(*tasks), 1)
    assert served == [20, 20]
    assert most <= 4
    for lease in leases:
        await lease.close()
    other.close()


async def test_two_leases_of_one_process_count_separately(ledger, virtual):
    limits = RateLimits(max_concurrency=3)
    leases = [RateLease(ledger, "s", limits, virtual.sleep) for _ in range(2)]
    first = [await asyncio.wait_for(leases[0].acquire(0), 2) for _ in range(3)]
    other = asyncio.create_task(leases[1].acquire(0))
    await virtual.run(3.0)
    assert not other.done()
    leases[0].release(first.pop(), 0)
    await virtual.run(3.0)
    assert other.done()
    for lease in leases:
        await lease.close()


async def test_closing_cancels_waiters_and_returns_the_slots(ledger, virtual):
    limits = RateLimits(max_concurrency=1)
    lease, other = (RateLease(ledger, "s", limits, virtual.sleep) for _ in range(2))
    await lease.acquire(0)
    waiting = asyncio.create_task(lease.acquire(0))
    await virtual.run(0.5)
    await asyncio.wait_for(lease.close(), 2)
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.wait_for(other.acquire(0), 2)
    await other.close()


async def test_the_limit_of_requests_per_minute(ledger, virtual):
    lease = RateLease(ledger, "s", RateLimits(rpm=30), virtual.sleep)
    started = []

    async def caller():
        permit = await lease.acquire(0)
        started.append(virtual.now)
        lease.release(permit, 0)

    tasks = [asyncio.create_task(caller()) for _ in range(75)]
    await virtual.run(30.0)
    assert len(started) == 30
    await virtual.run(40.0)
    assert len(started) == 60
    await virtual.run(60.0)
    assert len(started) == 75
    await asyncio.gather(*tasks)
    for at in started:
        assert sum(at <= other < at + 60.0 for other in started) <= 30
    await lease.close()


async def test_unused_tokens_are_available_again(ledger, virtual):
    lease = RateLease(ledger, "s", RateLimits(tpm=1000), virtual.sleep)
    first = await lease.acquire(900)
    waiting = asyncio.create_task(lease.acquire(800))
    await virtual.run(2.0)
    assert not waiting.done()
    lease.release(first, 150)  # 850 of 1000 remain
    await virtual.run(2.0)
    assert waiting.done()
    lease.release(waiting.result(), 800)
    await lease.close()


async def test_a_request_larger_than_tpm_counts_as_tpm(ledger, virtual):
    lease = RateLease(ledger, "s", RateLimits(tpm=1000), virtual.sleep)
    permit = await asyncio.wait_for(lease.acquire(50_000), 2)
    assert permit.tokens == 1000
    lease.release(permit, 1000)
    await lease.close()


async def test_a_cancelled_waiter_leaks_no_slot(ledger, virtual):
    lease = RateLease(ledger, "s", RateLimits(max_concurrency=1), virtual.sleep)
    held = await lease.acquire(0)
    gone = [asyncio.create_task(lease.acquire(0)) for _ in range(3)]
    await virtual.run(0.5)
    last = asyncio.create_task(lease.acquire(0))
    await virtual.run(0.5)
    lease.release(held, 0)  # the slot goes to the first waiter, which is cancelled before it runs
    for task in gone:
        task.cancel()
    await asyncio.gather(*gone, return_exceptions=True)
    await virtual.run(1.0)
    assert last.done()
    lease.release(last.result(), 0)
    await lease.close()


async def test_an_idle_lease_returns_its_slots(ledger, virtual, tmp_path):
    lease = RateLease(ledger, "s", RateLimits(max_concurrency=2), virtual.sleep)
    lease.release(await lease.acquire(0), 0)
    await virtual.run(3.0)
    other = RateLedger(tmp_path / "rates.sqlite", virtual.clock)
    second = RateLease(other, "s", RateLimits(max_concurrency=2), virtual.sleep)
    permits = [await asyncio.wait_for(second.acquire(0), 2) for _ in range(2)]
    for permit in permits:
        second.release(permit, 0)
    await second.close()
    other.close()
    await lease.close()


async def test_a_ledger_error_is_raised_in_waiting_calls(ledger, virtual):
    lease = RateLease(ledger, "s", RateLimits(max_concurrency=2), virtual.sleep)
    ledger.close()
    with pytest.raises(LedgerError):
        await asyncio.wait_for(lease.acquire(0), 2)


async def test_the_cpu_time_of_a_permit(tmp_path):
    """In real time: 20000 requests by 32 callers, well under 0.1 ms each."""
    ledger = RateLedger(tmp_path / "rates.sqlite")
    lease = RateLease(ledger, "s", RateLimits(max_concurrency=64, rpm=10**6, tpm=10**9), asyncio.sleep)

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


class Quota:
    """A server's limit: at most ``rpm`` requests in any minute, counted when they arrive."""

    def __init__(self, rpm, clock):
        self.rpm, self.clock = rpm, clock
        self.accepted, self.refused = [], 0

    def arrive(self):
        now = self.clock()
        if sum(at > now - 60.0 for at in self.accepted[-self.rpm :]) >= self.rpm:
            self.refused += 1
        else:
            self.accepted.append(now)


async def test_six_processes_use_the_quota_and_cause_no_429(ledger, virtual, tmp_path):
    """300 requests per minute, for four minutes; a request takes up to 0.3 s to reach the server."""
    rng, minutes, limits = random.Random(4), 4, RateLimits(rpm=300)
    ledgers = [RateLedger(tmp_path / "rates.sqlite", virtual.clock) for _ in range(6)]
    leases = [RateLease(own, "s", limits, virtual.sleep) for own in ledgers]
    quota = Quota(300, virtual.clock)

    async def ask(lease):
        while True:
            permit = await lease.acquire(0)
            await virtual.sleep(rng.uniform(0.0, 0.3))
            quota.arrive()
            await virtual.sleep(rng.uniform(0.5, 4.0))
            lease.release(permit, 0)

    began = virtual.now
    askers = [asyncio.create_task(ask(lease)) for lease in leases for _ in range(8)]
    await virtual.run(60.0 * minutes)
    for asker in askers:
        asker.cancel()
    await asyncio.gather(*askers, return_exceptions=True)
    for own in ledgers:
        own.close()
    used = sum(at > began + 60.0 for at in quota.accepted) / (300 * (minutes - 1))
    assert used >= 0.97
    assert quota.refused <= 0.005 * len(quota.accepted)
