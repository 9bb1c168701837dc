"""Prints the groups of a problem."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterator
from statistics import fmean, pstdev

from engine.errors import InputError
from engine.records import Fusion, Rollout, RolloutGroup
from engine.tasks.registry import task_named
from grpo_training.cli.tables import View
from grpo_training.cli.terminal_text import counted
from grpo_training.experiences.descriptions import number
from grpo_training.runs.stored_answers import VERDICTS, StoredAnswers, answers_in, problem_of, stored_answers

_STYLE = {True: "green", False: "red", None: "yellow"}


def show(arguments: argparse.Namespace) -> int:
    """Print what is stored about a problem, or the list of problems; the exit code.

    Raises:
        MissingInputError: there is no cache.
        InputError: the problem is not in it.
    """
    view = View(sys.stdout)
    stored = list(stored_answers(arguments.cache, arguments.role))
    problem_id = None if arguments.problem_id is None else _problem(stored, arguments.problem_id)
    of_problem = [answers for answers in stored if problem_id in (None, answers.problem_id)]
    chosen = [answers for answers in of_problem if arguments.epoch in (None, answers.epoch)]
    if of_problem and not chosen:
        epochs = ", ".join(map(str, sorted({answers.epoch for answers in of_problem})))
        subject = "No problem has an" if problem_id is None else f"{problem_id} has no"
        raise InputError(f"{subject} epoch {arguments.epoch} in {arguments.cache}", fix=f"Epochs: {epochs}.")
    if problem_id is None:
        _list(chosen, view, as_json=arguments.json)
        return 0
    if arguments.json:
        for answers in chosen:
            for record in answers.records:
                view.json(record.model_dump(mode="json"), indent=None)
        return 0
    first = chosen[0].records[0]
    view.line(f"problem {problem_id}", style="bold")
    view.text(first.problem_text)
    view.line(f"truth: {_truth(first)}")
    for answers in chosen:
        _group(answers, view, arguments.chars)
    return 0


def _truth(record: RolloutGroup | Fusion) -> str:
    """The right answer as the task shows it; as it is stored, if the task is not known."""
    if not record.ground_truth:
        return "(not stored)"
    problem = problem_of(record)
    try:
        return task_named(problem.task).truth(problem)
    except InputError:
        return problem.answer


def _list(stored: list[StoredAnswers], view: View, *, as_json: bool) -> None:
    rows = []
    for answers in stored:
        verdicts = [member.is_correct for member in _members(answers)]
        judged = len(verdicts) - verdicts.count(None)
        rewards = [total for member in _members(answers) if (total := member.rewards.r_total) is not None]
        spread = (fmean(rewards), pstdev(rewards)) if rewards else (None, None)
        right = (verdicts.count(True), judged, len(verdicts))
        rows.append((answers.problem_id, answers.role, answers.epoch, *right, *spread))
    if as_json:
        names = ("problem_id", "role", "epoch", "right", "judged", "answers", "mean", "std")
        view.json([dict(zip(names, row, strict=True)) for row in rows])
        return
    view.table(
        counted(len(rows), "group"),
        ("problem", "role", "epoch", "right", "μ", "σ"),
        [(p, r, str(e), _right(*right), number(mean), number(std)) for p, r, e, *right, mean, std in rows],
    )


def _right(right: int, judged: int, answers: int) -> str:
    """How many answers are right of those that were judged, and how many were not."""
    known = [f"{right} of {judged}"] if judged else []
    open_ = [f"{answers - judged} {VERDICTS[None]}"] if judged < answers else []
    return ", ".join(known + open_) or "none"


def _problem(stored: list[StoredAnswers], given: str) -> str:
    """The id that is meant.

    Raises:
        InputError: no id, or several, have these characters.
    """
    ids = list(dict.fromkeys(answers.problem_id for answers in stored))
    if given in ids:
        return given
    matching = [name for name in ids if given in name]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise InputError(f"{given!r} is a part of several ids", fix=f"Choose one: {', '.join(matching[:10])}.")
    near = difflib.get_close_matches(given, ids, 1, cutoff=0.4)
    raise InputError(
        f"No problem {given!r} is stored",
        fix=(f"Did you mean {near[0]!r}? " if near else "") + "Without a problem id, all are listed.",
    )


def _members(answers: StoredAnswers) -> Iterator[Rollout | Fusion]:
    for record in answers.records:
        yield from answers_in(record)


def _label(member: Rollout | Fusion) -> str:
    if isinstance(member, Rollout):
        return f"rollout {member.rollout_id}"
    return f"fusion of {member.generator_id}{', merged without a model' if member.merged == 'structural' else ''}"


def _group(answers: StoredAnswers, view: View, chars: int) -> None:
    view.line("")
    epoch = f", epoch {answers.epoch}" if answers.epoch else ""
    first = answers.records[0]
    stats = first.stats if isinstance(first, RolloutGroup) else None
    figures = ""
    if stats is not None:
        asked = "an experience was asked for (σ>τ)" if stats.triggered else "no experience was asked for (σ≤τ)"
        figures = f": μ={stats.mean:.3f}, σ={stats.std:.3f}, {asked}"
    view.line(f"{answers.role}{epoch}{figures}", style="bold")
    for member in _members(answers):
        verdict, rewards, answer = member.is_correct, member.rewards, member.answer
        parts = {"r_total": rewards.r_total, **rewards.by_name()}
        figures = ", ".join(f"{name} {value:.3f}" for name, value in parts.items() if value is not None)
        shown = "no answer" if answer is None else answer.replace("\n", " ")[:200]
        view.line(f"{_label(member)}: {VERDICTS[verdict]}: {shown}", style=_STYLE[verdict])
        view.line(f"  {figures or 'no reward'}; experiences: {', '.join(member.experience_ids) or 'none'}")
        _reply(view, member, chars)


def _reply(view: View, member: Rollout | Fusion, chars: int) -> None:
    completion, fault, scaffold = member.completion, member.fault, member.scaffold
    if fault is not None:
        view.line(f"  fault: {fault.kind} {fault.message}".rstrip(), style="yellow")
    if completion is None:
        parts = [("stored", "" if scaffold is None else str(scaffold))]
    else:
        parts = [("reasoning", completion.reasoning or ""), ("reply", completion.text)]
    for name, text in parts:
        if text:
            cut = text if not chars else text[:chars]
            view.line(f"  {name}:")
            view.text(cut, indent="    ")
            if len(cut) < len(text):
                view.line(f"    ... {len(text) - len(cut):,} characters more (--chars 0)")
