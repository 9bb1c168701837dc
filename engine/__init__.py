"""Domain logic: records, tasks, mathematics, rewards, experience libraries and the model client."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.api_manager import ApiManager as ApiManager
    from engine.datasets import load_problems as load_problems
    from engine.errors import ScaffoldError as ScaffoldError
    from engine.experience.library import ExperienceLibrary as ExperienceLibrary
    from engine.llm.client import LLMClient as LLMClient
    from engine.llm.journal import ResponseJournal as ResponseJournal
    from engine.records import Candidate as Candidate
    from engine.records import Completion as Completion
    from engine.records import Experience as Experience
    from engine.records import Outcome as Outcome
    from engine.records import Problem as Problem
    from engine.records import Rollout as Rollout
    from engine.records import RolloutGroup as RolloutGroup
    from engine.records import Sampling as Sampling
    from engine.reward_evaluator import RewardEvaluator as RewardEvaluator
    from engine.statistics.groups import group_stats as group_stats
    from engine.statistics.pass_at_k import pass_at_k as pass_at_k
    from engine.task import Measurement as Measurement
    from engine.task import Task as Task
    from engine.tasks.registry import load_task as load_task
    from engine.tasks.registry import task_named as task_named
    from engine.tasks.simple.task import SimpleTask as SimpleTask
else:
    from engine.public_names import public_names

    __getattr__, __all__ = public_names(
        __name__,
        {
            "engine.api_manager": "ApiManager",
            "engine.records": "Candidate Completion Experience Outcome Problem Rollout RolloutGroup Sampling",
            "engine.experience.library": "ExperienceLibrary",
            "engine.llm.client": "LLMClient",
            "engine.task": "Measurement Task",
            "engine.tasks.registry": "load_task task_named",
            "engine.llm.journal": "ResponseJournal",
            "engine.reward_evaluator": "RewardEvaluator",
            "engine.errors": "ScaffoldError",
            "engine.tasks.simple.task": "SimpleTask",
            "engine.statistics.groups": "group_stats",
            "engine.datasets": "load_problems",
            "engine.statistics.pass_at_k": "pass_at_k",
        },
    )
