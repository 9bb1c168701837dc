"""How a generator makes a group: a problem is answered several times, in two prompts, and the answers are scored."""

from __future__ import annotations

import asyncio
import hashlib
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from engine.api_manager import GENERATORS, ApiManager
from engine.errors import InputError
from engine.experience.library import ExperienceLibrary
from engine.experience.lot import HALVES, half_of_rollout, in_half
from engine.llm.client import LLMClient
from engine.records import (
    Candidate,
    Experience,
    Fault,
    Half,
    Outcome,
    Problem,
    Rollout,
    RolloutGroup,
    Sampling,
    SamplingPolicy,
    timestamp,
)
from engine.reward_evaluator import Scored
from engine.statistics.groups import group_stats
from engine.storage.append_log import replace_file
from engine.storage.rollout_store import BrokenLine, RolloutStore
from engine.storage.stored_records import StoredGroups
from engine.storage.summaries import problem_hash
from engine.tasks.registry import task_named
from grpo_training.agents.chat import ReadReply
from grpo_training.agents.generator import GeneratorAgent, generator_messages, prompt_hash
from grpo_training.cli.progress import Progress, Row
from grpo_training.cli.settings import shown_path
from grpo_training.learning.experience_choice import DrawnExperiences, ExperienceDraw, problem_kinds
from grpo_training.learning.learner import Learner
from grpo_training.learning.run import prepared, run_learner
from grpo_training.learning.scored_groups import (
    Answer,
    ScoredGroup,
    Step,
    rollout_from,
    scored_rollouts,
    stored_figures,
    total_of,
)
from grpo_training.learning.scoring import Scorer
from grpo_training.learning.settings import MAX_EPOCHS, GeneratorSettings
from grpo_training.runs.folder import in_own_run, run_folder
from grpo_training.runs.problems import read_problems, remarks_on
from grpo_training.runs.reply_watch import ReplyWatch, tokens_of
from grpo_training.runs.run import Run


def run_generator(number: int, settings: GeneratorSettings) -> int:
    """Run generator 1, 2 or 3; the exit code.

    Raises:
        ScaffoldError: as :func:`prepared` and :func:`run_learner`.
    """
    role = GENERATORS[number - 1]
    return run_learner(prepared_generator(role, in_own_run(settings.for_its_model(), settings.dataset)))


def prepared_generator(role: str, settings: GeneratorSettings) -> Learner:
    """A generator whose folders are known, before anything is asked."""
    return prepared(role, settings, partial(Generator, role))


class Generator(Learner):
    """Generator: its steps are the problems of a dataset, once per epoch.

    Args:
        role: of the generator.
        store: its records.
        run: its results and their manifest.
        settings: those that hold.

    Raises:
        InputError: the dataset cannot be read or scored, or a single rollout has to be learned from.
    """

    settings: GeneratorSettings

    def __init__(self, role: str, store: RolloutStore, run: Run, settings: GeneratorSettings) -> None:
        self.role, self.store, self.run, self.settings = role, store, run, settings
        if settings.rollouts == 1 and settings.learn == "trial":
            raise InputError(
                "--rollouts 1 cannot learn: the standard deviation of one reward is 0",
                fix="Pass --rollouts 2 or more, or --learn none to collect answers only.",
            )
        loaded = read_problems(settings)
        problems, self._note = loaded.problems, loaded.note
        self._tested: list[Problem] = []
        if settings.gate or settings.hold_out:
            from grpo_training.gate.problems import split  # most runs have no gate

            problems, self._tested = split(problems, settings.dataset)
        if settings.draw is not None:
            from grpo_training.gate.problems import drawn

            problems = drawn(problems, settings.draw)
        self._steps = _steps(problems, settings)
        self._remarks = remarks_on(problems)
        self.kinds = problem_kinds(settings, problems)
        self.draw = ExperienceDraw(role, settings, self.kinds)
        tasks = {step.problem.task: task_named(step.problem.task) for step in self._steps}
        self.tasks = list(tasks.values())
        self.prompt_hash = "+".join(sorted({prompt_hash(task, settings.prompts) for task in self.tasks}))
        self._has_warned = False

    @property
    def total(self) -> int:
        """The number of problems in all epochs."""
        return len(self._steps)

    def read_stored(self) -> list[BrokenLine]:
        """Read the groups of earlier starts; incomplete ones are asked for again."""
        self._done = StoredGroups(self.store.path)
        return self._done.broken

    def stored_groups(self) -> int:
        """How many of the problems have a complete group."""
        return sum((step.problem.id, step.epoch) in self._done for step in self._steps)

    def inputs(self) -> tuple[str, list[Path]]:
        """The problems in order, and those of the gate."""
        digest = hashlib.sha256()
        for step in (*self._steps, *map(partial(Step, 0), self._tested)):
            problem = step.problem
            digest.update(repr((step.epoch, problem.id, problem.text, problem.answer)).encode())
        return digest.hexdigest(), []

    def open(self, client: LLMClient, manager: ApiManager, scorer: Scorer, progress: Progress) -> None:
        """Keep what the prompts are asked and the answers are scored with."""
        settings = self.settings
        if self._note:
            replace_file(Path(settings.cache_dir) / "dataset.txt", f"{self._note}\n".encode())
        sampling = Sampling(
            temperature=settings.temperature,
            top_p=settings.top_p,
            max_tokens=settings.max_tokens,
            seed=settings.seed,
            logprobs=settings.logprobs,
        )
        self._agent = GeneratorAgent(client, self.role, sampling, settings.prompts, tasks=self.tasks)
        endpoint = manager.endpoint(self.role)
        self.scorer, self._model = scorer, endpoint.model
        planned = len(self._steps) * settings.rollouts
        self._watch = ReplyWatch(
            settings.prompts, settings.max_tokens, progress.note, planned, partial(endpoint.cost_usd, 0)
        )
        self._progress = progress

    def notes_before(self) -> list[str]:
        """The run, and what there is to say about the problems."""
        run = self.settings.run
        notes = [f"Run: {run}, in {shown_path(run_folder(run).folder)}"] if run else []
        if not self.is_announced:
            notes += [*self._note.splitlines(), *self._remarks]
        if self.settings.rollouts == 1 and self.settings.learn == "add":
            notes.append("With one rollout σ is 0: no experience is extracted.")
        return notes

    def steps(self) -> Iterator[Step]:
        """The problems in order, each with its group if that is stored."""
        for step in self._steps:
            summary = self._done.summary((step.problem.id, step.epoch))
            if summary is not None:
                if summary.problem != problem_hash(step.problem.text, step.problem.answer):
                    self._read(step)  # raises what the difference is
                figures = stored_figures(summary, self.settings.tau) or self._read(step)
                step = replace(step, stored=figures, read=partial(self._read, step))
            yield step

    def _read(self, step: Step) -> ScoredGroup | None:
        """The stored group of a step; None if it cannot be read."""
        group = self._done.get((step.problem.id, step.epoch))
        if group is None:
            return None
        if (step.problem.text, step.problem.answer) != (group.problem_text, group.ground_truth):
            raise InputError(
                f"{self.store.path} contains another problem with the id {step.problem.id}",
                why="The dataset has changed, or the cache belongs to another one.",
                fix="Pass --fresh to set those results aside, or another --run or folder to keep both.",
            )
        return scored_rollouts(group, self.settings.tau, new_records=())

    async def ask(self, step: Step, drawn: DrawnExperiences) -> list[Answer[ReadReply[Candidate]]] | Fault:
        """The answer of each rollout: each of the two prompts is asked for its share of them."""
        task, count = task_named(step.problem.task), self.settings.rollouts
        halves: list[Half | None] = [None] * count
        prompts: dict[Half | None, Sequence[Experience]] = {None: drawn.experiences}
        if drawn.halves and count > 1:
            halves = [half_of_rollout(number) for number in range(count)]
            prompts = {half: in_half(half, drawn.experiences, drawn.halves) for half in HALVES}
        # Every epoch and generator has its own sample indices, so equal prompts to one model give new samples.
        first = (GENERATORS.index(self.role) * MAX_EPOCHS + step.epoch) * count
        asked = []
        for half, experiences in prompts.items():
            # The samples of a prompt have consecutive indices, so that they are drawn with one request.
            indices = range(first, first + halves.count(half))
            first = indices.stop
            asked.append(self._agent.answer(task, step.problem, experiences, indices))
        replies = dict(zip(prompts, map(iter, await asyncio.gather(*asked)), strict=True))
        answers = []
        for half in halves:
            reply = next(replies[half])
            if reply.read is None:
                return reply.reply.fault or Fault(kind="unknown")
            answers.append(Answer(reply.read, reply, prompts[half], half))
        return answers

    def group(
        self,
        step: Step,
        drawn: DrawnExperiences,
        answers: Sequence[Answer[ReadReply[Candidate]]],
        scores: Sequence[Scored],
    ) -> ScoredGroup:
        """The group of a step, of its answers and their scores."""
        problem, task = step.problem, task_named(step.problem.task)
        rollouts = []
        for number, (answer, score) in enumerate(zip(answers, scores, strict=True), 1):
            experience_ids = [experience.id for experience in answer.experiences]
            rollouts.append(rollout_from(task, number, answer.reply, score, experience_ids, answer.half))
        self._warn(rollouts)
        group = RolloutGroup(
            problem_id=problem.id,
            problem_text=problem.text,
            ground_truth=problem.answer,
            rollouts=rollouts,
            timestamp=timestamp(),
            generator_id=self.role,
            task=problem.task,
            epoch=step.epoch,
            step=step.number,
            policy=SamplingPolicy(
                model=self._model,
                library_version=drawn.library_version,
                prompt_hash=prompt_hash(task, self.settings.prompts),
                sampling=self._agent.sampling,
            ),
            prompts={
                answer.half or "": generator_messages(task, problem, answer.experiences, self.settings.prompts)
                for answer in answers[:2]  # the first of each prompt
            },
            stats=group_stats([total_of(rollout) for rollout in rollouts], self.settings.tau),
        )
        return scored_rollouts(group, self.settings.tau, new_records=[group])

    def summary_rows(self, totals: Counter[str]) -> list[Row]:
        """Where the rollouts are, and how many have log-probs."""
        rows = [Row("rollouts kept in", shown_path(self.store.path))]
        if self.settings.logprobs:
            rows.insert(0, Row("log-probs stored for", f"{totals['with log-probs']} of {totals['answers']} rollouts"))
        return rows

    async def after(self, client: LLMClient, manager: ApiManager, library: ExperienceLibrary) -> Sequence[str]:
        """The gate, if it is asked for; its verdict."""
        if not self.settings.gate:
            return ()
        if not library.state.tested:
            nothing = "gate: the library has no experience to test"
            print(nothing)
            return [nothing]
        from grpo_training.gate.problems import shuffled
        from grpo_training.gate.run import gate
        from grpo_training.gate.settings import GateSettings
        from grpo_training.gate.verdicts import verdict_lines

        settings = GateSettings.model_validate(
            {name: getattr(self.settings, name) for name in GateSettings.model_fields if hasattr(self.settings, name)}
            | {"role": self.role}
        )
        problems = shuffled(self._tested, settings.seed)
        verdict = await gate(settings, client, manager, library, problems, sys.stdout)
        return verdict_lines(verdict)

    def _warn(self, rollouts: Sequence[Rollout]) -> None:
        """Tell when many replies cannot be used, and once if one came without what ``--logprobs`` asks for."""
        for rollout in rollouts:
            completion = rollout.completion
            if completion is None:
                continue
            self._watch.add(
                is_cut_off=completion.finish_reason == "length",
                is_unreadable=rollout.outcome is Outcome.MODEL_FAULT,
                tokens=tokens_of(completion),
            )
            values = {"token ids": completion.token_ids, "log-probs": completion.logprobs}
            missing = [name for name, value in values.items() if not value]
            if self.settings.logprobs and missing and not self._has_warned:
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
