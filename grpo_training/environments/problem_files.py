"""The folder of an environment: its problems with their prompts, the task if it is a user's file, and the reward."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agents.generator import generator_messages
from engine.errors import InputError, first_line
from engine.records import Completion, Message, Outcome, Problem
from engine.reward_evaluator import RewardEvaluator, Scored
from engine.storage.append_log import replace_file
from engine.storage.lines import LineReader
from engine.tasks.registry import check_verifiers, load_task, task_named

PROBLEMS, TASK_FILE, TASK_PLACE = "problems.jsonl", "task.py", "task.txt"


class NotMeasuredError(RuntimeError):
    """A reply could not be scored, through no fault of the model."""


@dataclass(frozen=True)
class PromptedProblem:
    """A problem and the messages that ask for one reply."""

    problem: Problem
    messages: tuple[Message, ...]

    @property
    def system(self) -> str:
        """The system prompt; empty if there is none."""
        return "\n\n".join(message.content for message in self.messages if message.role == "system")

    @property
    def user(self) -> str:
        """The text of the user."""
        return "\n\n".join(message.content for message in self.messages if message.role != "system")


def write_problems(folder: Path, problems: Sequence[Problem], style: str, task_place: str | None) -> None:
    """Write the files of an environment into a folder.

    Args:
        folder: the folder; it exists.
        problems: the problems.
        style: prompt style of the messages.
        task_place: the user's task, as ``path/to/file.py:NAME``, which is copied, or ``package.module:NAME``; None or a
            name for a task of the project.
    """
    rows = []
    for problem in problems:
        messages = generator_messages(task_named(problem.task), problem, (), style)
        shown = [{"role": message.role, "content": message.content} for message in messages]
        rows.append({"problem": problem.model_dump(mode="json"), "messages": shown})
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    replace_file(folder / PROBLEMS, lines.encode("utf-8", "replace"))
    if task_place is not None and ":" in task_place:
        file, _, name = task_place.rpartition(":")
        if file.endswith(".py"):
            replace_file(folder / TASK_FILE, Path(file).expanduser().read_bytes())
            file = TASK_FILE
        replace_file(folder / TASK_PLACE, f"{file}:{name}\n".encode())


def load_user_task(folder: Path) -> None:
    """Register the user's task of an environment, if it has one: from its copy, or from an installed module."""
    if (folder / TASK_PLACE).is_file():
        place = (folder / TASK_PLACE).read_text(encoding="utf-8").strip()
        load_task(f"{folder}/{place}" if place.startswith(f"{TASK_FILE}:") else place)


def read_problems(folder: Path) -> list[PromptedProblem]:
    """The problems of an environment, after a check that their replies can be scored on this machine.

    Raises:
        InputError: a line of the file is damaged.
        ConfigurationError: a tool that a task needs is missing.
    """
    load_user_task(folder)
    found = []
    for line in LineReader(folder / PROBLEMS).read(to_the_end=True):
        try:
            row = json.loads(line.text)
            messages = tuple(Message.model_validate(one) for one in row["messages"])
            found.append(PromptedProblem(Problem.model_validate(row["problem"]), messages))
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{folder / PROBLEMS}, line {line.number}: not a problem of an environment",
                why=first_line(error),
                fix="Export the environment again.",
            ) from None
    check_verifiers(one.problem for one in found)
    return found


def score_reply(problem: Problem, text: str, *, reasoning: str | None = None, is_cut_off: bool = False) -> Scored:
    """The reward of a reply, as a generator's rollout gets it without a judge. Blocking; thread-safe.

    Raises:
        NotMeasuredError: a checker could not be started, so that there is no reward.
    """
    task = task_named(problem.task)
    completion = Completion(text=text, reasoning=reasoning, finish_reason="length" if is_cut_off else "stop")
    scored = RewardEvaluator().score(task, problem, task.parse(completion, problem))
    if scored.outcome is Outcome.INFRA_FAULT or scored.rewards.r_total is None:
        raise NotMeasuredError(f"{problem.id} was not measured: {scored.detail.get('why') or scored.outcome.value}")
    return scored
