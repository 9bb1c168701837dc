"""The learning loop: which library state each step's prompt has, and what happens to a step that stays open."""

import asyncio
import dataclasses
import io
import random
from types import SimpleNamespace

import pytest

from engine.errors import IncompleteRunError
from engine.experience.log import StepResult
from engine.experience.state import EMPTY
from engine.records import Experience, Fault, Outcome, Problem
from engine.statistics.groups import group_stats
from grpo_training.agents.analyst import Proposal
from grpo_training.cli.progress import GroupLine, Progress
from grpo_training.learning.experience_choice import DrawnExperiences
from grpo_training.learning.loop import LearningLoop
from grpo_training.learning.run import loop_rows
from grpo_training.learning.scored_groups import ScoredGroup, Step

STEPS = [Step(number, Problem(id=f"p{number}", text="?", answer="1")) for number in range(12)]


class OneExperiencePerStep:
    """An extractor whose library gains the experience ``G1-<step>`` with each step."""

    library = SimpleNamespace(notices=[])
    learns = True

    def __init__(self):
        self.ids = []

    def begin(self):
        return EMPTY

    def why_not_asked(self, step, state):
        return ""

    def recorded(self, step):
        return None

    async def propose(self, step, group, state):
        return Proposal(outcome=Outcome.OK)

    def record(self, step, group, proposal):
        self.ids.append(f"G1-{step.number}")
        state = dataclasses.replace(EMPTY, texts=tuple(Experience(id=name, content="c") for name in self.ids))
        return StepResult(step.problem.id, step.epoch, state, (), ())


class SlowLearner:
    """Groups that arrive in random order; remembers the experiences of each prompt. ``fails``: steps that fail.

    It also takes the place of the store.
    """

    def __init__(self, seed, fails=()):
        self._rng, self._fails = random.Random(seed), fails
        self.shown, self.kept = {}, []
        self.draw = SimpleNamespace(draw=self.drawn)

    async def drawn(self, step, state):
        self.shown[step.number] = [experience.id for experience in state.experiences]
        return DrawnExperiences((), state.version)

    async def ask(self, step, drawn):
        await asyncio.sleep(self._rng.random() * 0.01)
        return Fault(kind="http_503") if step.number in self._fails else []

    def group(self, step, drawn, answers, scores):
        return group(step, 0.5)

    def append(self, record):
        self.kept.append(record)


LINE = GroupLine(mean=0.5, std=0.5, triggered=True, correct=2, size=4)
MADE = dataclasses.replace(LINE, correct=0, size=0)
"""Of groups that this start makes, so that only stored ones count."""


def group(step, *totals):
    stats = group_stats(totals, 0.05)
    return ScoredGroup([step.number], [], MADE, {"groups": 1}, {}, stats, [], is_kept=False)


def loop_of(learner, window):
    quiet = Progress("generator_1", len(STEPS), None, stream=io.StringIO())
    return LearningLoop(window, learner, learner, OneExperiencePerStep(), quiet)


@pytest.mark.parametrize("window", [1, 4, 20])
@pytest.mark.parametrize("seed", [1, 2])
async def test_a_prompt_has_exactly_the_experiences_of_the_steps_before_its_window(window, seed):
    learner = SlowLearner(seed)
    await loop_of(learner, window).run(STEPS)
    assert learner.shown == {k: [f"G1-{n}" for n in range(max(0, k - window + 1))] for k in range(len(STEPS))}
    assert sorted(learner.kept) == list(range(len(STEPS)))


async def test_an_open_step_ends_the_run_and_the_groups_in_work_are_stored():
    learner = SlowLearner(3, fails=(5,))
    loop = loop_of(learner, 4)
    with pytest.raises(IncompleteRunError, match="p5: http_503"):
        await loop.run(STEPS)
    assert sorted(learner.kept) == [0, 1, 2, 3, 4, *range(6, 9)]
    assert loop.analysis.ids == [f"G1-{number}" for number in range(5)]


async def test_a_slow_first_group_keeps_no_other_one_from_being_stored_and_counted():
    may_end = asyncio.Event()

    class FirstWaits(SlowLearner):
        async def ask(self, step, drawn):
            if step.number == 0:
                await may_end.wait()
            return await super().ask(step, drawn)

    learner = FirstWaits(1)
    loop = loop_of(learner, 8)
    run = asyncio.create_task(loop.run(STEPS))
    async with asyncio.timeout(10):
        while loop.progress.groups < 7:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)
    assert sorted(learner.kept) == list(range(1, 8))
    assert loop.analysis.ids == []
    may_end.set()
    await run
    assert loop.analysis.ids == [f"G1-{number}" for number in range(len(STEPS))]


async def test_stored_groups_are_counted_and_not_asked_for_again():
    """Also one after a group that has to be made."""
    learner = SlowLearner(1)
    loop = loop_of(learner, 4)
    are_stored = (0, 1, 2, 3, 4, 7)
    counts = {"groups": 1, "members": 4, "repaired": 1}
    stored = dataclasses.replace(group(STEPS[0], 0.5), new_records=(), is_kept=True, shown=LINE, counts=counts)
    await loop.run(dataclasses.replace(step, stored=stored) if step.number in are_stored else step for step in STEPS)
    asked = [step.number for step in STEPS if step.number not in are_stored]
    assert learner.shown == {k: [f"G1-{n}" for n in range(max(0, k - 3))] for k in asked}
    assert sorted(learner.kept) == asked
    assert (loop.totals["members"], loop.totals["repaired"]) == (6 * 4, 6)
    assert loop.progress.totals["correct"] == 6 * LINE.correct


async def test_why_the_analyst_is_not_asked_is_said_once_and_then_counted():
    class FullLibrary(OneExperiencePerStep):
        library = SimpleNamespace(notices=[], state=EMPTY)

        def why_not_asked(self, step, state):
            return "the library is full" if step.number > 1 else ""

        def record(self, step, group, proposal):
            return StepResult(step.problem.id, step.epoch, EMPTY, (), ())

    class Spread(SlowLearner):
        def group(self, step, drawn, answers, scores):
            return group(step, 0.0, 1.0)

    loop = loop_of(Spread(1), 4)
    loop.analysis = FullLibrary()
    told = []
    loop.progress.note = told.append
    loop.progress.ended = lambda *_, why_none="", **__: told.append(why_none)
    await loop.run(STEPS)
    assert [text for text in told if "full" in text] == ["the library is full"]
    assert [row.value for row in loop_rows(loop) if row.name == "analyst not asked"] == [
        f"for {len(STEPS) - 2} groups: the library is full"
    ]
