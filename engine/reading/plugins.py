"""Objects of a user's Python file or installed module, such as tasks and reward functions: loaded and identified."""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import inspect
import itertools
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Set
from pathlib import Path
from types import ModuleType
from typing import Any

from engine.errors import InputError, MissingInputError


def load_object(reference: str) -> Any:
    """The object at ``path/to/file.py:NAME`` or ``package.module:NAME``. The code of the module is executed.

    Raises:
        MissingInputError: there is no such file.
        InputError: the module cannot be imported, or has no such name.
    """
    source, _, name = reference.rpartition(":")
    if not source or not name:
        raise InputError(f"Expected FILE.py:NAME or MODULE:NAME, got {reference!r}")
    try:
        module = _file_module(Path(source)) if source.endswith(".py") else importlib.import_module(source)
    except MissingInputError:
        raise
    except Exception as error:  # the module is the user's own code
        own_lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.endswith(source)]
        line = f" (line {own_lines[-1].lineno})" if own_lines else ""
        raise InputError(
            f"Cannot import {source}",
            why=f"{type(error).__name__}: {error}{line}",
            fix=f"Give FILE.py:NAME or MODULE:NAME, such as my_task.py:TASK. Modules beside a file are found with "
            f"PYTHONPATH={Path(source).expanduser().resolve().parent}",
        ) from error
    if not hasattr(module, name):
        public = ", ".join(key for key in vars(module) if not key.startswith("_"))
        raise InputError(f"{source} has no {name!r}", why=f"It has: {public[:300] or 'no public name'}.")
    return getattr(module, name)


def source_digest(objects: Iterable[Any]) -> str:
    """A digest of the source that defines classes or functions; empty where there is none.

    Args:
        objects: classes and functions. For one of a package it is the source of all modules of the package's folder,
            in Python and JavaScript, for one of a single file that file and the modules beside it that it imports. In
            both cases the modules of ``engine`` that these import belong to it, and what those import in turn.
            Packages of Node.js that are installed in the folder do not count, nor do modules of ``engine`` that measure
            nothing (:data:`MEASURES_NOTHING`).
    """
    files = _closure(itertools.chain(*map(_source_files, objects)), _imported)
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16] if files else ""


MEASURES_NOTHING = frozenset("datasets errors experience llm own_data records storage task task_datasets".split())
"""Packages and modules of ``engine`` on which no measurement of a candidate depends."""

_ENGINE = Path(__file__).parents[1]
_BESIDE = re.compile(r"^\s*(?:from|import) (\w+)", re.MULTILINE)
_IMPORT = re.compile(r"^\s*from engine\.([\w.]+) import (\([^)]*\)|.*)|^\s*import engine\.([\w.]+)", re.MULTILINE)


def _closure(files: Iterable[Path], needed: Callable[[Path], Set[Path]]) -> set[Path]:
    """Files, those that they need, and those that these need in turn."""
    closure: set[Path] = set()
    waiting = set(files)
    while waiting:
        file = waiting.pop()
        closure.add(file)
        waiting |= needed(file) - closure
    return closure


@functools.cache
def _imported(file: Path) -> frozenset[Path]:
    """The files of ``engine`` that a file imports anywhere."""
    files = set()
    for module, names, plain in _IMPORT.findall(file.read_text(encoding="utf-8")):
        for name in ("", *re.findall(r"\w+", names)):
            path = _ENGINE.joinpath(*(module or plain).split("."), name)
            if path.relative_to(_ENGINE).parts[0] not in MEASURES_NOTHING:
                files |= {path.with_suffix(".py"), path / "__init__.py"}
    return frozenset(filter(Path.is_file, files))


def _source_files(defined: Any) -> list[Path]:
    try:
        source = inspect.getsourcefile(defined)
    except TypeError:  # built in, or neither a class nor a function
        source = None
    if source is None:
        return []
    file = Path(source)
    package = getattr(sys.modules.get(defined.__module__), "__package__", None)
    if package == "engine.tasks":  # the package of all tasks is no task's own
        return [file]
    if not package:
        return with_modules_beside(file)
    modules = []
    for parent, folders, names in os.walk(file.parent):
        folders[:] = set(folders) - {"node_modules", "__pycache__"}
        modules += [Path(parent, name) for name in names if name.endswith((".py", ".js", ".mjs"))]
    return modules


def with_modules_beside(file: Path) -> list[Path]:
    """A Python file, and the files of its folder that it imports by name, and these in turn; by name."""

    def beside(source: Path) -> set[Path]:
        names = set(_BESIDE.findall(source.read_text(encoding="utf-8", errors="replace"))) - sys.stdlib_module_names
        return {path for name in names if (path := file.parent / f"{name}.py").is_file()}

    return sorted(_closure({file}, beside))


def _file_module(path: Path) -> ModuleType:
    path = path.expanduser().resolve()
    if not path.is_file():
        raise MissingInputError(f"File not found: {path}")
    name = f"{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None  # its name ends in .py
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up here
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
