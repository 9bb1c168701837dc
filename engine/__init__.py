"""Domain logic: records, tasks, mathematics, rewards, experience libraries and the model client."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.api_manager import ApiManager
    from engine.datasets import load_problems
    from engine.errors import ScaffoldError
    from engine.experience.library import ExperienceLibrary
    from engine.llm.client import LLMClient
    from engine.llm.journal import ResponseJournal
    from engine.records import Candidate, Completion, Experience, Outcome, Problem, Rollout, RolloutGroup, Sampling
    from engine.reward_evaluator import RewardEvaluator
    from engine.statistics.groups import group_stats
    from engine.statistics.pass_at_k import pass_at_k
    from engine.task import Measurement, Task
    from engine.tasks.registry import load_task, task_named
    from engine.tasks.simple.task import SimpleTask
else:
    from engine.public_names import public_names

    __getattr__ = public_names(
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


__all__ = [
    "ApiManager",
    "Candidate",
    "Completion",
    "Experience",
    "ExperienceLibrary",
    "LLMClient",
    "Measurement",
    "Outcome",
    "Problem",
    "ResponseJournal",
    "RewardEvaluator",
    "Rollout",
    "RolloutGroup",
    "Sampling",
    "ScaffoldError",
    "SimpleTask",
    "Task",
    "group_stats",
    "load_problems",
    "load_task",
    "pass_at_k",
    "task_named",
]
