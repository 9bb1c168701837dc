from dataclasses import replace

import pytest

from engine.statistics.paired import clustered_mean
from grpo_training.view.data.record_index import rollout_index
from grpo_training.view.pages.overview import charts, figures
from tests.support.attributes import attributes
from tests.support.viewer_runs import group, write


@pytest.fixture
def groups(tmp_path):
    groups = [
        group("p1", [0.2, 0.8], at=0),
        group("p2", [0.9, 0.9], at=60),
        group("p2", [0.1, 0.9], at=120, epoch=1),
        group("p3", [0.4, None], at=600),
    ]
    index = rollout_index(write(tmp_path / "generator_1_rollouts.jsonl", groups))
    index.update()
    return index.current()


def test_the_figures_of_a_run(groups):
    view = attributes(figures(groups))
    assert (view.groups, view.problems, view.incomplete, view.rollouts) == (4, 3, 1, 8)
    assert view.accuracy.value == pytest.approx((0.5 + 1 + 0.5) / 3)  # of the complete groups
    assert view.accuracy.clusters == 2
    mean = clustered_mean({"p1": [0.5], "p2": [0.9, 0.5]})
    assert (mean.low < 0, mean.high > 1) == (True, True)
    assert view.reward == replace(mean, low=0.0, high=1.0)
    assert view.sigma == pytest.approx((0.3 + 0 + 0.4) / 3)
    assert view.triggered.value == pytest.approx(2 / 3)
    assert (view.prompt_tokens, view.completion_tokens) == (700, 140)
    assert view.cost_usd == pytest.approx(0.007)
    assert view.outcomes == {"ok": 7, "infra_fault": 1}
    assert view.faults == {"http_429": 1}
    assert view.duration_s == 600
    assert view.components["r_graph"].value == 0.5


def test_a_run_without_a_group_has_no_figures_and_no_charts():
    view = attributes(figures([]))
    assert (view.groups, view.accuracy, view.reward, view.cost_usd, view.duration_s) == (0, None, None, None, None)
    assert charts([]) == {}


def test_charts_have_one_value_per_group_and_no_curve_without_values(groups):
    by_name = charts(groups)
    assert by_name["accuracy"]["x"] == [1, 2, 3, 4]
    assert by_name["accuracy"]["series"][0]["values"][:2] == [0.5, 0.75]
    assert [curve["label"] for curve in by_name["components"]["series"]] == ["r_ans", "r_logic", "r_graph"]
    assert all(0 <= low <= high <= 1 for low, high in zip(*edges(by_name["accuracy"]), strict=True))
    assert "experiences" not in by_name


def edges(chart):
    [series] = chart["series"]
    return [[value for value in series[side] if value is not None] for side in ("low", "high")]
