"""Extract experiences again from stored groups: ``python -m grpo_training.experience_extractor``."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from engine.errors import InputError, MissingInputError
from engine.experience.library import ExperienceLibrary, library_prefix
from engine.records import Fusion, Problem, RolloutGroup
from engine.statistics.groups import group_stats
from engine.storage.append_log import AppendLog
from engine.storage.rollout_store import latest_by_problem, latest_fusions, read
from engine.tasks.registry import DEFAULT_TASK, load_task
from grpo_training.cli.entry import run_async
from grpo_training.cli.progress import Progress
from grpo_training.learning.critic import scored_fusions
from grpo_training.learning.endpoints import open_client, open_endpoints
from grpo_training.learning.extractor import ExperienceExtractor, ScoredGroup, Step
from grpo_training.learning.generator import scored_rollouts
from grpo_training.learning.loop import LearningLoop
from grpo_training.learning.session import check_budget, make_analyst, with_window
from grpo_training.runs.files import RunFiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.api_manager import ApiManager
    from engine.experience.state import LibraryState
    from grpo_training.learning.settings import ExtractorSettings


def run_extractor(settings: ExtractorSettings) -> int:
    """Show the stored groups of a learner to the analyst and add the experiences to a library; the exit code.

    Raises:
        ScaffoldError: no stored groups, a refusing endpoint, an exhausted budget, or a step that stayed open.
    """
    with open_endpoints(settings) as manager:
        return run_async(_extract(settings, manager))


async def _extract(settings: ExtractorSettings, manager: ApiManager) -> int:
    role = settings.role
    # The library itself is never set aside: --fresh only begins a new run on it.
    path = settings.experiences_dir / f"{role}_extraction.json"
    files = RunFiles(path, (), lock=AppendLog(path))
    settings = files.resumed(settings)
    if settings.task is not None:
        load_task(settings.task)  # the groups name their task, and a task of your own must be known by that name
    analyst_role = "analyst" if manager.has("analyst") else role
    facts = {"analyst": manager.endpoint(analyst_role).model}
    check_budget(settings, manager, analyst_role)
    groups, notes = _read_groups(settings)
    settings, window = with_window(settings, files, manager, analyst_role, len(groups))
    with files.open(settings, facts) as manifest:
        library_path = settings.experiences_dir / f"{role}_experiences.json"
        library = ExperienceLibrary(library_path, library_prefix(role), settings.capacity)
        async with open_client(settings, manager) as client:
            analyst = make_analyst(settings, manager, client, role, "critic" if role == "critic" else "generator")
            extractor = ExperienceExtractor(manifest.run, analyst, library)
            progress = Progress(role, len(groups), lambda: client.counters)
            client.report_trouble_to(progress.note)
            loop = LearningLoop(window, extractor, StoredGroups(groups), progress)
            try:
                with progress:
                    for note in notes:
                        progress.note(note)
                    await loop.run([step for step, _ in groups])
            finally:
                progress.summary([*loop.summary_rows(), ("library kept in", str(library_path))])
        manifest.finish()
    return 0


class StoredGroups:
    """Yields stored groups instead of asking for new ones.

    Args:
        groups: each step with its group, in order.
    """

    def __init__(self, groups: Sequence[tuple[Step, ScoredGroup[Any]]]) -> None:
        self._groups = {step.number: group for step, group in groups}

    async def produce(self, step: Step, state: LibraryState) -> ScoredGroup[Any]:
        """The stored group of a step."""
        return self._groups[step.number]

    def keep(self, record: object) -> None:
        """The groups are stored already."""


def _read_groups(settings: ExtractorSettings) -> tuple[list[tuple[Step, ScoredGroup[Any]]], list[str]]:
    """The complete groups of a learner's cache in order, with statistics for the given tau; and notes on bad lines.

    Raises:
        MissingInputError: there is no cache.
        InputError: it has no complete group.
    """
    is_critic = settings.role == "critic"
    path = settings.cache_dir / ("critic_results.jsonl" if is_critic else f"{settings.role}_rollouts.jsonl")
    if not path.exists():
        raise MissingInputError(
            f"Rollouts file not found: {path}",
            fix=f"Run python -m grpo_training.{settings.role.replace('_', '')} first, or pass another --cache-dir.",
        )
    if is_critic:
        fusions = read(path, Fusion)
        found, broken = _fusion_groups(fusions.records, settings.tau), fusions.broken
    else:
        stored = read(path, RolloutGroup)
        found, broken = _rollout_groups(stored.records, settings.tau), stored.broken
    if not found:
        raise InputError(f"No complete group in {path}", fix="Run the same generator or critic again to complete it.")
    # Experience ids of the cache belong to the library of that time, so they do not count as uses here.
    groups = [(step, dataclasses.replace(group, is_kept=False, experience_ids=[])) for step, group in found]
    return groups, [f"skipped {line}" for line in broken]


def _rollout_groups(records: Sequence[RolloutGroup], tau: float) -> list[tuple[Step, ScoredGroup[Any]]]:
    complete = [group for group in latest_by_problem(records).values() if group.complete]
    groups = []
    for number, group in enumerate(complete):
        problem = Problem(
            id=group.problem_id, text=group.problem_text, answer=group.ground_truth, task=group.task or DEFAULT_TASK
        )
        stats = group_stats([rollout.r_total or 0.0 for rollout in group.rollouts], tau)
        scored = scored_rollouts(group.model_copy(update={"stats": stats}), tau, is_kept=True)
        groups.append((Step(number, problem, group.epoch), scored))
    return groups


def _fusion_groups(records: Sequence[Fusion], tau: float) -> list[tuple[Step, ScoredGroup[Any]]]:
    by_problem: dict[tuple[str, int], list[Fusion]] = {}
    for fusion in latest_fusions(records).values():
        if fusion.outcome.carries_reward:
            by_problem.setdefault((fusion.problem_id, fusion.epoch), []).append(fusion)
    groups = []
    for number, fusions in enumerate(by_problem.values()):
        first = fusions[0]
        problem = Problem(
            id=first.problem_id, text=first.problem_text, answer=first.ground_truth, task=first.task or DEFAULT_TASK
        )
        groups.append((Step(number, problem, first.epoch), scored_fusions(fusions, [], tau)))
    return groups
