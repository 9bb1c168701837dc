import math

import pytest
from grpo_training.finetune.offline.batches import (
    best_of,
    collate,
    cut,
    cut_groups,
    fingerprint,
    own_successes,
    plan_steps,
    teacher_rows,
    with_standard_rewards,
)

from tests.support.tiny_model import END, PAD, good_and_bad, sample, settings


def plan(sizes, **changes):
    return plan_steps(sizes, settings("m", **changes))


# ------------------------------------------------------------------ the plan


def test_an_epoch_takes_each_group_once_in_an_order_of_its_own():
    steps = plan([4] * 6, num_train_epochs=3)  # 8 rows a step: 2 groups
    assert len(steps) == 9
    epochs = [[index for step in steps[start : start + 3] for index in step.groups] for start in (0, 3, 6)]
    assert all(sorted(epoch) == list(range(6)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]
    assert [step.ends_epoch for step in steps] == [False, False, True] * 3
    assert [step.epoch for step in steps[:4]] == pytest.approx([1 / 3, 2 / 3, 1, 4 / 3], abs=1e-6)
    assert plan([4] * 6, num_train_epochs=3) == steps
    assert plan([4] * 6, num_train_epochs=3, seed=1) != steps


def test_groups_are_never_torn_and_a_large_one_stands_alone():
    for step in plan([3, 20, 5, 2, 8, 1], num_train_epochs=2):
        rows = sum([3, 20, 5, 2, 8, 1][index] for index in step.groups)
        assert rows <= 8 or step.groups == (1,)


def test_processes_share_a_larger_step():
    assert len(plan_steps([4] * 8, settings("m", num_train_epochs=1), processes=2)) == 2


def test_the_warm_up_the_early_and_the_late_epochs():
    steps = plan([4] * 4, rce_epochs=1, num_train_epochs=2, curriculum_epochs=1, early_top_k=2, late_top_k=3)
    assert [(step.stage, step.top_k) for step in steps] == [
        ("rce", None),
        ("rce", None),
        ("early", 2),
        ("late", 3),
        ("late", 3),
    ]
    assert [(step.number, step.phase_steps) for step in steps] == [(0, 2), (1, 2), (0, 3), (1, 3), (2, 3)]


def test_max_steps_cuts_the_plan_or_makes_it_longer():
    assert [step.stage for step in plan([4] * 4, rce_epochs=1, max_steps=3)] == ["rce", "rce", "late"]
    assert [step.phase_steps for step in plan([4] * 4, rce_epochs=1, max_steps=3)] == [2, 2, 1]
    assert len(plan([4] * 4, rce_epochs=1, max_steps=1)) == 1
    assert len(plan([4] * 4, num_train_epochs=1, max_steps=7)) == 7
    assert len(plan([4] * 4, rce_epochs=1, num_train_epochs=0, max_steps=50)) == 2  # only GRPO goes on
    assert plan([], max_steps=7) == []


# ------------------------------------------------------------------ rows


def test_the_best_are_those_of_the_highest_reward_the_first_of_equals():
    group = [sample((5 + place,), reward, 0.0) for place, reward in enumerate((0.2, 1.0, 0.5, 1.0))]
    assert best_of(group, 3) == [group[1], group[3], group[2]]
    assert best_of(group, None) == group
    assert best_of(group, 9) == [group[1], group[3], group[2], group[0]]


def test_own_successes_are_different_whole_and_of_groups_that_also_fail():
    config = settings("m", self_sft_top_k=2, self_sft_min_reward=0.8)
    failure = sample((9, END), 0.0, -1.0)
    best, again, cut_off, good, third = (
        sample((5, END), 1.0, 1.0),
        sample((5, END), 1.0, 1.0),
        sample((6,), 1.0, 1.0, truncated=True),
        sample((7, END), 0.8, 1.0),
        sample((8, END), 0.8, 1.0),
    )
    group = [failure, good, best, again, cut_off, third]
    assert own_successes(group, group, config) == [best, good]
    assert own_successes(group, [failure, third], config) == [third]  # only of what the step holds
    assert own_successes(group[1:], group[1:], config) == []  # it always succeeds
    assert own_successes([failure], [failure], config) == []


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
    rows = [sample((5,) * length, 0.0, 0.0) for length in (9, 1, 8, 2, 7)]
    assert [[len(row.completion_ids) for row in part] for part in cut(rows, 2)] == [[1, 2], [7, 8], [9]]
    groups = [rows[:2], rows[2:3], rows[3:]]
    parts = cut_groups(groups, 3)
    assert [sum(len(group) for group in part) for part in parts] == [3, 2]
    assert sorted(id(group) for part in parts for group in part) == sorted(map(id, groups))
    assert [len(part) for part in cut_groups(groups, 1)] == [1, 1, 1]  # a group is never torn


def test_a_fingerprint_tells_samples_apart():
    groups = good_and_bad(2)
    assert fingerprint(groups) == fingerprint(good_and_bad(2))
    assert fingerprint(groups) != fingerprint(groups[::-1])
    assert fingerprint([groups[0] + groups[1]]) != fingerprint(groups)


# ------------------------------------------------------------------ tensors


def test_rows_as_tensors():
    torch = pytest.importorskip("torch")
    nan = float("nan")
    rows = [
        sample((20, 21, END), 1.0, 7.0, group="a", prompt=(2, 3), old=(-0.5, nan, -0.25)),
        sample((22,), 0.0, -9.0, group="b", prompt=(2, 10, 3), truncated=True),
    ]
    batch = collate(rows, PAD, advantage_clip=5.0)
    assert batch.input_ids_BT.tolist() == [[2, 3, 20, 21, END], [2, 10, 3, 22, PAD]]
    assert batch.attention_mask_BT.tolist() == [[1] * 5, [1, 1, 1, 1, 0]]
    assert batch.completion_start_B.tolist() == [2, 3]
    assert batch.mask_BC.tolist() == [[True, True, True], [True, False, False]]
    assert torch.equal(batch.old_logps_BC.isnan(), torch.tensor([[False, True, False], [True, True, True]]))
    assert batch.old_logps_BC[0, 2] == -0.25
    assert batch.advantages_B.tolist() == [5.0, -5.0]
    assert batch.rewards_B.tolist() == [1.0, 0.0]
    assert batch.group_of_B.tolist() == [0, 1]
    assert collate(rows, PAD).advantages_B.tolist() == [7.0, -9.0]
    masked = collate(rows, PAD, mask_truncated=True)
    assert masked.mask_BC.tolist() == [[True, True, True], [False, False, False]]


def test_padding_is_told_by_length_even_where_its_id_is_the_end():
    pytest.importorskip("torch")
    batch = collate([sample((20, END), 1.0, 0.0), sample((20,), 1.0, 0.0)], END)
    assert batch.mask_BC.tolist() == [[True, True], [True, False]]
    assert batch.attention_mask_BT.sum().item() == 6 + 5
