"""The review of what is proposed to be added to an experience library."""

from __future__ import annotations

from collections.abc import Sequence

from engine.experience.events import Refusal
from engine.experience.state import LibraryState, with_operations
from engine.experience.text_checks import LeakCheck, Reason, category_slug, check_text, near_duplicate
from engine.records import ExperienceKind, Operation, Problem

_SHOWN_CHARACTERS = 400
MAX_CASES = 400
"""Cases of a library."""
MAX_INSTRUCTIONS = 2
"""Instructions of a library. All of them stand in all prompts, so that each is measured by every problem."""


def review_proposals(
    state: LibraryState,
    proposals: Sequence[Operation],
    problem: Problem,
    leaks_answer: LeakCheck,
    *,
    prefix: str,
    capacity: int,
    on_trial: bool,
) -> tuple[list[Operation], list[Refusal]]:
    """Check additions in order, each against the state after the ones before it.

    Args:
        state: the newest state of the library.
        proposals: ``add`` (content, kind, category). Its id is always assigned here.
        problem: the group's problem, for the checks of the text.
        leaks_answer: whether a text gives away the answer of the problem.
        prefix: prefix of new ids: ``G1`` gives ``G1-001``.
        capacity: maximum number of lessons; there are at most ``MAX_CASES`` cases and ``MAX_INSTRUCTIONS``.
        on_trial: experiences are on trial: a full library retires its least promising experience for a new one.

    Returns:
        the operations to apply, with ids, and the refused ones; refusal codes are those of ``check_text`` and
        ``forbidden``, ``did_not_help``, ``duplicate``, ``library_full``.
    """
    most: dict[ExperienceKind, int] = {"lesson": capacity, "case": MAX_CASES, "instruction": MAX_INSTRUCTIONS}
    applied: list[Operation] = []
    refused: list[Refusal] = []
    for position, proposal in enumerate(proposals, 1):
        content, kind = (proposal.content or "").strip(), proposal.kind
        reason = check_text(content, problem, leaks_answer, kind=kind)
        if reason is None and kind != "case":  # a case is that of its problem, and there is one of each
            reason = _repeats(state, content)
        added = []
        if reason is None and len(state.of_kind(kind)) >= most[kind]:
            replaced = state.least_promising(kind) if on_trial else None
            if replaced is None:
                reason = Reason("library_full", f"The library holds {most[kind]} {kind}s, as many as it may.")
            else:
                added.append(Operation(op="retire", id=replaced))
        if reason is not None:
            shown = proposal.model_copy(update={"content": proposal.content and proposal.content[:_SHOWN_CHARACTERS]})
            refused.append(Refusal(operation=shown, reason=reason.code, message=reason.message))
            continue
        known = {"id": f"{prefix}-{state.next_number:03d}", "content": content}
        added.append(proposal.model_copy(update=known | {"category": category_slug(proposal.category)}))
        applied += added
        if position < len(proposals):  # the next one is compared with it
            state = with_operations(state, added, "", None)
    return applied, refused


def _repeats(state: LibraryState, content: str) -> Reason | None:
    """Why a text adds nothing to what the library holds or held.

    A lesson may repeat a case, as small models copy one from their prompt. It would give away the answer of that case's
    problem in the problem's own prompt.
    """
    if twin := near_duplicate(content, state.retired):
        return Reason("did_not_help", f"{twin.id} said nearly the same; it was measured and did not help.")
    if twin := near_duplicate(content, state.forbidden):
        return Reason("forbidden", f"A person forbade {twin.id}, which says nearly the same.")
    if twin := near_duplicate(content, state.live):
        return Reason("duplicate", f"{twin.id} says nearly the same.")
    return None
