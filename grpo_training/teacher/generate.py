"""``python -m grpo_training.generate_teacher_traces``: a teacher's thinking and code, executed before it is kept."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, model_validator

from grpo_training.cli.settings import WORKING_DIR, Positive, parse_settings
from grpo_training.runs.settings import ClientSettings, ResumableSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from engine.api_manager import ApiManager
    from engine.llm.client import Counters
    from engine.records import Problem, Sampling
    from engine.task import Task
    from grpo_training.teacher.run import TeacherRun

FINGERPRINT_FIELDS = ("temperature", "top_p", "max_tokens", "seed", "prompts", "accept_per_task", "max_chars")


class TeacherSettings(ClientSettings, ResumableSettings):
    """Settings of ``python -m grpo_training.generate_teacher_traces``."""

    train_data: Path | None = Field(None, description="JSONL file of problems; by default data/train.jsonl")
    dataset: str | None = Field(None, description="a dataset by name (mbpp, apps), instead of --train-data")
    output: Path = Field(WORKING_DIR / "data/teacher_traces.jsonl", description="where the traces are kept")
    num_samples: Positive = Field(8, description="replies per task")
    max_tasks: Positive | None = Field(None, description="only so many tasks, from the start")
    test_connection: bool = Field(False, description="ask the teacher one small problem, say what came, and stop")
    concurrency: Positive = Field(32, description="requests in flight at most")
    temperature: float = Field(0.7, ge=0, le=2, description="sampling temperature")
    top_p: float | None = Field(0.8, gt=0, le=1, description="nucleus sampling")
    max_tokens: Positive = Field(8192, description="tokens a reply may have, its thinking included")
    seed: int = Field(0, description="seed of the sampling")
    prompts: str = Field("full", description="prompt style, the same that the student is trained with")
    accept_per_task: Positive = Field(2, description="accepted traces per task at most, the shortest first")
    max_chars: Positive = Field(24_000, description="characters that an accepted reply may have, its thinking included")

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if self.train_data is not None and self.dataset is not None:
            raise ValueError("--train-data and --dataset exclude each other")
        return self

    @classmethod
    def fingerprint_fields(cls) -> Sequence[str]:
        """The fields that change a trace."""
        return FINGERPRINT_FIELDS

    @property
    def source(self) -> str:
        """The problems' file or dataset."""
        return self.dataset or str(self.train_data or WORKING_DIR / "data/train.jsonl")

    @property
    def sampling(self) -> Sampling:
        """How replies are drawn."""
        from engine.records import Sampling

        return Sampling(temperature=self.temperature, top_p=self.top_p, max_tokens=self.max_tokens, seed=self.seed)

    @property
    def manifest(self) -> Path:
        """The file beside the output that says what it was made with."""
        return self.output.with_name(f"{self.output.stem}_run.json")


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns the exit code."""
    settings = parse_settings(
        TeacherSettings,
        argv,
        prog="python -m grpo_training.generate_teacher_traces",
        description=(
            "Asks the teacher each problem several times, executes every reply against the problem's tests, and "
            "keeps all with their verdicts; accepted are right ones only. The same command again goes on where it "
            "stopped and pays for nothing twice."
        ),
    )
    with _teacher_endpoint(settings) as manager:
        if settings.test_connection:
            from grpo_training.teacher.connection import test_connection

            return asyncio.run(test_connection(manager, settings.prompts, settings.max_tokens, sys.stdout))
        return asyncio.run(generate(settings, manager))


@contextmanager
def _teacher_endpoint(settings: TeacherSettings) -> Iterator[ApiManager]:
    """The endpoints; a teacher of this machine is served as long as the block lasts."""
    from agents.teacher import ROLE
    from engine.api_manager import ApiManager

    manager = ApiManager.load(settings.api_config)
    model = manager.local_models().get(ROLE)
    if model is None:
        endpoints = manager.endpoints(ROLE)
        share = max(1, settings.concurrency // len(endpoints))
        yield manager.with_entries({ROLE: {"max_concurrency": min(endpoints[0].max_concurrency or share, share)}})
        return
    from grpo_training.serving.shared_server import shared_server

    with shared_server(Path(model), settings.temperature) as server:
        share = max(1, settings.concurrency // len(server.base_urls))
        yield manager.with_entries({ROLE: {**server.endpoint(), "max_concurrency": share}})


async def generate(settings: TeacherSettings, manager: ApiManager) -> int:
    """Ask, execute and keep until every task has its samples; the exit code.

    Raises:
        ScaffoldError: bad input, a refusing endpoint, an exhausted budget, or tasks that were left open.
    """
    from agents.generator import prompt_hash
    from agents.teacher import TeacherAgent
    from engine.datasets import load_problems
    from engine.errors import IncompleteRunError
    from engine.llm.concurrency import ConcurrencyRule
    from engine.storage.rollout_store import RolloutStore
    from grpo_training.learning.endpoints import open_client
    from grpo_training.runs.files import RunFiles
    from grpo_training.teacher.run import AcceptanceRule, TeacherRun
    from grpo_training.teacher.traces import table

    store = RolloutStore(settings.output)
    files = RunFiles(settings.manifest, [settings.output], lock=store)
    settings = files.resumed(settings)
    problems = load_problems(settings.source, max_problems=settings.max_tasks)
    task = _only_task(problems)
    at_once = ConcurrencyRule(start=settings.concurrency, maximum=settings.concurrency)
    facts = _facts(manager, prompt_hash(task, settings.prompts))
    with files.open(settings, facts) as manifest:
        async with open_client(settings, manager, at_once) as client:
            agent = TeacherAgent(client, task, settings.sampling, settings.prompts)
            run = TeacherRun(
                agent=agent,
                task=task,
                store=store,
                samples=settings.num_samples,
                concurrency=settings.concurrency,
                rule=AcceptanceRule(settings.accept_per_task, settings.max_chars),
                config_hash=configuration_hash(manifest.configuration),
            )
            try:
                await run.go(problems)
            finally:
                print(table([*run.statistics.rows(), *_rows_of_this_start(run, client.counters)]), flush=True)
        if run.open:
            raise IncompleteRunError(
                f"{len(run.open)} tasks are open; the first is {run.open[0]}",
                why="All attempts failed. No trace of these tasks was written.",
                fix="The same command asks for them again; what was answered is not paid for again.",
            )
        manifest.finish()
    print(f"Traces are kept in {settings.output}")
    return 0


def _only_task(problems: Sequence[Problem]) -> Task:
    """The task of all problems, each of which it can score.

    Raises:
        InputError: the problems are of several tasks, so there is no one prompt; or one has no tests of programs.
    """
    from engine.errors import InputError
    from engine.task import task_named
    from engine.tasks.code.problems import facts_of

    names = sorted({problem.task for problem in problems})
    if len(names) > 1:
        raise InputError(
            f"The problems are of several tasks: {', '.join(names)}",
            fix="Give one file for each, and another --output for each.",
        )
    task = task_named(names[0])
    for problem in problems:
        facts_of(problem)  # traces are programs
    return task


def _facts(manager: ApiManager, prompt_hash: str) -> dict[str, Any]:
    """What changes a trace and is no setting."""
    from agents.teacher import ROLE

    endpoint = manager.endpoint(ROLE)
    return {"model": endpoint.model, "extra_body": endpoint.extra_body, "prompt_hash": prompt_hash}


def configuration_hash(configuration: Mapping[str, Any]) -> str:
    """A short name for all that shapes a trace; stands on each."""
    return hashlib.sha256(json.dumps(configuration, sort_keys=True).encode()).hexdigest()[:12]


def _rows_of_this_start(run: TeacherRun, counters: Counters) -> list[tuple[str, str]]:
    cost = "no prices configured" if counters.cost_usd is None else f"${counters.cost_usd:.4f}"
    return [
        ("Open tasks", str(len(run.open))),
        ("This start", f"{run.written} traces, {counters.requests_sent} requests, {counters.retries} retries"),
        ("  from the journal", str(counters.journal_hits)),
        ("  tokens", f"{counters.prompt_tokens:,} in, {counters.completion_tokens:,} out"),
        ("  cost", cost),
    ]
