"""A generator's run: each problem is answered several times; the group is scored, stored and learned from."""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from agents.generator import prompt_hash
from engine.api_manager import GENERATORS
from engine.errors import InputError
from engine.experience.library import ExperienceLibrary
from engine.experience.state import LibraryState
from engine.records import Fault, Outcome, Problem, Rollout, RolloutGroup
from engine.statistics.groups import group_stats
from engine.storage.append_log import replace_file
from engine.storage.rollout_store import BrokenLine, RolloutStore
from engine.storage.stored_records import StoredGroups
from engine.storage.summaries import GroupSummary, problem_hash
from engine.tasks.registry import task_named
from grpo_training.cli.progress import Progress, Row
from grpo_training.cli.settings import shown_path
from grpo_training.gate.problems import shuffled, split
from grpo_training.gate.run import gate
from grpo_training.gate.settings import GateSettings
from grpo_training.gate.verdicts import verdict_lines
from grpo_training.learning.experience_choice import experience_choice, problem_kinds
from grpo_training.learning.extractor import ScoredFigures, ScoredGroup, Step
from grpo_training.learning.groups.records import (
    check_same_problem,
    group_trial,
    rollout_scores,
    scored_group,
    total_of,
)
from grpo_training.learning.groups.work import GroupOrder, LocalGroups
from grpo_training.learning.learner import Learner, run_learner
from grpo_training.learning.loop import LearningLoop
from grpo_training.learning.session import Cluster, Session
from grpo_training.learning.settings import GeneratorSettings
from grpo_training.runs.named import in_own_run, run_folder
from grpo_training.runs.problems import read_problems, remarks_on
from grpo_training.runs.reply_watch import ReplyWatch, tokens_of


def run_generator(number: int, settings: GeneratorSettings, *, names_next: bool = True) -> int:
    """Run generator 1, 2 or 3; the exit code.

    Args:
        number: of the generator.
        settings: as given.
        names_next: print at the end which commands come next.

    Raises:
        ScaffoldError: as :func:`run_learner`.
    """
    role = GENERATORS[number - 1]
    settings = in_own_run(settings.for_its_model(), settings.dataset, role)
    return run_learner(role, settings, partial(GeneratorLearner, role), names_next=names_next)


class GeneratorLearner(Learner[RolloutGroup]):
    """Generator: its steps are the problems of a dataset, once per epoch.

    Raises:
        InputError: the dataset cannot be read or scored, or a single rollout has to be learned from.
    """

    settings: GeneratorSettings
    _maker: LocalGroups | Cluster
    _progress: Progress
    _watch: ReplyWatch

    def __init__(self, role: str, store: RolloutStore, settings: GeneratorSettings) -> None:
        self.role, self._store, self.settings = role, store, settings
        if settings.rollouts == 1 and settings.learn == "trial":
            raise InputError(
                "--rollouts 1 cannot learn: the standard deviation of one reward is 0",
                fix="Pass --rollouts 2 or more, or --learn none to collect answers only.",
            )
        loaded = read_problems(settings)
        problems, self._note = loaded.problems, loaded.note
        self._tested: list[Problem] = []
        if settings.gate or settings.hold_out:
            problems, self._tested = split(problems, settings.dataset)
        self._steps = _steps(problems, settings)
        self._remarks = remarks_on(problems)
        self.kinds = problem_kinds(settings, problems)
        self.choice = experience_choice(settings, self.kinds)
        tasks = {step.problem.task: task_named(step.problem.task) for step in self._steps}
        self.tasks = list(tasks.values())
        self.prompt_hash = "+".join(sorted({prompt_hash(task, settings.prompts) for task in self.tasks}))
        self.total, self.epochs = len(self._steps), settings.epochs
        self._done: StoredGroups | None = None
        self._has_warned = False

    def read_stored(self) -> list[BrokenLine]:
        """Read the groups of earlier starts; incomplete ones are asked for again."""
        stored = StoredGroups(self._store.path)
        self._done = stored
        return stored.broken

    def stored_groups(self) -> int:
        """How many of the problems have a complete group."""
        done = self._done
        return 0 if done is None else sum((step.problem.id, step.epoch) in done for step in self._steps)

    def inputs(self) -> tuple[str, list[Path]] | None:
        """The problems in order, and those of the gate."""
        asked = [(step.epoch, step.problem) for step in self._steps]
        asked += [(0, problem) for problem in self._tested]
        digest = hashlib.sha256()
        for epoch, problem in asked:
            digest.update(repr((epoch, problem.id, problem.text, problem.answer)).encode())
        return digest.hexdigest(), []

    def steps(self, progress: Progress) -> Iterable[Step]:
        """The problems in order."""
        if self.settings.run:
            progress.note(f"Run: {self.settings.run}, in {shown_path(run_folder(self.settings.run).folder)}")
        if self._note:
            for line in self._note.splitlines():
                progress.note(line)
        if self.settings.rollouts == 1 and self.settings.learn == "add":
            progress.note("With one rollout σ is 0: no experience is extracted.")
        for remark in self._remarks:
            progress.note(remark)
        return self._steps

    def start(self, session: Session, progress: Progress) -> None:
        """Groups are asked for and scored here, or on the cluster of the run."""
        if self._note:
            replace_file(Path(self.settings.cache_dir) / "dataset.txt", f"{self._note}\n".encode())
        self._maker = session.remote or LocalGroups(self.role, self.settings, session)
        self._watch = ReplyWatch(self.settings.prompts, self.settings.max_tokens, progress.note)
        self._progress = progress

    async def after(self, session: Session, library: ExperienceLibrary) -> Sequence[str]:
        """The gate, if it is asked for; its verdict."""
        if not self.settings.gate:
            return ()
        if not library.state.tested:
            nothing = "gate: the library has no experience to test"
            print(nothing)
            return [nothing]
        settings = GateSettings.model_validate(
            {name: getattr(self.settings, name) for name in GateSettings.model_fields if hasattr(self.settings, name)}
            | {"role": self.role}
        )
        problems = shuffled(self._tested, settings.seed)
        return verdict_lines(await gate(settings, session.client, session.manager, library, problems, sys.stdout))

    def summary_rows(self, loop: LearningLoop[RolloutGroup]) -> list[Row]:
        """Where the rollouts are, and how many have log-probs."""
        rows = [Row("rollouts kept in", shown_path(self._store.path))]
        if self.settings.logprobs:
            rows.insert(0, Row("log-probs stored for", f"{loop.with_logprobs} of {loop.members} rollouts"))
        return rows

    def stored(self, step: Step) -> ScoredFigures | None:
        """The figures of the stored group, if it is of the problem and has rewards."""
        summary = None if self._done is None else self._done.summary((step.problem.id, step.epoch))
        if summary is None or summary.problem != problem_hash(step.problem.text, step.problem.answer):
            return None
        return stored_figures(summary, self.settings.tau)

    def keep(self, record: RolloutGroup) -> None:
        """Append the group to the cache."""
        self._store.append(record)

    async def produce(self, step: Step, state: LibraryState) -> ScoredGroup[RolloutGroup] | Fault:
        """The group of a step, or the fault that leaves it open."""
        kept = None if self._done is None else self._done.get((step.problem.id, step.epoch))
        if kept is not None:
            check_same_problem(step.problem, kept.problem_text, kept.ground_truth, str(self._store.path))
            return scored_rollouts(kept, self.settings.tau, is_kept=True)
        experiences, halves = await self.drawn(step, state)
        order = GroupOrder(step.problem, step.epoch, tuple(experiences), state.version, halves)
        group = await self._maker.make(order)
        if isinstance(group, Fault):
            return group
        if self.settings.logprobs:
            self._warn_of_missing_logprobs(group.rollouts)
        for rollout in group.rollouts:
            if rollout.completion is not None:
                self._watch.add(
                    is_cut_off=rollout.completion.finish_reason == "length",
                    is_unreadable=rollout.outcome is Outcome.MODEL_FAULT,
                    tokens=tokens_of(rollout.completion),
                )
        placed = group.model_copy(update={"step": step.number})
        return scored_rollouts(placed, self.settings.tau, is_kept=False)

    def _warn_of_missing_logprobs(self, rollouts: Sequence[Rollout]) -> None:
        """Warn once per run if a reply came without what ``--logprobs`` asks for."""
        for completion in (rollout.completion for rollout in rollouts):
            if self._has_warned or completion is None:
                continue
            parts = {"token ids": completion.token_ids, "log-probs": completion.logprobs}
            missing = [name for name, values in parts.items() if not values]
            if missing:
                self._has_warned = True
                self._progress.note(
                    f"⚠ --logprobs: the endpoint returned no {' and no '.join(missing)}. Such rollouts are kept "
                    "without log-probs, so the fine-tune does not know how probable they were. vLLM returns both."
                )


def _steps(problems: Sequence[Problem], settings: GeneratorSettings) -> list[Step]:
    """Epoch 0 in the dataset's order, later epochs shuffled by the seed."""
    ordered = [(0, problem) for problem in problems]
    for epoch in range(1, settings.epochs):
        shuffled = list(problems)
        random.Random(f"{settings.seed}:{epoch}").shuffle(shuffled)  # noqa: S311 - not for cryptography
        ordered += [(epoch, problem) for problem in shuffled]
    return [Step(number, problem, epoch) for number, (epoch, problem) in enumerate(ordered)]


def stored_figures(group: GroupSummary, tau: float) -> ScoredFigures | None:
    """The figures of a stored group; None if it has no rewards."""
    if group.mean is None or group.sigma is None:
        return None
    return ScoredFigures(
        mean=group.mean,
        std=group.sigma,
        triggered=group.with_tau(tau).triggered,
        size=group.rollouts,
        correct=group.right,
        rewards={name: spread.as_values() for name, spread in group.components.items()},
        has_experiences=bool(group.experiences),
        re_asked=group.re_asked,
        repaired=group.repaired,
        with_logprobs=group.with_logprobs,
        executed=[True] * group.executed_right + [False] * (group.executed - group.executed_right),
    )


def scored_rollouts(group: RolloutGroup, tau: float, *, is_kept: bool) -> ScoredGroup[RolloutGroup]:
    """A complete group as the loop takes it."""
    rollouts = group.rollouts
    stats = group.stats or group_stats([total_of(item) for item in rollouts], tau)
    trial = group_trial(rollouts, rollout_scores(rollouts))
    return scored_group(group, rollouts, stats, trial=trial, is_kept=is_kept)
