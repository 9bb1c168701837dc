import json
import math
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")

from grpo_training.train.offline.checkpoints import Checkpoint, HeldOutFigures, State
from grpo_training.train.offline.selection import select

AT_START = HeldOutFigures((0.5, 0.5, 0.5, 0.5), 0.0, 4.0)


def found(*measured):
    """Checkpoints 1, 2 ... with the rewards of their held-out groups and their KL; None: not measured."""
    return [
        Checkpoint(
            Path(f"checkpoint-{step}"),
            State(
                step, "late", 1.0, 10, validation=None if one is None else HeldOutFigures(tuple(one[0]), one[1], 2.0)
            ),
        )
        for step, one in enumerate(measured, start=1)
    ]


def selected(*measured, start=AT_START, kl_limit=0.5):
    return select(found(*measured), start, kl_limit=kl_limit, measure="held-out reward")


def test_what_is_exported_is_compared_with_the_start():
    one = selected(([0.7, 0.8, 0.6, 0.7], 0.02))
    assert one.name == "checkpoint-1"
    assert one.why == "held-out reward 0.7, 0.5 at the start (+0.2 on 4 groups); KL to the start 0.02"
    assert [each["checkpoint"] for each in one.candidates] == ["start", "checkpoint-1"]
    assert [each["effective_samples"] for each in one.candidates] == [4.0, 2.0]


def test_an_estimate_that_rests_on_few_replies_says_so():
    wide = HeldOutFigures((0.5, 0.5), 0.0, 8.0)
    assert selected(([0.7, 0.8], 0.02), start=wide).why.endswith(
        "KL to the start 0.02; the estimate rests on 2.0 of 8 replies of a group, too few to tell checkpoints apart: "
        "compare them with evaluate"
    )


@pytest.mark.parametrize("worse", [(0.4, 0.4, 0.5, 0.4), (0.5, 0.5, 0.5, 0.5), (math.nan, 0.9, 0.9, 0.9)])
def test_the_start_is_exported_if_every_checkpoint_is_worse_or_the_same(worse):
    one = selected((worse, 0.01), (worse, 0.02))
    assert one.name == "start"
    assert one.why.startswith("held-out reward 0.5 at the start, ")
    json.dumps(one.candidates, allow_nan=False)


@pytest.mark.parametrize("kl", [0.51, 1e6, math.inf, math.nan])
def test_a_kl_above_the_limit_disqualifies(kl):
    high = [0.9, 0.9, 0.9, 0.9]
    assert selected(([0.6] * 4, 0.1), (high, kl)).name == "checkpoint-1"
    alone = selected((high, kl))
    assert alone.name == "start"
    assert "at most 0.5 is allowed" in alone.why
    json.dumps(alone.candidates, allow_nan=False)
    both = selected(([0.4] * 4, 0.1), (high, kl))
    assert both.name == "start"


def test_a_difference_within_chance_is_no_reason_to_export_the_start():
    """Gains of -0.4, 0.3, 0.1 and -0.1: mean -0.025, standard error 0.15. One group has no standard error."""
    one = selected(([0.1, 0.8, 0.6, 0.4], 0.01))
    assert one.name == "checkpoint-1"
    assert "(-0.025 on 4 groups, within chance)" in one.why
    alone = HeldOutFigures((0.5,), 0.0, 4.0)
    assert selected(([0.4996], 0.01), start=alone).name == "checkpoint-1"
    assert selected(([0.3], 0.01), start=alone).name == "start"


def test_without_held_out_groups_the_last_one_is_exported():
    one = select(found(None, None), None, kl_limit=0.5, measure="held-out reward")
    assert (one.name, one.candidates) == ("checkpoint-2", ())
    assert "nothing was measured" in one.why
