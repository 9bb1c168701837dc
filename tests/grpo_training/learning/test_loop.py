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
from engine.records import Experience, Fault, Outcome, Problem
from engine.statistics.groups import group_stats
from grpo_training.agents.analyst import Proposal
from grpo_training.cli.progress import GroupLine, Progress
from grpo_training.learning.experience_choice import DrawnExperiences
from grpo_training.learning.loop import LearningLoop
from grpo_training.learning.run import loop_rows
from grpo_training.learning.scored_groups import ScoredGroup, Step
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

    def why_not_asked(self, step, state):
        return ""

    def recorded(self, step):
        return None

    async def propose(self, step, group, state):
        return Proposal(outcome=Outcome.OK)

    def record(self, step, group, proposal):
        self.ids.append(f"G1-{step.number}")
        state = dataclasses.replace(EMPTY, live=tuple(Experience(id=name, content="c") for name in self.ids))
        return StepResult(step.problem.id, step.epoch, state, (), ())


class SlowLearner:
    """Groups that arrive in random order; remembers the experiences of each prompt. ``fails``: steps that fail.

    It also takes the place of the store.
    """

    may_end = False

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
    return ScoredGroup([step.number], [], MADE, {}, stats, [], is_kept=False)


def loop_of(learner, window, folder=Path("nowhere"), **options):
    quiet = Progress("generator_1", len(STEPS), None, stream=io.StringIO())
    path = folder / "run.json"
    manifest = load_manifest(path) or RunManifest(path=path, run="r", finished=False, configuration={})
    return LearningLoop(window, learner, learner, OneExperiencePerStep(), manifest, quiet, **options)


@pytest.mark.parametrize("window", [1, 4, 20])
@pytest.mark.parametrize("seed", [1, 2])
async def test_a_prompt_has_exactly_the_experiences_of_the_steps_before_its_window(window, seed):
    learner = SlowLearner(seed)
    await loop_of(learner, window).run(STEPS)
    assert learner.shown == {k: [f"G1-{n}" for n in range(max(0, k - window + 1))] for k in range(len(STEPS))}
    assert sorted(learner.kept) == list(range(len(STEPS)))


@pytest.mark.parametrize("window", [1, 4])
@pytest.mark.parametrize("seed", [1, 2])
async def test_learning_ends_at_the_first_step_whose_prompts_have_enough_whatever_arrives_first(window, seed, capsys):
    learner = SlowLearner(seed)
    learner.may_end = True
    loop = loop_of(learner, window)
    loop.analysis.has_learned_enough = lambda step, state: len(state.live) >= 5
    with loop.progress:
        await loop.run(STEPS)
    begun = 5 + window - 1  # the prompts of step k have the experiences of the steps up to k - window
    assert sorted(learner.kept) == list(range(begun))
    assert loop.analysis.ids == [f"G1-{number}" for number in range(begun)]  # those in flight are learned from too
    assert f"Learning ends after {begun} groups" in loop.progress._stream.getvalue()


async def test_a_step_that_was_asked_early_is_asked_again_by_a_resumed_run_although_enough_is_learned_by_now():
    learner = SlowLearner(1)
    learner.may_end = True
    loop = loop_of(learner, 4)
    loop.manifest.asked_early[8] = 3  # an earlier start has asked it with the library after three steps
    loop.analysis.has_learned_enough = lambda step, state: len(state.live) >= 5
    await loop.run(STEPS)
    assert sorted(learner.kept) == list(range(9))
    assert learner.shown[8] == ["G1-0", "G1-1", "G1-2"]


async def test_a_run_that_stops_for_a_fault_does_not_say_that_it_has_learned_enough():
    learner = SlowLearner(3, fails=(5,))
    learner.may_end = True
    loop = loop_of(learner, 4)
    loop.analysis.has_learned_enough = lambda step, state: loop._is_halted
    with loop.progress, pytest.raises(IncompleteRunError, match="p5: http_503"):
        await loop.run(STEPS)
    assert "Learning ends" not in loop.progress._stream.getvalue()


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
        while loop.progress.totals["groups"] < 7:  # noqa: ASYNC110 - nothing tells of it
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
    stored = dataclasses.replace(group(STEPS[0], 0.5), new_records=(), is_kept=True, shown=LINE)
    await loop.run(dataclasses.replace(step, stored=stored) if step.number in are_stored else step for step in STEPS)
    asked = [step.number for step in STEPS if step.number not in are_stored]
    assert learner.shown == {k: [f"G1-{n}" for n in range(max(0, k - 3))] for k in asked}
    assert sorted(learner.kept) == asked
    totals = loop.progress.totals
    assert (totals["groups"], totals["answers"], totals["correct"]) == (len(STEPS), 6 * 4, 6 * LINE.correct)


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
    notes = []
    loop.progress.note = notes.append
    loop.progress.ended = lambda *_, why_none="", **__: notes.append(why_none)
    await loop.run(STEPS)
    assert [text for text in notes if "full" in text] == ["the library is full"]
    assert [row.value for row in loop_rows(loop) if row.name == "analyst not asked"] == [
        f"for {len(STEPS) - 2} groups: the library is full"
    ]


class OneIsSlow(SlowLearner):
    """The group of one step is not answered before ``released``."""

    def __init__(self, slow):
        super().__init__(1)
        self.slow, self.released = slow, asyncio.Event()

    async def ask(self, step, drawn):
        if step.number == self.slow:
            await self.released.wait()
        return await super().ask(step, drawn)


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
    learner = OneIsSlow(slow)
    loop = loop_of(learner, 2, tmp_path, may_grow=True)
    run = asyncio.create_task(loop.run(TWENTY))
    await until(lambda: len(learner.kept) == 19)
    assert loop.analysis.ids == [f"G1-{number}" for number in range(slow)]
    early = load_manifest(tmp_path / "run.json")
    asked = {} if early is None else early.asked_early
    assert asked == dict.fromkeys(range(slow + 2, 20), slow)
    run.cancel()  # as after kill -9: the groups and the manifest are on disk, the slow step and later ones are open
    with pytest.raises(asyncio.CancelledError):
        await run

    resumed = OneIsSlow(slow)
    resumed.released.set()
    again = loop_of(resumed, 2, tmp_path, may_grow=True)
    states = []
    propose = again.analysis.propose

    async def watched(step, group, state):
        states.append((step.number, [experience.id for experience in state.experiences]))
        return await propose(step, group, state)

    again.analysis.propose = watched
    steps = []
    for step in TWENTY:
        stored = dataclasses.replace(group(step, 0.0, 1.0), new_records=(), is_kept=True)
        steps.append(dataclasses.replace(step, stored=stored) if step.number in learner.kept else step)
    await again.run(steps)
    assert resumed.shown == {slow: learner.shown[slow]}  # nothing else is asked again
    assert dict(states) == {number: learner.shown[number] for number in learner.kept}
    assert again.analysis.ids == [f"G1-{number}" for number in range(20)]


async def test_a_window_that_was_given_holds_however_late_its_first_step_is(tmp_path, monkeypatch):
    monkeypatch.setattr("grpo_training.learning.loop._EARLIEST_LATE_S", 0.0)
    learner = OneIsSlow(4)
    run = asyncio.create_task(loop_of(learner, 3, tmp_path).run(TWENTY))
    await until(lambda: len(learner.kept) == 6)
    await asyncio.sleep(0.2)
    assert sorted(learner.kept) == [0, 1, 2, 3, 5, 6]
    learner.released.set()
    await run
    assert learner.shown == {k: [f"G1-{n}" for n in range(max(0, k - 2))] for k in range(20)}
    assert not (tmp_path / "run.json").exists()


async def test_a_stored_group_is_read_whole_only_if_the_library_has_not_recorded_its_step():
    learner = SlowLearner(1)
    loop = loop_of(learner, 4)
    record, read = loop.analysis.record, []
    loop.analysis.recorded = lambda step: record(step, None, None) if step.number < 5 else None
    figures = dataclasses.replace(group(STEPS[0], 0.5), new_records=(), is_kept=True)

    def step_with_figures(step):
        read_group = lambda: read.append(step.number) or figures  # noqa: E731
        return dataclasses.replace(step, stored=figures, read=read_group)

    await loop.run(map(step_with_figures, STEPS))
    assert sorted(read) == list(range(5, len(STEPS)))
    assert learner.shown == {}
