"""The figures of a stored group without reading it are those of the group."""

import pytest

from engine.records import Completion, Fault, Outcome
from engine.storage.stored_records import StoredGroups
from grpo_training.learning.scored_groups import scored_rollouts, stored_figures
from tests.support.viewer_runs import group, write

TAU = 0.1
SCORED = Completion(text="a", token_ids=[1, 2], logprobs=[-0.5, -0.1])
FIELDS = [
    {},
    {"repairs": ["re_asked", "trailing_comma"], "completion": SCORED, "experience_ids": ["G1-1"]},
    {"answer_source": "executed", "completion": SCORED.model_copy(update={"logprobs": []})},
    {"outcome": Outcome.MODEL_FAULT, "fault": Fault(kind="no_json"), "is_correct": None, "completion": None},
]


@pytest.mark.parametrize("fields", FIELDS)
@pytest.mark.parametrize("rewards", [[0.25, 1.0, 0.75], [0.5, 0.5, 0.5]])
@pytest.mark.parametrize("has_stats", [True, False])
def test_figures_without_reading_a_group_are_those_of_the_group(tmp_path, fields, rewards, has_stats):
    one = group("p1", rewards, fields=fields)
    if not has_stats:
        one = one.model_copy(update={"stats": None})
    groups = StoredGroups(write(tmp_path / "generator_1_rollouts.jsonl", [one]))
    read = scored_rollouts(groups["p1", 0], TAU, ()).figures
    found = stored_figures(groups.summary(("p1", 0)), TAU)
    assert (found.mean, found.std) == pytest.approx((read.mean, read.std))
    for name in ("size", "correct", "triggered", "has_experiences", "re_asked", "repaired", "with_logprobs"):
        assert getattr(found, name) == getattr(read, name), name
    assert sorted(found.executed) == sorted(read.executed)
    for name, values in found.rewards.items():
        members = read.rewards[name]
        assert (min(values), max(values), len(values)) == (min(members), max(members), len(members))
