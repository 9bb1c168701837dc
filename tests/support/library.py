"""Shared by the tests of the experience library: experiences, steps and access to the files of a library."""

import json
from datetime import UTC, datetime

from pydantic import TypeAdapter

from engine.experience.events import StepEvent
from engine.experience.library import ExperienceLibrary
from engine.records import Experience, GroupStats, Operation, Problem
from engine.tasks.registry import task_named
from grpo_training.agents.generator import generator_messages

STATS = GroupStats(mean=0.4, std=0.2, advantages=[1.0, -1.0], triggered=True)
PROBLEM = Problem(id="p1", text="How many lattice points lie inside the given circle?", answer="253")
CONTENTS = [
    "Split by parity before counting solutions.",
    "Convert every quantity to SI units first.",
    "Draw a figure and label known angles.",
    "Test conjectures on small cases early.",
    "Bound the variable, then enumerate what remains.",
]


def experience_block(experiences):
    """The experiences as they appear in a prompt."""
    problem = Problem(id="p", text="?", answer="1")
    prompt = generator_messages(task_named("math"), problem, experiences)[-1].content
    return prompt.removesuffix("Problem:\n?").strip("\n")


def rendered(state):
    """The JSON file of a library, written as a whole."""
    return TypeAdapter(tuple[Experience, ...]).dump_json(state.experiences, indent=2) + b"\n"


def clock(day=1):
    return lambda: datetime(2026, 1, day, tzinfo=UTC)


def outcome(number=0, run="r", used=(), rollouts=3, correct=1):
    return step_of(run, number, PROBLEM, 0, used, rollouts, correct, STATS)


def step_of(run, step, problem, epoch, used, rollouts, correct, stats=None, trial=None, **how):
    """A scored group for :func:`commit`; ``how`` are the further arguments of ``commit_step``."""
    figures = {"mean": stats.mean, "std": stats.std} if stats else {}
    event = StepEvent(at="", run=run, step=step, problem_id=problem.id, epoch=epoch, used=list(used),
                      rollouts=rollouts, correct=correct, trial=trial, **figures)  # fmt: skip
    return event, problem, how


def commit(library, step, proposals=()):
    """Record a scored group in a library."""
    event, problem, how = step
    return library.commit_step(event, proposals, problem, **how)


def add(content, **more):
    return Operation(op="add", content=content, **more)


def entries(path):
    return json.loads(path.read_text(encoding="utf-8"))


def log_of(path):
    return path.with_suffix(".ops.jsonl")


def contents(library):
    return [experience.content for experience in library.state.experiences]


def by_hand(library, contents=None, new=()):
    """The library after an edit of its JSON file: other contents, by id, and new entries."""
    path = library.json_path
    stored = entries(path) if path.exists() else []
    for entry in stored:
        entry["content"] = (contents or {}).get(entry["id"], entry["content"])
    path.write_text(json.dumps([*stored, *({"content": text} for text in new)]), encoding="utf-8")
    return ExperienceLibrary(path, clock=library._clock)


def mark(library, op, experience_id):
    """Change an experience as ``pin``, ``unpin``, ``forbid`` and ``remove`` do."""
    return library.edit(Operation(op=op, id=experience_id))
