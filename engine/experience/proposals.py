"""The review of what an analyst proposes to add to an experience library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.experience.events import Refusal
from engine.experience.incremental_value import IncrementalValue
from engine.experience.state import LibraryState, with_operations
from engine.experience.text_checks import (
    DuplicateIndex,
    LeakCheck,
    Reason,
    category_slug,
    check_case,
    check_instruction,
    check_text,
    leaks_short_answer,
)
from engine.records import Operation, Problem

MAX_PROPOSALS = 32
"""Maximum number of proposals read from an analyst's reply."""

_SHOWN_CHARACTERS = 400
MAX_CASES = 400
"""Cases of a library."""
MAX_INSTRUCTIONS = 2
"""Instructions of a library. All of them stand in all prompts, so that each is measured by every problem."""
MENDABLE = frozenset(
    "empty too_many_words too_many_characters not_one_line control_characters markup answer problem_text".split()
)
"""Codes of refusals after which the analyst can say the same in better words."""
_DUPLICATES = IncrementalValue(DuplicateIndex, DuplicateIndex.add)


@dataclass(frozen=True)
class Review:
    """The result of a review: the operations to apply, with ids, and the refused ones with reasons."""

    applied: tuple[Operation, ...]
    refused: tuple[Refusal, ...]


def review_proposals(
    state: LibraryState,
    proposals: Sequence[Operation],
    *,
    prefix: str,
    capacity: int,
    problem: Problem | None,
    leaks_answer: LeakCheck = leaks_short_answer,
    on_trial: bool = False,
) -> Review:
    """Check proposals in order, each against the state after the ones before it.

    Args:
        state: the newest state of the library.
        proposals: ``add`` (content, kind, category). Its id is always assigned here.
        prefix: prefix of new ids: ``G1`` gives ``G1-001``.
        capacity: maximum number of lessons; there are at most ``MAX_CASES`` cases and ``MAX_INSTRUCTIONS``.
        problem: the group's problem, for the checks of the text.
        leaks_answer: whether a text gives away the answer of the problem.
        on_trial: experiences are on trial: a full library retires its least promising experience for a new one.

    Returns:
        the review; refusal codes are those of ``check_text`` and ``unsupported``, ``too_many_operations``,
        ``forbidden``, ``did_not_help``, ``duplicate``, ``library_full``.
    """
    applied: list[Operation] = []
    refused: list[Refusal] = []
    for proposal in proposals[:MAX_PROPOSALS]:
        operation = Operation(
            op=proposal.op.strip().lower(),
            id=f"{prefix}-{state.next_number:03d}",
            content=(proposal.content or "").strip(),
            kind=proposal.kind,
            sources=proposal.sources,
            category=category_slug(proposal.category),
        )
        if operation.kind == "case":
            reason = _objection_to_case(state, operation)
        else:
            most = MAX_INSTRUCTIONS if operation.kind == "instruction" else capacity
            reason = _objection(state, operation, most, problem, leaks_answer)
        added = [operation]
        if reason is not None and reason.code == "library_full" and on_trial:
            replaced = state.least_promising(operation.kind)
            if replaced is not None:
                added.insert(0, Operation(op="retire", id=replaced))
                reason = None
        if reason is not None:
            refused.append(_refusal(proposal, reason))
            continue
        applied += added
        state = with_operations(state, added, "", None)
    if extra := proposals[MAX_PROPOSALS:]:
        message = f"Only the first {MAX_PROPOSALS} operations are read; {len(extra)} more were left out."
        refused.append(_refusal(extra[0], Reason("too_many_operations", message)))
    return Review(tuple(applied), tuple(refused))


def _objection(
    state: LibraryState, operation: Operation, capacity: int, problem: Problem | None, leaks_answer: LeakCheck
) -> Reason | None:
    content, present = operation.content or "", state.of_kind(operation.kind)
    if operation.op != "add":
        return Reason("unsupported", "Only additions are read: trials and people remove experiences.")
    check = check_instruction if operation.kind == "instruction" else check_text
    if reason := check(content, problem, leaks_answer):
        return reason
    if twin := _DUPLICATES.apply(state.retired, lambda index: index.find(content)):
        return Reason("did_not_help", f"{twin.id} said nearly the same; it was measured and did not help.")
    if twin := _DUPLICATES.apply(state.forbidden, lambda index: index.find(content)):
        return Reason("forbidden", f"A person forbade {twin.id}, which says nearly the same.")
    if twin := _DUPLICATES.apply(present, lambda index: index.find(content)):
        return Reason("duplicate", f"{twin.id} says nearly the same.")
    if len(present) >= capacity:
        return Reason("library_full", f"The library holds {capacity} {operation.kind}s, as many as it may.")
    return None


def _objection_to_case(state: LibraryState, operation: Operation) -> Reason | None:
    """A case holds its problem and its answer, and stands in no prompt of that problem."""
    if reason := check_case(operation.content or ""):
        return reason
    if len(state.cases) >= MAX_CASES:
        return Reason("library_full", f"The library holds {MAX_CASES} cases, as many as it may.")
    return None


def _refusal(proposal: Operation, reason: Reason) -> Refusal:
    """The record of a refusal, with the proposal shortened for display."""
    shown = {
        "op": proposal.op[:32],
        "id": proposal.id and proposal.id[:64],
        "content": proposal.content and proposal.content[:_SHOWN_CHARACTERS],
        "category": proposal.category[:64],
    }
    return Refusal(operation=proposal.model_copy(update=shown), reason=reason.code, message=reason.message)
