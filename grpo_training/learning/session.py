"""What the generators and the critic share: the client with its journal, ledger and budget; who asks whom."""

from __future__ import annotations

import asyncio
import hashlib
import os
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents.analyst import Attempt, ExperienceAnalyst
from agents.judge import Judge
from engine.api_manager import ApiManager
from engine.errors import ConfigurationError, InputError
from engine.llm.budget import Budget
from engine.llm.client import LLMClient
from engine.llm.journal import ResponseJournal
from engine.llm.rate_limits import RateLedger
from engine.llm.retry import RetryPolicy
from engine.records import Candidate, Fault, Fusion, Outcome, Problem, Rewards, Rollout
from engine.reward_evaluator import Baseline, RewardEvaluator, Scored

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from agents.chat import Answer
    from engine.llm.concurrency import ConcurrencyRule
    from engine.task import Task
    from grpo_training.learning.settings import CriticSettings, GeneratorSettings, RunSettings
    from grpo_training.teacher.generate import TeacherSettings

_LOCAL_ROLES = ("generator_1", "generator_2", "generator_3", "critic")
_SHOWN = 6000  # characters of one attempt that the analyst sees


@dataclass(frozen=True)
class Session:
    """A running process's hands."""

    manager: ApiManager
    client: LLMClient
    analyst: ExperienceAnalyst
    judge: Judge | None
    evaluator: RewardEvaluator

    async def score(
        self, task: Task, problem: Problem, candidate: Candidate, baseline: Baseline | None = None
    ) -> Scored | Fault:
        """Score a candidate; a fault (no judge in reach, no checker to start) leaves the group open."""
        opinion = None
        if self.judge is not None and task.wants_opinion(candidate):
            verdict = await self.judge.opinion(task, problem, candidate)
            if verdict.outcome is Outcome.INFRA_FAULT:
                return verdict.fault or Fault(kind="judge_unreachable")
            opinion = verdict.score
        scored = await asyncio.to_thread(
            self.evaluator.score, task, problem, candidate, opinion=opinion, baseline=baseline
        )
        if scored.outcome is Outcome.INFRA_FAULT:
            return Fault(kind="verifier_unavailable", message=str(scored.detail.get("why", "")))
        return scored


@asynccontextmanager
async def open_session(
    settings: RunSettings, manager: ApiManager, learner: str, role: str, weights: Mapping[str, float]
) -> AsyncIterator[Session]:
    """Open what a process needs to talk to models and score their replies.

    Args:
        settings: the run's settings.
        manager: the endpoints.
        learner: ``generator`` or ``critic``; whose lessons the analyst writes.
        role: the learner's api role; the analyst's too where no ``analyst`` is configured.
        weights: reward weights.
    """
    if settings.max_tokens is None and (settings.budget_usd, settings.budget_tokens) != (None, None):
        raise InputError(
            "A budget needs --max-tokens",
            why="Without it a reply may be of any length, so no request could be known to fit.",
            fix="Give the most tokens that one reply may have, such as --max-tokens 4096.",
        )
    asked = [name for name in (role, "analyst", "reward_evaluator") if manager.has(name)]
    if settings.budget_usd is not None:
        for name in asked:
            if manager.endpoint(name).cost_usd(1, 1) is None:
                raise ConfigurationError(
                    f"--budget-usd needs prices, and {name} has none",
                    fix=f"Give {name} price_in and price_out in {settings.api_config}, or use --budget-tokens.",
                )
    async with open_client(settings, manager) as client:
        yield Session(
            manager,
            client,
            ExperienceAnalyst(
                client,
                "analyst" if manager.has("analyst") else role,
                learner,
                max_tokens=settings.max_tokens,
                seed=settings.seed,
                style=settings.prompts,
            ),
            Judge(client, max_tokens=settings.max_tokens, style=settings.prompts)
            if manager.has("reward_evaluator")
            else None,
            RewardEvaluator(weights, settings.weight_judge),
        )


@asynccontextmanager
async def open_client(
    settings: RunSettings | TeacherSettings, manager: ApiManager, concurrency: ConcurrencyRule | None = None
) -> AsyncIterator[LLMClient]:
    """The client, with the journal of the cache folder, the shared ledger, and the settings' patience and budget.

    Args:
        settings: the run's settings.
        manager: the endpoints.
        concurrency: how the number of requests in flight is found; None is the client's own way.
    """
    settings.cache_dir.mkdir(parents=True, exist_ok=True)
    with (
        closing(ResponseJournal(settings.cache_dir / "requests.sqlite")) as journal,
        closing(RateLedger(ledger_path(settings.api_config))) as ledger,
    ):
        async with LLMClient(
            manager,
            journal=journal,
            ledger=ledger,
            retry=RetryPolicy(attempts=settings.attempts, total_s=settings.retry_minutes * 60),
            budget=Budget(usd=settings.budget_usd, tokens=settings.budget_tokens),
            concurrency=concurrency,
        ) as client:
            yield client


def ledger_path(api_config: Path) -> Path:
    """Beside the file whose limits it keeps; where that folder is read-only, among this user's shared files."""
    if os.access(api_config.parent, os.W_OK):
        return api_config.with_suffix(".ledger.sqlite")
    from grpo_training.serving.local_server import user_folder

    name = hashlib.sha256(str(api_config.resolve()).encode()).hexdigest()[:16]
    return user_folder() / f"{name}.ledger.sqlite"


@contextmanager
def open_endpoints(settings: GeneratorSettings | CriticSettings) -> Iterator[ApiManager]:
    """The endpoints of a run; local models are served as long as the block lasts.

    Raises:
        ScaffoldError: the api config, or what a local model needs, is missing or wrong.
    """
    from grpo_training.serving.shared_server import shared_server

    with ExitStack() as stack:

        def serve(model: Path) -> dict[str, Any]:
            return stack.enter_context(shared_server(model, settings.temperature)).endpoint()

        if settings.endpoint == "local":
            yield ApiManager(settings.api_config, dict.fromkeys(_LOCAL_ROLES, serve(settings.model)))
            return
        manager = ApiManager.load(settings.api_config)
        local = manager.local_models()
        served = {model: serve(Path(model)) for model in dict.fromkeys(local.values())}
        yield manager.with_entries({role: served[model] for role, model in local.items()})


def shaping_facts(manager: ApiManager, role: str, prompt_hash: str) -> dict[str, Any]:
    """What shapes results beside the settings: the models that are asked, what else they are sent, and the prompt."""
    facts: dict[str, Any] = {"prompt_hash": prompt_hash}
    for asked, name in ((role, "model"), ("analyst", "analyst"), ("reward_evaluator", "reward_evaluator")):
        if asked == role or manager.has(asked):
            endpoint = manager.endpoint(asked)
            facts[name] = endpoint.model
            if endpoint.extra_body:
                facts[f"extra_body of {asked}"] = endpoint.extra_body
    return facts


def rollout_from(
    task: Task, rollout_id: int, answer: Answer[Candidate], score: Scored, experience_ids: list[str]
) -> Rollout:
    """The record of one scored answer."""
    candidate, rewards = score.candidate, score.rewards
    return Rollout(
        rollout_id=rollout_id,
        scaffold=task.to_record(candidate),
        answer=candidate.answer,
        is_correct=score.is_correct,
        r_ans=rewards.r_ans,
        r_logic=rewards.r_logic,
        r_graph=rewards.r_graph,
        r_total=total_of(rewards),
        outcome=score.outcome,
        fault=candidate.fault,
        completion=answer.reply.completion,
        answer_source=candidate.answer_source,
        stated_answer=candidate.stated_answer,
        repairs=[
            *candidate.repairs,
            *(["re_asked"] if answer.re_asked else []),
            *(["first_kept"] if answer.first_kept else []),
        ],
        reward_detail=score.detail,
        experience_ids=experience_ids,
    )


def total_of(rewards: Rewards | Rollout) -> float:
    """``r_total`` of a scored candidate.

    Raises:
        ConfigurationError: every component that the task measures has weight 0.
    """
    if rewards.r_total is None:
        raise ConfigurationError(
            "There is no reward: every component that this kind of task measures has weight 0",
            fix="Give --weight-ans more than 0.",
        )
    return rewards.r_total


def attempt_from_rollout(rollout: Rollout) -> Attempt:
    """A rollout as the analyst sees it. Only what its record holds, so that a resumed run asks the same."""
    return _attempt(rollout, rollout.scaffold, rollout.answer, rollout.r_total)


def attempt_from_fusion(fusion: Fusion) -> Attempt:
    """A fusion as the analyst sees it."""
    return _attempt(fusion, fusion.fused_scaffold, fusion.final_answer, fusion.rewards.r_total)


def _attempt(record: Rollout | Fusion, scaffold: Any, answer: str | None, r_total: float | None) -> Attempt:
    text = scaffold if isinstance(scaffold, str) else None
    if text is None and record.completion is not None:
        text = record.completion.text
    remarks = [] if record.fault is None else [record.fault.kind]
    if record.answer_source == "executed" and record.stated_answer not in (None, answer):
        remarks.append(f"its graph gives {answer}, its text says {record.stated_answer}")
    remarks += record.reward_detail.get("remarks", [])
    return Attempt(
        text=(text or "(no text)")[:_SHOWN],
        answer=answer,
        is_correct=bool(record.is_correct),
        r_total=r_total or 0.0,
        remarks="; ".join(remarks),
    )


def check_same_problem(problem: Problem, text: str, ground_truth: str, place: str) -> None:
    """Refuse results that carry a problem's id and are of another problem."""
    if (problem.text, problem.answer) != (text, ground_truth):
        raise InputError(
            f"{place} holds another problem under the id {problem.id}",
            why="The dataset changed, or the cache belongs to another one.",
            fix="Choose --fresh (set those results aside) or another --cache-dir.",
        )


def now_text(now: datetime | None = None) -> str:
    """A timestamp for a record: ISO 8601 in UTC, seconds."""
    return (now or datetime.now(UTC)).isoformat(timespec="seconds")
