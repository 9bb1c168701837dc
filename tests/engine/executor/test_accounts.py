"""What the workers of a run share: journal, budget and rate limits, through a handle to another thread."""

import asyncio
import gc
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.api_manager import ApiManager, Endpoint
from engine.errors import BudgetExceededError, IncompleteRunError
from engine.executor.accounts import SharedAccounts
from engine.executor.remote_accounts import AccountsClient, RemoteBudget, RemoteLedger
from engine.llm.journal import JournalError
from engine.llm.limits.budget import Budget, BudgetFileError
from engine.llm.limits.rate_limits import LeaseRequest, LedgerError, RateLimits
from engine.records import Completion


class ThreadHandle:
    """Calls an object in a thread, one call at a time, as an actor does."""

    def __init__(self, target):
        self.target, self.calls = target, []
        self._thread = ThreadPoolExecutor(1)

    def call(self, method, *arguments):
        self.calls.append(arguments[0] if method == "answer" else method)
        return self._thread.submit(getattr(self.target, method), *arguments)


@pytest.fixture
def accounts(tmp_path):
    handle = ThreadHandle(SharedAccounts(tmp_path / "r.sqlite", tmp_path / "l.sqlite", lambda: Budget(tokens=100)))
    yield handle
    handle.call("close").result()


def budget_of(accounts, worker="0"):
    return RemoteBudget(AccountsClient(accounts, worker), None, 100)


async def test_the_first_reply_with_a_key_is_the_one_that_all_workers_use(accounts):
    one, two = (AccountsClient(accounts, name) for name in "01")
    assert one.get_many(["k"]) == {}
    first, second = Completion(text="first"), Completion(text="second")
    assert await one.put("k", first) == first
    assert await two.put("k", second) == first
    assert two.get_many(["k", "other"]) == {"k": first}


async def test_what_a_lost_worker_had_reserved_counts_as_spent(accounts):
    first, second = budget_of(accounts), budget_of(accounts, "1")
    hold = await first.hold(60, None)
    waiting = asyncio.ensure_future(second.hold(60, None))
    await asyncio.wrap_future(accounts.call("lost", "0"))
    with pytest.raises(BudgetExceededError, match="spent: 60 tokens"):
        await waiting
    first.settle(hold, 10, None)  # it was only cut off: its reservation stays spent
    await asyncio.sleep(0)
    assert accounts.call("spent").result() == (60, 0.0)


async def test_a_reservation_that_nobody_waits_for_any_more_is_given_back(accounts):
    budget = budget_of(accounts)
    hold = await budget.hold(80, None)
    waiting = asyncio.ensure_future(budget.hold(50, None))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    budget.settle(hold, 10, None)
    assert (await asyncio.wait_for(budget.hold(90, None), 60)).tokens == 90


async def test_a_reservation_whose_caller_was_cancelled_while_it_was_made_is_given_back(accounts):
    budget = budget_of(accounts)
    waiting = asyncio.ensure_future(budget.hold(80, None))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert accounts.calls == ["hold"]
    waiting.cancel()
    assert (await asyncio.wait_for(budget.hold(90, None), 60)).tokens == 90


async def test_what_a_reply_cost_and_its_completions_travel_in_one_call(accounts):
    line = AccountsClient(accounts, "0")
    budget, journal = RemoteBudget(line, None, 100), line
    holds = await asyncio.gather(*(budget.hold(10, None) for _ in range(3)))
    for hold in holds:
        budget.settle(hold, 7, None)
    sent = [Completion(text=str(number)) for number in range(4)]
    assert await asyncio.gather(*(journal.put(one.text, one) for one in sent)) == sent
    assert accounts.calls == ["hold", "record"]
    assert accounts.call("spent").result() == (21, 0.0)
    assert journal.get_many(["0", "3"]) == {"0": sent[0], "3": sent[3]}


async def test_attempts_that_start_together_are_granted_in_their_order_as_far_as_they_fit(accounts):
    budget = budget_of(accounts)
    first, second, third, refused, last = [
        asyncio.ensure_future(budget.hold(tokens, None)) for tokens in (40, 50, 30, 101, 20)
    ]
    held = await first
    await second
    assert not third.done()
    budget.settle(held, 10, None)
    assert (await asyncio.wait_for(third, 60)).tokens == 30
    with pytest.raises(BudgetExceededError, match="may use 101 tokens"):
        await asyncio.wait_for(refused, 60)
    assert not last.done()
    budget.settle(await second, 0, None)
    assert (await asyncio.wait_for(last, 60)).tokens == 20


async def test_what_is_released_last_arrives_before_the_loop_ends(accounts):
    line = AccountsClient(accounts, "0")
    budget = RemoteBudget(line, None, 100)
    hold = await budget.hold(80, None)
    budget.settle(hold, 10, None)
    await line.drain()
    assert accounts.calls == ["hold", "record"]
    assert accounts.call("spent").result() == (10, 0.0)
    await line.drain()  # nothing is left


async def test_a_reservation_that_arrives_at_the_end_is_given_back_before_the_loop_ends(accounts):
    line = AccountsClient(accounts, "0")
    waiting = asyncio.ensure_future(RemoteBudget(line, None, 100).hold(80, None))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert accounts.calls == ["hold"]
    waiting.cancel()
    await line.drain()
    assert accounts.calls == ["hold", "record"]
    assert (await asyncio.wait_for(budget_of(accounts, "1").hold(100, None), 60)).tokens == 100


async def test_a_reply_is_stored_where_the_budget_fails_and_its_reservation_released_where_the_journal_fails(
    accounts, monkeypatch
):
    line = AccountsClient(accounts, "0")
    budget, journal, shared = RemoteBudget(line, None, 100), line, accounts.target
    first, second = await budget.hold(10, None), await budget.hold(10, None)

    def fail(*_):
        raise BudgetFileError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(shared._budget, "settle", fail)
        budget.settle(first, 1, None)
        with pytest.raises(BudgetFileError, match="disk full"):
            await journal.put("k", Completion(text="paid"))
    assert journal.get_many(["k"]) == {"k": Completion(text="paid")}
    with monkeypatch.context() as patch:
        patch.setattr(shared._journal, "put_many", fail)
        budget.settle(second, 2, None)
        with pytest.raises(BudgetFileError, match="disk full"):
            await journal.put("other", Completion(text="paid"))
    assert accounts.call("spent").result() == (2, 0.0)


async def test_an_error_of_several_replies_that_is_raised_once_is_not_reported_again(accounts, monkeypatch):
    reported = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["message"]))
    journal = AccountsClient(accounts, "0")

    def fail(*_):
        raise JournalError("disk full")

    monkeypatch.setattr(accounts.target._journal, "put_many", fail)
    futures = [journal.put(key, Completion(text="paid")) for key in "ab"]
    with pytest.raises(JournalError, match="disk full"):
        await futures[0]
    del futures
    gc.collect()
    assert reported == []


def test_errors_are_returned_by_every_method(accounts, monkeypatch):
    def fail(*_):
        raise LedgerError("disk full")

    ledger = RemoteLedger(AccountsClient(accounts, "0"))
    for method in ("pause", "pause_left_s", "add_spent", "scope", "exchange"):
        monkeypatch.setattr(accounts.target._ledger, method, fail)
    scope, request = "s", LeaseRequest(holder="a")
    calls = [
        ("pause", scope, 1.0), ("pause_left_s", scope), ("add_spent", scope, 1, 0.0), ("scope", "endpoint"),
        ("exchange", "0", scope, RateLimits(), request),
    ]  # fmt: skip
    for method, *arguments in calls:
        assert isinstance(accounts.call("answer", method, *arguments).result(), LedgerError)
    with pytest.raises(LedgerError, match="disk full"):
        ledger.pause(scope, 1.0)


def test_many_workers_exchange_less_often(accounts):
    limits = RateLimits(rpm=10**6)
    grants = [
        accounts.call("exchange", str(worker), "s", limits, LeaseRequest("a", in_use=1, demand=1, requests=1)).result()
        for worker in range(300)
    ]
    assert [grants[0].renew_in_s, grants[-1].renew_in_s] == [1.0, 6.0]
    ledger = accounts.target._ledger
    later = ledger.clock() + 60.4  # the first uses leave the window in 0.1 s
    ledger.clock = lambda: later
    waiting = LeaseRequest(holder="a", in_use=1, demand=2, requests=1)
    assert accounts.call("exchange", "0", "s", limits, waiting).result().retry_in_s == 1.5


async def test_calls_of_a_lost_worker_that_arrive_late_reserve_nothing(accounts):
    ledger, limits = RemoteLedger(AccountsClient(accounts, "0")), RateLimits(max_concurrency=4)
    journal = AccountsClient(accounts, "0")
    accounts.call("lost", "0").result()
    with pytest.raises(IncompleteRunError, match="given up"):
        await budget_of(accounts).hold(60, None)
    with pytest.raises(IncompleteRunError, match="given up"):
        ledger.exchange("s", limits, LeaseRequest(holder="a", in_use=4, demand=4))
    other = RemoteLedger(AccountsClient(accounts, "1"))
    assert other.exchange("s", limits, LeaseRequest(holder="b", demand=4)).slots == 4
    assert (await budget_of(accounts, "1").hold(100, None)).tokens == 100
    paid = Completion(text="paid for")
    assert await journal.put("k", paid) == paid  # its reply is kept


def test_pauses_arrive_with_stored_replies(accounts, monkeypatch):
    monkeypatch.setattr("engine.executor.remote_accounts._PAUSES_FOR_S", 1000)
    endpoint = Endpoint(role="critic", api_key="k", base_url="http://a/v1", model="m")
    lines = [AccountsClient(accounts, name) for name in "01"]
    ledgers = [RemoteLedger(line) for line in lines]
    scope = ledgers[0].scope(endpoint)
    ledgers[0].pause(scope, 300)
    lines[1].get_many(["k"])
    assert 200 < ledgers[1].pause_left_s(scope) <= 300
    assert ledgers[1].pause_left_s("another") == 0
    assert "pause_left_s" not in accounts.calls
    lines[1].heard_at -= 1000
    assert 200 < ledgers[1].pause_left_s(scope) <= 300
    assert accounts.calls[-1] == "pause_left_s"


def test_slots_of_a_lost_worker_are_free_for_the_others(accounts):
    scope, limits = "s", RateLimits(max_concurrency=4)
    first, second = (RemoteLedger(AccountsClient(accounts, name)) for name in "01")
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
