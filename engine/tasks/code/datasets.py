"""The datasets MBPP and APPS: their splits, local files and hub repositories."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from engine.errors import InputError
from engine.records import Problem
from engine.task_datasets import Dataset, HubDataset
from engine.tasks.code.problems import APPS_DIFFICULTIES, MBPP_SPLITS, code_problem
from engine.tasks.rows import UnusableRowError, split_dataset_name

_MBPP, _APPS = "google-research-datasets/mbpp", "codeparrot/apps"


def code_dataset(name: str) -> Dataset:
    """The dataset of a name: ``SET``, ``SET:WORD`` or ``SET:WORD-WORD``, for MBPP also with ``?public_tests=N``.

    For MBPP the words are its splits (``train`` is the default) and ``sanitized``; for APPS they are ``train``,
    ``test`` and the difficulties. ``public_tests`` is the number of tests that a prompt shows.

    Raises:
        InputError: a word is unknown; the message lists the valid ones.
    """
    base, rest, options = split_dataset_name(name, ("public_tests",))
    name_words = [word for word in rest.split("-") if word]
    splits = list(MBPP_SPLITS) if base == "mbpp" else ["train", "test"]
    kinds = ["full", "sanitized"] if base == "mbpp" else ["all", *APPS_DIFFICULTIES]
    split = next((word for word in name_words if word in splits), "train")
    kind = next((word for word in name_words if word in kinds), kinds[0])
    if set(name_words) - {split, kind}:
        words = ", ".join([*splits, *kinds[1:]])
        raise InputError(f"Unknown part of a dataset: {name!r}", fix=f"{base}, or {base}: with some of {words}.")
    public_tests = options.get("public_tests", "1")
    if not public_tests.isdecimal():
        raise InputError(f"public_tests: expected a number, got {public_tests!r}")
    return _mbpp(split, kind, int(public_tests)) if base == "mbpp" else _apps(split, kind, int(public_tests))


def _mbpp(split: str, kind: str, public_tests: int) -> Dataset:
    ids = MBPP_SPLITS[split]
    prefix, official = ("mbpp", []) if kind == "full" else ("mbpp_sanitized", ["sanitized-mbpp.json"])
    return Dataset(
        files=(f"{prefix}_{split}.jsonl", f"{prefix}.jsonl", *official),
        hub=HubDataset(_MBPP, (_MBPP, kind), {"split": split}),
        read_row=partial(_read, prefix, public_tests, lambda row: row.get("task_id") in ids),
        described=f"MBPP with a task_id from {ids[0]} to {ids[-1]}",
        drops_unusable_rows=True,
    )


def _apps(split: str, kind: str, public_tests: int) -> Dataset:
    # `datasets` no longer runs loading scripts of repositories, so the raw files are read.
    data_file = f"hf://datasets/{_APPS}/{split}.jsonl"
    return Dataset(
        files=(f"apps_{split}.jsonl",),
        hub=HubDataset(_APPS, ("json",), {"data_files": data_file, "split": "train"}),
        read_row=partial(_read, f"apps_{split}", public_tests, lambda row: kind in ("all", row.get("difficulty"))),
        described="APPS" if kind == "all" else f'APPS with the difficulty "{kind}"',
        drops_unusable_rows=True,
    )


def _read(
    prefix: str, public_tests: int, belongs: Callable[[Mapping[str, Any]], bool], row: Mapping[str, Any], where: str
) -> Problem | None:
    """The problem of a row; None if it is of another part of the dataset."""
    if not belongs(row):
        return None
    number = row.get("task_id", row.get("problem_id"))
    row_id = "" if number is None else f"{prefix}_{number}"
    try:
        problem = code_problem(row, row_id, prefix=prefix, public_tests=public_tests)
        if problem is None:
            raise UnusableRowError("malformed", "it has neither test_list nor input_output")
    except UnusableRowError as error:
        raise UnusableRowError(error.reason, error.what, row_id) from None
    return problem
