"""One run of ``score_rollouts``: verify every row, then write rows with rewards and advantages, and a report."""

from __future__ import annotations

import json
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, get_args

from engine.abilities import HasCheckOptions
from engine.datasets import load_problems
from engine.errors import IncompleteRunError, InputError
from engine.records import Outcome, Problem
from engine.storage.append_log import replace_file
from engine.task import Task
from engine.tasks.registry import load_task, task_named
from grpo_training.cli.bar import progress_bar
from grpo_training.runs.files import RunFiles
from grpo_training.score_rollouts.report import report_content
from grpo_training.score_rollouts.rollout_rows import RolloutRow, Survey, file_digest, good_rows
from grpo_training.score_rollouts.scored_rows import Scores, write_scored
from grpo_training.score_rollouts.settings import ScoreSettings, configured
from grpo_training.score_rollouts.verdict_file import VerdictEntry, VerdictFile
from grpo_training.score_rollouts.verdicts import StoredVerdict, VerdictKeys
from grpo_training.score_rollouts.workers import open_pool, verify_reply

TOO_MANY_INFRA_FAULTS = 3
"""Exit code if a larger share of the rows than :data:`MAX_INFRA_RATE` could not be verified."""
MAX_INFRA_RATE = 0.05

_AHEAD_PER_WORKER = 128  # rows that are submitted before their turn
_BATCH = 64  # verdicts that are stored with one sync at most


def score(settings: ScoreSettings) -> int:
    """Score a file of rollouts. Returns the exit code.

    Raises:
        ScaffoldError: bad input, or the task cannot verify anything on this machine.
    """
    verdicts = VerdictFile(settings.beside_out("_work.jsonl"))
    results = [settings.out, verdicts.path]
    files = RunFiles(settings.beside_out("_run.json"), results, lock=verdicts.log, temporary=[verdicts.path])
    settings = files.resumed(settings)
    problems, task = _prompts(settings)
    verifier = dict(task.verifier())
    survey = Survey.of(settings.rollouts, task, problems)
    survey.check_usable(settings.rollouts, skip_bad_rows=settings.skip_bad_rows)
    facts = {
        "task": task.name,
        "verifier": verifier,
        "options": task.check_options.model_dump(mode="json") if isinstance(task, HasCheckOptions) else None,
        "rollouts": survey.digest,
        "prompts": VerdictKeys.digest([problem.model_dump(mode="json") for problem in problems.values()]),
    }
    for path in filter(None, (settings.out, settings.report_path, settings.cache)):
        path.parent.mkdir(parents=True, exist_ok=True)
    with files.open(settings, facts) as manifest:
        if manifest.is_finished and settings.out.exists():
            manifest.finish()
            print(f"{settings.out} is complete. Pass --fresh to score again.")
            return 0
        keys = VerdictKeys(task.name, {"verifier": verifier, "options": _without_paths(task)})
        _Verification(settings, task, problems, survey, verdicts, keys).run()
        scores = Scores.of(survey, verdicts, task, settings)
        write_scored(settings, task, problems, survey, scores, verdicts)
        hashes = {"rollouts": survey.digest, "scored": file_digest(settings.out)}
        content = report_content(settings, survey, verdicts, scores) | {"facts": facts, "hashes": hashes}
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
    """Verifies the rows that have no verdict yet, and stores every verdict at once.

    A reply that equals an earlier one, or has a verdict in the cache, is not verified again.
    """

    def __init__(
        self,
        settings: ScoreSettings,
        task: Task,
        problems: dict[str, Problem],
        survey: Survey,
        verdicts: VerdictFile,
        keys: VerdictKeys,
    ) -> None:
        self._settings, self._task, self._problems, self._keys = settings, task, problems, keys
        self._verdicts, self._rows = verdicts, survey.rows
        self._cache = None if settings.cache is None else VerdictFile(settings.cache)
        self._running: dict[Future[StoredVerdict], tuple[int, str]] = {}
        self._waiting: dict[str, list[tuple[int, RolloutRow]]] = {}
        """Rows by the key of a running verification whose verdict may be theirs too."""
        self._done: list[VerdictEntry] = []

    def run(self) -> None:
        """Verify all rows.

        Raises:
            IncompleteRunError: a worker ended.
        """
        stored = list(self._verdicts.load())
        if self._cache is not None:
            for _ in self._cache.load():
                pass
            self._cache.share(stored)  # the run may have been killed between the two files
        workers = self._settings.workers
        pool = open_pool(self._task, self._settings.task or self._task.name, workers)
        with pool, progress_bar(total=self._rows, initial=len(stored), desc="rows", unit="") as self._bar:
            try:
                for number, row in enumerate(good_rows(self._settings.rollouts, self._task, self._problems)):
                    if not self._verdicts.has(number):
                        self._place(number, row, pool)
                    while len(self._running) >= _AHEAD_PER_WORKER * workers:
                        self._collect(pool)
                while self._running:
                    self._collect(pool)
            except BrokenProcessPool as error:
                raise IncompleteRunError(
                    "A worker process ended",
                    why="It was killed, perhaps for lack of memory.",
                    fix="Run the same command again, with fewer --workers if memory is short.",
                ) from error
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
                self._store()

    def _place(self, number: int, row: RolloutRow, pool: Executor) -> None:
        """Take a verdict that is known, wait for that of an equal reply, or verify the row."""
        key = self._keys.key(self._problems[row.prompt_id], row.completion)
        if key in self._waiting:
            self._waiting[key].append((number, row))
            return
        known = self._verdicts.of_key(key) or (None if self._cache is None else self._cache.of_key(key))
        if known is not None:
            self._finish(number, key, known, cached=True)
            return
        self._waiting[key] = []
        self._submit(number, key, row, pool)

    def _submit(self, number: int, key: str, row: RolloutRow, pool: Executor) -> None:
        future = pool.submit(verify_reply, self._problems[row.prompt_id], row.completion)
        self._running[future] = (number, key)

    def _collect(self, pool: Executor) -> None:
        """Take the verdicts that are reached; equal replies share one, unless it may differ another time."""
        for future in wait(self._running, return_when=FIRST_COMPLETED).done:
            number, key = self._running.pop(future)
            verdict, waiting = future.result(), self._waiting.pop(key)
            self._finish(number, key, verdict)
            if verdict.is_reusable:
                for equal_number, _ in waiting:
                    self._finish(equal_number, key, verdict, cached=True)
            elif waiting:
                (next_number, row), *self._waiting[key] = waiting
                self._submit(next_number, key, row, pool)
        self._store()

    def _finish(self, number: int, key: str, verdict: StoredVerdict, *, cached: bool = False) -> None:
        self._done.append(VerdictEntry(key=key, row=number, cached=cached, verdict=verdict))
        self._bar.update()
        if len(self._done) >= _BATCH:
            self._store()

    def _store(self) -> None:
        if self._done:
            done, self._done = self._done, []
            self._verdicts.append(done)
            if self._cache is not None:
                self._cache.share(done)
