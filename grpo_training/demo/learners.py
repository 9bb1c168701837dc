"""The learning processes of the demos, three generators and the critic, and the files that they write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Protocol

from engine.api_manager import LEARNERS
from engine.experience.library import ExperienceLibrary, library_prefix
from engine.experience.state import LibraryState
from engine.storage.append_log import writer_of
from engine.storage.lines import LineReader
from grpo_training.demo.settings import DATASET, STYLE, TEMPERATURE
from grpo_training.runs.supervisor import Command

_SEED_STEP = 1000
"""Difference between the learners' seeds: equal prompts to one model must draw different samples."""


class LearningSettings(Protocol):
    """The settings that the learning processes take from a demo."""

    problems: int
    rollouts: int
    max_tokens: int
    seed: int
    output: Path


def learning_commands(settings: LearningSettings, config: Path, window: int) -> list[Command]:
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
        status = _LearnerStatus(settings.output, name, settings.problems)
        commands.append(Command(name, [*own, *shared, *seed], settings.output / "logs" / f"{name}.log", status))
    return commands


class _LearnerStatus:
    """A learner's progress in a few words, from the lines that were added to its cache since the last call.

    Args:
        output: the demo's output folder.
        name: name of the learner.
        problems: number of training problems.
    """

    def __init__(self, output: Path, name: str, problems: int) -> None:
        self._problems = problems
        self._reader = LineReader(results_file(output, name))
        self._library = output / "experiences" / f"{name}_experiences.json"
        self._seen: set[str] = set()
        self._answers = self._right = 0

    def __call__(self) -> str:
        """The progress; empty before the first result."""
        for line in self._reader.read():
            group = json.loads(line.text) if line.text else {}
            self._seen.add(str(group.get("problem_id")))
            for answer in group.get("rollouts", [group]):  # a fusion is one answer
                self._answers += 1
                self._right += bool(answer.get("is_correct"))
        if not self._answers:
            return ""
        share = f"{self._right / self._answers:.0%} right"
        return f"{len(self._seen)}/{self._problems} problems, {share}, {self._experiences()} experiences"

    def _experiences(self) -> int:
        try:
            return len(json.loads(self._library.read_bytes()))
        except (FileNotFoundError, ValueError):
            return 0


def results_file(output: Path, name: str) -> Path:
    """The cache of a learner."""
    return output / "cache" / ("critic_results.jsonl" if name == "critic" else f"{name}_rollouts.jsonl")


def is_writing(output: Path, name: str) -> bool:
    """Whether a learner holds the lock of its cache.

    From then on the critic waits for more lines and does not take those of an earlier run for all of them.
    """
    return writer_of(results_file(output, name)) is not None


def read_libraries(output: Path) -> dict[str, LibraryState]:
    """The libraries by learner."""
    return {
        name: ExperienceLibrary(
            output / "experiences" / f"{name}_experiences.json", library_prefix(name), read_only=True
        ).state
        for name in LEARNERS
    }
