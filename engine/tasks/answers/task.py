"""Answers of any kind, compared with the truth as the dataset's answers suggest. See ``comparison``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from pydantic import TypeAdapter, ValidationError

from engine.answers.by_kind import alternatives, compare, named, plain, read_json
from engine.answers.dates import read_date
from engine.answers.how_compared import HowCompared
from engine.answers.reply import answer_in_object, read_answer
from engine.errors import InputError
from engine.experience.text_checks import holds_answer
from engine.own_data.answer_kind import described
from engine.own_data.describe import describe
from engine.records import Candidate, Completion, Fault, ImageReference, Outcome, Problem
from engine.task import Measurement, Teaching
from engine.tasks.rows import text_of
from engine.tasks.simple import PlainTask

_DAY, _MONTH = r"\d{1,2}(?:st|nd|rd|th)?", r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?"
_LONGEST_OPTION = 150
"""Characters of the text of an option beside its mark."""
_DATE = re.compile(
    rf"\d{{1,4}}([-/.])\d{{1,2}}\1\d{{1,4}}|(?:{_DAY} (?:of )?{_MONTH}|{_MONTH} {_DAY}),? \d{{4}}", re.IGNORECASE
)
"""The forms of a date within a text."""


class AnswersTask(PlainTask):
    """Questions with answers of any kind.

    ``r_ans`` is 1 for a right answer. Of answers that are JSON objects, ``r_fields`` is the share of right fields.
    There is no structure to pay. ``answer`` of a problem is JSON text with the truth and how it is compared, so that
    stored groups can be scored again without the dataset. It has the references of the images of the problem too, and
    the JSON schema of replies, if there are any.
    """

    name = "answers"
    reward_weights: Mapping[str, float] = MappingProxyType({"r_ans": 0.6, "r_fields": 0.4, "r_rubric": 1.0})
    answer_components = frozenset({"r_ans", "r_fields", "r_rubric"})
    prompt_variables = frozenset({"kind", "labels", "keys", "marks", "schema"})
    reply_description = "reasoning, then a last line that begins with Answer:"

    def problem_from_row(self, row: Mapping[str, Any], where: str) -> Problem:
        """A row with a question and an answer; how it is compared is found out from this row alone."""
        plain_row, how = describe([row], where=where).plain_row(row, where)
        return self.described_problem(plain_row, how, where)

    def described_problem(self, row: Mapping[str, Any], how: HowCompared, where: str) -> Problem:
        """A row whose columns and comparison are known."""
        stored = {"truth": row["answer"], **how.model_dump(mode="json", exclude_defaults=True)}
        return Problem(
            id=text_of(row, "id", where) if row.get("id") is not None else "",
            text=text_of(row, "problem", where),
            answer=json.dumps(stored, ensure_ascii=False, sort_keys=True),
            task=self.name,
            meta={key: row[key] for key in row if key not in ("id", "task", "problem", "answer")},
        )

    def question(self, example: Problem, text: str) -> Problem:
        """A problem with the comparison of the example, but without its right answer and its options."""
        _, how = truth_of(example)
        stored = how.model_copy(update={"also": (), "options": ()}).model_dump(mode="json", exclude_defaults=True)
        answer = json.dumps({"truth": "", **stored}, ensure_ascii=False, sort_keys=True)
        asked = example.model_copy(update={"id": "question", "text": text, "answer": answer})
        schema = _stored(example).get(_SCHEMA)
        return asked if schema is None else _with(asked, _SCHEMA, schema)

    def with_images(self, problem: Problem, images: Sequence[Mapping[str, Any]]) -> Problem:
        """The references are with the truth, so that another image is another problem, and the critic has them."""
        return _with(problem, _IMAGES, list(images))

    def images(self, problem: Problem) -> Sequence[ImageReference]:
        """The references that are with the truth; none where a record of another program has something else there."""
        try:
            return _REFERENCES.validate_python(_stored(problem).get(_IMAGES) or ())
        except ValidationError:
            return ()

    def with_schema(self, problem: Problem, schema: Mapping[str, Any]) -> Problem:
        """The schema is with the truth; an answer that is no object is read from the property ``answer``."""
        how = truth_of(problem)[1]
        known = schema.get("properties")
        if how.kind not in ("json", "rubric") and isinstance(known, dict) and "answer" not in known:
            raise InputError(
                "The JSON schema has no property 'answer'",
                why=f"The right answers are no JSON objects: they are {described(how)}. A reply says its own there.",
                fix='Add it to "properties", beside others such as "reasoning".',
            )
        return _with(problem, _SCHEMA, json.dumps(schema, ensure_ascii=False))  # its properties keep their order

    def schema(self, problem: Problem) -> dict[str, Any] | None:
        """The schema that is with the truth."""
        schema = read_json(str(_stored(problem).get(_SCHEMA)))
        return schema if isinstance(schema, dict) else None

    def comparison_in_words(self, how: HowCompared) -> str:
        """The kind of the answers."""
        return described(how)

    def prompt_values(self, problem: Problem) -> Mapping[str, Any]:
        """The kind of the answer, the labels, the marks of options, the keys of a JSON object, the user's schema."""
        _, how = truth_of(problem)
        how = HowCompared(kind="text") if how.is_open else how
        schema = self.schema(problem)
        return {
            "kind": how.kind,
            "labels": list(how.labels),
            "marks": list(how.marks),
            "keys": list(how.keys),
            "schema": None if schema is None else json.dumps(schema, ensure_ascii=False),
        }

    def parse(self, completion: Completion, problem: Problem) -> Candidate[str]:
        """Read the marked answer; a reply without one is a model fault. A label is stated as the dataset writes it."""
        _, how = truth_of(problem)
        is_object = self.schema(problem) is not None
        answer = (answer_in_object(completion.text, how) if is_object else None) or read_answer(completion.text, how)
        if answer is None:
            missing = "is no JSON object with an answer" if is_object else "has no last line that begins with Answer:"
            fault = Fault(kind="no_answer", message=f"it {missing}")
            return Candidate(Outcome.MODEL_FAULT, text=completion.text[-6000:], fault=fault)
        return Candidate(
            Outcome.OK, stated_answer=named(answer, how) or answer, content=answer, text=completion.text[-6000:]
        )

    def re_ask_reason(self, candidate: Candidate[str]) -> str | None:
        """A reply without an answer may be sent again."""
        return candidate.fault.message if candidate.fault is not None else None

    def evaluate(self, candidate: Candidate[str], problem: Problem) -> Measurement:
        """Compare the answer with the truth; a judge measures the answer to a problem with a rubric."""
        truth, how = truth_of(problem)
        if candidate.content is None:
            names = {"rubric": ("r_rubric",), "json": ("r_ans", "r_fields")}.get(how.kind, ("r_ans",))
            return Measurement(dict.fromkeys(names, 0.0), False, outcome=Outcome.MODEL_FAULT, fault=candidate.fault)
        if how.kind == "rubric":
            return Measurement({"r_rubric": None}, None, candidate.content, "stated", detail={"compared_as": how.kind})
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
        """The truth after the mark; None where there is a rubric in its place."""
        truth, how = truth_of(problem)
        if how.kind == "rubric":
            return None
        return f"Answer: {truth.partition('|')[0] if how.kind == 'text' else truth}"

    def teaching(self, problem: Problem, wrong: Sequence[str] = ()) -> Teaching:
        """For labels, which of them to choose and why not another: they are no answers of one problem alone.

        The answer of a choice is the option with its mark, which alone says nothing of other problems; but the mark
        alone if the text of the option is unknown or long.
        """
        truth, how = truth_of(problem)
        rule = super().teaching(problem).rule
        if how.kind == "label":
            taken = next((label for label in wrong if label in how.labels), "another one")
            rule = f"says which label to choose, {truth}, and why not {taken}"
        answer = (self.gold_reply(problem) or "").removeprefix("Answer: ") or None
        if how.kind == "choice":
            text = dict(zip(how.marks, how.options, strict=False)).get(truth, "")
            answer = f"({truth}) {text}" if 0 < len(text) <= _LONGEST_OPTION else truth
        category = truth if how.kind == "label" else None
        return Teaching(rule, answer, is_choice=how.kind in ("label", "choice", "set"), category=category)

    def leaks_answer(self, content: str, problem: Problem) -> bool:
        """Whether an experience gives the answer away. A label is no answer of one problem alone."""
        truth, how = truth_of(problem)
        if how.kind in ("label", "choice", "set", "rubric"):
            return False
        if how.kind == "date":
            right = read_date(truth, how.day_first)
            return any(right and read_date(match[0], how.day_first) == right for match in _DATE.finditer(content))
        return any(holds_answer(content, alternative) for alternative in alternatives(truth))


def truth_of(problem: Problem) -> tuple[str, HowCompared]:
    """The truth of a problem and how it is compared. A record of another program has the bare truth."""
    stored = _stored(problem)
    try:
        return stored["truth"], HowCompared.model_validate(stored)
    except (KeyError, ValidationError):
        return problem.answer, HowCompared(kind="text")


_IMAGES, _SCHEMA = "images", "schema"
"""What the answer of a problem has beside the truth and how it is compared."""
_REFERENCES = TypeAdapter(tuple[ImageReference, ...])


def _with(problem: Problem, name: str, value: Any) -> Problem:
    stored = json.loads(problem.answer) | {name: value}
    return problem.model_copy(update={"answer": json.dumps(stored, ensure_ascii=False, sort_keys=True)})


def _stored(problem: Problem) -> dict[str, Any]:
    """What is stored as the answer of a problem; empty for a record of another program."""
    value = read_json(problem.answer)
    return value if isinstance(value, dict) and isinstance(value.get("truth"), str) else {}


TASK = AnswersTask()
