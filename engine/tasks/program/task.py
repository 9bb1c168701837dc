"""The task of a program: its rows are problems, and what it returns is the answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from engine.answers.how_compared import HowCompared
from engine.answers.words import plain
from engine.errors import InputError
from engine.own_data.cells import as_passage, as_text
from engine.own_data.describe import describe
from engine.own_data.single_row import answer_column, question_column, question_of
from engine.records import Candidate, Completion, Outcome, Problem
from engine.task import Measurement, Task, Teaching
from engine.tasks.answers.task import TASK as ANSWERS
from engine.tasks.answers.task import truth_of
from engine.tasks.program.client import ProgramClient
from engine.tasks.program.declaration import Run, prompts_of
from engine.tasks.simple.task import NO_TRUTH

_BLOCK = """
{%% set %(block)s %%}
{%% with experiences = experiences | selectattr("category", "equalto", %(name)s) | list %%}
{%% include "experience_block.j2" %%}
{%% endwith %%}
{%% endset %%}
"""


class ProgramTask(Task[Run]):
    """A user's function, which asks the model as often as it likes.

    Its input stands in the place of a prompt: a JSON object with the row, and the text for each of its prompts. So
    lots, trials, stored groups, gates and :class:`Improved` work as for one prompt. The category of what is learned is
    the prompt that it is for.

    Args:
        function: takes ``row``, ``client`` and ``prompts``; may be a coroutine function. Returns the answer, or a pair
            of a score in [0, 1] and a feedback.
    """

    reply_description = "what the program returns"

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.name = function, function.__name__
        self.prompts = prompts_of(function) or ()

    @property
    def templates(self) -> Mapping[str, str]:
        """The input of the program as a template; a program has no critic."""
        blocks = {name: f"block_{number}" for number, name in enumerate(self.prompts)}
        parts = [_BLOCK % {"block": block, "name": json.dumps(name)} for name, block in blocks.items()]
        texts = ", ".join(f"{json.dumps(name)}: {{{{ {block} | trim | tojson }}}}" for name, block in blocks.items())
        values = f'"row": {{{{ row }}}}, "problem": {{{{ problem | tojson }}}}, "prompts": {{{texts}}}'
        user = f"{''.join(parts)}{{{values}}}"
        unused = "{% set unused = [problem, experiences, generator_id, proposals, conflicts, row] %}no critic"
        return {
            "generator_system.j2": f"Input of the program {self.name}.",
            "generator_user.j2": user,
            "critic_system.j2": "A program has no critic.",
            "critic_user.j2": unused,
        }

    prompt_variables = frozenset({"row"})

    def prompt_values(self, problem: Problem) -> Mapping[str, Any]:
        """The row, as JSON."""
        return {"row": json.dumps(self.reward_row(problem), ensure_ascii=False, sort_keys=True)}

    def problem_from_row(self, row: Mapping[str, Any], where: str) -> Problem:
        """The problem of a row that is read alone, whose answer alone says how it is compared."""
        answer = answer_column(row) or ""
        compared = None
        if answer:
            with suppress(InputError):  # its answer may be compared with nothing, if the program returns a score
                plain_row, how = describe([row], where=where, fields={"answer": answer}).plain_row(row, where)
                compared = plain_row["answer"], how
        return self.whole_problem(row, where, answer=answer, compared=compared)

    def whole_problem(
        self, row: Mapping[str, Any], where: str, *, answer: str, compared: tuple[str, HowCompared] | None
    ) -> Problem:
        """The problem of a row; its ``answer`` is JSON text with the row, and how its right answer is compared."""
        column = question_column(row, answer or answer_column(row))
        stored: dict[str, Any] = {"row": {key: value for key, value in row.items() if key != "task"}}
        if compared is not None:
            truth, how = compared
            stored["compared"] = {"truth": truth, **how.model_dump(mode="json", exclude_defaults=True)}
            stored["given"] = row.get(answer)
        given = row.get("id")
        try:
            text = question_of(row) if column is None else as_passage(row[column])
        except InputError as error:
            raise InputError(f"{where}: {error.what}", why=error.why, fix=error.fix) from None
        return Problem(
            id="" if given is None else str(given),
            text=text,
            answer=json.dumps(stored, ensure_ascii=False, sort_keys=True, default=str),
            task=self.name,
        )

    def question_row(self, example: Problem) -> tuple[Mapping[str, Any], Sequence[str]]:
        """The row of the example; a question replaces its text."""
        row = dict(self.reward_row(example))
        answer = answer_column(row)
        column = question_column(row, answer)
        return row, [name for name in row if name not in ("id", answer)] if column is None else [column]

    def asked_through(self, client: Any) -> Any:
        """A client that runs the program for each sample."""
        return ProgramClient(client, self.function)

    def parse(self, completion: Completion, problem: Problem) -> Candidate[Run]:
        """What the program has returned."""
        run = Run.read(completion.text)
        if run is None or (run.answer is None and run.score is None):
            return Candidate(Outcome.MODEL_FAULT, text=completion.text, content=run)
        return Candidate(Outcome.OK, stated_answer=run.answer, content=run, text=completion.text)

    def to_record(self, candidate: Candidate[Run]) -> str | None:
        """The calls and the answer as text."""
        return candidate.content.shown() if candidate.content else None

    def show(self, candidate: Candidate[Run]) -> str:
        """As in the record."""
        return self.to_record(candidate) or "(nothing was returned)"

    def evaluate(self, candidate: Candidate[Run], problem: Problem) -> Measurement:
        """The score that the program has returned, or whether its answer is that of the row."""
        run = candidate.content
        if run is None or candidate.outcome is not Outcome.OK:
            return Measurement({"r_ans": 0.0}, False)
        if run.score is not None:
            remarks = [run.feedback] if run.feedback else []
            return Measurement({"r_ans": run.score}, run.score == 1, run.answer, "stated", remarks=remarks)
        compared = _compared(problem)
        if compared is None:
            raise InputError(
                f"Nothing to compare the answer to {problem.id} with",
                why="Its row has no right answer in a column with a usual name such as answer, target or label.",
                fix="Name the column (--fields answer=COLUMN), or let the program return a pair (score, feedback).",
            )
        answer = run.answer or ""
        given = json.loads(problem.answer).get("given")
        if given is not None and plain(answer) == plain(as_text(given)):  # as the row writes it: the index of an option
            return Measurement({"r_ans": 1.0}, True, answer, "stated")
        read = ANSWERS.parse(Completion(text=answer), compared)
        if read.content is None:  # the answer alone, without words around it
            read = Candidate(Outcome.OK, stated_answer=answer, content=answer, text=answer)
        return ANSWERS.evaluate(read, compared)

    def truth(self, problem: Problem) -> str:
        """The right answer of the row, if it has one: an option as the row writes it, or with its mark and its text."""
        compared = _compared(problem)
        if compared is None:
            return NO_TRUTH
        truth, how = truth_of(compared)
        if how.kind != "choice":
            return truth
        given = json.loads(problem.answer).get("given")
        return given if given in how.options else ANSWERS.teaching(compared).answer or truth

    def reward_row(self, problem: Problem) -> Mapping[str, Any]:
        """The row that the problem was made of."""
        row: Mapping[str, Any] = json.loads(problem.answer)["row"]
        return row

    def teaching(self, problem: Problem, wrong: Sequence[str] = ()) -> Teaching:
        """The last prompt is the one that answers; what an earlier one asks for has no right answer of its own."""
        compared = _compared(problem)
        rule = super().teaching(problem).rule if compared is None else ANSWERS.teaching(compared, wrong).rule
        steps = {
            name: f'says what the step "{name}" has to write for such a problem, so that the right answer follows'
            for name in self.prompts
        }
        if steps:
            steps[self.prompts[-1]] = rule
        answer = None if compared is None else self.truth(problem)
        return Teaching(rule, answer, is_choice=True, steps=steps)

    def leaks_answer(self, content: str, problem: Problem) -> bool:
        """Whether an experience gives away the answer of the row."""
        compared = _compared(problem)
        return compared is not None and ANSWERS.leaks_answer(content, compared)


def _compared(problem: Problem) -> Problem | None:
    """The problem as one of questions and answers; None if the row has no right answer."""
    answer = json.loads(problem.answer).get("compared")
    return None if answer is None else problem.model_copy(update={"answer": json.dumps(answer), "task": ANSWERS.name})


def task_of(function: Callable[..., Any]) -> ProgramTask:
    """The task of a program."""
    return ProgramTask(function)
