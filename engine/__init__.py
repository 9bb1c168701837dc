"""Domain logic: records, tasks, mathematics, rewards, experience libraries and the model client."""

from importlib import import_module
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
    from engine.task import Measurement, Task, load_task, task_named
    from engine.tasks.simple.task import SimpleTask
else:
    _MODULES = {
        "ApiManager": "engine.api_manager",
        "Candidate": "engine.records",
        "Completion": "engine.records",
        "Experience": "engine.records",
        "ExperienceLibrary": "engine.experience.library",
        "LLMClient": "engine.llm.client",
        "Measurement": "engine.task",
        "Outcome": "engine.records",
        "Problem": "engine.records",
        "ResponseJournal": "engine.llm.journal",
        "RewardEvaluator": "engine.reward_evaluator",
        "Rollout": "engine.records",
        "RolloutGroup": "engine.records",
        "Sampling": "engine.records",
        "ScaffoldError": "engine.errors",
        "SimpleTask": "engine.tasks.simple.task",
        "Task": "engine.task",
        "group_stats": "engine.statistics.groups",
        "load_problems": "engine.datasets",
        "load_task": "engine.task",
        "pass_at_k": "engine.statistics.pass_at_k",
        "task_named": "engine.task",
    }

    def __getattr__(name: str) -> object:
        """Import a public name when it is first used, so that importing the package stays cheap."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_MODULES[name]), name)


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
