import asyncio
import random
from contextlib import aclosing
from itertools import takewhile

import pytest

from grpo_training.runs.window import in_window


async def run(count, window, work, commit=lambda k, result: None):
    """Run so many steps; ``commit`` takes each result."""
    async with aclosing(in_window(range(count), window, work)) as in_order:
        async for k, result in in_order:
            commit(k, result)


@pytest.mark.parametrize("seed", range(3))
async def test_step_k_starts_as_soon_as_step_k_minus_window_is_committed(seed):
    """Steps end in random order; after each, exactly the steps up to committed + window have started."""
    window, count = 4, 25
    order = random.Random(seed)
    gates = [asyncio.Event() for _ in range(count)]
    started, committed = [], []

    async def work(k):
        started.append(k)
        await gates[k].wait()
        return k * 10

    def commit(k, result):
        assert result == k * 10
        committed.append(k)

    running = asyncio.ensure_future(run(count, window, work, commit))
    while len(committed) < count:
        await settled()
        assert started == list(range(min(count, len(committed) + window)))
        gates[order.choice([k for k in started if not gates[k].is_set()])].set()
        await settled()
    await running
    assert committed == list(range(count))


async def settled():
    """Let the event loop run until nothing is ready any more."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_at_most_window_steps_are_in_flight_and_all_of_them_are_used():
    in_flight, most = 0, 0

    async def work(k):
        nonlocal in_flight, most
        in_flight += 1
        most = max(most, in_flight)
        await asyncio.sleep(0.002)
        in_flight -= 1

    await run(20, 5, work)
    assert most == 5


async def test_a_slow_step_does_not_delay_the_others_in_its_window():
    gate = asyncio.Event()
    done = []

    async def work(k):
        if k == 0:
            await gate.wait()
        done.append(k)
        if len(done) == 3:
            gate.set()

    await asyncio.wait_for(run(8, 4, work), 5)
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

    async def work(k):
        await asyncio.sleep(0.05 if k == 0 else 0)

    await run(8, 8, work)
    assert rounds <= 8  # an end each


async def test_steps_start_and_end_while_a_result_is_used():
    """A slow use delays only what needs it; the next result is taken after it."""
    gate, log = asyncio.Event(), []

    async def work(k):
        log.append(f"work {k}")

    async def use():
        async with aclosing(in_window(range(20), 4, work)) as in_order:
            async for k, _ in in_order:
                log.append(f"commit {k}")
                if k == 1:
                    await gate.wait()
                log.append(f"committed {k}")
                if k == 3:
                    break

    using = asyncio.ensure_future(use())
    await settled()
    assert "commit 1" in log
    assert "committed 1" not in log
    assert [line for line in log if line.startswith("work")] == [f"work {k}" for k in range(5)]
    gate.set()
    await using
    commits = [line for line in log if line.startswith("commit")]
    assert commits == [f"{word} {k}" for k in range(4) for word in ("commit", "committed")]


async def test_the_first_failure_ends_all_at_once():
    cancelled = []

    async def work(k):
        if k == 2:
            await asyncio.sleep(0.01)
            raise RuntimeError("bad key")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(k)
            raise

    with pytest.raises(RuntimeError, match="bad key"):
        await asyncio.wait_for(run(8, 4, work), 5)
    assert sorted(cancelled) == [0, 1, 3]


async def test_a_failure_while_a_result_is_used_is_raised_before_the_next_one_is_waited_for():
    async def work(k):
        if k == 2:
            raise RuntimeError("bad key")
        await asyncio.sleep(60 if k == 1 else 0)

    async def use():
        async with aclosing(in_window(range(8), 4, work)) as in_order:
            async for _ in in_order:
                await settled()

    with pytest.raises(RuntimeError, match="bad key"):
        await asyncio.wait_for(use(), 5)


async def test_without_further_steps_what_is_in_flight_ends_and_nothing_more_starts():
    ended, committed = [], []

    async def work(k):
        await asyncio.sleep(0.002 * (1 if k == 2 else 5))
        ended.append(k)

    steps = takewhile(lambda _: 2 not in committed, range(20))
    async with aclosing(in_window(steps, 4, work)) as in_order:
        async for k, _ in in_order:
            committed.append(k)
    assert committed == sorted(ended) == [0, 1, 2, 3, 4, 5]  # these were in flight when 2 was committed


async def test_an_iteration_that_is_left_cancels_what_is_in_flight():
    cancelled = []

    async def work(k):
        try:
            await asyncio.sleep(60 if k else 0)
        except asyncio.CancelledError:
            cancelled.append(k)
            raise

    async with aclosing(in_window(range(8), 4, work)) as in_order:
        async for k, _ in in_order:
            assert k == 0
            break
    assert sorted(cancelled) == [1, 2, 3]


async def test_steps_start_beyond_the_window_while_its_first_one_is_late_and_not_without_end():
    gate, started, committed = asyncio.Event(), [], []

    async def work(k):
        started.append(k)
        if k == 3:
            await gate.wait()

    async def run_all():
        async with aclosing(in_window(range(100), 2, work, patience=lambda: 0.05)) as in_order:
            async for k, _ in in_order:
                committed.append(k)

    running = asyncio.ensure_future(run_all())
    await asyncio.sleep(0.02)
    assert started == [0, 1, 2, 3, 4]
    while len(started) < 23:  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    assert len(started) == 3 + 20
    gate.set()
    await running
    assert committed == list(range(100))


async def test_as_many_steps_as_the_window_holds_are_worked_on_beside_a_late_one():
    gate, started, committed = asyncio.Event(), [], []

    async def work(k):
        started.append(k)
        await gate.wait()

    async def run_all():
        async with aclosing(in_window(range(20), 4, work, patience=lambda: 0.01)) as in_order:
            async for k, _ in in_order:
                committed.append(k)

    running = asyncio.ensure_future(run_all())
    await asyncio.sleep(0.1)
    assert len(started) == 5
    gate.set()
    await running
    assert committed == list(range(20))
