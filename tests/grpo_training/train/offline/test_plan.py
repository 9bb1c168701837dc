import pytest

from grpo_training.train.config import load_config
from grpo_training.train.offline.plan import learning_rate, plan_steps
from tests.conftest import ROOT
from tests.support.tiny_model import settings


def plan(sizes, **changes):
    return plan_steps(sizes, settings("m", **changes))


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


def test_groups_are_never_split_and_a_large_one_has_its_own_step():
    for step in plan([3, 20, 5, 2, 8, 1], num_train_epochs=2):
        rows = sum([3, 20, 5, 2, 8, 1][index] for index in step.groups)
        assert rows <= 8 or step.groups == (1,)


def test_more_processes_have_larger_steps():
    assert len(plan_steps([4] * 8, settings("m", num_train_epochs=1), processes=2)) == 2


def test_the_warm_up_the_early_and_the_late_epochs():
    steps = plan([4] * 4, rce_epochs=1, num_train_epochs=2, curriculum_epochs=1, early_top_k=2)
    assert [(step.stage, step.top_k) for step in steps] == [
        ("rce", None),
        ("rce", None),
        ("early", 2),
        ("late", None),
        ("late", None),
    ]
    assert [(step.number, step.phase_steps) for step in steps] == [(0, 2), (1, 2), (0, 3), (1, 3), (2, 3)]


def test_max_steps_cuts_the_plan_or_makes_it_longer():
    assert [step.stage for step in plan([4] * 4, rce_epochs=1, max_steps=3)] == ["rce", "rce", "late"]
    assert [step.phase_steps for step in plan([4] * 4, rce_epochs=1, max_steps=3)] == [2, 2, 1]
    assert len(plan([4] * 4, rce_epochs=1, max_steps=1)) == 1
    assert len(plan([4] * 4, num_train_epochs=1, max_steps=7)) == 7
    assert len(plan([4] * 4, rce_epochs=1, num_train_epochs=0, max_steps=50)) == 2  # only GRPO goes on
    assert plan([], max_steps=7) == []


def test_the_shipped_recipe_of_two_stages():
    """RCE at a tenth of the rate; then an epoch on the best 3 replies of a group, then on all, with adaptive KL."""
    recipe = load_config(ROOT / "grpo_training/configs/two_stages.yaml")
    steps = plan_steps([8] * 12, recipe)
    assert [(step.stage, step.top_k) for step in steps if step.ends_epoch] == [
        *[("rce", None)] * 2,
        ("early", 3),
        *[("late", None)] * 2,
    ]
    assert max(learning_rate(step, recipe) for step in steps if step.stage == "rce") <= recipe.learning_rate / 10
    assert recipe.adaptive_kl
