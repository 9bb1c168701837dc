"""What rows are paid that have near copies in their group."""

import pytest

from grpo_training.score_rollouts.near_copies import Payment, payments


def test_copies_count_within_their_group_only_and_share_the_factor():
    paid = payments(
        totals=[1.0, 0.8, 1.0, None, 0.5, 0.4],
        hashes=["a", "a", "b", "a", "", "a"],
        group_of=[0, 0, 0, 0, 0, 1],
        factor=lambda copies: 1 / copies,
    )
    assert paid == [
        Payment(pytest.approx(1 / 3), 3),
        Payment(pytest.approx(0.8 / 3), 3),
        Payment(1.0, 1),
        Payment(None, 3),
        Payment(0.5, 1),
        Payment(0.4, 1),
    ]


def test_a_group_of_equal_replies_has_equal_payments():
    paid = payments([0.7] * 4, ["a"] * 4, [0] * 4, factor=lambda copies: 1 - 0.02 * (1 - 1 / copies))
    assert [each.total for each in paid] == [pytest.approx(0.6895)] * 4
