"""The learning processes of the demos: three generators and the critic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from engine.api_manager import LEARNERS
from engine.experience.library import ExperienceLibrary
from engine.experience.state import LibraryState
from grpo_training.demo.settings import DATASET, STYLE, TEMPERATURE, DemoSettings, TrainDemoSettings
from grpo_training.learning.status import LearnerStatus
from grpo_training.runs.learner_files import library_file
from grpo_training.runs.supervisor import Command

_SEED_STEP = 1000
"""Difference between the learners' seeds: equal prompts to one model must draw different samples."""


def learning_commands(settings: DemoSettings | TrainDemoSettings, config: Path, window: int) -> list[Command]:
    """The commands of the three generators and, last, the critic.

    Args:
        settings: the demo's settings, with an absolute output folder.
        config: the api config.
        window: see ``--window`` of the generators.
    """
    cache, experiences = settings.output / "cache", settings.output / "experiences"
    shared = [
        *("--api-config", str(config), "--cache-dir", str(cache), "--experiences-dir", str(experiences)),
        *("--temperature", str(TEMPERATURE), "--prompts", STYLE, "--window", str(window)),
        *("--max-tokens", str(settings.max_tokens)),
    ]
    generating = ["--dataset", DATASET, "--max-problems", str(settings.problems), "--rollouts", str(settings.rollouts)]
    commands = []
    for index, name in enumerate(LEARNERS):
        seed = ["--seed", str(settings.seed + _SEED_STEP * index)]
        own = ["critic", "--follow"] if name == "critic" else [name.replace("_", ""), *generating]
        status = LearnerStatus(cache, experiences, name, settings.problems)
        commands.append(Command(name, [*own, *shared, *seed], settings.output / "logs" / f"{name}.log", status))
    return commands


def train_command(name: str, values: Mapping[str, Any], log: Path, progress: Callable[[], str]) -> Command:
    """The command of a training with these flags, by their names; True sets a switch."""
    words = ["train"]
    for flag, value in values.items():
        words += [f"--{flag}"] if value is True else [f"--{flag}", str(value)]
    return Command(name, words, log, progress)


def read_libraries(output: Path) -> dict[str, LibraryState]:
    """The libraries by learner."""
    return {
        name: ExperienceLibrary(library_file(output / "experiences", name), read_only=True).state for name in LEARNERS
    }
