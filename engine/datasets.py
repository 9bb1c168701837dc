"""Problems by name: shipped with the checkout, in a local file, or on the Hugging Face hub."""

from __future__ import annotations

import difflib
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

from engine.errors import InputError, MissingInputError
from engine.records import Problem
from engine.shipped_files import shipped_file
from engine.tasks.code.datasets import CODE_SETS, code_part
from engine.tasks.code.problems import UnusableRowError, code_problem

MAX_LINE_BYTES = 1 << 20
"""A longer line is refused before it is read to its end."""

MAX_CODE_LINE_BYTES = 64 << 20
"""The same for the files of MBPP and APPS by name, and for a file that is one JSON array."""

QUICKSTART_PROBLEMS = 240
"""Problems of ``quickstart`` where no number is asked for; it makes as many as one likes."""

_SHIPPED = shipped_file("datasets")
_TEXT_FIELDS = ("problem", "question", "prompt", "text")
_ANSWER_FIELDS = ("answer", "ground_truth")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_DEGREES = re.compile(r"\s*(?:\^\s*\{?\s*\\circ\s*\}?|°)$")


@dataclass(frozen=True)
class _Known:
    """A dataset that this program knows by name; ``hub`` is (repository, split, revision)."""

    task: str = "math"
    aime: bool = False
    hub: tuple[str, str, str] | None = None


# Both hub copies hold the thirty problems of both papers of the year. A revision is named so that a problem's
# number means the same problem for everyone, also after the copy is edited.
_KNOWN: Mapping[str, _Known] = {
    "aime2024": _Known(aime=True, hub=("HuggingFaceH4/aime_2024", "train", "2fe88a2f1091d5048c0f36abc874fb997b3dd99a")),
    "aime2025": _Known(aime=True, hub=("math-ai/aime25", "test", "563bb8404243c5f09de6ec262f2db674fe5bce9b")),
    "physics": _Known(task="physics"),
}


def load_problems(
    name_or_path: str, *, max_problems: int | None = None, search: Sequence[Path] | None = None
) -> list[Problem]:
    """Load a dataset and check every problem and ground truth that is returned.

    A name is looked for as ``<name>.jsonl`` in the folders of ``search``, then on the Hugging Face hub where
    the name has a place there and the ``datasets`` package is installed. A text with a slash or that ends in
    ``.jsonl`` or ``.json`` is a path; the file's stem is then its name. ``quickstart`` is made, not read: its
    training split, or another one as ``quickstart:test``. Code is ``mbpp``, ``mbpp:test``, ``apps:introductory``
    and so on (:mod:`engine.tasks.code.datasets`). A line is one JSON object in UTF-8:

    * ``problem`` (or ``question``, ``prompt``, ``text``): the text;
    * ``answer`` (or ``ground_truth``): a text or a number;
    * ``id``: optional; without it the n-th problem is ``<name>_00n``;
    * ``task``: optional, ``math`` where it is absent (``physics`` in the dataset ``physics``);
    * what else is there goes to ``meta``;
    * a row with ``tests``, ``test_list`` or ``input_output`` is a programming problem, see
      :func:`engine.tasks.code.problems.code_problem`.

    A file may also be one JSON array of such objects.

    Args:
        name_or_path: ``aime2024``, ``aime2025``, ``physics``, another file's stem, or a path.
        max_problems: at most so many, from the start; the rest of the file is not read. None: all.
        search: folders to look in; None: the datasets of the package, then ``$SCAFFOLD_DATA``.

    Returns:
        the problems in the file's order; never an empty list.

    Raises:
        MissingInputError: there is no such file, and the hub cannot give it.
        InputError: an unknown name, an empty file, or a line that is not a problem (file, line and field are
            named); an answer of an AIME set that is not an integer from 0 to 999.
    """
    if max_problems is not None and max_problems < 1:
        raise InputError(f"max_problems is {max_problems}", fix="Give 1 or more, or leave it out for all.")
    if name_or_path.partition(":")[0] == "quickstart":
        return _quickstart(name_or_path.partition(":")[2] or "train", max_problems)
    if _is_path(name_or_path):
        path = Path(name_or_path).expanduser()
        return _problems(_file_rows(path), path.stem, str(path), max_problems)
    folders = _default_folders() if search is None else search
    if name_or_path.partition(":")[0] in CODE_SETS:
        return load_code_set(name_or_path, max_problems=max_problems, search=folders).problems
    found = _find(name_or_path, folders)
    if found is not None:
        return _problems(_file_rows(found), name_or_path, str(found), max_problems)
    if name_or_path not in _KNOWN:
        raise _unknown_name(name_or_path, folders)
    source, rows = _hub_rows(name_or_path, folders)
    return _problems(rows, name_or_path, source, max_problems)


def _quickstart(split: str, max_problems: int | None) -> list[Problem]:
    from engine.tasks.math.quickstart import problems

    return problems(split, max_problems or QUICKSTART_PROBLEMS)


# ------------------------------------------------------------------ where a dataset lies


def _is_path(name: str) -> bool:
    return "/" in name or os.sep in name or name.endswith((".jsonl", ".json"))


def _default_folders() -> list[Path]:
    extra = os.environ.get("SCAFFOLD_DATA")
    return [_SHIPPED, Path(extra).expanduser()] if extra else [_SHIPPED]


def _find(name: str, folders: Iterable[Path]) -> Path | None:
    if not _PLAIN_NAME.fullmatch(name):
        return None
    return next((path for folder in folders if (path := folder / f"{name}.jsonl").is_file()), None)


def _unknown_name(name: str, folders: Iterable[Path]) -> InputError:
    names = sorted(
        {"quickstart", *CODE_SETS, *_KNOWN, *(path.stem for folder in folders for path in folder.glob("*.jsonl"))}
    )
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    guess = f"Did you mean {near[0]!r}? " if near else ""
    return InputError(
        f"Unknown dataset: {name!r}",
        why=f"Known: {', '.join(names)}.",
        fix=f"{guess}A file of your own is given by its path (x.jsonl).",
    )


def _needed_fields() -> str:
    return 'Each line is a JSON object with "problem" and "answer" (and "id", "task" if you like).'


def _hub_rows(name: str, folders: Sequence[Path]) -> tuple[str, Iterable[Any]]:
    """Rows from the hub, numbered by position: the copies' own ids differ from copy to copy."""
    hub = _KNOWN[name].hub
    places = " or ".join(str(folder / f"{name}.jsonl") for folder in folders) or f"{name}.jsonl"
    what, fix = f"Dataset {name} is not on this machine", f"Put it at {places}. {_needed_fields()}"
    if hub is None:
        raise MissingInputError(what, fix=fix)
    repository, split, revision = hub
    rows = _from_hub(repository, what, fix, repository, split=split, revision=revision)
    return f"{repository} (Hugging Face hub)", (_without_id(row) for row in rows)


def _from_hub(repository: str, what: str, fix: str, *args: Any, **kwargs: Any) -> Iterable[Any]:
    """``datasets.load_dataset(*args, **kwargs)``, with its errors as ours."""
    try:
        from datasets import load_dataset
    except ImportError as error:
        why = f"It could come from the Hugging Face hub ({repository}), but `datasets` is not installed."
        fix = f"{fix} Or: pip install 'scaffold-grpo[datasets]'."
        raise MissingInputError(what, why=why, fix=fix) from error
    try:
        rows: Iterable[Any] = load_dataset(*args, **kwargs)
    except Exception as error:  # the package raises its own, the hub's and the HTTP client's errors
        reason = str(error).strip().splitlines() or [""]
        why = f"The Hugging Face hub did not give {repository}: {type(error).__name__}: {reason[0][:300]}"
        raise MissingInputError(what, why=why, fix=fix) from error
    return rows


@dataclass(frozen=True)
class CodeSet:
    """The problems of a part of MBPP or APPS; ``dropped`` has (row's id, reason code, why) of the others."""

    problems: list[Problem]
    dropped: list[tuple[str, str, str]]


def load_code_set(
    name: str,
    *,
    max_problems: int | None = None,
    search: Sequence[Path] | None = None,
    public_tests: int = 1,
    row_read: Callable[[], Any] = lambda: None,
) -> CodeSet:
    """Load a part of MBPP or APPS, and say which rows could not be used.

    Args:
        name: such as ``mbpp``, ``mbpp:sanitized-test``, ``apps:introductory``.
        max_problems: as :func:`load_problems`.
        search: as :func:`load_problems`.
        public_tests: tests of an MBPP problem that its prompt shows.
        row_read: called for each row.

    Raises:
        MissingInputError: there is no file, and the hub cannot give it.
        InputError: no such part, or a file without any problem of it.
    """
    part = code_part(name)
    folders = _default_folders() if search is None else search
    path = next((folder / file for folder in folders for file in part.files if (folder / file).is_file()), None)
    if path is not None:
        source, rows = str(path), _file_rows(path, MAX_CODE_LINE_BYTES)
    else:
        what = f"Dataset {name} is not on this machine"
        fix = f"Put it at {folders[0] / part.files[0] if folders else part.files[0]}, one JSON object a line."
        source = f"{part.repository} (Hugging Face hub)"
        rows = iter(_from_hub(part.repository, what, fix, *part.hub_arguments, **part.hub_options))
    problems: dict[str, Problem] = {}
    dropped = []
    for number, row in enumerate(rows, 1):
        row_read()
        if not isinstance(row, Mapping) or not part.holds(row):
            continue
        row_id = f"{part.prefix}_{row.get('task_id', row.get('problem_id', number))}"
        try:
            problem = code_problem(row, row_id, prefix=part.prefix, public_tests=public_tests)
            if problem is None:
                raise UnusableRowError("malformed", "it has neither test_list nor input_output")
            if problem.id in problems:
                raise UnusableRowError("repeated_id", "an earlier row has the same id")
        except UnusableRowError as error:
            dropped.append((row_id, error.reason, error.what))
            continue
        problems[problem.id] = problem
        if len(problems) == max_problems:
            break
    if not problems:
        raise InputError(f"{source} holds no problem of {name}", fix=f"It needs rows of {part.described}.")
    return CodeSet(list(problems.values()), dropped)


def _without_id(row: Mapping[str, Any]) -> dict[str, Any]:
    rest = {key: value for key, value in row.items() if key != "id"}
    return {**rest, "source_id": row["id"]} if "id" in row else rest


# ------------------------------------------------------------------ lines of a file


def _file_rows(path: Path, longest: int = MAX_LINE_BYTES) -> Iterator[Any]:
    """The JSON values of a file, None for a blank line; never more than one line in memory.

    A file whose first sign is ``[`` is one JSON array, read as a whole.
    """
    try:
        with path.open("rb") as handle:
            if handle.peek(64)[:64].removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"[":
                yield from _array(handle.read(MAX_CODE_LINE_BYTES + 1), path)
                return
            for number in count(1):
                line = handle.readline(longest + 1)
                if not line:
                    return
                if len(line) > longest:
                    raise _bad(path, number, f"the line is longer than {longest:,} bytes")
                yield _parse(line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line, path, number)
    except FileNotFoundError as error:
        raise MissingInputError(f"Dataset file not found: {path}", fix=_needed_fields()) from error
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}", fix="Give a readable file.") from error


def _array(content: bytes, path: Path) -> list[Any]:
    if len(content) > MAX_CODE_LINE_BYTES:
        raise InputError(f"{path} is one JSON array of more than {MAX_CODE_LINE_BYTES:,} bytes", fix="Write JSONL.")
    value = _parse(content.removeprefix(b"\xef\xbb\xbf"), path, 1)
    return value if isinstance(value, list) else [value]


def _parse(line: bytes, path: Path, number: int) -> Any:
    try:
        text = line.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        why = f"not UTF-8 (byte {line[error.start]:#04x} at column {error.start + 1})"
        raise _bad(path, number, why, fix="Save the file as UTF-8.") from error
    if not text:
        return None
    try:
        value = json.loads(text, parse_constant=_no_constant)
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise _bad(path, number, "half of a surrogate pair (\\ud800 to \\udfff) stands alone") from error
    except json.JSONDecodeError as error:
        why = f"not JSON: {error.msg} at column {error.colno}"
        raise _bad(path, number, why, fix="Each line must be one whole JSON object.") from error
    except ValueError as error:
        raise _bad(path, number, f"not JSON: {str(error)[:200]}") from error
    except RecursionError as error:
        raise _bad(path, number, "nested too deeply") from error
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _bad(source: object, number: int, why: str, *, fix: str = "") -> InputError:
    return InputError(f"{source}, line {number}: {why}", fix=fix)


# ------------------------------------------------------------------ from a row to a problem


def _problems(rows: Iterable[Any], name: str, source: str, max_problems: int | None) -> list[Problem]:
    known = _KNOWN.get(name, _Known())
    problems: list[Problem] = []
    lines: dict[str, int] = {}
    for number, row in enumerate(rows, start=1):
        if row is None:
            continue
        problem = _problem(row, f"{name}_{len(problems) + 1:03d}", known, source, number)
        if problem.id in lines:
            why = f"field 'id': {_quoted(problem.id)} is already on line {lines[problem.id]}"
            raise _bad(source, number, why, fix="Give every problem an id of its own, or none an id at all.")
        lines[problem.id] = number
        problems.append(problem)
        if len(problems) == max_problems:
            break
    if not problems:
        raise InputError(f"{source} holds no problem", fix=_needed_fields())
    return problems


def _problem(row: Any, default_id: str, known: _Known, source: str, number: int) -> Problem:
    if not isinstance(row, dict):
        kind = type(row).__name__
        raise _bad(source, number, f"a JSON object is needed, this is a {kind}", fix=_needed_fields())
    try:
        code = code_problem(row, default_id)
    except UnusableRowError as error:
        raise _bad(source, number, error.what, fix="Mend the row, or take it out.") from None
    if code is not None:
        return code

    def field_of(names: Sequence[str]) -> str:
        present = next((name for name in names if row.get(name) is not None), None)
        if present is None:
            here = ", ".join(map(str, row))[:300] or "no field at all"
            why = f"field '{names[0]}' is missing (here: {here})"
            raise _bad(source, number, why, fix=_needed_fields())
        return present

    def text_of(field: str) -> str:
        value = row[field]
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise _bad(source, number, f"field '{field}': a text is needed, not {_quoted(value)}")
        if isinstance(value, float) and not math.isfinite(value):
            raise _bad(source, number, f"field '{field}': {value} is not a finite number")
        if not str(value).strip():
            raise _bad(source, number, f"field '{field}' is empty", fix=_needed_fields())
        return str(value).strip()

    text_field, answer_field = field_of(_TEXT_FIELDS), field_of(_ANSWER_FIELDS)
    answer = text_of(answer_field)
    return Problem(
        id=text_of("id") if row.get("id") is not None else default_id,
        text=text_of(text_field),
        answer=_aime_answer(answer, answer_field, source, number) if known.aime else answer,
        task=text_of("task") if row.get("task") is not None else known.task,
        meta={key: row[key] for key in row if key not in ("id", "task", text_field, answer_field)},
    )


def _aime_answer(answer: str, field: str, source: str, number: int) -> str:
    """``033``, ``33``, ``33.0`` and ``33^\\circ`` are 33: published copies keep zeros and degree signs."""
    digits = _DEGREES.sub("", answer.strip("$ ")).removesuffix(".0")
    if not re.fullmatch(r"[0-9]{1,3}", digits):
        why = f"field '{field}': an AIME answer is an integer from 0 to 999, not {_quoted(answer)}"
        raise _bad(source, number, why)
    return str(int(digits))


def _quoted(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
