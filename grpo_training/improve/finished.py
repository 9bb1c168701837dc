"""The marker of a finished run: the same command prints its stored result, and starts no server."""

from __future__ import annotations

import hashlib

from agents.generator import generator_messages
from engine.api_manager import GENERATORS, ApiManager
from engine.tasks.registry import task_named
from grpo_training.improve.plan import Plan
from grpo_training.improve.settings import ImproveSettings
from grpo_training.improve.take_home import FILES
from grpo_training.learning.session import fingerprint_facts
from grpo_training.learning.status import results_file
from grpo_training.runs.completion import CompletionMarker
from grpo_training.runs.named import RunFolder

_SETTINGS = (
    *("test", "fields", "compare", "task", "generators", "critic", "rollouts", "epochs", "samples", "temperature"),
    *("top_p", "max_tokens", "seed", "prompts"),
)
"""Settings that change the result, besides those that choose the problems."""


def finished_marker(settings: ImproveSettings, run: RunFolder, plan: Plan, manager: ApiManager) -> CompletionMarker:
    """The marker of a run, which counts as long as problems, prompts, settings, models and files are the same.

    Args:
        settings: of the run.
        run: its folder.
        plan: its problems.
        manager: the endpoints, of which only the names of the models and the fields of requests are used.
    """
    first = plan.learned_from[0]
    digest = hashlib.sha256()
    digest.update(repr(generator_messages(task_named(first.task), first, (), settings.prompts)).encode())
    for problems in (plan.learned_from, plan.tested):
        digest.update(repr([(one.id, one.text, one.answer) for one in problems]).encode("utf-8", "replace"))
    roles = GENERATORS[: settings.generators]
    values = settings.model_dump(mode="json")
    inputs = [
        digest.hexdigest(),
        {name: values[name] for name in _SETTINGS},
        [fingerprint_facts(manager, role, "") for role in roles],
    ]
    learners = [*roles, "critic"] if settings.critic else list(roles)
    libraries = [run.experiences / f"{name}_experiences.json" for name in learners]
    files = [
        *(results_file(run.cache, name) for name in learners),
        *libraries,
        *(library.with_suffix(".ops.jsonl") for library in libraries),
        *(run.folder / "improved" / name for name in FILES),
    ]
    return CompletionMarker(run.folder / "improve_complete.json", run.name, inputs, files)
