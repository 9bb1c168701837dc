"""One evaluation: settings -> models -> judged samples -> figures -> files and tables."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from engine.api_manager import GENERATORS
from engine.errors import IncompleteRunError, InputError, MissingInputError
from engine.experience.choice import LearnedExperiences, PromptExperiences
from engine.llm.client import LLMClient
from engine.llm.journal import ResponseJournal
from engine.records import Problem, Sampling, timestamp
from engine.storage.append_log import AppendLog, replace_file, replacement
from engine.tasks.registry import task_named
from grpo_training.agents.generator import prompt_hash
from grpo_training.cli.bar import note, problem_bar
from grpo_training.cli.entry import run_async
from grpo_training.cli.settings import POCKET_MODEL, shown_path
from grpo_training.cli.tables import View
from grpo_training.evaluate.arms import (
    FORMAT,
    JudgedSample,
    ProblemResult,
    complete,
    frequent_fault,
    refused_lines,
    sum_of_costs,
    write_samples,
)
from grpo_training.evaluate.figures import differences, estimates_json, figures, figures_json, task_results
from grpo_training.evaluate.models import (
    BASE,
    MODEL,
    EvaluatedModel,
    LocalModel,
    ServedModel,
    models_of,
    served,
)
from grpo_training.evaluate.sampling import evaluate_problems
from grpo_training.evaluate.settings import EvaluateSettings
from grpo_training.evaluate.tables import show_models
from grpo_training.experiences.folder import learned_experiences
from grpo_training.runs.estimate import TOKENS_OF_REPLY, show_prompt, tokens_line
from grpo_training.runs.estimate import tokens_of as tokens_of_prompts
from grpo_training.runs.folder import found_run, library_file, load_tasks_of, manifest_file
from grpo_training.runs.problems import prompt_of, read_problems, remarks_on, task_facts, without_duplicates
from grpo_training.runs.reply_watch import ReplyWatch, tokens_of
from grpo_training.runs.run import OtherRunError, Run, as_in_learning, hash_of
from grpo_training.runs.settings import tell_what_is_missing
from grpo_training.serve.endpoints import price
from grpo_training.serve.engines import choose_engine


@dataclass(frozen=True)
class ModelResult:
    """The judged samples of one model.

    Args:
        model: its name at the endpoint.
        results: of the problems.
        seconds: time spent on requests and judging.
        from_journal: completions that came from the journal.
    """

    model: str
    results: list[ProblemResult]
    seconds: float
    from_journal: int


def evaluate(settings: EvaluateSettings, stream: TextIO) -> int:
    """Draw and judge samples, write the figures, print the tables.

    Args:
        settings: the command's settings.
        stream: where the tables are printed.

    Returns:
        the exit code.

    Raises:
        InputError, MissingInputError: a model, adapter, dataset or library is missing or invalid; the existing
            results are of another configuration.
        IncompleteRunError: some problems are left out; the figures of the others are written.
        ScaffoldError: from the client or the local server.
    """
    settings = _in_run(settings, stream)
    if settings.output.is_dir():
        raise InputError(f"--output: {settings.output} is a folder", fix="Give a file, such as results.json in it.")
    samples, journal = settings.output.with_suffix(".samples.jsonl"), settings.output.with_suffix(".sqlite")
    manifest = settings.output.with_suffix(".run.json")
    files = Run(manifest, [settings.output, samples], lock=AppendLog(samples))
    settings = files.resumed(settings)
    loaded = read_problems(settings)
    print(subject_line(settings))
    problems = without_duplicates(loaded.problems)  # equal prompts have equal replies, which are no further evidence
    for text in filter(None, (loaded.note, *remarks_on(problems))):
        print(text)
    if len(problems) < len(loaded.problems):
        print(f"{len(loaded.problems) - len(problems)} problems are left out, as their text occurs twice.")
    experiences = learned_experiences(settings.experiences)
    if experiences is not None and (count := experiences.sources_among(problems)):
        print(
            f"Experiences were learned from {count} of these {len(problems)} problems, so the figures are too high for "
            "new problems; python -m grpo_training.gate asks each problem without its own."
        )
    models = models_of(settings)
    in_prompts: PromptExperiences = () if experiences is None else experiences
    for text in plan_lines(settings, problems, models, in_prompts):
        print(text, flush=True)
    if settings.dry_run:
        show_prompt(prompt_of(problems[0], in_prompts, settings.prompts), stream)
        tell_what_is_missing(lambda: models_of(settings.to_ask()), stream)
        return 0
    if any(isinstance(model, LocalModel) for model in models.values()):
        choose_engine(settings.engine)  # fail before anything is written if it is not installed
    facts = _facts(settings, problems, experiences, models)
    try:
        with files.open(settings, facts) as begun:
            with closing(ResponseJournal(journal)) as replies, replacement(samples) as file:
                results = _measured(settings, problems, in_prompts, models, replies, file)
            report = json.dumps(_report(settings, facts, results), indent=2, ensure_ascii=False)
            replace_file(settings.output, f"{report}\n".encode())
            begun.finish()
    except OtherRunError as error:
        resume = "" if settings.resume else ", or --resume to continue with the stored settings"
        fix = f"Pass --output FILE to keep both, --fresh to set the stored results aside{resume}."
        raise OtherRunError(
            f"{shown_path(settings.output)} has another configuration", why=error.why, fix=fix
        ) from None
    view = View(stream)
    show_models(view, {name: result.results for name, result in results.items()}, settings.k_values)
    view.line(f"{sum(result.seconds for result in results.values()):.0f} s. Figures: {shown_path(settings.output)}")
    view.line(f"Samples: {shown_path(samples)}")
    _check_complete([result.results for result in results.values()], len(problems))
    return 0


def _in_run(settings: EvaluateSettings, stream: TextIO) -> EvaluateSettings:
    """The settings with the library and the cache of ``--run``."""
    if settings.run is None:
        return settings
    if settings.experiences is not None:
        raise InputError("--run and --experiences exclude each other", why="A run has its own library.")
    run = found_run(settings.run)
    library = library_file(run.experiences, settings.role or GENERATORS[0])
    if not library.exists():
        raise MissingInputError(f"The run {settings.run!r} has no library: {library} is missing")
    load_tasks_of(run.cache, given=settings.task if ":" in (settings.task or "") else None)
    settings = as_in_learning(settings, manifest_file(run.cache, settings.role or GENERATORS[0]), stream)
    of_run: dict[str, Path] = {"experiences": library}
    if "output" not in settings.model_fields_set:
        of_run["output"] = run.cache / settings.output.name
    return settings.model_copy(update=of_run)


def _measured(
    settings: EvaluateSettings,
    problems: Sequence[Problem],
    experiences: PromptExperiences,
    models: Mapping[str, EvaluatedModel],
    journal: ResponseJournal,
    file: BinaryIO,
) -> dict[str, ModelResult]:
    """Draw and judge the samples of one model after another on the same problems.

    Args:
        settings: of the evaluation.
        problems: that are asked.
        experiences: those in the prompts.
        models: by name.
        journal: of the replies.
        file: gets the samples.
    """
    budget = settings.open_budget()
    sampling = Sampling(
        temperature=settings.temperature, top_p=settings.top_p, max_tokens=settings.max_tokens, seed=settings.seed
    )

    async def asked(name: str, endpoint: ServedModel) -> ModelResult:
        began = time.monotonic()
        price_of = partial(price, settings, endpoint.manager, endpoint.role, 0)
        planned = len(problems) * settings.num_samples
        watch = ReplyWatch(settings.prompts, settings.max_tokens, note, planned, price_of)
        opened = LLMClient(
            endpoint.manager, journal=journal, retry=endpoint.retry, budget=endpoint.budget, batch=settings.batch
        )
        with problem_bar(len(problems), f"{name}, sampled") as advance:

            def judged(result: ProblemResult, samples: Sequence[JudgedSample]) -> None:
                write_samples(file, name, "sampled", result, samples)
                for sample in samples:
                    if sample.completion is not None:
                        watch.add(
                            is_cut_off=sample.is_truncated,
                            is_unreadable=not sample.is_readable,
                            tokens=tokens_of(sample.completion),
                        )
                count, right = result.counts
                advance(right, count)
                endpoint.check()

            async with opened as client:
                client.report_notices_to(note)
                results = await evaluate_problems(
                    client,
                    endpoint.role,
                    problems,
                    samples=settings.num_samples,
                    sampling=sampling,
                    style=settings.prompts,
                    experiences=experiences,
                    judged=judged,
                    at_once=settings.batch,
                )
        model = endpoint.manager.endpoint(endpoint.role).model
        return ModelResult(model, results, time.monotonic() - began, client.counters.journal_hits)

    measured = {}
    for name, model in models.items():
        with served(model, sampling, budget, engine=settings.engine, output=settings.output) as endpoint:
            measured[name] = run_async(asked(name, endpoint))
    return measured


def _facts(
    settings: EvaluateSettings,
    problems: Sequence[Problem],
    experiences: LearnedExperiences | None,
    models: Mapping[str, EvaluatedModel],
) -> dict[str, Any]:
    """What changes the figures besides the settings: prompts, problems, experiences and weights."""
    tasks = sorted({problem.task for problem in problems})
    return {
        "prompt_hash": {name: prompt_hash(task_named(name), settings.prompts) for name in tasks},
        "problems_hash": hash_of([problem.model_dump(mode="json") for problem in problems]),
        "lessons_hash": hash_of(experiences.contents if experiences else []),
        "models": {name: model.id for name, model in models.items()},
        **task_facts(settings.task),
    }


def _report(settings: EvaluateSettings, facts: Mapping[str, Any], results: Mapping[str, ModelResult]) -> dict[str, Any]:
    """The content of the figures' file; the keys that other tools read come first."""
    by_model = {name: _model_json(result, settings.k_values) for name, result in results.items()}
    report = {
        "model_path": results[MODEL].model
        if settings.role or settings.base_url
        else str(settings.model_path or POCKET_MODEL),
        "test_data_path": settings.dataset,
        **by_model[MODEL],
        "format": FORMAT,
        "settings": settings.model_dump(mode="json", exclude={"base_url", "api_key_env"}),
        "facts": facts,
        "timestamp": timestamp(),
    }
    if BASE in results:
        estimates = differences(results[MODEL].results, results[BASE].results, settings.k_values)
        report["base"] = by_model[BASE]
        report["difference_to_base"] = {"sampled": estimates_json(estimates)}
    return report


def _model_json(result: ModelResult, k_values: Sequence[int]) -> dict[str, Any]:
    return {
        **figures_json(figures(result.results, k_values)),
        "task_results": task_results(result.results),
        "model": result.model,
        "seconds": round(result.seconds, 3),
        "replies_from_journal": result.from_journal,
    }


def _check_complete(models: Sequence[Sequence[ProblemResult]], problems: int) -> None:
    """Name the problems whose requests alone failed.

    Raises:
        IncompleteRunError: problems are left out for another reason, or no other one is left.
    """
    incomplete = [result for results in models for result in results if not result.is_complete]
    for line in refused_lines(incomplete):
        print(line)
    if all(result.refused for result in incomplete) and any(map(complete, models)):
        return
    raise IncompleteRunError(
        f"{len({result.problem_id for result in incomplete})} of {problems} problems are left out: "
        "some of their samples could not be drawn or judged",
        why=f"{frequent_fault(incomplete)}The figures cover the other problems only.",
        fix="Run the same command again: it draws the missing samples and reuses all others.",
    )


def subject_line(settings: EvaluateSettings) -> str:
    """Which model is evaluated on which dataset, and the flags that name others, as far as they were not given."""
    if settings.base_url is not None or settings.role is not None:
        model, is_default = settings.model or f"the model of {settings.role}", False
    else:
        paths = [path for path in (settings.model_path, settings.adapter) if path is not None]
        is_default = not paths
        model = " + ".join(str(shown_path(path)) for path in paths or [POCKET_MODEL])
    flags = ["--model-path FOLDER"] if is_default else []
    flags += [] if "dataset" in settings.model_fields_set else ["--dataset FILE"]
    others = f" (default; others: {', '.join(flags)})" if flags else ""
    return f"Evaluates {model} on {settings.dataset}{others}"


def plan_lines(
    settings: EvaluateSettings,
    problems: Sequence[Problem],
    models: Mapping[str, EvaluatedModel],
    experiences: PromptExperiences,
) -> list[str]:
    """How many answers, about how many tokens, and the price.

    Args:
        settings: of the evaluation.
        problems: its problems.
        models: by name; one on this machine costs nothing.
        experiences: those in the prompts.
    """
    of_model = len(problems) * settings.num_samples
    read = of_model * tokens_of_prompts(
        [prompt_of(problem, experiences, settings.prompts) for problem in problems[:20]]
    )
    written = of_model * TOKENS_OF_REPLY
    costs = [
        0.0 if isinstance(model, LocalModel) else price(settings, model.manager, model.role, read, written)
        for model in models.values()
    ]
    samples = f"{settings.num_samples} samples" if settings.num_samples > 1 else "1 sample"
    ways = f" of {len(models)} models" if len(models) > 1 else ""
    return [
        f"{len(problems)} problems, {samples} each{ways}: {len(models) * of_model:,} answers of at most "
        f"{settings.max_tokens:,} tokens. Stored ones are not asked for again.",
        tokens_line(len(models) * read, len(models) * written, sum_of_costs(costs)),
    ]
