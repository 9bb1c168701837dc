"""The doctor's look at this machine: packages, tools, configuration, prompts, files, disk, the shipped model."""

from __future__ import annotations

import asyncio
import difflib
import importlib.metadata
import importlib.util
import shutil
import stat
import sys
from itertools import islice
from typing import TYPE_CHECKING, Any

from packaging.requirements import Requirement

from engine.api_manager import LEARNERS
from engine.errors import ScaffoldError
from engine.shipped_files import shipped_file
from grpo_training.cli.settings import POCKET_MODEL
from grpo_training.doctor_checks.results import failed, failure_of, passed, skipped, verdict, warned

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from engine.api_manager import ApiManager
    from engine.storage.append_log import Line
    from grpo_training.doctor_checks.results import Finding
    from grpo_training.teacher.traces import TeacherTrace

_HELPERS = {
    "analyst": "; the role that learns writes its own lessons",
    "reward_evaluator": "; no judge joins the rewards",
    "teacher": "; there can be no teacher traces",
}
_PLACEHOLDER = "write-your-key-here"  # of the shipped example

_EXTRAS = {
    "local": ("models of this machine", "make local"),
    "finetune": ("the fine-tune", "make finetune"),
    "datasets": ("datasets from the Hugging Face hub", "pip install -c constraints.txt -e '.[datasets]'"),
}
_TOOLS = {
    "bubblewrap": (("bwrap",), "the strongest isolation of model-written code", "apt-get install bubblewrap"),
    "node": (("node", "nodejs"), "tasks in JavaScript", "apt-get install nodejs"),
    "chromium": (("chromium", "chromium-browser", "google-chrome"), "games in a browser", "apt-get install chromium"),
}
_LEAST_FREE = 200 << 20
_ENOUGH_FREE = 2 << 30
_ROWS_LOOKED_AT = 200


# ------------------------------------------------------------------ environment


def environment() -> Iterator[Finding]:
    """Python, the packages of pyproject.toml and their versions, the tools, and how code is isolated."""
    version = ".".join(map(str, sys.version_info[:3]))
    yield verdict(sys.version_info >= (3, 11), f"Python {version}", "Install Python 3.11 or newer.")
    requirements = [Requirement(text) for text in importlib.metadata.requires("scaffold-grpo") or ()]
    required = [one for one in requirements if one.marker is None]
    lacking = [text for text in map(missing_package, required) if text]
    yield verdict(not lacking, f"{len(required)} packages: " + ("; ".join(lacking) or "all there"), "make install")
    for extra, (purpose, fix) in _EXTRAS.items():
        optional = [one for one in requirements if one.marker and one.marker.evaluate({"extra": extra})]
        lacking = [text for text in map(missing_package, optional) if text]
        if lacking:
            yield warned(f"packages for {purpose}: {'; '.join(lacking)}", fix)
        else:
            yield passed(f"packages for {purpose}: all there")
    for tool, (names, purpose, fix) in _TOOLS.items():
        found = next((place for name in names if (place := shutil.which(name))), None)
        yield passed(f"{tool}: {found}") if found else warned(f"{tool} is not installed; needed for {purpose}", fix)
    from engine.sandbox.zygote_process import strongest_level

    level = strongest_level()
    fix = "apt-get install bubblewrap; in a container, allow it to make user namespaces."
    strong = level != "rlimits"
    yield passed(f"isolation of code: {level}") if strong else warned("isolation of code: rlimits only", fix)


def missing_package(requirement: Requirement) -> str:
    """What is wrong with a requirement; empty where it is met."""
    try:
        version = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        return f"{requirement.name} is not installed"
    is_met = requirement.specifier.contains(version, prereleases=True)
    return "" if is_met else f"{requirement.name} {version} is not {requirement.specifier}"


# ------------------------------------------------------------------ configuration


def api_config(path: Path) -> Iterator[Finding]:
    """Whether the file can be read and every role in it could be asked. Keys are never shown."""
    from engine.api_manager import ApiManager

    if not path.exists():
        yield warned(
            f"no API configuration at {path}: only models of this machine can be used (--endpoint local)",
            f"cp {shipped_file('api_keys/api_config.json.example')} {path}   # then fill in keys",
        )
        return
    manager = ApiManager.load(path)
    if path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        yield warned(f"{path} can be read by other users of this machine", f"chmod 600 {path}")
    local = manager.local_models()
    for role in manager.roles():
        yield _role(manager, role, local.get(role))
    for role in (*LEARNERS, *_HELPERS):
        if not manager.has(role):
            yield warned(f"{role} is not configured{_HELPERS.get(role, '')}", f'Add an entry "{role}" to {path}.')


def _role(manager: ApiManager, role: str, local_model: str | None) -> Finding:
    if role not in (*LEARNERS, *_HELPERS):
        near = difflib.get_close_matches(role, (*LEARNERS, *_HELPERS), 1, cutoff=0.0)
        return warned(f"Unknown role {role!r} in {manager.path}", f"Did you mean {near[0]!r}?")
    if local_model is not None:
        from pathlib import Path

        is_there = (Path(local_model) / "config.json").is_file()
        return verdict(is_there, f"{role}: the model in {local_model}", "Give the folder of a model (config.json ...).")
    try:
        endpoint, *others = manager.endpoints(role)
    except ScaffoldError as error:
        return failure_of(error)
    if endpoint.api_key.get_secret_value() == _PLACEHOLDER:
        return failed(f"{role}: the key is still the example's placeholder", f"Write the key of {endpoint.base_url}.")
    addresses = ", ".join(each.base_url for each in (endpoint, *others))
    return passed(f"{role}: {endpoint.model} at {addresses}, key present")


def asked_endpoints(path: Path) -> Iterable[Finding]:
    """Each configured role, asked for one word."""
    from engine.api_manager import ApiManager

    return asyncio.run(_ask_all(ApiManager.load(path)))


async def _ask_all(manager: ApiManager) -> list[Finding]:
    from engine.llm.client import LLMClient
    from engine.llm.retry import RetryPolicy

    local = manager.local_models()
    findings = [skipped(f"{role}: a model of this machine; ask it with --model {local[role]}") for role in local]
    for role in manager.roles():
        for own in () if role in local else _one_server_each(manager, role):
            async with LLMClient(own, retry=RetryPolicy(attempts=2, total_s=30.0)) as client:
                findings.append(await _ask(client, own, role))
    return findings


def _one_server_each(manager: ApiManager, role: str) -> list[ApiManager]:
    try:
        endpoints = manager.endpoints(role)
    except ScaffoldError:  # whoever asks meets it again and says it
        return [manager]
    return [manager.with_entries({role: {"base_url": endpoint.base_url}}) for endpoint in endpoints]


async def _ask(client: Any, manager: ApiManager, role: str) -> Finding:
    from engine.records import ChatRequest, Message, Sampling

    words = (Message(role="user", content="Reply with the word: ready"),)
    request = ChatRequest(role=role, messages=words, sampling=Sampling(max_tokens=16), purpose="doctor")
    try:
        async with asyncio.timeout(90):
            [reply] = await client.sample(request, [0])
    except ScaffoldError as error:
        return failure_of(error, role)
    except TimeoutError:
        return failed(f"{role}: no answer within 90 s", "Look whether the server works, or name another base_url.")
    endpoint = manager.endpoint(role)
    if reply.completion is None:
        fault = f"{reply.fault.kind} {reply.fault.message}".strip() if reply.fault else "no reason given"
        return failed(f"{role}: no answer from {endpoint.base_url}: {fault}", "Start that server, or mend base_url.")
    usage = reply.completion.usage
    tokens = usage.prompt_tokens + usage.completion_tokens
    return passed(f"{role}: {endpoint.model} answered in {reply.completion.latency_s:.1f} s ({tokens} tokens)")


# ------------------------------------------------------------------ prompts


def prompts() -> Iterator[Finding]:
    """Every template of every style and task: there, readable, and asking for what its caller gives."""
    from agents.templates import TEMPLATE_NAMES, check_prompts, role_template
    from engine.task import known_tasks
    from prompts import prompt_styles

    for style in prompt_styles():
        tasks = known_tasks()
        try:
            check_prompts(tasks, style)
            hashes = [role_template(name, task, style).hash for task in tasks for name in TEMPLATE_NAMES]
        except ScaffoldError as error:
            yield failure_of(error, f"prompt style {style}")
        else:
            yield passed(f"prompt style {style}: {len(set(hashes))} prompts for {len(known_tasks())} kinds of task")


# ------------------------------------------------------------------ files


def data_files(folder: Path) -> Iterator[Finding]:
    """Shipped data sets, libraries, and what the commands prepare: readable as far as it is there."""
    from engine.datasets import load_problems

    for path in sorted(shipped_file("datasets").glob("*.jsonl")):
        yield passed(f"{path.name}: {len(load_problems(str(path)))} problems")
    for path in sorted((folder / "grpo_experiences").glob("*_experiences.json")):
        yield _library(path)
    prepared = [folder / "train.jsonl", folder / "val.jsonl"]
    for path in prepared:
        if path.exists():
            rows = len(load_problems(str(path), max_problems=_ROWS_LOOKED_AT))
            yield passed(f"{path.name}: the first {rows} problems are readable")
        else:
            yield warned(f"{path} is not there yet", "python -m grpo_training.prepare_data")
    traces = folder / "teacher_traces.jsonl"
    if traces.exists():
        yield from _traces(traces)
    else:
        yield warned(f"{traces} is not there yet", "python -m grpo_training.generate_teacher_traces")


def _library(path: Path) -> Finding:
    from engine.experience.file import parse_library

    try:
        entries = parse_library(path.read_bytes(), path).entries
    except ScaffoldError as error:
        return failure_of(error)
    return passed(f"{path.name}: {len(entries)} lessons")


def _traces(path: Path) -> Iterator[Finding]:
    from agents.generator import prompt_hash
    from engine.storage.append_log import LineReader
    from engine.task import known_tasks
    from prompts import prompt_styles

    lines = list(islice(LineReader(path).read(to_the_end=True), _ROWS_LOOKED_AT))
    traces = [trace for line in lines if (trace := _trace(line)) is not None]
    yield verdict(
        len(traces) == len(lines),
        f"{path.name}: {len(traces)} of the first {len(lines)} lines are whole traces",
        "The command that made it mends a torn last line by itself; other broken lines are left out.",
    )
    now = {prompt_hash(task, style) for task in known_tasks() for style in prompt_styles()}
    others = {trace.prompt_hash for trace in traces} - now
    if others:
        yield warned(
            f"{path.name}: traces of prompts that there are no more ({', '.join(sorted(others))})",
            "Training leaves them out; make them anew: python -m grpo_training.generate_teacher_traces --fresh",
        )


def _trace(line: Line) -> TeacherTrace | None:
    from pydantic import ValidationError

    from grpo_training.teacher.traces import TeacherTrace

    try:
        return TeacherTrace.model_validate_json(line.text)
    except ValidationError:  # also a torn line, whose text is empty
        return None


def disk(folders: Sequence[Path]) -> Iterator[Finding]:
    """Free space where results are written; each place once."""
    seen = set()
    for folder in folders:
        place = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
        device = place.stat().st_dev
        if device in seen:
            continue
        seen.add(device)
        free = shutil.disk_usage(place).free
        text, fix = f"{free / 2**30:.1f} GiB free at {place}", "Delete what is not needed, or name another --cache-dir."
        if free < _LEAST_FREE:
            yield failed(text, fix)
        else:
            yield passed(text) if free >= _ENOUGH_FREE else warned(text, fix)


def shipped_model() -> Iterator[Finding]:
    """The pocket model: its files, and that its weights load and give finite numbers."""
    folder = POCKET_MODEL
    needed = ("config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja")
    lacking = [name for name in needed if not (folder / name).is_file()]
    fix = "git checkout data/models/pocket, or install the package again."
    yield verdict(not lacking, f"{folder}: {', '.join(lacking) or 'all files'}", fix)
    if lacking:
        return
    for package in ("torch", "transformers"):
        if importlib.util.find_spec(package) is None:
            yield skipped(f"loading it: {package} is not installed (make local)")
            return
    from transformers.utils import logging

    from grpo_training.pocket.evaluate import load_model

    logging.disable_progress_bar()
    model, tokenizer = load_model(folder)
    ids = tokenizer("1 + 1", return_tensors="pt")["input_ids"]
    finite = bool(model(ids).logits.isfinite().all())
    yield verdict(finite, f"it loads: {model.num_parameters() / 1e6:.1f} million parameters, finite logits", fix)
