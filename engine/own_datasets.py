"""Problems of a user's own file or folder, or of a dataset of the Hugging Face hub.

The rows are read from any usual form of file, and all of them together describe which column is what.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from engine.dataset_rows import LoadedDataset, read_rows, row_reader, task_that_reads
from engine.errors import InputError, quoted
from engine.own_data.answer_kind import described as in_words
from engine.own_data.cells import renamed
from engine.own_data.columns import as_template, is_answer, names_in
from engine.own_data.describe import describe
from engine.own_data.description import Description
from engine.own_data.single_row import answer_column, question_column
from engine.records import IMAGE_MARK, Problem
from engine.storage.data_files import SUFFIXES, CsvRow, file_rows, open_data_file, split_files
from engine.storage.data_folders import data_file, more_folders
from engine.storage.hub import hub_name, rows_of_hub
from engine.task import Task
from engine.task_protocols import ReadsDescribedRows, ReadsWholeRows, RowReader, ShowsImages
from engine.tasks.registry import dataset_names, task_of_own_data, task_of_row, task_with_dataset
from engine.tasks.rows import NEEDED_FIELDS

FOLDER_FILE = "grpo_dataset.json"
"""The file that is read of each folder below a dataset that is a folder."""

_USUAL_SPLIT = "train"
_SOME = 0.05
"""Share of the rows up to which other answers to the same question are taken for errors of the data."""
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class OwnDatasets:
    """Loads datasets that no task declares; the arguments of :func:`engine.datasets.load_dataset`."""

    task: Task | None
    fields: Mapping[str, str] | None
    columns: Sequence[str] | None
    compare_as: str | None
    max_problems: int | None
    row_read: Callable[[], object]
    reads_images: bool

    def load(self, name: str, folders: Sequence[Path]) -> LoadedDataset:
        """The dataset of a path, of a name of the hub, or of a ``.jsonl`` file in the data folders.

        Raises:
            MissingInputError, InputError: as ``load_dataset``.
        """
        if not _is_path(name):
            file = data_file([f"{name}.jsonl"], folders) if _PLAIN_NAME.fullmatch(name) else None
            if file is None:
                raise _unknown_name(name, folders)
            return self._read_file(file, name)
        on_hub = hub_name(name) if _local(name) is None else None
        if on_hub is not None:
            source, rows, class_names = rows_of_hub(on_hub, images=self.reads_images)
            return self._read(rows, on_hub.repository.rpartition("/")[2], source, class_names)
        path, split = _local(name) or (Path(name).expanduser(), None)
        if not path.is_dir():
            declared = _reader_of_declared(path) if self.task is None else None
            if declared is not None:
                return self._read_by_task(path, path.stem, declared)
            return self._read_file(path, path.name.partition(".")[0], split)
        splits = {} if (path / FOLDER_FILE).is_file() else split_files(path)
        if not splits and split is None:
            return self._read_folder(path)
        chosen = split or (_USUAL_SPLIT if _USUAL_SPLIT in splits else next(iter(splits)))
        if chosen not in splits:
            known = ", ".join(splits) or "none"
            raise InputError(f"{path} has no split {chosen!r}", why=f"Its splits: {known}.")
        others = ", ".join(f"{path}:{other}" for other in splits if other != chosen)
        note = f"read {splits[chosen].name}, the split {chosen} of {path}" + (f"; others: {others}" if others else "")
        return self._read_file(splits[chosen], path.name, notes=[note])

    def _read_file(self, path: Path, name: str, split: str | None = None, notes: Sequence[str] = ()) -> LoadedDataset:
        """The dataset of a file; its columns are numbers if ``fields`` names numbers."""
        sources = [column for source in (self.fields or {}).values() for column in names_in(as_template(source))]
        numbered = self.columns is None and bool(sources) and all(source.isdigit() for source in sources)
        file = open_data_file(
            path,
            columns=self.columns,
            numbered=numbered,
            split=split,
            needed=NEEDED_FIELDS,
            images=self.reads_images,
        )
        return self._read(file.rows, name, str(path), file.class_names, [*notes, *file.notes])

    def _read_folder(self, folder: Path) -> LoadedDataset:
        """Read the datasets of a folder as one."""
        files = [folder / FOLDER_FILE] if (folder / FOLDER_FILE).is_file() else sorted(folder.glob(f"*/{FOLDER_FILE}"))
        if not files:
            raise InputError(
                f"Cannot read {folder}: it is a folder without datasets",
                why=f"There is no {FOLDER_FILE} in it, nor in a folder in it.",
                fix="Give a file, or the folder that holds them.",
            )
        problems: dict[str, Problem] = {}
        for file in files:
            remaining = None if self.max_problems is None else self.max_problems - len(problems)
            if remaining == 0:
                break
            loading = replace(self, max_problems=remaining)
            for problem in loading._read_by_task(file, file.parent.name, row_reader(self.task)).problems:
                if problem.id in problems:
                    raise InputError(f"{file}: the id {quoted(problem.id)} is in an earlier file of {folder} too")
                problems[problem.id] = problem
        return LoadedDataset(list(problems.values()))

    def _read_by_task(self, path: Path, name: str, reader: RowReader) -> LoadedDataset:
        """Read a file whose rows have the fields that tasks read."""
        rows = enumerate(file_rows(path, needed=NEEDED_FIELDS), start=1)
        return read_rows(rows, name, str(path), reader, max_problems=self.max_problems, row_read=self.row_read)

    def _read(
        self,
        rows: Iterable[Any],
        name: str,
        source: str,
        class_names: Mapping[str, Sequence[str]] = MappingProxyType({}),
        notes: Sequence[str] = (),
    ) -> LoadedDataset:
        """Read rows that all of them together describe.

        Args:
            rows: of the file.
            name: for the ids of the problems.
            source: for messages.
            class_names: names of class ids, by column.
            notes: what was found out about the file.
        """
        everything: list[Any] = []
        fault: InputError | None = None
        try:
            for row in rows:
                everything.append(row)
        except InputError as error:  # raised when it is reached: max_problems may stop before
            fault = error
        described = partial(
            describe,
            where=source,
            fields=self.fields,
            compare_as=self.compare_as,
            class_names=class_names,
            reads_images=self.reads_images,
        )
        objects = [row for row in everything if isinstance(row, Mapping)]
        reader, remarks = self._reader(objects, described, Path(source).parent)
        loaded = read_rows(
            _numbered(everything, fault), name, source, reader, max_problems=self.max_problems, row_read=self.row_read
        )
        if loaded.dropped:
            count, (_, reason, first) = len(loaded.dropped), loaded.dropped[0]
            what = "no question or no right answer" if reason == "empty" else "tests that cannot be run here"
            left_out = f"row has {what} and is" if count == 1 else f"rows have {what} and are"
            remarks.append(f"{count} {left_out} left out: {first}")
        is_cut = len(loaded.problems) == self.max_problems < len(everything) if self.max_problems else False
        if is_cut and len(loaded.problems) > 1 and len({problem.answer for problem in loaded.problems}) == 1:
            remarks.append(
                f"all {len(loaded.problems)} problems that were read have the same right answer, as the file is "
                "sorted: mix its lines, or read more of them (--max-problems)"
            )
        return replace(loaded, note="\n".join(filter(None, [*notes, *remarks, _on_equal_questions(loaded.problems)])))

    def _reader(
        self,
        rows: Sequence[Mapping[str, Any]],
        described: Callable[[Sequence[Mapping[str, Any]]], Description],
        folder: Path,
    ) -> tuple[RowReader, list[str]]:
        """What reads each row, and what to say about them.

        Rows of tasks that read described rows are described together, those of each task for itself.
        """
        if isinstance(self.task, ReadsWholeRows):
            return self._whole_reader(self.task, rows, described)
        open_rows = [
            row for row in rows if row.get("task") is None and (self.task is not None or task_of_row(row) is None)
        ]
        of_open_rows = None
        if open_rows and (self.task is None or isinstance(self.task, ReadsDescribedRows)):
            of_open_rows = described(open_rows)
        has_comparison = self.compare_as is not None or any(row.get("compare") is not None for row in open_rows)
        is_mathematics = of_open_rows is not None and of_open_rows.is_mathematics and not has_comparison
        chosen = self.task or task_of_own_data(is_mathematics=is_mathematics)
        readers: dict[str, tuple[ReadsDescribedRows, Description]] = {}
        remarks: list[str] = []
        for task, of_task in _by_task(rows, self.task, chosen):
            if isinstance(task, ReadsDescribedRows):
                is_same = of_open_rows is not None and len(of_task) == len(open_rows)
                description = of_open_rows if of_open_rows is not None and is_same else described(of_task)
                readers[task.name] = task, description
                if all(row.get("task") is not None for row in of_task) and description.is_plain:
                    continue
                read_as = f"{task.name}, {task.comparison_in_words(description.how)}"
                remarks += description.lines(len(of_task), read_as, is_chosen=self.task is None)
            others = {row["task"] for row in of_task if row.get("task") is not None} - {task.name}
            if others:
                remarks.append(f"the column task names no task, as in {quoted(min(others))}, and is not used")

        def read(row: Mapping[str, Any], where: str) -> Problem | None:
            task = task_that_reads(row, where, self.task, chosen)
            if task.name not in readers:
                return task.problem_from_row(renamed(row, self.fields, where), where)
            reader, description = readers[task.name]
            if not description.reads(row):
                description = describe(
                    [row], where=where, compare_as=self.compare_as, by_name=True, reads_images=self.reads_images
                )
            plain_row, how = description.plain_row(row, where)
            images = plain_row.pop(IMAGE_MARK, None)
            if images is None:
                return reader.described_problem(plain_row, how, where)
            if not self.reads_images:
                raise InputError(f"{where}: the row has an image", why="The prompts of this command have none.")
            if not isinstance(task, ShowsImages):
                raise InputError(
                    f"{where}: the row has an image, and prompts of the task {task.name} have none",
                    fix="Pass --task answers, or leave the image out.",
                )
            from engine.storage.images import with_references  # most rows have none

            text, references = with_references(plain_row["problem"], images, folder, where)
            return task.with_images(reader.described_problem({**plain_row, "problem": text}, how, where), references)

        return read, remarks

    def _whole_reader(
        self,
        task: ReadsWholeRows,
        rows: Sequence[Mapping[str, Any]],
        described: Callable[..., Description],
    ) -> tuple[RowReader, list[str]]:
        """What reads rows as they are. They may be without right answers; only a usual name makes a column one."""
        fields = self.fields or {}
        description: Description | None = None
        try:
            description = _described_whole(rows, fields, described)
        except InputError as error:
            if "answer" in fields or self.compare_as is not None:
                raise
            remark = f"Answers are not compared, the program has to score them: {error.what}"
        else:
            column = description.columns.answer or description.columns.chat
            remark = f"Answers without a score are {in_words(description.how)} with the column {column}"

        def read(row: Mapping[str, Any], where: str) -> Problem:
            renamed_row, answer, compared = renamed(row, self.fields, where), "", None
            if description is not None:
                answer = "answer" if "answer" in fields else description.columns.answer
                plain_row, how = description.plain_row(row, where)
                compared = plain_row["answer"], how
            return task.whole_problem(renamed_row, where, answer=answer, compared=compared)

        return read, [remark]


def _described_whole(
    rows: Sequence[Mapping[str, Any]], fields: Mapping[str, str], described: Callable[..., Description]
) -> Description:
    """The description of rows by the column of their right answers, whatever the columns of the question are.

    Raises:
        InputError: there is no such column, or a rubric in its place.
    """
    try:
        description = described(rows)
    except InputError:
        first = rows[0] if rows else {}
        answer = fields.get("answer") or answer_column(first)
        question = question_column(first, answer)
        if answer is None or question is None or "problem" in fields:
            raise
        description = described(rows, fields={**fields, "problem": question, "answer": answer})
    columns = description.columns
    if "answer" not in fields and (description.how.kind == "rubric" or not (columns.chat or is_answer(columns.answer))):
        raise InputError("no column has the usual name of a right answer")
    return replace(description, is_shuffled=False)  # a program shows options and labels itself


def _on_equal_questions(problems: Sequence[Problem]) -> str:
    """What to say where rows have the question of another row, and another right answer."""
    answers: dict[str, set[str]] = {}
    for problem in problems:
        answers.setdefault(problem.text, set()).add(problem.answer)
    count = sum(len(answers[problem.text]) > 1 for problem in problems)
    what = f"{count} of {len(problems)} rows have the question of another row, but another right answer"
    missing = "if a column of the question is missing, name it (--fields problem=ONE+OTHER)"
    return f"{what}: {missing}" if count > _SOME * len(problems) else ""


def _is_path(name: str) -> bool:
    path = name.partition("?")[0]
    return "/" in path or os.sep in path or path.endswith(SUFFIXES) or _local(name) is not None


def _local(name: str) -> tuple[Path, str | None] | None:
    """The file or folder of a name, and the split after its colon; None if it is none of this machine."""
    path = Path(name).expanduser()
    if path.exists() and (path.suffix or os.sep in name):
        return path, None
    before, colon, split = name.rpartition(":")
    path = Path(before).expanduser()
    return (path, split) if colon and path.exists() and (path.suffix or os.sep in before) else None


def _reader_of_declared(path: Path) -> RowReader | None:
    """The reader of a file that is named as a task's dataset, which is read as that dataset; else None."""
    task = task_with_dataset(path.stem)
    dataset = task.dataset(path.stem) if task is not None else None
    return row_reader(task, dataset) if dataset is not None and dataset.files == (path.name,) else None


def _unknown_name(name: str, folders: Iterable[Path]) -> InputError:
    names = sorted({*dataset_names(), *(path.stem for folder in folders for path in folder.glob("*.jsonl"))})
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    guess = f"Did you mean {near[0]!r}? " if near else ""
    if _PLAIN_NAME.fullmatch(name) and Path(name).exists():
        guess = f"To read {name} of this folder, write ./{name}. "
    return InputError(
        f"Unknown dataset: {name!r}",
        why=f"Known: {', '.join(names)}. Files are looked up in {', '.join(map(str, folders))}{more_folders()}.",
        fix=f"{guess}Give the path of a file (x.jsonl, x.csv, x.parquet), or owner/name of the Hugging Face hub.",
    )


def _numbered(rows: Iterable[Any], fault: InputError | None) -> Iterator[tuple[int, Any]]:
    """Each row with its line; the fault of the next one is raised after them."""
    for number, row in enumerate(rows, start=1):
        yield (row.line if isinstance(row, CsvRow) else number), row
    if fault is not None:
        raise fault


def _by_task(
    rows: Iterable[Mapping[str, Any]], dataset_task: Task | None, chosen: Task
) -> list[tuple[Task, list[Mapping[str, Any]]]]:
    """The rows of each task. A row whose task is unknown is left out: it is refused when it is read."""
    groups: dict[str, tuple[Task, list[Mapping[str, Any]]]] = {}
    for row in rows:
        with contextlib.suppress(InputError):
            task = task_that_reads(row, "", dataset_task, chosen)
            groups.setdefault(task.name, (task, []))[1].append(row)
    return list(groups.values())
