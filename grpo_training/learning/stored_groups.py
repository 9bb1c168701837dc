"""Extract experiences again from stored groups: ``python -m grpo_training.experience_extractor``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from engine.api_manager import ANALYST_ROLE, ApiManager
from engine.errors import InputError, MissingInputError
from engine.experience.events import BeginEvent
from engine.experience.library import ExperienceLibrary
from engine.records import Fusion
from engine.statistics.groups import group_stats
from engine.storage.append_log import AppendLog
from engine.storage.rollout_store import RolloutStore
from engine.storage.stored_records import StoredRecords, numbered
from grpo_training.cli.entry import run_async
from grpo_training.cli.progress import Progress, Row
from grpo_training.cli.settings import shown_path
from grpo_training.learning.analysis import ExperienceExtractor, make_analyst
from grpo_training.learning.critic import scored_fusions
from grpo_training.learning.loop import LearningLoop
from grpo_training.learning.run import loop_rows
from grpo_training.learning.scored_groups import Step, scored_rollouts
from grpo_training.learning.settings import ExtractorSettings
from grpo_training.runs.folder import in_found_run, library_file, load_tasks_of, manifest_file, results_file
from grpo_training.runs.run import Run, load_manifest
from grpo_training.runs.stored_answers import problem_of, stored_records
from grpo_training.runs.window import default_window
from grpo_training.serve.endpoints import check_budget, open_client, open_endpoints


def run_extractor(settings: ExtractorSettings) -> int:
    """Show the stored groups of a learner to the analyst and add the experiences to a library; the exit code.

    Raises:
        ScaffoldError: no stored groups, a refusing endpoint, an exhausted budget, or a step that stayed open.
    """
    settings = in_found_run(settings)
    # The library itself is never set aside: --fresh only begins a new run on it.
    path = settings.experiences_dir / f"{settings.role}_extraction.json"
    run = Run(path, (), lock=AppendLog(path))
    settings = run.resumed(settings)
    load_tasks_of(settings.cache_dir, given=settings.task)
    groups = stored_groups(settings)  # before a server is started
    with open_endpoints(settings) as manager:
        return run_async(_extract(settings, run, groups, manager))


async def _extract(settings: ExtractorSettings, run: Run, groups: RecordedGroups, manager: ApiManager) -> int:
    role, may_grow = settings.role, settings.window is None
    analyst_role = manager.role_of(ANALYST_ROLE, role)
    facts = {"analyst": manager.endpoint(analyst_role).model}
    check_budget(settings, manager, analyst_role)
    # With the window of the run that made the groups, the analyst sees what it saw.
    manifests = (run.stored(settings), load_manifest(manifest_file(settings.cache_dir, role)))
    windows = [settings.window, *(manifest.window for manifest in manifests if manifest)]
    slots = manager.endpoint(analyst_role).max_concurrency
    window = next(filter(None, windows), None) or default_window(slots, len(groups))
    settings = settings.model_copy(update={"window": window})
    with run.open(settings, facts) as manifest:
        library_path = library_file(settings.experiences_dir, role)
        library = ExperienceLibrary(library_path, settings.library_capacity)
        async with open_client(settings, manager) as client:
            analyst = make_analyst(settings, manager, client, role)
            analysis = ExperienceExtractor(BeginEvent(at="", run=manifest.run), analyst, library)
            progress = Progress(role, len(groups), lambda: client.counters, verbose=settings.verbose)
            client.report_notices_to(progress.note)
            store = RolloutStore(results_file(settings.cache_dir, role))  # nothing is added
            loop = LearningLoop(window, None, store, analysis, manifest, progress, may_grow)
            try:
                with progress:
                    await loop.run(groups.steps())
                    for line in groups.broken:
                        progress.note(f"skipped {line}")
            finally:
                progress.summary([*loop_rows(loop), Row("library kept in", shown_path(library_path))])
        manifest.finish()
    return 0


class RecordedGroups:
    """Stored groups as steps: nothing is asked again. A group has the number that it has in its run.

    Args:
        stored: the groups of a generator, or the fusions of the critic; one is read when it is needed.
        tau: of the statistics.
    """

    def __init__(self, stored: StoredRecords[Any, Any, Any], tau: float) -> None:
        self._stored, self._tau = stored, tau
        self.broken = stored.broken
        self._keys = list(stored.by_problem().values())

    def __len__(self) -> int:
        return len(self._keys)

    def steps(self) -> Iterator[Step]:
        """The problems in order, each with its group and the statistics for the given tau."""
        for number, keys in numbered(self._keys, lambda keys: self._stored.step(keys[0])):
            records = self._stored.of_keys(keys)
            if not records:
                continue
            if isinstance(records[0], Fusion):
                scored = scored_fusions(records, (), self._tau)
            else:
                stats = group_stats([rollout.r_total or 0.0 for rollout in records[0].rollouts], self._tau)
                scored = scored_rollouts(records[0].model_copy(update={"stats": stats}), self._tau, new_records=())
            # Experience ids of the cache belong to the library of that time, so they do not count as uses here.
            scored = replace(scored, is_kept=False, experience_ids=[], trial=None)
            yield Step(number, problem_of(records[0]), records[0].epoch, stored=scored)


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
    groups = RecordedGroups(stored_records(settings.cache_dir, settings.role), settings.tau)
    if not groups:
        raise InputError(f"No complete group in {path}", fix="Run the same generator or critic again to complete it.")
    return groups
