"""The review of proposed changes of an experience library."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from engine.experience.events import Refusal
from engine.experience.incremental_value import IncrementalValue
from engine.experience.review import (
    DuplicateIndex,
    LeakCheck,
    Reason,
    category_slug,
    check_text,
    leaks_short_answer,
)
from engine.experience.similarity import KeptMatcher
from engine.experience.state import LibraryState, with_operations
from engine.experience.trial import MAX_PER_FAMILY
from engine.records import Operation, Problem

MAX_PROPOSALS = 32
"""Maximum number of operations read from an analyst's reply."""

_SHOWN_CHARACTERS = 400
_PLACEHOLDERS = ("the lesson", "the better wording", "lesson", "better wording", "...", "…")
"""Texts of the analyst's prompt that stand for an experience; a weak model repeats them."""
MENDABLE = frozenset(
    "empty too_many_words too_many_characters not_one_line control_characters markup look_alike_letters answer "
    "problem_text duplicate unknown_id".split()
)
"""Codes of refusals after which the analyst can send something better. It cannot where a person, a measurement or the
size of the library is the reason, and is not asked to put text that speaks to the reader in other words."""
_BY_ANALYST = ("add", "modify", "delete")
_BY_PERSON = ("pin", "unpin", "forbid", "allow")
_MATCHER = KeptMatcher()
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
    by_person: bool = False,
    on_trial: bool = False,
) -> Review:
    """Check proposals in order, each against the state after the ones before it.

    Args:
        state: the newest state of the library.
        proposals: ``add`` (content, category), ``modify`` (id, content), ``delete`` (id); for manual operations also
            ``pin``, ``unpin``, ``forbid`` and ``allow`` (id). The id of an ``add`` is always assigned here.
        prefix: prefix of new ids: ``G1`` gives ``G1-001``.
        capacity: maximum number of experiences. A full library refuses an ``add`` unless the analyst proposes a
            ``delete`` before it.
        problem: the group's problem, for the checks of the text.
        leaks_answer: whether a text gives away the answer of the problem.
        by_person: manual operations: pinned experiences may be changed, and the checks for duplicates, capacity and
            number of operations are skipped.
        on_trial: experiences are on trial: a full library retires its least promising experience for a new one, and
            at most ``MAX_PER_FAMILY`` of one category come from problems like each other.

    Returns:
        the review; refusal codes are those of ``check_text`` and ``unsupported``, ``too_many_operations``,
        ``unknown_id``, ``pinned``, ``touched_twice``, ``unchanged``, ``placeholder``, ``forbidden``, ``did_not_help``,
        ``duplicate``, ``family_full``, ``library_full``.
    """
    applied: list[Operation] = []
    refused: list[Refusal] = []
    touched: set[str] = set()
    limit = len(proposals) if by_person else MAX_PROPOSALS
    for proposal in proposals[:limit]:
        operation = _tidied(proposal, prefix, state.next_number, by_person)
        reason = _objection(state, operation, capacity, problem, leaks_answer, by_person)
        if reason is None and operation.id in touched and not by_person:
            reason = Reason("touched_twice", f"{operation.id} was already changed in this step.")
        if reason is None and on_trial and operation.op == "add":
            reason = _family_objection(state, operation, problem)
        if reason is not None and reason.code == "library_full" and on_trial:
            replaced = state.least_promising()
            if replaced is not None and replaced not in touched:
                retire = Operation(op="retire", id=replaced)
                applied.append(retire)
                state = with_operations(state, [retire], "", None)
                reason = None
        if reason is not None:
            refused.append(_refusal(proposal, reason))
            continue
        applied.append(operation)
        touched.add(operation.id or "")
        state = with_operations(state, [operation], "", None)
    if extra := proposals[limit:]:
        message = f"Only the first {limit} operations are read; {len(extra)} more were left out."
        refused.append(_refusal(extra[0], Reason("too_many_operations", message)))
    return Review(tuple(applied), tuple(refused))


def _tidied(proposal: Operation, prefix: str, next_number: int, by_person: bool) -> Operation:
    op = proposal.op.strip().lower()
    adds = op == "add"
    return Operation(
        op=op,
        id=f"{prefix}-{next_number:03d}" if adds else (proposal.id or "").strip(),
        content=(proposal.content or "").strip() if op in ("add", "modify") else None,
        category=category_slug(proposal.category) if op in ("add", "modify") else "",
        source_problem=proposal.source_problem if adds and by_person else "",
        evidence=proposal.evidence if adds and by_person else (),
    )


def _objection(
    state: LibraryState,
    operation: Operation,
    capacity: int,
    problem: Problem | None,
    leaks_answer: LeakCheck,
    by_person: bool,
) -> Reason | None:
    allowed = _BY_ANALYST + _BY_PERSON if by_person else _BY_ANALYST
    if operation.op not in allowed:
        return Reason("unsupported", f"The operation must be one of {', '.join(allowed)}.")
    if operation.op == "allow":
        is_forbidden = any(one.id == operation.id for one in state.forbidden)
        return None if is_forbidden else Reason("unknown_id", "No forbidden experience has this id.")
    known = state.get(operation.id or "") if operation.op != "add" else None
    if operation.op != "add":
        if known is None:
            return Reason("unknown_id", "The library holds no experience of this id.")
        if known.status == "pinned" and not by_person:
            return Reason("pinned", f"{known.id} is pinned by a person.")
        if operation.op != "modify":
            return None
    content = operation.content or ""
    if known is not None and (known.content, known.category) == (content, operation.category or known.category):
        return Reason("unchanged", f"{known.id} says this already.")
    if reason := check_text(content, problem, leaks_answer):
        return reason
    if by_person:
        return None
    if content.casefold().strip(" .\"'<>[]") in _PLACEHOLDERS:
        return Reason("placeholder", "This is the placeholder of the prompt, not an experience.")
    if twin := _DUPLICATES.apply(state.retired, lambda index: index.find(content)):
        return Reason("did_not_help", f"{twin.id} said nearly the same; it was measured and did not help.")
    if twin := _DUPLICATES.apply(state.forbidden, lambda index: index.find(content)):
        return Reason("forbidden", f"A person forbade {twin.id}, which says nearly the same.")
    if twin := _DUPLICATES.apply(state.texts, lambda index: index.find(content, besides=operation.id or "")):
        return Reason("duplicate", f"{twin.id} says nearly the same: modify that one instead.")
    if known is None and len(state.texts) >= capacity:
        return Reason("library_full", f"The library holds {capacity} experiences; delete one first.")
    return None


def _family_objection(state: LibraryState, operation: Operation, problem: Problem | None) -> Reason | None:
    """Whether there are enough experiences of a category that come from problems like this one."""
    found = families(state, problem)[operation.category] if problem else 0
    if found < MAX_PER_FAMILY:
        return None
    return Reason("family_full", f"{found} experiences of this category, from problems like this one, are on trial.")


def families(state: LibraryState, problem: Problem) -> Counter[str]:
    """The number of experiences that come from problems like this one, by category."""
    return Counter(one.category for one in _MATCHER.of(state.texts).family(problem))


def refused_record(proposal: Operation) -> Operation:
    """A proposal as its refusal records it, shortened for display."""
    return proposal.model_copy(
        update={
            "op": proposal.op[:32],
            "id": proposal.id and proposal.id[:64],
            "content": proposal.content and proposal.content[:_SHOWN_CHARACTERS],
            "category": proposal.category[:64],
            "source_problem": "",
            "evidence": (),
        }
    )


def _refusal(proposal: Operation, reason: Reason) -> Refusal:
    """The record of a refusal."""
    return Refusal(operation=refused_record(proposal), reason=reason.code, message=reason.message)
