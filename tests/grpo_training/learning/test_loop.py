"""The learning loop: which library state each step's prompt has, and what happens to a step that stays open."""

import asyncio
import dataclasses
import io
import random
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.errors import IncompleteRunError
from engine.experience.log import StepResult
from engine.experience.state import EMPTY
from engine.records import Experience, Fault, Problem
from engine.statistics.groups import group_stats
from grpo_training.cli.progress import Progress
from grpo_training.learning.experience_choice import DrawnExperiences
from grpo_training.learning.loop import LearningLoop
from grpo_training.learning.run import loop_rows
from grpo_training.learning.scored_groups import ScoredFigures, ScoredGroup, Step
from grpo_training.runs.run import RunManifest, load_manifest

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


class SlowMaker:
    """Groups that arrive in random order; remembers the experiences of each prompt. ``fails``: steps that fail.

    It also takes the place of the draw and of the store.
    """

    def __init__(self, seed, fails=()):
        self._rng, self._fails = random.Random(seed), fails
        self.shown, self.kept = {}, []

    async def draw(self, step, state):
        self.shown[step.number] = [experience.id for experience in state.experiences]
        return DrawnExperiences((), state.version)

    def stored_figures(self, step):
        return None

    def stored(self, step):
        return None

    async def make(self, step, drawn):
        await asyncio.sleep(self._rng.random() * 0.01)
        if step.number in self._fails:
            return Fault(kind="http_503")
        return group(step, 0.5)

    def append(self, record):
        self.kept.append(record)


def group(step, *totals):
    return ScoredGroup([step.number], [], MADE, group_stats(totals, 0.05), [], is_kept=False)


def loop_of(maker, window, folder=Path("nowhere"), **options):
    quiet = Progress("generator_1", len(STEPS), None, stream=io.StringIO())
    path = folder / "run.json"
    manifest = load_manifest(path) or RunManifest(path=path, run="r", finished=False, configuration={})
    return LearningLoop(window, maker, maker, maker, OneExperiencePerStep(), manifest, quiet, **options)


@pytest.mark.parametrize("window", [1, 4, 20])
@pytest.mark.parametrize("seed", [1, 2])
async def test_a_prompt_has_exactly_the_experiences_of_the_steps_before_its_window(window, seed):
    maker = SlowMaker(seed)
    await loop_of(maker, window).run(STEPS)
    assert maker.shown == {k: [f"G1-{n}" for n in range(max(0, k - window + 1))] for k in range(len(STEPS))}
    assert sorted(maker.kept) == list(range(len(STEPS)))


async def test_an_open_step_ends_the_run_and_the_groups_in_work_are_stored():
    maker = SlowMaker(3, fails=(5,))
    loop = loop_of(maker, 4)
    with pytest.raises(IncompleteRunError, match="p5: http_503"):
        await loop.run(STEPS)
    assert sorted(maker.kept) == [0, 1, 2, 3, 4, *range(6, 9)]
    assert loop.analysis.ids == [f"G1-{number}" for number in range(5)]


async def test_a_slow_first_group_keeps_no_other_one_from_being_stored_and_counted():
    may_end = asyncio.Event()

    class FirstWaits(SlowMaker):
        async def make(self, step, drawn):
            if step.number == 0:
                await may_end.wait()
            return await super().make(step, drawn)

    maker = FirstWaits(1)
    loop = loop_of(maker, 8)
    run = asyncio.create_task(loop.run(STEPS))
    async with asyncio.timeout(10):
        while loop.progress.groups < 7:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)
    assert sorted(maker.kept) == list(range(1, 8))
    assert loop.analysis.ids == []
    may_end.set()
    await run
    assert loop.analysis.ids == [f"G1-{number}" for number in range(len(STEPS))]


async def test_steps_with_nothing_left_to_do_are_counted_without_reading_their_groups():
    """From the first step on; a stored group after one that has to be made takes part in the window."""

    class Stored(SlowMaker):
        def stored_figures(self, step):
            return FIGURES

    maker = Stored(1)
    loop = loop_of(maker, 4)
    record = loop.analysis.record
    loop.analysis.recorded = lambda step: record(step, None, None) if step.number < 5 else None
    await loop.run(STEPS)
    assert maker.shown == {k: [f"G1-{n}" for n in range(max(0, k - 3))] for k in range(5, len(STEPS))}
    assert (loop.totals.members, loop.totals.repaired) == (5 * FIGURES.size, 5 * FIGURES.repaired)
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

    class Spread(SlowMaker):
        async def make(self, step, drawn):
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


class OneIsSlow(SlowMaker):
    """The group of one step is not scored before ``may_end``."""

    def __init__(self, slow, stored=()):
        super().__init__(1)
        self.slow, self.stored_steps, self.may_end = slow, set(stored), asyncio.Event()

    def stored(self, step):
        return (
            dataclasses.replace(group(step, 0.5), new_records=(), is_kept=True)
            if step.number in self.stored_steps
            else None
        )

    async def make(self, step, drawn):
        if step.number == self.slow:
            await self.may_end.wait()
        return await super().make(step, drawn)


TWENTY = [Step(number, Problem(id=f"p{number}", text="?", answer="1")) for number in range(20)]


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("slow", [0, 1, 7, 18])
async def test_all_other_groups_are_stored_while_one_is_late_and_a_resumed_run_asks_with_the_same_libraries(
    tmp_path, monkeypatch, slow
):
    monkeypatch.setattr("grpo_training.learning.loop._EARLIEST_LATE_S", 0.1)
    maker = OneIsSlow(slow)
    loop = loop_of(maker, 2, tmp_path, may_grow=True)
    run = asyncio.create_task(loop.run(TWENTY))
    await until(lambda: len(maker.kept) == 19)
    assert loop.analysis.ids == [f"G1-{number}" for number in range(slow)]
    early = load_manifest(tmp_path / "run.json")
    asked = {} if early is None else early.asked_early
    assert asked == dict.fromkeys(range(slow + 2, 20), slow)
    run.cancel()  # as after kill -9: the groups and the manifest are on disk, the slow step and later ones are open
    with pytest.raises(asyncio.CancelledError):
        await run

    resumed = OneIsSlow(slow, stored=maker.kept)
    resumed.may_end.set()
    again = loop_of(resumed, 2, tmp_path, may_grow=True)
    states = []
    propose = again.analysis.propose

    async def watched(step, group, state):
        states.append((step.number, [experience.id for experience in state.experiences]))
        return await propose(step, group, state)

    again.analysis.propose = watched
    await again.run(TWENTY)
    assert resumed.shown == {slow: maker.shown[slow]}  # nothing else is asked again
    assert dict(states) == maker.shown
    assert again.analysis.ids == [f"G1-{number}" for number in range(20)]


async def test_a_window_that_was_given_holds_however_late_its_first_step_is(tmp_path, monkeypatch):
    monkeypatch.setattr("grpo_training.learning.loop._EARLIEST_LATE_S", 0.0)
    maker = OneIsSlow(4)
    run = asyncio.create_task(loop_of(maker, 3, tmp_path).run(TWENTY))
    await until(lambda: len(maker.kept) == 6)
    await asyncio.sleep(0.2)
    assert sorted(maker.kept) == [0, 1, 2, 3, 5, 6]
    maker.may_end.set()
    await run
    assert maker.shown == {k: [f"G1-{n}" for n in range(max(0, k - 2))] for k in range(20)}
    assert not (tmp_path / "run.json").exists()
