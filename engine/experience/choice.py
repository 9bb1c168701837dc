"""Which experiences of a library go into the prompt of a problem."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.experience.events import PROMPT_BUDGET, ChoiceRecord
from engine.experience.similarity import LIKE_IT, ExperienceMatcher, ProblemKinds, SimilarCases
from engine.experience.state import LibraryState, comes_from
from engine.records import Experience, Problem


@dataclass
class BySimilarity:
    """Chooses the lessons that are the most similar to a problem; they stand in the order of the library.

    So prompts with the same lessons are equal. The same problem and library give the same choice, so that a run can be
    resumed. Lessons that come from problems of another kind are left out (see :meth:`ExperienceMatcher.most_similar`).

    Args:
        count: the largest number.
        share: how similar the problem of a lesson has to be, as a share of the most similar one; 0: no lesson is left
            out for its kind, so that a library of at most ``count`` lessons is chosen whole.
        on_trial: choose what the problem can measure: leave out those that were learned from the problem itself,
            except pinned ones. They are the most similar, and the problem does not measure them (see
            :mod:`engine.experience.trial`).
        kinds: the problems of the run, on trial: leave out those that come from problems of another kind too.
    """

    count: int = PROMPT_BUDGET
    share: float = LIKE_IT
    on_trial: bool = False
    kinds: ProblemKinds | None = None
    _matcher: ExperienceMatcher | None = None
    """Of the lessons at the last choice; they are seldom others at the next one."""

    def choose(self, problem: Problem, experiences: Sequence[Experience]) -> list[Experience]:
        """The lessons of a prompt, among the experiences of a library."""
        lessons = lessons_of(experiences)
        if not self.share and len(lessons) <= self.count:
            return lessons
        matcher = self._matcher
        if matcher is None or matcher.experiences != lessons:
            self._matcher = matcher = ExperienceMatcher(lessons)
        without = {lesson.id for lesson in lessons if self.on_trial and not self._can_measure(problem, lesson)}
        similar = matcher.most_similar(problem.text, self.count, without=without, share=self.share)
        chosen = {lesson.id for lesson in similar}
        return [lesson for lesson in lessons if lesson.id in chosen]

    def _can_measure(self, problem: Problem, experience: Experience) -> bool:
        """Whether an answer to a problem says something about an experience."""
        if experience.status == "pinned":
            return True
        if comes_from(experience, problem):
            return False
        return self.kinds is None or self.kinds.likeness_of(problem.text, experience) > 0


def instructions_for(problem: Problem, experiences: Sequence[Experience]) -> list[Experience]:
    """The instructions among experiences. They hold for all problems, and are not measured by those they come from."""
    return [entry for entry in experiences if entry.kind == "instruction" and not comes_from(entry, problem)]


def lessons_of(experiences: Sequence[Experience]) -> list[Experience]:
    """The lessons among experiences."""
    return [experience for experience in experiences if experience.kind == "lesson"]


class LearnedExperiences:
    """The experiences of a library as they are used after learning, in one prompt.

    They are chosen as in the run that learned them, among those that are not known to be useless. If the lessons fit
    into a prompt, all of them are used, so that without cases the prompt is the same for all problems.

    Args:
        state: the library.
        without_own: leave the experiences that were learned from a problem out of its prompt.
    """

    def __init__(self, state: LibraryState, *, without_own: bool = False) -> None:
        record, self._experiences, self._without_own = state.choice or ChoiceRecord(), state.helpful, without_own
        chooses_all = record.select == "all" or len(lessons_of(self._experiences)) <= record.k
        self._lessons = BySimilarity(record.k, share=0 if chooses_all else LIKE_IT)
        self._cases = SimilarCases(record.cases)
        how = [] if chooses_all else [f"at most {record.k} by text"]
        how += [f"at most {record.cases} cases"] if record.cases else []
        self.contents = [experience.content for experience in self._experiences] + how
        """What determines the prompts: the texts, and how they are chosen."""

    def sources_among(self, problems: Sequence[Problem]) -> int:
        """The number of problems from which one of the experiences was learned."""
        return sum(any(comes_from(experience, problem) for experience in self._experiences) for problem in problems)

    def of(self, problem: Problem) -> Sequence[Experience]:
        """The experiences in the prompt of a problem."""
        used = [entry for entry in self._experiences if not (self._without_own and comes_from(entry, problem))]
        instructions = [experience for experience in used if experience.kind == "instruction"]
        return [*instructions, *self._lessons.choose(problem, used), *self._cases.choose(problem, used)]


PromptExperiences = Sequence[Experience] | LearnedExperiences
"""The experiences in prompts: the same for all problems, or those that a library chooses."""


def experiences_for(problem: Problem, experiences: PromptExperiences) -> Sequence[Experience]:
    """The experiences in the prompt of a problem: all that are given, or those that a library chooses."""
    return experiences.of(problem) if isinstance(experiences, LearnedExperiences) else experiences
