"""A prompt with the experiences of a library, for any client: what a run of ``improve`` leaves behind."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from engine.errors import InputError, MissingInputError
from engine.experience.choice import LearnedExperiences, lessons_of
from engine.experience.events import ChoiceRecord, GateEvent
from engine.experience.state import LibraryState
from engine.records import IMAGE_COLUMN, IMAGE_MARK, ChatRequest, Completion, Experience, Message, Problem, Record
from engine.task import Task
from engine.task_protocols import MakesAnswers, ReadsDescribedRows, ReadsQuestions, ShowsImages, images_of
from engine.tasks.registry import load_task
from grpo_training.agents.generator import generator_messages

RESULT, EXPERIENCES, MESSAGES = "result.json", "experiences.json", "messages.json"
PLACEHOLDER = "{question}"
"""Stands for the text of a problem in the messages that are written to a file."""


class Result(Record):
    """The content of ``result.json``.

    Args:
        sentence: the result in words.
        verdict: of the test; ``nothing_learned`` without one, ``not_finished`` before it has ended.
        gate: the test; None without one, and before it has ended.
        task: name or place of the task.
        prompts: prompt style.
        model: that was asked.
        role: generator whose library it is.
        dataset: that was learned from.
        choice: which experiences go into a prompt.
        example: a problem of the dataset without its text; its answer tells how answers are written, such as labels.
        is_static: whether all prompts have the same experiences, so that ``messages.json`` is what was tested.
        temperature: with which the prompt was tested.
        response_format: the form of replies that was asked for; None if none was, or if the endpoint takes none.
        tokens, cost_usd: of the run so far; the cost is None if the prices are not known.
        remark: how many problems were asked with other instructions than those of this prompt; empty if none were.
    """

    sentence: str
    verdict: str
    gate: GateEvent | None = None
    task: str
    prompts: str
    model: str
    role: str
    dataset: str
    choice: ChoiceRecord | None = None
    example: Problem
    is_static: bool = True
    temperature: float | None = None
    response_format: dict[str, Any] | None = None
    tokens: int = Field(0, ge=0)
    cost_usd: float | None = None
    remark: str = ""


class Improved:
    """A prompt with the experiences that were learned and tested.

    Needs no network and no model: the experiences that match a question are found by its words, as in the test.

    Args:
        result: what was tested.
        experiences: those of the library that are in use.
    """

    def __init__(self, result: Result, experiences: Sequence[Experience]) -> None:
        self.result, self.experiences = result, tuple(experiences)
        self._task: Task = load_task(result.task)
        self._state = LibraryState(self.experiences, {}, len(self.experiences) + 1, choice=result.choice)
        self._chosen = LearnedExperiences(self._state)

    @classmethod
    def load(cls, folder: Path | str) -> Improved:
        """Read a folder such as ``runs/mails/improved``.

        Raises:
            MissingInputError: a file is missing.
            InputError: a file is damaged, or the task is not there.
        """
        folder = Path(folder)
        try:
            result = Result.model_validate_json((folder / RESULT).read_text(encoding="utf-8"))
            rows = json.loads((folder / EXPERIENCES).read_text(encoding="utf-8"))
            places = {"task": _task_place(result.task, folder), "prompts": _prompts_place(result.prompts, folder)}
            result = result.model_copy(update=places)
            return cls(result, [Experience.model_validate(row) for row in rows])
        except MissingInputError:  # the task
            raise
        except FileNotFoundError as error:
            raise MissingInputError(
                f"{error.filename} is missing", fix="Give the folder `improved` of a run of grpo_training.improve."
            ) from None
        except (ValidationError, ValueError, TypeError) as error:
            raise InputError(f"Cannot read {folder}", why=str(error)[:300]) from None

    def figures(self) -> dict[str, float]:
        """What was found, as numbers by name; shares of right answers are from 0 to 1."""
        result, gate = self.result, self.result.gate
        figures: dict[str, float | None] = {"experiences": len(self.experiences), "tokens": result.tokens}
        figures["cost_usd"] = result.cost_usd
        if gate is not None:
            figures |= {"accuracy_before": gate.right_without, "accuracy_after": gate.right_with, "gain": gate.mean}
            figures |= {"gain_low": gate.low, "gain_high": gate.high, "tokens_ratio": gate.tokens_ratio}
        return {name: value for name, value in figures.items() if value is not None}

    def tested(self) -> LearnedExperiences:
        """The experiences for a test: a problem is asked without those that were learned from it."""
        return LearnedExperiences(self._state, without_own=True)

    def messages(self, question: str | Mapping[str, Any]) -> list[dict[str, Any]]:
        """The messages of a chat request for a question.

        Args:
            question: the text of the problem, or a row of a dataset of the same task where a prompt needs more than the
                text (such as the signature of a function, or an image: a path, a URL or a data URL).

        Returns:
            ``role`` and ``content`` of each message, as clients of the OpenAI protocol take them. The content with an
            image is a list of parts.
        """
        problem = self._problem(question)
        messages, images = self.for_problem(problem), images_of(self._task, problem)
        if not images:
            return [message.model_dump() for message in messages]
        from engine.llm.requests import wire_messages
        from grpo_training.agents.chat import showing  # with the bodies of requests, for questions with images only

        return wire_messages(showing(ChatRequest(role=self.result.role, messages=messages), images, problem))

    def _problem(self, question: str | Mapping[str, Any] | None) -> Problem:
        """A question as a problem of the task; None: with placeholders for its texts."""
        task, example = self._task, self.result.example
        if isinstance(question, Mapping) and isinstance(task, ReadsDescribedRows) and isinstance(task, ShowsImages):
            text, images = _described(question)
            if images:
                return task.with_images(task.question(example, text), images)
        if isinstance(question, Mapping):
            given = {"id": "question", **question}
            if isinstance(task, ReadsQuestions):
                with suppress(InputError):  # it lacks what a question does not have
                    return self._read(given)
                given = {**task.question_row(example)[0], **given}
            return self._read(given)
        text = PLACEHOLDER if question is None else question
        if isinstance(task, ReadsDescribedRows):
            return task.question(example, text)
        if not isinstance(task, ReadsQuestions):
            return example.model_copy(update={"id": "question", "text": text})
        row, names = task.question_row(example)
        if len(names) == 1:
            return self._read({**row, "id": "question", names[0]: PLACEHOLDER if question is None else question})
        if question is None:
            return self._read({**row, "id": "question", **{name: f"{{{name}}}" for name in names}})
        raise InputError(
            f"A question of {self.result.task} has the fields {', '.join(names)}",
            fix=f"Give a row: messages({{{', '.join(f'{name!r}: ...' for name in names)}}}).",
        )

    def _read(self, row: Mapping[str, Any]) -> Problem:
        read = self._task.problem_from_row(row, "question")
        if read is None:
            raise InputError("The row is not a problem of the task", why=f"Task: {self.result.task}.")
        return read

    def for_problem(self, problem: Problem) -> tuple[Message, ...]:
        """The messages for a problem of the task."""
        return generator_messages(self._task, problem, self._chosen.of(problem), self.result.prompts)

    def prompts(self, row: Mapping[str, Any]) -> dict[str, str]:
        """The texts that a program puts into its prompts for a row, by the name of the prompt.

        Raises:
            InputError: the task is no program.
        """
        try:
            texts: dict[str, str] = json.loads(self.messages(row)[-1]["content"])["prompts"]
        except (ValueError, TypeError, KeyError):
            raise InputError(f"{self.result.task} is no program", fix="Use messages(question).") from None
        return texts

    def answer(self, reply: str, question: str | Mapping[str, Any] | None = None) -> str | None:
        """The answer of a reply, as the task reads it: of a scaffold the computed one, of code the program.

        Args:
            reply: the text of the model.
            question: as for :meth:`messages`; not needed for most tasks.

        Returns:
            None if it has no answer.
        """
        candidate = self._task.parse(Completion(text=reply), self._problem(question))
        return self._task.answer(candidate) if isinstance(self._task, MakesAnswers) else candidate.stated_answer

    def text(self) -> str:
        """The static prompt as one text with ``{question}``, for tools that take a text."""
        return "\n\n".join(message["content"] for message in self.static_messages())

    def static_messages(self) -> list[dict[str, str]]:
        """The messages with ``{question}`` in place of the question.

        Of more lessons than a prompt takes they have those whose measured effect is the largest. Cases depend on the
        question, and stand in none of them.
        """
        problem = self._problem(None)
        chosen = lessons_of(self.experiences)
        count = len(chosen) if self.result.choice is None else self.result.choice.k
        if len(chosen) > count:
            best = sorted(chosen, key=lambda lesson: -_effect(lesson))[:count]
            chosen = [lesson for lesson in chosen if lesson in best]
        messages = generator_messages(self._task, problem, chosen, self.result.prompts)
        return [message.model_dump() for message in messages]

    def dspy_signature(self) -> Any:
        """A signature of DSPy from ``question`` to ``answer``: the static prompt is its instructions. Needs ``dspy``.

        DSPy states the question and the form of the answer in its own way, so the prompt is near to the one that was
        tested, but not equal to it.
        """
        import dspy

        return dspy.Signature("question -> answer", self.text().replace(PLACEHOLDER, "(the field `question`)"))

    def solver(self) -> Any:
        """A solver of inspect_ai that asks with the improved prompt of each sample. Needs ``inspect_ai``."""
        from inspect_ai.model import ChatMessageSystem, ChatMessageUser
        from inspect_ai.solver import Generate, TaskState, solver

        kinds = {"system": ChatMessageSystem, "user": ChatMessageUser}

        @solver
        def improved_prompt() -> Any:
            async def solve(state: TaskState, generate: Generate) -> TaskState:
                messages = self.messages(state.input_text)
                state.messages = [kinds[message["role"]](content=message["content"]) for message in messages]
                return await generate(state)

            return solve

        return improved_prompt()


def _described(row: Mapping[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """The text of a row that may have images, whatever its answer, and the images; none if it has none."""
    if not any(map(IMAGE_COLUMN.fullmatch, row)) and "messages" not in row:
        return "", []
    from engine.own_data.describe import describe  # most questions are texts
    from engine.storage.images import with_references

    given = {"answer": "-", **row}
    described, _ = describe([given], where="question", reads_images=True).plain_row(given, "question")
    return with_references(described["problem"], described.get(IMAGE_MARK, []), Path(), "question")


def _task_place(task: str, folder: Path) -> str:
    """The place of the task; a user's file is read from the folder if it is not, or no more, where it was."""
    file, _, name = task.rpartition(":")
    copy = folder / Path(file).name
    if not file.endswith(".py") or not copy.is_file():
        return task
    is_same = Path(file).is_file() and Path(file).read_bytes() == copy.read_bytes()
    return task if is_same else f"{copy}:{name}"


def _prompts_place(prompts: str, folder: Path) -> str:
    """A prompt style, or the user's instructions as the folder has them."""
    copy = folder / Path(prompts).name
    return str(copy) if copy.is_file() else prompts


def _effect(experience: Experience) -> float:
    return 0.0 if experience.trial is None or experience.trial.mean is None else experience.trial.mean
