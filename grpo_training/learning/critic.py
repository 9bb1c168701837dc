"""The critic: ``python -m grpo_training.critic`` fuses what the generators kept, scores, keeps and learns."""

from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.errors import InputError
from grpo_training.cli.settings import parse_settings
from grpo_training.learning.settings import CriticSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agents.critic import CriticAgent
    from engine.api_manager import ApiManager
    from engine.experience.state import LibraryState
    from engine.records import Candidate, Fault, Fusion, Problem, RolloutGroup
    from engine.reward_evaluator import Baseline
    from grpo_training.learning.extractor import ScoredGroup, Step
    from grpo_training.learning.generator_caches import GeneratorCaches
    from grpo_training.learning.session import Session

_WEIGHTS = {
    "r_ans": "weight_ans",
    "r_logic": "weight_logic",
    "r_graph": "weight_graph",
    "r_fusion": "weight_fusion",
}


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns the exit code."""
    settings = parse_settings(
        CriticSettings,
        argv,
        prog="python -m grpo_training.critic",
        description=(
            "The critic: fuses each generator's candidates for a problem into one scaffold (a merge where they "
            "agree, a model where they do not), scores the fusions, and learns from problems whose fusions "
            "differ. Run it after the generators, or beside them with --follow. The same command again goes on "
            "where it stopped."
        ),
    )
    from grpo_training.learning.session import open_endpoints

    with open_endpoints(settings) as manager:
        return asyncio.run(run_critic(settings, manager))


async def run_critic(settings: CriticSettings, manager: ApiManager) -> int:
    """Run the critic to its end; the exit code.

    Raises:
        ScaffoldError: a missing cache, bad input, a refusing endpoint, an exhausted budget, an open group.
    """
    from agents.critic import CriticAgent, critic_template
    from engine.experience.library import ExperienceLibrary
    from engine.records import Fusion, RolloutGroup, Sampling
    from engine.storage.rollout_store import RolloutStore, latest_fusions, read
    from engine.task import task_named
    from grpo_training.cli.progress import Progress
    from grpo_training.learning.extractor import ExperienceExtractor
    from grpo_training.learning.generator_caches import GeneratorCaches
    from grpo_training.learning.loop import LearningRun
    from grpo_training.learning.session import open_session, shaping_facts
    from grpo_training.runs.files import RunFiles

    manager.endpoint("critic")
    store = RolloutStore(settings.cache_dir / "critic_results.jsonl")
    files = RunFiles(settings.cache_dir / "critic_run.json", [store.path], lock=store)
    settings = files.resumed(settings)
    # The caches' tasks are not known yet (--follow), so this names the prompt of the format's default task; a
    # fusion of any task is held to the prompt on its own record, in _kept.
    default_task = task_named(RolloutGroup.model_fields["task"].default)
    prompt_hash = critic_template(default_task, settings.prompts).hash
    caches = GeneratorCaches(settings.cache_dir, settings.generators, must_exist=not settings.follow)
    with files.open(settings, shaping_facts(manager, "critic", prompt_hash)) as manifest:
        contents = read(store.path, Fusion, missing_ok=True)
        done = {
            key: fusion for key, fusion in latest_fusions(contents.records).items() if fusion.outcome.carries_reward
        }
        library = ExperienceLibrary(settings.experiences_dir / "critic_experiences.json", "C", settings.capacity)
        sampling = Sampling(temperature=settings.temperature, max_tokens=settings.max_tokens, seed=settings.seed)
        weights = {component: getattr(settings, name) for component, name in _WEIGHTS.items()}

        def keep(fusions: list[Fusion]) -> None:
            for fusion in fusions:
                store.append(fusion)

        async with open_session(settings, manager, "critic", "critic", weights) as session:
            agent = CriticAgent(session.client, sampling, settings.prompts)
            producer = _Producer(settings, session, agent, caches, done)
            progress = Progress("critic", None, lambda: session.client.counters)
            run = LearningRun(
                settings.window,
                ExperienceExtractor(manifest.run, session.analyst, library),
                producer.produce,
                keep,
                progress,
            )
            try:
                with progress:
                    for broken in contents.broken:
                        progress.note(f"skipped {broken}")
                    await run.go(caches.steps(progress, follow=settings.follow))
                    for text in [*caches.notes(), *(f"skipped {broken}" for broken in caches.broken)]:
                        progress.note(text)
            finally:
                progress.summary(
                    [
                        *run.summary_rows(),
                        ("merged without a model", f"{producer.structural} of {producer.fusions} fusions"),
                        ("fusions kept in", str(store.path)),
                    ]
                )
        manifest.finish()
    return 0


class _Producer:
    """Makes a problem's group of fusions, one a generator; what an earlier start stored is not asked again."""

    def __init__(
        self,
        settings: CriticSettings,
        session: Session,
        agent: CriticAgent,
        caches: GeneratorCaches,
        done: dict[tuple[str, int, str], Fusion],
    ) -> None:
        self._settings, self._session, self._agent = settings, session, agent
        self._caches, self._done = caches, done
        self.fusions = self.structural = 0

    async def produce(self, step: Step, state: LibraryState) -> ScoredGroup[list[Fusion]] | Fault:
        """The step's group, or the fault that leaves it open."""
        from engine.records import Fault
        from engine.statistics.groups import group_stats
        from grpo_training.learning.extractor import ScoredGroup
        from grpo_training.learning.session import attempt_from_fusion, total_of

        groups = self._caches.groups(step.problem.id, step.epoch)
        kept = {name: self._kept(step, name, group) for name, group in groups.items()}
        made = await asyncio.gather(
            *(self._fuse(step, name, group, state) for name, group in groups.items() if kept[name] is None)
        )
        fresh: dict[str, Fusion] = {}
        for fusion in made:
            if isinstance(fusion, Fault):
                return fusion
            fresh[fusion.generator_id] = fusion
        fusions = [kept[name] or fresh[name] for name in groups]
        self.fusions += len(fresh)
        self.structural += sum(fusion.merged == "structural" for fusion in fresh.values())
        return ScoredGroup(
            record=list(fresh.values()),
            attempts=[attempt_from_fusion(fusion) for fusion in fusions],
            rewards=[fusion.rewards for fusion in fusions],
            stats=group_stats([total_of(fusion.rewards) for fusion in fusions], self._settings.tau),
            experience_ids=fusions[0].experience_ids,
            is_kept=not fresh,
            re_asked=sum("re_asked" in fusion.repairs for fusion in fusions),
            repaired=sum(bool(fusion.repairs) for fusion in fusions),
        )

    def _kept(self, step: Step, generator: str, group: RolloutGroup) -> Fusion | None:
        """The fusion that an earlier start stored; refused where it is not one of this group, or of another prompt."""
        from agents.critic import critic_template
        from engine.task import task_named

        fusion = self._done.get((step.problem.id, step.epoch, generator))
        if fusion is not None and fusion.inputs_hash not in ("", _inputs_hash(group)):
            raise InputError(
                f"critic_results.jsonl holds fusions of other rollouts of {generator} than there are now",
                why=f"{step.problem.id} was answered anew since.",
                fix="Choose --fresh (set those fusions aside).",
            )
        asked_with = fusion.policy.prompt_hash if fusion is not None and fusion.policy is not None else ""
        prompt_hash = critic_template(task_named(step.problem.task), self._settings.prompts).hash
        if asked_with not in ("", prompt_hash):
            raise InputError(
                f"critic_results.jsonl holds a fusion of {step.problem.id} that was asked for with another prompt",
                why=f"prompt_hash: {asked_with} there, {prompt_hash} now.",
                fix="Choose --fresh (set those fusions aside).",
            )
        return fusion

    async def _fuse(self, step: Step, generator: str, group: RolloutGroup, state: LibraryState) -> Fusion | Fault:
        from agents.critic import critic_template
        from engine.records import Fault, Fusion, Policy
        from engine.task import task_named
        from grpo_training.learning.session import now_text

        problem, session = step.problem, self._session
        task = task_named(problem.task)
        inputs = await asyncio.to_thread(_read_inputs, session, problem, group)
        if isinstance(inputs, Fault):
            return inputs
        fused = await self._agent.fuse(task, problem, generator, inputs.candidates, state.experiences)
        if fused.candidate is None:
            return (fused.reply.fault if fused.reply else None) or Fault(kind="unknown")
        score = await session.score(task, problem, fused.candidate, inputs.baseline)
        if isinstance(score, Fault):
            return score
        candidate = score.candidate
        return Fusion(
            problem_id=problem.id,
            problem_text=problem.text,
            ground_truth=problem.answer,
            generator_id=generator,
            fused_scaffold=task.to_record(candidate),
            final_answer=candidate.answer,
            is_correct=score.is_correct,
            rewards=score.rewards,
            timestamp=now_text(),
            task=problem.task,
            epoch=step.epoch,
            outcome=score.outcome,
            fault=candidate.fault,
            completion=fused.reply.completion if fused.reply else None,
            answer_source=candidate.answer_source,
            stated_answer=candidate.stated_answer,
            merged=fused.merged,
            inputs_hash=_inputs_hash(group),
            repairs=[*candidate.repairs, *(["re_asked"] if fused.re_asked else [])],
            reward_detail=score.detail,
            experience_ids=[experience.id for experience in state.experiences],
            policy=Policy(
                model=session.manager.endpoint(self._agent.role).model,
                library_version=state.version,
                prompt_hash=critic_template(task, self._settings.prompts).hash,
                sampling=self._agent.sampling,
            ),
        )


def _inputs_hash(group: RolloutGroup) -> str:
    """Names a group by what is fused of it."""
    parts = [(rollout.scaffold, rollout.answer, rollout.stated_answer) for rollout in group.rollouts]
    text = json.dumps([group.problem_text, group.ground_truth, parts], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


@dataclass(frozen=True)
class _Inputs:
    candidates: list[Candidate]
    baseline: Baseline | None


def _read_inputs(session: Session, problem: Problem, group: RolloutGroup) -> _Inputs | Fault:
    """One generator's candidates as fusion inputs, and what their fusion must beat.

    They are scored anew, so that inputs by any program and the fusion are measured with one yardstick.
    """
    from engine.records import Fault, Outcome
    from engine.reward_evaluator import GENERATOR_WEIGHTS, fusion_baseline
    from engine.statistics.groups import combine_rewards
    from engine.task import task_named

    task = task_named(problem.task)
    candidates, totals = [], []
    for rollout in group.rollouts:
        stated = rollout.stated_answer if rollout.stated_answer is not None else rollout.answer
        candidate = task.candidate_from_record(rollout.scaffold, stated, problem)
        scored = session.evaluator.score(task, problem, candidate)
        if scored.outcome is Outcome.INFRA_FAULT:
            return Fault(kind="verifier_unavailable", message=str(scored.detail.get("why", "")))
        components = {name: getattr(scored.rewards, name) for name in GENERATOR_WEIGHTS}
        candidates.append(candidate)
        totals.append(combine_rewards(components, GENERATOR_WEIGHTS) or 0.0)
    return _Inputs(candidates, fusion_baseline([candidate.answer for candidate in candidates], totals))
