import asyncio

import pytest

from engine.errors import BudgetExceededError, ConfigurationError
from engine.llm.budget import Budget
from engine.records import Sampling
from tests.support.fault_server import FaultPlan, chat_app
from tests.support.hostile_server import HostileServer
from tests.support.llm_client import answer, ask, client_of


async def test_without_limits_everything_fits():
    budget = Budget()
    hold = await budget.hold(10**9, None)
    budget.settle(hold, 7, None)
    assert (budget.spent_tokens, budget.spent_usd) == (7, 0.0)


async def test_a_request_that_could_exceed_the_limit_is_refused():
    budget = Budget(tokens=1000)
    budget.settle(await budget.hold(400, None), 300, None)
    budget.settle(await budget.hold(700, None), 100, None)  # 300 + 700: exactly the limit
    with pytest.raises(BudgetExceededError, match="400 tokens") as caught:
        await budget.hold(601, None)
    assert caught.value.exit_code == 3
    assert "--budget-tokens" in caught.value.fix
    await budget.hold(600, None)


async def test_the_limit_in_usd():
    budget = Budget(usd=0.01)
    budget.settle(await budget.hold(1, 0.006), 1, 0.004)
    with pytest.raises(BudgetExceededError, match=r"0\.0040 USD"):
        await budget.hold(1, 0.0061)
    await budget.hold(1, 0.006)


async def test_a_limit_in_usd_requires_prices():
    with pytest.raises(ConfigurationError, match="prices"):
        await Budget(usd=1.0).hold(1, None)


async def test_a_request_waits_while_others_reserve_the_budget():
    budget = Budget(tokens=1000)
    first = await budget.hold(800, None)
    waiting = [asyncio.create_task(budget.hold(300, None)) for _ in range(3)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    budget.settle(first, 100, None)  # 900 remain: three of 300 fit
    done = await asyncio.wait_for(asyncio.gather(*waiting), 1)
    assert [tokens for tokens, _ in done] == [300, 300, 300]


async def test_waiters_that_no_longer_fit_fail_and_smaller_ones_continue():
    budget = Budget(tokens=1000)
    first = await budget.hold(900, None)
    big = asyncio.create_task(budget.hold(800, None))
    small = asyncio.create_task(budget.hold(200, None))
    await asyncio.sleep(0)
    budget.settle(first, 700, None)
    with pytest.raises(BudgetExceededError):
        await asyncio.wait_for(big, 1)
    assert await asyncio.wait_for(small, 1) == (200, 0.0)


async def test_a_cancelled_waiter_does_not_block_the_queue():
    budget = Budget(tokens=1000)
    first = await budget.hold(900, None)
    gone = asyncio.create_task(budget.hold(500, None))
    next_one = asyncio.create_task(budget.hold(500, None))
    await asyncio.sleep(0)
    gone.cancel()
    budget.settle(first, 0, None)
    assert await asyncio.wait_for(next_one, 1) == (500, 0.0)


async def test_a_limit_is_never_exceeded_under_load():
    budget = Budget(tokens=5000)
    passed = []

    async def caller(cost):
        try:
            hold = await budget.hold(100, None)
        except BudgetExceededError:
            return 0
        await asyncio.sleep(0)
        budget.settle(hold, cost, None)
        passed.append(budget.spent_tokens)
        return cost

    costs = [1 + number * 37 % 100 for number in range(300)]
    spent = await asyncio.wait_for(asyncio.gather(*map(caller, costs)), 5)
    assert sum(spent) == budget.spent_tokens
    assert 4900 < max(passed) <= 5000


@pytest.mark.parametrize(("price_cached", "cost"), [(0.25, 8 * 1 + 3 * 0.25 + 2 * 2), (None, 11 * 1 + 2 * 2)])
async def test_prompt_tokens_from_a_cache_have_their_own_price(price_cached, cost):
    app = chat_app(lambda body, index: "ok", usage={"prompt_tokens_details": {"cached_tokens": 3}})
    prices = {"price_in": 1, "price_out": 2, "price_cached": price_cached}
    budget = Budget(usd=1)
    async with client_of(app, endpoint=prices, budget=budget) as client:
        [reply] = await client.sample(ask("a", sampling=Sampling(max_tokens=20)), [0])
        assert client.counters.cached_tokens == 3
        assert client.counters.cost_usd == pytest.approx(cost / 1e6)
    assert reply.completion.usage.cost_usd == pytest.approx(cost / 1e6)
    assert budget.spent_usd == pytest.approx(cost / 1e6)


async def test_tokens_of_thinking_are_divided_among_the_samples_and_counted():
    app = chat_app(lambda body, index: "ok" * (1 + index), usage={"completion_tokens_details": {"reasoning_tokens": 3}})
    async with client_of(app) as client:
        replies = await client.sample(ask("a"), [0, 1])
        assert client.counters.reasoning_tokens == 3
    assert [reply.completion.usage.reasoning_tokens for reply in replies] == [1, 2]


UNREADABLE = ("stall", "reset", "cut_off", "truncated", "empty_body", "bad_gzip", "html", "not_http", "fine")


async def ask_until_it_ends(client, name):
    """Requests whose first attempt ends without a readable reply; the types of what they end with."""
    requests = [ask(f"{UNREADABLE[n % 9]} {name}{n}", sampling=Sampling(max_tokens=20)) for n in range(90)]
    results = await asyncio.gather(*(client.sample(request, [0]) for request in requests), return_exceptions=True)
    return {type(result) for result in results}


async def test_attempts_without_a_readable_reply_count_as_what_they_reserved(journal):
    """The server's own count never exceeds the budget."""
    server = HostileServer()
    budget = Budget(tokens=1500)
    async with client_of(server.app, journal, {"timeout_s": 3.0}, budget=budget) as client:
        assert await ask_until_it_ends(client, "q") == {list, BudgetExceededError}
    assert 500 < server.billed_tokens <= 1500


@pytest.mark.parametrize("kind", ["truncated", "wrong_schema", "reset"])
async def test_an_exhausted_budget_says_how_attempts_count_that_could_not_be_read(kind, journal):
    """Else the sum of the costs of all replies is less than what was spent, and nothing says why."""
    budget = Budget(usd=0.01)
    plan = FaultPlan(seed=1, rate=1.0, kinds=(kind,), max_consecutive_per_request=2)
    prices = {"price_in": 1.0, "price_out": 100.0}
    app = chat_app(answer, faults=plan)

    async def ask_to_the_end(client):
        for n in range(1000):
            await client.sample(ask(f"{n}", sampling=Sampling(max_tokens=20)), [0])

    async with client_of(app, journal, prices, budget=budget) as client:
        with pytest.raises(BudgetExceededError, match="counts as the most that it may have cost"):
            await ask_to_the_end(client)
        assert (client.counters.cost_usd or 0.0) < budget.spent_usd <= 0.01
