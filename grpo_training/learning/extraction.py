"""Extract experiences again from stored groups: ``python -m grpo_training.experience_extractor``."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Any

from engine.api_manager import ApiManager
from engine.errors import InputError, MissingInputError
from engine.experience.library import ExperienceLibrary
from engine.experience.state import LibraryState
from engine.records import Fusion, Problem, RolloutGroup
from engine.statistics.groups import group_stats
from engine.storage.append_log import AppendLog
from engine.storage.rollout_store import BrokenLine
from engine.storage.stored_records import StepNumbers, StoredFusions, StoredGroups
from engine.tasks.registry import DEFAULT_TASK
from grpo_training.cli.entry import run_async
from grpo_training.cli.progress import Progress, Row
from grpo_training.cli.settings import shown_path
from grpo_training.learning.critic import scored_fusions
from grpo_training.learning.extractor import ExperienceExtractor, ScoredGroup, Step
from grpo_training.learning.generator import scored_rollouts
from grpo_training.learning.loop import LearningLoop
from grpo_training.learning.session import make_analyst, with_window
from grpo_training.learning.settings import ExtractorSettings
from grpo_training.runs.files import RunFiles
from grpo_training.runs.learner_files import library_file, manifest_file, results_file
from grpo_training.runs.manifest import load_manifest
from grpo_training.runs.named import in_found_run, load_tasks_of
from grpo_training.serve.endpoints import check_budget, open_client, open_endpoints


def run_extractor(settings: ExtractorSettings) -> int:
    """Show the stored groups of a learner to the analyst and add the experiences to a library; the exit code.

    Raises:
        ScaffoldError: no stored groups, a refusing endpoint, an exhausted budget, or a step that stayed open.
    """
    settings = in_found_run(settings)
    # The library itself is never set aside: --fresh only begins a new run on it.
    path = settings.experiences_dir / f"{settings.role}_extraction.json"
    files = RunFiles(path, (), lock=AppendLog(path))
    settings = files.resumed(settings)
    load_tasks_of(settings.cache_dir, given=settings.task)
    groups = stored_groups(settings)  # before a server is started
    with open_endpoints(settings) as manager:
        return run_async(_extract(settings, files, groups, manager))


async def _extract(settings: ExtractorSettings, files: RunFiles, groups: RecordedGroups, manager: ApiManager) -> int:
    role = settings.role
    analyst_role = "analyst" if manager.has("analyst") else role
    facts = {"analyst": manager.endpoint(analyst_role).model}
    check_budget(settings, manager, analyst_role)
    if settings.window is None:
        settings = settings.model_copy(update={"window": files.stored(settings, "window") or _window_of_run(settings)})
    settings, window = with_window(settings, files, manager, analyst_role, len(groups))
    with files.open(settings, facts) as manifest:
        library_path = library_file(settings.experiences_dir, role)
        library = ExperienceLibrary(library_path, settings.library_capacity)
        async with open_client(settings, manager) as client:
            analyst = make_analyst(settings, manager, client, role)
            extractor = ExperienceExtractor(manifest.run, analyst, library)
            progress = Progress(role, len(groups), lambda: client.counters, verbose=settings.verbose)
            client.report_trouble_to(progress.note)
            loop = LearningLoop(window, extractor, groups, progress)
            try:
                with progress:
                    for line in groups.broken:
                        progress.note(f"skipped {line}")
                    await loop.run(groups.steps())
            finally:
                progress.summary([*loop.summary_rows(), Row("library kept in", shown_path(library_path))])
        manifest.finish()
    return 0


def _window_of_run(settings: ExtractorSettings) -> int | None:
    """The window of the run that stored the groups: with it, the analyst sees what it saw then."""
    manifest = load_manifest(manifest_file(settings.cache_dir, settings.role))
    window = None if manifest is None else manifest.settings.get("window")
    return window if isinstance(window, int) else None


Key = tuple[str, int]
"""Problem and epoch."""


class RecordedGroups(ABC):
    """Yields stored groups instead of asking for new ones. A group has the number that it has in its run.

    Args:
        steps: the complete groups in problem order: key and step.
        broken: the lines of the file that could not be read.
    """

    def __init__(self, steps: Iterable[tuple[Key, int | None]], broken: Sequence[BrokenLine]) -> None:
        numbers = StepNumbers()
        self._keys = dict(sorted((numbers.number(step), key) for key, step in steps))
        self.broken = broken

    def __len__(self) -> int:
        return len(self._keys)

    async def steps(self) -> AsyncIterator[Step]:
        """The problems of the groups, in order."""
        for number, key in self._keys.items():
            first = self._record(key)
            problem = Problem(
                id=first.problem_id, text=first.problem_text, answer=first.ground_truth, task=first.task or DEFAULT_TASK
            )
            yield Step(number, problem, first.epoch)

    def stored(self, step: Step) -> None:  # noqa: B027 - not abstract: it is the same for both
        """Nothing: all groups are shown to the analyst."""

    async def produce(self, step: Step, state: LibraryState) -> ScoredGroup[Any]:
        """The stored group of a step."""
        # Experience ids of the cache belong to the library of that time, so they do not count as uses here.
        return dataclasses.replace(self._scored(self._keys[step.number]), is_kept=False, experience_ids=[], trial=None)

    def keep(self, record: object) -> None:  # noqa: B027 - not abstract: nothing is left to do
        """The groups are stored already."""

    @abstractmethod
    def _record(self, key: Key) -> RolloutGroup | Fusion:
        """A record that names the problem of a group."""

    @abstractmethod
    def _scored(self, key: Key) -> ScoredGroup[Any]:
        """The group with statistics for the given tau."""


class RecordedRollouts(RecordedGroups):
    """The groups of a generator; a group is read when it is needed."""

    def __init__(self, path: Path, tau: float) -> None:
        self._groups, self._tau = StoredGroups(path), tau
        super().__init__([(key, self._groups.step(key)) for key in self._groups], self._groups.broken)

    def _record(self, key: Key) -> RolloutGroup:
        return self._groups[key]

    def _scored(self, key: Key) -> ScoredGroup[Any]:
        group = self._groups[key]
        stats = group_stats([rollout.r_total or 0.0 for rollout in group.rollouts], self._tau)
        return scored_rollouts(group.model_copy(update={"stats": stats}), self._tau, is_kept=True)


class RecordedFusions(RecordedGroups):
    """The critic's fusions of each problem; they are read when they are needed."""

    def __init__(self, path: Path, tau: float) -> None:
        self._fusions, self._tau = StoredFusions(path), tau
        self._members: dict[Key, list[tuple[str, int, str]]] = {}
        for member in self._fusions:
            self._members.setdefault(member[:2], []).append(member)
        steps = [(key, self._fusions.step(members[0])) for key, members in self._members.items()]
        super().__init__(steps, self._fusions.broken)

    def _record(self, key: Key) -> Fusion:
        return self._fusions[self._members[key][0]]

    def _scored(self, key: Key) -> ScoredGroup[Any]:
        return scored_fusions([self._fusions[member] for member in self._members[key]], [], self._tau)


def stored_groups(settings: ExtractorSettings) -> RecordedGroups:
    """The complete groups of a learner's cache.

    Raises:
        MissingInputError: there is no cache.
        InputError: it has no complete group.
    """
    path = results_file(settings.cache_dir, settings.role)
    if not path.exists():
        raise MissingInputError(
            f"Rollouts file not found: {path}",
            fix=f"Run python -m grpo_training.{settings.role.replace('_', '')} first, or pass another --cache-dir.",
        )
    groups = (RecordedFusions if settings.role == "critic" else RecordedRollouts)(path, settings.tau)
    if not groups:
        raise InputError(f"No complete group in {path}", fix="Run the same generator or critic again to complete it.")
    return groups
