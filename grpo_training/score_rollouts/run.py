"""One run of ``score_rollouts``: verify every row, then write rows with rewards and advantages, and a report."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Mapping
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, get_args

from engine.datasets import load_problems
from engine.errors import IncompleteRunError, InputError
from engine.records import Outcome, Problem
from engine.storage.append_log import replace_file
from engine.task import Task
from engine.task_protocols import HasCheckOptions
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
        of_row = _verified(settings, task, problems, verdicts, survey.rows, checks)
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


def _verified(
    settings: ScoreSettings, task: Task, problems: Mapping[str, Problem], verdicts: VerdictFile, rows: int, checks: str
) -> list[RowVerdict]:
    """The verdict of each row. A reply that equals an earlier one, or has a verdict in a file, is not verified again.

    Args:
        settings: the files, and the number of workers.
        task: with its options.
        problems: by their ids.
        verdicts: those of this run; gets the new ones as they are reached.
        rows: their number.
        checks: a digest of the task with its options and checkers.

    Raises:
        IncompleteRunError: a worker ended.
    """
    verdicts.load()
    shared = None if settings.cache is None else VerdictFile(settings.cache)
    if shared is not None:
        shared.load()
    known = {} if shared is None else shared.by_key
    pool = open_pool(task, settings.task or task.name, settings.workers)
    replies = good_rows(settings.rollouts, task, problems)
    keys: list[str] = []
    with pool, progress_bar(total=rows, desc="rows", unit="") as bar:
        try:
            while batch := list(itertools.islice(replies, _ROWS_PER_WORKER * settings.workers)):
                asked = [(problems[row.prompt_id], row.completion) for row in batch]
                keys_of_batch = [verdict_key(checks, *reply) for reply in asked]
                keys += keys_of_batch
                missing = {
                    key: reply for key, reply in zip(keys_of_batch, asked, strict=True) if key not in verdicts.by_key
                }
                new = {key: reply for key, reply in missing.items() if key not in known}
                unstored = [
                    VerdictEntry(key=key, cached=True, verdict=known[key].verdict) for key in missing.keys() & known
                ]
                stored_at = time.monotonic()
                for key, verdict in zip(new, pool.map(verify_reply, new.values()), strict=True):
                    unstored.append(VerdictEntry(key=key, verdict=verdict))
                    bar.update()
                    if time.monotonic() - stored_at > _STORE_S:
                        verdicts.append(unstored)
                        unstored, stored_at = [], time.monotonic()
                verdicts.append(unstored)
                bar.update(len(keys) - bar.n)
        except BrokenProcessPool as error:
            raise IncompleteRunError(
                "A worker process ended",
                why="It was killed, perhaps for lack of memory.",
                fix="Run the same command again, with fewer --workers if memory is short.",
            ) from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    if shared is not None:
        shared.share(verdicts.by_key.values())
    first = {key: row for row, key in reversed(list(enumerate(keys)))}
    entries = enumerate(verdicts.by_key[key] for key in keys)
    return [RowVerdict(entry.verdict, entry.cached or first[entry.key] < row) for row, entry in entries]
