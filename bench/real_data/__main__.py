"""What learning from experiences brings on public data with a real model, beside peers.

Each arm of each data set with each seed writes a result, a JSON file below the output folder; those that are there are
not done again. docs/results.md says how it is measured.

    python -m bench.real_data --only banking77
    python -m bench.real_data --table
"""

from __future__ import annotations

import argparse
import asyncio
import fnmatch
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.real_data.arms import Job, JobError, run
from bench.real_data.proxy import Proxy
from bench.real_data.settings import Settings
from bench.real_data.table import read_results, tables, verdict_table

_SETTINGS = Path(__file__).with_name("settings.yaml")


def jobs(settings: Settings, output: Path, only: Sequence[str]) -> list[Job]:
    """The jobs in their order: the reference of a seed comes before its peers.

    Args:
        settings: of the benchmark.
        output: folder of all results.
        only: names such as ``banking77``, ``banking77/gepa`` or ``banking77/*/0``; empty: all.

    Raises:
        SystemExit: one of the names fits no job.
    """
    all_jobs = [
        Job(dataset, arm, seed, settings, output)
        for seed in settings.seeds
        for dataset in settings.datasets
        for arm in settings.arms
    ]
    for pattern in only:
        if not any(_fits(job, pattern) for job in all_jobs):
            raise SystemExit(f"--only {pattern} fits no job such as {all_jobs[0].name}; see the settings for the names")
    return [job for job in all_jobs if not only or any(_fits(job, pattern) for pattern in only)]


def _fits(job: Job, pattern: str) -> bool:
    return fnmatch.fnmatch(job.name, pattern) or fnmatch.fnmatch(job.name, f"{pattern}/*")


async def measure(todo: Sequence[Job], settings: Settings, data: Path) -> int:
    """Do the jobs one after another; the number of those that failed."""
    proxy = Proxy(settings.url, settings.proxy_port, settings.concurrency)
    runner = await proxy.run()
    failed = 0
    try:
        for job in todo:
            if job.result.exists():
                continue
            print(f"{time.strftime('%H:%M:%S')} {job.name}", flush=True)
            try:
                result = await run(job, proxy, data)
            except JobError as error:
                failed += 1
                print(f"{job.name} failed: {error}", file=sys.stderr, flush=True)
                continue
            new = job.result.with_suffix(".new")
            new.write_text(json.dumps(result, indent=1), encoding="utf-8")
            new.replace(job.result)
    finally:
        await runner.cleanup()
    return failed


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", type=Path, default=_SETTINGS, help="default: settings.yaml of this folder")
    parser.add_argument("--data", type=Path, help="folder of the data sets (default: $SHARED_DATA/datasets)")
    parser.add_argument("--output", type=Path, default=Path("outputs/real_data"))
    parser.add_argument("--only", nargs="*", default=[], help="DATASET/ARM/SEED; the last ones may be left out, or *")
    parser.add_argument("--table", action="store_true", help="only print the table of what is there")
    arguments = parser.parse_args(argv)
    settings, output, failed = Settings.load(arguments.settings), arguments.output.resolve(), 0
    todo = jobs(settings, output, arguments.only)
    if not arguments.table:
        if arguments.data is None and "SHARED_DATA" not in os.environ:
            parser.error("give the folder of the data sets with --data, or set SHARED_DATA")
        data = arguments.data or Path(os.environ["SHARED_DATA"]) / "datasets"
        failed = asyncio.run(measure(todo, settings, data))
    results, order = read_results(output), list(settings.arms)
    print(tables(results, order))
    print(f"\n{verdict_table(results, order)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
