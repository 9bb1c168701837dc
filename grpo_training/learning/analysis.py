"""Experience extraction: the analyst is asked about a scored group, and its valid proposals go into the library."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace

from engine.api_manager import ANALYST_ROLE, ApiManager
from engine.errors import InputError
from engine.experience.events import BeginEvent, GroupTrial, Miss, Refusal, StepEvent
from engine.experience.library import ExperienceLibrary
from engine.experience.log import StepResult
from engine.experience.proposals import MAX_CASES, MAX_INSTRUCTIONS
from engine.experience.similarity import ProblemKinds
from engine.experience.state import LibraryState
from engine.experience.text_checks import LeakCheck, check_text, holds_answer
from engine.experience.trial import MAX_UNMEASURED
from engine.llm.client import LLMClient
from engine.reading.model_text import as_one_line
from engine.records import ExperienceKind, Fault, Operation, Outcome, Problem
from engine.task import Task
from engine.tasks.registry import task_named
from grpo_training.agents.analyst import ExperienceAnalyst, Instruction, Proposal
from grpo_training.cli.terminal_text import counted
from grpo_training.learning.cases import case_of, category_of
from grpo_training.learning.scored_groups import ScoredGroup, Step
from grpo_training.learning.settings import ExtractionSettings

_INSTRUCTION_EVERY, _FEWEST_MISSES, _MOST_MISSES = 16, 4, 8
"""For every sixteenth problem the analyst is asked for an instruction too, with the last wrong answers."""
_MISS_CHARACTERS, _LONGEST_ANSWER = 300, 100
_SHOWN_CASE = 120
_PATIENCE, _ASKED_EVERY = 10, 4
"""After so many replies in a row without anything to use, the analyst is asked for every fourth problem only."""
_CASES_HELP = 0.95
"""The probability that cases help from which on learning may end; what they are worth, a test tells better."""


def make_analyst(
    settings: ExtractionSettings,
    manager: ApiManager,
    client: LLMClient,
    role: str,
    tasks: Sequence[Task] | None = None,
) -> ExperienceAnalyst:
    """The analyst of a learner; it asks through the role ``analyst`` if that is configured, else through ``role``."""
    return ExperienceAnalyst(
        client,
        manager.role_of(ANALYST_ROLE, role),
        "critic" if role == "critic" else "generator",
        temperature=settings.temperature,
        max_tokens=settings.max_tokens,
        seed=settings.seed,
        style=settings.prompts,
        tasks=tasks,
    )


@dataclass(eq=False)
class ExperienceExtractor:
    """Turns groups into experiences: the analyst proposes additions, the library applies the valid ones.

    Args:
        start: what the library's log says of the run.
        analyst: proposes additions.
        library: the learner's library.
        on_trial: whether experiences are on trial.
        kinds: of the problems of the run; None: an experience on trial is measured alike by all problems.
        asks: whether the analyst is asked.
        makes_cases: whether problems with wrong answers become cases.
        makes_instructions: whether the analyst is asked for instructions too.
        learns: whether anything is extracted; else the library is used as it is, and is not written.
    """

    start: BeginEvent
    analyst: ExperienceAnalyst
    library: ExperienceLibrary
    _: KW_ONLY
    on_trial: bool = False
    kinds: ProblemKinds | None = None
    asks: bool = True
    makes_cases: bool = False
    makes_instructions: bool = False
    learns: bool = True

    def begin(self) -> LibraryState:
        """The library state of the run's first prompts; the same after a restart."""
        return self.library.begin_run(self.start) if self.learns else self.library.state

    def notes(self) -> list[str]:
        """What is to be known about experiences that were there before the run; to be read before :meth:`begin`."""
        if not self.learns:
            count = len(self.library.state.live)
            unchanged = "is used as it is" if count == 1 else "are used as they are"
            used = f"the {counted(count, 'experience')} of the library {unchanged}" if count else "the library is empty"
            return [f"Only rollouts are collected, and {used} (--learn none)"]
        earlier = [entry.event for entry in self.library.history() if isinstance(entry.event, BeginEvent)]
        start, trials = self.start, self.library.state.trials
        if not self.on_trial or not self.library.state.live or any(event.run == start.run for event in earlier):
            return []
        notes = []
        if trials.model not in ("", start.model):
            notes.append(
                f"The experiences were measured with {trials.model}. With {start.model} the measurement begins again, "
                "from what was known."
            )
        if trials.task_file and start.task_file and trials.task_file != start.task_file:
            notes.append(
                "The task file has changed: the measurement of the experiences begins again, from what was known."
            )
        tasks = set().union(*(event.tasks for event in earlier))
        if tasks and start.tasks and tasks.isdisjoint(start.tasks):
            notes.append(
                f"The experiences were learned on problems of {', '.join(sorted(tasks))}, and this run has "
                f"{', '.join(sorted(start.tasks))}. Pass another --experiences-dir to begin without them."
            )
        return notes

    def why_not_asked(self, step: Step, state: LibraryState) -> str:
        """Why the analyst is not asked about a group with sigma > tau; empty if it is."""
        if not self.asks:
            return "--k 0: the analyst is not asked"
        if len(state.of_kind("lesson")) >= self.library.capacity and not (self.on_trial and state.least_promising()):
            may_help = ", and each of its experiences may still help" if self.on_trial else ""
            return f"the library is full{may_help}: the analyst is not asked"
        if not self.on_trial:
            return ""
        if self._unmeasured_of_kind(step.problem, state) >= MAX_UNMEASURED:
            return (
                f"{MAX_UNMEASURED} experiences from problems like each other are hardly measured: the analyst is not "
                "asked about more of these problems until they are"
            )
        if state.unused_replies >= _PATIENCE and step.number % _ASKED_EVERY:
            return (
                f"{_PATIENCE} replies of the analyst in a row held nothing to use: it is asked for every "
                f"{_ASKED_EVERY}th problem only"
            )
        return ""

    def has_learned_enough(self, step: Step, state: LibraryState) -> bool:
        """Whether learning may end before a step: cases almost surely help, and one more lesson is not expected to.

        Where an answer alone makes a case, all problems become cases then; else each is asked once before.
        """
        is_case = step.epoch > 0 or task_named(step.problem.task).teaching(step.problem).is_choice
        needs_more = self.makes_instructions or (self.asks and state.trials.belief_in("lesson").helps)
        return is_case and not needs_more and state.trials.cases_help(_CASES_HELP)

    def _unmeasured_of_kind(self, problem: Problem, state: LibraryState) -> int:
        """The largest number of hardly measured lessons of one category that come from problems like this one.

        Pinned ones are in both prompts, and take no share of the differences.
        """
        kinds, is_measured = self.kinds, state.trials.is_measured
        lessons = (lesson for lesson in state.of_kind("lesson") if lesson.status != "pinned")
        unmeasured = (lesson for lesson in lessons if not is_measured(lesson.id))
        alike = (lesson for lesson in unmeasured if kinds is None or kinds.is_of_kind(problem, lesson))
        return max(Counter(lesson.category for lesson in alike).values(), default=0)

    def recorded(self, step: Step) -> StepResult | None:
        """What an earlier start has recorded of the step; None if nothing.

        Raises:
            InputError: another problem is recorded under the step's number.
        """
        if not self.learns:
            return self._unchanged(step)
        recorded = self.library.recorded(self.start.run, step.number)
        if recorded is not None and (recorded.problem_id, recorded.epoch) != (step.problem.id, step.epoch):
            raise InputError(
                f"Step {step.number} of this run was {recorded.problem_id}, and is {step.problem.id} now",
                why="The problems or rollouts that the run works on were replaced.",
                fix="Pass --fresh to set the results of this run aside.",
            )
        return recorded

    async def propose(self, step: Step, group: ScoredGroup, state: LibraryState) -> Proposal:
        """Ask the analyst about a group.

        A proposal with the outcome ``infra_fault`` means that the analyst was not reachable: the step stays open.
        """

        def objection(lesson: str) -> str | None:
            """Why the library would refuse the text of a lesson, which other words can mend."""
            reason = check_text(lesson, step.problem, _leak_check())
            return None if reason is None else reason.message

        # The same attempts may be made again in a later pass, and then teach something else.
        sample_index = step.epoch if self.analyst.temperature else 0
        proposal, instruction = await asyncio.gather(
            self.analyst.propose(step.problem, group.attempts, objection, sample_index, _step_in_turn(step)),
            self._instruction(step, state),
        )
        if isinstance(instruction, Fault):
            return Proposal(outcome=Outcome.INFRA_FAULT, fault=instruction)
        return replace(proposal, instruction=instruction)

    async def _instruction(self, step: Step, state: LibraryState) -> Instruction | Fault | None:
        """An instruction that the analyst proposes, for every sixteenth problem while there is place for one."""
        misses = [*{miss.problem_id: miss for miss in state.misses}.values()][-_MOST_MISSES:]
        is_due = self.makes_instructions and step.number % _INSTRUCTION_EVERY == 0 and len(misses) >= _FEWEST_MISSES
        present = state.of_kind("instruction")
        if not is_due or (len(present) >= MAX_INSTRUCTIONS and not state.least_promising("instruction")):
            return None
        return await self.analyst.propose_instruction(task_named(step.problem.task), misses, present)

    def record(self, step: Step, group: ScoredGroup, proposal: Proposal | None) -> StepResult:
        """Record the step and add the valid experiences of its proposal to the library."""
        if not self.learns:
            return self._unchanged(step)
        event = StepEvent(
            at="",
            run=self.start.run,
            step=step.number,
            problem_id=step.problem.id,
            epoch=step.epoch,
            used=group.experience_ids,
            rollouts=group.shown.size,
            correct=group.shown.correct,
            mean=group.stats.mean,
            std=group.stats.std,
            trial=self._trial(step, group) if self.on_trial else None,
            asked=self.on_trial and proposal is not None,
            miss=_miss(step, group) if self.makes_instructions and group.stats.triggered else None,
        )
        additions = []
        if proposal is not None and proposal.lesson is not None:
            additions.append(_addition(proposal.lesson, step))
        if self.makes_cases and self.library.state.trials.cases_may_help() and group.shown.correct < group.shown.size:
            additions += self._case(step, group)
        misses: Sequence[Miss] = ()
        if proposal is not None and proposal.instruction is not None:
            misses = proposal.instruction.misses
            sources = {"sources": [miss.problem_id for miss in misses]}
            additions.append(_addition(proposal.instruction.text, step, "instruction").model_copy(update=sources))
        return self.library.commit_step(
            event,
            additions,
            step.problem,
            _leak_check(misses),
            on_trial=self.on_trial,
            keeps_problem=self.start.choice is not None,
        )

    def _case(self, step: Step, group: ScoredGroup) -> list[Operation]:
        """The addition of a problem with a wrong answer as a case.

        None is added if there is or was one, if it shows nothing, or if there is no place.

        The state is that of the library before this step, as steps are recorded in order.
        """
        state = self.library.state
        if len(state.of_kind("case")) >= MAX_CASES or state.has_case_of(step.problem):
            return []
        added = case_of(step.problem, group.attempts)
        return [] if added is None else [added]

    def _trial(self, step: Step, group: ScoredGroup) -> GroupTrial | None:
        """What a group measures, with how much its problem is of the kind of each experience."""
        trial, kinds = group.trial, self.kinds
        if trial is None or trial.difference is None or kinds is None:
            return trial
        likeness = {
            experience.id: round(kinds.likeness_of(step.problem.text, experience), 3)
            for experience in self.library.state.live
            if experience.id in trial.halves and experience.kind != "instruction"
        }
        return trial.model_copy(update={"likeness": {name: share for name, share in likeness.items() if share < 1}})

    def _unchanged(self, step: Step) -> StepResult:
        """The result of a step where nothing is learned: the same library."""
        return StepResult(step.problem.id, step.epoch, self.library.state, (), ())


def _addition(content: str, step: Step, kind: ExperienceKind = "lesson") -> Operation:
    category = _step_in_turn(step) or category_of(step.problem)
    return Operation(op="add", content=content, kind=kind, category=category)


def _step_in_turn(step: Step) -> str | None:
    """The prompt of a program for which a lesson is asked; None for other tasks, and programs without prompts."""
    names = [*task_named(step.problem.task).teaching(step.problem).steps]
    return names[(step.number + step.epoch) % len(names)] if names else None


def _leak_check(misses: Sequence[Miss] = ()) -> LeakCheck:
    """Whether a text gives away the answer of its problem, or of one of those that an instruction was learned from."""

    def leaks(content: str, problem: Problem) -> bool:
        task = task_named(problem.task)
        if task.leaks_answer(content, problem):
            return True
        truth = task.teaching(problem).answer  # a label may be named: it is no answer of one problem alone
        is_secret = truth is not None and task.leaks_answer(f"The answer is {truth}.", problem)
        return is_secret and any(holds_answer(content, miss.truth) for miss in misses)

    return leaks


def _miss(step: Step, group: ScoredGroup) -> Miss | None:
    """The problem with its most frequent wrong answer; None if there is none, or if an answer is long."""
    wrong = Counter(attempt.answer for attempt in group.attempts if attempt.answer and not attempt.is_correct)
    truth = task_named(step.problem.task).teaching(step.problem).answer
    if not wrong or truth is None or max(len(truth), len(answer := wrong.most_common(1)[0][0])) > _LONGEST_ANSWER:
        return None
    return Miss(problem_id=step.problem.id, text=step.problem.text[:_MISS_CHARACTERS], truth=truth, wrong=answer)


def saved_text(operation: Operation) -> str:
    """An operation that the library has applied, with the id of its experience; a case is cut."""
    if not operation.content:
        return f"{operation.op} {operation.id}"
    content = as_one_line(operation.content)
    return f"{operation.id} {content[:_SHOWN_CASE] if operation.kind == 'case' else content}"


def refusal_text(refusal: Refusal) -> str:
    """A refusal as a sentence, with what it is about."""
    about = f'"{refusal.operation.content}"' if refusal.operation.content else refusal.operation.id or "an operation"
    return f"{about}: {refusal.message or refusal.reason.replace('_', ' ')}"
