"""One evaluation: every policy runs every scenario with every seed in SUMO."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TextIO

from engine.errors import InputError, ScaffoldError
from engine.llm.journal import ResponseJournal
from engine.llm.limits.budget import Budget
from engine.records import Sampling
from engine.tasks.traffic.simulation.closed_loop import run_closed_loop
from engine.tasks.traffic.simulation.process import SimulationFailedError, SimulationThreads, require_sumo
from grpo_training.cli.bar import problem_bar
from grpo_training.cli.tables import View
from grpo_training.evaluate.models import LocalModel, served
from grpo_training.experiences.folder import learned_experiences
from grpo_training.serve.engines import choose_engine
from grpo_training.traffic.evaluation.decisions import CallFailedError, ModelDecisions, Prompting, model_decisions
from grpo_training.traffic.evaluation.policies import EvaluatedPolicy, policies_of
from grpo_training.traffic.evaluation.report import EvaluationResults, FailedRun, check_complete, show, write
from grpo_training.traffic.settings import EvaluateSettings

_FAILURES_ALLOWED = 3
"""Simulations of one policy that fail before any has succeeded; after them the endpoint counts as unavailable."""


def evaluate(settings: EvaluateSettings, folders: Sequence[Path], stream: TextIO | None = None) -> int:
    """Compare the policies, write the results and print the table.

    Args:
        folders: the scenarios.
        stream: where the table is printed; stdout by default.

    Returns:
        the exit code.

    Raises:
        InputError, MissingInputError: a policy or library is missing or invalid.
        IncompleteRunError: some simulations failed; the figures of the others are written.
        ScaffoldError: from the client or the local server.
    """
    if settings.output.is_dir():
        raise InputError(f"--output: {settings.output} is a folder", fix="Give a file, such as results.json in it.")
    require_sumo()
    policies = policies_of(settings)
    if any(isinstance(policy.model, LocalModel) for policy in policies):
        choose_engine(settings.engine)  # fail before anything is written if it is not installed
    prompting = Prompting(
        Sampling(temperature=settings.temperature, max_tokens=settings.max_tokens, seed=0),
        learned_experiences(settings.experiences),
        settings.prompts,
    )
    settings.output.parent.mkdir(parents=True, exist_ok=True)
    results = EvaluationResults()
    budget = settings.open_budget()
    for policy in policies:
        with (
            _asked(policy, settings, prompting, budget) as model,
            problem_bar(len(folders) * settings.seeds, policy.name, "simulations") as done,
        ):
            _simulate(policy, folders, settings, model, results, done)
            if model is not None:
                results.usage[policy.name] = model.usage
    write(settings, policies, results)
    show(View(stream or sys.stdout), settings, results)
    check_complete(results)
    return 0


@contextmanager
def _asked(
    policy: EvaluatedPolicy, settings: EvaluateSettings, prompting: Prompting, budget: Budget
) -> Iterator[ModelDecisions | None]:
    """The policy's model, ready to be asked, and served if it is local; None for a baseline."""
    if policy.model is None:
        yield None
        return
    with ExitStack() as stack:
        journal = stack.enter_context(closing(ResponseJournal(settings.output.with_suffix(".sqlite"))))
        endpoint = stack.enter_context(served(settings, policy.model, prompting.sampling, budget))
        yield stack.enter_context(model_decisions(endpoint, prompting, journal))


def _simulate(
    policy: EvaluatedPolicy,
    folders: Sequence[Path],
    settings: EvaluateSettings,
    model: ModelDecisions | None,
    results: EvaluationResults,
    done: Callable[[], None],
) -> None:
    """Run all scenarios and seeds of a policy, several at a time, and add them to the results in their order.

    Raises:
        ScaffoldError: the endpoint refuses every call, the budget is exhausted, the first runs all failed.
    """
    runs = [(folder, settings.seed + number) for folder in folders for number in range(settings.seeds)]
    failed: list[FailedRun] = []
    with SimulationThreads(settings.parallel, on_stop=model.stop if model else lambda: None) as threads:
        running = {
            threads.submit(
                run_closed_loop,
                folder,
                policy.name,
                seed,
                decide=None if model is None else model.decide,
                options={"extend_seconds": settings.extend_seconds},
                seconds=settings.seconds,
                limit_s=settings.time_limit,
            ): (folder, seed)
            for folder, seed in runs
        }
        found = {}
        for future in as_completed(running):
            folder, seed = running[future]
            try:
                found[folder, seed] = future.result()
            except (SimulationFailedError, CallFailedError) as error:
                failed.append(FailedRun(folder.resolve().name, policy.name, seed, _reason(error)))
                if len(failed) > _FAILURES_ALLOWED and not found:
                    raise
            done()
    results.runs += [found[run] for run in runs if run in found]
    results.failed += failed


def _reason(error: ScaffoldError) -> str:
    return f"{error.what}: {error.why}" if error.why else error.what
