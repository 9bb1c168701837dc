"""One evaluation: policies -> simulations and stored decisions -> figures -> files and tables."""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from agents.generator import prompt_hash
from engine.errors import InputError
from engine.llm.journal import ResponseJournal
from engine.records import Sampling
from engine.tasks.traffic.rows import TrafficRow
from engine.tasks.traffic.simulation.process import require_sumo
from engine.tasks.traffic.task import TASK
from grpo_training.cli.tables import View
from grpo_training.evaluate.models import LocalModel, served
from grpo_training.experiences.folder import learned_experiences
from grpo_training.serve.engines import choose_engine
from grpo_training.traffic.evaluation.decisions import ModelDecisions, Prompting, model_decisions
from grpo_training.traffic.evaluation.policies import FIXED, ORACLE, EvaluatedPolicy, policies_of
from grpo_training.traffic.evaluation.progress import EvaluationProgress
from grpo_training.traffic.evaluation.report import EvaluationResults, check_complete, show_report, write_report
from grpo_training.traffic.evaluation.run_log import RunLog
from grpo_training.traffic.evaluation.simulations import Demand, PlannedRun, planned_runs, simulate
from grpo_training.traffic.evaluation.stored_rows import local_results, model_results, read_dataset
from grpo_training.traffic.settings import EvaluateSettings


def evaluate(
    settings: EvaluateSettings,
    folders: Sequence[Path],
    stream: TextIO | None = None,
) -> int:
    """Compare the policies, write the results and print the tables.

    Args:
        folders: the scenarios of the closed loop; none: only stored decisions are compared.
        stream: where the tables are printed; stdout by default.

    Returns:
        the exit code.

    Raises:
        InputError, MissingInputError: a policy, dataset or library is missing or invalid.
        IncompleteRunError: some simulations or decisions failed; the figures of the others are written.
        ScaffoldError: from the client or the local server.
    """
    if settings.output.is_dir():
        raise InputError(f"--output: {settings.output} is a folder", fix="Give a file, such as results.json in it.")
    if folders:
        require_sumo()
    policies = policies_of(settings)
    if any(isinstance(policy.model, LocalModel) for policy in policies):
        choose_engine(settings.engine)  # fail before anything is written if it is not installed
    prompting = Prompting(
        Sampling(temperature=settings.temperature, max_tokens=settings.max_tokens, seed=0),
        learned_experiences(settings.experiences),
        settings.prompts,
    )
    facts = _prompting_facts(prompting)
    planned = {policy.name: planned_runs(settings, folders, policy, facts) for policy in policies}
    rows = [] if settings.dataset is None else read_dataset(settings.dataset)
    settings.output.parent.mkdir(parents=True, exist_ok=True)
    log = RunLog(settings.output.with_suffix(".runs.jsonl"))
    with log.open(), tempfile.TemporaryDirectory(prefix="demand-") as place, ExitStack() as stack:
        evaluation = _Evaluation(settings, prompting, rows, log, Demand(Path(place)), stack)
        results = evaluation.of(policies, planned)
        write_report(settings, policies, rows, results)
    show_report(View(stream or sys.stdout), settings, rows, results)
    check_complete(results)
    return 0


@dataclass
class _Evaluation:
    """Evaluates one policy after another; a local model is served only while it is needed."""

    settings: EvaluateSettings
    prompting: Prompting
    rows: Sequence[TrafficRow]
    log: RunLog
    vehicles: Demand
    stack: ExitStack
    journal: ResponseJournal | None = None

    def __post_init__(self) -> None:
        self._budget = self.stack.enter_context(closing(self.settings.open_budget()))

    def of(self, policies: Sequence[EvaluatedPolicy], planned: Mapping[str, Sequence[PlannedRun]]) -> EvaluationResults:
        """All policies, and on stored decisions the oracle."""
        results = EvaluationResults()
        if self.rows:
            results.rows[ORACLE] = local_results(ORACLE, self.rows, self.settings.seed)
        steps = sum(map(len, planned.values())) + sum(len(self.rows) for policy in policies if policy.model)
        with EvaluationProgress(steps) as progress:
            for policy in policies:
                runs = planned[policy.name]
                is_done = all(self.log.find(run.facts) is not None for run in runs) and not self.rows
                with self._asked(policy, is_done) as model:
                    progress.begin(policy.name, model)
                    if runs:
                        finished, failed = simulate(
                            runs, self.settings, self.log, self.vehicles, model, progress.advance
                        )
                        results.runs += finished
                        results.failed += failed
                    if self.rows and policy.name != FIXED:
                        self._on_rows(policy, model, results, progress)
                    if model is not None:
                        results.usage[policy.name] = _usage(model)
        return results

    def _on_rows(
        self,
        policy: EvaluatedPolicy,
        model: ModelDecisions | None,
        results: EvaluationResults,
        progress: EvaluationProgress,
    ) -> None:
        if model is None:
            results.rows[policy.name] = local_results(policy.name, self.rows, self.settings.seed)
            return
        found, faults = model_results(model, self.rows, self.settings.num_samples, progress.advance)
        if found:
            results.rows[policy.name] = found
        if faults:
            results.left_out[policy.name] = faults

    @contextmanager
    def _asked(self, policy: EvaluatedPolicy, is_done: bool) -> Iterator[ModelDecisions | None]:
        """The policy's model, ready to be asked; None for a baseline and where nothing is missing."""
        if policy.model is None or is_done:
            yield None
            return
        if self.journal is None:
            path = self.settings.output.with_suffix(".sqlite")
            self.journal = self.stack.enter_context(closing(ResponseJournal(path)))
        with (
            served(self.settings, policy.model, self.prompting.sampling, self._budget) as endpoint,
            model_decisions(endpoint, self.prompting, self.journal) as model,
        ):
            yield model


def _prompting_facts(prompting: Prompting) -> dict[str, Any]:
    """What determines a model's decisions besides its weights, as JSON values."""
    contents = json.dumps(prompting.experiences.contents if prompting.experiences else [], ensure_ascii=False)
    return {
        "prompt_hash": prompt_hash(TASK, prompting.style),
        "experiences_hash": hashlib.sha256(contents.encode()).hexdigest()[:12],
        "sampling": prompting.sampling.model_dump(exclude_defaults=True),
    }


def _usage(model: ModelDecisions) -> dict[str, Any]:
    counters = model.counters
    return {
        "requests": counters.requests_sent,
        "replies_from_journal": counters.journal_hits,
        "prompt_tokens": counters.prompt_tokens,
        "completion_tokens": counters.completion_tokens,
        "cost_usd": counters.cost_usd,
    }
