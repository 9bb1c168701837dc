"""The critic's run: the candidates of each generator are fused; the fusions are scored, stored and learned from."""

from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agents.critic import CriticAgent, critic_template
from engine.errors import InputError
from engine.records import Fault, Fusion, Outcome, Policy, RolloutGroup, Sampling, timestamp
from engine.reward_evaluator import fusion_baseline, task_total
from engine.statistics.groups import group_stats
from engine.storage.rollout_store import RolloutStore
from engine.storage.stored_records import StoredFusions
from engine.tasks.registry import DEFAULT_TASK, load_task, task_named
from grpo_training.cli.entry import run_async
from grpo_training.learning.endpoints import open_endpoints
from grpo_training.learning.experience_choice import experience_choice
from grpo_training.learning.extractor import ScoredGroup
from grpo_training.learning.groups.caches import GeneratorCaches
from grpo_training.learning.groups.records import attempt_from_fusion, total_of
from grpo_training.learning.learner import Learner, run_learner

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from agents.critic import FusedCandidate
    from engine.experience.state import LibraryState
    from engine.records import Experience, Problem
    from engine.reward_evaluator import Baseline, Scored
    from engine.storage.rollout_store import BrokenLine
    from grpo_training.cli.progress import Progress
    from grpo_training.learning.experience_choice import ExperienceChoice
    from grpo_training.learning.extractor import Step
    from grpo_training.learning.loop import LearningLoop
    from grpo_training.learning.session import Session
    from grpo_training.learning.settings import CriticSettings

ROLE = "critic"


def run_critic(settings: CriticSettings) -> int:
    """Run the critic; the exit code.

    Raises:
        MissingInputError: a generator's cache is missing.
        ScaffoldError: as :func:`run_learner`.
    """
    store = RolloutStore(settings.cache_dir / "critic_results.jsonl")
    with open_endpoints(settings) as manager:
        return run_async(run_learner(ROLE, store, settings, manager, lambda resumed: CriticLearner(store, resumed)))


class CriticLearner(Learner[list[Fusion]]):
    """Critic: its steps are the problems that all its generators have answered.

    Raises:
        MissingInputError: a generator's cache is missing.
    """

    kind = "critic"

    def __init__(self, store: RolloutStore, settings: CriticSettings) -> None:
        self._store, self._settings = store, settings
        self.choice = experience_choice(settings, ROLE)
        self._caches = GeneratorCaches(settings.cache_dir, settings.generators, must_exist=not settings.follow)
        # With --follow the tasks of the caches are not known yet, so this is the prompt of the format's default
        # task. A stored fusion of any task is checked against the prompt on its own record, in _stored.
        self.prompt_hash = critic_template(load_task(settings.task or DEFAULT_TASK), settings.prompts).hash
        self._done: Mapping[tuple[str, int, str], Fusion] = {}
        self._counts = FusionCounts()

    def read_stored(self) -> list[BrokenLine]:
        """Read the fusions of earlier starts; those without a reward are made again."""
        stored = StoredFusions(self._store.path)
        self._done = stored
        return stored.broken

    def steps(self, progress: Progress) -> AsyncIterator[Step]:
        """The problems in the first generator's order; with ``--follow`` as they are answered."""
        return self._caches.steps(progress, follow=self._settings.follow)

    def producer(self, session: Session, progress: Progress) -> FusionProducer:
        """Fuses and scores."""
        return FusionProducer(self._store, self._settings, session, self._caches, self._done, self._counts, self.choice)

    def notes(self) -> list[str]:
        """Problems and lines of the generators' caches that were left out."""
        return [*self._caches.notes(), *(f"skipped {line}" for line in self._caches.broken)]

    def summary_rows(self, loop: LearningLoop[list[Fusion]]) -> list[tuple[str, str]]:
        """Where the fusions are, and how many needed no model."""
        return [
            ("merged without a model", f"{self._counts.structural} of {self._counts.made} fusions"),
            ("fusions kept in", str(self._store.path)),
        ]


@dataclass
class FusionCounts:
    """Fusions made in this start, and how many of them were merged without a model."""

    made: int = 0
    structural: int = 0


class FusionProducer:
    """Makes the group of a problem: one fusion per generator, the stored one if there is one."""

    def __init__(
        self,
        store: RolloutStore,
        settings: CriticSettings,
        session: Session,
        caches: GeneratorCaches,
        done: Mapping[tuple[str, int, str], Fusion],
        counts: FusionCounts,
        choice: ExperienceChoice,
    ) -> None:
        self._store, self._settings, self._session, self._choice = store, settings, session, choice
        self._caches, self._done, self._counts = caches, done, counts
        sampling = Sampling(temperature=settings.temperature, max_tokens=settings.max_tokens, seed=settings.seed)
        self._agent = CriticAgent(session.client, sampling, settings.prompts)

    def keep(self, record: list[Fusion]) -> None:
        """Append the fusions of a problem to the cache."""
        for fusion in record:
            self._store.append(fusion)

    async def produce(self, step: Step, state: LibraryState) -> ScoredGroup[list[Fusion]] | Fault:
        """The group of a step, or the fault that leaves it open."""
        groups = self._caches.groups(step.problem.id, step.epoch)
        stored = {name: self._stored(step, name, group) for name, group in groups.items()}
        made = await asyncio.gather(
            *(self._fuse(step, name, group, state) for name, group in groups.items() if stored[name] is None)
        )
        new: dict[str, Fusion] = {}
        for fusion in made:
            if isinstance(fusion, Fault):
                return fusion
            new[fusion.generator_id] = fusion
        self._counts.made += len(new)
        self._counts.structural += sum(fusion.merged == "structural" for fusion in new.values())
        fusions = [stored[name] or new[name] for name in groups]
        return scored_fusions(fusions, list(new.values()), self._settings.tau)

    def _stored(self, step: Step, generator: str, group: RolloutGroup) -> Fusion | None:
        """The stored fusion of a group.

        Raises:
            InputError: it was made from other rollouts, or with another prompt.
        """
        fusion = self._done.get((step.problem.id, step.epoch, generator))
        if fusion is None:
            return None
        if fusion.inputs_hash not in ("", _inputs_hash(group)):
            raise InputError(
                f"{self._store.path} holds a fusion of other rollouts of {generator} than its cache now has",
                why=f"{step.problem.id} was answered again since.",
                fix="Pass --fresh to set the fusions aside.",
            )
        prompt_hash = critic_template(task_named(step.problem.task), self._settings.prompts).hash
        if fusion.policy is not None and fusion.policy.prompt_hash not in ("", prompt_hash):
            raise InputError(
                f"{self._store.path} holds a fusion of {step.problem.id} that was made with another prompt",
                why=f"prompt_hash: stored {fusion.policy.prompt_hash}, now {prompt_hash}.",
                fix="Pass --fresh to set the fusions aside.",
            )
        return fusion

    async def _fuse(self, step: Step, generator: str, group: RolloutGroup, state: LibraryState) -> Fusion | Fault:
        problem = step.problem
        task = task_named(problem.task)
        inputs = await asyncio.to_thread(_read_inputs, self._session, problem, group)
        if isinstance(inputs, Fault):
            return inputs
        experiences = await asyncio.to_thread(self._choice.choose, problem, step.epoch, state.for_prompts)
        fused = await self._agent.fuse(task, problem, generator, inputs.scored, experiences)
        if fused.candidate is None:
            return (fused.reply.fault if fused.reply else None) or Fault(kind="unknown")
        score = await self._session.score(task, problem, fused.candidate, inputs.baseline)
        if isinstance(score, Fault):
            return score
        return self._fusion(step, group, generator, fused, score, state, experiences)

    def _fusion(
        self,
        step: Step,
        group: RolloutGroup,
        generator: str,
        fused: FusedCandidate,
        score: Scored,
        state: LibraryState,
        experiences: Sequence[Experience],
    ) -> Fusion:
        problem, candidate = step.problem, score.candidate
        task = task_named(problem.task)
        return Fusion(
            problem_id=problem.id,
            problem_text=problem.text,
            ground_truth=problem.answer,
            generator_id=generator,
            fused_scaffold=task.to_record(candidate),
            final_answer=score.answer,
            is_correct=score.is_correct,
            rewards=score.rewards,
            timestamp=timestamp(),
            task=problem.task,
            epoch=step.epoch,
            outcome=score.outcome,
            fault=score.fault,
            completion=fused.reply.completion if fused.reply else None,
            answer_source=score.answer_source,
            stated_answer=candidate.stated_answer,
            merged=fused.merged,
            inputs_hash=_inputs_hash(group),
            repairs=[*candidate.repairs, *(["re_asked"] if fused.re_asked else [])],
            reward_detail=score.detail,
            experience_ids=[experience.id for experience in experiences],
            policy=Policy(
                model=self._session.manager.endpoint(self._agent.role).model,
                library_version=state.version,
                prompt_hash=critic_template(task, self._settings.prompts).hash,
                sampling=self._agent.sampling,
            ),
        )


def scored_fusions(fusions: Sequence[Fusion], new: list[Fusion], tau: float) -> ScoredGroup[list[Fusion]]:
    """The fusions of a problem as the loop takes them; ``new`` are those that are not stored yet."""
    return ScoredGroup(
        record=new,
        attempts=[attempt_from_fusion(fusion) for fusion in fusions],
        rewards=[fusion.rewards for fusion in fusions],
        stats=group_stats([total_of(fusion.rewards) for fusion in fusions], tau),
        experience_ids=fusions[0].experience_ids,
        is_kept=not new,
        re_asked=sum("re_asked" in fusion.repairs for fusion in fusions),
        repaired=sum(bool(fusion.repairs) for fusion in fusions),
    )


def _inputs_hash(group: RolloutGroup) -> str:
    """Hash of what is fused of a group."""
    parts = [(rollout.scaffold, rollout.answer, rollout.stated_answer) for rollout in group.rollouts]
    text = json.dumps([group.problem_text, group.ground_truth, parts], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


@dataclass(frozen=True)
class _Inputs:
    scored: list[Scored]
    baseline: Baseline | None


def _read_inputs(session: Session, problem: Problem, group: RolloutGroup) -> _Inputs | Fault:
    """One generator's candidates as inputs of a fusion, and the baseline that the fusion is compared with.

    They are scored again, so that inputs from any program and their fusion are measured in the same way.
    """
    task = task_named(problem.task)
    inputs, totals = [], []
    for rollout in group.rollouts:
        stated = rollout.stated_answer if rollout.stated_answer is not None else rollout.answer
        candidate = task.candidate_from_record(rollout.scaffold, stated, problem)
        scored = session.evaluator.score(task, problem, candidate)
        if scored.outcome is Outcome.INFRA_FAULT:
            return Fault(kind="verifier_unavailable", message=str(scored.detail.get("why", "")))
        inputs.append(scored)
        totals.append(task_total(task, scored.rewards.by_name()) or 0.0)
    return _Inputs(inputs, fusion_baseline([scored.answer for scored in inputs], totals, task.same_answer))
