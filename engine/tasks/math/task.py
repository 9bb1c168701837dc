"""Competition mathematics: an exact answer. The datasets AIME 2024 and 2025, and the word problems ``quickstart``."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from engine.errors import InputError, quoted
from engine.records import Problem
from engine.task_datasets import Dataset, HubDataset, WebDataset
from engine.tasks.math import DATASET_NAMES
from engine.tasks.rows import ANSWER_FIELDS, field_of, split_dataset_name
from engine.tasks.scaffold_task import ScaffoldTask


def _fault(digest: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """What is wrong with the rows of a year; ``digest`` is the SHA-256 of its thirty answers in ascending order."""
    try:
        answers = sorted(int(_aime_answer(str(row["answer"]), "answer")) for row in rows)
    except (KeyError, InputError):
        return "some of its rows have no AIME answer"
    actual = hashlib.sha256(",".join(map(str, answers)).encode()).hexdigest()
    return "" if actual == digest else f"its {len(rows)} answers are not those of the thirty problems of the year"


def _on_hub(repository: str, split: str, revision: str) -> HubDataset:
    return HubDataset(repository, (repository,), {"split": split, "revision": revision}, has_own_ids=False)


# Both copies on the hub hold the thirty problems of both papers of the year. A fixed revision keeps the numbers of the
# problems if the copy is edited.
AIME: Mapping[str, HubDataset] = {
    "aime2024": _on_hub("HuggingFaceH4/aime_2024", "train", "2fe88a2f1091d5048c0f36abc874fb997b3dd99a"),
    "aime2025": _on_hub("math-ai/aime25", "test", "563bb8404243c5f09de6ec262f2db674fe5bce9b"),
}

WEB: Mapping[str, WebDataset] = {
    "aime2024": WebDataset(  # the repository has parquet only, which needs pyarrow
        "https://datasets-server.huggingface.co/rows?dataset=HuggingFaceH4%2Faime_2024&config=default&split=train"
        "&offset=0&length=100",
        "2fe88a2f1091d5048c0f36abc874fb997b3dd99a",
        partial(_fault, "742a564fce4a6b58bfe38bccf90063d821fd58862dd482a38433516725030592"),
    ),
    "aime2025": WebDataset(
        "https://huggingface.co/datasets/math-ai/aime25/resolve/563bb8404243c5f09de6ec262f2db674fe5bce9b/test.jsonl",
        "563bb8404243c5f09de6ec262f2db674fe5bce9b",
        partial(_fault, "460408c33930d5addc9bb99376164c27aaf2ee3462830bc758950af25ae6b419"),
    ),
}
"""The same copies, at addresses that need no package. Their rows are checked by the answers of the year's papers."""

QUICKSTART = {"": "quickstart.jsonl", "train": "quickstart.jsonl", "test": "quickstart_test.jsonl"}
"""Split -> shipped file, which ``examples/pocket_model`` has made."""

_DEGREES = re.compile(r"\s*(?:\^\s*\{?\s*\\circ\s*\}?|°)$")


class MathTask(ScaffoldTask):
    """Problems with an exact answer."""

    name = "math"
    dataset_names = DATASET_NAMES
    answer_form = "an exact value: an integer, a fraction, an expression with radicals or pi"
    comparison = "exact"

    def dataset(self, name: str) -> Dataset:
        """AIME of a year, from a file, the web or the hub; or ``quickstart``, 240 word problems for training.

        Raises:
            InputError: ``quickstart`` has no such split; ``quickstart:test`` is the other one.
        """
        if name in AIME:
            return Dataset(files=(f"{name}.jsonl",), web=WEB[name], hub=AIME[name], read_row=self._aime_problem)
        _, split, _ = split_dataset_name(name)
        if split not in QUICKSTART:
            raise InputError(f"Unknown split {split!r} of quickstart", fix="Write quickstart or quickstart:test.")
        return Dataset(files=(QUICKSTART[split],))

    def _aime_problem(self, row: Mapping[str, Any], where: str) -> Problem:
        """The answer is an integer from 0 to 999."""
        problem = self.problem_from_row(row, where)
        answer = _aime_answer(problem.answer, f"{where}: field '{field_of(row, ANSWER_FIELDS, where)}'")
        return problem.model_copy(update={"answer": answer})


def _aime_answer(answer: str, where: str) -> str:
    r"""``033``, ``33``, ``33.0`` and ``33^\circ`` are 33: published copies keep zeros and degree signs."""
    digits = _DEGREES.sub("", answer.strip("$ ")).removesuffix(".0")
    if not re.fullmatch(r"[0-9]{1,3}", digits):
        raise InputError(f"{where}: an AIME answer is an integer from 0 to 999, not {quoted(answer)}")
    return str(int(digits))


TASK = MathTask()
