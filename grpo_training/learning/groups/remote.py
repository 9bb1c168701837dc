"""Groups and fusions that the workers of a Ray cluster make. Each worker has its own client.

The command stays the only writer of the cache and the library, and gives the results to its loop in the order of the
problems. Journal, rate limits and budget are beside the command; replies go to its journal before a worker uses them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from socket import gethostname
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from agents.generator import prompt_hash
from agents.templates import role_template
from engine.api_manager import ApiManager
from engine.errors import ConfigurationError, InputError
from engine.executor.choice import is_cluster, open_cluster
from engine.llm.client import LLMClient
from engine.llm.tally import Counters
from engine.records import Fault, Fusion, RolloutGroup
from engine.tasks.registry import load_task, task_named
from grpo_training.learning.groups.fusions import FusionOrder, LocalFusions
from grpo_training.learning.groups.work import GroupOrder, LocalGroups
from grpo_training.learning.session import Session, make_session
from grpo_training.learning.settings import CriticSettings, GeneratorSettings
from grpo_training.serve.endpoints import journal_path, retry_policy

if TYPE_CHECKING:
    from engine.llm.interfaces import Purse

    from engine.executor.accounts import SharedAccounts
    from engine.executor.ray_cluster import RayExecutor
    from engine.executor.remote_accounts import AccountsClient, Handle, RemoteBudget, RemoteLedger

_DRIVER = "command"
"""Name of the command among the workers in the shared accounts."""
_NOTES_EVERY_S = 0.5
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Facts(NamedTuple):
    """What decides on the results of a task besides the settings."""

    verifier: Mapping[str, Any]
    prompt_hash: str

    @classmethod
    def of(cls, task_name: str, settings: GeneratorSettings | CriticSettings) -> Facts:
        """Those of a task on this machine."""
        task = task_named(task_name)
        if isinstance(settings, CriticSettings):
            return cls(dict(task.verifier()), role_template("critic", task, settings.prompts).hash)
        return cls(dict(task.verifier()), prompt_hash(task, settings.prompts))


class Item(NamedTuple):
    """An order, and the facts of its task where the command runs."""

    order: Any
    facts: Facts


class Made(NamedTuple):
    """A group or a fusion, or the fault that leaves it open; and the totals of the worker that made it."""

    result: RolloutGroup | Fusion | Fault
    worker: int
    counters: Counters


@dataclass(frozen=True)
class GroupWorkerDescription:
    """Describes a worker that makes groups or fusions. It holds no key: the worker fetches the endpoints.

    Args:
        role: of the learner.
        settings: of the learner.
        accounts: what the workers share.
    """

    role: str
    settings: GeneratorSettings | CriticSettings
    accounts: Handle

    def open(self, number: int) -> GroupWorker:
        """Open the client."""
        if self.settings.task is not None:
            load_task(self.settings.task)
        return GroupWorker(self, number)


class GroupWorker:
    """Makes groups or fusions in an event loop of its own, several at once.

    Args:
        description: what it is opened from.
        number: its number in the pool.
    """

    def __init__(self, description: GroupWorkerDescription, number: int) -> None:
        self._number, self._accounts = number, description.accounts
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="groups", daemon=True).start()
        self._running: set[asyncio.Task[Any]] = set()
        self._settings = description.settings
        self._facts: dict[str, Facts] = {}
        self._session: Session = self._call(self._open(description))
        self._maker: LocalFusions | LocalGroups
        if isinstance(description.settings, CriticSettings):
            self._maker = LocalFusions(description.settings, self._session)
        else:
            self._maker = LocalGroups(description.role, description.settings, self._session)

    def run(self, item: Item) -> Made:
        """Make a group or a fusion.

        Raises:
            ConfigurationError: what is made here would not be what the machine makes on which the command runs.
        """
        name = item.order.problem.task
        here = self._facts.get(name) or self._facts.setdefault(name, Facts.of(name, self._settings))
        if here != item.facts:
            raise ConfigurationError(
                f"Problems of the task {name} would be treated differently on the node {gethostname()}",
                why=f"There: {here}; where the command runs: {item.facts}.",
                fix="Install the same versions of this project and of its tools on all nodes.",
            )
        made: Made = self._call(self._make(item.order))
        return made

    def close(self) -> None:
        """Cancel the groups in work, let the requests in flight end and store their replies."""
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _open(self, description: GroupWorkerDescription) -> Session:
        settings, accounts = description.settings, description.accounts
        manager: ApiManager = await asyncio.wrap_future(accounts.call("endpoints"))
        self._accounts_client = accounts_client = AccountsClient(accounts, str(self._number))
        client = LLMClient(
            manager,
            journal=accounts_client,
            ledger=RemoteLedger(accounts_client),
            retry=retry_policy(settings),
            budget=RemoteBudget(accounts_client, settings.budget_usd, settings.budget_tokens),
        )

        def tell(text: str) -> None:
            accounts.call("tell", text)

        client.report_trouble_to(tell)
        return make_session(settings, manager, client, description.role)

    async def _make(self, order: Any) -> Made:
        task = asyncio.ensure_future(self._maker.make(order))
        self._running.add(task)
        try:
            return Made(await task, self._number, self._session.counters)
        finally:
            self._running.discard(task)

    async def _close(self) -> None:
        for task in self._running:
            task.cancel()
        self._session.close()
        await self._session.client.close()
        await self._accounts_client.drain()


class RemoteGroups:
    """Has groups or fusions made by the workers of a cluster.

    Args:
        role: of the learner.
        settings: of the learner, after ``--resume``.
        executor: the cluster.
        manager: the endpoints with their keys.
        per_step: orders of a problem.
    """

    def __init__(
        self,
        role: str,
        settings: GeneratorSettings | CriticSettings,
        executor: RayExecutor,
        manager: ApiManager,
        per_step: int,
    ) -> None:
        self._role, self._settings, self._executor, self._manager = role, settings, executor, manager
        self._per_step = per_step
        self._counters: dict[int, Counters] = {}
        self._facts: dict[str, Facts] = {}
        self._tell: Callable[[str], object] = print
        self._notes_seen = 0
        self.budget: Purse | None = None

    @asynccontextmanager
    async def opened(self, window: int) -> AsyncIterator[None]:
        """Start the workers; they end with the block.

        Args:
            window: problems in flight.
        """
        settings = self._settings
        settings.cache_dir.mkdir(parents=True, exist_ok=True)
        places = (journal_path(settings).resolve(), ledger_path(settings.api_config).resolve())
        accounts = self._executor.beside_driver(SharedAccounts, *places, settings.open_budget)
        await asyncio.wrap_future(accounts.call("set_endpoints", self._manager.resolved()))
        self.budget = RemoteBudget(AccountsClient(accounts, _DRIVER), settings.budget_usd, settings.budget_tokens)
        description = GroupWorkerDescription(self._role, settings, accounts)
        orders = window * self._per_step
        workers = settings.workers or min(self._executor.cpus, orders)

        def lost(number: int) -> None:
            accounts.call("lost", str(number))
            self._tell(f"worker {number} ended; its problems are given to another one")

        # Twice the even share, so that orders of a worker that ended find a place at once.
        in_flight = min(orders, 2 * -(-orders // workers))
        self._pool = self._executor.pool(description, workers, in_flight=in_flight, lost=lost)
        notes = asyncio.ensure_future(self._show_notes(accounts))
        await asyncio.to_thread(self._pool.__enter__)
        try:
            yield
        finally:
            await asyncio.to_thread(self._pool.__exit__)
            notes.cancel()
            await self._show_new_notes(accounts)
            await asyncio.wrap_future(accounts.call("close"))
            accounts.end()

    async def make(self, order: GroupOrder | FusionOrder) -> Any:
        """The group or the fusion of an order, or the fault that leaves it open."""
        name = order.problem.task
        if name not in self._facts:
            self._facts[name] = await asyncio.to_thread(Facts.of, name, self._settings)
        item = Item(order, self._facts[name])
        made: Made = await asyncio.shield(asyncio.wrap_future(self._pool.submit(item)))
        self._counters[made.worker] = made.counters
        return made.result

    def counters(self) -> list[Counters]:
        """The totals of each worker when it last completed an order."""
        return list(self._counters.values())

    def report_trouble_to(self, tell: Callable[[str], object]) -> None:
        """Call ``tell`` with lines of the workers, such as that an endpoint fails repeatedly."""
        self._tell = tell

    async def _show_notes(self, accounts: Handle) -> None:
        while True:
            await asyncio.sleep(_NOTES_EVERY_S)
            await self._show_new_notes(accounts)

    async def _show_new_notes(self, accounts: Handle) -> None:
        texts = await asyncio.wrap_future(accounts.call("notes", self._notes_seen))
        self._notes_seen += len(texts)
        for text in texts:
            self._tell(text)


@contextmanager
def open_remote_groups(
    role: str, settings: GeneratorSettings | CriticSettings, manager: ApiManager, *, per_step: int
) -> Iterator[RemoteGroups | None]:
    """What makes groups or fusions where ``--executor`` is a cluster; None for this process.

    Args:
        role: of the learner.
        settings: of the learner, after ``--resume``.
        manager: the endpoints.
        per_step: groups or fusions of a problem.

    Raises:
        InputError: an endpoint is on this machine, and the cluster has others.
        ConfigurationError: the cluster cannot be used.
    """
    if not is_cluster(settings.executor):
        if settings.workers is not None:
            raise InputError(
                "--workers needs --executor ray", fix="One process keeps all requests in flight; see --window."
            )
        yield None
        return
    with open_cluster(settings.executor) as executor:
        _check_addresses(role, manager, executor.hosts)
        yield RemoteGroups(role, settings, executor, manager, per_step)


def _check_addresses(role: str, manager: ApiManager, hosts: set[str]) -> None:
    if len(hosts) < 2:
        return
    for endpoint in [manager.endpoint(role)]:
        if urlsplit(endpoint.base_url).hostname in _LOOPBACK:
            raise InputError(
                f"{endpoint.shown_url} is this machine only, and the cluster has {len(hosts)} machines",
                fix="Give an address that all nodes can reach.",
            )
