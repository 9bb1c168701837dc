"""Answers of any kind, compared with the truth as the dataset's answers suggest. See ``comparison``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from engine.abilities import RowReader
from engine.answers.kinds import HowCompared, alternatives, compare, plain, read_date, read_json
from engine.answers.reply import read_answer
from engine.errors import InputError
from engine.experience.review import holds_answer
from engine.records import Candidate, Completion, Fault, Outcome, Problem
from engine.task import Measurement
from engine.tasks.answers.detection import (
    ANSWERS,
    QUESTIONS,
    RUBRIC_FIELD,
    answer_text,
    columns,
    described,
    how_compared,
    nearly_numbers,
)
from engine.tasks.rows import is_empty, text_of
from engine.tasks.simple import PlainTask

_DAY, _MONTH = r"\d{1,2}(?:st|nd|rd|th)?", r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?"
_DATE = re.compile(
    rf"\d{{1,4}}([-/.])\d{{1,2}}\1\d{{1,4}}|(?:{_DAY} (?:of )?{_MONTH}|{_MONTH} {_DAY}),? \d{{4}}", re.IGNORECASE
)
"""The forms of a date within a text."""


class AnswersTask(PlainTask):
    """Questions with answers of any kind.

    ``r_ans`` is 1 for a right answer. Of answers that are JSON objects, ``r_fields`` is the share of right fields.
    There is no structure to pay. ``answer`` of a problem is JSON text with the truth and how it is compared, so that
    stored groups can be scored again without the dataset.
    """

    name = "answers"
    reward_weights: Mapping[str, float] = MappingProxyType({"r_ans": 0.6, "r_fields": 0.4, "r_rubric": 1.0})
    prompt_variables = frozenset({"kind", "labels", "keys"})
    reply_description = "reasoning, then a last line that begins with Answer:"
    attempt_descriptions: Mapping[str, str] = MappingProxyType(
        {"generator": "answers that a solver wrote", "critic": "answers that a critic made of several solvers' answers"}
    )

    def reader(self, rows: Sequence[Mapping[str, Any]], compare_as: str | None = None) -> tuple[RowReader, str]:
        """What reads the rows of a dataset, and how its answers are compared, in words.

        Args:
            rows: of the dataset.
            compare_as: how, if the user says so.

        Raises:
            InputError: there is no field of a question or an answer, or the answers do not fit the comparison.
        """
        known = [(row, answer_text(row[found[1]]), found[1]) for row in rows if (found := columns(row)) is not None]
        alike = [(truth, field) for row, truth, field in known if row.get("compare") is None]
        truths = [truth for truth, _ in alike]
        usual = columns(known[0][0]) if known else None
        _refuse_headless(usual, truths)
        if compare_as is None and alike and all(field.lower() == RUBRIC_FIELD for _, field in alike):
            compare_as = "rubric"
        how = how_compared(truths, compare_as) if truths else HowCompared(kind="text")
        labelled = [truth for row, truth, _ in known if row.get("compare") == "label"]
        labels = how_compared(labelled + (truths if how.kind == "label" else []), "label")
        found_out = described(how) + (nearly_numbers(truths, how) if compare_as is None else "")
        if known and not alike:
            found_out = "compared as each row says"
        elif how.kind == "text" and len(alike) > 1 and len(set(truths)) == 1:
            found_out += f"; all answers are {truths[0][:30]!r}, so there is nothing to learn"
        elif len(alike) < len(known):
            found_out += f"; {len(known) - len(alike)} of them as the row says"
        return lambda row, where: self._problem(row, where, how, labels, usual), found_out

    def problem_from_row(self, row: Mapping[str, Any], where: str) -> Problem:
        """A row with a question and an answer; how it is compared is found out from this row alone."""
        return self._problem(row, where, None, None, None)

    def _problem(
        self,
        row: Mapping[str, Any],
        where: str,
        how: HowCompared | None,
        labels: HowCompared | None,
        usual: tuple[str, str] | None,
    ) -> Problem:
        """``usual`` has the fields of the question and the answer in the first row that has both."""
        found = columns(row)
        if usual is not None and (found is None or found[1].lower() not in ANSWERS):
            empty = next((name for name in usual if is_empty(row, name)), None)
            if empty is not None:
                raise InputError(f"{where}: field {empty!r} is empty", fix="Fill it in, or remove the row.")
        if found is None:
            raise InputError(
                f"{where}: it is not clear which field is the question and which the answer",
                why=f"The fields are {', '.join(map(str, row))[:300] or 'none'}.",
                fix="Name them: --fields problem=NAME,answer=NAME.",
            )
        question, answer = found
        is_plain = isinstance(row[answer], str | int | float) and not isinstance(row[answer], bool)
        truth = text_of(row, answer, where) if is_plain else answer_text(row[answer])
        own = row.get("compare")
        try:
            if own == "label":  # a prompt with one label alone would give the answer away
                how = labels if labels and len(labels.labels) > 1 else HowCompared(kind="text")
            elif own is not None:
                how = how_compared([truth], str(own))
            how = how or how_compared([truth])
        except InputError as error:
            raise InputError(f"{where}: {error.what}", why=error.why, fix=error.fix) from None
        stored = {"truth": truth, **how.model_dump(mode="json", exclude_defaults=True)}
        return Problem(
            id=text_of(row, "id", where) if row.get("id") is not None else "",
            text=text_of(row, question, where),
            answer=json.dumps(stored, ensure_ascii=False, sort_keys=True),
            task=self.name,
            meta={key: row[key] for key in row if key not in ("id", "task", "compare", question, answer)},
        )

    def prompt_values(self, problem: Problem) -> Mapping[str, Any]:
        """The kind of the answer, the labels, and the keys of a JSON object."""
        truth, how = truth_of(problem)
        value = read_json(truth) if how.kind == "json" else None
        return {"kind": how.kind, "labels": list(how.labels), "keys": list(value) if isinstance(value, dict) else []}

    def parse(self, completion: Completion, problem: Problem) -> Candidate[str]:
        """Read the marked answer; a reply without one is a model fault. A label is stated as the dataset writes it."""
        _, how = truth_of(problem)
        answer = read_answer(completion.text, how)
        if answer is None:
            fault = Fault(kind="no_answer", message="it has no last line that begins with Answer:")
            return Candidate(Outcome.MODEL_FAULT, text=completion.text[-6000:], fault=fault)
        label = next((one for one in how.labels if plain(one) == plain(answer)), answer)
        return Candidate(Outcome.OK, stated_answer=label, content=answer, text=completion.text[-6000:])

    def re_ask_reason(self, candidate: Candidate[str]) -> str | None:
        """A reply without an answer may be sent again."""
        return candidate.fault.message if candidate.fault is not None else None

    def evaluate(self, candidate: Candidate[str], problem: Problem) -> Measurement:
        """Compare the answer with the truth; a judge measures the answer to a problem with a rubric."""
        truth, how = truth_of(problem)
        if how.kind == "rubric":
            if candidate.content is None:
                return Measurement({"r_rubric": 0.0}, False, outcome=Outcome.MODEL_FAULT, fault=candidate.fault)
            return Measurement({"r_rubric": None}, None, candidate.content, "stated", detail={"compared_as": how.kind})
        fields = {"r_fields": 0.0} if how.kind == "json" else {}
        if candidate.content is None:
            return Measurement({"r_ans": 0.0, **fields}, False, outcome=Outcome.MODEL_FAULT, fault=candidate.fault)
        result = compare(candidate.content, truth, how)
        if result.is_correct is None:
            why = {"why": result.why}
            return Measurement({}, None, candidate.content, "stated", Outcome.INFRA_FAULT, detail=why)
        fields = {} if result.fields is None else {"r_fields": result.fields}
        return Measurement(
            components={"r_ans": float(result.is_correct), **fields},
            is_correct=result.is_correct,
            answer=candidate.content,
            answer_source="stated",
            remarks=[result.why] if result.why else [],
            detail={"compared_as": how.kind},
        )

    def rubric(self, problem: Problem) -> str | None:
        """The rubric, where there is no truth."""
        truth, how = truth_of(problem)
        return truth if how.kind == "rubric" else None

    def same_answer(self, left: str, right: str) -> bool:
        """Whether two answers are equal but for case, quotes and punctuation."""
        return plain(left) == plain(right)

    def truth(self, problem: Problem) -> str:
        """The right answer."""
        return truth_of(problem)[0]

    def gold_reply(self, problem: Problem) -> str | None:
        """The truth after the mark; None where it is a pattern."""
        truth, how = truth_of(problem)
        if how.kind in ("regex", "rubric"):
            return None
        return f"Answer: {truth.partition('|')[0] if how.kind == 'text' else truth}"

    def leaks_answer(self, content: str, problem: Problem) -> bool:
        """Whether an experience gives the answer away. A label is no answer of one problem alone."""
        truth, how = truth_of(problem)
        if how.kind in ("label", "rubric"):
            return False
        if how.kind == "date":
            right = read_date(truth, how.day_first)
            return any(right and read_date(found[0], how.day_first) == right for found in _DATE.finditer(content))
        return any(holds_answer(content, one) for one in alternatives(truth))


def _refuse_headless(usual: tuple[str, str] | None, truths: Sequence[str]) -> None:
    """Raise ``InputError`` if the names of the fields are a problem: the first line of a table without names."""
    if usual is not None and usual[0].lower() not in QUESTIONS and usual[1] in truths:
        raise InputError(
            f"The first line looks like a problem, not like names of fields: {usual[1]!r} is also an answer below it",
            fix="Begin the file with a line of names, such as problem,answer.",
        )


def truth_of(problem: Problem) -> tuple[str, HowCompared]:
    """The truth of a problem and how it is compared. A record of another program has the bare truth."""
    value = read_json(problem.answer)
    if isinstance(value, dict) and isinstance(value.get("truth"), str):
        try:
            return value["truth"], HowCompared.model_validate({key: value[key] for key in value if key != "truth"})
        except ValidationError:
            pass
    return problem.answer, HowCompared(kind="text")


TASK = AnswersTask()
