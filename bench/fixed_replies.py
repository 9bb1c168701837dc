"""What replies earn that do not do the work, per task: fixed texts, and texts that copy from the prompt.

A fixed reply is the same for every problem. A copying reply takes numbers, names or tests from the prompt and combines
them in the same way for every problem. Prints the best of both kinds, the mean reward and the share of right answers,
and what an empty reply earns. The exit status is 1 if a fixed reply earns more than an empty one by more than
:data:`MOST`, except where the answers have a base rate.

    python -m bench.fixed_replies [--tasks math physics ...] [--aime FILE] [--mbpp FILE] [--traffic FILE] [--all]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from bench.reply_texts import (
    COPYING_ANSWERS,
    COPYING_PROGRAMS,
    COPYING_SCAFFOLDS,
    DECISIONS,
    PROGRAMS,
    SCAFFOLDS,
    WORDS,
    Reply,
)
from engine.datasets import load_problems
from engine.own_data.describe import describe
from engine.records import Completion, Problem
from engine.reward_evaluator import RewardEvaluator
from engine.task import Task
from engine.tasks.answers.task import TASK
from engine.tasks.registry import task_named
from examples.pocket_model.quickstart import instances

MOST = 0.05
"""What a fixed reply may earn above an empty one."""
PROBLEMS = 60


@dataclass(frozen=True)
class Subject:
    """Problems of one kind, and what is replied to them.

    Args:
        name: in the table.
        problems: the problems.
        fixed: replies that are the same for every problem.
        copying: replies that are made of the prompt in the same way for every problem.
        task: scores them; by default that of the problems.
        base_rate: why some answer is right by itself so often that the bound cannot hold; empty where it has to hold.
    """

    name: str
    problems: Sequence[Problem]
    fixed: Mapping[str, str]
    copying: Mapping[str, Reply] = field(default_factory=dict)
    task: Task[Any] | None = None
    base_rate: str = ""


@dataclass(frozen=True)
class Earned:
    """What a reply earns: its mean reward, and the share of problems for which it is right."""

    reply: str
    mean: float
    right: float


def earned(subject: Subject, name: str, reply: Reply) -> Earned:
    """Score one reply on all problems of a subject."""
    evaluator, totals, right = RewardEvaluator(), [], 0
    for problem in subject.problems:
        task = subject.task or task_named(problem.task)
        found = evaluator.score(task, problem, task.parse(Completion(text=reply(problem)), problem))
        if found.rewards.r_total is None:
            raise RuntimeError(f"{subject.name}: {name!r} could not be scored: {found.detail}")
        totals.append(found.rewards.r_total)
        right += bool(found.is_correct)
    return Earned(name, fmean(totals), right / len(totals))


def fixed_replies(subject: Subject) -> list[Earned]:
    """What the fixed replies earn; the first one is the empty one."""
    return [earned(subject, name, partial(_fixed, text)) for name, text in {"(empty)": "", **subject.fixed}.items()]


def _fixed(text: str, _: Problem) -> str:
    return text


def copying_replies(subject: Subject) -> list[Earned]:
    """What the copying replies earn."""
    return [earned(subject, name, reply) for name, reply in subject.copying.items()]


def math(count: int = 72) -> Subject:
    """Word problems."""
    problems = [one.problem for one in instances("test", count)]
    return Subject(f"math, {count} of `quickstart:test`", problems, SCAFFOLDS, COPYING_SCAFFOLDS)


def aime(path: Path) -> Subject:
    """Competition problems, from a file of AIME 2024."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    task = task_named("math")
    problems = [task.problem_from_row(row, "row") for row in rows]
    problems = [one.model_copy(update={"task": "math"}) for one in problems]
    return Subject(f"math, {len(problems)} of AIME 2024", problems, SCAFFOLDS, COPYING_SCAFFOLDS)


def physics() -> Subject:
    """The shipped problems, which are fewer than 60."""
    problems = load_problems("physics")
    return Subject(f"physics, all {len(problems)}", problems, SCAFFOLDS, COPYING_SCAFFOLDS)


def answers() -> list[Subject]:
    """Word problems again as numbers; and the kinds of the same problems as labels and as JSON objects."""
    made = instances("test", PROBLEMS)
    kinds = [one.family.category for one in made]
    sizes = ["large" if float(Fraction(one.problem.answer)) > 50 else "small" for one in made]
    frequent, often = Counter(sizes).most_common(1)[0]
    columns: dict[str, Sequence[object]] = {
        "numbers": [one.problem.answer for one in made],
        "labels of many": kinds,
        "labels of two": sizes,
        "JSON objects": [{"size": size, "answer": one.problem.answer} for size, one in zip(sizes, made, strict=True)],
    }
    replies = {word: f"Answer: {word}" for word in WORDS}
    replies |= {"Answer:": "Answer:", "all labels": f"Answer: {', '.join(sorted(set(sizes)))}"}
    replies |= {f"the label {label!r}": f"Answer: {label}" for label in (*sorted(set(sizes)), kinds[0], kinds[1])}
    replies["an object with the most frequent label"] = f"Answer: {json.dumps({'size': frequent, 'answer': '0'})}"
    found = []
    for name, truths in columns.items():
        rows = [{"question": one.problem.text, "answer": truth} for one, truth in zip(made, truths, strict=True)]
        found_out = describe(rows, where=name)
        problems = [TASK.described_problem(*found_out.plain_row(row, "row"), "row") for row in rows]
        has_rate = name in ("labels of two", "JSON objects")
        rate = f"{frequent!r} is the answer to {often} of {len(made)}" if has_rate else ""
        found.append(Subject(f"answers, {PROBLEMS} {name}", problems, replies, COPYING_ANSWERS, base_rate=rate))
    return found


def code(path: Path, count: int = PROBLEMS) -> Subject:
    """Problems of MBPP."""
    problems = load_problems(str(path), max_problems=count)
    return Subject(f"code, {len(problems)} of MBPP", problems, PROGRAMS, COPYING_PROGRAMS)


# Games


def game(source: str) -> str:
    """A reply with a plan and a JavaScript program."""
    plan = "REQ: a game\nAPI: Phaser.Game\nSTEPS:\n1. preload: none\n2. create: all\n3. update: all"
    return f"[PLAN]\n{plan}\n[/PLAN]\n```javascript\n{source}\n```"


def games(task: Task[Any], count: int = PROBLEMS) -> Subject:
    """Prompts for games.

    Args:
        task: the task with a validator.
        count: of prompts.
    """
    import random

    from engine.tasks.phaser.problems import problem_of, read_prompt
    from engine.tasks.phaser.seeds.features import COLORS, all_features, draw_values, features_by_name, values_from
    from engine.tasks.phaser.seeds.programs import Part, Program
    from engine.tasks.phaser.seeds.prompt_seeds import make_prompt_seeds

    prompts = [read_prompt(row, "row") for row in make_prompt_seeds(count, 11)]
    rng = random.Random(0)

    def part(name: str, **values: str) -> Part:
        return Part(features_by_name()[name], values_from(values, rng))

    calm = [one for one in all_features() if not one.name.startswith("camera_")]
    made = {"every feature": Program(tuple(Part(one, draw_values(rng)) for one in calm))}
    for name in ("animation_play", "group", "static_group", "timer"):
        many = [part(name, color=color, count=str(3 + n % 7)) for n, color in enumerate(COLORS)]
        made |= {f"`{name}` in every colour": Program(tuple(many)), f"`{name}` in eight": Program(tuple(many[:8]))}
    labels = [part(name, number=str(5 + 10 * n)) for n, name in enumerate(["registry", "text_style"] * 4)]
    made["eight numbers and a random one"] = Program((*labels, part("random", number="20")))
    made["one label"] = Program((part("text"),))
    fixed = {name: game(one.source()) for name, one in made.items()}
    fixed |= {
        "an empty scene": game("new Phaser.Game({ scene: { create() {} } });"),
        "an empty program": game("// nothing"),
        "a plan alone": game("").partition("```")[0],
    }

    def asked(problem: Problem) -> str:
        """The features of the symbols that the prompt names, with values that are not those of its text."""
        symbols = json.loads(problem.answer)["must_use_apis"]
        parts = [Part(one, draw_values(rng)) for one in all_features() if one.symbol in symbols]
        return game(Program(tuple(parts) or (part("text"),)).source())

    copying: Mapping[str, Reply] = {"the symbols of the prompt, other values": asked}
    return Subject(f"phaser, {count} prompts", [problem_of(one, "phaser") for one in prompts], fixed, copying, task)


def traffic(problems: Sequence[Problem], where: str) -> Subject:
    """Decisions of traffic lights."""
    rate = "there are two replies, and one of them is right"
    return Subject(f"traffic, {len(problems)} decisions, {where}", problems, DECISIONS, base_rate=rate)


# The table


def row(subject: Subject, shows_all: bool) -> tuple[str, bool]:
    """The line of a subject, and whether its bound holds."""
    empty, *others = fixed_replies(subject)
    best = max(others, key=lambda one: one.mean)
    copies = copying_replies(subject)
    copy = max(copies, key=lambda one: one.mean, default=None)
    cells = [subject.name, f"{empty.mean:.3f}", best.reply, f"{best.mean:.3f}", f"{best.right:.1%}"]
    cells += ["", "", ""] if copy is None else [copy.reply, f"{copy.mean:.3f}", f"{copy.right:.1%}"]
    lines = [f"| {' | '.join(cells)} |"]
    if shows_all:
        lines += [f"    {one.reply}: {one.mean:.3f}, right {one.right:.1%}" for one in (empty, *others, *copies)]
    holds = best.mean <= empty.mean + MOST or bool(subject.base_rate)
    return "\n".join(lines), holds


def subjects_of(names: Sequence[str], given: argparse.Namespace, opened: ExitStack) -> Iterator[Subject]:
    """The subjects of tasks; those whose data or packages are missing are left out with a line."""
    if "math" in names:
        yield math()
        if given.aime:
            yield aime(given.aime)
    if "physics" in names:
        yield physics()
    if "answers" in names:
        yield from answers()
    if "code" in names and given.mbpp:
        yield code(given.mbpp)
    if "phaser" in names:
        from engine.tasks.phaser.options import GameOptions
        from engine.tasks.phaser.task import PhaserTask
        from engine.tasks.phaser.validation.api_index import ApiIndex
        from engine.tasks.phaser.validation.node_setup import build_api_index
        from engine.tasks.phaser.validation.validator import PhaserValidator

        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="bench-replies-")))
        build_api_index(folder)
        index = ApiIndex.load(folder / "phaser_api.jsonl")
        validator = opened.enter_context(PhaserValidator.open(index, workers=1))
        yield games(PhaserTask(GameOptions(skip_eslint=True), validator))
    if "traffic" in names and given.traffic:
        yield traffic(load_problems(str(given.traffic)), given.traffic.parent.name)


TASKS = ("math", "physics", "answers", "code", "phaser", "traffic")


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="*", choices=TASKS, default=TASKS)
    parser.add_argument("--aime", type=Path, help="problems of AIME 2024 as JSONL")
    parser.add_argument("--mbpp", type=Path, help="problems of MBPP as JSONL; without it, code is left out")
    parser.add_argument("--traffic", type=Path, help="a grpo_dataset.json; without it, traffic is left out")
    parser.add_argument("--all", action="store_true", help="print what each reply earns")
    given = parser.parse_args(argv)
    print("| problems | empty | best fixed reply | mean | right | best copying reply | mean | right |")
    print("|---|---|---|---|---|---|---|---|")
    all_hold = True
    with ExitStack() as opened:
        for subject in subjects_of(given.tasks, given, opened):
            text, holds = row(subject, given.all)
            all_hold &= holds
            print(text if holds else f"{text}\n    above the bound", flush=True)
    return 0 if all_hold else 1


if __name__ == "__main__":
    sys.exit(main())
