"""The Task contract: what a kind of task implements."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic

from engine.experience.text_checks import leaks_short_answer
from engine.reading.plugins import source_digest
from engine.records import AnswerSource, Candidate, Completion, ContentT, Fault, Outcome, Problem
from engine.task_datasets import Dataset

JSON_OBJECT = "one JSON object in the format that was asked for"
"""Description of a JSON reply in the request to send an unreadable reply again."""

REPLY_FIELDS = ("text", "completion", "response", "output")
"""Where rows of other programs hold the reply."""

MAX_SHOWN_CHARS = 6000
"""Characters of a candidate or reference that the prompts of other models contain."""


@dataclass(frozen=True)
class Measurement:
    """The result of evaluating a candidate.

    Args:
        components: reward components in [0, 1] by name; None means not measured.
        is_correct: whether the answer is right; None if it could not be checked.
        answer: the answer that was scored.
        answer_source: where the answer comes from: ``executed``, ``stated`` or ``none``.
        outcome: ``ok``; ``model_fault`` if the candidate is readable but invalid; ``verifier_timeout`` if a checker
            was killed; ``infra_fault`` if no checker could be started, so that nothing was measured.
        fault: details of a ``model_fault``.
        remarks: texts that the analyst sees beside the attempt.
        detail: the figures behind the components (JSON values), kept on the rollout.
        opinion_weight: what a judge's opinion of the reasoning counts, in [0, 1]: less where the answer is wrong.
    """

    components: Mapping[str, float | None]
    is_correct: bool | None
    answer: str | None = None
    answer_source: AnswerSource = "none"
    outcome: Outcome = Outcome.OK
    fault: Fault | None = None
    remarks: Sequence[str] = ()
    detail: Mapping[str, Any] = field(default_factory=dict)
    opinion_weight: float = 1.0


@dataclass(frozen=True)
class ScoredFields:
    """What a task adds to a scored row of ``score_rollouts``.

    Args:
        row: further keys of the row.
        validation: the verdict in the task's own words, in place of the usual one.
        reward: further keys of ``reward``.
        failed_gates: what the candidate failed, in short codes that the report counts.
    """

    row: Mapping[str, Any] = field(default_factory=dict)
    validation: Mapping[str, Any] | None = None
    reward: Mapping[str, Any] = field(default_factory=dict)
    failed_gates: Sequence[str] = ()


@dataclass(frozen=True)
class Teaching:
    """What a problem teaches others.

    Args:
        rule: what a lesson says after its "When ...", for the analyst.
        answer: the right answer as a case states it; None if only a whole reply shows it.
        is_choice: whether the answer is one of a few, so that a case needs no reply that shows how it is found.
        category: of what is learned, such as a label; None: that of the problem.
        steps: for each prompt of a program, in their order, what a lesson for it says in place of ``rule``. The
            analyst is asked for one of them in turn, and its name is the category.
    """

    rule: str
    answer: str | None
    is_choice: bool = False
    category: str | None = None
    steps: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TaskMerge(Generic[ContentT]):
    """The result of merging candidates without a model: the merged candidate, or the conflicts."""

    candidate: Candidate[ContentT] | None
    conflicts: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Example:
    """A small problem with replies whose score is known.

    Args:
        problem: the problem.
        right: a reply with ``r_ans`` 1.
        wrong: a readable reply with ``r_ans`` 0.
    """

    problem: Problem
    right: str
    wrong: str


class Task(ABC, Generic[ContentT]):
    """A kind of task: how problems are read, how completions are parsed and how candidates are scored.

    Subclasses implement :meth:`problem_from_row`, :meth:`parse` and :meth:`evaluate`; everything else has a default.
    What only some tasks can do are the protocols of :mod:`engine.task_protocols`.
    A task has no state and is used from several threads. Model output is untrusted: no method raises for it, and
    every method ends in bounded time and memory.

    Attributes:
        name: the name in datasets, records and on the command line.
        reward_weights: weight of each reward component in ``r_total``; empty: all components count equally.
        prompt_variables: the names that :meth:`prompt_values` gives to the generator and critic templates, beside
            those that every task has (``problem``, ``experiences``; for the critic ``generator_id``, ``proposals``,
            ``conflicts``).
        reply_schema: JSON schema of a reply, for servers with guided decoding; None if replies are not JSON.
        reply_description: what a reply is, in the request to send an unreadable reply again.
        dataset_names: names of the task's datasets, without the part after a colon.
        row_fields: a row of a user's file that names no task belongs to this task if it has one of these fields.
    """

    name: str
    reward_weights: Mapping[str, float] = MappingProxyType({})
    dataset_names: Sequence[str] = ()
    row_fields: Sequence[str] = ()
    prompt_variables: frozenset[str] = frozenset()
    reply_schema: dict[str, Any] | None = None
    reply_description: str = "a reply in the format that was asked for"

    @abstractmethod
    def problem_from_row(self, row: Mapping[str, Any], where: str) -> Problem:
        """The problem of a dataset row. An empty ``id`` lets the loader number the problem.

        Args:
            row: one row; untrusted.
            where: the place of the row, for error messages (``train.jsonl, line 3``).

        Raises:
            InputError: the row is not a problem of this task, or could not be scored; the message names ``where``.
        """

    @abstractmethod
    def parse(self, completion: Completion, problem: Problem) -> Candidate[ContentT]:
        """Read a completion. It only reads: nothing is executed, compared or measured here.

        Returns:
            a candidate; with the outcome ``model_fault`` if the completion is unreadable. Never raises.
        """

    @abstractmethod
    def evaluate(self, candidate: Candidate[ContentT], problem: Problem) -> Measurement:
        """Measure a candidate: execute it, check its answer, compute its reward components.

        Candidates that could not be read are evaluated too. Blocking; never raises for model output.
        """

    # Datasets

    def dataset(self, name: str) -> Dataset:
        """One of the task's datasets: ``NAME``, ``NAME:PART``, each with ``?key=value&key=value`` if it has options.

        Raises:
            InputError: there is no such part or option.
        """
        return Dataset(files=(f"{name}.jsonl",))

    # Prompts

    @property
    def templates(self) -> Mapping[str, str]:
        """Prompt templates given as text, by file name; they take precedence over files."""
        return {}

    @property
    def prompt_folders(self) -> tuple[Path, ...]:
        """Folders with the prompt templates of the task: ``prompts/`` beside the files of its class and base classes.

        A template that none of them has is taken from the shared ``prompts/``.
        """
        folders = (Path(inspect.getfile(base)).resolve().parent / "prompts" for base in self._own_classes())
        return tuple(dict.fromkeys(folder for folder in folders if folder.is_dir()))

    def prompt_values(self, problem: Problem) -> Mapping[str, Any]:
        """The values of ``prompt_variables`` for a problem."""
        return {}

    # Replies

    def re_ask_reason(self, candidate: Candidate[ContentT]) -> str | None:
        """Why the model should send an unreadable reply again; None if it should not."""
        return None

    def thinking(self, completion: Completion) -> str | None:
        """The reasoning of a completion: its ``reasoning`` field, or the text before ``</think>``."""
        if completion.reasoning and completion.reasoning.strip():
            return completion.reasoning.strip()
        before, closing, _ = completion.text.rpartition("</think>")
        return before.partition("<think>")[2].strip() or before.strip() or None if closing else None

    def to_record(self, candidate: Candidate[ContentT]) -> str | None:
        """The candidate as the ``scaffold`` text of a cache line; None if nothing could be read."""
        return candidate.text or None

    def candidate_from_record(self, scaffold: Any, answer: str | None, problem: Problem) -> Candidate[ContentT]:
        """Read a candidate back from a cache line, which another program may have written."""
        text = scaffold if isinstance(scaffold, str) else answer or ""
        return self.parse(Completion(text=text), problem)

    def show(self, candidate: Candidate[ContentT]) -> str:
        """The candidate as text for another prompt (critic, judge)."""
        return candidate.text[-MAX_SHOWN_CHARS:] or "(unreadable)"

    def reward_row(self, problem: Problem) -> Mapping[str, Any]:
        """The problem as the dataset row that a user's reward function gets."""
        return {"id": problem.id, "problem": problem.text, "answer": problem.answer, **problem.meta}

    def gold_reply(self, problem: Problem) -> str | None:
        """A reply that is right, as :func:`validate` checks it; None if none is known."""
        return None

    # Critic

    def merge(self, candidates: Sequence[Candidate[ContentT]], problem: Problem) -> TaskMerge[ContentT]:
        """Merge candidates without a model. By default candidates that all state the same answer are merged."""
        answers = Counter(candidate.stated_answer for candidate in candidates)
        if len(answers) == 1 and None not in answers:
            return TaskMerge(candidates[0])
        return TaskMerge(None)

    # Analyst and experiences

    def same_answer(self, left: str, right: str) -> bool:
        """Whether two candidates gave the same answer, for a majority vote. By default, whether the texts are equal."""
        return left == right

    def truth(self, problem: Problem) -> str:
        """The right answer as text for the analyst."""
        return problem.answer

    def teaching(self, problem: Problem, wrong: Sequence[str] = ()) -> Teaching:
        """What a problem teaches others.

        Args:
            problem: that was answered.
            wrong: wrong answers that were given.
        """
        return Teaching(
            "says what to check or do, so that this mistake is not made again; it has none of this problem's numbers, "
            "and not its answer",
            self.truth(problem),
        )

    def leaks_answer(self, content: str, problem: Problem) -> bool:
        """Whether an experience gives away the answer of its problem. The default is made for short answers."""
        return leaks_short_answer(content, problem)

    # Stored verdicts

    def verifier(self) -> Mapping[str, Any]:
        """What decides on a measurement beside the reply and the problem, as JSON values: versions and options.

        Stored verdicts are used again only where all of it is equal. By default a digest of the files that define
        the task, and of the modules of ``engine`` that these import.

        Raises:
            ConfigurationError: a tool that the task needs is missing or has another version.
        """
        return {"source": source_digest(self._own_classes())}

    def _own_classes(self) -> list[type[Task[Any]]]:
        """The class of the task and its base classes below this one."""
        return [base for base in type(self).__mro__ if issubclass(base, Task) and base is not Task]


def validate(task: Task[Any], problem: Problem) -> list[str]:
    """What is wrong with the scoring of a problem, in sentences; empty if nothing is.

    The gold reply has to be right and to have ``r_ans`` 1, and the empty reply has to earn 0. Blocking.
    """
    faults = []
    for name, reply in (("gold", task.gold_reply(problem)), ("empty", "")):
        if reply is None:
            continue
        measured = task.evaluate(task.parse(Completion(text=reply), problem), problem)
        paid = {component: value for component, value in measured.components.items() if value}
        why = measured.detail.get("why") or (measured.fault.message if measured.fault else "")
        if measured.outcome is Outcome.INFRA_FAULT:
            faults.append(f"the {name} reply could not be scored: {why or 'unknown reason'}")
        elif name == "gold" and (measured.is_correct is not True or paid.get("r_ans", 1.0) != 1.0):
            faults.append(f"the gold reply {reply[:200]!r} is scored as wrong ({paid or 'all 0'})")
        elif name == "empty" and (measured.is_correct or paid):
            faults.append(f"the empty reply is paid: {paid or 'it counts as right'}")
    return faults


_NOT_THE_MODEL = ("user", "system", "developer", "tool", "function")


def completion_of_row(row: Mapping[str, Any]) -> Completion | None:
    """The completion of a row: ``text``, ``completion``, ``response`` or ``output``, as text or as chat messages.

    Of several messages it is the last one of the model.

    ``reasoning`` and ``finish_reason`` are taken from the row or from its ``meta``.
    """
    reply = next((row[key] for key in REPLY_FIELDS if row.get(key) is not None), None)
    if isinstance(reply, list):
        turns = [turn for turn in reply if not isinstance(turn, Mapping) or turn.get("role") not in _NOT_THE_MODEL]
        reply = turns[-1] if turns else None
    if isinstance(reply, Mapping):
        reply = reply.get("content", reply.get("text"))
    if not isinstance(reply, str):
        return None
    meta = row.get("meta")
    facts = {**(meta if isinstance(meta, Mapping) else {}), **row}
    texts = {key: facts[key] for key in ("reasoning", "finish_reason") if isinstance(facts.get(key), str)}
    return Completion(text=reply, **texts)
