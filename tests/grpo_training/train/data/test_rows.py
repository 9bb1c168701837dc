import math
from dataclasses import replace

import pytest

from grpo_training.train.data.rows import (
    best_of,
    cut,
    cut_groups,
    own_successes,
    pack,
    teacher_rows,
    with_standard_rewards,
)
from tests.support.tiny_model import END, sample, settings


def test_the_best_are_those_of_the_highest_reward_the_first_of_equals():
    group = [sample((5 + number,), reward, 0.0) for number, reward in enumerate((0.2, 1.0, 0.5, 1.0))]
    assert best_of(group, 3) == [group[1], group[3], group[2]]
    assert best_of(group, None) == group
    assert best_of(group, 9) == [group[1], group[3], group[2], group[0]]


def test_own_successes_are_distinct_complete_and_of_groups_with_failures():
    config = settings("m", self_sft_top_k=2)
    failure = sample((9, END), 0.0, -1.0)
    best, again, cut_off, good, third = (
        sample((5, END), 1.0, 1.0),
        sample((5, END), 1.0, 1.0),
        sample((6,), 1.0, 1.0, truncated=True),
        replace(sample((7, END), 0.8, 1.0), is_correct=None),
        replace(sample((8, END), 0.8, 1.0), is_correct=None),
    )
    group = [failure, good, best, again, cut_off, third]
    assert [group[index] for index in own_successes(group, group, config)] == [best, good]
    assert own_successes(group, [failure, third], config) == [1]  # only from the rows of the step
    assert own_successes(group[1:], group[1:], config) == []  # it always succeeds
    assert own_successes([failure], [failure], config) == []


def test_own_successes_are_the_correct_responses_whatever_they_earn():
    config = settings("m", self_sft_top_k=2)
    paid_for_its_form = replace(sample((5, END), 1.3, 1.0), is_correct=False)
    poor_but_right = replace(sample((6, END), 0.2, -1.0), is_correct=True)
    group = [paid_for_its_form, poor_but_right]
    assert [group[index] for index in own_successes(group, group, config)] == [poor_but_right]
    assert own_successes([poor_but_right], [poor_but_right], config) == []  # it always succeeds


def test_runs_hold_what_fits_and_a_large_item_is_alone():
    assert list(pack(range(9), [1] * 9, 8)) == [(0, 1, 2, 3, 4, 5, 6, 7), (8,)]
    assert list(pack([2, 0, 1], [3, 3, 20], 8)) == [(2,), (0, 1)]
    assert list(pack([], [], 8)) == []


def test_teacher_rows_come_in_turn():
    rows = [sample((5 + number,), 1.0, 0.0) for number in range(5)]
    taken = [row for step in range(5) for row in teacher_rows(rows, step, 3, seed=0)]
    assert len(taken) == 15
    for start in (0, 5, 10):
        assert {row.completion_ids for row in taken[start : start + 5]} == {row.completion_ids for row in rows}
    assert teacher_rows(rows, 3, 3, seed=0) == taken[9:12]  # a step needs no memory of those before
    assert len(teacher_rows(rows[:1], 2, 3, seed=0)) == 3
    assert teacher_rows([], 0, 3, seed=0) == []


def test_rewards_become_z_scores_within_the_group():
    group = [sample((5,), reward, 0.0) for reward in (1.0, 0.0, 0.0, 0.0)]
    assert [row.reward for row in with_standard_rewards(group)] == pytest.approx(
        [math.sqrt(3), -1 / math.sqrt(3), -1 / math.sqrt(3), -1 / math.sqrt(3)]
    )
    assert [row.reward for row in with_standard_rewards([sample((5,), 0.3, 0.0)] * 3)] == [0.0, 0.0, 0.0]


def test_micro_batches_hold_like_lengths_and_every_row_once():
    config = settings("m", per_device_train_batch_size=2)
    rows = [sample((5,) * length, 0.0, 0.0) for length in (9, 1, 8, 2, 7)]
    assert [[len(row.completion_ids) for row in batch] for batch in cut(rows, config)] == [[1, 2], [7, 8], [9]]
    groups = [rows[:2], rows[2:3], rows[3:]]
    batches = cut_groups(groups, 3)
    assert [sum(len(group) for group in batch) for batch in batches] == [3, 2]
    assert sorted(id(group) for batch in batches for group in batch) == sorted(map(id, groups))
    assert [len(batch) for batch in cut_groups(groups, 1)] == [1, 1, 1]  # a group is never torn
