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
from engine.records import Experience, Fault, Problem
from engine.statistics.groups import group_stats
from grpo_training.cli.progress import Progress
from grpo_training.learning.extractor import ScoredFigures, ScoredGroup, Step
from grpo_training.learning.loop import LearningLoop

STEPS = [Step(number, Problem(id=f"p{number}", text="?", answer="1")) for number in range(12)]


class OneExperiencePerStep:
    """An extractor whose library gains the experience ``G1-<step>`` with each step."""

    library = SimpleNamespace(notices=[])
    learns = True

    def __init__(self):
        self.ids = []

    def begin(self):
        return EMPTY

    def why_not_asked(self, step, group, state):
        return ""

    def recorded(self, step):
        return None

    async def propose(self, step, group, state):
        return None

    def record(self, step, group, proposal):
        self.ids.append(f"G1-{step.number}")
        state = dataclasses.replace(EMPTY, texts=tuple(Experience(id=name, content="c") for name in self.ids))
        return StepResult(step.problem.id, step.epoch, state, (), ())


class SlowProducer:
    """Groups that arrive in random order; remembers the experiences of each prompt. ``fails``: steps that fail."""

    def __init__(self, seed, fails=()):
        self._rng, self._fails = random.Random(seed), fails
        self.shown, self.kept = {}, []

    def stored(self, step):
        return None

    async def produce(self, step, state):
        self.shown[step.number] = [one.id for one in state.experiences]
        await asyncio.sleep(self._rng.random() * 0.01)
        if step.number in self._fails:
            return Fault(kind="http_503")
        return ScoredGroup(step.number, [], MADE, group_stats([0.5], 0.05), [], is_kept=False)

    def keep(self, record):
        self.kept.append(record)


def loop_of(producer, window):
    quiet = Progress("generator_1", len(STEPS), None, stream=io.StringIO())
    return LearningLoop(window, OneExperiencePerStep(), producer, quiet)


@pytest.mark.parametrize("window", [1, 4, 20])
@pytest.mark.parametrize("seed", [1, 2])
async def test_a_prompt_has_exactly_the_experiences_of_the_steps_before_its_window(window, seed):
    producer = SlowProducer(seed)
    await loop_of(producer, window).run(STEPS)
    assert producer.shown == {k: [f"G1-{n}" for n in range(max(0, k - window + 1))] for k in range(len(STEPS))}
    assert sorted(producer.kept) == list(range(len(STEPS)))


async def test_an_open_step_ends_the_run_and_the_groups_in_work_are_stored():
    producer = SlowProducer(3, fails=(5,))
    loop = loop_of(producer, 4)
    with pytest.raises(IncompleteRunError, match="p5: http_503"):
        await loop.run(STEPS)
    assert sorted(producer.kept) == [0, 1, 2, 3, 4, *range(6, 9)]
    assert loop.extractor.ids == [f"G1-{number}" for number in range(5)]


async def test_a_slow_first_group_keeps_no_other_one_from_being_stored_and_counted():
    may_end = asyncio.Event()

    class FirstWaits(SlowProducer):
        async def produce(self, step, state):
            if step.number == 0:
                await may_end.wait()
            return await super().produce(step, state)

    producer = FirstWaits(1)
    loop = loop_of(producer, 8)
    run = asyncio.create_task(loop.run(STEPS))
    async with asyncio.timeout(10):
        while loop.progress.groups < 7:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)
    assert sorted(producer.kept) == list(range(1, 8))
    assert loop.extractor.ids == []
    may_end.set()
    await run
    assert loop.extractor.ids == [f"G1-{number}" for number in range(len(STEPS))]


async def test_steps_with_nothing_left_to_do_are_counted_without_reading_their_groups():
    """From the first step on; a stored group after one that has to be made takes part in the window."""

    class Stored(SlowProducer):
        def stored(self, step):
            return FIGURES

    producer = Stored(1)
    loop = loop_of(producer, 4)
    record = loop.extractor.record
    loop.extractor.recorded = lambda step: record(step, None, None) if step.number < 5 else None
    await loop.run(STEPS)
    assert producer.shown == {k: [f"G1-{n}" for n in range(max(0, k - 3))] for k in range(5, len(STEPS))}
    assert (loop.members, loop.repaired) == (5 * FIGURES.size, 5 * FIGURES.repaired)
    assert loop.progress.totals["correct"] == 5 * FIGURES.correct


FIGURES = ScoredFigures(
    mean=0.5,
    std=0.5,
    triggered=True,
    size=4,
    correct=2,
    rewards={"r_ans": [0.0, 1.0, 1.0, 1.0]},
    has_experiences=False,
    re_asked=0,
    repaired=1,
    with_logprobs=0,
    executed=[True, False],
)
MADE = dataclasses.replace(FIGURES, size=0, correct=0, rewards={}, repaired=0, executed=[])
"""Of groups that this start makes, so that only stored ones count."""


async def test_why_the_analyst_is_not_asked_is_said_once_and_then_counted():
    class FullLibrary(OneExperiencePerStep):
        library = SimpleNamespace(notices=[], state=EMPTY)

        def why_not_asked(self, step, group, state):
            return "the library is full" if step.number > 1 else ""

        def record(self, step, group, proposal):
            return StepResult(step.problem.id, step.epoch, EMPTY, (), ())

    class Spread(SlowProducer):
        async def produce(self, step, state):
            return ScoredGroup(step.number, [], MADE, group_stats([0.0, 1.0], 0.05), [], is_kept=False)

    loop = loop_of(Spread(1), 4)
    loop.extractor = FullLibrary()
    told = []
    loop.progress.note = told.append
    loop.progress.ended = lambda *_, why_none="", **__: told.append(why_none)
    await loop.run(STEPS)
    assert [text for text in told if "full" in text] == ["the library is full"]
    assert [row.value for row in loop.summary_rows() if row.name == "analyst not asked"] == [
        f"for {len(STEPS) - 2} groups: the library is full"
    ]
