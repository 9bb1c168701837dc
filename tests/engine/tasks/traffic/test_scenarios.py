"""Which own scenarios there are. No tool of SUMO runs."""

from collections import Counter, defaultdict

import pytest

from engine.tasks.traffic.scenarios import specs_of


@pytest.mark.parametrize("kind", ["grid2x2", "arterial1x4", "single"])
def test_no_network_and_no_demand_is_in_two_splits(kind):
    networks, demand = defaultdict(set), defaultdict(set)
    for spec in specs_of(kind, 200, 3407):
        networks[spec.split].add((spec.length_m, spec.lanes))  # a grid is regular: nothing else shapes it
        demand[spec.split].add(spec.seed)
    for first, second in (("train", "validation"), ("train", "test"), ("validation", "test")):
        assert not networks[first] & networks[second]
        assert not demand[first] & demand[second]


def test_of_each_eight_five_train_one_validates_and_two_test_with_all_profiles():
    specs = specs_of("grid2x2", 24, 1)
    assert Counter(spec.split for spec in specs) == {"train": 15, "validation": 3, "test": 6}
    assert {spec.profile for spec in specs if spec.split == "test"} == {"uniform", "peak", "tidal"}
    assert specs_of("grid2x2", 8, 1) == specs[:8]  # more scenarios leave the others as they are
