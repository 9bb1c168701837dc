"""The demo of learning: a local model, three generators and the critic, then the gain on held-out problems."""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from engine.api_manager import LEARNERS
from engine.datasets import load_problems
from engine.errors import InputError
from engine.experience.state import LibraryState
from engine.records import Problem, Sampling
from engine.storage.append_log import AppendLog, writer_of
from grpo_training.cli.bar import problem_bar
from grpo_training.demo.learners import learning_commands, read_libraries
from grpo_training.demo.local_endpoint import ServerStarter, open_client, write_api_config
from grpo_training.demo.result import report
from grpo_training.demo.settings import DATASET, STYLE, TEMPERATURE, TEST_SET, DemoSettings
from grpo_training.evaluate.arms import Arm
from grpo_training.evaluate.libraries import LibraryEvaluation
from grpo_training.learning.status import is_writing
from grpo_training.runs.learner_files import results_file
from grpo_training.runs.supervisor import supervise
from grpo_training.serve.local_server import LocalServer, local_server

_OUTPUT = ("cache", "experiences", "logs", "evaluation.sqlite*", "results.json")
"""What a demo leaves in its output folder. The api config is written by every start."""


def run_demo(settings: DemoSettings, serve: ServerStarter = local_server) -> int:
    """Serve the model and run the demo in its output folder; the exit code.

    Raises:
        LockHeldError: another demo uses the output folder.
        ScaffoldError: a command failed, the server has exited, or it rejects requests.
    """
    settings = settings.model_copy(update={"output": settings.output.resolve()})
    settings.output.mkdir(parents=True, exist_ok=True)
    # A second demo would overwrite the api config of the first.
    with AppendLog(settings.output / "demo", owns_directory=True).hold():
        if settings.fresh:
            set_aside(settings.output)
        logs = settings.output / "logs"
        logs.mkdir(exist_ok=True)
        print(f"Starting a server for {settings.model} ...", flush=True)
        with serve(settings.model, temperature=TEMPERATURE, log=logs / "server.log") as server:
            return learn_and_evaluate(settings, server)


def learn_and_evaluate(settings: DemoSettings, server: LocalServer) -> int:
    """Learn, evaluate, report; the exit code.

    Args:
        settings: the demo's settings, with an absolute output folder.
        server: the model's server.

    Raises:
        ScaffoldError: a command failed, the server has exited, or it rejects requests.
    """
    began = time.monotonic()
    config = write_api_config(settings.output, server)
    print(f"Learning from {settings.problems} problems: three generators and the critic in parallel.", flush=True)
    supervise(
        learning_commands(settings, config, settings.window),
        ready=lambda command: is_writing(settings.output / "cache", command.name),
        check=server.check,
    )
    learned = time.monotonic()
    libraries = read_libraries(settings.output)
    problems = load_problems(TEST_SET, max_problems=settings.test_problems)
    print(f"Evaluating on {len(problems)} held-out problems.", flush=True)
    arms = asyncio.run(_evaluate(settings, server, problems, libraries))
    report(
        settings.output,
        settings.model_dump(mode="json"),
        model=server.model,
        trained_on=load_problems(DATASET, max_problems=settings.problems),
        tested_on=problems,
        libraries=libraries,
        arms=arms,
        seconds={"learning": learned - began, "evaluation": time.monotonic() - learned},
        stream=sys.stdout,
    )
    return 0


def set_aside(output: Path) -> None:
    """Move the output of an earlier demo into the first free folder ``oldN``.

    Raises:
        InputError: a learning process is still running there.
    """
    for name in LEARNERS:
        if writer := writer_of(results_file(output / "cache", name)):
            raise InputError(
                f"A demo is still running in {output}", why=writer, fix="Wait for it, or choose another --output."
            )
    existing = [path for pattern in _OUTPUT for path in output.glob(pattern)]
    numbered = (output / f"old{number}" for number in itertools.count(1))
    old = next(folder for folder in numbered if not folder.exists())
    for path in existing:
        old.mkdir(exist_ok=True)
        path.rename(old / path.name)


async def _evaluate(
    settings: DemoSettings, server: LocalServer, problems: Sequence[Problem], libraries: Mapping[str, LibraryState]
) -> list[Arm]:
    with problem_bar(len(problems), "test") as advance:

        def done() -> None:
            advance()
            server.check()

        async with open_client(settings.output, server) as client:
            evaluation = LibraryEvaluation(
                client,
                libraries,
                samples=settings.samples,
                sampling=Sampling(temperature=TEMPERATURE, max_tokens=settings.max_tokens, seed=settings.seed),
                style=STYLE,
            )
            return await evaluation.run(problems, done)
