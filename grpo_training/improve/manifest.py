"""The manifest of a run: with it, the same command prints the stored result of a complete run and starts no server."""

from __future__ import annotations

import hashlib
from pathlib import Path

from agents.generator import generator_messages
from engine.api_manager import GENERATORS, ApiManager
from engine.tasks.registry import task_named
from grpo_training.improve.plan import Plan
from grpo_training.improve.settings import ImproveSettings
from grpo_training.improve.take_home import FILES
from grpo_training.runs.learner_files import library_file, manifest_file, results_file
from grpo_training.runs.manifest import RunManifest, is_same_configuration, load_manifest, stamp_of
from grpo_training.runs.named import RunFolder
from grpo_training.runs.problems import task_facts
from grpo_training.serve.endpoints import model_facts


def own_manifest(settings: ImproveSettings, run: RunFolder, plan: Plan, manager: ApiManager) -> RunManifest:
    """The manifest of a run with these problems, prompts, settings and models, before it is complete.

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
    models = {role: model_facts(manager, role) for role in GENERATORS[: settings.generators]}
    facts = {"problems": digest.hexdigest(), **models, **task_facts(settings.task)}
    path = run.folder / "improve_run.json"
    return RunManifest(path, run.name, {"settings": settings.fingerprint(), "facts": facts})


def is_complete(manifest: RunManifest, settings: ImproveSettings, run: RunFolder) -> bool:
    """Whether an earlier start has completed the run of :func:`own_manifest`, and its files are the same since.

    Raises:
        InputError: the manifest is damaged.
    """
    stored = None if settings.fresh else load_manifest(manifest.path)
    if stored is None or not is_same_configuration(stored, manifest.configuration, dict):
        return False
    return stored.report_of(run_stamp(settings, run)) is not None


def open_problems(settings: ImproveSettings, run: RunFolder) -> list[str]:
    """The problems of each generator and of the critic that are open although it has ended, with the reason."""
    found = [(name, load_manifest(manifest_file(run.cache, name))) for name in _learners(settings)]
    return [f"{name}, {text}" for name, manifest in found if manifest is not None for text in manifest.open]


def _learners(settings: ImproveSettings) -> list[str]:
    return [*GENERATORS[: settings.generators], *(["critic"] if settings.critic else [])]


def run_stamp(settings: ImproveSettings, run: RunFolder) -> str:
    """A digest that changes with the files of a run."""
    learners = _learners(settings)
    libraries = [library_file(run.experiences, name) for name in learners]
    files: list[Path] = [
        *(results_file(run.cache, name) for name in learners),
        *libraries,
        *(library.with_suffix(".ops.jsonl") for library in libraries),
        *(run.folder / "improved" / name for name in FILES),
    ]
    return stamp_of("", files)
