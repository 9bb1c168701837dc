"""Comparison of policies in closed loop: every policy runs every scenario with every seed in SUMO."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import as_completed
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from engine.api_manager import DEFAULT_ROLE, ApiManager
from engine.errors import IncompleteRunError, InputError
from engine.llm.budget import Budget
from engine.llm.journal import ResponseJournal
from engine.reading.masking import shown_url
from engine.records import ChatRequest, Problem, Sampling, timestamp
from engine.statistics.paired import Estimate, clustered_mean, paired_difference
from engine.storage.append_log import replace_file
from engine.tasks.traffic.simulation.closed_loop import LOCAL_POLICIES, ClosedLoopResult, run_closed_loop
from engine.tasks.traffic.simulation.process import SimulationFailedError, SimulationThreads, require_sumo
from engine.tasks.traffic.task import TASK
from grpo_training.agents.generator import generator_messages
from grpo_training.cli.bar import problem_bar
from grpo_training.cli.tables import View
from grpo_training.evaluate.models import EvaluatedModel, LocalModel, RoleModel, local_model, model_of_role, served
from grpo_training.experiences.folder import learned_experiences
from grpo_training.serve.engines import choose_engine
from grpo_training.traffic.decisions import CallFailedError, ModelDecisions, RequestOf, model_decisions
from grpo_training.traffic.settings import EvaluateSettings

BASELINE = "max-pressure"
"""All policies are compared with it."""
FIGURES = ("mean_waiting_s", "mean_queue", "mean_travel_s", "throughput", "switches")
FORMAT = 2
"""Version of the results' format."""

_ROLE = "role:"
_WAITING = "mean_waiting_s"
_SHOWN = {"mean_queue": "queue", "mean_travel_s": "travel s", "throughput": "arrived"}
_NAME_WIDTH = 22
_FAILURES_ALLOWED = 3
"""Simulations of one policy that fail before any has succeeded; after them the endpoint counts as unavailable."""


@dataclass
class EvaluationResults:
    """What the policies did.

    Args:
        runs: finished simulations.
        failed: ``scenario``, ``policy``, ``seed`` and ``reason`` of the simulations without figures.
        usage: model -> requests, tokens and cost of this start.
    """

    runs: list[ClosedLoopResult] = field(default_factory=list)
    failed: list[dict[str, Any]] = field(default_factory=list)
    usage: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class PolicyFigures:
    """The estimates of one policy, by figure.

    Args:
        means: over all of its simulations.
        difference_to_max_pressure: paired, over the simulations (scenario and seed) that both have; empty without any.
    """

    means: dict[str, Estimate]
    difference_to_max_pressure: dict[str, Estimate]


def evaluate(settings: EvaluateSettings, folders: Sequence[Path]) -> int:
    """Compare the policies, write the results and print the table.

    Args:
        folders: the scenarios.

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
    if any(isinstance(model, LocalModel) for model in policies.values()):
        choose_engine(settings.engine)  # fail before anything is written if it is not installed
    sampling = Sampling(temperature=settings.temperature, max_tokens=settings.max_tokens, seed=0)
    experiences = learned_experiences(settings.experiences)

    def request_of(role: str, state: str) -> ChatRequest:
        problem = Problem(id="", text=state, answer="", task=TASK.name)
        chosen = experiences.of(problem) if experiences else ()
        return ChatRequest(
            role=role,
            messages=generator_messages(TASK, problem, chosen, settings.prompts),
            sampling=sampling,
            json_schema=TASK.reply_schema,
            purpose="evaluation",
        )

    settings.output.parent.mkdir(parents=True, exist_ok=True)
    results = EvaluationResults()
    budget = settings.open_budget()
    for name, model in policies.items():
        with (
            _asked(model, settings, sampling, request_of, budget) as decisions,
            problem_bar(len(folders) * settings.seeds, name, "simulations") as done,
        ):
            _simulate(name, folders, settings, decisions, results, done)
            if decisions is not None:
                results.usage[name] = decisions.usage
    report = {
        "format": FORMAT,
        "timestamp": timestamp(),
        "settings": settings.model_dump(mode="json"),
        "policies": {name: name if model is None else model.id for name, model in policies.items()},
        "total": {policy: asdict(figures) for policy, figures in by_policy(results.runs).items()},
        **asdict(results),
    }
    replace_file(settings.output, (json.dumps(report, indent=1, ensure_ascii=False) + "\n").encode())
    _show(View(sys.stdout), settings, results)
    _check_complete(results)
    return 0


def policies_of(settings: EvaluateSettings) -> dict[str, EvaluatedModel | None]:
    """The policies that ``--policy`` names, in its order, with their models; None for a baseline.

    Raises:
        InputError: none is named, or one is neither known nor a folder.
        MissingInputError, ConfigurationError: a model or an endpoint is missing or incomplete.
    """
    names = [name for entry in settings.policy.split(",") if (name := entry.strip())]
    if not names:
        raise InputError("No policy is named", fix=f"Choose some of: {', '.join(LOCAL_POLICIES)}, or name a model.")
    return {shown_url(name) if "://" in name else name: _model(name, settings) for name in names}


def _model(name: str, settings: EvaluateSettings) -> EvaluatedModel | None:
    if name in LOCAL_POLICIES:
        return None
    if name.startswith(_ROLE):
        return model_of_role(ApiManager.load(settings.api_config), name.removeprefix(_ROLE))
    if name.startswith(("http://", "https://")):
        if settings.model is None:
            raise InputError(
                f"Which model of {shown_url(name)} is meant?",
                fix="Pass its name: --model NAME (a server lists them at /models).",
            )
        manager = ApiManager.for_one_endpoint(name, settings.model, settings.api_key_env)
        manager.endpoint(DEFAULT_ROLE)  # a missing key or a wrong URL is reported now
        return RoleModel(manager, DEFAULT_ROLE)
    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise InputError(
            f"Unknown policy {name!r}",
            why="It is no baseline and no folder.",
            fix=f"Choose some of: {', '.join(LOCAL_POLICIES)}; or the folder of a model or adapter, "
            f"a URL with --model, or {_ROLE}NAME.",
        )
    return local_model(folder)


@contextmanager
def _asked(
    model: EvaluatedModel | None, settings: EvaluateSettings, sampling: Sampling, request_of: RequestOf, budget: Budget
) -> Iterator[ModelDecisions | None]:
    """The model of a policy, ready to be asked, and served if it is local; None for a baseline."""
    if model is None:
        yield None
        return
    with ExitStack() as stack:
        journal = stack.enter_context(closing(ResponseJournal(settings.output.with_suffix(".sqlite"))))
        endpoint = stack.enter_context(served(model, sampling, budget, engine=settings.engine, output=settings.output))
        yield stack.enter_context(model_decisions(endpoint, request_of, journal))


def _simulate(
    policy: str,
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
    failed: list[dict[str, Any]] = []
    with SimulationThreads(settings.parallel, on_stop=model.stop if model else lambda: None) as threads:
        running = {
            threads.submit(
                run_closed_loop,
                folder,
                policy,
                seed,
                decide=None if model is None else model.decide,
                extend_seconds=settings.extend_seconds,
                seconds=settings.seconds,
                limit_s=settings.time_limit,
            ): (folder, seed)
            for folder, seed in runs
        }
        finished = {}
        for future in as_completed(running):
            folder, seed = running[future]
            try:
                finished[folder, seed] = future.result()
            except (SimulationFailedError, CallFailedError) as error:
                reason = f"{error.what}: {error.why}" if error.why else error.what
                failed.append({"scenario": folder.resolve().name, "policy": policy, "seed": seed, "reason": reason})
                if len(failed) > _FAILURES_ALLOWED and not finished:
                    raise
            done()
    results.runs += [finished[run] for run in runs if run in finished]
    results.failed += failed


def by_policy(runs: Sequence[ClosedLoopResult]) -> dict[str, PolicyFigures]:
    """The figures of each policy.

    The seed is the cluster: the scenarios are taken as given, and an interval says how much the mean over them would
    change with other seeds.
    """
    of_policy: dict[str, dict[tuple[str, int], ClosedLoopResult]] = {}
    for run in runs:
        of_policy.setdefault(run.policy, {})[run.scenario, run.seed] = run
    base = of_policy.get(BASELINE, {})
    figures = {}
    for policy, its_runs in of_policy.items():
        means = {figure: clustered_mean(_clusters(its_runs.values(), figure)) for figure in FIGURES}
        common = sorted(its_runs.keys() & base.keys()) if policy != BASELINE else []
        pairs = [its_runs[key] for key in common], [base[key] for key in common]
        differences = {
            figure: paired_difference(*(_clusters(paired, figure) for paired in pairs))
            for figure in (FIGURES if common else ())
        }
        figures[policy] = PolicyFigures(means, differences)
    return figures


def _clusters(runs: Iterable[ClosedLoopResult], figure: str) -> dict[str, list[float]]:
    clusters: dict[str, list[float]] = {}
    for run in runs:
        clusters.setdefault(str(run.seed), []).append(run.figures[figure])
    return clusters


def _show(view: View, settings: EvaluateSettings, results: EvaluationResults) -> None:
    """Print the table, at most 100 columns wide, what was asked, and where the results are."""
    scenarios = len({run.scenario for run in results.runs})
    intervals = " (95 % intervals over the seeds)" if settings.seeds > 1 else ""
    view.table(
        f"Closed loop, scenarios: {scenarios}, seeds: {settings.seeds}{intervals}",
        ("policy", "waiting s", f"to {BASELINE}", *_SHOWN.values()),
        [
            (
                policy if len(policy) <= _NAME_WIDTH else "…" + policy[1 - _NAME_WIDTH :],
                _cell(figures.means.get(_WAITING)),
                _cell(figures.difference_to_max_pressure.get(_WAITING), "+"),
                *(_cell(figures.means.get(figure)) for figure in _SHOWN),
            )
            for policy, figures in by_policy(results.runs).items()
        ],
    )
    for name, usage in results.usage.items():
        asked = sum(run.decisions for run in results.runs if run.policy == name)
        unreadable = sum(run.unreadable for run in results.runs if run.policy == name)
        cost = "no prices configured" if usage["cost_usd"] is None else f"${usage['cost_usd']:.4f}"
        view.line(
            f"{name}: {asked:,} decisions, {unreadable / max(1, asked):.1%} unreadable (the light switched); "
            f"{usage['requests']:,} requests, {usage['replies_from_journal']:,} replies from the journal, "
            f"{usage['prompt_tokens']:,} tokens in, {usage['completion_tokens']:,} out, {cost}"
        )
    view.line(f"Results: {settings.output}")


def _cell(estimate: Estimate | None, sign: str = "") -> str:
    """A mean and the half width of its interval, with two digits after the point below 10."""
    if estimate is None:
        return "-"
    digits = 2 if abs(estimate.value) < 10 else 1
    text = f"{estimate.value:{sign}.{digits}f}"
    if estimate.low is None or estimate.high is None:
        return text
    return f"{text} ± {(estimate.high - estimate.low) / 2:.{digits}f}"


def _check_complete(results: EvaluationResults) -> None:
    """Check that every simulation has figures.

    Raises:
        IncompleteRunError: some failed.
    """
    if not results.failed:
        return
    first, *others = ["{scenario}, {policy}, seed {seed}: {reason}".format(**failed) for failed in results.failed]
    raise IncompleteRunError(
        f"{len(results.failed)} of {len(results.failed) + len(results.runs)} simulations failed; "
        "the figures are of the others",
        why=first + (f" (and {len(others)} more)" if others else ""),
        fix="Run the same command again: replies that are in the journal are not asked again.",
    )
