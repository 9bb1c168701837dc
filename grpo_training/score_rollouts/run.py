"""One run of ``score_rollouts``: verify every row, then write rows with rewards and advantages, and a report."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any, get_args

from engine.abilities import HasCheckOptions, ScoresForeignRows
from engine.datasets import load_problems
from engine.errors import InputError
from engine.executor.choice import is_cluster, open_executor
from engine.records import Problem
from engine.storage.append_log import replace_file
from engine.task import Task
from engine.tasks.registry import load_task, task_named
from grpo_training.cli.bar import progress_bar
from grpo_training.runs.files import RunFiles
from grpo_training.score_rollouts.near_copies import payments
from grpo_training.score_rollouts.report import ScoreReport
from grpo_training.score_rollouts.rollout_rows import RolloutRow, Survey, check_usable, file_digest, good_rows, survey
from grpo_training.score_rollouts.scored_rows import advantages_of, write_scored
from grpo_training.score_rollouts.settings import DEFAULT_WORKERS, ScoreSettings, configured
from grpo_training.score_rollouts.verdict_log import VerdictCache, WorkEntry, WorkLog
from grpo_training.score_rollouts.verdicts import StoredVerdict, VerdictKeys
from grpo_training.score_rollouts.workers import Verified, VerifierDescription, VerifyItem

TOO_MANY_INFRA_FAULTS = 3
"""Exit code if a larger share of the rows than ``max_infra_rate`` could not be verified."""

_AHEAD_PER_WORKER = 128  # rows that are submitted before their turn; short ones travel many at once
_BATCH = 64  # verdicts that are stored with one sync at most


def score(settings: ScoreSettings) -> int:
    """Score a file of rollouts. Returns the exit code.

    Raises:
        ScaffoldError: bad input, or the task cannot verify anything on this machine.
    """
    log = WorkLog(settings.beside_out("_work.jsonl"))
    results = [settings.out, log.path]
    files = RunFiles(settings.beside_out("_run.json"), results, lock=log, temporary=[log.path])
    settings = files.resumed(settings)
    problems, task = _prompts(settings)
    fields = _fields(settings, problems)
    verifier = dict(task.verifier())
    found = survey(settings.rollouts, task, problems)
    check_usable(found, settings.rollouts, skip_bad_rows=settings.skip_bad_rows)
    facts = {
        "task": task.name,
        "verifier": verifier,
        "options": task.check_options.model_dump(mode="json") if isinstance(task, HasCheckOptions) else None,
        "rollouts": found.digest,
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
        _Verification(settings, task, problems, found, log, VerdictCache(settings.cache), keys).run()
        report = _write(settings, task, problems, fields, found, log, facts)
        print(f"{found.rows} rows -> {settings.out}\nreport: {settings.report_path}")
        if not report.infra_faults:
            manifest.finish()
            log.delete()
            return 0
    rate = report.infra_faults / found.rows
    print(f"{report.infra_faults} rows could not be verified; run the same command again to try these again.")
    return TOO_MANY_INFRA_FAULTS if rate > settings.max_infra_rate else 0


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


def _fields(settings: ScoreSettings, problems: Mapping[str, Problem]) -> list[str]:
    """The fields of the prompts by which the report has tables.

    Raises:
        InputError: ``--by`` was given, and no prompt has one of its fields.
    """
    fields = [name.strip() for name in settings.by.split(",") if name.strip()]
    known = {name for problem in problems.values() for name in problem.meta}
    unknown = [name for name in fields if name not in known]
    if unknown and "by" in settings.model_fields_set:
        raise InputError(
            f"--by {settings.by}: no prompt of {settings.prompts} has the field {unknown[0]!r}",
            fix=f"Fields of the prompts: {', '.join(sorted(known)) or 'none'}.",
        )
    return fields


@dataclass
class _Verification:
    """Verifies the rows that have no verdict yet, and stores every verdict at once.

    A reply that equals an earlier one, or has a verdict in the cache, is not verified again.
    """

    settings: ScoreSettings
    task: Task
    problems: dict[str, Problem]
    found: Survey
    log: WorkLog
    cache: VerdictCache
    keys: VerdictKeys
    _running: dict[Future[Verified], tuple[int, str]] = field(default_factory=dict)
    _ended: SimpleQueue[Future[Verified]] = field(default_factory=SimpleQueue)
    _waiting: dict[str, list[tuple[int, RolloutRow]]] = field(default_factory=dict)
    _done: list[WorkEntry] = field(default_factory=list)

    def run(self) -> None:
        """Verify all rows.

        Raises:
            IncompleteRunError: a worker ended.
            ConfigurationError: the executor cannot be used.
        """
        description = VerifierDescription.of(self.task, self.settings.task or self.task.name)
        with open_executor(self.settings.executor) as executor:
            default = executor.cpus if is_cluster(self.settings.executor) else DEFAULT_WORKERS
            workers = self.settings.workers or default
            self._pool = executor.pool(description, workers, lost=self._lost)
            with self._pool, progress_bar(total=self.found.rows, desc="rows", unit="") as self._bar:
                try:
                    self._verify(_AHEAD_PER_WORKER * workers)
                finally:
                    self._store()

    def _verify(self, ahead: int) -> None:
        self._restore()
        for number, row in enumerate(good_rows(self.settings.rollouts, self.task, self.problems)):
            if not self.log.has(number):
                self._place(number, row)
            while len(self._running) >= ahead:
                self._collect()
        while self._running:
            self._collect()

    def _lost(self, number: int) -> None:
        self._bar.write(f"worker {number} ended; its rows are given to another one", file=sys.stderr)

    def _restore(self) -> None:
        batch = []
        for entry in self.log.load(self.found.rows):
            self._bar.update()
            batch.append(entry)
            if len(batch) == _BATCH:
                self.cache.add(batch)
                batch = []
        self.cache.add(batch)  # a crash may have come between the log and the cache

    def _place(self, number: int, row: RolloutRow) -> None:
        """Take a verdict that is known, wait for that of an equal reply, or verify the row."""
        key = self.keys.key(self.problems[row.prompt_id], row.completion)
        if key in self._waiting:
            self._waiting[key].append((number, row))
            return
        known = self.log.same(key) or self.cache.get(key)
        if known is not None:
            self._finish(number, key, known, cached=True)
            return
        self._waiting[key] = []
        self._submit(number, key, row)

    def _submit(self, number: int, key: str, row: RolloutRow) -> None:
        future = self._pool.submit(VerifyItem(self.problems[row.prompt_id], row.completion))
        self._running[future] = (number, key)
        future.add_done_callback(self._ended.put)

    def _collect(self) -> None:
        done = [self._ended.get()]
        while not self._ended.empty():
            done.append(self._ended.get())
        for future in done:
            number, key = self._running.pop(future)
            result = future.result()
            self._finish(number, key, result.verdict, seconds=result.seconds)
            self._settle(key, result.verdict)
        self._store()

    def _settle(self, key: str, verdict: StoredVerdict) -> None:
        """Serve the equal replies that waited. A verdict that may differ another time is not shared."""
        waiting = self._waiting.pop(key)
        if verdict.is_reusable:
            for number, _ in waiting:
                self._finish(number, key, verdict, cached=True)
        elif waiting:
            (number, row), *rest = waiting
            self._waiting[key] = rest
            self._submit(number, key, row)

    def _finish(
        self, number: int, key: str, verdict: StoredVerdict, *, cached: bool = False, seconds: float = 0.0
    ) -> None:
        self._done.append(WorkEntry(row=number, key=key, cached=cached, seconds=seconds, verdict=verdict))
        self._bar.update()
        if len(self._done) >= _BATCH:
            self._store()

    def _store(self) -> None:
        if self._done:
            done, self._done = self._done, []
            self.log.append(done)
            self.cache.add(done)


def _write(
    settings: ScoreSettings,
    task: Task,
    problems: dict[str, Problem],
    fields: Sequence[str],
    found: Survey,
    log: WorkLog,
    facts: dict[str, Any],
) -> ScoreReport:
    """Write the scored rows and the report."""
    totals, hashes = [], []
    for number in range(found.rows):
        verdict = log.entry(number).verdict
        totals.append(verdict.total)
        hashes.append(verdict.copy_hash)
    factor = task.copy_factor if isinstance(task, ScoresForeignRows) else lambda copies: 1.0
    paid = payments(totals, hashes, found.group_of, factor)
    groups = advantages_of(found, [each.total for each in paid], settings)
    report = ScoreReport(problems, fields)
    write_scored(settings, task, problems, found, groups, paid, log, report.add)
    content = report.content(settings, found, groups, facts, file_digest(settings.out))
    replace_file(settings.report_path, json.dumps(content, indent=2, ensure_ascii=False).encode() + b"\n")
    return report
