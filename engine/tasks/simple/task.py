"""Tasks with plain answers, and tasks made of a prompt and a reward function."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from engine.errors import ConfigurationError, InputError
from engine.own_data.single_row import answer_column, question_of
from engine.reading.plugins import source_digest
from engine.records import Candidate, Completion, Outcome, Problem
from engine.statistics.groups import combine_rewards
from engine.task import Measurement, Task, Teaching
from engine.task_datasets import Dataset
from engine.tasks.registry import task_named
from engine.tasks.rows import problem_with_answer
from engine.tasks.simple.reward import Reward, called, fault, measure, raised
from engine.tasks.trying import tried_before_run

_MAX_CHARACTERS = 100_000
"""Characters of a completion that are read, from its end."""

NO_TRUTH = "(not given)"
"""What the analyst reads in place of a truth that is not known."""

_SHOWN_ROW = 2000
"""Characters of a row that the analyst reads in place of an answer."""

_ROWS = 200
"""Rows to generate if no number is given."""


class PlainTask(Task[str]):
    """A task whose completions are reasoning, then the answer in ``<answer>`` tags. ``content`` is the answer.

    Text before ``</think>`` is reasoning. Without tags the whole remaining text is the answer.
    """

    reply_description = "reasoning, then the final answer inside <answer> and </answer>"

    def parse(self, completion: Completion, problem: Problem) -> Candidate[str]:
        """Read the answer: the content of the last ``<answer>`` tags, or the text after the reasoning."""
        text = completion.text[-_MAX_CHARACTERS:]
        rest = text.rpartition("</think>")[2]
        before, closing, _ = rest.rpartition("</answer>")
        answer = (before if closing else rest).rpartition("<answer>")[2].strip()
        if not answer:
            return Candidate(Outcome.MODEL_FAULT, text=text)
        return Candidate(Outcome.OK, stated_answer=answer, content=answer, text=text)

    def gold_reply(self, problem: Problem) -> str | None:
        """The truth in tags, if it is given."""
        truth = self.truth(problem)
        return None if truth == NO_TRUTH else f"<answer>{truth}</answer>"


class SimpleTask(PlainTask):
    """A task made of a prompt and a reward function.

    Args:
        prompt: the problem text of a row: a template with the row's fields in braces (``"Sort: {words}"``), or a
            function of the row.
        reward: scores an answer; see :data:`Reward`. An exception, or a number outside [0, 1], is a fault of the
            checker: the group is left open.
        name: the name in datasets and records; by default the name of the reward function.
        rows: the task's dataset, which has the name of the task: rows, or a function of their number.
        reward_weights: weights of the components; by default they count equally.
        instructions: the format of a reply, in place of the default text, which asks for ``<answer>`` tags.
        right: when an answer counts as right: the name of a component, which has to be 1, or the least weighted reward
            in (0, 1]. None: all components have to be 1.

    Raises:
        ConfigurationError: ``right`` is neither a component of ``reward_weights``, if these are given, nor such a
            number.
    """

    def __init__(
        self,
        prompt: str | Callable[[Mapping[str, Any]], str],
        reward: Reward,
        *,
        name: str = "",
        rows: Iterable[Mapping[str, Any]] | Callable[[int], Iterable[Mapping[str, Any]]] = (),
        reward_weights: Mapping[str, float] = MappingProxyType({}),
        instructions: str = "",
        right: str | float | None = None,
    ) -> None:
        self.name = name or getattr(reward, "__name__", "simple")
        self.reward_weights = reward_weights
        self._prompt, self._reward, self._rows, self._instructions = prompt, reward, rows, instructions
        self._right = _checked_right(right, self.name, reward_weights)
        self.dataset_names = (self.name,) if rows else ()

    @property
    def function(self) -> Reward | None:
        """The reward function, of a task that was made of nothing else; None of others."""
        return self._reward if self._prompt is question_of else None

    @property
    def templates(self) -> Mapping[str, str]:
        """The instructions, if they are not the default ones."""
        return {"answer_format.j2": f"{{% raw %}}{self._instructions}{{% endraw %}}"} if self._instructions else {}

    def dataset(self, name: str) -> Dataset:
        """The rows of the task."""

        def generate(count: int | None) -> list[Problem]:
            rows = self._given_rows(count)
            problems = [self.problem_from_row(row, f"{name}, row {number}") for number, row in enumerate(rows, 1)]
            numbered = [
                problem if problem.id else problem.model_copy(update={"id": f"{self.name}_{number:03d}"})
                for number, problem in enumerate(problems, 1)
            ]
            return numbered[:count]

        return Dataset(generate=generate)

    def _given_rows(self, count: int | None) -> list[Mapping[str, Any]]:
        try:
            rows = list(called(self._rows, count or _ROWS) if callable(self._rows) else self._rows)
        except Exception as error:  # the function is the user's own code
            why = raised(error)
            raise InputError(f"{self.name}: its rows cannot be made", why=f"rows(count) raised {why}.") from error
        other = next((row for row in rows if not isinstance(row, Mapping)), None)
        if other is not None:
            raise InputError(
                f"{self.name}: a row is a {type(other).__name__}: {str(other)[:60]}",
                fix='A row is a dict of fields, such as {"words": "b a"}.',
            )
        return rows

    def problem_from_row(self, row: Mapping[str, Any], where: str) -> Problem:
        """The problem of a row; ``answer`` is the whole row as JSON, which the reward function gets back."""
        fields = {key: value for key, value in row.items() if key != "task"}
        try:
            text = called(self._prompt, row) if callable(self._prompt) else self._prompt.format_map(fields)
            if not isinstance(text, str):
                raise TypeError(f"the prompt is a {type(text).__name__} in place of a text")
            answer = json.dumps(fields, ensure_ascii=False, sort_keys=True)
        except InputError as error:
            raise InputError(f"{where}: {error.what}", why=error.why, fix=error.fix) from None
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise InputError(
                f"{where}: the row does not fit the prompt of {self.name}",
                why=f"{type(error).__name__}: {error}. The fields of the row: {', '.join(map(str, fields)) or 'none'}.",
                fix="A template names fields in braces; a brace of its own text is written twice, as {{ or }}.",
            ) from None
        if not text.strip():
            raise InputError(f"{where}: the prompt of {self.name} is empty")
        given = row.get("id")
        return Problem(id="" if given is None else str(given), text=text, answer=answer, task=self.name)

    def question_row(self, example: Problem) -> tuple[Mapping[str, Any], Sequence[str]]:
        """The row of the example; a question replaces the texts in it that the prompt shows."""
        row = dict(self.reward_row(example))
        texts = [name for name, value in row.items() if isinstance(value, str)]
        mark = "<text of the question>"
        return row, [name for name in texts if mark in self.problem_from_row({**row, name: mark}, name).text]

    def evaluate(self, candidate: Candidate[str], problem: Problem) -> Measurement:
        """The reward of the answer; 0 if there is none."""
        if candidate.content is None:
            return Measurement(dict.fromkeys(self.reward_weights or ("r_ans",), 0.0), False)
        measured = measure(self._reward, candidate.content, self.reward_row(problem))
        if measured.is_correct is None or self._right is None:
            return measured
        if isinstance(self._right, str):
            component = measured.components.get(self._right)
            if component is None:
                return fault(f"the reward function returned no {self._right!r}, which says what is right", None)
            return replace(measured, is_correct=math.isclose(component, 1))
        total = combine_rewards(measured.components, self.reward_weights or dict.fromkeys(measured.components, 1.0))
        is_correct = total is not None and (total >= self._right or math.isclose(total, self._right))
        return replace(measured, is_correct=is_correct)

    def verifier(self) -> Mapping[str, Any]:
        """A digest of the file of the reward function, and what counts as right."""
        right = {} if self._right is None else {"right": self._right}
        return {**super().verifier(), "reward": source_digest([self._reward]), **right}

    def remarks(self, problems: Sequence[Problem]) -> list[str]:
        """What counts as right, how many rows have no answer field, and which answers of rows are not right.

        Raises:
            InputError: the reward function cannot score an answer to one of the problems that were tried.
        """
        if isinstance(self._right, str):
            rule = f"{self._right} is 1"
        elif self._right is not None:
            rule = f"its reward is at least {self._right:g}"
        else:
            rule = "each component of its reward is 1 (SimpleTask(..., right=...) changes this)"
        remarks = [f"{self.name}: an answer counts as right if {rule}."]
        without = sum(self._answer(problem) is None for problem in problems)
        if without:
            remarks.append(
                f"{self.name}: {without} of {len(problems)} rows have no column such as answer or label; "
                "the analyst reads the whole row in place of the right answer."
            )
        return remarks + self._tried(problems)

    def _tried(self, problems: Sequence[Problem]) -> list[str]:
        """Score ``?`` and the right answer of each row that is tried; what is odd about the scores."""
        tried, slowest, nonsense = 0, 0.0, 0
        wrong: list[tuple[str, Measurement]] = []
        for problem in tried_before_run(problems):
            for answer in filter(None, ("?", self._answer(problem))):
                before = time.monotonic()
                measured = self._checked(answer, problem)
                slowest = max(slowest, time.monotonic() - before)
                if answer == self._answer(problem) and not measured.is_correct:
                    wrong.append((problem.id, measured))
                nonsense += answer == "?" != self._answer(problem) and bool(measured.is_correct)
            tried += self._answer(problem) is not None
        said = []
        if wrong:
            problem_id, measured = wrong[0]
            scores = ", ".join(f"{name} = {number:g}" for name, number in measured.components.items())
            said.append(
                f"⚠ {self.name}: the right answer of {len(wrong)} of {tried} rows does not count as right, such as "
                f"that of {problem_id}: {scores}. Check the reward function, or the row."
            )
        if nonsense:
            said.append(f"⚠ {self.name}: the answer '?' counts as right in {nonsense} rows. Check the reward function.")
        if slowest > 1:
            said.append(f"{self.name}: the reward function takes up to {slowest:.1f} s for an answer.")
        return said

    def _checked(self, answer: str, problem: Problem) -> Measurement:
        measured = self.evaluate(Candidate(Outcome.OK, stated_answer=answer, content=answer), problem)
        why = measured.detail.get("why", "")
        unweighted = [name for name in measured.components if self.reward_weights and name not in self.reward_weights]
        if unweighted:
            why = f"the reward function returned {unweighted[0]!r}, which is not in reward_weights"
        if measured.is_correct is None or unweighted:
            raise InputError(
                f"{self.name}: {why}",
                why=f"It was called with the answer {answer[:40]!r} of {problem.id} before anything is asked.",
                fix="Correct the reward function: for any text it returns a number from 0 to 1, or several by name.",
            )
        return measured

    def truth(self, problem: Problem) -> str:
        """The answer field of the row; without one, the row, which the reward function judges by."""
        answer = self._answer(problem)
        if answer is not None:
            return answer
        row = json.dumps(dict(self.reward_row(problem)), ensure_ascii=False)
        return f"{NO_TRUTH}; the row that the reward is computed from: {row[:_SHOWN_ROW]}"

    def gold_reply(self, problem: Problem) -> str | None:
        """The answer field of the row in tags, if it has one."""
        answer = self._answer(problem)
        return None if answer is None else f"<answer>{answer}</answer>"

    def teaching(self, problem: Problem, wrong: Sequence[str] = ()) -> Teaching:
        """A case states the answer field of the row."""
        return replace(super().teaching(problem), answer=self._answer(problem))

    def leaks_answer(self, content: str, problem: Problem) -> bool:
        """Whether an experience gives away the answer field of the row; without one, a field that is not in the prompt.

        The analyst has read the whole row then.
        """
        answer = self._answer(problem)
        texts = [answer] if answer is not None else self._hidden(problem)
        return any(
            super(SimpleTask, self).leaks_answer(content, problem.model_copy(update={"answer": text})) for text in texts
        )

    def _answer(self, problem: Problem) -> str | None:
        row = self.reward_row(problem)
        column = answer_column(row)
        return None if column is None else _as_text(row[column])

    def _hidden(self, problem: Problem) -> list[str]:
        """The values of the row, also within lists and objects, that the prompt does not show."""
        return [text for text in _values(dict(self.reward_row(problem))) if text.strip() and text not in problem.text]

    def reward_row(self, problem: Problem) -> Mapping[str, Any]:
        """The row that the problem was made of."""
        row: Mapping[str, Any] = json.loads(problem.answer)
        return row


def task_of(reward: Reward) -> SimpleTask:
    """The task of a reward function alone."""
    return SimpleTask(question_of, reward)


class RewardTask(PlainTask):
    """Scores completions of any task's problems by a reward function.

    Args:
        reward: scores an answer; see :data:`Reward`.
    """

    name = "reward"

    def __init__(self, reward: Reward) -> None:
        self._reward = reward

    def problem_from_row(self, row: Mapping[str, Any], where: str) -> Problem:
        """A row with a text and an answer."""
        return problem_with_answer(row, where, self.name)

    def evaluate(self, candidate: Candidate[str], problem: Problem) -> Measurement:
        """The reward of the answer; 0 if there is none."""
        if candidate.content is None:
            return Measurement({"r_ans": 0.0}, False)
        return measure(self._reward, candidate.content, task_named(problem.task).reward_row(problem))


def _checked_right(right: str | float | None, name: str, weights: Mapping[str, float]) -> str | float | None:
    if isinstance(right, str):
        if weights and right not in weights:
            raise ConfigurationError(
                f"Task {name!r}: right={right!r} is no component of reward_weights", fix=f"One of {', '.join(weights)}."
            )
        return right
    if right is not None and not 0 < right <= 1:
        raise ConfigurationError(f"Task {name!r}: right={right!r} is no reward in (0, 1]")
    return right


def _as_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)


def _values(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for element in value:
            yield from _values(element)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)
