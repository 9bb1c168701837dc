"""``python -m grpo_training.demo``: the main job with a small local model, and what was gained by it."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from engine.api_manager import LEARNERS
from grpo_training.cli.problem_bar import problem_bar
from grpo_training.cli.settings import POCKET_MODEL, WORKING_DIR, Positive, Settings, parse_settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.experience.state import LibraryState
    from engine.records import Problem
    from grpo_training.demos.process_supervisor import Command
    from grpo_training.evaluation.libraries import Arm
    from grpo_training.serving.local_server import LocalServer

DATASET, TEST_SET = "quickstart", "quickstart:test"
STYLE = "compact"
TEMPERATURE = 1.0
"""Of every role: transformers' continuous batching knows only one for all requests."""

_ROLES = (*LEARNERS, "analyst")
_SEEDS_APART = 1000
"""Between the generators' seeds: with one seed and one model, equal prompts would be one draw in the journal."""

_OURS = ("cache", "experiences", "logs", "evaluation.sqlite*", "results.json")
"""What a demo leaves in its output folder, beside the configuration, which every start writes anew."""


class DemoSettings(Settings):
    """Settings of ``python -m grpo_training.demo``."""

    problems: Positive = Field(52, description="problems to train on")
    test_problems: Annotated[int, Field(ge=2)] = Field(100, description="problems that nobody trains on")
    samples: Positive = Field(2, description="answers per test problem and arm")
    rollouts: Positive = Field(3, description="rollouts per training problem")
    window: Positive = Field(8, description="problem k is asked with the lessons of problems up to k-W")
    max_tokens: Positive = Field(256, description="completion tokens a reply may have")
    seed: int = Field(0, description="seed of the sampling, where the server takes one")
    model: Path = Field(POCKET_MODEL, description="folder of the model to serve")
    output: Path = Field(WORKING_DIR / "grpo_training/cache/demo", description="where all that it makes is kept")
    fresh: bool = Field(False, description="set an earlier demo aside and start anew")


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns the exit code."""
    settings = parse_settings(
        DemoSettings,
        argv,
        prog="python -m grpo_training.demo",
        description=(
            "The whole job with a small language model on this machine: three generators and the critic learn "
            "side by side; then problems that nobody trained on show what their libraries are worth. The same "
            "command again goes on where it stopped and asks for nothing twice."
        ),
    )
    from engine.storage.append_log import AppendLog
    from grpo_training.serving.local_server import local_server

    settings = settings.model_copy(update={"output": settings.output.resolve()})
    settings.output.mkdir(parents=True, exist_ok=True)
    with AppendLog(settings.output / "demo").hold():  # a second one here would point the first at its own server
        if settings.fresh:
            set_aside(settings.output)
        logs = settings.output / "logs"
        logs.mkdir(exist_ok=True)
        print(f"Starting a server for {settings.model} ...", flush=True)
        with local_server(settings.model, temperature=TEMPERATURE, log=logs / "server.log") as server:
            return run_demo(settings, server)


def run_demo(settings: DemoSettings, server: LocalServer) -> int:
    """Learn, evaluate, show; the exit code.

    Args:
        settings: the demo's settings, with an absolute output folder.
        server: the model's server, which answers.

    Raises:
        ScaffoldError: a command failed, the server is gone, or the endpoint refuses.
    """
    from grpo_training.demos.process_supervisor import run_side_by_side
    from grpo_training.demos.result import report

    began = time.monotonic()
    config = write_api_config(settings, server)
    print(f"Learning from {settings.problems} problems: three generators, and the critic beside them.", flush=True)
    commands = learning_commands(settings, config)
    run_side_by_side(commands, ready=lambda command: _writes(settings, command), check=lambda: check_server(server))
    learned = time.monotonic()
    libraries = read_libraries(settings.output / "experiences")
    problems = _problems(TEST_SET, settings.test_problems)
    print(f"Evaluating on {len(problems)} problems that nobody trained on.", flush=True)
    arms = asyncio.run(_evaluate(settings, config, problems, libraries))
    if any(arm.left_out for arm in arms):
        check_server(server)
    report(
        settings,
        model=server.model,
        trained_on=_problems(DATASET, settings.problems),
        tested_on=problems,
        libraries=libraries,
        arms=arms,
        seconds={"learning": learned - began, "evaluation": time.monotonic() - learned},
        stream=sys.stdout,
    )
    return 0


def write_api_config(settings: DemoSettings, server: LocalServer) -> Path:
    """All roles on one server; the file."""
    config = settings.output / "api_config.json"
    config.write_text(json.dumps(dict.fromkeys(_ROLES, server.endpoint()), indent=2) + "\n", encoding="utf-8")
    return config


def set_aside(output: Path) -> None:
    """Move what an earlier demo made into the first ``oldN`` of the folder that is free.

    Raises:
        InputError: another demo works there.
    """
    from engine.errors import InputError
    from engine.storage.append_log import writer_of

    for name in LEARNERS:
        if writer := writer_of(_results(output, name)):
            raise InputError(f"A demo is at work in {output}", why=writer, fix="Wait for it, or name another --output.")
    there = [path for pattern in _OURS for path in output.glob(pattern)]
    number = 1
    while (output / f"old{number}").exists():
        number += 1
    for path in there:
        (output / f"old{number}").mkdir(exist_ok=True)
        path.rename(output / f"old{number}" / path.name)


# ------------------------------------------------------------------ learning


def learning_commands(settings: DemoSettings, config: Path) -> list[Command]:
    """The three generators and, last, the critic."""
    from grpo_training.demos.process_supervisor import Command

    cache, experiences = settings.output / "cache", settings.output / "experiences"
    shared = [
        *("--api-config", str(config), "--cache-dir", str(cache), "--experiences-dir", str(experiences)),
        *("--temperature", str(TEMPERATURE), "--prompts", STYLE, "--window", str(settings.window)),
        *("--max-tokens", str(settings.max_tokens)),
    ]
    answering = [
        *("--dataset", DATASET, "--max-problems", str(settings.problems), "--rollouts", str(settings.rollouts)),
    ]
    commands = []
    for place, name in enumerate(LEARNERS):
        seed = ["--seed", str(settings.seed + _SEEDS_APART * place)]
        own = ["critic", "--follow"] if name == "critic" else [name.replace("_", ""), *answering]
        counts = _Counts(settings, name)
        commands.append(Command(name, [*own, *shared, *seed], settings.output / "logs" / f"{name}.log", counts))
    return commands


class _Counts:
    """What a learner's files say of its work, read on from where the last look ended.

    Args:
        settings: the demo's.
        name: ``generator_1`` ... ``critic``.
    """

    def __init__(self, settings: DemoSettings, name: str) -> None:
        from engine.storage.append_log import LineReader

        self._problems = settings.problems
        self._reader = LineReader(_results(settings.output, name))
        self._library = settings.output / "experiences" / f"{name}_experiences.json"
        self._seen: set[str] = set()
        self._answers = self._right = 0

    def __call__(self) -> str:
        """In words; empty where nothing is there yet."""
        for line in self._reader.read():
            group = json.loads(line.text) if line.text else {}
            self._seen.add(str(group.get("problem_id")))
            for answer in group.get("rollouts", [group]):  # a fusion's line is one answer
                self._answers += 1
                self._right += bool(answer.get("is_correct"))
        if not self._answers:
            return ""
        share = f"{self._right / self._answers:.0%} right"
        return f"{len(self._seen)}/{self._problems} problems, {share}, {self._lessons()} lessons"

    def _lessons(self) -> int:
        try:
            return len(json.loads(self._library.read_bytes()))
        except (FileNotFoundError, ValueError):
            return 0


def _results(output: Path, name: str) -> Path:
    return output / "cache" / ("critic_results.jsonl" if name == "critic" else f"{name}_rollouts.jsonl")


def _writes(settings: DemoSettings, command: Command) -> bool:
    """Whether a generator holds its file: what an earlier demo left there no longer looks like its end."""
    from engine.storage.append_log import writer_of

    return writer_of(_results(settings.output, command.name)) is not None


def check_server(server: LocalServer) -> None:
    """Raise where the server has ended."""
    from engine.errors import ConfigurationError

    if server.ended():
        raise ConfigurationError(
            "The local server has ended",
            why="Its output stands in logs/server.log of the output folder.",
            fix="The same command starts it again and goes on; nothing that was answered is lost.",
        )


# ------------------------------------------------------------------ evaluation


def read_libraries(experiences: Path) -> dict[str, LibraryState]:
    """The libraries by learner."""
    from engine.experience.library import ExperienceLibrary, library_prefix

    return {
        name: ExperienceLibrary(experiences / f"{name}_experiences.json", library_prefix(name), read_only=True).state
        for name in LEARNERS
    }


async def _evaluate(
    settings: DemoSettings, config: Path, problems: Sequence[Problem], libraries: Mapping[str, LibraryState]
) -> list[Arm]:
    from engine.api_manager import ApiManager
    from engine.llm.client import LLMClient
    from engine.llm.journal import ResponseJournal
    from engine.llm.retry import RetryPolicy
    from engine.records import Sampling
    from grpo_training.evaluation.libraries import HeldOutEvaluation

    # The server is on this machine: one that does not answer for two minutes is gone.
    retry = RetryPolicy(total_s=120.0)
    with (
        closing(ResponseJournal(settings.output / "evaluation.sqlite")) as journal,
        problem_bar(len(problems), "test") as done,
    ):
        async with LLMClient(ApiManager.load(config), journal=journal, retry=retry) as client:
            evaluation = HeldOutEvaluation(
                client,
                {name: state.experiences for name, state in libraries.items()},
                samples=settings.samples,
                sampling=Sampling(temperature=TEMPERATURE, max_tokens=settings.max_tokens, seed=settings.seed),
                style=STYLE,
            )
            return await evaluation.run(problems, done)


def _problems(dataset: str, count: int) -> list[Problem]:
    from engine.datasets import load_problems

    return load_problems(dataset, max_problems=count)
