"""Asks the teacher, scores its replies and stores the traces: one run of ``generate_teacher_traces``."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from engine.api_manager import ApiManager
from engine.datasets import load_problems
from engine.errors import ConfigurationError, IncompleteRunError, InputError, ScaffoldError
from engine.installation_checks import failed, passed, warned
from engine.llm.budget import Counters
from engine.llm.client import LLMClient
from engine.llm.limits import ConcurrencyRule
from engine.llm.retry import RetryPolicy
from engine.records import Fault, Problem
from engine.storage.rollout_store import RolloutStore
from engine.task import Task
from engine.task_protocols import ChecksItself, PreparesData
from engine.tasks.registry import known_tasks, task_named
from grpo_training.agents.generator import prompt_hash
from grpo_training.agents.teacher import ROLE, TeacherAgent
from grpo_training.cli.check_report import CheckReport
from grpo_training.cli.entry import run_async
from grpo_training.cli.settings import WORKING_DIR
from grpo_training.runs.run import Run
from grpo_training.serve.endpoints import open_client
from grpo_training.serve.local_server import local_server
from grpo_training.teacher.run import TeacherRun
from grpo_training.teacher.settings import TeacherSettings
from grpo_training.teacher.traces import READABLE, table
from grpo_training.teacher.verdicts import scored_fields

_MODEL_FIX = "Check the model's name and the prompt style (--prompts). A stronger teacher writes better traces."


def run(settings: TeacherSettings) -> int:
    """Generate traces, or with ``--test-connection`` ask one small problem. Returns the exit code."""
    with _teacher_endpoint(settings) as manager:
        if settings.test_connection:
            return asyncio.run(_test_connection(manager, settings))
        return run_async(generate(settings, manager))


@contextmanager
def _teacher_endpoint(settings: TeacherSettings) -> Iterator[ApiManager]:
    """The endpoints. A local teacher is served for the length of the block."""
    manager = settings.load_endpoints()
    with ExitStack() as stack:
        model = manager.local_model(ROLE)
        if model is not None:
            server = stack.enter_context(local_server(Path(model), temperature=settings.temperature))
            manager = manager.with_entries({ROLE: server.endpoint()})
        endpoint = manager.endpoint(ROLE)
        most = min(endpoint.max_concurrency or settings.concurrency, settings.concurrency)
        body = settings.extra_body(endpoint.extra_body)
        yield manager.with_fields({"max_concurrency": most, **({"extra_body": body} if body else {})})


async def _test_connection(manager: ApiManager, settings: TeacherSettings) -> int:
    """Ask the teacher an example problem, and print what came back. Nothing is stored.

    Returns:
        2 if traces could not be generated this way.

    Raises:
        ScaffoldError: there is no answer, or it could not be scored.
    """
    task = next(task for task in known_tasks() if isinstance(task, ChecksItself))
    problem = task.example.problem
    async with LLMClient(manager, retry=RetryPolicy(attempts=2, total_s=30.0)) as client:
        [answer] = await TeacherAgent(client, task, settings.sampling, settings.prompts).answer(problem, [0])
    completion, candidate = answer.reply.completion, answer.candidate
    if completion is None or candidate is None:
        url, fault = manager.endpoint(ROLE).shown_url, answer.reply.fault
        raise IncompleteRunError(
            f"{ROLE}: no answer from {url}",
            why=fault.message if fault else "",
            fix=f"Start the server at {url} (vllm serve MODEL --port ...), or change base_url of the role.",
        )
    report = CheckReport(sys.stdout)
    report.add(passed(f"{ROLE}: {completion.model} answered in {completion.latency_s:.1f} s"))
    if answer.thinking:
        report.add(passed(f"thinking extracted ({len(answer.thinking)} characters)"))
    else:
        report.add(warned("the reply holds no thinking", "Pass --enable-thinking, if the model has such a switch."))
    scored = scored_fields(task, problem, candidate)
    if isinstance(scored, Fault):
        raise ScaffoldError("The reply could not be scored", why=scored.message)
    if scored["status"] != READABLE:
        report.add(failed(f"the reply cannot be read: {scored['status']}", _MODEL_FIX))
    elif scored["verdict"].all_passed:
        report.add(passed("it is right"))
    else:
        report.add(warned("it is wrong, although the problem is very small", _MODEL_FIX))
    return ConfigurationError.exit_code if report.failures else 0


async def generate(settings: TeacherSettings, manager: ApiManager) -> int:
    """Ask, score and store until every problem has its samples. Returns the exit code.

    Raises:
        ScaffoldError: bad input, an endpoint that refuses, an exhausted budget, or problems that were left open.
    """
    store = RolloutStore(settings.output)
    manifest_path = settings.output.with_name(f"{settings.output.stem}_run.json")
    files = Run(manifest_path, [settings.output], lock=store)
    settings = files.resumed(settings)
    source = settings.dataset or str(settings.train_data or WORKING_DIR / "data/train.jsonl")
    problems = load_problems(source, max_problems=settings.max_tasks)
    task, canonical = _only_task(problems)
    facts = _facts(manager, prompt_hash(task, settings.prompts))
    with files.open(settings, facts) as manifest:
        at_once = ConcurrencyRule(start=settings.concurrency, maximum=settings.concurrency)
        async with open_client(settings, manager, at_once) as client:
            agent = TeacherAgent(client, task, settings.sampling, settings.prompts)
            # A short hash of everything that changes a trace; stored on each.
            configuration = json.dumps(manifest.configuration, sort_keys=True).encode()
            config_hash = hashlib.sha256(configuration).hexdigest()[:12]
            teacher_run = TeacherRun(agent, canonical, store, settings, config_hash)
            try:
                await teacher_run.ask_all(problems)
            finally:
                rows = [*teacher_run.statistics.rows(), *_rows_of_start(teacher_run, client.counters)]
                print(table(rows), flush=True)
        if teacher_run.open:
            raise IncompleteRunError(
                f"{len(teacher_run.open)} of {len(problems)} problems lack traces; the first is {teacher_run.open[0]}",
                why=f"All attempts failed.{teacher_run.why_stopped} Nothing was counted as wrong.",
                fix="Run the same command again to continue from there. Stored replies are reused.",
            )
        manifest.finish()
    print(f"Traces are stored in {settings.output}")
    return 0


def _only_task(problems: Sequence[Problem]) -> tuple[Task, Callable[[str], str]]:
    """The task of all problems, and what makes equal programs of it equal texts.

    Raises:
        InputError: the problems are of several tasks, so that there is no single prompt; or one cannot be scored.
    """
    tasks = sorted({problem.task for problem in problems})
    if len(tasks) > 1:
        raise InputError(f"The problems are of several tasks: {', '.join(tasks)}", fix="Use one file per task.")
    task = task_named(tasks[0])
    for problem in problems:
        if not isinstance(task, PreparesData) or not task.tests(problem):
            raise InputError(
                f"{problem.id} has no tests",
                why="Traces are accepted by tests.",
                fix="Use a dataset of problems with tests, such as the output of python -m grpo_training.prepare_data.",
            )
    assert isinstance(task, PreparesData)
    return task, task.canonical


def _facts(manager: ApiManager, prompt_hash: str) -> dict[str, Any]:
    """What changes a trace and is not a setting."""
    endpoint = manager.endpoint(ROLE)
    api = {} if endpoint.api == "chat" else {"api": endpoint.api}
    return {"model": endpoint.model, "extra_body": endpoint.shown_extra_body, "prompt_hash": prompt_hash, **api}


def _rows_of_start(teacher_run: TeacherRun, counters: Counters) -> list[tuple[str, str]]:
    cost = "no prices configured" if counters.cost_usd is None else f"${counters.cost_usd:.4f}"
    return [
        ("Tasks that lack traces", str(len(teacher_run.open))),
        ("This start", f"{teacher_run.written} traces, {counters.requests_sent} requests, {counters.retries} retries"),
        ("  from the journal", str(counters.journal_hits)),
        ("  tokens", f"{counters.prompt_tokens:,} in, {counters.completion_tokens:,} out{counters.estimate_note}"),
        ("  cost", cost),
    ]
