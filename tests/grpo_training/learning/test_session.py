"""The window of a run that does not set it, and the threads in which candidates are checked."""

import asyncio
import contextlib
import threading
from types import SimpleNamespace

import pytest

from grpo_training.agents.judge import Judge
from grpo_training.learning.scoring import open_scorer
from grpo_training.learning.settings import GeneratorSettings
from grpo_training.runs.run import Run
from grpo_training.runs.window import default_window


@pytest.mark.parametrize(
    ("slots", "steps", "window"),
    [
        (None, 1, 2),
        (32, 10, 2),
        (32, 30, 4),
        (32, 64, 8),
        (32, 282, 35),
        (32, 4000, 128),
        (8, 1000, 32),
        (1, 1000, 4),
        (None, 1000, 8),
        (8, None, 8),
    ],
)
def test_most_groups_of_a_short_run_have_experiences_and_a_long_run_uses_the_endpoint(slots, steps, window):
    assert default_window(slots, steps) == window


def test_a_run_that_learns_nothing_is_limited_by_the_endpoint_only():
    assert [default_window(slots, 10, learns=False) for slots in (None, 8, 32)] == [64, 64, 128]


class Unlocked:
    hold = staticmethod(contextlib.nullcontext)


@pytest.fixture
def run(tmp_path):
    return Run(tmp_path / "generator_1_run.json", [tmp_path / "rollouts.jsonl"], lock=Unlocked())


def test_the_window_is_stored_and_kept_when_the_run_is_continued(run):
    assert run.stored(GeneratorSettings()) is None
    with run.open(GeneratorSettings(window=64), {}):
        run.results[0].write_text("{}\n")
    assert run.stored(GeneratorSettings()).window == 64


def test_fresh_results_have_a_window_of_their_own(run):
    with run.open(GeneratorSettings(window=5), {}):
        pass
    assert run.stored(GeneratorSettings(fresh=True)) is None


async def test_checks_that_take_long_do_not_delay_reading_and_asking():
    """More checks at once than any pool has threads; all end after something else ran in a thread."""
    may_end = threading.Event()

    def score(task, problem, candidate, *, opinion, baseline):
        assert may_end.wait(60)
        return SimpleNamespace(outcome="ok", number=candidate)

    with open_scorer(GeneratorSettings(), Judge(None)) as scorer:
        scorer.evaluator = SimpleNamespace(score=score)
        checks = [asyncio.create_task(scorer.score(None, None, number)) for number in range(64)]
        await asyncio.sleep(0)
        await asyncio.to_thread(may_end.set)
        assert [scored.number for scored in await asyncio.gather(*checks)] == list(range(64))
