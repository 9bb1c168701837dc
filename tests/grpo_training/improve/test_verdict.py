"""The result of a run in one sentence."""

import pytest

from engine.experience.events import GateEvent
from engine.statistics.group_sequential import alpha_of_test
from grpo_training.improve.verdict import sentence

HARMS = GateEvent(
    at="t", version="v", verdict="rejected", mean=-0.2, low=-0.3, high=-0.1, problems=40, of=40, own=0, samples=4,
    alpha=0.03, looks=4, dataset="d", model="m", right_with=0.4, right_without=0.6,
)  # fmt: skip


def test_without_a_test_the_sentence_says_whether_something_was_learned():
    assert "nothing was learned" in sentence(None, 0, "")
    assert "3 experiences were learned, and none of them is in use" in sentence(None, 3, "")


def test_a_rejection_names_the_experiences_that_were_tested():
    assert sentence(HARMS, 5, "").startswith("The experiences harm and are not used: accuracy 60 % -> 40 % on 40 held")


@pytest.mark.parametrize(
    ("test", "generators", "level"),
    [(1, 1, "97 %"), (1, 2, "98.5 %"), (1, 3, "99 %"), (2, 1, "99.24 %"), (40, 3, "99.99937 %")],
)
def test_the_level_of_an_interval_is_never_rounded_to_all(test, generators, level):
    event = HARMS.model_copy(update={"alpha": alpha_of_test(test) / generators})
    assert f"(-20 points, {level} interval -30 to -10)" in sentence(event, 5, "")


@pytest.mark.parametrize(
    ("with_it", "without", "mean", "printed"),
    [
        (0.81, 0.64, 0.17, "64 % -> 81 % on 40 held-out problems (+17 points"),
        (0.7875, 0.4625, 0.325, "46.25 % -> 78.75 % on 40 held-out problems (+32.5 points"),
        (0.886, 0.264, 0.622, "26.4 % -> 88.6 % on 40 held-out problems (+62.2 points"),
        (0.5, 0.5, 0.0, "50 % -> 50 % on 40 held-out problems (+0 points"),
        (0.3334, 0.1666, 0.1667, "16.66 % -> 33.34 % on 40 held-out problems (+16.68 points"),
        (None, None, 0.62, "? -> ? on 40 held-out problems (+62 points"),
    ],
)
def test_the_printed_shares_have_the_printed_difference(with_it, without, mean, printed):
    update = {"verdict": "adopted", "mean": mean, "right_with": with_it, "right_without": without}
    text = sentence(HARMS.model_copy(update=update), 5, "")
    assert text.startswith(f"Accuracy {printed}, ")
    assert text.endswith(", with 5 experiences.")
