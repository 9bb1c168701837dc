"""MBPP and APPS by name: which part of them is meant, which files hold it, and where the hub has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.errors import InputError
from engine.tasks.code.problems import APPS_DIFFICULTIES, MBPP_SPLITS

CODE_SETS = ("mbpp", "apps")

_MBPP, _APPS = "google-research-datasets/mbpp", "codeparrot/apps"


@dataclass(frozen=True)
class CodePart:
    """A part of a set.

    Args:
        described: in words, for a message.
        prefix: what stands before the number in a problem's id.
        files: names that its file may have; one may also hold other parts.
        repository: its place on the hub.
        hub_arguments: of ``datasets.load_dataset``.
        hub_options: the same, by name.
        ids: the ``task_id`` that belong to it; None: all.
        difficulty: the ``difficulty`` that belongs to it; None: all.
    """

    described: str
    prefix: str
    files: tuple[str, ...]
    repository: str
    hub_arguments: tuple[str, ...]
    hub_options: Mapping[str, Any]
    ids: range | None = None
    difficulty: str | None = None

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Whether a row belongs to it."""
        if self.ids is not None and row.get("task_id") not in self.ids:
            return False
        return self.difficulty is None or row.get("difficulty") == self.difficulty


def code_part(name: str) -> CodePart:
    """The part that a name means: ``SET``, or ``SET:WORD`` or ``SET:WORD-WORD``.

    MBPP's words are its splits (``train`` is meant without one) and ``sanitized``; APPS's are ``train`` and
    ``test`` and its difficulties.

    Raises:
        InputError: there is no such part; the message has the words.
    """
    base, _, rest = name.partition(":")
    given = [word for word in rest.split("-") if word]
    splits = list(MBPP_SPLITS) if base == "mbpp" else ["train", "test"]
    kinds = ["full", "sanitized"] if base == "mbpp" else ["all", *APPS_DIFFICULTIES]
    split = next((word for word in given if word in splits), "train")
    kind = next((word for word in given if word in kinds), kinds[0])
    if base not in CODE_SETS or set(given) - {split, kind}:
        words = ", ".join([*splits, *kinds[1:]])
        raise InputError(f"Unknown part of a dataset: {name!r}", fix=f"{base}, or {base}: with some of {words}.")
    return _mbpp(split, kind) if base == "mbpp" else _apps(split, kind)


def _mbpp(split: str, kind: str) -> CodePart:
    files: tuple[str, ...]
    if kind == "sanitized":
        files = (f"mbpp_sanitized_{split}.jsonl", "mbpp_sanitized.jsonl", "sanitized-mbpp.json")
    else:
        files = (f"mbpp_{split}.jsonl", "mbpp.jsonl")
    ids = MBPP_SPLITS[split]
    return CodePart(
        described=f"MBPP with a task_id from {ids[0]} to {ids[-1]}",
        prefix="mbpp" if kind == "full" else "mbpp_sanitized",
        files=files,
        repository=_MBPP,
        hub_arguments=(_MBPP, kind),
        hub_options={"split": split},
        ids=ids,
    )


def _apps(split: str, kind: str) -> CodePart:
    # The repository's own loading script is no longer run by `datasets`; its raw files are read instead.
    return CodePart(
        described="APPS" if kind == "all" else f'APPS with the difficulty "{kind}"',
        prefix=f"apps_{split}",
        files=(f"apps_{split}.jsonl",),
        repository=_APPS,
        hub_arguments=("json",),
        hub_options={"data_files": f"hf://datasets/{_APPS}/{split}.jsonl", "split": "train"},
        difficulty=None if kind == "all" else kind,
    )
