"""The synthetic utility and the comparison of ways to choose."""

import json

import numpy as np
import pytest

pytest.importorskip("torch")

from grpo_training.selector.__main__ import main
from grpo_training.selector.demo.run import WAYS, compare
from grpo_training.selector.demo.synthetic import SyntheticUtility


def test_the_utility_of_a_pair_has_its_parts_and_its_order():
    world = SyntheticUtility.make(3, 10, shots=60, pool=12, dimensions=8)
    pairs, alone, rows = world.pairs(4), world.single(4), world.shots[world.pools[4]]
    one, other = 2, 7
    same, together = max(rows[one] @ rows[other], 0), rows[one] @ world.complement @ rows[other]
    together = (together + rows[other] @ world.complement @ rows[one]) / 2
    expected = 1.15 * alone[one] + 0.85 * alone[other] - 0.6 * same + 0.6 * together
    assert pairs[one, other] == pytest.approx(expected)
    assert pairs[one, other] - pairs[other, one] == pytest.approx(0.3 * (alone[one] - alone[other]))
    assert np.isneginf(pairs.diagonal()).all()
    nearest = set(np.argsort(-(world.shots @ world.queries[4]))[:6].tolist())
    assert nearest <= set(world.pools[4].tolist())
    assert len(set(world.pools[4].tolist())) == 12


def test_beams_without_noise_are_ranked_by_the_gain_of_their_last_shot():
    world = SyntheticUtility.make(3, 10, shots=60, pool=12, dimensions=8, noise=0.0)
    found = world.beams(1, np.random.default_rng(0), size=3)
    pairs, alone = world.pairs(1), world.single(1)
    assert [score for _, score in found] == pytest.approx([pairs[a, b] - alone[a] for (a, b), _ in found])
    assert found == sorted(found, key=lambda beam: -beam[1])
    assert {a for (a, _), _ in found} <= set(np.argsort(-alone)[:3].tolist())


def test_intervals_tell_a_difference_from_chance():
    rng = np.random.default_rng(0)
    base = [rng.normal(size=200) for _ in range(4)]
    results = [
        {way: values + (0.0 if way in ("random", "similarity") else 1.0) + 0.1 * rng.normal(size=200) for way in WAYS}
        for values in base
    ]
    found = {(one.better, one.worse): one for one in compare(results, seed=0)}
    clear, equal = found["sft", "similarity"], found["rce", "sft"]
    assert clear.low > 0.9
    assert clear.high < 1.1
    assert equal.low < 0 < equal.high


def test_the_demo_trains_and_compares(tmp_path, capsys):
    words = ["--queries", "60", "--pool", "8", "--seeds", "1", "--sft-epochs", "12", "--output", str(tmp_path)]
    assert main(["demo", *words]) == 0
    record = json.loads((tmp_path / "demo.json").read_text())
    utility = record["utility"]
    assert utility["oracle"] >= max(utility[way] for way in WAYS)
    assert utility["grpo"] > utility["random"]
    assert "paired differences" in capsys.readouterr().out
