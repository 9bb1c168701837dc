"""The rows that a JSON document holds: below a key, by id, as columns, as lists, or nested in one another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from engine.errors import InputError
from engine.storage.column_names import answers, asks, has_known_name, known, other_number

SPLITS = {
    name: usual
    for usual, names in {
        "train": ("train", "training", "train_set", "train_data"),
        "test": ("test", "testing", "test_set", "test_data", "eval", "evaluation"),
        "validation": ("validation", "valid", "val", "dev", "development"),
    }.items()
    for name in names
}
"""Names of splits, and the usual one of each."""

_DEPTH = 6
_OF_A_TEST = {"input", "output"}
"""The keys of tests of a program, and of examples, in the list of the row that they belong to."""
_FEW = 10
"""A split named ``train`` that is smaller than another by this factor holds examples for a prompt."""


class Form(NamedTuple):
    """Rows that were found in a document; ``is_named``: they were lists, whose columns got names."""

    rows: list[Any]
    notes: tuple[str, ...] = ()
    is_named: bool = False


def rows_of_document(
    value: Any, source: str, split: str | None, columns: Sequence[str] | None, *, fix: str
) -> tuple[Iterator[Any], list[str]]:
    """The rows of one JSON value, and notes for the screen.

    Args:
        value: a list of rows, one row, or an object that holds the rows at some depth.
        source: the file, for messages.
        split: the key or the path of the list that is read; None for the only one, or ``train``.
        columns: names for rows that are lists.
        fix: what to do about an object without rows.

    Raises:
        InputError: there are no rows, or several lists of rows and none of them is meant.
    """
    if isinstance(value, Mapping) and _is_row(value) and columns is None:
        return iter([value]), []
    if isinstance(value, list):
        form, notes = as_rows(value, columns, source) or Form(value), []
    else:
        forms = {".".join(path): found for path, found in _found(value, (), columns, source)}
        if not forms:
            if not isinstance(value, Mapping) or not value or not all(map(_is_deep, value.values())):
                return iter([value]), []
            raise InputError(f"{source} holds no list of rows", fix=fix)
        chosen = _chosen({path: found.rows for path, found in forms.items()}, source, split)
        form = forms[chosen]
        notes = _about_place(chosen, list(forms), form)
    if columns is not None and not form.is_named:
        raise names_are_there(source)
    below = nesting(form.rows)
    if below:
        notes.append(f"questions are under {'.'.join(below)!r} of each row")
    return unfolded(form.rows, below), [*notes, *form.notes]


def names_are_there(source: object) -> InputError:
    """The error of ``--columns`` for rows that have names."""
    return InputError(f"--columns is for rows without names, and those of {source} have names", fix="Leave it out.")


def _is_deep(value: Any) -> bool:
    return isinstance(value, list | Mapping)


def as_rows(value: Any, columns: Sequence[str] | None, source: str) -> Form | None:
    """The rows that a value is: a list of objects or of lists, an object of columns, or one of objects by id.

    Raises:
        InputError: the rows are lists, and ``columns`` has not as many names.
    """
    if isinstance(value, list) and value:
        if all(isinstance(row, Mapping) for row in value):
            return Form(value)
        if all(map(_is_conversation, value)):  # Open-Reasoner-Zero
            return Form([{"messages": messages} for messages in value])
        if all(map(_is_line, value)):
            return _of_lists(value, columns, source)
    if isinstance(value, Mapping) and value:
        return _of_columns(value) or _by_id(value)
    return None


def _is_conversation(value: Any) -> bool:
    return (
        isinstance(value, list) and bool(value) and all(isinstance(each, Mapping) and "from" in each for each in value)
    )


def _is_line(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) > 1
        and any(not isinstance(cell, list) for cell in value)
        and not any(isinstance(cell, Mapping) for cell in value)
    )


def _of_lists(value: list[list[Any]], columns: Sequence[str] | None, source: str) -> Form:
    first = list(map(str, value[0]))
    notes: tuple[str, ...] = ()
    if columns is not None:
        if len(columns) != len(first):
            raise other_number(columns, f"row of {source}", value[0])
        has_names = [name.lower() for name in first] == [name.lower() for name in columns]
        names = columns
    elif has_names := has_known_name(value[0], value[1:]):
        names = first
    else:
        names = list(map(str, range(1, max(map(len, value)) + 1)))
        notes = (f"rows are lists; their columns are {', '.join(names)}",)
    rows = [dict(zip(names, row, strict=False)) for row in value[1 if has_names else 0 :]]
    return Form(rows, notes, is_named=True)


def _of_columns(value: Mapping[str, Any]) -> Form | None:
    """Rows of ``{"question": [...], "answer": [...]}``."""
    plain = [name for name, column in value.items() if not _is_deep(column)]
    lists = {name: column for name, column in value.items() if isinstance(column, list)}
    if not lists or len(lists) + len(plain) != len(value):
        return None
    length = len(next(iter(lists.values())))
    if not length or any(len(column) != length for column in lists.values()) or set(lists) <= SPLITS.keys():
        return None
    if (plain or len(lists) == 1) and (asks(plain) or answers(plain) or not any(map(known, lists))):
        return None
    if any(_has_question_and_answer(column[0]) for column in lists.values()):
        return None
    if all(_is_deep(cell) for column in lists.values() for cell in column):
        return None
    rows = [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
    return Form(rows, ("rows are columns",))


def _by_id(value: Mapping[str, Any]) -> Form | None:
    """Rows of ``{"17": {...}, "18": {...}}``. A row without ``id`` gets its key as one."""
    rows = list(value.values())
    if not all(isinstance(row, Mapping) and row for row in rows) or not value.keys().isdisjoint(SPLITS):
        return None
    shared = set(rows[0]).intersection(*rows[1:])
    if not any(not _is_deep(rows[0][name]) for name in shared):
        return None
    with_ids = [row if "id" in row else {"id": name, **row} for name, row in value.items()]
    return Form(with_ids, (f"{len(rows)} rows by id",))


def _found(
    value: Any, path: tuple[str, ...], columns: Sequence[str] | None, source: str
) -> Iterator[tuple[tuple[str, ...], Form]]:
    """Every list of rows below an object, with its keys."""
    form = as_rows(value, columns, source)
    if form is not None:
        yield path, form
    elif isinstance(value, Mapping) and len(path) < _DEPTH:
        for name, inner in value.items():
            yield from _found(inner, (*path, name), columns, source)


def _chosen(lists: Mapping[str, list[Any]], source: str, split: str | None) -> str:
    """The list of rows that is meant: the named one, the only one, the only one with answers, or ``train``."""
    last = {path: path.rpartition(".")[2] for path in lists}
    usual = {
        path: next((SPLITS[key] for key in reversed(path.lower().split(".")) if key in SPLITS), last[path])
        for path in lists
    }
    if split is not None and (len(lists) > 1 or next(iter(usual.values())) in SPLITS.values()):
        wanted = (split, SPLITS.get(split.lower(), split))
        for names in ({path: path for path in lists}, last, usual):
            named = [path for path, name in names.items() if name in wanted]
            if len(named) == 1:
                return named[0]
        raise InputError(f"{source} has no {split!r}", why=f"It has: {_sizes(lists)}.", fix="Name one of these.")
    able = [path for path, rows in lists.items() if _has_question_and_answer(rows[0])] or list(lists)
    if len(able) == 1:
        return able[0]
    trains = [path for path in able if usual[path] == "train"]
    if len(trains) == 1:
        largest = max((path for path in able if usual[path] in SPLITS.values()), key=lambda path: len(lists[path]))
        return trains[0] if _FEW * len(lists[trains[0]]) > len(lists[largest]) else largest
    raise InputError(
        f"{source} has several lists of rows, and it is not clear which is meant",
        why=f"It has: {_sizes({path: lists[path] for path in able})}.",
        fix=f"Name one of them, such as --dataset '{source}:{able[0]}'.",
    )


def _sizes(lists: Mapping[str, list[Any]]) -> str:
    return ", ".join(f"{path} ({len(rows)} rows)" for path, rows in islice(lists.items(), 20))


def _about_place(chosen: str, paths: list[str], form: Form) -> list[str]:
    if not chosen:
        return []
    if len(paths) == 1:
        return [f"rows are under {chosen!r}"]
    kind = "lists of rows" if SPLITS.keys().isdisjoint(key for path in paths for key in path.split(".")) else "splits"
    return [f"{len(paths)} {kind} ({', '.join(paths[:20])}); read are the {len(form.rows)} rows of {chosen}"]


def _is_row(value: Mapping[str, Any]) -> bool:
    """Whether an object is a row by itself, although it may hold lists of objects."""
    plain = [name for name, field in value.items() if not _is_deep(field)]
    return "messages" in value or (asks(value) and answers(value) and (asks(plain) or answers(plain)))


def _has_question_and_answer(row: Any) -> bool:
    return isinstance(row, Mapping) and sum(map(known, row)) > 1


def nesting(rows: Iterable[Any]) -> tuple[str, ...]:
    """The keys of the lists in which rows hold their questions, as ``paragraphs`` and ``qas`` of SQuAD."""
    paths = (_path_to_questions(row, _DEPTH) for row in islice(rows, 20))
    return next(filter(None, paths), ())


def _path_to_questions(row: Any, depth: int) -> tuple[str, ...]:
    if not isinstance(row, Mapping) or asks(row) or not depth:
        return ()
    for name, value in row.items():
        if isinstance(value, list) and value and all(isinstance(inner, Mapping) for inner in value):
            if value[0].keys() == _OF_A_TEST:  # Codeforces
                continue
            if asks(value[0]):
                return (name,)
            below = _path_to_questions(value[0], depth - 1)
            if below:
                return (name, *below)
    return ()


def unfolded(rows: Iterable[Any], path: Sequence[str]) -> Iterator[Any]:
    """The rows below a path of keys. Each has the other fields of those above it, but for their ``id``."""
    for row in rows:
        inner = row.get(path[0]) if path and isinstance(row, Mapping) else None
        if not isinstance(inner, list):
            yield row
            continue
        outer = {name: value for name, value in row.items() if name not in (path[0], "id")}
        below = ({**outer, **inner_row} if isinstance(inner_row, Mapping) else inner_row for inner_row in inner)
        yield from unfolded(below, path[1:])
