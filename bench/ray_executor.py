"""The executor on Ray: what a group costs, how verification scales with workers, and what limits a large cluster.

``python -m bench.ray_executor [--groups 300] [--rows 2000]``. The first three parts are measured on this machine, with
a Ray of its own. The last one is simulated: a queue model of up to 1,000 workers and 10^7 rollouts, with the processor
times that were measured. It leaves out the network and other programs.
"""

import argparse
import asyncio
import heapq
import random
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pydantic import SecretStr

from engine.api_manager import Endpoint
from engine.executor.accounts import SharedAccounts
from engine.executor.local import LocalExecutor
from engine.executor.ray_cluster import RayExecutor
from engine.executor.remote_accounts import AccountsClient, RemoteBudget, RemoteLedger
from engine.llm.limits.budget import Budget
from engine.llm.limits.rate_limits import WINDOW_S, Correction, Grant, LeaseRequest, RateLimits
from engine.records import Completion, Problem, RolloutGroup
from engine.storage.rollout_store import RolloutStore, read
from engine.tasks.registry import task_named
from grpo_training.learning.groups.work import GroupOrder
from grpo_training.score_rollouts.workers import VerifierDescription, VerifyItem
from tests.support.recorded_replies import EXAMPLE_FILES

ROLLOUTS, IN_GROUP = 10_000_000, 8
LATENCY_S, SPREAD = 20.0, 0.6
"""Median and log-normal spread of the time that a worker needs for a group: asking, mostly."""
IN_FLIGHT = 8
"""Groups that a worker has in work."""
ASKING = 8
"""Workers that ask the shared accounts at once."""


@dataclass(frozen=True)
class Ready:
    """Describes workers that answer at once with a stored group of ``IN_GROUP`` rollouts."""

    def open(self, number: int) -> "Ready":
        return self

    def run(self, item: GroupOrder) -> RolloutGroup:
        return example_group()

    def close(self) -> None:
        pass


_GROUPS: list[RolloutGroup] = []


def example_group() -> RolloutGroup:
    """A recorded group, its rollouts repeated to ``IN_GROUP``."""
    if not _GROUPS:
        path = next(path for path in EXAMPLE_FILES if path.name == "generator_1_rollouts.jsonl")
        group = read(path, RolloutGroup).records[0]
        _GROUPS.append(group.model_copy(update={"rollouts": (group.rollouts * IN_GROUP)[:IN_GROUP]}))
    return _GROUPS[0]


class MeasuredAccounts(SharedAccounts):
    """Tells how much processor time it has used. Minutes of the ledger can pass at once."""

    def cpu(self) -> float:
        return time.process_time()

    def exchange_at(self, now: float, worker: str, limits: RateLimits, request: LeaseRequest) -> Grant:
        """An exchange at a time of the ledger's clock."""
        self._ledger.clock = lambda: now
        grant: Grant = self.exchange(worker, "s", limits, request)
        return grant


@dataclass(frozen=True)
class Costs:
    """Processor seconds per group of the processes that there is one of; ``writer`` is a part of the driver.

    ``limits`` are those per second that the accounts need for the rate limits of a number of workers.
    """

    driver: float
    writer: float
    accounts: float
    limits: dict[int, float]


def group_cost(executor: RayExecutor, groups: int) -> float:
    """Processor seconds of the driver for one group that a worker sends back."""
    order = GroupOrder(Problem(id="p", text="How many?" * 20, answer="1", task="math"), 0, (), "v")
    with executor.pool(Ready(), 1, in_flight=IN_FLIGHT) as pool:
        pool.submit(order).result()
        before, started = time.process_time(), time.perf_counter()
        for future in [pool.submit(order) for _ in range(groups)]:
            future.result()
        cpu, took = time.process_time() - before, time.perf_counter() - started
    print(
        f"a group through Ray: {cpu / groups * 1e3:.2f} ms processor time of the driver, {groups / took:.0f} groups/s"
    )
    return float(cpu) / groups


def writer_cost(groups: int, folder: Path) -> float:
    """Seconds to append one group to the cache, durably."""
    store = RolloutStore(folder / "generator_1_rollouts.jsonl")
    with store.hold():
        started = time.perf_counter()
        for _ in range(groups):
            store.append(example_group())
        took = time.perf_counter() - started
    print(f"a group appended to the cache, with sync: {took / groups * 1e3:.2f} ms")
    return took / groups


def accounts_cost(executor: RayExecutor, groups: int, folder: Path) -> float:
    """Processor seconds of the shared accounts for one group: one request for ``IN_GROUP`` samples, with a budget."""
    limit = 10**12
    places = folder / "r.sqlite", folder / "l.sqlite"
    accounts = executor.beside_driver(MeasuredAccounts, *places, partial(Budget, tokens=limit))
    completion = next(one.completion for one in example_group().rollouts if one.completion is not None)
    endpoint = Endpoint(role="generator_1", api_key=SecretStr("EMPTY"), base_url="http://a/v1", model="m")
    accounts.call("scope", endpoint).result()

    async def ask(worker: int) -> None:
        line = AccountsClient(accounts, str(worker))
        journal, ledger, budget = line, RemoteLedger(line), RemoteBudget(line, None, limit)
        scope = ledger.scope(endpoint)
        for number in range(worker, groups, ASKING):
            keys = [f"{number}-{sample}" for sample in range(IN_GROUP)]
            journal.get_many(keys)
            hold = await budget.hold(1000, None)
            await asyncio.to_thread(ledger.pause_left_s, scope)
            budget.settle(hold, 900, None)
            await asyncio.gather(*(journal.put(key, completion) for key in keys))

    before = accounts.call("cpu").result()
    with ThreadPoolExecutor(ASKING) as threads:
        list(threads.map(lambda worker: asyncio.run(ask(worker)), range(ASKING)))
    cpu = accounts.call("cpu").result() - before
    accounts.call("close").result()
    accounts.end()
    print(f"shared accounts, for a group with a budget: {cpu / groups * 1e3:.2f} ms processor time")
    return float(cpu) / groups


def limits_cost(executor: RayExecutor, workers: int, folder: Path) -> float:
    """Processor seconds per second of the shared accounts for the rate limits of an endpoint.

    Measured after a minute of exchanges, when the ledger knows all uses that count and all workers.
    """
    accounts = executor.beside_driver(MeasuredAccounts, folder / "r.sqlite", folder / f"l{workers}.sqlite", Budget)
    limits = RateLimits(max_concurrency=IN_FLIGHT * workers, rpm=10**7, tpm=10**10)
    granted: dict[int, Grant] = {}
    now, number = 0.0, 0

    def exchange() -> float:
        """An exchange of the next worker, which returns what it has not used. The time until the one after it."""
        nonlocal now, number
        worker, number = number % workers, number + 1
        before = granted.get(worker)
        used = () if before is None else (Correction(before.granted_at, -1, -300), Correction(now - 0.5, 1, 263))
        request = LeaseRequest(f"{worker}", IN_FLIGHT // 2, IN_FLIGHT, requests=2, tokens=600, corrections=used)
        granted[worker] = accounts.call("exchange_at", now, str(worker), limits, request).result()
        every_s = granted[worker].renew_in_s / workers
        now += every_s
        return every_s

    while now < WINDOW_S or number < workers:
        exchange()
    before, times = accounts.call("cpu").result(), 200
    every_s = sum(exchange() for _ in range(times)) / times
    cpu = (accounts.call("cpu").result() - before) / times
    accounts.call("close").result()
    accounts.end()
    rate = 1 / every_s
    print(f"rate limits of {workers} workers: {cpu * 1e3:.2f} ms processor time, {rate:.0f} times a second")
    return float(cpu) * rate


def scaling(executor: RayExecutor, rows: int) -> None:
    """Rows per second that are verified by one and two workers, on Ray and by processes of this machine."""
    task = task_named("math")
    rng = random.Random(1)
    replies = []
    for number in range(rows):
        a, b = rng.randint(2, 99), rng.randint(2, 99)
        problem = Problem(id=str(number), text="Simplify.", answer=f"\\frac{{{a}}}{{{b}}} + \\sqrt{{{b}}}", task="math")
        text = f"It is \\boxed{{\\sqrt{{{b}}} + \\frac{{{2 * a}}}{{{2 * b}}}}}."
        replies.append(VerifyItem(problem, Completion(text=text, finish_reason="stop")))
    description = VerifierDescription.of(task, "math")
    for name, place in (("processes", LocalExecutor()), ("Ray", executor)):
        for workers in (1, 2):
            with place.pool(description, workers) as pool:
                for future in [pool.submit(replies[0]) for _ in range(4 * workers)]:
                    future.result()
                started = time.perf_counter()
                for future in [pool.submit(reply) for reply in replies]:
                    future.result()
                took = time.perf_counter() - started
            print(f"verification, {name}, {workers} worker(s): {rows / took:.0f} rows/s")


def simulate(workers: int, costs: Costs, groups: int, window: int) -> tuple[float, dict[str, float]]:
    """Seconds for all groups, and the share of them in which each single process is busy.

    A group starts when a worker is free and the group ``window`` before it is committed; groups are committed in order.
    """
    rng = random.Random(workers)
    free = [0.0] * (workers * IN_FLIGHT)
    committed = [0.0] * window  # of the last groups, as a ring
    driver = accounts = last = 0.0
    accounts_cost = costs.accounts / (1 - costs.limits[workers])
    for number in range(groups):
        start = max(heapq.heappop(free), committed[number % window], driver)
        driver = start + costs.driver / 2  # to send the order
        asked = driver + rng.lognormvariate(0, SPREAD) * LATENCY_S
        accounts = max(accounts, start) + accounts_cost
        done = max(asked, accounts)
        heapq.heappush(free, done)
        driver_done = max(done, last) + costs.driver / 2 + costs.writer
        committed[number % window] = last = driver_done
    busy = {
        "driver": groups * (costs.driver + costs.writer) / last,
        "accounts": groups * costs.accounts / last + costs.limits[workers],
    }
    return last, busy


def simulated(costs: Costs) -> None:
    """Print the shape of large clusters, and the number of workers at which each process is full."""
    groups = ROLLOUTS // IN_GROUP
    mean_s = LATENCY_S * 2.718281828 ** (SPREAD**2 / 2)
    print(f"\nsimulated: {ROLLOUTS:,} rollouts in groups of {IN_GROUP}, {LATENCY_S:g} s per group (median), ")
    print(f"{IN_FLIGHT} groups in work per worker, a window of four times the groups in work")
    for workers in costs.limits:
        part = min(groups, workers * IN_FLIGHT * 40)  # a steady part; the whole is proportional
        seconds, busy = simulate(workers, costs, part, 4 * workers * IN_FLIGHT)
        ideal = part / (workers * IN_FLIGHT / mean_s)
        shares = ", ".join(f"{name} {share:.0%} busy" for name, share in busy.items())
        hours = groups * seconds / part / 3600
        print(f"{workers} workers: {hours:.1f} h, {ideal / seconds:.0%} of the workers' rate; {shares}")
    per_worker = IN_FLIGHT / mean_s
    left = 1 - costs.limits[max(costs.limits)]
    for name, cost in (("accounts", costs.accounts / left), ("driver with writer", costs.driver + costs.writer)):
        print(f"{name}: full at {1 / cost:.0f} groups/s, the rate of {1 / cost / per_worker:.0f} workers")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=300)
    parser.add_argument("--rows", type=int, default=2000)
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, RayExecutor() as executor:
        place = Path(folder)
        costs = Costs(
            driver=group_cost(executor, flags.groups),
            writer=writer_cost(flags.groups, place),
            accounts=accounts_cost(executor, flags.groups, place),
            limits={workers: limits_cost(executor, workers, place) for workers in (10, 100, 1000)},
        )
        scaling(executor, flags.rows)
    simulated(costs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
