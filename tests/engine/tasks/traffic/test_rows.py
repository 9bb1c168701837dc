import json
import subprocess
import sys

import pytest
from pydantic import ValidationError

from engine.errors import InputError
from engine.tasks.traffic.rows import TrafficRow, crossing_id, read_array
from tests.conftest import ROOT
from tests.engine.tasks.traffic.support import outcome, row


def test_the_prompt_shows_queues_elapsed_green_and_limits():
    state = json.loads(row().prompt)
    assert state["crossing_id"] == crossing_id("n7")
    assert state["as_of"] == "2025-01-01 00:10:42"
    assert state["phase_order"] == [0, 2, 4]
    assert state["state"] == {
        "current_phase_id": 0,
        "current_green_elapsed_s": 16,
        "min_green_s": 11,
        "max_green_s": 58,
        "extend_s": 5,
        "phase_metrics_by_id": {
            "0": {"avg_queue_veh": 3.5, "avg_moving_veh": 0.5},
            "2": {"avg_queue_veh": 1.0, "avg_moving_veh": 0.5},
            "4": {"avg_queue_veh": 0.0, "avg_moving_veh": 0.5},
        },
    }


def test_ids_are_the_same_in_every_process():
    code = "from engine.tasks.traffic.rows import crossing_id; print(crossing_id('n7'))"
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert printed == {f"{crossing_id('n7')}\n"}
    assert row().id == "grid2x2_n7_642_9"


@pytest.mark.parametrize(
    "change",
    [
        {"current_phase_id": 1},
        {"current_phase_order_idx": 1},
        {"current_phase_order_idx": 3},
        {"current_phase_order_idx": -3},
        {"phase_metrics": {"0": 1.0}},
        {"phase_order": [0]},
        {"horizon": 0},
        {"branches": None},
        {"branches": {"extend": outcome(1, queue_seconds=10**400), "switch": outcome(1)}},
    ],
)
def test_a_row_that_contradicts_itself_is_refused(change):
    values = row().model_dump(mode="json") | change
    with pytest.raises(ValidationError):
        TrafficRow.model_validate(values)


@pytest.mark.parametrize(
    ("content", "what"),
    [("[" * 100_000, "recursion"), ("{}", "expected a JSON array"), ("[NaN", "Expecting"), ("", "Expecting value")],
)
def test_a_file_that_is_no_array_is_one_error(tmp_path, content, what):
    path = tmp_path / "grpo_dataset.json"
    path.write_text(content)
    with pytest.raises(InputError, match=what):
        read_array(path)
    path.write_text("\ufeff[1]", encoding="utf-8")
    assert read_array(path) == [1]


@pytest.mark.parametrize("place", ["phase_metrics", "moving", "branches.extend.phase_queues"])
def test_phases_of_other_lights_that_a_table_adds_as_none_are_left_out(place):
    plain = row().model_dump(mode="json")
    merged = row().model_dump(mode="json")
    *outer, name = place.split(".")
    inner = merged
    for key in outer:
        inner = inner[key]
    inner[name] |= {"1": None, "7": None}
    assert TrafficRow.model_validate(merged) == TrafficRow.model_validate(plain)
    inner[name]["7"] = 0.5
    if not outer:
        with pytest.raises(ValidationError, match="phase_order"):
            TrafficRow.model_validate(merged)


def test_a_dataset_of_merged_scenarios_is_read_back(tmp_path):
    datasets = pytest.importorskip("datasets")
    first, second = row().model_dump(mode="json"), row().model_dump(mode="json")
    second["id"] += "b"
    second |= {"phase_order": [0, 2], "phase_metrics": {"0": 1.0, "2": 2.0}, "moving": {"0": 0.0, "2": 1.0}}
    read = list(datasets.Dataset.from_list([first, second]))
    assert read[1]["phase_metrics"]["4"] is None
    assert [TrafficRow.model_validate(entry).phase_order for entry in read] == [first["phase_order"], [0, 2]]
