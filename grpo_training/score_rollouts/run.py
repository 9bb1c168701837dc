"""One run of ``score_rollouts``: verify every row, then write rows with rewards and advantages, and a report."""

from __future__ import annotations

import itertools
import json
import time
from concurrent.futures import Executor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, get_args

from engine.abilities import HasCheckOptions
from engine.datasets import load_problems
from engine.errors import IncompleteRunError, InputError
from engine.records import Completion, Outcome, Problem
from engine.storage.append_log import replace_file
from engine.task import Task
from engine.tasks.registry import load_task, task_named
from grpo_training.cli.bar import progress_bar
from grpo_training.runs.run import Run
from grpo_training.score_rollouts.report import report_content
from grpo_training.score_rollouts.rollout_rows import Survey, file_digest, good_rows
from grpo_training.score_rollouts.scored_rows import advantages_of, write_scored
from grpo_training.score_rollouts.settings import ScoreSettings, configured
from grpo_training.score_rollouts.verdict_file import VerdictEntry, VerdictFile
from grpo_training.score_rollouts.verdicts import RowVerdict, json_digest, verdict_key
from grpo_training.score_rollouts.workers import open_pool, verify_reply

TOO_MANY_INFRA_FAULTS = 3
"""Exit code if a larger share of the rows than :data:`MAX_INFRA_RATE` could not be verified."""
MAX_INFRA_RATE = 0.05

_ROWS_PER_WORKER = 128  # rows that are verified together; the next ones wait for the slowest of them
_STORE_S = 0.1
"""Seconds between two syncs of verdicts."""


def score(settings: ScoreSettings) -> int:
    """Score a file of rollouts. Returns the exit code.

    Raises:
        ScaffoldError: bad input, or the task cannot verify anything on this machine.
    """
    verdicts = VerdictFile(settings.beside_out("_work.jsonl"))
    results = [settings.out, verdicts.path]
    files = Run(settings.beside_out("_run.json"), results, lock=verdicts.log)
    settings = files.resumed(settings)
    problems, task = _prompts(settings)
    verifier = dict(task.verifier())
    survey = Survey.of(settings.rollouts, task, problems, skip_bad_rows=settings.skip_bad_rows)
    facts = {
        "task": task.name,
        "verifier": verifier,
        "options": task.check_options.model_dump(mode="json") if isinstance(task, HasCheckOptions) else None,
        "rollouts": survey.digest,
        "prompts": json_digest([problem.model_dump(mode="json") for problem in problems.values()]),
    }
    for path in filter(None, (settings.out, settings.report_path, settings.cache)):
        path.parent.mkdir(parents=True, exist_ok=True)
    with files.open(settings, facts) as manifest:
        if manifest.finished and settings.out.exists():
            manifest.finish()
            print(f"{settings.out} is complete. Pass --fresh to score again.")
            return 0
        checks = json_digest([task.name, verifier, _without_paths(task)])
        of_row = _Verification(settings, task, problems, verdicts).run(survey.rows, checks)
        advantages = advantages_of(survey, of_row)
        write_scored(settings, task, problems, survey, advantages, of_row)
        hashes = {"rollouts": survey.digest, "scored": file_digest(settings.out)}
        content = report_content(settings, survey, of_row, advantages) | {"facts": facts, "hashes": hashes}
        replace_file(settings.report_path, json.dumps(content, indent=2, ensure_ascii=False).encode() + b"\n")
        print(f"{survey.rows} rows -> {settings.out}\nreport: {settings.report_path}")
        unverified = content["outcomes"].get(str(Outcome.INFRA_FAULT), 0)
        if not unverified:
            manifest.finish()
            verdicts.log.delete()
            return 0
    print(f"{unverified} rows could not be verified; run the same command again to try these again.")
    return TOO_MANY_INFRA_FAULTS if unverified / survey.rows > MAX_INFRA_RATE else 0


def _without_paths(task: Task) -> dict[str, Any] | None:
    """The options that decide on a verdict. A path is only a spelling; the verifier names what the file holds."""
    if not isinstance(task, HasCheckOptions):
        return None
    fields = type(task.check_options).model_fields.items()
    paths = {name for name, field in fields if Path in (field.annotation, *get_args(field.annotation))}
    return task.check_options.model_dump(mode="json", exclude=paths)


def _prompts(settings: ScoreSettings) -> tuple[dict[str, Problem], Task]:
    """The prompts by their ids, and their task with the options that were given.

    Raises:
        InputError: the prompts are of several tasks, or of another one than ``--task``; or it has no such option.
    """
    wanted = None if settings.task is None else load_task(settings.task)
    problems = {problem.id: problem for problem in load_problems(settings.prompts, task=wanted)}
    names = sorted({problem.task for problem in problems.values()})
    if len(names) > 1:
        raise InputError(
            f"The prompts are of several tasks: {', '.join(names)}", fix="Use one file of prompts per task."
        )
    task = task_named(names[0])
    if wanted is not None and wanted is not task:
        raise InputError(f"The prompts of {settings.prompts} are of the task {task.name}, not of {wanted.name}")
    return problems, configured(task, settings)


class _Verification:
    """Verifies the replies that have no verdict yet, and stores the verdicts as they are reached.

    A reply that equals an earlier one, or has a verdict in the cache, is not verified again.
    """

    def __init__(
        self, settings: ScoreSettings, task: Task, problems: dict[str, Problem], verdicts: VerdictFile
    ) -> None:
        self._settings, self._task, self._problems, self._verdicts = settings, task, problems, verdicts
        self._cache = None if settings.cache is None else VerdictFile(settings.cache)
        self._unstored: list[VerdictEntry] = []
        self._stored_at = time.monotonic()

    def run(self, rows: int, verifier: str) -> list[RowVerdict]:
        """The verdict of each row.

        Args:
            rows: their number.
            verifier: a digest of the task with its options and checkers.

        Raises:
            IncompleteRunError: a worker ended.
        """
        self._verdicts.load()
        if self._cache is not None:
            self._cache.load()
            self._cache.share(self._verdicts.by_key.values())  # the run may have been killed between the two files
        workers = self._settings.workers
        pool = open_pool(self._task, self._settings.task or self._task.name, workers)
        replies = good_rows(self._settings.rollouts, self._task, self._problems)
        keys: list[str] = []
        with pool, progress_bar(total=rows, desc="rows", unit="") as self._bar:
            try:
                while batch := list(itertools.islice(replies, _ROWS_PER_WORKER * workers)):
                    asked = [(self._problems[row.prompt_id], row.completion) for row in batch]
                    keys_of_batch = [verdict_key(verifier, *reply) for reply in asked]
                    self._verify(dict(zip(keys_of_batch, asked, strict=True)), pool)
                    keys += keys_of_batch
                    self._bar.update(len(keys) - self._bar.n)
            except BrokenProcessPool as error:
                raise IncompleteRunError(
                    "A worker process ended",
                    why="It was killed, perhaps for lack of memory.",
                    fix="Run the same command again, with fewer --workers if memory is short.",
                ) from error
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
                self._store()
        first = {key: row for row, key in reversed(list(enumerate(keys)))}
        entries = enumerate(self._verdicts.by_key[key] for key in keys)
        return [RowVerdict(entry.verdict, entry.cached or first[entry.key] < row) for row, entry in entries]

    def _verify(self, replies: dict[str, tuple[Problem, Completion]], pool: Executor) -> None:
        """Reach the verdicts of replies, by their keys."""
        missing = {key: reply for key, reply in replies.items() if key not in self._verdicts.by_key}
        cached = {} if self._cache is None else self._cache.by_key
        for key in missing.keys() & cached.keys():
            self._unstored.append(VerdictEntry(key=key, cached=True, verdict=cached[key].verdict))
        new = [key for key in missing if key not in cached]
        for key, verdict in zip(new, pool.map(verify_reply, [missing[key] for key in new]), strict=True):
            self._unstored.append(VerdictEntry(key=key, verdict=verdict))
            self._bar.update()
            if time.monotonic() - self._stored_at > _STORE_S:
                self._store()
        self._store()

    def _store(self) -> None:
        entries, self._unstored, self._stored_at = self._unstored, [], time.monotonic()
        if entries:
            self._verdicts.append(entries)
            if self._cache is not None:
                self._cache.share(entries)
