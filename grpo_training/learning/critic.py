"""The critic's run: the candidates of each generator are fused; the fusions are scored, stored and learned from."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from agents.templates import role_template
from engine.errors import InputError, MissingInputError
from engine.experience.state import LibraryState
from engine.experience.trial import half_of_rollout, in_half
from engine.records import Fault, Fusion, Half, RolloutGroup
from engine.statistics.groups import group_stats
from engine.storage.rollout_store import BrokenLine, RolloutStore
from engine.storage.stored_records import StoredFusions
from engine.tasks.registry import DEFAULT_TASK, load_task, task_named
from grpo_training.cli.progress import Progress, Row
from grpo_training.cli.settings import shown_path
from grpo_training.learning.experience_choice import experience_choice
from grpo_training.learning.extractor import ScoredGroup, Step
from grpo_training.learning.groups.caches import GeneratorCaches
from grpo_training.learning.groups.fusions import FusionOrder, LocalFusions, inputs_hash
from grpo_training.learning.groups.records import group_trial, scored_group, total_of
from grpo_training.learning.learner import Learner, run_learner
from grpo_training.learning.loop import LearningLoop
from grpo_training.learning.session import Cluster, Session
from grpo_training.learning.settings import CriticSettings
from grpo_training.runs.named import in_found_run, load_tasks_of, wait_for_run
from grpo_training.runs.problems import task_facts

ROLE = "critic"


def run_critic(settings: CriticSettings) -> int:
    """Run the critic; the exit code.

    Raises:
        MissingInputError: a generator's cache is missing.
        ScaffoldError: as :func:`run_learner`.
    """
    if settings.follow:
        wait_for_run(settings)
    try:
        settings = in_found_run(settings.for_its_model())
    except MissingInputError as error:
        raise MissingInputError(
            f"Rollouts file not found: {error.what[0].lower()}{error.what[1:]}",
            fix="Run python -m grpo_training.generator1, generator2 and generator3 first, or start the critic beside "
            "them with --follow. If they have run, start it in the folder of the run.",
        ) from None
    load_tasks_of(settings.cache_dir, given=settings.task)
    return run_learner(ROLE, settings, CriticLearner)


class CriticLearner(Learner[list[Fusion]]):
    """Critic: its steps are the problems that all its generators have answered.

    Raises:
        MissingInputError: a generator's cache is missing.
        InputError: the fusions of a single generator have to be learned from.
    """

    role = ROLE
    settings: CriticSettings
    _maker: LocalFusions | Cluster

    def __init__(self, store: RolloutStore, settings: CriticSettings) -> None:
        self._store, self.settings = store, settings
        self.choice = experience_choice(settings)
        self._caches = GeneratorCaches(settings.cache_dir, settings.generators, follow=settings.follow)
        self._check_task_file()
        # With --follow the tasks of the caches are not known yet, so this is the prompt of the format's default
        # task. A stored fusion of any task is checked against the prompt on its own record, in _stored.
        self.prompt_hash = role_template("critic", load_task(settings.task or DEFAULT_TASK), settings.prompts).hash
        self._done: Mapping[tuple[str, int, str], Fusion] = {}
        self._fused = self._merged = 0  # in this start, and those of them that were merged without a model
        self.per_step = len(self._caches.names)
        if self.per_step == 1 and settings.learn == "trial":
            raise InputError(
                f"--generators {settings.generators} cannot learn: the standard deviation of one fusion's reward is 0",
                why="The critic learns from the fusions of a problem, one of each generator.",
                fix="Fuse two or more generators, or pass --learn none to make the fusions only.",
            )

    def _check_task_file(self) -> None:
        """Refuse rollouts that another version of the task file scored: a fusion is compared with them."""
        for name, manifest in self._caches.manifests().items():
            scored = manifest.facts.get("task_file")
            now = task_facts(self.settings.task or manifest.settings.get("task")).get("task_file")
            if scored and now and scored != now:
                raise InputError(
                    f"The rollouts of {name} were scored by another version of the task file",
                    why=f"task_file: stored {scored}, now {now}. The critic compares fusions with these rollouts.",
                    fix=f"Run {name.replace('_', '')} again with --fresh, which scores its stored replies again.",
                )

    def read_stored(self) -> list[BrokenLine]:
        """Read the fusions of earlier starts; those without a reward are made again."""
        stored = StoredFusions(self._store.path)
        self._done = stored
        return stored.broken

    def stored_groups(self) -> int:
        """How many problems have a fusion."""
        return len({(problem_id, epoch) for problem_id, epoch, _ in self._done})

    async def planned(self) -> tuple[int | None, int]:
        """What the generators have planned. With ``--follow`` it waits until each of them has begun."""
        return await self._caches.planned(lambda text: print(text, flush=True))

    def inputs(self) -> tuple[str, list[Path]] | None:
        """The generators' caches; with ``--follow`` once the generators are complete."""
        if self.settings.follow and not self._caches.complete:
            return None
        return "", [self._caches.path(name) for name in self._caches.names]

    def steps(self, progress: Progress) -> AsyncIterator[Step]:
        """The problems in the first generator's order; with ``--follow`` as they are answered."""
        if self.per_step == 1 and self.settings.learn == "add":
            progress.note("With one generator a problem has one fusion: σ is 0, and no experience is extracted.")
        return self._caches.steps(progress)

    def start(self, session: Session, progress: Progress) -> None:
        """Groups are fused and scored here, or on the cluster of the run."""
        self._maker = session.remote or LocalFusions(self.settings, session)

    def notes(self) -> list[str]:
        """Problems and lines of the generators' caches that were left out."""
        return [*self._caches.notes(), *(f"skipped {line}" for line in self._caches.broken)]

    def summary_rows(self, loop: LearningLoop[list[Fusion]]) -> list[Row]:
        """Where the fusions are, and how many needed no model."""
        merged = f"{self._merged} of {self._fused} fusions"
        return [
            Row("merged without a model", merged, is_detail=True),
            Row("fusions kept in", shown_path(self._store.path)),
        ]

    def keep(self, record: list[Fusion]) -> None:
        """Append the fusions of a problem to the cache."""
        for fusion in record:
            self._store.append(fusion)

    def stored(self, step: Step) -> None:
        """Not known: whether fusions are still those of the rollouts is seen by reading both."""

    async def produce(self, step: Step, state: LibraryState) -> ScoredGroup[list[Fusion]] | Fault:
        """The group of a step, or the fault that leaves it open."""
        groups = self._caches.groups(step.problem.id, step.epoch)
        stored = {name: self._stored(step, name, group) for name, group in groups.items()}
        halves = dict(zip(groups, map(half_of_rollout, range(len(groups))), strict=True))
        made = await asyncio.gather(
            *(
                self._fuse(step, group, name, state, halves[name])
                for name, group in groups.items()
                if stored[name] is None
            )
        )
        new: dict[str, Fusion] = {}
        for fusion in made:
            if isinstance(fusion, Fault):
                return fusion
            new[fusion.generator_id] = fusion.model_copy(update={"step": step.number})
        self._fused += len(new)
        self._merged += sum(fusion.merged == "structural" for fusion in new.values())
        fusions = [stored[name] or new[name] for name in groups]
        return scored_fusions(fusions, list(new.values()), self.settings.tau, list(groups.values()))

    async def _fuse(
        self, step: Step, group: RolloutGroup, generator: str, state: LibraryState, half: Half
    ) -> Fusion | Fault:
        chosen, halves = await self.drawn(step, state)
        experiences = in_half(half, chosen, halves)
        order = FusionOrder(
            step.problem, step.epoch, generator, group, tuple(experiences), state.version, half if halves else None
        )
        return await self._maker.make(order)

    def _stored(self, step: Step, generator: str, group: RolloutGroup) -> Fusion | None:
        """The stored fusion of a group.

        Raises:
            InputError: it was made from other rollouts, or with another prompt.
        """
        fusion = self._done.get((step.problem.id, step.epoch, generator))
        if fusion is None:
            return None
        if fusion.inputs_hash not in ("", inputs_hash(group)):
            raise InputError(
                f"{self._store.path} holds a fusion of other rollouts of {generator} than its cache now has",
                why=f"{step.problem.id} was answered again since.",
                fix="Pass --fresh to set the fusions aside.",
            )
        prompt_hash = role_template("critic", task_named(step.problem.task), self.settings.prompts).hash
        if fusion.policy is not None and fusion.policy.prompt_hash not in ("", prompt_hash):
            raise InputError(
                f"{self._store.path} holds a fusion of {step.problem.id} that was made with another prompt",
                why=f"prompt_hash: stored {fusion.policy.prompt_hash}, now {prompt_hash}.",
                fix="Pass --fresh to set the fusions aside.",
            )
        return fusion


def scored_fusions(
    fusions: Sequence[Fusion], new: list[Fusion], tau: float, inputs: Sequence[RolloutGroup] = ()
) -> ScoredGroup[list[Fusion]]:
    """The fusions of a problem as the loop takes them.

    Args:
        fusions: all of the problem.
        new: those that are not stored yet.
        tau: the standard deviation above which experiences are extracted.
        inputs: what each was fused from, if experiences are measured by them.
    """
    stats = group_stats([total_of(fusion.rewards) for fusion in fusions], tau)
    trial = group_trial(fusions, list(map(_gain, fusions, inputs))) if inputs else None
    return scored_group(new, fusions, stats, trial=trial, is_kept=not new)


def _gain(fusion: Fusion, inputs: RolloutGroup) -> float | None:
    """Whether a fusion is right, minus the share of its inputs that are; None if no model was asked for it.

    The subtraction takes out what the generator contributes.
    """
    if fusion.merged == "structural" or fusion.is_correct is None:
        return None
    right = [bool(rollout.is_correct) for rollout in inputs.rollouts]
    return float(fusion.is_correct) - sum(right) / len(right)
