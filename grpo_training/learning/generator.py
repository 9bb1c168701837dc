"""What the three generators share: ask, score, keep, learn, in problem order."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from grpo_training.cli.settings import parse_settings
from grpo_training.learning.settings import MAX_EPOCHS, GeneratorSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from agents.generator import GeneratorAgent
    from engine.api_manager import ApiManager
    from engine.experience.state import LibraryState
    from engine.records import Fault, Rollout, RolloutGroup
    from grpo_training.learning.extractor import ScoredGroup, Step
    from grpo_training.learning.session import Session

_WEIGHTS = {"r_ans": "weight_ans", "r_logic": "weight_logic", "r_graph": "weight_graph"}


def main(number: int, argv: Sequence[str] | None = None) -> int:
    """The command ``python -m grpo_training.generatorN``. Returns the exit code."""
    settings = parse_settings(
        GeneratorSettings,
        argv,
        prog=f"python -m grpo_training.generator{number}",
        description=(
            f"Generator {number}: answers each problem several times as causal scaffolds, scores them, learns "
            "from groups whose rewards differ, and keeps everything in the cache for the critic and the "
            "fine-tune. The same command again goes on where it stopped."
        ),
    )
    from grpo_training.learning.session import open_endpoints

    with open_endpoints(settings) as manager:
        return asyncio.run(run_generator(number, settings, manager))


async def run_generator(number: int, settings: GeneratorSettings, manager: ApiManager) -> int:
    """Run one generator to its end; the exit code.

    Raises:
        ScaffoldError: bad input, a refusing endpoint, an exhausted budget, or a group left open.
    """
    from agents.generator import GeneratorAgent, prompt_hash
    from engine.experience.library import ExperienceLibrary
    from engine.records import RolloutGroup, Sampling
    from engine.storage.rollout_store import RolloutStore, latest_by_problem, read
    from engine.task import task_named
    from grpo_training.cli.progress import Progress
    from grpo_training.learning.extractor import ExperienceExtractor
    from grpo_training.learning.loop import LearningRun
    from grpo_training.learning.session import open_session, shaping_facts
    from grpo_training.runs.files import RunFiles

    role = f"generator_{number}"
    manager.endpoint(role)
    store = RolloutStore(settings.cache_dir / f"{role}_rollouts.jsonl")
    files = RunFiles(settings.cache_dir / f"{role}_run.json", [store.path], lock=store)
    settings = files.resumed(settings)
    steps = _steps(settings)  # what cannot be read is refused before anything is set aside
    tasks = {step.problem.task: task_named(step.problem.task) for step in steps}
    hashes = sorted({prompt_hash(task, settings.prompts) for task in tasks.values()})
    with files.open(settings, shaping_facts(manager, role, "+".join(hashes))) as manifest:
        contents = read(store.path, RolloutGroup, missing_ok=True)
        done = {key: group for key, group in latest_by_problem(contents.records).items() if group.complete}
        library = ExperienceLibrary(
            settings.experiences_dir / f"{role}_experiences.json", f"G{number}", settings.capacity
        )
        sampling = Sampling(
            temperature=settings.temperature,
            top_p=settings.top_p,
            max_tokens=settings.max_tokens,
            seed=settings.seed,
            logprobs=settings.logprobs,
        )
        weights = {component: getattr(settings, name) for component, name in _WEIGHTS.items()}
        async with open_session(settings, manager, "generator", role, weights) as session:
            progress = Progress(role, len(steps), lambda: session.client.counters)
            agent = GeneratorAgent(session.client, role, sampling, settings.prompts)
            producer = _Producer(role, settings, session, agent, done, progress.note)
            run = LearningRun(
                settings.window,
                ExperienceExtractor(manifest.run, session.analyst, library),
                producer.produce,
                store.append,
                progress,
            )
            try:
                with progress:
                    for broken in contents.broken:
                        progress.note(f"skipped {broken}")
                    progress.restored(sum((step.problem.id, step.epoch) in done for step in steps))
                    await run.go(_each(steps))
            finally:
                rows = run.summary_rows()
                if settings.logprobs:
                    rows.append(("log-probs stored for", f"{run.with_logprobs} of {run.members} rollouts"))
                progress.summary([*rows, ("rollouts kept in", str(store.path))])
        manifest.finish()
    return 0


def _steps(settings: GeneratorSettings) -> list[Step]:
    """The run's steps in order: epoch 0 as the dataset has it, later epochs shuffled by the seed."""
    from engine.datasets import load_problems
    from engine.task import task_named
    from grpo_training.learning.extractor import Step

    problems = load_problems(settings.dataset, max_problems=settings.max_problems)
    for problem in problems:
        task_named(problem.task).check_problem(problem)
    ordered = [(0, problem) for problem in problems]
    for epoch in range(1, settings.epochs):
        shuffled = list(problems)
        random.Random(f"{settings.seed}:{epoch}").shuffle(shuffled)  # noqa: S311 - an order, no secret
        ordered += [(epoch, problem) for problem in shuffled]
    return [Step(number, problem, epoch) for number, (epoch, problem) in enumerate(ordered)]


async def _each(steps: Sequence[Step]) -> AsyncIterator[Step]:
    for step in steps:
        yield step


class _Producer:
    """Makes a step's group: from the cache where an earlier start finished it, else by asking and scoring."""

    def __init__(
        self,
        role: str,
        settings: GeneratorSettings,
        session: Session,
        agent: GeneratorAgent,
        done: dict[tuple[str, int], RolloutGroup],
        note: Callable[[str], None],
    ) -> None:
        self._role, self._settings, self._session, self._agent, self._done = role, settings, session, agent, done
        self._note, self._has_noted = note, False

    async def produce(self, step: Step, state: LibraryState) -> ScoredGroup[RolloutGroup] | Fault:
        """The step's group, or the fault that leaves it open."""
        from grpo_training.learning.session import check_same_problem

        kept = self._done.get((step.problem.id, step.epoch))
        if kept is None:
            return await self._ask(step, state)
        check_same_problem(step.problem, kept.problem_text, kept.ground_truth, f"{self._role}_rollouts.jsonl")
        return _scored(kept, self._settings.tau, is_kept=True)

    async def _ask(self, step: Step, state: LibraryState) -> ScoredGroup[RolloutGroup] | Fault:
        from agents.generator import prompt_hash
        from engine.records import Fault, Policy, RolloutGroup
        from engine.statistics.groups import group_stats
        from engine.task import task_named
        from grpo_training.learning.session import now_text, rollout_from, total_of

        problem, count = step.problem, self._settings.rollouts
        task = task_named(problem.task)
        # Other epochs and other generators draw other samples, also where prompt and model are the same.
        first = ((int(self._role[-1]) - 1) * MAX_EPOCHS + step.epoch) * count
        answers = await self._agent.answer(task, problem, state.experiences, range(first, first + count))
        candidates = [answer.read for answer in answers]
        for answer in answers:
            if answer.read is None:
                return answer.reply.fault or Fault(kind="unknown")
        scored = await asyncio.gather(
            *(self._session.score(task, problem, candidate) for candidate in candidates if candidate is not None)
        )
        ids = [experience.id for experience in state.experiences]
        rollouts: list[Rollout] = []
        for number, (answer, score) in enumerate(zip(answers, scored, strict=True), 1):
            if isinstance(score, Fault):
                return score
            rollouts.append(rollout_from(task, number, answer, score, ids))
        if self._settings.logprobs:
            self._tell_what_is_missing(rollouts)
        group = RolloutGroup(
            problem_id=problem.id,
            problem_text=problem.text,
            ground_truth=problem.answer,
            rollouts=rollouts,
            timestamp=now_text(),
            generator_id=self._role,
            task=problem.task,
            epoch=step.epoch,
            policy=Policy(
                model=self._session.manager.endpoint(self._role).model,
                library_version=state.version,
                prompt_hash=prompt_hash(task, self._settings.prompts),
                sampling=self._agent.sampling,
            ),
            stats=group_stats([total_of(rollout) for rollout in rollouts], self._settings.tau),
        )
        return _scored(group, self._settings.tau, is_kept=False)

    def _tell_what_is_missing(self, rollouts: Sequence[Rollout]) -> None:
        """Say, once a run, that a reply came without what ``--logprobs`` asks for. The run goes on."""
        for completion in (rollout.completion for rollout in rollouts):
            if self._has_noted or completion is None:
                continue
            parts = {"token ids": completion.token_ids, "log-probs": completion.logprobs}
            missing = [name for name, values in parts.items() if not values]
            if missing:
                self._has_noted = True
                self._note(
                    f"⚠ --logprobs: the endpoint returned no {' and no '.join(missing)}. Such rollouts are kept "
                    "without log-probs: the fine-tune does not know how likely they were. vLLM returns both."
                )


def _scored(group: RolloutGroup, tau: float, *, is_kept: bool) -> ScoredGroup[RolloutGroup]:
    """A complete group as the loop takes it. All from the record, so that a resumed run sees the same."""
    from engine.records import Rewards
    from engine.statistics.groups import group_stats
    from grpo_training.learning.extractor import ScoredGroup
    from grpo_training.learning.session import attempt_from_rollout, total_of

    rollouts = group.rollouts
    return ScoredGroup(
        record=group,
        attempts=[attempt_from_rollout(rollout) for rollout in rollouts],
        rewards=[
            Rewards(r_ans=item.r_ans, r_logic=item.r_logic, r_graph=item.r_graph, r_total=item.r_total)
            for item in rollouts
        ],
        stats=group.stats or group_stats([total_of(item) for item in rollouts], tau),
        experience_ids=rollouts[0].experience_ids,
        is_kept=is_kept,
        re_asked=sum("re_asked" in item.repairs for item in rollouts),
        repaired=sum(bool(item.repairs) for item in rollouts),
        with_logprobs=sum(_has_logprobs(item) for item in rollouts),
    )


def _has_logprobs(rollout: Rollout) -> bool:
    """Log-probs without the ids that they belong to are of no use."""
    completion = rollout.completion
    return completion is not None and bool(completion.token_ids and completion.logprobs)
