"""The demo of the fine-tune: collect rollouts, train offline and online, compare the models on held-out problems."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from engine.api_manager import GENERATORS
from engine.datasets import load_problems
from engine.experience.choice import LearnedExperiences
from engine.records import Problem, Sampling
from engine.storage.append_log import replace_file
from grpo_training.cli.bar import problem_bar
from grpo_training.cli.tables import View
from grpo_training.demo.learners import learning_commands, read_libraries, train_command
from grpo_training.demo.local_endpoint import ROLE, ServerStarter, open_client, write_api_config
from grpo_training.demo.result import arm_json, show_arms
from grpo_training.demo.settings import DATASET, STYLE, TEMPERATURE, TEST_SET, DemoSettings, TrainDemoSettings
from grpo_training.evaluate.arms import Arm
from grpo_training.evaluate.figures import differences
from grpo_training.evaluate.libraries import BASE, BASE_AGAIN, library_arm
from grpo_training.evaluate.sampling import evaluate_problems
from grpo_training.evaluate.tables import points, points_interval
from grpo_training.runs.supervisor import supervise
from grpo_training.serve.local_server import LocalServer, local_server
from grpo_training.train.config import load_config
from grpo_training.train.run import check_packages
from grpo_training.training.metrics_log import latest_metrics

OFFLINE, ONLINE = "offline fine-tune", "online after it"

_SEED_STEP = 1_000_000
"""Difference between the seeds of two arms that send equal prompts to the same model."""


Train = Callable[[TrainDemoSettings, str, Path, Path], None]
"""Fine-tunes, with settings, mode (``offline`` or ``online``), configuration file and model.

The result is in the folder ``merged`` of its output folder.
"""


def run_train_demo(settings: TrainDemoSettings, serve: ServerStarter = local_server, train: Train | None = None) -> int:
    """Collect, train, evaluate, report; the exit code.

    Args:
        settings: the demo's settings.
        serve: starts the servers.
        train: fine-tunes; None runs ``grpo_training.train`` in its own process.

    Raises:
        ScaffoldError: a package is missing, a command failed, a server has exited, or it rejects requests.
    """
    settings = settings.model_copy(update={"output": settings.output.resolve(), "model": settings.model.resolve()})
    if train is None:
        for path in (settings.offline_config, settings.online_config):
            check_packages(load_config(path))
        train = _train
    logs = settings.output / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    seconds: dict[str, float] = {}
    test = partial(_arm, settings, load_problems(TEST_SET, max_problems=settings.test_problems))
    print(f"Starting a server for {settings.model} ...", flush=True)
    with serve(settings.model, temperature=TEMPERATURE, log=logs / "server_base.log") as server:
        began = time.monotonic()
        _collect(settings, server)
        seconds["collecting"] = time.monotonic() - began
        library = read_libraries(settings.output)[GENERATORS[0]]
        arms = [
            asyncio.run(test(server, BASE)),
            asyncio.run(test(server, BASE_AGAIN, seed_offset=_SEED_STEP)),
            asyncio.run(test(server, library_arm(GENERATORS[0]), LearnedExperiences(library))),
        ]
    model = settings.model
    for name, mode, config in (
        (OFFLINE, "offline", settings.offline_config),
        (ONLINE, "online", settings.online_config),
    ):
        began = time.monotonic()
        train(settings, mode, config, model)
        seconds[name] = time.monotonic() - began
        model = settings.output / mode / "merged"
        with serve(model, temperature=TEMPERATURE, log=logs / f"server_{mode}.log") as server:
            arms.append(asyncio.run(test(server, name)))
    _report(settings, arms, seconds)
    return 0


async def _arm(
    settings: TrainDemoSettings,
    problems: Sequence[Problem],
    server: LocalServer,
    name: str,
    experiences: LearnedExperiences | None = None,
    *,
    seed_offset: int = 0,
) -> Arm:
    """The judged samples of the served model, with experiences in the prompt."""
    with problem_bar(len(problems), f"test, {name}") as advance:

        def judged(*_: object) -> None:
            advance()
            server.check()

        async with open_client(settings.output, server) as client:
            results = await evaluate_problems(
                client,
                ROLE,
                problems,
                samples=settings.samples,
                sampling=Sampling(
                    temperature=TEMPERATURE, max_tokens=settings.max_tokens, seed=settings.seed + seed_offset
                ),
                style=STYLE,
                experiences=experiences or (),
                judged=judged,
            )
    return Arm(name, results)


def _collect(settings: TrainDemoSettings, server: LocalServer) -> None:
    """Run the three generators of the learning demo."""
    window = DemoSettings.model_fields["window"].default
    config = write_api_config(settings.output, server)
    commands = [command for command in learning_commands(settings, config, window) if command.name in GENERATORS]
    print(f"Collecting {settings.rollouts} rollouts of {settings.problems} problems by each generator.", flush=True)
    supervise(commands, check=server.check)


def _train(settings: TrainDemoSettings, mode: str, config: Path, model: Path) -> None:
    """Run the fine-tune in its own process and show its latest metrics."""
    output = settings.output / mode
    flags = {
        "config": config,
        "mode": mode,
        "model-name-or-path": model,
        "output-dir": output,
        "dataset-path": settings.output / "cache",
        "experiences-dir": settings.output / "experiences",
        "dataset": DATASET,
        "prompts": STYLE,
        "seed": settings.seed,
    }
    log = settings.output / "logs" / f"train_{mode}.log"
    print(f"Training {mode}: {config.name}", flush=True)
    command = train_command(f"train {mode}", flags, log, lambda: latest_metrics(output / "metrics.jsonl"))
    supervise([command])


def _report(settings: TrainDemoSettings, arms: Sequence[Arm], seconds: Mapping[str, float]) -> None:
    """Print the figures and write them to ``results.json``."""
    base = arms[0]
    view = View(sys.stdout)
    view.line("")
    show_arms(view, arms)
    view.line("Only the library's arm has experiences in its prompts.")
    for arm in arms:
        difference = differences(arm, base).get(1)
        if arm.name in (OFFLINE, ONLINE) and difference is not None:
            zero = "excludes 0" if difference.excludes_zero else "includes 0: the gain may be due to chance"
            view.line(
                f"{arm.name}: {points(difference)} points over the base "
                f"(95 % interval {points_interval(difference)}); the interval {zero}."
            )
    path = settings.output / "results.json"
    result = {
        "settings": settings.model_dump(mode="json"),
        "seconds": dict(seconds),
        "arms": [arm_json(arm, base) for arm in arms],
    }
    replace_file(path, (json.dumps(result, indent=2, ensure_ascii=False) + "\n").encode())
    view.line("; ".join(f"{name} {spent:.0f} s" for name, spent in seconds.items()) + f". Figures: {path}")
    for mode in ("offline", "online"):
        view.line(f"Curves: {settings.output / mode / 'report.html'}")
