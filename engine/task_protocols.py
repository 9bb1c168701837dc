"""What only some tasks can do. A task implements the protocols that it needs; callers ask with ``isinstance``.

A protocol is implemented by all of its members. A class that inherits from it gets those that have a default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, runtime_checkable

from pydantic import BaseModel

from engine.records import Candidate, DisplayBlock, ImageReference, Problem
from engine.task import Example, Measurement, ScoredFields, Task

if TYPE_CHECKING:
    from engine.answers.how_compared import HowCompared
    from engine.installation_checks import CheckResult
    from engine.task_datasets import DataPreparation
    from engine.training_reward import TrainingReward

RowReader = Callable[[Mapping[str, Any], str], "Problem | None"]
"""Reads a row, given its place for messages; None for a row of another part."""


@runtime_checkable
class ReadsDescribedRows(Protocol):
    """Rows of a user's file are described as a whole before the task reads them: which column is what."""

    def described_problem(self, row: Mapping[str, Any], how: HowCompared, where: str) -> Problem:
        """The problem of a described row.

        Args:
            row: with the fields ``problem`` and ``answer``; others are kept as they are.
            how: how answers are compared, as the right answers of all rows suggest.
            where: the place of the row, for messages.

        Raises:
            InputError: the row could not be scored.
        """

    def question(self, example: Problem, text: str) -> Problem:
        """A problem whose answer is not known, for a prompt that was improved on a dataset.

        Args:
            example: a problem of the dataset.
            text: of the question.
        """

    def comparison_in_words(self, how: HowCompared) -> str:
        """How answers are compared, for the start of a run."""


@runtime_checkable
class ReadsWholeRows(Protocol):
    """Rows are given to a user's code as they are; what describes them says only how an answer is compared."""

    def whole_problem(
        self, row: Mapping[str, Any], where: str, *, answer: str, compared: tuple[str, HowCompared] | None
    ) -> Problem:
        """The problem of a row.

        Args:
            row: as it is.
            where: the place of the row, for messages.
            answer: the column of the right answer; empty if it is not known.
            compared: the right answer, and how answers are compared; None if it is not known.
        """


@runtime_checkable
class ShowsImages(Protocol):
    """Problems may have images, whose tags stand in the text of the problem."""

    def with_images(self, problem: Problem, images: Sequence[Mapping[str, Any]]) -> Problem:
        """The problem with images: those of the tags in its text, in their order, as JSON values."""

    def images(self, problem: Problem) -> Sequence[ImageReference]:
        """The images of a problem, in the order of their tags."""


def images_of(task: object, problem: Problem) -> Sequence[ImageReference]:
    """The images of a problem; empty if it has none."""
    return task.images(problem) if isinstance(task, ShowsImages) else ()


@runtime_checkable
class TakesSchema(Protocol):
    """Replies to a problem may have the form of the user's own JSON schema."""

    def with_schema(self, problem: Problem, schema: Mapping[str, Any]) -> Problem:
        """The problem, to which replies are JSON objects that fit a schema.

        Raises:
            InputError: the answer cannot be read from such an object.
        """

    def schema(self, problem: Problem) -> dict[str, Any] | None:
        """The schema of a problem; None if it has none."""


def schema_of(task: Task[Any], problem: Problem) -> dict[str, Any] | None:
    """The JSON schema of a reply to a problem: that of the user, or that of the task."""
    schema = task.schema(problem) if isinstance(task, TakesSchema) else None
    return task.reply_schema if schema is None else schema


@runtime_checkable
class AsksByItself(Protocol):
    """Something else than one request answers a prompt of the task, such as a program."""

    def asked_through(self, client: Any) -> Any:
        """A client with the methods of ``client``, which answers prompts of the task by means of it."""


ClientT = TypeVar("ClientT")


def asked_through(task: object, client: ClientT) -> ClientT:
    """The client that answers the prompts of a task: the given one, unless the task has its own way."""
    return task.asked_through(client) if isinstance(task, AsksByItself) else client


@runtime_checkable
class RemarksOnProblems(Protocol):
    """A run begins with what the task has to say about its problems."""

    def remarks(self, problems: Sequence[Problem]) -> Sequence[str]:
        """What a person should know before anything is paid for, in sentences."""


@runtime_checkable
class ReadsQuestions(Protocol):
    """A row of the task needs more than the text of a question, or its prompt shows several fields."""

    def question_row(self, example: Problem) -> tuple[Mapping[str, Any], Sequence[str]]:
        """A row for questions whose answer is not known.

        Args:
            example: a problem of the dataset; its text may be missing.

        Returns:
            the fields that each such row has, and the names of those that the question fills.
        """


@runtime_checkable
class MakesAnswers(Protocol):
    """The answer of a candidate is more than its ``stated_answer``: it is computed, or it is a program."""

    def answer(self, candidate: Candidate[Any]) -> str | None:
        """The answer of a candidate of any outcome, without its problem's truth; None if it has none."""


@runtime_checkable
class DisplaysItself(Protocol):
    """The viewer shows more of a candidate than its reply."""

    def display(
        self, candidate: Candidate[Any], problem: Problem, detail: Mapping[str, Any], folder: Path
    ) -> Sequence[DisplayBlock]:
        """What people see of a candidate beside its reply. It only reads what is stored: nothing is run or measured.

        Args:
            candidate: the candidate.
            problem: its problem.
            detail: the ``reward_detail`` of its record; from a file, so that any key may be missing.
            folder: the folder of the record's file.
        """


@runtime_checkable
class TakesOpinions(Protocol):
    """The opinion of a configured judge is part of ``r_logic``."""

    def wants_opinion(self, candidate: Candidate[Any]) -> bool:
        """Whether there is something to judge."""


@runtime_checkable
class JudgedByRubric(Protocol):
    """Answers to some problems have no truth; a judge says how much of a rubric they fulfil: ``r_rubric``."""

    def rubric(self, problem: Problem) -> str | None:
        """The criteria of a good answer; None for a problem with a truth, which needs no judge."""


@runtime_checkable
class GradesInParts(Protocol):
    """More components than ``r_ans`` grade the answer itself. Training pays a wrong answer these alone."""

    @property
    def answer_components(self) -> frozenset[str]:
        """The names of these components, ``r_ans`` among them."""


@runtime_checkable
class TrainsOnline(Protocol):
    """Online training whose configuration has settings of a reward pays this reward."""

    @property
    def training_reward(self) -> TrainingReward[Any, Any]:
        """The reward, and the keys of its settings."""


@runtime_checkable
class HasCheckOptions(Protocol):
    """``score_rollouts`` offers options of the checks and rewards as flags."""

    @property
    def check_options(self) -> BaseModel:
        """The options with their values."""

    def with_check_options(self, options: BaseModel) -> Self:
        """This task with other options, of the type of :attr:`check_options`."""


@runtime_checkable
class AddsScoredFields(Protocol):
    """Scored rows have further keys of this task."""

    def scored_fields(self, candidate: Candidate[Any], measurement: Measurement) -> ScoredFields:
        """What a scored row says of a candidate beside its rewards."""
        return ScoredFields()


@runtime_checkable
class PreparesData(Protocol):
    """``prepare_data`` selects training problems, whose tests accept or reject the traces of a teacher."""

    @property
    def preparation(self) -> DataPreparation:
        """How training problems are selected, by default."""

    def tests(self, problem: Problem) -> Sequence[Any]:
        """The tests that decide on a candidate, as JSON values. Traces are made of problems with tests only."""

    def canonical(self, record: str) -> str:
        """A candidate's record without what does not change its meaning, so that equal candidates have equal texts."""
        return record


@runtime_checkable
class ChecksItself(Protocol):
    """``doctor`` checks what the task needs on this machine."""

    @property
    def example(self) -> Example:
        """A small problem with replies, for checks of an installation and of an endpoint."""

    def checks(self) -> Sequence[tuple[str, Callable[[], Iterable[CheckResult]]]]:
        """Titles and functions of the checks."""
        return ()
