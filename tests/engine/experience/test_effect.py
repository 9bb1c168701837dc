import pytest

from engine.experience.effect import Use, described, effect_of


def uses(**problems):
    """Problem -> (verdicts with the experience, verdicts without it), as 1 and 0."""
    return [
        Use(name, is_present, bool(verdict))
        for name, sides in problems.items()
        for is_present, side in zip((True, False), sides, strict=True)
        for verdict in side
    ]


def test_the_paired_difference_uses_only_problems_that_were_answered_in_both_ways():
    # a: 1.0 with, 0.5 without; b: 0.5 with, 0.0 without: +0.5 in both. c and d have one side only.
    effect = effect_of(uses(a=([1, 1], [1, 0]), b=([1, 0], [0, 0]), c=([1], []), d=([], [1])))
    assert effect.paired.value == pytest.approx(0.5)
    assert effect.paired.clusters == 2
    # With it: 2 + 1 + 1 right of 5.
    assert effect.when_present.value == pytest.approx(0.8)
    assert described(effect).startswith("right with it minus without it: +50 points (95 % interval +")
    assert described(effect).endswith("2 problems answered in both ways")


def test_without_two_such_problems_it_is_named_right_when_present():
    effect = effect_of(uses(a=([1, 0], [0]), b=([1], []), c=([0], [])))
    assert effect.paired is None
    text = described(effect)
    assert text.startswith("right when present: 50 % (95 % interval ")
    assert "of 4 rollouts" in text
    assert "help" not in text
    assert described(effect_of(uses(a=([], [1])))) == "right when present: no rollout yet"
