"""Beam files and reward files: ids and positions, pools, what is ignored and what is refused."""

import json

import pytest

pytest.importorskip("torch")

from engine.errors import InputError, MissingInputError
from grpo_training.selector.data.beam_file import (
    BeamDataset,
    groups_of_beams,
    groups_of_rewards,
    load_groups,
)
from tests.support.table import table

BEAMS = {
    "_meta": {"made": "today"},
    "512": {
        "id_list": [[88, 1403, 512], [7, 1403, 512], [88, 7, 512], [9, 88, 512], [7, 9, 512]],
        "score_list": [0.046, 0.045, 0.037, 0.035, 0.030],
        "shot_scores": "ignored",
    },
    "6": {"id_list": [[3, 4, 6]], "score_list": [-1e-7], "candidate_pool_ids": [9, 4, 3]},
}


def test_a_beam_file_gives_the_shots_without_the_query_and_positions_in_the_pool():
    first, second = groups_of_beams(BEAMS, "f")
    assert (first.query, first.pool, first.sequences[0].shots, first.sequences[0].reward) == (
        *(6, (9, 4, 3), (3, 4), -1e-7),
    )
    assert BeamDataset(BEAMS)[0]["beam_labels"][0] == [2, 1]  # positions, not ids modulo the size of the pool
    assert [sequence.shots for sequence in second.sequences] == [(88, 1403), (7, 1403), (88, 7), (9, 88), (7, 9)]
    assert set(second.pool) >= {7, 9, 88, 1403}
    assert 512 not in second.pool


def test_a_pool_that_is_not_named_is_filled_to_its_size_and_differs_between_queries():
    data = {str(1000 + q): {"id_list": [[q, q + 1, 1000 + q]], "score_list": [1.0]} for q in range(100)}
    groups = groups_of_beams(data, "f", pool_size=16)
    assert {len(group.pool) for group in groups} == {16}
    assert len({group.pool for group in groups}) == 100
    assert groups == groups_of_beams(data, "f", pool_size=16)


def test_the_dataset_has_labels_and_rewards_of_every_beam():
    dataset = BeamDataset(BEAMS, beam_size=2)
    sample = dataset[1]
    assert len(dataset) == 2
    assert sample["query_id"] == 512
    assert sample["beam_rewards"] == [0.046, 0.045]
    assert [[sample["pool"][label] for label in labels] for labels in sample["beam_labels"]] == [[88, 1403], [7, 1403]]


CANDIDATE = {"pointer": [2, 0], "pointer_global": [3, 9], "vqa_correct": 1, "vqa_acc_score": 0.6}
REWARDS = {"6": {"candidate_pool_ids": [9, 4, 3], "pointer_candidates": [CANDIDATE]}}


def rewards_with(**change):
    return {"6": {**REWARDS["6"], "pointer_candidates": [{**CANDIDATE, **change}]}}


def test_a_reward_file_gives_ids_from_either_form_and_the_reward():
    [group] = groups_of_rewards(REWARDS, "f")
    assert (group.sequences[0].shots, group.sequences[0].reward) == ((3, 9), 1.6)
    [plain] = groups_of_rewards({"6": {"pointer_candidates": [{"pointer": [3, 9], "vqa_acc_score": 0.6}]}}, "f")
    assert (plain.sequences[0].shots, plain.sequences[0].reward) == ((3, 9), 0.6)


@table(
    ("change", "kept"),
    [
        ({"vqa_eval_mode": "vqaEval"}, 1),
        ({"vqa_eval_mode": "fallback"}, 0),
        ({"vqa_eval_mode": "error"}, 0),
        ({"eval_failed": True}, 0),
    ],
)
def test_candidates_whose_scoring_failed_are_left_out(change, kept):
    assert len(groups_of_rewards(rewards_with(**change), "f")) == kept


@table(
    ("data", "message"),
    [
        ({"6": {"id_list": [[3, 4]], "score_list": [1.0]}}, "query 6, beam 1: the last id must be the query's own"),
        ({"6": {"id_list": [[3, 6]], "score_list": []}}, "query 6: 1 entries in id_list, 0 in score_list"),
        (
            {"6": {"id_list": [[3, "4", 6]], "score_list": [1.0]}},
            "query 6: id_list.0.1: Input should be a valid integer",
        ),
        (
            {"6": {"id_list": [[3, 6]], "score_list": [float("nan")]}},
            "query 6: score_list.0: Input should be a finite number",
        ),
        ({"6": {"id_list": [[3, 6]], "score_list": [10**400]}}, "query 6: score_list.0: Input should be"),
        ({"6": {"id_list": [[3, 3, 6]], "score_list": [1.0]}}, "Query 6: the sequence [3, 3] is empty or repeats"),
        ({"6": {"score_list": [1.0]}}, "query 6: id_list: Field required"),
        ({"6": [1]}, "query 6: Input should be a valid dictionary"),
        ({"_meta": {}}, "has no query"),
        (
            {"6": {"id_list": [[3, 4, 6]], "score_list": [1.0], "candidate_pool_ids": [3, 5]}},
            "Query 6: shot 4 is not in its pool of 2",
        ),
        ({"6": {"id_list": [[3, 6]], "score_list": [1.0], "candidate_pool_ids": [3, 6]}}, "it is in its own pool"),
        (rewards_with(pointer=[1, 0]), "candidate 1: pointer and pointer_global name different shots"),
        (rewards_with(pointer=[7, 0]), "candidate 1: pointer and pointer_global name different shots"),
        (rewards_with(vqa_acc_score=10**400), "pointer_candidates.0.vqa_acc_score: Input should be"),
        (rewards_with(vqa_acc_score="0.6"), "vqa_acc_score: Input should be a valid number"),
        (rewards_with(pointer=None), "pointer_candidates.0.pointer: Input should be a valid list"),
    ],
)
def test_wrong_entries_are_named(tmp_path, data, message):
    path = tmp_path / "data.json"
    path.write_text(json.dumps(data))
    with pytest.raises(InputError) as error:
        load_groups(path)
    assert message in str(error.value)


def test_files_that_are_no_objects_are_refused(tmp_path):
    with pytest.raises(MissingInputError, match="Beam data not found"):
        load_groups(tmp_path / "none.json")
    for content, message in (
        ("{", "is not JSON"),
        ("[]", "expected an object"),
        ('{"--6": {}}', "has no query"),
    ):
        (tmp_path / "bad.json").write_text(content)
        with pytest.raises(InputError, match=message):
            load_groups(tmp_path / "bad.json")


@table(
    ("change", "message"),
    [
        ({"vqa_acc_score": None}, ", candidate 1: no vqa_acc_score"),
        ({"vqa_acc_score": ""}, ": pointer_candidates.0.vqa_acc_score: Input should be a valid number"),
        ({"vqa_acc_score": []}, ": pointer_candidates.0.vqa_acc_score: Input should be a valid number"),
    ],
)
def test_what_was_not_measured_is_no_wrong_answer(change, message):
    with pytest.raises(InputError) as error:
        groups_of_rewards(rewards_with(**change), "f")
    assert f"f, query 6{message}" in str(error.value)


def test_a_candidate_that_failed_needs_no_measurement():
    data = rewards_with(vqa_acc_score=None, eval_failed=True)
    data["6"]["pointer_candidates"].append(CANDIDATE)
    [group] = groups_of_rewards(data, "f")
    assert len(group.sequences) == 1
