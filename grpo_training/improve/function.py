"""``improve`` as a function: for scripts and notebooks."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TextIO, TypeAlias, runtime_checkable

from engine.errors import InputError
from engine.storage.append_log import write_file
from engine.tasks.registry import task_of_function
from grpo_training.cli.entry import cancel_in
from grpo_training.cli.parsing import validated
from grpo_training.cli.settings import Given, as_flag
from grpo_training.improve.improved import Improved
from grpo_training.improve.settings import ImproveSettings


@runtime_checkable
class _Frame(Protocol):
    """A data frame of pandas. A Dataset of Hugging Face has another ``to_json``."""

    iloc: Any

    def to_json(self, *, orient: str) -> str: ...


Rows: TypeAlias = "str | Path | Iterable[Mapping[str, Any]] | _Frame"


@dataclass(frozen=True)
class Improvement:
    """The result of :func:`improve`.

    Args:
        improved: the prompt with what was learned.
        folder: of the run.
    """

    improved: Improved
    folder: Path

    @property
    def sentence(self) -> str:
        """The result in words."""
        return self.improved.result.sentence

    @property
    def verdict(self) -> str:
        """``adopted``, ``rejected``, ``not_proven``, or ``nothing_learned``."""
        return self.improved.result.verdict


def improve(
    dataset: Rows,
    *,
    reward: Callable[..., Any] | None = None,
    program: Callable[..., Any] | str | None = None,
    stream: TextIO | None = None,
    **settings: Any,
) -> Improvement:
    """Learn from problems, test what was learned, and return what can be used; as ``python -m grpo_training.improve``.

    The same call again continues a run that was interrupted, and asks nothing if it is complete.

    Args:
        dataset: a file or the name of a dataset; or the rows themselves: dicts, a data frame, or a Dataset of
            Hugging Face.
        reward: scores an answer, given the row: see :data:`engine.tasks.simple.reward.Reward`. Without one the answers
            of the rows are compared.
        program: answers a problem by several requests, given ``row``, ``client`` and ``prompts``; or its place,
            ``FILE.py:NAME``. See :mod:`engine.tasks.program`.
        stream: where the progress is written; stdout by default.
        settings: those of the command, such as ``model``, ``base_url``, ``budget_usd``, ``epochs``, ``run``.

    Raises:
        InputError: a setting or the problems cannot be used.
        ScaffoldError: a refusing endpoint, an exhausted budget, missing answers.
    """
    from grpo_training.improve.run import improve_with  # most of the package

    if reward is not None and program is not None:
        raise InputError("improve() has a reward and a program", fix="Let the program return the score and a feedback.")
    function = reward if program is None else program
    if function is not None:
        settings["task"] = function if isinstance(function, str) else task_of_function(function).name
    unknown = next((name for name in settings if name not in ImproveSettings.model_fields), None)
    if unknown is not None:
        raise InputError(f"improve() has no setting {unknown!r}", fix="python -m grpo_training.improve --help-all")
    source = str(dataset) if isinstance(dataset, str | Path) else str(_written(dataset))
    values = {name: Given(value, as_flag(name)) for name, value in {"dataset": source, **settings}.items()}
    of_run = validated(ImproveSettings, values, fix="python -m grpo_training.improve --help-all")
    if of_run.dry_run:
        raise InputError("dry_run is a flag of the command", fix="python -m grpo_training.improve --dry-run")
    improved, folder = _in_own_thread(lambda: improve_with(of_run, stream or sys.stdout))
    return Improvement(improved, folder)


async def improve_async(dataset: Rows, **arguments: Any) -> Improvement:
    """As :func:`improve`, for programs with an event loop."""
    return await asyncio.to_thread(improve, dataset, **arguments)


def _written(rows: Iterable[Mapping[str, Any]] | _Frame) -> Path:
    """The file of rows that were given; its name depends on their content, so that the same rows are the same dataset.

    Raises:
        InputError: a row is no mapping of JSON values.
    """
    from grpo_training.runs.folder import run_folder

    given = json.loads(rows.to_json(orient="records")) if isinstance(rows, _Frame) else _named(rows)
    if not all(isinstance(row, Mapping) for row in given):
        raise InputError("A row is not a mapping", fix='A row is a dict such as {"question": "...", "answer": "..."}.')
    try:
        content = "".join(json.dumps(dict(row), ensure_ascii=False) + "\n" for row in given).encode()
    except (TypeError, ValueError) as error:
        raise InputError("A row has a value that JSON does not know", why=str(error)) from None
    name = f"rows-{hashlib.sha256(content).hexdigest()[:8]}"
    path = run_folder(name).folder.parent / f"{name}.jsonl"
    write_file(path, content)
    return path


def _named(rows: Any) -> list[Any]:
    """The rows that were given; those of a Dataset of Hugging Face with the names of their classes."""
    given = list(rows)
    for column, feature in (getattr(rows, "features", None) or {}).items():
        names = getattr(feature, "names", ())
        for row in given if names else ():
            row[column] = names[row[column]] if row[column] in range(len(names)) else row[column]
    return given


def _in_own_thread(work: Callable[[], tuple[Improved, Path]]) -> tuple[Improved, Path]:
    """Run it here, or in a thread where an event loop is running already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    outcome: Future[tuple[Improved, Path]] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001 - it is raised by the caller
            outcome.set_exception(error)

    thread = threading.Thread(target=run, name="improve")
    thread.start()
    try:
        thread.join()
    except KeyboardInterrupt:  # of a notebook: the requests in flight end, and nothing new is asked
        cancel_in(thread.ident or 0)
        thread.join()
        raise
    return outcome.result()
