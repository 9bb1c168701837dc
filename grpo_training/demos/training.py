"""``python -m grpo_training.train_demo``: rollouts that were collected become a better served model."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from engine.api_manager import GENERATORS
from grpo_training.cli.problem_bar import problem_bar
from grpo_training.cli.settings import POCKET_MODEL, ROOT, WORKING_DIR, Positive, Settings, parse_settings
from grpo_training.demos.learning import DATASET, STYLE, TEMPERATURE, TEST_SET, check_server, read_libraries
from grpo_training.evaluation.libraries import BASE, BASE_AGAIN, Arm, library_arm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.records import Experience, Problem
    from grpo_training.serving.local_server import LocalServer

OFFLINE, ONLINE = "offline fine-tune", "online after it"

_ROLE = "model"
_SEEDS_APART = 1_000_000
"""Between the draws of two arms that ask the same model the same."""


class TrainDemoSettings(Settings):
    """Settings of ``python -m grpo_training.train_demo``."""

    problems: Positive = Field(120, description="problems to collect rollouts on")
    rollouts: Positive = Field(4, description="rollouts per problem and generator")
    test_problems: Annotated[int, Field(ge=2)] = Field(120, description="problems that nobody trains on")
    samples: Positive = Field(4, description="answers per test problem and arm")
    max_tokens: Positive = Field(256, description="completion tokens a reply may have")
    seed: int = Field(0, ge=0, description="seed of the sampling and of the training")
    model: Path = Field(POCKET_MODEL, description="folder of the model that is trained")
    offline_config: Path = Field(
        ROOT / "grpo_training/configs/pocket.yaml", description="how it is trained on what was collected"
    )
    online_config: Path = Field(
        ROOT / "grpo_training/configs/pocket_online.yaml", description="how it is trained on what it samples itself"
    )
    output: Path = Field(WORKING_DIR / "grpo_training/cache/train_demo", description="where all that it makes is kept")


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns the exit code."""
    settings = parse_settings(
        TrainDemoSettings,
        argv,
        prog="python -m grpo_training.train_demo",
        description=(
            "The whole fine-tune with a small model on this machine: three generators collect rollouts, the model "
            "learns from them offline and then online, and problems that nobody trained on show what each step "
            "brought without any lesson in the prompt. The same command again goes on where it stopped."
        ),
    )
    from grpo_training.finetune.config import load_config
    from grpo_training.finetune.train import check_packages

    settings = settings.model_copy(update={"output": settings.output.resolve(), "model": settings.model.resolve()})
    for path in (settings.offline_config, settings.online_config):
        check_packages(load_config(path))
    settings.output.mkdir(parents=True, exist_ok=True)
    return run_train_demo(settings)


def run_train_demo(settings: TrainDemoSettings) -> int:
    """Collect, train, evaluate, show; the exit code.

    Raises:
        ScaffoldError: a command failed, a server is gone, or an endpoint refuses.
    """
    from engine.datasets import load_problems
    from grpo_training.serving.local_server import local_server

    problems = load_problems(TEST_SET, max_problems=settings.test_problems)
    logs = settings.output / "logs"
    logs.mkdir(exist_ok=True)
    seconds: dict[str, float] = {}

    def ask(server: LocalServer, name: str, lessons: Sequence[Experience] = (), draw: int = 0) -> Arm:
        return asyncio.run(_ask(settings, server, problems, name, lessons, draw))

    print(f"Starting a server for {settings.model} ...", flush=True)
    with local_server(settings.model, temperature=TEMPERATURE, log=logs / "server_base.log") as server:
        began = time.monotonic()
        _collect(settings, server)
        seconds["collecting"] = time.monotonic() - began
        library = read_libraries(settings.output / "experiences")[GENERATORS[0]]
        arms = [
            ask(server, BASE),
            ask(server, BASE_AGAIN, draw=1),
            ask(server, library_arm(GENERATORS[0]), library.experiences),
        ]
    model = settings.model
    for name, mode, config in (
        (OFFLINE, "offline", settings.offline_config),
        (ONLINE, "online", settings.online_config),
    ):
        began = time.monotonic()
        _train(settings, mode, config, model)
        seconds[name] = time.monotonic() - began
        model = settings.output / mode / "merged"
        with local_server(model, temperature=TEMPERATURE, log=logs / f"server_{mode}.log") as server:
            arms.append(ask(server, name))
    _report(settings, problems, arms, seconds)
    return 0


def _collect(settings: TrainDemoSettings, server: LocalServer) -> None:
    """The main job's generators, as ``make demo`` runs them."""
    from grpo_training.demos.learning import DemoSettings, learning_commands, write_api_config
    from grpo_training.demos.process_supervisor import run_side_by_side

    shared = ("problems", "rollouts", "max_tokens", "seed", "model", "output")
    demo = DemoSettings.model_validate({name: getattr(settings, name) for name in shared})
    generators = [
        command for command in learning_commands(demo, write_api_config(demo, server)) if command.name in GENERATORS
    ]
    print(f"Collecting {settings.rollouts} rollouts of {settings.problems} problems by each generator.", flush=True)
    run_side_by_side(generators, ready=lambda command: True, check=lambda: check_server(server))


async def _ask(
    settings: TrainDemoSettings,
    server: LocalServer,
    problems: Sequence[Problem],
    name: str,
    lessons: Sequence[Experience],
    draw: int,
) -> Arm:
    """One arm: the model's answers, judged."""
    from engine.api_manager import ApiManager
    from engine.llm.client import LLMClient
    from engine.llm.journal import ResponseJournal
    from engine.llm.retry import RetryPolicy
    from engine.records import Sampling
    from grpo_training.evaluation.sampling import evaluate_problems

    manager = ApiManager(settings.output / "api_config.json", {_ROLE: server.endpoint()})
    seed = settings.seed + draw * _SEEDS_APART
    with (
        closing(ResponseJournal(settings.output / "evaluation.sqlite")) as journal,
        problem_bar(len(problems), f"test, {name}") as done,
    ):
        async with LLMClient(manager, journal=journal, retry=RetryPolicy(total_s=120.0)) as client:
            results = await evaluate_problems(
                client,
                _ROLE,
                problems,
                samples=settings.samples,
                sampling=Sampling(temperature=TEMPERATURE, max_tokens=settings.max_tokens, seed=seed),
                style=STYLE,
                lessons=lessons,
                judged=lambda *_: done(),
            )
    if not all(result.is_complete for result in results):
        check_server(server)
    return Arm(
        name,
        {one.problem_id: tuple(map(bool, one.verdicts)) for one in results if one.is_complete},
        tuple(one.problem_id for one in results if not one.is_complete),
    )


def _train(settings: TrainDemoSettings, mode: str, config: Path, model: Path) -> None:
    """The fine-tune as its own process, with its last figures as its line."""
    from grpo_training.demos.process_supervisor import Command, run_side_by_side

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
    arguments = ["train", *(part for name, value in flags.items() for part in (f"--{name}", str(value)))]
    log = settings.output / "logs" / f"train_{mode}.log"
    print(f"Training {mode}: {config.name}", flush=True)
    command = Command(f"train {mode}", arguments, log, lambda: _last_figures(output / "metrics.jsonl"))
    run_side_by_side([command], ready=lambda _: True, check=lambda: None)


def _last_figures(metrics: Path) -> str:
    """The newest line of a training's metrics, in words; empty where there is none."""
    try:
        lines = metrics.read_text(encoding="utf-8").splitlines()
        last = json.loads(lines[-1])
    except (FileNotFoundError, IndexError, ValueError):
        return ""
    shown = [f"step {last['step']}"]
    shown += [f"{name} {last[name]:.3f}" for name in ("reward", "loss", "kl") if isinstance(last.get(name), float)]
    return ", ".join(shown)


def _report(
    settings: TrainDemoSettings, problems: Sequence[Problem], arms: Sequence[Arm], seconds: dict[str, float]
) -> None:
    from engine.storage.append_log import replace_file
    from grpo_training.demos.result import arm_json, show_arms
    from grpo_training.evaluation.libraries import figures, points
    from grpo_training.libraries.tables import View

    told = figures(arms)
    view = View(sys.stdout)
    view.line("")
    show_arms(view, told, len(problems))
    view.line("No lesson stands in any prompt but those of the library's arm.")
    for one in told:
        if one.arm.name in (OFFLINE, ONLINE) and one.difference is not None:
            real = "excludes 0" if one.difference.excludes_zero else "includes 0: no gain can be told from chance"
            view.line(f"{one.arm.name}: {points(one.difference)} over the base; the interval {real}.")
    path = settings.output / "results.json"
    result = {
        "settings": settings.model_dump(mode="json"),
        "seconds": seconds,
        "arms": [arm_json(one) for one in told],
    }
    replace_file(path, (json.dumps(result, indent=2, ensure_ascii=False) + "\n").encode())
    view.line("; ".join(f"{name} {spent:.0f} s" for name, spent in seconds.items()) + f". Figures: {path}")
    for mode in ("offline", "online"):
        view.line(f"Curves: {settings.output / mode / 'report.html'}")
