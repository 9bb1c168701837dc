import io
from contextlib import closing

import pytest

from grpo_training.rl_math.progress import TrainingProgress

FIGURES = {
    "loss": -0.01234,
    "reward": 0.5,
    "kl": 0.0321,
    "beta": 0.05,
    "clip_ratio/region_mean": 0.125,
    "tokens_per_s": 12345.6,
    "grad_norm": 1.0,
}


def test_plain_lines_where_there_is_no_terminal():
    stream, times = io.StringIO(), iter([0.0, 20.0])
    with closing(TrainingProgress(62, stream=stream, clock=lambda: next(times))) as progress:
        progress.note("going on \x1b[2J")
        progress.step_done(1, "late", FIGURES | {"scoring_time": 10.25})
    shown = stream.getvalue()
    assert "going on \\x1b[2J\n" in shown
    assert (
        "late 1/62  loss -0.0123  reward 0.500  kl 0.0321  beta 0.05  clipped 12.5%  "
        "tokens/s 12,346  scoring s 10.2  left 20:20\n" in shown
    )


@pytest.mark.parametrize(
    ("reward", "shown"),
    [
        (0.0432, "0.0432"),
        (-0.00123456, "-0.00123"),
        (0.03, "0.0300"),
        (0.1234, "0.123"),
        (12.3456, "12.346"),
        (0, "0.000"),
    ],
)
def test_small_rewards_are_shown_with_three_digits(reward, shown):
    stream = io.StringIO()
    with closing(TrainingProgress(3, stream=stream)) as progress:
        progress.step_done(1, "late", FIGURES | {"reward": reward})
    assert f"  reward {shown}  " in stream.getvalue()


def test_a_live_bar_on_a_terminal():
    stream = io.StringIO()
    stream.isatty = lambda: True
    with closing(TrainingProgress(3, done=1, stream=stream)) as progress:
        progress.step_done(2, "early", FIGURES | {"kl": float("nan")})
        progress.note("[/x] a note")
    shown = stream.getvalue()
    assert "[/x] a note" in shown
    assert "2/3" in shown
    assert "early" in shown
    assert "loss -0.0123  reward 0.500" in shown


def test_what_comes_before_the_steps_is_not_in_the_time_that_is_left():
    """A minute of scoring, then steps of ten seconds: 61 of them are left."""
    stream, times = io.StringIO(), iter([0.0, 60.0, 70.0])
    with closing(TrainingProgress(62, stream=stream, clock=lambda: next(times))) as progress:
        progress.steps_begin()
        progress.step_done(1, "late", FIGURES)
    assert "late 1/62" in stream.getvalue()
    assert stream.getvalue().rstrip().endswith("left 10:10")
