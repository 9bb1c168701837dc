"""Find the description of a dataset: its columns, the form of its right answers, and their comparison."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from engine.answers.how_compared import HowCompared
from engine.errors import InputError
from engine.own_data.answer_kind import (
    MOST,
    are_formulas,
    are_identifiers,
    described,
    how_compared,
    labels_of,
    remark,
    show_mathematics,
)
from engine.own_data.cells import as_text, is_filled, plain_name, value_of
from engine.own_data.columns import ANSWERS, LABELS, RUBRICS, Columns, find_columns, names_in
from engine.own_data.description import BY_ROW, Description, marks_of
from engine.own_data.gold import SOLUTIONS, listed, read_gold
from engine.own_data.options import SCORED_OPTIONS, Options, mark_in

_SHOWN = 3
_ASKS = re.compile(r"\?|(?:^|\n)(?:is|are|was|were|do|does|did|can|could|has|have|will|would|should) ", re.IGNORECASE)
"""A text that asks for yes or no."""
_MANY_LABELS = 30
_MANY_IDS = 10
"""Most values of a column such as ``stars`` or ``is_duplicate`` that are classes, and not numbers."""
_LOOKED_AT = 200
"""If the answers of about so many rows, taken from all, name no options, those of the others do not either."""
_FEW = 8
_SAME_PLACE = 0.9
"""Options are put into another order where the right one is in one place in at least this share of the rows."""
_Read = Sequence[tuple[Mapping[str, Any], tuple[str, ...]]]
"""The rows that have right answers, with these."""


def describe(
    rows: Sequence[Mapping[str, Any]],
    *,
    where: str,
    fields: Mapping[str, str] | None = None,
    compare_as: str | None = None,
    class_names: Mapping[str, Sequence[str]] | None = None,
    by_name: bool = False,
    reads_images: bool = False,
) -> Description:
    """The description of a dataset.

    Args:
        rows: all of them.
        where: the file, for messages.
        fields: columns that the user names: ``problem`` (a template), ``answer``, ``options``.
        compare_as: how answers are compared, if the user says so.
        class_names: names of class ids, by column, from the schema of the file.
        by_name: whether only columns with known names count.
        reads_images: whether prompts show images; else their columns are as any others.

    Raises:
        InputError: it is not clear which column is which, or the answers do not fit the comparison.
    """
    candidates = find_columns(rows, fields or {}, where, by_name=by_name, reads_images=reads_images)
    if compare_as is None and plain_name(candidates[0].answer) in RUBRICS:
        compare_as = "rubric"
    drafts = [_draft(columns, rows, class_names or {}) for columns in candidates]
    reads = [_answered(draft, rows) for draft in drafts]
    chosen: Description | None = None
    if compare_as in (None, *BY_ROW):
        chosen = next(filter(None, (_as_choices(draft, read) for draft, read in zip(drafts, reads, strict=True))), None)
    if chosen is None and compare_as == "choice":
        raise InputError(
            f"--compare choice: the right answers of {where} name no options",
            fix="Name the column of the options: --fields options=NAME, or A+B+C+D.",
        )
    read = reads[0] if chosen is None else _answered(chosen, rows)
    chosen = chosen or _compared(drafts[0], rows, read, compare_as)
    shown = [chosen.plain_row(row, where)[0]["answer"] for row, _ in read[:_SHOWN]]
    with_compare = sum(row.get("compare") is not None for row in rows)
    remarks = [*chosen.remarks, *_odd_ones(chosen, read), _on_labels(chosen.how), _on_images(chosen, rows)]
    return replace(chosen, examples=tuple(dict.fromkeys(shown)), own=with_compare, remarks=tuple(filter(None, remarks)))


def _on_numbers(labels: Sequence[str]) -> str:
    is_unnamed = labels and all(re.fullmatch(r"-?\d+", label) for label in labels)
    return "the labels are numbers without names, and a model cannot know what they mean" if is_unnamed else ""


def _on_labels(how: HowCompared) -> str:
    """How many tokens of a prompt many labels take, at four characters each."""
    if len(how.labels) < _MANY_LABELS:
        return ""
    tokens = math.ceil(sum(len(label) / 4 + 1 for label in how.labels))
    return f"each prompt lists the {len(how.labels)} labels (about {tokens} tokens)"


def _on_images(chosen: Description, rows: Sequence[Mapping[str, Any]]) -> str:
    count = sum(bool(chosen.images(row)) for row in rows) if chosen.columns.images or chosen.columns.chat else 0
    return f"{count} rows have images: the analyst does not see them, and no prompt has them as cases" if count else ""


def _draft(
    columns: Columns, rows: Sequence[Mapping[str, Any]], class_names: Mapping[str, Sequence[str]]
) -> Description:
    """A description whose comparison is not known yet."""
    alike = [row for row in rows if row.get("compare") is None] or rows
    gold = read_gold([value_of(row, columns.answer) if columns.answer else None for row in alike])
    draft = Description(columns, gold.form, HowCompared(kind="text"))
    draft = replace(draft, is_boolean=gold.is_boolean and _are_questions(draft, rows))
    return _with_class_names(draft, rows, class_names)


def _answered(draft: Description, rows: Sequence[Mapping[str, Any]]) -> _Read:
    """The rows that have a question and an answer and do not say themselves how they are compared."""
    alike = [row for row in rows if row.get("compare") is None and draft.question(row)]
    return [(row, answers) for row in alike if (answers := draft.answers(row))]


def _compared(
    draft: Description, rows: Sequence[Mapping[str, Any]], read: _Read, compare_as: str | None
) -> Description:
    """The description with the comparison that fits its answers, which name no options in most rows."""
    if draft.has_options:  # where a row has options, it is a choice
        read = [(row, answers) for row, answers in read if draft.options(row, "") is None] or read
    firsts = [answers[0] for _, answers in read]
    labelled = [as_text(value_of(row, draft.columns.answer)) for row in rows if row.get("compare") == "label"]
    if not firsts:
        return replace(draft, how=how_compared(labelled, "label") if labelled else draft.how)
    if compare_as is not None:
        how = how_compared(firsts + (labelled if compare_as == "label" else []), compare_as)
        return replace(draft, how=how, form="value" if how.kind == "rubric" else draft.form, is_found=False)
    are_lists = [isinstance(listed(value_of(row, draft.columns.answer)), list) for row, _ in read]
    if draft.form == "list" and 2 * sum(are_lists) < len(read):  # a list is one answer among others
        firsts = [first for first, is_list in zip(firsts, are_lists, strict=True) if not is_list]
    elif draft.form == "list":
        items = [item for _, answers in read for item in answers]
        is_of_labels = plain_name(draft.columns.answer) in LABELS
        labels = labels_of(items) if is_of_labels and len(set(items)) <= _MANY_LABELS else ()
        how = HowCompared(kind="set" if is_of_labels else "list", labels=labels)
        return replace(draft, how=how, remarks=(_on_numbers(labels),))
    if draft.form == "any of several":
        how = how_compared(firsts)
        return replace(draft, how=how if how.kind in ("number", "date", "formula") else draft.how)
    if draft.is_boolean:
        return replace(draft, how=HowCompared(kind="label", labels=("no", "yes")))
    if draft.class_names:
        how = _of_classes(draft.class_names, firsts)
        return replace(draft, how=how, remarks=(_on_numbers(how.labels),))
    are_codes = are_identifiers(firsts) and not _have_tex(draft, read)
    how = how_compared(firsts, are_codes=are_codes)
    compared = replace(draft, how=how, remarks=(remark(firsts, how),), is_found=not are_codes)
    return replace(compared, is_mathematics=_is_mathematics(compared, read, firsts))


def _as_choices(draft: Description, read: _Read) -> Description | None:
    """The description of answers that name options; None if they do not."""
    columns = draft.columns
    if not read or (len(read) > _LOOKED_AT and _as_choices(draft, read[:: len(read) // _LOOKED_AT + 1]) is None):
        return None
    probe = replace(draft, how=HowCompared(kind="choice"))
    lists = [probe.options(row, draft.question(row)) for row, _ in read]
    firsts = [answers[0] for _, answers in read]
    base = _index_base(lists, firsts) if draft.has_options else None
    named = [marks_of(answers) for _, answers in read]
    is_set = any(len(row_marks) > 1 for row_marks in named) and _name_options(lists, named, base)
    marks = {mark: None for options in lists if options for mark in options.marks}
    if not is_set and not _name_options(lists, [[first] for first in firsts], base):
        bracketed = [first for first in firsts if re.fullmatch(r"[(（][A-Z][)）]", first)]
        if draft.has_options or len(bracketed) < MOST * len(read):
            return None
        marks = dict.fromkeys(sorted({mark_in(first) for first in bracketed}))
    how = HowCompared(kind="set" if is_set else "choice", marks=tuple(marks))
    in_one_place = draft.has_options and not is_set and _are_in_one_place(lists, firsts, base)
    has_wrong_ones_only = plain_name(columns.answer) in SCORED_OPTIONS or columns.answer in columns.options
    return replace(draft, how=how, base=base, is_shuffled=in_one_place or has_wrong_ones_only)


def _name_options(lists: Sequence[Options | None], answers: Sequence[Sequence[str]], base: int | None) -> bool:
    """Whether most answers are options of their row."""
    known = sum(
        options is not None and all(options.mark_of(answer, base) is not None for answer in row_answers)
        for options, row_answers in zip(lists, answers, strict=True)
    )
    return known >= MOST * len(answers)


def _are_in_one_place(lists: Sequence[Options | None], answers: Sequence[str], base: int | None) -> bool:
    """Whether the right option is nearly always the first, or the last, so that its place gives it away."""
    marks = [(options, options.mark_of(gold, base)) for options, gold in zip(lists, answers, strict=True) if options]
    places = Counter(options.marks.index(mark) for options, mark in marks if mark is not None)
    return len(answers) >= _FEW and max(places.values(), default=0) >= _SAME_PLACE * len(answers)


def _index_base(lists: Sequence[Options | None], answers: Sequence[str]) -> int | None:
    """Whether right answers are indices of the options, from 0 or from 1; None if they are not."""
    pairs = [
        (options, int(answer)) for options, answer in zip(lists, answers, strict=True) if options and answer.isdecimal()
    ]
    named = sum(str(index) in (*options.marks, *options.texts) for options, index in pairs)  # by chance in MMLU
    if len(pairs) < MOST * len(answers) or 2 * named >= len(pairs):
        return None
    base = 0 if any(index == 0 for _, index in pairs) else 1
    fitting = sum(base <= index < len(options.marks) + base for options, index in pairs)
    return base if fitting >= MOST * len(pairs) else None


def _with_class_names(
    draft: Description, rows: Sequence[Mapping[str, Any]], class_names: Mapping[str, Sequence[str]]
) -> Description:
    """The description with the names of class ids: of the schema, of a column, or the ids themselves."""
    columns = draft.columns
    if columns.options or not columns.answer:
        return draft
    named = class_names.get(columns.answer)
    if named:
        return replace(draft, class_names={str(number): name for number, name in enumerate(named)})
    if columns.names:
        pairs = ((as_text(value_of(row, columns.answer)), as_text(value_of(row, columns.names))) for row in rows)
        return replace(draft, class_names={number: name for number, name in pairs if number and name})
    name = plain_name(columns.answer)
    if name in ANSWERS:
        return draft
    values = [as_text(value) for row in rows if is_filled(value := value_of(row, columns.answer))]
    counts = Counter(values)
    ids = [value for value in counts if re.fullmatch(r"-?\d{1,4}", value)]
    are_ids = sum(counts[value] for value in ids) >= MOST * len(values)
    if are_ids and 1 < len(ids) <= len(values) / 2 and (name in LABELS or len(ids) <= _MANY_IDS):
        return replace(draft, class_names={value: value for value in ids})
    return draft


def _of_classes(names: Mapping[str, str], answers: Sequence[str]) -> HowCompared:
    ids = {name: number for number, name in names.items()}
    labels = labels_of([*names.values(), *answers])
    has_names = any(name != number for number, name in names.items())
    return HowCompared(
        kind="label", labels=labels, ids=tuple(ids.get(label, "") for label in labels) if has_names else ()
    )


def _is_mathematics(draft: Description, read: _Read, answers: Sequence[str]) -> bool:
    """Whether the answers are numbers without units or formulas, and something shows that they are of mathematics.

    That is a solution with ``####`` or a box, TeX or operators in answers or questions, or the column ``problem``.
    """
    if draft.columns.unit or draft.how.kind not in ("number", "formula") or not are_formulas(answers):
        return False
    if any(draft.images(row) for row, _ in read):  # a scaffold shows none
        return False
    if are_identifiers(answers) and not _have_tex(draft, read):
        return False
    is_solution = draft.form in SOLUTIONS
    is_of_seed = "problem" in map(plain_name, names_in(draft.columns.question))
    return is_solution or is_of_seed or show_mathematics(answers) or _have_tex(draft, read)


def _have_tex(draft: Description, read: _Read) -> bool:
    """Whether questions are written in TeX."""
    return any(re.search(r"\$[^$\n]*[\\^_=][^$\n]*\$", draft.question(row)) for row, _ in read)


def _odd_ones(chosen: Description, read: _Read) -> list[str]:
    """How many rows have answers of another kind than the dataset, for each other kind."""
    odd: dict[str, list[str]] = {}
    for row, answers in read:
        options = chosen.options(row, chosen.question(row))
        how = chosen.how_of(row, answers, options)
        if how.kind != chosen.how.kind and chosen.is_in_range(answers, options):
            odd.setdefault("compared as texts" if how.kind == "text" else described(how), []).append(answers[0])
    return [
        f"{len(odd[how])} of {len(read)} answers are of another kind and {how}: "
        + ", ".join(repr(answer[:30]) for answer in [*dict.fromkeys(odd[how])][:3])
        for how in odd
    ]


def _are_questions(draft: Description, rows: Sequence[Mapping[str, Any]]) -> bool:
    texts = [draft.question(row) for row in rows[:200]]
    return sum(bool(_ASKS.search(text)) for text in texts) > len(texts) / 2
