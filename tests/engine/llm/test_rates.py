import asyncio

import pytest

from engine.llm.limits import WINDOW_S, MinuteLimits
from tests.support.llm_client import VirtualClock


@pytest.fixture
def virtual():
    return VirtualClock()


def limits(virtual, rpm=None, tpm=None):
    return MinuteLimits(rpm, tpm, virtual.clock, virtual.sleep)


async def send_times(limits, virtual, sizes):
    """When each request may be sent, and its tokens, in the order in which they may."""
    sent = []

    async def send(tokens):
        use = await limits.acquire(tokens)
        sent.append((use.sent_at, tokens))

    await asyncio.gather(*map(send, sizes))
    return sent


async def test_every_window_of_a_minute_has_at_most_rpm_requests_and_tpm_tokens(virtual):
    sizes = [10 + 37 * number % 90 for number in range(60)]
    sent = await send_times(limits(virtual, rpm=9, tpm=400), virtual, sizes)
    assert [tokens for _, tokens in sent] == sizes, "in the order in which they were asked for"
    for begin, _ in sent:
        window = [tokens for at, tokens in sent if begin <= at < begin + 60.0]
        assert len(window) <= 9
        assert sum(window) <= 400


async def test_without_limits_nothing_waits(virtual):
    began = virtual.now
    assert {at for at, _ in await send_times(limits(virtual), virtual, [10**6] * 50)} == {began}


async def test_tokens_that_were_not_used_are_available_at_once_and_more_used_ones_count(virtual):
    of_minute, began = limits(virtual, tpm=100), virtual.now
    first = await of_minute.acquire(90)
    waiting = asyncio.create_task(of_minute.acquire(60))
    await asyncio.sleep(0)
    of_minute.correct(first, 20)
    assert (await waiting).sent_at - began <= 2.0
    of_minute.correct(first, 40)
    assert (await of_minute.acquire(1)).sent_at - began >= WINDOW_S


async def test_a_request_that_is_larger_than_the_limit_waits_for_an_empty_minute(virtual):
    sent = await send_times(limits(virtual, tpm=100), virtual, [10, 500, 10])
    assert [round(at - sent[0][0]) for at, _ in sent] == [0, 60, 121]


async def test_a_cancelled_request_lets_the_next_one_pass(virtual):
    of_minute = limits(virtual, rpm=1)
    await of_minute.acquire(1)
    first, second = (asyncio.create_task(of_minute.acquire(1)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert (await asyncio.wait_for(second, 5)).tokens == 1
    assert first.cancelled()


async def test_a_correction_after_the_minute_changes_nothing(virtual):
    of_minute = limits(virtual, tpm=100)
    first = await of_minute.acquire(100)
    virtual.now += WINDOW_S
    await of_minute.acquire(50)
    of_minute.correct(first, 0)
    began = virtual.now
    await of_minute.acquire(60)
    assert virtual.now - began >= 60
