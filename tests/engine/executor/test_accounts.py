"""What the workers of a run share: journal, budget and rate limits, through a handle to another event loop."""

import asyncio
import threading

import pytest

from engine.api_manager import ApiManager
from engine.errors import BudgetExceededError
from engine.executor.accounts import RemoteBudget, RemoteJournal, RemoteLedger, SharedAccounts
from engine.llm.limits.budget import Budget
from engine.llm.limits.rate_limits import LeaseRequest, Limits
from engine.records import Completion


class LoopHandle:
    """Calls an object in the event loop of a thread."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def open(self, make):
        async def made():
            return make()

        self.target = asyncio.run_coroutine_threadsafe(made(), self.loop).result()

    def call(self, method, *arguments):
        return asyncio.run_coroutine_threadsafe(getattr(self.target, method)(*arguments), self.loop)


@pytest.fixture
def accounts(tmp_path):
    handle = LoopHandle()
    handle.open(lambda: SharedAccounts(tmp_path / "r.sqlite", tmp_path / "l.sqlite", lambda: Budget(tokens=100)))
    yield handle
    handle.call("close").result()
    handle.loop.call_soon_threadsafe(handle.loop.stop)


async def test_the_first_reply_with_a_key_is_the_one_that_all_workers_use(accounts):
    one, two = RemoteJournal(accounts), RemoteJournal(accounts)
    assert one.get_many(["k"]) == {}
    first, second = Completion(text="first"), Completion(text="second")
    assert await one.put("k", first) == first
    assert await two.put("k", second) == first
    assert two.get_many(["k", "other"]) == {"k": first}


async def test_what_a_lost_worker_had_reserved_counts_as_spent(accounts):
    first, second = RemoteBudget(accounts, "0", None, 100), RemoteBudget(accounts, "1", None, 100)
    hold = await first.hold(60, None)
    waiting = asyncio.ensure_future(second.hold(60, None))
    await asyncio.to_thread(accounts.call("lost", "0").result)
    with pytest.raises(BudgetExceededError, match="spent: 60 tokens"):
        await waiting
    first.settle(hold, 10, None)  # it was only cut off: its reservation stays spent
    assert accounts.call("spent").result() == (60, 0.0)


async def test_a_reservation_that_nobody_waits_for_any_more_is_given_back(accounts):
    budget = RemoteBudget(accounts, "0", None, 100)
    hold = await budget.hold(80, None)
    waiting = asyncio.ensure_future(budget.hold(50, None))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    budget.settle(hold, 10, None)
    assert (await asyncio.wait_for(budget.hold(90, None), 60)).tokens == 90


def test_slots_of_a_lost_worker_are_free_for_the_others(accounts):
    scope, limits = "s", Limits(max_concurrency=4)
    first, second = RemoteLedger(accounts, "0"), RemoteLedger(accounts, "1")
    assert first.exchange(scope, limits, LeaseRequest(holder="a", in_use=4, demand=4)).slots == 4
    assert second.exchange(scope, limits, LeaseRequest(holder="b", demand=4)).slots == 0
    accounts.call("lost", "0").result()
    assert second.exchange(scope, limits, LeaseRequest(holder="b", demand=4)).slots == 4


def test_notes_are_told_once(accounts):
    for text in ("cannot reach it", "cannot reach it", "slow down"):
        accounts.call("tell", text).result()
    assert accounts.call("notes", 0).result() == ["cannot reach it", "slow down"]
    assert accounts.call("notes", 1).result() == ["slow down"]


def test_resolved_endpoints_need_no_environment():
    entries = {"default": {"base_url": "http://a/v1", "model": "m", "api_key_env": "KEY"}}
    manager = ApiManager("a file", entries, {"KEY": "secret"}).resolved()
    assert manager.endpoint("generator_1").api_key.get_secret_value() == "secret"
    unset = ApiManager("a file", entries, {}).resolved()
    assert unset.has("generator_1")
