"""The generators' rollouts as the critic's steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from engine.errors import InputError, MissingInputError
from engine.storage.rollout_store import BrokenLine
from engine.storage.stored_records import StoredGroups, numbered
from grpo_training.cli.terminal_text import counted
from grpo_training.learning.scored_groups import Step
from grpo_training.runs.folder import manifest_file, results_file
from grpo_training.runs.run import RunManifest, load_manifest
from grpo_training.runs.stored_answers import problem_of

Key = tuple[str, int]


class GeneratorCaches:
    """The rollouts of the generators that the critic fuses.

    Steps are in the problem order of the first generator and have its numbers, so that a number identifies the same
    problem at every start, whatever the order in which the generator completed its groups.

    Args:
        directory: the cache directory.
        generators: such as ``1,2,3``.

    Raises:
        InputError: ``generators`` is not a list of some of 1, 2, 3.
        MissingInputError: a cache is missing.
    """

    def __init__(self, directory: Path, generators: str) -> None:
        self.names = [f"generator_{number}" for number in _numbers(generators)]
        self._directory = directory
        missing = [name for name in self.names if not self.path(name).exists()]
        if missing:
            commands = " and ".join(f"python -m grpo_training.generator{name[-1]}" for name in missing)
            present = ",".join(name[-1] for name in self.names if name not in missing)
            fuse = f", fuse what is there with --generators {present}" if present else ""
            raise MissingInputError(
                f"Rollouts file not found: {', '.join(str(self.path(name)) for name in missing)}",
                why="The critic fuses the rollouts of the generators.",
                fix=f"Run {commands} first{fuse}, or pass another --cache-dir.",
            )

    @cached_property
    def _groups(self) -> dict[str, StoredGroups]:
        return {name: StoredGroups(self.path(name)) for name in self.names}

    def __len__(self) -> int:
        return sum(self._is_common(key) for key in self._groups[self.names[0]])

    @property
    def broken(self) -> list[BrokenLine]:
        """The lines that could not be read."""
        return [line for groups in self._groups.values() for line in groups.broken]

    def path(self, name: str) -> Path:
        """The file of a generator's rollouts."""
        return results_file(self._directory, name)

    def manifests(self) -> dict[str, RunManifest]:
        """The manifests of the generators; a cache of another program has none."""
        manifests = {name: load_manifest(manifest_file(self._directory, name)) for name in self.names}
        return {name: manifest for name, manifest in manifests.items() if manifest is not None}

    def steps(self) -> Iterator[Step]:
        """The problems of which every generator has a complete group, in order, each with these groups.

        Raises:
            InputError: there is none, or generators have answered different problems.
        """
        is_empty = True
        of_first = self._groups[self.names[0]]
        for number, key in numbered(of_first, of_first.step):
            if not self._is_common(key):
                continue
            groups = {name: group for name in self.names if (group := self._groups[name].get(key)) is not None}
            if len(groups) < len(self.names):  # one cannot be read
                continue
            first = groups[self.names[0]]
            for name, group in groups.items():
                if (group.problem_text, group.ground_truth) != (first.problem_text, first.ground_truth):
                    raise InputError(
                        f"{self.path(name)} and {self.path(self.names[0])} contain different problems with the id "
                        f"{group.problem_id}",
                        fix="Run the generators on the same dataset.",
                    )
            is_empty = False
            yield Step(number, problem_of(first), key[1], inputs=groups)
        if is_empty:
            raise InputError(
                f"There is no problem that {', '.join(self.names)} have all answered",
                why="; ".join(self.notes()) or "Their caches are empty.",
                fix="Run the generators on the same dataset, or fuse fewer of them with --generators.",
            )

    def notes(self) -> list[str]:
        """The groups that were left out, with the generator that lacks them. A problem has one in each epoch."""
        keys = dict.fromkeys(key for groups in self._groups.values() for key in groups)
        return [
            f"left out: {counted(len(lacking), 'group')} that {name} has not completed ({lacking[0][0]} ...)"
            for name, groups in self._groups.items()
            if (lacking := [key for key in keys if key not in groups])
        ]

    def _is_common(self, key: Key) -> bool:
        return all(key in groups for groups in self._groups.values())


def _numbers(generators: str) -> Sequence[str]:
    numbers = [number.strip() for number in generators.split(",")]
    if not set(numbers) <= {"1", "2", "3"} or len(set(numbers)) != len(numbers):
        raise InputError(f"--generators takes some of 1,2,3, not {generators!r}")
    return sorted(numbers)
