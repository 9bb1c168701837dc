"""The analyst: reads the attempts at a problem and writes a lesson for other problems of its kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass
from itertools import islice

from engine.experience.events import Miss
from engine.experience.text_checks import MAX_WORDS, count_words
from engine.reading.json_reading import read_json_object
from engine.reading.model_text import as_one_line
from engine.records import ChatRequest, Experience, Fault, Outcome, Problem, Reply, Sampling
from engine.task import Task
from engine.tasks.registry import task_named
from grpo_training.agents.chat import ChatClient, ask
from grpo_training.agents.templates import check_prompts, role_template

ASKED_WORDS = 25
"""Words that a lesson is asked to have at most: models count badly, and the library takes 32."""
ASKED_INSTRUCTION_WORDS = 80
_FORM = 'one sentence that begins with "When"'
_WRONG_SHOWN = 2
_SHOWN_HEAD, _SHOWN_TAIL = 1200, 800
"""Characters of the beginning and of the end of an attempt that are shown."""

_MARKED = re.compile(r"^[\s>*_#`-]*(?:lesson|教训|经验)\b[\s*_`]*[:：][\s*_`]*(.*)$", re.IGNORECASE | re.MULTILINE)
_IN_JSON = re.compile(r'"content"\s*:\s*("(?:[^"\\]|\\.)*")')
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])|(?<=[。！？])")
_NONE = re.compile(r"\W*(?:none|no lesson|nothing|无|没有)\W*", re.IGNORECASE)
_BEGINNINGS = ("When", "If", "当", "如果")
_LIST_MARKS = " \t-*•>#`\"'"
_QUOTES = "\"'“”‘’`*_ "


@dataclass(frozen=True)
class Attempt:
    """A rollout or fusion as the analyst sees it."""

    text: str
    answer: str | None
    is_correct: bool
    r_total: float
    remarks: str = ""

    @property
    def shown(self) -> str:
        """The text, without the middle of a long one."""
        if len(self.text) <= _SHOWN_HEAD + _SHOWN_TAIL:
            return self.text
        return f"{self.text[:_SHOWN_HEAD]}\n[...]\n{self.text[-_SHOWN_TAIL:]}"


@dataclass(frozen=True)
class Proposal:
    """A lesson, None if the attempts teach nothing, or a fault.

    After an ``infra_fault`` the step is repeated, after others it ends without change.
    """

    lesson: str | None = None
    outcome: Outcome = Outcome.OK
    fault: Fault | None = None
    instruction: Instruction | None = None


@dataclass(frozen=True)
class Instruction:
    """An instruction for all problems, and the problems that it was learned from."""

    text: str
    misses: Sequence[Miss]


@dataclass(eq=False)
class ExperienceAnalyst:
    """Writes lessons for one learner.

    Args:
        client: draws the samples.
        role: the api role: ``analyst``, or the learner's own role if no analyst is configured.
        learner: ``generator`` or ``critic``.
        temperature: of the sampling.
        max_tokens: completion tokens of a reply.
        seed: seed of the sampling.
        style: prompt style.
        tasks: the tasks whose templates are checked here, before the first request; None: all.
    """

    client: ChatClient
    role: str
    learner: str
    _: KW_ONLY
    temperature: float = 0.0
    max_tokens: int | None = None
    seed: int | None = None
    style: str = "full"
    tasks: InitVar[Iterable[Task] | None] = None

    def __post_init__(self, tasks: Iterable[Task] | None) -> None:
        check_prompts(tasks, self.style)

    async def propose(
        self,
        problem: Problem,
        attempts: Sequence[Attempt],
        objection: Callable[[str], str | None] = lambda lesson: None,
        sample_index: int = 0,
        step: str | None = None,
    ) -> Proposal:
        """Ask for a lesson that follows from a group.

        Args:
            problem: the problem of the group.
            attempts: the members of the group. One of the best and up to two others are shown.
            objection: why a lesson cannot be used and would be better in other words; it is asked for once more then.
            sample_index: of the reply. A stored reply to an equal request is another sample only with another index.
            step: the prompt of a program that the lesson is for.
        """
        task, learner = task_named(problem.task), self.learner
        shown = shown_attempts(attempts)
        wrong = dict.fromkeys(attempt.answer for attempt in shown if attempt.answer and not attempt.is_correct)
        teaching = task.teaching(problem, list(wrong))
        request = ChatRequest(
            role=self.role,
            messages=role_template(f"{learner}_experience_extraction", task, self.style).render(
                learner="fusion" if learner == "critic" else "scaffold",
                max_words=ASKED_WORDS,
                asked_for=teaching.rule if step is None else teaching.steps[step],
                problem=problem.text,
                ground_truth=teaching.answer if teaching.is_choice and teaching.answer else task.truth(problem),
                attempts=shown,
            ),
            sampling=Sampling(temperature=self.temperature, max_tokens=self.max_tokens, seed=self.seed),
            purpose="analysis",
        )

        def read(reply: Reply) -> Proposal:
            if reply.completion is None:
                return Proposal(outcome=Outcome.MODEL_FAULT, fault=reply.fault)
            return lesson_in(reply.completion.text)

        def reason_to_ask_again(proposal: Proposal) -> str | None:
            if proposal.fault is not None:
                return proposal.fault.message
            return objection(proposal.lesson) if proposal.lesson else None

        [answer] = await ask(self.client, request, [sample_index], read, reason_to_ask_again, form=_FORM)
        return answer.read or Proposal(outcome=Outcome.INFRA_FAULT, fault=answer.reply.fault)

    async def propose_instruction(
        self, task: Task, misses: Sequence[Miss], present: Sequence[Experience]
    ) -> Instruction | Fault | None:
        """Ask for instructions that would have prevented wrong answers to several problems.

        Args:
            task: of the problems.
            misses: the problems, with their right and wrong answers.
            present: the instructions that the prompts have.

        Returns:
            the instructions; None if the reply holds none; the fault if the endpoint could not answer.
        """
        request = ChatRequest(
            role=self.role,
            messages=role_template("instruction", task, self.style).render(
                max_words=ASKED_INSTRUCTION_WORDS, misses=list(misses), instructions=list(present)
            ),
            sampling=Sampling(temperature=self.temperature, max_tokens=self.max_tokens, seed=self.seed),
            purpose="analysis",
        )
        [reply] = await self.client.sample(request, [0])
        if reply.outcome is Outcome.INFRA_FAULT:
            return reply.fault or Fault(kind="analyst_unreachable")
        text = "" if reply.completion is None else reply.completion.text.rpartition("</think>")[2]
        lines = (line.strip(_LIST_MARKS) for line in text.splitlines())
        joined = as_one_line(" ".join(line for line in lines if line)).strip(_QUOTES)
        return Instruction(joined, misses) if joined else None


def shown_attempts(attempts: Sequence[Attempt]) -> list[Attempt]:
    """One right attempt, or the best one, and up to two that are wrong, or worse, with different answers."""
    ranked = sorted(attempts, key=lambda attempt: (not attempt.is_correct, -attempt.r_total))
    best, *others = ranked
    differing = {attempt.answer: attempt for attempt in others if attempt.is_correct != best.is_correct}
    worse = [*differing.values()] or others[::-1]
    return [best, *islice(worse, _WRONG_SHOWN)]


def lesson_in(text: str) -> Proposal:
    """The lesson of a reply: after the last ``Lesson:``, the ``content`` of a JSON object, or the only line; of several
    lines the last one that begins as a lesson does.

    Of several sentences those are taken that have at most 32 words together.
    """
    text = text.rpartition("</think>")[2].strip()
    marked = [line for line in _MARKED.findall(text) if line.strip()]
    contents = _IN_JSON.findall(text)
    lines = [line.strip(_LIST_MARKS) for line in text.splitlines() if line.strip(_LIST_MARKS)]
    begun = [line for line in lines if line.startswith(_BEGINNINGS)]
    if marked:
        lesson = marked[-1]
    elif contents:
        reading = read_json_object(f'{{"content": {contents[0]}}}', required="content")
        lesson = "none" if isinstance(reading, Fault) else str(reading["content"])
    elif '"operations"' in text:  # a JSON list without any
        lesson = "none"
    elif lines and (len(lines) == 1 or begun):
        lesson = (begun or lines)[-1]
    else:
        return Proposal(outcome=Outcome.MODEL_FAULT, fault=Fault(kind="no_lesson", message=f"it is not {_FORM}"))
    lesson = as_one_line(lesson).strip(_QUOTES)
    if _NONE.fullmatch(lesson) or not lesson:
        return Proposal()
    return Proposal(_fitting(lesson))


def _fitting(lesson: str) -> str:
    """The first sentences that have at most ``MAX_WORDS`` words together; the whole lesson if the first has more."""
    fitting = ""
    for sentence in _SENTENCE_END.split(lesson):
        longer = f"{fitting} {sentence}".strip()
        if count_words(longer) > MAX_WORDS:
            break
        fitting = longer
    return fitting or lesson
