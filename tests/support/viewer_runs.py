"""Caches for the tests of the viewer: rollouts with rewards as given, written as the commands write them."""

import base64
import gzip
import itertools
import re
from pathlib import Path

from engine.records import Completion, Fault, Outcome, Rollout, RolloutGroup, Usage
from engine.statistics.groups import group_stats
from engine.storage.lines import encode_line
from grpo_training.runs.run import RunManifest
from tests.conftest import ROOT


def rollout(number, reward, **fields):
    """A rollout; correct if its reward is above one half. None: a failed call."""
    if reward is None:
        fault = Fault(kind="http_429", message="too many requests")
        return Rollout(rollout_id=number, outcome=Outcome.INFRA_FAULT, fault=fault)
    usage = Usage(prompt_tokens=100, completion_tokens=20, cost_usd=0.001)
    values = {
        "answer": "42",
        "is_correct": reward > 0.5,
        "r_ans": float(reward > 0.5),
        "r_logic": reward,
        "r_graph": 0.5,
        "r_total": reward,
        "completion": Completion(text="a reply", usage=usage, latency_s=1.5, model="tiny"),
    }
    return Rollout(rollout_id=number, **{**values, **fields})


def group(problem, rewards, *, text="How many?", at=0, epoch=0, fields=None):
    """A group with one rollout per reward."""
    rollouts = [rollout(number, reward, **(fields or {})) for number, reward in enumerate(rewards, 1)]
    return RolloutGroup(
        problem_id=problem,
        problem_text=text,
        ground_truth="42",
        rollouts=rollouts,
        timestamp=f"2026-01-02T{at // 3600:02d}:{at // 60 % 60:02d}:{at % 60:02d}+00:00",
        generator_id="generator_1",
        task="math",
        epoch=epoch,
        stats=None if None in rewards else group_stats(rewards, 0.05),
        format=1,
    )


def write(path, groups, *, finished=True, settings=None):
    """A rollouts file, and its manifest if ``settings`` are given."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(encode_line(group) + b"\n" for group in groups))
    if settings is not None:
        name = path.name.replace("_rollouts.jsonl", "_run.json")
        configuration = {"settings": settings, "facts": {"model": "tiny"}}
        RunManifest(path=path.with_name(name), run="abc", configuration=configuration, finished=finished).save()
    return path


def append(path, groups):
    """More groups at the end of the file, without a lock."""
    with path.open("ab") as stream:
        stream.write(b"".join(encode_line(group) + b"\n" for group in groups))


POCKET = ROOT / "tests/characterisation/golden/pocket_journal"
"""A run of the pocket model: three generators, the critic, four libraries. What differs from run to run is ``*``."""


def pocket_run(folder: Path) -> Path:
    """The recorded run in ``folder/cache`` and ``folder/experiences``, with usage, latency and times filled in."""
    usage = '{"prompt_tokens":120,"completion_tokens":48,"cached_tokens":0,"attempts":1,"cost_usd":null}'
    for path in sorted(POCKET.iterdir()):
        text = path.read_text(encoding="utf-8").replace('"usage":"*"', f'"usage":{usage}')
        text = text.replace('"latency_s":"*"', '"latency_s":0.8')
        name = "experiences" if "_experiences." in path.name else "cache"
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / path.name).write_text(_with_times(text), encoding="utf-8")
    return folder


def _with_times(text):
    """Time stamps of the lines in order, one minute apart."""
    times = (f"2026-01-02T10:{number:02d}:07+00:00" for number in itertools.count())
    return re.sub('"(timestamp|created_at|at)":( ?)"\\*"', lambda m: f'"{m[1]}":{m[2]}"{next(times)}"', text)


def exported_page(target, path):
    """The address of a page of an export."""
    return f"{target.as_uri()}#page={path}"


def pages_of(target):
    """The pages of an export, by their paths."""
    stored = re.findall(r'<script type="text/plain" data-page="([^"]+)">([^<]+)<', target.read_text(encoding="utf-8"))
    return {path: gzip.decompress(base64.b64decode(packed)).decode() for path, packed in stored}
