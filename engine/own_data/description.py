"""How the rows of one dataset are read: each becomes a plain row with ``problem``, ``answer`` and a comparison."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from engine.answers.by_kind import plain
from engine.answers.how_compared import HowCompared, Kind
from engine.answers.words import read_choices
from engine.errors import EmptyRowError, InputError
from engine.own_data.answer_kind import check_truths, how_compared, kind_of, show_mathematics
from engine.own_data.cells import as_passage, as_text, has_column, is_filled, plain_name, value_of
from engine.own_data.columns import Columns, names_in
from engine.own_data.gold import SOLUTIONS, in_solution, listed, read_gold
from engine.own_data.messages import images_in, message_of
from engine.own_data.options import (
    SCORED_OPTIONS,
    Options,
    listed_options,
    mark_in,
    options_in_text,
    options_of,
    shuffled_options,
)
from engine.records import IMAGE_MARK

BY_ROW: tuple[Kind, ...] = ("choice", "set")
"""Kinds of answers that name options, which differ by row."""
_PLACE = re.compile(r"<image(?: \d)?>")
"""The place of an image in the text of a question: verl, MMMU."""
_OF_VALUES = ("json", "list", "set")


@dataclass(frozen=True)
class Description:
    """How the rows of a dataset are read.

    Args:
        columns: which column is what.
        form: how the column of the right answer holds it.
        how: the comparison of most rows; the options of a choice differ by row.
        base: the index of the first option, where right answers are indices.
        class_names: the name of each class id.
        is_boolean: whether right answers are yes and no.
        is_mathematics: whether the answers are formulas, for causal scaffolds.
        is_shuffled: whether options are in another order than in the dataset.
        is_found: whether the comparison was found out, so that an answer of another kind is compared as it is.
        examples: right answers of the first rows.
        own: how many rows say themselves how they are compared.
        remarks: what the user should know, in sentences.
    """

    columns: Columns
    form: str
    how: HowCompared
    base: int | None = None
    class_names: Mapping[str, str] = field(default_factory=dict)
    is_boolean: bool = False
    is_mathematics: bool = False
    is_shuffled: bool = False
    is_found: bool = True
    examples: tuple[str, ...] = ()
    own: int = 0
    remarks: tuple[str, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether the rows have the fields ``problem`` and ``answer`` already."""
        return (self.columns.question, self.columns.answer) == ("{problem}", "answer") and not self.columns.options

    @property
    def has_options(self) -> bool:
        """Whether columns of their own have the options, so that a prompt does not show them yet."""
        return bool(self.columns.options) or plain_name(self.columns.answer) in SCORED_OPTIONS

    def reads(self, row: Mapping[str, Any]) -> bool:
        """Whether a row has the columns of the dataset, of which some may be empty.

        An answer in a list is empty if the list has no object, or several, as of a text that two people have annotated.
        """
        answer = self.columns.answer or self.columns.chat
        asked = [has_column(row, name) for name in filter(None, [*names_in(self.columns.question), self.columns.chat])]
        has_answer = has_column(row, answer) or isinstance(row.get(answer.partition(".")[0]), list)
        return has_answer and (not asked or any(asked))

    def columns_line(self) -> str:
        """Which columns are read, and which are not."""
        columns = self.columns
        names = names_in(columns.question)
        is_plain = columns.question == "\n\n".join(f"{{{name}}}" for name in names)
        asked = [*(names if is_plain else [columns.question.replace("\n", " ")]), columns.chat]
        parts = [f"question = {' + '.join(filter(None, asked)) or 'the image'}"]
        order = " (in another order)" if self.is_shuffled else ""
        parts += [f"options = {', '.join(columns.options)}{order}"] if columns.options else []
        parts += [f"images = {', '.join(columns.images)}"] if columns.images else []
        parts += [f"unit = {columns.unit}"] if columns.unit else []
        answer = columns.answer or f"the last message of {columns.chat}"
        parts.append(f"answer = {answer}{self._form()}")
        unused = ", ".join(columns.unused[:8]) + (", ..." if len(columns.unused) > 8 else "")
        return ", ".join(parts) + (f"; not used: {unused}" if unused else "")

    def lines(self, number: int, read_as: str, *, is_chosen: bool) -> list[str]:
        """What a user should see: the columns, the comparison with some right answers, and remarks.

        Args:
            number: of the rows.
            read_as: the task that reads them, and how it compares answers.
            is_chosen: whether the task was found out.
        """
        if self.own == number:
            return [f"{number} rows are read as {read_as.partition(',')[0]}, compared as each row says"]
        change = "--fields, --compare or --task changes this" if is_chosen else "--fields or --compare changes this"
        shown = ", ".join(example.replace("\n", " ")[:40] for example in self.examples)
        examples = f"; right answers: {shown}" if shown else ""
        examples += f"; {self.own} of them as the row says" if self.own else ""
        return [
            f"Columns: {self.columns_line()}",
            f"{number} rows are read as {read_as}{examples} ({change})",
            *self.remarks,
        ]

    def _form(self) -> str:
        if self.base is not None:
            return f" (the index of an option, from {self.base})"
        if self.class_names:
            return f" (class ids, with the names of {self.columns.names})" if self.columns.names else " (class ids)"
        return "" if self.form in ("value", "list") else f" ({self.form})"

    def plain_row(self, row: Mapping[str, Any], where: str) -> tuple[dict[str, Any], HowCompared]:
        """A row with the fields ``problem`` and ``answer``, and how its answer is compared; unused fields are kept.

        The images of a row are in the field :data:`IMAGE_MARK`, a name that no column has.

        Raises:
            EmptyRowError: it has no question, or no right answer.
            InputError: the comparison that it names is unknown.
        """
        columns = self.columns
        kind = row.get("compare")
        text, answers = self.question(row), self.answers(row)
        if kind in _OF_VALUES and columns.answer and answers:  # the value is the answer, whatever the other rows hold
            answers = (as_text(value_of(row, columns.answer)),)
        if not text or not answers:
            name = (columns.answer if text else "".join(names_in(columns.question)[-1:])) or columns.chat
            state = "has no answer that could be compared" if is_filled(value_of(row, name)) else "is empty"
            raise EmptyRowError(f"{where}: field {name!r} {state}", fix="Fill it in, or remove the row.")
        options = self.options(row, text)
        if not self.is_in_range(answers, options):
            raise EmptyRowError(f"{where}: {answers[0]!r} is no index of an option", fix="Correct or remove the row.")
        how = self.how_of(row, answers, options) if kind is None else _as_row_says(str(kind), answers, self.how, where)
        if options is not None and self.has_options and not _shows(text, options):
            text = f"{text}\n\n{options.lines()}"
        if how.kind in BY_ROW and options is not None:
            named = marks_of(answers) if how.kind == "set" else answers[:1]
            answers = (", ".join(options.mark_of(answer, self.base) or answer for answer in named),)
        elif how.kind in ("list", "set") and self.form == "list":
            answers = (as_text(list(answers)),)
        elif how.kind == "number" and (unit := self._unit(row)):
            how = how.model_copy(update={"unit": unit})
            answers = (how.with_unit(answers[0]),)
        used = {*columns.used(), "compare"}
        unused = {name: value for name, value in row.items() if name not in used}
        how = how.model_copy(update={"also": answers[1:]})
        images = self.images(row)
        return {**unused, "problem": text, "answer": answers[0], **({IMAGE_MARK: images} if images else {})}, how

    def question(self, row: Mapping[str, Any]) -> str:
        """The text of the problem, without options in columns of their own; empty where the row has none.

        It has a mark for each image; those of columns are at its beginning.
        """
        columns = self.columns
        values = {name: as_passage(value_of(row, name)) for name in names_in(columns.question)}
        template = columns.question if any(values.values()) else ""
        text = re.sub(r"\{([^{}]+)\}", lambda match: values[match[1]], template).strip()
        if columns.chat:
            text = f"{text}\n\n{_as_question([message_of(message) for message in self._asked(row)])}".strip()
        unit = self._unit(row)
        text = f"{text}\n\n(unit of the answer: {unit})" if unit and text else text
        images = self.images(row)
        text = _PLACE.sub(IMAGE_MARK, text) if len(_PLACE.findall(text)) == len(images) else text
        missing = len(images) - text.count(IMAGE_MARK)
        return f"{IMAGE_MARK * missing}\n{text}".strip() if missing > 0 else text

    def _unit(self, row: Mapping[str, Any]) -> str:
        """The unit of the answer that a column of its own has, without the signs around TeX; else empty."""
        unit = as_text(value_of(row, self.columns.unit)) if self.columns.unit else ""
        return unit.strip("$ ") or unit

    def images(self, row: Mapping[str, Any]) -> list[Any]:
        """The images of a row, as they are stored, in the order of their marks; None for a part that names none."""
        if not self.columns.images and not self.columns.chat:
            return []
        cells = [value_of(row, name) for name in self.columns.images]
        listed = [image for cell in cells for image in (cell if isinstance(cell, list) else [cell]) if is_filled(image)]
        parts = [image for message in self._asked(row) for image in images_in(message)]
        open_parts = sum(image is None for image in parts)
        before = listed[: max(0, len(listed) - open_parts)]
        following = iter(listed[len(before) :])
        return before + [next(following, None) if image is None else image for image in parts]

    def _asked(self, row: Mapping[str, Any]) -> list[Any]:
        """The messages of a chat before the right answer; none where the question is no chat."""
        messages = list(value_of(row, self.columns.chat) or ()) if self.columns.chat else []
        while messages and message_of(messages[-1])[0] == "assistant":
            messages.pop()
        return messages

    def answers(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        """The right answers of a row: any of them is right, or they are the items of a list; none where it has none."""
        columns = self.columns
        if not columns.answer:
            role, text = message_of((value_of(row, columns.chat) or [""])[-1])
            return (text.strip(),) if role == "assistant" and text.strip() else ()
        value = value_of(row, columns.answer)
        if plain_name(columns.answer) in SCORED_OPTIONS:
            return _best_scored(value)
        if self.how.kind == "rubric":  # a list of criteria is one rubric
            return tuple(filter(None, [as_text(value)]))
        answers = _gold_of(value, self.form)
        if self.is_boolean:
            answers = tuple({"true": "yes", "false": "no"}.get(answer, answer) for answer in answers)
        return tuple(self.class_names.get(answer, answer) for answer in answers)

    def options(self, row: Mapping[str, Any], text: str) -> Options | None:
        """The options of a row: of its columns, or those that its text lists if answers are choices."""
        columns = self.columns
        if plain_name(columns.answer) in SCORED_OPTIONS:
            options = _scored_options(value_of(row, columns.answer))
        else:
            options = options_of(row, columns.options) if columns.options else None
        if options is None and not columns.options and self.how.kind in (*BY_ROW, "text"):
            options = options_in_text(text)
        return shuffled_options(options.texts, text) if options is not None and self.is_shuffled else options

    def how_of(self, row: Mapping[str, Any], answers: tuple[str, ...], options: Options | None) -> HowCompared:
        """How the answer of a row is compared: as the dataset; one of another kind as it is, or as a text."""
        is_list = self.form == "list" and isinstance(listed(value_of(row, self.columns.answer)), list)
        usual = self._usual(answers, options, is_list=is_list)
        if usual is not None or not self.is_found:
            return usual or HowCompared(kind="text")
        of_row = HowCompared(kind="list") if is_list else _by_itself(answers, options)
        return of_row.model_copy(update={"is_open": self.how.kind == "text" != of_row.kind})

    def is_in_range(self, answers: Sequence[str], options: Options | None) -> bool:
        """Whether a right answer that is the index of an option is one of an option of its row."""
        return self.base is None or (options is not None and options.mark_of(answers[0], self.base) is not None)

    def _usual(self, answers: Sequence[str], options: Options | None, *, is_list: bool) -> HowCompared | None:
        """The comparison of the dataset for an answer; None for an answer of another kind."""
        how = self.how
        if how.kind in BY_ROW and how.marks:
            marked = marks_of(answers) if how.kind == "set" else answers[:1]
            if options is not None and all(options.mark_of(answer, self.base) is not None for answer in marked):
                return how.model_copy(update={"marks": options.marks, "options": options.texts})
            return how if options is None and all(mark_in(answer) in how.marks for answer in marked) else None
        if self.has_options and (choice := _choice_of(answers, options)):
            return choice
        if how.kind == "label":
            return how if answers[0] in how.labels or plain(answers[0]) in map(plain, how.labels) else None
        is_other_form = self.is_found and self.form == "list" and how.kind != "set" and is_list != (how.kind == "list")
        return how if how.kind != "text" and not is_other_form and _fits(answers, how) else None


def _choice_of(answers: Sequence[str], options: Options | None) -> HowCompared | None:
    """How an answer is compared that names options of its row; None if it does not."""
    named = marks_of(answers[:1])
    if options is None or any(options.mark_of(each, None) is None for each in named):
        return None
    return HowCompared(kind="choice" if len(named) == 1 else "set", marks=options.marks, options=options.texts)


def _fits(answers: Sequence[str], how: HowCompared) -> bool:
    with contextlib.suppress(InputError):
        check_truths(answers, how)
        return True
    return False


@lru_cache(maxsize=50_000)
def _by_itself(answers: tuple[str, ...], options: Options | None) -> HowCompared:
    """How an answer is compared that says alone of what kind it is: an option, yes or no, a number, a date, a formula.

    A name is a text, also where it could be a formula. The results are cached, as rows are described and then read.
    """
    if options is not None and options.marks[0].isalpha() and (choice := _choice_of(answers, options)):
        return choice
    pair = next((pair for pair in (("no", "yes"), ("false", "true")) if plain(answers[0]) in pair), None)
    if pair is not None:
        return HowCompared(kind="label", labels=pair)
    found = kind_of(answers)
    is_clear = found in ("number", "date", "list", "sql") or (found == "formula" and show_mathematics(answers))
    return how_compared(answers[:1], found) if is_clear else HowCompared(kind="text")


def _as_row_says(kind: str, answers: Sequence[str], usual: HowCompared, where: str) -> HowCompared:
    if kind == "label":  # a prompt with one label alone would give the answer away
        return usual if usual.kind == "label" and len(usual.labels) > 1 else HowCompared(kind="text")
    try:
        return how_compared(answers[:1], kind)
    except InputError as error:
        raise InputError(f"{where}: {error.what}", why=error.why, fix=error.fix) from None


def _gold_of(value: Any, form: str) -> tuple[str, ...]:
    """The right answers in one value of a column whose form is known."""
    value = listed(value)
    if form in SOLUTIONS:
        return in_solution(value, form)
    if isinstance(value, str):
        return (value.strip(),) if value.strip() else ()
    return read_gold([value]).answers[0]


def marks_of(answers: Sequence[str]) -> list[str]:
    """The marks that an answer names: of ``AC``, ``A, C``, ``["A", "C"]``; other texts are one value."""
    if len(answers) > 1:
        return [mark_in(text) for text in answers]
    answer = answers[0] if answers else ""
    choices = read_choices(answer) if answer.isupper() else None
    return sorted(choices) if choices and len(choices) > 1 else [answer]


def _shows(text: str, options: Options) -> bool:
    """Whether a question lists the options itself."""
    return all(option in text for option in options.texts) and options_in_text(text) is not None


def _scored_options(value: Any) -> Options | None:
    if not isinstance(value, Mapping):
        return None
    return listed_options(value["choices"] if isinstance(value.get("choices"), list) else list(map(str, value)))


def _best_scored(value: Any) -> tuple[str, ...]:
    """The options with the highest score."""
    if not isinstance(value, Mapping):
        return ()
    if isinstance(value.get("choices"), list) and isinstance(value.get("labels"), list):
        value = dict(zip(map(as_text, value["choices"]), value["labels"], strict=False))
    scores = {str(key): score for key, score in value.items() if isinstance(score, int | float)}
    best = max(scores.values(), default=0)
    return tuple(key for key, score in scores.items() if score == best and best > 0)


def _as_question(messages: Sequence[tuple[str, str]]) -> str:
    """The messages before an answer as one text; the speakers are named where the model has spoken before."""
    if any(role == "assistant" for role, _ in messages):
        return "\n\n".join(text if role == "system" else f"{role.capitalize()}: {text}" for role, text in messages)
    return "\n\n".join(text for _, text in messages)
