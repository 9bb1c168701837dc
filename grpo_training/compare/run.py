"""Answer problems in two ways, and say which is better."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from engine.api_manager import JUDGE_ROLE, ApiManager
from engine.records import Message, Problem, Record
from engine.statistics.group_sequential import GroupSequentialTest, alpha_of_test, problems_needed
from engine.storage.append_log import replacement
from grpo_training.cli.entry import run_async
from grpo_training.compare.settings import ARMS, CompareSettings
from grpo_training.compare.verdict import Comparison, lines
from grpo_training.evaluate.arms import sum_of_costs
from grpo_training.gate.earlier import problem_hashes
from grpo_training.gate.looks import Arm, ask_until_clear
from grpo_training.gate.problems import check_number, shuffled
from grpo_training.improve.improved import Improved
from grpo_training.runs.estimate import TOKENS_OF_REPLY, show_prompt, tokens_line, tokens_of
from grpo_training.runs.folder import automatic_name, run_folder
from grpo_training.runs.problems import prompt_of, read_problems, remarks_on, task_facts, without_duplicates
from grpo_training.runs.settings import tell_what_is_missing
from grpo_training.serve.endpoints import check_budget, check_endpoint, open_client, open_endpoints, price

_NOT_PROVEN = 3

Prompts = Sequence[tuple[Message, ...]]
"""Those of an arm, in the order of the problems."""


class _Kept(Record):
    """A comparison as a run keeps it, so that later ones are stricter."""

    asked: str
    problem_hashes: list[str]
    result: Comparison


def run_compare(settings: CompareSettings, stream: TextIO) -> int:
    """Compare A and B; the exit code.

    Raises:
        InputError: the problems or what was learned cannot be read, or there are too few problems.
        IncompleteRunError: some answers are missing.
        ScaffoldError: from the client.
    """
    for role in () if settings.dry_run else ARMS:
        check_endpoint(settings, role)
    arms = tuple(_arm(settings, role) for role in ARMS)
    read = read_problems(settings)
    problems = without_duplicates(read.problems)
    check_number(problems, settings.dataset)
    remarks = remarks_on(problems)
    for line in filter(None, [read.note, *remarks]):
        print(line, file=stream)
    problems = shuffled(problems, settings.seed)
    manager = settings.load_endpoints()
    if settings.dry_run:
        prompts = [_prompts(arm, problems) for arm in arms]
        print(*_plan(settings, manager, arms, problems, prompts), sep="\n", file=stream)
        for role, of_arm in zip(ARMS, prompts, strict=True):
            show_prompt(of_arm[0], stream, f"The first prompt of {role.upper()}")
        tell_what_is_missing(settings.to_ask().load_endpoints, stream)
        return 0
    run = run_folder(settings.run or f"compare-{automatic_name(settings.dataset, '')}"[:100])
    settings = settings.model_copy(update={"run": run.name, "cache_dir": run.cache})
    result = _compared(settings, manager, arms, problems, run.folder, stream)
    print(*lines(result, settings.dataset), sep="\n", file=stream)
    is_proven = result.verdict == "better"
    return _NOT_PROVEN if settings.fail_unless_proven and not is_proven else 0


def _arm(settings: CompareSettings, role: str) -> Arm:
    """One way of asking.

    Raises:
        MissingInputError, InputError: what was learned cannot be read.
    """
    learned, prompt = (getattr(settings, f"{name}_{role}") for name in ("improved", "prompt"))
    if learned is None:
        return Arm(role, role, prompt or settings.prompts)
    folder = Path(learned)
    improved = Improved.load(folder if folder.is_dir() else run_folder(learned).folder / "improved")
    return Arm(role, role, improved.result.prompts, improved.tested())


def _compared(
    settings: CompareSettings,
    manager: ApiManager,
    arms: Sequence[Arm],
    problems: Sequence[Problem],
    folder: Path,
    stream: TextIO,
) -> Comparison:
    """The result. What an earlier start has asked is not asked again, as its replies are stored."""
    samples = settings.samples_of(problems)
    prompts = [_prompts(arm, problems) for arm in arms]
    asked, hashes = _asked(settings, manager, problems, prompts, samples), problem_hashes(problems)
    log = folder / "comparisons.jsonl"
    kept = [_Kept.model_validate_json(line) for line in log.read_text().splitlines()] if log.exists() else []
    others = {entry.asked for entry in kept if not set(hashes).isdisjoint(entry.problem_hashes)} - {asked}
    test = GroupSequentialTest(len(problems), samples, alpha_of_test(len(others) + 1))
    print(*_plan(settings, manager, arms, problems, prompts), sep="\n", file=stream, flush=True)
    if others:
        print(
            f"Earlier comparisons on some of these problems: {len(others)}. This one may be wrong with a probability "
            f"of {test.alpha:.2g} only, so that its interval is wider.",
            file=stream,
        )
    with open_endpoints(settings) as served:
        for role in ARMS:
            check_budget(settings, served, role)
        number = next((index for index, entry in enumerate(kept) if entry.asked == asked), len(kept))
        path = folder / f"comparison_{number + 1}.samples.jsonl"
        result = run_async(_ask(settings, served, arms, problems, test, path, stream))
    new = _Kept(asked=asked, problem_hashes=hashes, result=result)
    with replacement(log) as file:
        kept[number : number + 1] = [new]
        file.write("".join(f"{entry.model_dump_json()}\n" for entry in kept).encode())
    return result


async def _ask(
    settings: CompareSettings,
    manager: ApiManager,
    arms: Sequence[Arm],
    problems: Sequence[Problem],
    test: GroupSequentialTest,
    path: Path,
    stream: TextIO,
) -> Comparison:
    margin = 0.0 if settings.margin is None else settings.margin / 100
    async with open_client(settings, manager) as client:
        asked = await ask_until_clear(
            settings,
            client,
            (arms[1], arms[0]),
            problems,
            test,
            path,
            stream,
            judge_role=manager.role_of(JUDGE_ROLE, arms[0].role),
            what="prompts of A and B",
            margin=margin,
        )
    finding, (right_b, right_a), (cost_b, cost_a) = asked.finding, asked.right, asked.costs
    return Comparison(
        a=_described(manager, arms[0]),
        b=_described(manager, arms[1]),
        model_b=manager.endpoint("b").model,
        margin=settings.margin,
        verdict=finding.verdict or "not_proven",
        right_a=right_a,
        right_b=right_b,
        mean=finding.mean,
        low=finding.low,
        high=finding.high,
        alpha=test.alpha,
        problems=finding.problems,
        of=len(problems),
        open=asked.open,
        samples=test.samples,
        tokens=sum(asked.tokens),
        tokens_ratio=asked.tokens_ratio,
        cost_usd=sum_of_costs(asked.costs),
        cost_ratio=cost_b / cost_a if cost_b is not None and cost_a else None,
        needed=problems_needed(finding.variance, effect=margin or 0.1, alpha=test.alpha),
    )


def _plan(
    settings: CompareSettings,
    manager: ApiManager,
    arms: Sequence[Arm],
    problems: Sequence[Problem],
    prompts: Sequence[Prompts],
) -> list[str]:
    """What is compared, and what it costs at most."""
    count, samples = len(problems), settings.samples_of(problems)
    read, written = [samples * count * tokens_of(of_arm) for of_arm in prompts], samples * count * TOKENS_OF_REPLY
    costs = [price(settings, manager, role, of_arm, written) for role, of_arm in zip(ARMS, read, strict=True)]
    return [
        *(f"{arm.role.upper()}: {_described(manager, arm)}" for arm in arms),
        f"{count} problems, {samples} answers each way: at most {2 * samples * count:,} answers.",
        tokens_line(sum(read), 2 * written, sum_of_costs(costs)),
    ]


def _described(manager: ApiManager, arm: Arm) -> str:
    learned = "" if arm.experiences == () else ", with what was learned"
    return f"{manager.endpoint(arm.role).model}, prompt {arm.style}{learned}"


def _prompts(arm: Arm, problems: Sequence[Problem]) -> list[tuple[Message, ...]]:
    return [prompt_of(problem, arm.experiences, arm.style) for problem in problems]


def _asked(
    settings: CompareSettings,
    manager: ApiManager,
    problems: Sequence[Problem],
    prompts: Sequence[Prompts],
    samples: int,
) -> str:
    """Hash of all that is asked, and of the question about it."""
    how: list[object] = [
        settings.margin,
        samples,
        settings.temperature,
        settings.top_p,
        settings.max_tokens,
        settings.seed,
        task_facts(settings.task),
    ]
    endpoints = [manager.endpoint(role) for role in ARMS]
    how += [[endpoint.model, endpoint.shown_extra_body] for endpoint in endpoints]
    how += [endpoint.api for endpoint in endpoints if endpoint.api != "chat"]
    if len({endpoint.shown_url for endpoint in endpoints}) > 1:  # else a server may move
        how += [endpoint.shown_url for endpoint in endpoints]
    asked = json.dumps(how) + repr((*prompts, [problem.answer for problem in problems]))
    return hashlib.sha256(asked.encode()).hexdigest()[:16]
