import asyncio
import random

import pytest

from grpo_training.runs.window import run_in_window


async def arriving(count, delay=0.0):
    for k in range(count):
        if delay:
            await asyncio.sleep(delay)
        yield k


@pytest.mark.parametrize("seed", range(3))
async def test_step_k_starts_as_soon_as_step_k_minus_window_is_committed(seed):
    """Steps end in random order; after each, exactly the steps up to committed + window have started."""
    window, count = 4, 25
    order = random.Random(seed)
    gates = [asyncio.Event() for _ in range(count)]
    started, committed = [], []

    async def work(k, step):
        started.append(k)
        await gates[k].wait()
        return step * 10

    def commit(k, step, result):
        assert result == step * 10
        committed.append(k)
        return True

    run = asyncio.ensure_future(run_in_window(range(count), window, work, commit))
    while len(committed) < count:
        await settled()
        assert started == list(range(min(count, len(committed) + window)))
        gates[order.choice([k for k in started if not gates[k].is_set()])].set()
        await settled()
    assert await run == count
    assert committed == list(range(count))


async def settled():
    """Let the event loop run until nothing is ready any more."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_at_most_window_steps_are_in_flight_and_all_of_them_are_used():
    in_flight, most = 0, 0

    async def work(k, step):
        nonlocal in_flight, most
        in_flight += 1
        most = max(most, in_flight)
        await asyncio.sleep(0.002)
        in_flight -= 1

    await run_in_window(arriving(20), 5, work, lambda *_: True)
    assert most == 5


async def test_a_slow_step_does_not_delay_the_others_in_its_window():
    gate = asyncio.Event()
    done = []

    async def work(k, step):
        if k == 0:
            await gate.wait()
        done.append(k)
        if len(done) == 3:
            gate.set()

    await asyncio.wait_for(run_in_window(arriving(8), 4, work, lambda *_: True), 5)
    assert done[:4] == [1, 2, 3, 0]


async def test_waiting_for_a_slow_step_uses_no_processor_time(monkeypatch):
    """Completed steps that are not committed yet must not keep the loop busy."""
    rounds = 0
    wait = asyncio.wait

    async def counted(*arguments, **options):
        nonlocal rounds
        rounds += 1
        return await wait(*arguments, **options)

    monkeypatch.setattr(asyncio, "wait", counted)

    async def work(k, step):
        await asyncio.sleep(0.05 if k == 0 else 0)

    assert await run_in_window(arriving(8), 8, work, lambda *_: True) == 8
    assert rounds <= 2 * 8 + 1  # an arrival or an end each, and the end of the arrivals


async def test_steps_start_and_end_while_a_commit_is_awaited():
    """A slow commit delays only what needs its result; the next commit begins after it."""
    gate, log = asyncio.Event(), []

    async def work(k, step):
        log.append(f"work {k}")

    async def commit(k, step, result):
        log.append(f"commit {k}")
        if k == 1:
            await gate.wait()
        log.append(f"committed {k}")
        return k < 3

    run = asyncio.ensure_future(run_in_window(range(20), 4, work, commit))
    await settled()
    assert "commit 1" in log
    assert "committed 1" not in log
    assert [line for line in log if line.startswith("work")] == [f"work {k}" for k in range(5)]
    gate.set()
    assert await run == 3
    commits = [line for line in log if line.startswith("commit")]
    assert commits == [f"{word} {k}" for k in range(4) for word in ("commit", "committed")]


async def test_an_interrupted_run_waits_for_the_end_of_its_commit():
    begun, ended = asyncio.Event(), []

    async def commit(k, step, result):
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            ended.append(k)
        return True

    run = asyncio.ensure_future(run_in_window(range(3), 2, _nothing, commit))
    await begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert ended == [0]


async def _nothing(k, step):
    return None


async def test_the_first_failure_ends_all_at_once():
    cancelled = []

    async def work(k, step):
        if k == 2:
            await asyncio.sleep(0.01)
            raise RuntimeError("bad key")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(k)
            raise

    with pytest.raises(RuntimeError, match="bad key"):
        await asyncio.wait_for(run_in_window(arriving(8), 4, work, lambda *_: True), 5)
    assert sorted(cancelled) == [0, 1, 3]


async def test_steps_that_arrive_late_are_worked_on_as_they_come():
    order = []

    async def work(k, step):
        return step

    await run_in_window(arriving(6, 0.002), 3, work, lambda k, step, result: order.append(result) or True)
    assert order == [0, 1, 2, 3, 4, 5]


async def test_a_halt_lets_what_is_in_flight_end_and_starts_nothing_more():
    ended, committed = [], []

    async def work(k, step):
        await asyncio.sleep(0.002 * (1 if k == 2 else 5))
        ended.append(k)
        return step

    def commit(k, step, result):
        if k == 2:
            return False
        committed.append(k)
        return True

    assert await run_in_window(arriving(20), 4, work, commit) == 2
    assert committed == [0, 1]
    assert sorted(ended)[:4] == [0, 1, 2, 3]  # 3 was in flight when 2 halted the run
    assert len(ended) <= 6


async def test_steps_start_beyond_the_window_while_its_first_one_is_late_and_not_without_end():
    gate, started = asyncio.Event(), []

    async def work(k, step):
        started.append(k)
        if k == 3:
            await gate.wait()

    run = asyncio.ensure_future(run_in_window(range(100), 2, work, lambda *_: True, patience=lambda: 0.05))
    await asyncio.sleep(0.02)
    assert started == [0, 1, 2, 3, 4]
    while len(started) < 23:  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    assert len(started) == 3 + 20
    gate.set()
    assert await run == 100


async def test_as_many_steps_as_the_window_holds_are_worked_on_beside_a_late_one():
    gate, started = asyncio.Event(), []

    async def work(k, step):
        started.append(k)
        await gate.wait()

    run = asyncio.ensure_future(run_in_window(range(20), 4, work, lambda *_: True, patience=lambda: 0.01))
    await asyncio.sleep(0.1)
    assert len(started) == 5
    gate.set()
    assert await run == 20
