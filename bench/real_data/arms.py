"""What an arm learns from the problems of a job, and how it answers those of the test."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import shlex
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from bench.real_data.data import Row, rows_of
from bench.real_data.programs import Function
from bench.real_data.proxy import LEARN, USE, Proxy, Spent
from bench.real_data.settings import Arm, DataSet, Settings, Words
from engine.records import Completion, Problem
from engine.reward_evaluator import RewardEvaluator
from engine.tasks.program.task import ProgramTask
from engine.tasks.registry import task_named
from grpo_training.cli.parsing import parse_settings
from grpo_training.cli.settings import ROOT
from grpo_training.improve.improved import Improved, Result
from grpo_training.improve.settings import ImproveSettings
from grpo_training.runs.problems import read_problems

Replies = dict[str, list[str]]


class JobError(Exception):
    """A job that cannot be done; the others go on."""


@dataclass(frozen=True)
class Job:
    """An arm on a data set with a seed.

    Args:
        dataset_name, arm_name: as in the settings.
        seed: draws the problems, and samples.
        settings: of the benchmark.
        output: folder of all results.
    """

    dataset_name: str
    arm_name: str
    seed: int
    settings: Settings
    output: Path

    @property
    def name(self) -> str:
        return f"{self.dataset_name}/{self.arm_name}/{self.seed}"

    @property
    def folder(self) -> Path:
        """What the arm has written."""
        return self.output / self.name

    @property
    def result(self) -> Path:
        """The file that says that the job is done, and what came out."""
        return self.output / f"{self.name}.json"

    @property
    def dataset(self) -> DataSet:
        return self.settings.datasets[self.dataset_name]

    @property
    def flags(self) -> Words:
        """How our commands read the rows and ask."""
        return [word.format(here=Path(__file__).parent) for word in self.dataset.flags]

    @property
    def arm(self) -> Arm:
        return self.settings.arms[self.arm_name]


async def run(job: Job, proxy: Proxy, data: Path) -> dict[str, Any]:
    """Learn, answer the test, and score the answers.

    Args:
        job: the job.
        proxy: counts its requests.
        data: folder of all data sets.

    Returns:
        what is written to its result.

    Raises:
        JobError: a command has failed, or the reference of a peer has no result yet.
    """
    job.folder.mkdir(parents=True, exist_ok=True)
    train, test, style = _problems(job, rows_of(job.dataset, data, job.seed))
    known = {problem.id: problem for problem in [*train, *test]}
    proxy.begin(job.folder, lambda name, reply: is_right(known[name], reply), program_of(train[0]))
    (job.folder / f"{USE}.jsonl").unlink(missing_ok=True)  # of a test that was interrupted
    improved = _unimproved(train[0], style)
    if job.arm.peer:
        replies, library = await _peer(job, proxy, improved, train, test)
    else:
        if job.arm.command:
            improved = await _learned(job, proxy)
        kinds = Counter(experience.kind for experience in improved.experiences)
        replies = await _asked(job, proxy, improved, test)
        library = ", ".join(f"{count} {kind}s" for kind, count in sorted(kinds.items()))
    right = {name: [is_right(known[name], reply) for reply in of_problem] for name, of_problem in replies.items()}
    (job.folder / "replies.json").write_text(json.dumps(replies, ensure_ascii=False, indent=1), encoding="utf-8")
    return {
        "dataset": job.dataset_name,
        "arm": job.arm_name,
        "seed": job.seed,
        "model": job.settings.model,
        "library": library,
        "verdict": improved.result.verdict,
        LEARN: dataclasses.asdict(Spent.read(job.folder, LEARN)),
        USE: dataclasses.asdict(Spent.read(job.folder, USE)),
        "right": right,
    }


def is_right(problem: Problem, reply: str) -> bool:
    """Whether a reply is right, as our evaluation reads it."""
    task = task_named(problem.task)
    candidate = task.parse(Completion(text=reply), problem)
    return bool(RewardEvaluator().score(task, problem, candidate).is_correct)


def program_of(problem: Problem) -> Function | None:
    """The program that answers a problem; None if a prompt does."""
    task = task_named(problem.task)
    return task.function if isinstance(task, ProgramTask) else None


def _problems(job: Job, rows: tuple[list[Row], list[Row]]) -> tuple[list[Problem], list[Problem], str]:
    """The problems to learn from and those of the test, as our commands read them, and our usual prompt style.

    Raises:
        JobError: the problems to learn from, which our commands read alone, are read in another way with the others.
    """
    train, test = rows
    read = {}
    for name, of_file in {"train": train, "all": [*train, *test]}.items():
        path = job.folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in of_file), encoding="utf-8")
        words = ["--dataset", str(path), *job.flags]
        settings = parse_settings(ImproveSettings, words, "bench.real_data")
        read[name] = list(read_problems(settings).problems)
    if read["train"] != read["all"][: len(train)]:
        raise JobError("the test has other labels or another form of answers than the problems to learn from")
    return read["train"], read["all"][len(train) :], settings.prompts


def _unimproved(example: Problem, style: str) -> Improved:
    """Our prompt without experiences."""
    result = Result(
        sentence="",
        verdict="",
        task=example.task,
        prompts=style,
        model="",
        role="",
        dataset="",
        example=example,
        tokens=0,
    )
    return Improved(result, ())


async def _learned(job: Job, proxy: Proxy) -> Improved:
    """What one of our commands has learned, as a user takes it home."""
    api = job.folder / "api.json"
    entry = {"api_key": "EMPTY", "model": job.settings.model, "max_concurrency": job.settings.concurrency}
    roles = {"default": "generator", "analyst": "reflection"}
    api.write_text(
        json.dumps({name: entry | {"base_url": f"{proxy.address}/{LEARN}/{role}/v1"} for name, role in roles.items()})
    )
    values = {"train": job.folder / "train.jsonl", "api": api, "seed": job.seed}
    values |= {"temperature": job.settings.temperature, "max_tokens": job.dataset.max_tokens}
    module, *words = job.arm.words(values)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    await _call(job, [sys.executable, "-m", module, *words, *job.flags], environment)
    return Improved.load(job.folder / "runs/learned/improved")


async def _asked(job: Job, proxy: Proxy, improved: Improved, test: Sequence[Problem]) -> Replies:
    """Replies to the problems of the test, one request for each."""
    role = "generator" if program_of(test[0]) is None else "program"
    url = f"{proxy.address}/{USE}/{role}/v1/chat/completions"
    body = {"model": job.settings.model, "temperature": job.settings.temperature, "max_tokens": job.dataset.max_tokens}

    async def reply(session: aiohttp.ClientSession, number: int, problem: Problem) -> str:
        messages = [message.model_dump(mode="json") for message in improved.for_problem(problem)]
        asked = body | {"messages": messages, "seed": 1_000_000 * (job.seed + 1) + number}
        async with session.post(url, json=asked) as response:
            if response.status != 200:
                raise JobError(f"the server has refused a request: {(await response.text())[:300]}")
            return str((await response.json())["choices"][0]["message"]["content"])

    problems = [problem for problem in test for _ in range(job.dataset.samples)]
    timeout, connector = aiohttp.ClientTimeout(total=None), aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        texts = await asyncio.gather(*(reply(session, number, problem) for number, problem in enumerate(problems)))
    replies: Replies = {}
    for problem, text in zip(problems, texts, strict=True):
        replies.setdefault(problem.id, []).append(text)
    return replies


async def _peer(
    job: Job, proxy: Proxy, none: Improved, train: Sequence[Problem], test: Sequence[Problem]
) -> tuple[Replies, str]:
    """Replies of a peer to the problems of the test, and the size of what it has learned.

    It begins anew after an interruption, unless it has a folder ``state``.
    """
    state = job.folder / "state"
    if not state.is_dir():
        (job.folder / f"{LEARN}.jsonl").unlink(missing_ok=True)
    order, result = job.folder / "order.json", job.folder / "peer.json"
    of_peer = {
        "train": [_order(none, problem) for problem in train],
        "test": [_order(none, problem) for problem in test],
    }
    systems = Counter(
        message["content"]
        for problem in of_peer["train"]
        for message in problem["messages"]
        if message["role"] == "system"
    )
    settings = job.settings
    fields = {
        "learn": f"{proxy.address}/{LEARN}",
        "use": f"{proxy.address}/{USE}",
        "score": f"{proxy.address}/score",
        "model": settings.model,
        "temperature": settings.temperature,
        "max_tokens": job.dataset.max_tokens,
        "seed": job.seed,
        "concurrency": settings.concurrency,
        "samples": job.dataset.samples,
        "rollouts": _budget(job),
        "options": job.arm.options,
        "state": str(state),
        "system": systems.most_common(1)[0][0] if systems else "",
    }
    order.write_text(json.dumps(fields | of_peer, ensure_ascii=False, indent=1), encoding="utf-8")
    script = Path(__file__).with_name("peers") / str(job.arm.peer)
    python = await _environment(job)
    await _call(job, [str(python), str(script), str(order), str(result)], dict(os.environ))
    output = json.loads(result.read_text(encoding="utf-8"))
    return output["replies"], output["library"]


def _order(none: Improved, problem: Problem) -> Mapping[str, Any]:
    """A problem as a peer gets it."""
    messages = [message.model_dump(mode="json") for message in none.for_problem(problem)]
    answer = task_named(problem.task).truth(problem)
    return {"id": problem.id, "text": problem.text, "answer": answer, "messages": messages}


def _budget(job: Job) -> int:
    """The rollouts of a peer: as many as the reference has asked."""
    if job.settings.rollouts is not None:
        return job.settings.rollouts
    reference = dataclasses.replace(job, arm_name=job.settings.reference)
    if not reference.result.exists():
        raise JobError(f"its number of rollouts is that of {reference.name}, which has no result; run that first")
    return int(json.loads(reference.result.read_text())[LEARN]["rollouts"])


async def _environment(job: Job) -> Path:
    """The interpreter of a virtual environment with the requirements of a peer; it is made if it is not there."""
    name = Path(str(job.arm.peer)).stem
    folder = job.output / "environments" / name
    python, done = folder / "bin/python", folder / "requirements.txt"
    wanted = "\n".join(job.arm.requirements)
    if not done.exists() or done.read_text() != wanted:
        await _call(job, [sys.executable, "-m", "venv", "--clear", str(folder)], dict(os.environ))
        await _call(job, [str(python), "-m", "pip", "install", "-q", *job.arm.requirements], dict(os.environ))
        done.write_text(wanted)
    return python


async def _call(job: Job, command: Words, environment: dict[str, str]) -> None:
    """Run a command in the folder of a job; what it says is appended to ``log.txt``.

    Raises:
        JobError: it has failed.
    """
    path = job.folder / "log.txt"
    with path.open("a", encoding="utf-8") as log:
        log.write(f"$ {shlex.join(command)}\n")
        log.flush()
        process = await asyncio.create_subprocess_exec(
            *command, cwd=job.folder, env=environment, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
        )
        try:
            code = await process.wait()
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()
    if code:
        last = path.read_text(encoding="utf-8").splitlines()[-12:]
        raise JobError(f"{' '.join(command[:3])} has ended with {code}; {path} ends with\n" + "\n".join(last))
