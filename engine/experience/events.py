"""The events that change an experience library: the lines of its log."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from engine.records import FORMAT, Experience, Half, Operation, Record, left_out

PROMPT_BUDGET = 64
"""Experiences in a prompt where all are chosen."""


class ChoiceRecord(Record):
    """Which experiences go into a prompt; see :mod:`engine.experience.choice`.

    Args:
        select: ``all``, or ``text`` (the most similar to the problem).
        k: how many lessons, where they are selected.
        cases: how many cases.
    """

    select: Literal["all", "text"] = "all"
    k: int = PROMPT_BUDGET
    cases: int = left_out(0)


class Event(Record):
    """One line of the log: one transaction."""

    at: str
    format: int = FORMAT


class BeginEvent(Event):
    """The start of a run. Its first prompts use the library at this line.

    Args:
        run: its id.
        model: of its learner, where experiences are on trial: with another model the trials begin again.
        tasks: of its problems, where experiences are on trial.
        task_file: digest of the file of a user's task, where experiences are on trial: with another one, which may
            score otherwise, the trials begin again.
        choice: which experiences go into a prompt.
    """

    event: Literal["begin"] = "begin"
    run: str
    model: str = left_out("")
    tasks: list[str] = left_out(list)
    task_file: str = left_out("")
    choice: ChoiceRecord | None = left_out()


class Refusal(Record):
    """A proposal that was not applied, and why (a short code and a sentence)."""

    operation: Operation
    reason: str
    message: str = ""


class GroupTrial(Record):
    """What a group measures of the experiences in its two prompts.

    Args:
        difference: mean score of A minus mean score of B; None if it has none.
        halves: id -> the prompt in which the experience stood.
        likeness: id -> how much the problem is of the kind of those that the experience was learned from, from 0 to 1;
            1 if it is absent.
        rollouts: rollouts of each prompt.
        correct: correct rollouts of each prompt.
    """

    difference: float | None
    halves: dict[str, Half]
    likeness: dict[str, float] = left_out(dict)
    rollouts: dict[Half, int]
    correct: dict[Half, int]


class Miss(Record):
    """A problem with a wrong answer, shortened: what an instruction is learned from."""

    problem_id: str
    text: str
    truth: str
    wrong: str


class StepEvent(Event):
    """A scored group: the experiences in its prompts, its results and the operations learned from it.

    Args:
        run, step: id of the run and number of the group in it, in problem order; both identify the event.
        problem_text: kept where something was learned, to compare later problems with it.
        epoch: number of completed passes over the problems.
        used: ids of the experiences in its prompts.
        rollouts, correct: number of scored and of correct rollouts.
        mean, std: of their rewards.
        operations, refused: what was learned and retired, and what was proposed and not applied.
        trial: what the group measures; None: nothing.
        asked: whether the analyst was asked, in a run with trials.
        miss: the problem and its most frequent wrong answer, in a run with instructions, where rewards differ and both
            answers are short.
    """

    event: Literal["step"] = "step"
    run: str
    step: int
    problem_id: str
    problem_text: str = left_out("")
    epoch: int
    used: list[str]
    rollouts: int
    correct: int
    mean: float | None = None
    std: float | None = None
    operations: list[Operation] = Field(default_factory=list)
    refused: list[Refusal] = Field(default_factory=list)
    trial: GroupTrial | None = left_out()
    asked: bool = left_out(False)
    miss: Miss | None = left_out()


class EditEvent(Event):
    """A command of a person: ``pin``, ``unpin``, ``forbid`` or ``remove``."""

    event: Literal["edit"] = "edit"
    operations: list[Operation]


class ImportEvent(Event):
    """Other experiences than those so far.

    Args:
        experiences: all of the library.
        origin: the library's file, which a person or another program has written, or other problems, as cases.
    """

    event: Literal["import"] = "import"
    origin: str = left_out("the file")
    experiences: list[Experience]


class GateEvent(Event):
    """A test of the library as a whole: problems answered with and without it.

    Args:
        version: of the library.
        verdict: ``adopted`` (it helps), ``rejected`` (it harms), or ``not_proven``.
        mean, low, high: share of right answers with it minus without it, and the interval.
        problems: problems that were answered until the verdict; ``of`` were planned.
        open: problems that were asked and are left out, as their requests alone failed.
        own: problems that experiences were learned from; they were asked without those.
        samples: answers of each problem with and without the library.
        alpha: probability of a wrong ``adopted`` or ``rejected``.
        looks: looks at the differences.
        dataset: hash of the problems, in the order in which they were asked.
        problem_hashes: of each problem, which show that two gates share problems; empty in logs of earlier versions.
        sampling: hash of how they were asked: prompt style and sampling; empty in logs of earlier versions.
        tested: hash of the experiences that were asked with; empty in logs of earlier versions. Measurements take
            experiences out of prompts without another version.
        model: that answered.
        right_with, right_without: shares of right answers; None in logs of earlier versions.
        tokens: of the answers.
        tokens_ratio: tokens of the answers with it, as a multiple of those without; None in logs of earlier versions.
        cost_usd: of the answers; None if the prices are not known.
        needed: problems that would show 10 points, if nothing is proven.
    """

    event: Literal["gate"] = "gate"
    version: str
    verdict: Literal["adopted", "rejected", "not_proven"]
    mean: float
    low: float
    high: float
    problems: int
    of: int
    open: int = left_out(0)
    own: int
    samples: int
    alpha: float
    looks: int
    dataset: str
    problem_hashes: list[str] = left_out(list)
    sampling: str = left_out("")
    tested: str = left_out("")
    model: str
    right_with: float | None = None
    right_without: float | None = None
    tokens: int = 0
    tokens_ratio: float | None = None
    cost_usd: float | None = None
    needed: int | None = None


LibraryEvent = BeginEvent | StepEvent | EditEvent | ImportEvent | GateEvent
EVENT: TypeAdapter[LibraryEvent] = TypeAdapter(Annotated[LibraryEvent, Field(discriminator="event")])
