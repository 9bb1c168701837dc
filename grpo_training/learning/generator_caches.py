"""The generators' rollouts as the critic's steps: read once, or followed while the generators are running."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import InputError, MissingInputError
from engine.records import RolloutGroup
from engine.storage.append_log import writer_of
from engine.storage.rollout_store import BrokenLine
from engine.storage.stored_records import StepNumbers, StoredGroups
from grpo_training.cli.terminal_text import counted
from grpo_training.learning.scored_groups import Step
from grpo_training.runs.folder import manifest_file, results_file
from grpo_training.runs.run import RunManifest, load_manifest
from grpo_training.runs.stored_answers import problem_of

if TYPE_CHECKING:
    from grpo_training.cli.progress import Progress

Key = tuple[str, int]
_POLL_S = 0.2
"""Between two looks at files that grow."""


class GeneratorCaches:
    """The rollouts of the generators that the critic fuses.

    Steps are in the problem order of the first generator and have its numbers, so that a number identifies the same
    problem at every start, whatever the order in which the generator completed its groups.

    Args:
        directory: the cache directory.
        generators: such as ``1,2,3``.
        follow: the caches may still grow, and one that is missing is waited for.

    Raises:
        InputError: ``generators`` is not a list of some of 1, 2, 3.
        MissingInputError: a cache is missing.
    """

    def __init__(self, directory: Path, generators: str, *, follow: bool) -> None:
        self.names = [f"generator_{number}" for number in _numbers(generators)]
        self._directory, self._follows = directory, follow
        missing = [name for name in self.names if not self.path(name).exists()]
        if missing and not follow:
            raise _missing(self.names, missing, self.path)
        self._groups: dict[str, StoredGroups] = {}  # a group is read when it is fused
        self._opened: dict[Key, dict[str, RolloutGroup]] = {}  # of steps that are not fused yet
        self._pending: set[Key] = set()  # numbered groups of the first generator that are not steps yet
        self._ready: list[tuple[int, Key]] = []  # the same as a heap by number
        self._used: set[Key] = set()
        self._runs: dict[str, str] = {}
        for name in self.names:
            self._start_over(name)

    @property
    def broken(self) -> list[BrokenLine]:
        """The lines that could not be read."""
        return [line for groups in self._groups.values() for line in groups.broken]

    @property
    def complete(self) -> bool:
        """Whether all generators have completed their runs."""
        return all(self._is_complete(name, self._manifest(name)) for name in self.names)

    def path(self, name: str) -> Path:
        """The file of a generator's rollouts."""
        return results_file(self._directory, name)

    def manifests(self) -> dict[str, RunManifest]:
        """The manifests of the generators that have begun."""
        manifests = {name: self._manifest(name) for name in self.names}
        return {name: manifest for name, manifest in manifests.items() if manifest is not None}

    async def planned(self, tell: Callable[[str], object]) -> int | None:
        """How many problems all generators will have answered, in all epochs.

        Known from the generators' manifests, else from what is in the caches. If these may grow, this waits for the
        manifests, so that the number is the same whichever process was started first.

        Args:
            tell: called with a line if this has to wait.

        Returns:
            None if it is not known: a cache of another program has no manifest.
        """
        told = ""
        while len(manifests := self.manifests()) < len(self.names) and self._follows:
            missing = " and ".join(name for name in self.names if name not in manifests)
            if missing != told:
                tell(f"Waiting for {missing}: the window depends on how many groups they will make (--window sets it)")
                told = missing
            await asyncio.sleep(_POLL_S)
        steps = self._planned_groups(manifests)
        if not self._follows:
            self._read_new()
            steps = max(steps or 0, self._common_groups())
        return steps

    async def steps(self, progress: Progress) -> AsyncIterator[Step]:
        """The problems of which every generator has a complete group, in order; as they are answered with ``follow``.

        Raises:
            InputError: there is none, generators have answered different problems, or one was started with ``--fresh``.
        """
        number = yielded = 0
        is_waiting = True
        while True:
            has_ended = self._read_new()
            if has_ended or is_waiting:
                planned = None if has_ended else self._planned_groups(self.manifests())
                if has_ended or planned is not None:
                    progress.set_total(max(planned or 0, self._common_groups()))
            is_waiting = True
            while self._ready and (has_ended or is_waiting):
                next_number, key = self._ready[0]
                lacking = [name for name in self.names if key not in self._groups[name]]
                if (next_number > number or lacking) and not has_ended:
                    break  # an earlier problem, or another generator, is waited for
                heapq.heappop(self._ready)
                self._pending.remove(key)
                if not self._pending:
                    self._pending = set()  # an emptied set would keep the memory of its largest size
                number = next_number + 1
                if not lacking and (step := self._step(next_number, key)) is not None:
                    yield step  # then the files are read again, as a group may be replaced until it is fused
                    yielded += 1
                    is_waiting = False
            if has_ended:
                break
            if is_waiting:
                progress.set_waiting(self._waiting_for())
                await asyncio.sleep(_POLL_S)
        if not yielded and not self._follows:
            raise InputError(
                f"There is no problem that {', '.join(self.names)} have all answered",
                why="; ".join(self.notes()) or "Their caches are empty.",
                fix="Run the generators on the same dataset, or fuse fewer of them with --generators.",
            )
        progress.set_total(yielded)
        progress.set_waiting("")

    def groups(self, problem_id: str, epoch: int) -> dict[str, RolloutGroup]:
        """Each generator's group for a problem, in the generators' order."""
        return self._opened.pop((problem_id, epoch), None) or self._read_groups((problem_id, epoch))

    def notes(self) -> list[str]:
        """The groups that were left out, with the generator that lacks them. A problem has one in each epoch."""
        keys = dict.fromkeys(key for groups in self._groups.values() for key in groups)
        return [
            f"left out: {counted(len(lacking), 'group')} that {name} has not completed ({lacking[0][0]} ...)"
            for name, groups in self._groups.items()
            if (lacking := [key for key in keys if key not in groups])
        ]

    def _read_new(self) -> bool:
        """Read what the generators have added; whether they add nothing more."""
        has_ended = True
        for name in self.names:
            # Before the read, so that everything written before the end is read.
            is_last = not self._follows or self._has_ended(name)
            keys = self._groups[name].read(to_the_end=is_last)
            if not self._used.isdisjoint(keys):
                raise self._restarted(name)
            if name == self.names[0]:
                self._number(keys)
            has_ended = has_ended and is_last
        return has_ended

    def _number(self, keys: Iterable[Key]) -> None:
        """Number the groups that the first generator has added; one that was replaced keeps its number."""
        for key in keys:
            if key not in self._pending:
                self._pending.add(key)
                number = self._numbers.number(self._groups[self.names[0]].step(key))
                heapq.heappush(self._ready, (number, key))

    def _start_over(self, name: str) -> None:
        """Read a generator's file from its start."""
        self._groups[name] = StoredGroups(self.path(name), is_growing=True)
        if name == self.names[0]:
            self._pending.clear()
            self._ready.clear()
            self._numbers = StepNumbers()

    def _has_ended(self, name: str) -> bool:
        """Whether the generator has completed: its manifest says so, and no process writes its rollouts."""
        manifest = self._manifest(name)
        run = manifest.run if manifest else ""
        if self._runs.setdefault(name, run) != run:
            if self._runs[name] and self._used:
                raise self._restarted(name)
            self._runs[name] = run
            if not self._used:
                self._start_over(name)
        return self._is_complete(name, manifest)

    def _restarted(self, name: str) -> InputError:
        return InputError(
            f"{name} was restarted with --fresh while its rollouts were being fused",
            fix="Start the critic again with --fresh to set the fusions of the old rollouts aside.",
        )

    def _step(self, number: int, key: Key) -> Step | None:
        """The step of a problem; None if a group of it cannot be read."""
        groups = self._read_groups(key)
        if len(groups) < len(self.names):
            return None
        self._used.add(key)
        self._opened[key] = groups
        first = groups[self.names[0]]
        for name, group in groups.items():
            if (group.problem_text, group.ground_truth) != (first.problem_text, first.ground_truth):
                raise InputError(
                    f"{self.path(name)} and {self.path(self.names[0])} contain different problems with the id {key[0]}",
                    fix="Run the generators on the same dataset.",
                )
        return Step(number, problem_of(first), key[1])

    def _read_groups(self, key: Key) -> dict[str, RolloutGroup]:
        """Each generator's group, without those that cannot be read."""
        return {name: group for name in self.names if (group := self._groups[name].get(key)) is not None}

    def _common_groups(self) -> int:
        """How many problems all generators have answered."""
        return sum(all(key in groups for groups in self._groups.values()) for key in self._groups[self.names[0]])

    def _planned_groups(self, manifests: Mapping[str, RunManifest]) -> int | None:
        """How many groups each generator will have made; None if a manifest is missing, or does not have it."""
        planned = [manifest.groups for manifest in manifests.values() if manifest.groups is not None]
        return min(planned) if len(planned) == len(self.names) else None

    def _manifest(self, name: str) -> RunManifest | None:
        return load_manifest(manifest_file(self._directory, name))

    def _is_complete(self, name: str, manifest: RunManifest | None) -> bool:
        return manifest is not None and manifest.finished and writer_of(self.path(name)) is None

    def _waiting_for(self) -> str:
        """Which generators are not finished, and which of them do not run; empty if all run or are finished."""
        idle = [name for name in self.names if not self._has_ended(name) and writer_of(self.path(name)) is None]
        verb = "is" if len(idle) == 1 else "are"
        return f"waiting for {' and '.join(idle)}, which {verb} not running" if idle else ""


def _missing(names: Sequence[str], missing: Sequence[str], path: Callable[[str], Path]) -> MissingInputError:
    commands = " and ".join(f"python -m grpo_training.generator{name[-1]}" for name in missing)
    present = ",".join(name[-1] for name in names if name not in missing)
    fuse = f", fuse what is there with --generators {present}" if present else ""
    return MissingInputError(
        f"Rollouts file not found: {', '.join(str(path(name)) for name in missing)}",
        why="The critic fuses the rollouts of the generators.",
        fix=f"Run {commands} first, start the critic beside them with --follow{fuse}, or pass another --cache-dir.",
    )


def _numbers(generators: str) -> Sequence[str]:
    numbers = [number.strip() for number in generators.split(",")]
    if not set(numbers) <= {"1", "2", "3"} or len(set(numbers)) != len(numbers):
        raise InputError(f"--generators takes some of 1,2,3, not {generators!r}")
    return sorted(numbers)
