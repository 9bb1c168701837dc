"""How the critic makes a group: the candidates of each generator are fused into one, and the fusions are scored."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from engine.api_manager import ApiManager
from engine.errors import InputError, MissingInputError
from engine.experience.lot import half_of_rollout, in_half
from engine.llm.client import LLMClient
from engine.records import Fault, Fusion, Half, Outcome, Problem, RolloutGroup, Sampling, SamplingPolicy, timestamp
from engine.reward_evaluator import Baseline, RewardEvaluator, Scored, fusion_baseline, measured_total, unverified
from engine.statistics.groups import group_stats
from engine.storage.rollout_store import BrokenLine, RolloutStore
from engine.storage.stored_records import StoredFusions
from engine.task_protocols import AsksByItself
from engine.tasks.registry import DEFAULT_TASK, load_task, task_named
from grpo_training.agents.critic import CriticAgent, FusedCandidate, FusionInput
from grpo_training.agents.templates import role_template
from grpo_training.cli.progress import Progress, Row
from grpo_training.cli.settings import shown_path
from grpo_training.learning.experience_choice import DrawnExperiences, ExperienceDraw
from grpo_training.learning.generator_caches import GeneratorCaches
from grpo_training.learning.learner import Learner
from grpo_training.learning.run import prepared, run_learner
from grpo_training.learning.scored_groups import Answer, ScoredGroup, Step, group_trial, scored_group, total_of
from grpo_training.learning.scoring import Scorer
from grpo_training.learning.settings import CriticSettings
from grpo_training.runs.folder import in_found_run, load_tasks_of
from grpo_training.runs.problems import task_facts
from grpo_training.runs.run import Run

ROLE = "critic"


def run_critic(settings: CriticSettings) -> int:
    """Run the critic; the exit code.

    Raises:
        MissingInputError: a generator's cache is missing.
        ScaffoldError: as :func:`prepared` and :func:`run_learner`.
    """
    try:
        settings = in_found_run(settings.for_its_model())
    except MissingInputError as error:
        raise MissingInputError(
            f"Rollouts file not found: {error.what[0].lower()}{error.what[1:]}",
            fix="Run python -m grpo_training.generator1, generator2 and generator3 first. If they have run, start the "
            "critic in the folder of the run.",
        ) from None
    load_tasks_of(settings.cache_dir, given=settings.task)
    return run_learner(prepared_critic(settings))


def prepared_critic(settings: CriticSettings) -> Learner:
    """The critic whose folders are known, before anything is asked."""
    return prepared(ROLE, settings, Critic)


class Critic(Learner):
    """Critic: its steps are the problems that all its generators have answered.

    Args:
        store: its fusions.
        run: its results and their manifest.
        settings: those that hold.

    Raises:
        MissingInputError: a generator's cache is missing.
        InputError: the fusions of a single generator have to be learned from.
    """

    role = ROLE
    settings: CriticSettings

    def __init__(self, store: RolloutStore, run: Run, settings: CriticSettings) -> None:
        self.store, self.run, self.settings = store, run, settings
        self.draw = ExperienceDraw(ROLE, settings)
        self._caches = GeneratorCaches(settings.cache_dir, settings.generators)
        self._check_task_file()
        # The caches may hold several tasks, so this is the prompt of the format's default task. A stored fusion of any
        # task is checked against the prompt on its own record, in _stored_fusion.
        self.prompt_hash = role_template("critic", load_task(settings.task or DEFAULT_TASK), settings.prompts).hash
        self._fused = self._merged = 0  # in this start, and those of them that were merged without a model
        if len(self._caches.names) == 1 and settings.learn == "trial":
            raise InputError(
                f"--generators {settings.generators} cannot learn: the standard deviation of one fusion's reward is 0",
                why="The critic learns from the fusions of a problem, one of each generator.",
                fix="Fuse two or more generators, or pass --learn none to make the fusions only.",
            )

    @property
    def total(self) -> int:
        """How many problems all its generators have answered."""
        return len(self._caches)

    def _check_task_file(self) -> None:
        """Refuse rollouts of a program, which no prompt can fuse, and those of another version of the task file.

        A fusion is compared with the rollouts.
        """
        for name, manifest in self._caches.manifests().items():
            scored, task = manifest.facts.get("task_file"), self.settings.task or manifest.settings.get("task")
            if task is not None and isinstance(load_task(task), AsksByItself):
                raise InputError(f"The rollouts of {name} are those of a program, which has no critic")
            now = task_facts(task).get("task_file")
            if scored and now and scored != now:
                raise InputError(
                    f"The rollouts of {name} were scored by another version of the task file",
                    why=f"task_file: stored {scored}, now {now}. The critic compares fusions with these rollouts.",
                    fix=f"Run {name.replace('_', '')} again with --fresh, which scores its stored replies again.",
                )

    def read_stored(self) -> list[BrokenLine]:
        """Read the fusions of earlier starts; those without a reward are made again."""
        self._done = StoredFusions(self.store.path)
        return self._done.broken

    def stored_groups(self) -> int:
        """How many problems have a fusion."""
        return len(self._done.by_problem())

    def inputs(self) -> tuple[str, list[Path]]:
        """The generators' caches."""
        return "", [self._caches.path(name) for name in self._caches.names]

    def notes_before(self) -> list[str]:
        """What is said before the first step."""
        if len(self._caches.names) == 1 and self.settings.learn == "add":
            return ["With one generator a problem has one fusion: σ is 0, and no experience is extracted."]
        return []

    def steps(self) -> Iterator[Step]:
        """The problems in the first generator's order, each with the fusions that are stored."""
        for step in self._caches.steps():
            stored = {name: self._stored_fusion(step, name, group) for name, group in step.inputs.items()}
            fusions = {name: fusion for name, fusion in stored.items() if fusion is not None}
            if len(fusions) == len(step.inputs):
                group = scored_fusions([*fusions.values()], (), self.settings.tau, [*step.inputs.values()])
                step = replace(step, stored=group)
            yield replace(step, fusions=fusions)

    def open(self, client: LLMClient, manager: ApiManager, scorer: Scorer, progress: Progress) -> None:
        """Keep what fusions are asked for and scored with."""
        settings = self.settings
        sampling = Sampling(temperature=settings.temperature, max_tokens=settings.max_tokens, seed=settings.seed)
        self._agent = CriticAgent(client, sampling, settings.prompts)
        self.scorer, self._model = scorer, manager.endpoint(ROLE).model

    def notes(self) -> list[str]:
        """Problems and lines of the generators' caches that were left out."""
        return [*self._caches.notes(), *(f"skipped {line}" for line in self._caches.broken)]

    def summary_rows(self, totals: Counter[str]) -> list[Row]:
        """Where the fusions are, and how many needed no model."""
        merged = f"{self._merged} of {self._fused} fusions"
        return [
            Row("merged without a model", merged, is_detail=True),
            Row("fusions kept in", shown_path(self.store.path)),
        ]

    async def ask(self, step: Step, drawn: DrawnExperiences) -> list[Answer[FusedCandidate]] | Fault:
        """The fusion of each generator's candidates that is not stored, with one of the two prompts each."""
        halves = dict(zip(step.inputs, map(half_of_rollout, range(len(step.inputs))), strict=True))
        missing = [name for name in step.inputs if name not in step.fusions]
        fused = await asyncio.gather(*(self._fuse(step, name, drawn, halves[name]) for name in missing))
        fault = next((outcome for outcome in fused if isinstance(outcome, Fault)), None)
        return fault or [outcome for outcome in fused if isinstance(outcome, Answer)]

    async def _fuse(
        self, step: Step, generator: str, drawn: DrawnExperiences, half: Half
    ) -> Answer[FusedCandidate] | Fault:
        """Fuse the candidates of one generator."""
        problem, task = step.problem, task_named(step.problem.task)
        read = await asyncio.to_thread(_read_inputs, self.scorer.evaluator, problem, step.inputs[generator])
        if isinstance(read, Fault):
            return read
        inputs, baseline = read
        experiences = in_half(half, drawn.experiences, drawn.halves)
        fused = await self._agent.fuse(task, problem, generator, inputs, experiences)
        if fused.candidate is None:
            return (fused.reply.fault if fused.reply else None) or Fault(kind="unknown")
        return Answer(fused.candidate, fused, experiences, half if drawn.halves else None, baseline)

    def group(
        self,
        step: Step,
        drawn: DrawnExperiences,
        answers: Sequence[Answer[FusedCandidate]],
        scores: Sequence[Scored],
    ) -> ScoredGroup:
        """The group of a step, of the stored fusions and the new ones."""
        missing = [name for name in step.inputs if name not in step.fusions]
        new = {
            name: self._fusion(step, name, drawn, answer, score)
            for name, answer, score in zip(missing, answers, scores, strict=True)
        }
        self._fused += len(new)
        self._merged += sum(fusion.merged == "structural" for fusion in new.values())
        fusions = [step.fusions.get(name) or new[name] for name in step.inputs]
        return scored_fusions(fusions, list(new.values()), self.settings.tau, list(step.inputs.values()))

    def _fusion(
        self, step: Step, generator: str, drawn: DrawnExperiences, answer: Answer[FusedCandidate], score: Scored
    ) -> Fusion:
        problem, task = step.problem, task_named(step.problem.task)
        fused, candidate = answer.reply, score.candidate
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
            step=step.number,
            outcome=score.outcome,
            fault=score.fault,
            completion=fused.reply.completion if fused.reply else None,
            answer_source=score.answer_source,
            stated_answer=candidate.stated_answer,
            merged=fused.merged,
            inputs_hash=inputs_hash(step.inputs[generator]),
            repairs=[*candidate.repairs, *(["re_asked"] if fused.re_asked else [])],
            reward_detail=score.detail,
            experience_ids=[experience.id for experience in answer.experiences],
            prompt_half=answer.half,
            policy=SamplingPolicy(
                model=self._model,
                library_version=drawn.library_version,
                prompt_hash=role_template("critic", task, self.settings.prompts).hash,
                sampling=self._agent.sampling,
            ),
            prompt=fused.messages,
        )

    def _stored_fusion(self, step: Step, generator: str, group: RolloutGroup) -> Fusion | None:
        """The stored fusion of a group.

        Raises:
            InputError: it was made from other rollouts, or with another prompt.
        """
        fusion = self._done.get((step.problem.id, step.epoch, generator))
        if fusion is None:
            return None
        if fusion.inputs_hash not in ("", inputs_hash(group)):
            raise InputError(
                f"{self.store.path} holds a fusion of other rollouts of {generator} than its cache now has",
                why=f"{step.problem.id} was answered again since.",
                fix="Pass --fresh to set the fusions aside.",
            )
        prompt_hash = role_template("critic", task_named(step.problem.task), self.settings.prompts).hash
        if fusion.policy is not None and fusion.policy.prompt_hash not in ("", prompt_hash):
            raise InputError(
                f"{self.store.path} holds a fusion of {step.problem.id} that was made with another prompt",
                why=f"prompt_hash: stored {fusion.policy.prompt_hash}, now {prompt_hash}.",
                fix="Pass --fresh to set the fusions aside.",
            )
        return fusion


def scored_fusions(
    fusions: Sequence[Fusion], new: Sequence[Fusion], tau: float, inputs: Sequence[RolloutGroup] = ()
) -> ScoredGroup:
    """The fusions of a problem as the loop takes them.

    Args:
        fusions: all of the problem.
        new: those that are not stored yet.
        tau: the standard deviation above which experiences are extracted.
        inputs: what each was fused from, if experiences are measured by them.
    """
    stats = group_stats([total_of(fusion.rewards) for fusion in fusions], tau)
    trial = group_trial(fusions, list(map(_gain, fusions, inputs))) if inputs else None
    return scored_group(fusions, stats, new, trial)


def _gain(fusion: Fusion, inputs: RolloutGroup) -> float | None:
    """Whether a fusion is right, minus the share of its inputs that are; None if no model was asked for it.

    The subtraction takes out what the generator contributes.
    """
    if fusion.merged == "structural" or fusion.is_correct is None:
        return None
    right = [bool(rollout.is_correct) for rollout in inputs.rollouts]
    return float(fusion.is_correct) - sum(right) / len(right)


def inputs_hash(group: RolloutGroup) -> str:
    """Hash of what is fused of a group."""
    parts = [(rollout.scaffold, rollout.answer, rollout.stated_answer) for rollout in group.rollouts]
    text = json.dumps([group.problem_text, group.ground_truth, parts], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def _read_inputs(
    evaluator: RewardEvaluator, problem: Problem, group: RolloutGroup
) -> tuple[list[FusionInput], Baseline | None] | Fault:
    """One generator's candidates as inputs of a fusion, and the baseline that the fusion is compared with.

    Their rewards are those of their records. A rollout of a file without rewards is scored here.
    """
    task = task_named(problem.task)
    inputs: list[FusionInput] = []
    totals: list[float] = []
    for rollout in group.rollouts:
        candidate = task.candidate_from_record(rollout.scaffold, rollout.given_answer, problem)
        answer, source = rollout.answer, rollout.answer_source
        total = measured_total(task, rollout.rewards, rollout.reward_detail)
        if total is None:
            scored = evaluator.score(task, problem, candidate)
            if scored.outcome is Outcome.INFRA_FAULT:
                return unverified(scored)
            answer, source = scored.answer, scored.answer_source
            total = measured_total(task, scored.rewards, scored.detail)
        inputs.append(FusionInput(candidate, answer, source or ("none" if answer is None else "stated")))
        totals.append(total or 0.0)
    return inputs, fusion_baseline([fusion_input.answer for fusion_input in inputs], totals, task.same_answer)
