import json
from pathlib import Path

import pytest

from engine.records import Completion, Fusion, Outcome, Rewards
from grpo_training.view.data.record_index import NotFoundError, fusion_index
from grpo_training.view.pages.group import fusion_view
from tests.grpo_training.view.pages.test_group import MEAN
from tests.support.attributes import attributes
from tests.support.table import table


def fusion(**changes):
    scaffold = {"target_variable": "percent", "knowns": {"weak": 20, "strong": 60}, "causal_graph": MEAN}
    fields = {
        "problem_id": "p",
        "problem_text": "Mix.",
        "ground_truth": "44",
        "generator_id": "generator_1",
        "fused_scaffold": json.dumps(scaffold),
        "final_answer": "44",
        "is_correct": True,
        "rewards": Rewards(r_ans=1.0, r_logic=0.5, r_graph=1.0, r_fusion=0.6, r_total=0.775),
        "task": "math",
        "merged": "model",
        "completion": Completion(text="{}"),
        "reward_detail": {"graph": {"acyclic": 1.0}},
    }
    return Fusion(**fields | changes)


def page(fusion):
    return attributes(fusion_view(fusion, Path()))


def test_a_fusion_has_its_graph_and_rewards():
    result = page(fusion())
    assert (result.name, result.verdict) == ("fusion", "right")
    assert [component.name for component in result.components] == ["r_ans", "r_logic", "r_graph", "r_fusion"]
    assert {node["name"]: node["value"] for node in result.scaffold.graph["nodes"]}["percent"] == "40"


@table(
    "changes",
    [
        {"fused_scaffold": None, "final_answer": None, "rewards": Rewards(), "outcome": Outcome.INFRA_FAULT},
        {"fused_scaffold": "<script>", "completion": None},
        {"task": "task of somebody else"},
        {"rewards": Rewards(components={"other": 1.0})},
    ],
)
def test_odd_fusions_are_shown(changes):
    assert page(fusion(**changes)).name == "fusion"


def test_the_index_follows_the_file_and_later_fusions_replace_earlier_ones(tmp_path):
    path = tmp_path / "critic_results.jsonl"
    lost = fusion(outcome=Outcome.INFRA_FAULT, rewards=Rewards())
    path.write_text(lost.model_dump_json() + "\n{broken\n")
    index = fusion_index(path)
    index.update()
    assert [row.complete for row in index.current()] == [False]
    assert len(index.broken) == 1
    with path.open("a") as file:
        file.write(fusion().model_dump_json() + "\n" + fusion(problem_id="q").model_dump_json() + "\n")
    index.update()
    assert [(row.line, row.problem_id, row.complete) for row in index.current()] == [(3, "p", True), (4, "q", True)]
    assert index.current()[0].added == pytest.approx(0.1)
    assert index.record(index.current()[1]).problem_id == "q"
    assert index.progress() == 1.0
    path.write_text("")
    index.update()
    assert index.current() == []


def test_a_fusion_far_into_a_file_that_is_not_read_yet_is_found(tmp_path):
    path = tmp_path / "critic_results.jsonl"
    path.write_text("".join(fusion(problem_id=f"p{number}").model_dump_json() + "\n" for number in range(300)))
    index = fusion_index(path)
    index.update(0.0)
    assert index.progress() < 1
    summary, record = index.record_of_line("300")
    assert summary.problem_id == record.problem_id == "p299"
    with pytest.raises(NotFoundError):
        index.record_of_line("301")
    path.write_bytes(path.read_bytes() + b'{"problem_id": "incomp')
    with pytest.raises(NotFoundError):
        fusion_index(path).record_of_line("302")
