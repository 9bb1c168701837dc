"""The scored file is what offline training reads: the same groups with the same advantages."""

import pytest

from grpo_training.score_rollouts.__main__ import main
from grpo_training.train.config import GRPOTrainingConfig
from tests.conftest import ROOT
from tests.support.scoring import rollout


def test_the_trainer_finds_the_groups_and_the_advantages_of_the_file(scoring):
    pytest.importorskip("transformers")
    from grpo_training.train.data.training_data import load_training_data

    scoring.prompts(3)
    rows = [
        *(rollout("p0", answer, index, step=1) for index, answer in enumerate(["0", "7", "plain", "8"])),
        *(rollout("p0", answer, index, step=2) for index, answer in enumerate(["0", "0", "plain"])),
        *(rollout("p1", answer, index) for index, answer in enumerate(["broken", "2"])),  # left out as a whole
        *(rollout("p2", answer, index) for index, answer in enumerate(["4", "5"])),
    ]
    assert main(scoring.arguments(scoring.write("r.jsonl", rows))) == 3  # more than 5 % could not be verified
    config = GRPOTrainingConfig(
        model_name_or_path=str(ROOT / "data/models/pocket"),
        dataset_path=scoring.folder / "scored.jsonl",
        validation_share=0.0,
    )
    data = load_training_data(config)
    scored = [row for row in scoring.rows() if row["advantage"] is not None]
    assert [len(group) for group in data.groups] == [4, 3, 2]
    samples = [sample for group in data.groups for sample in group]
    # The trainer divides by the sample standard deviation plus 1e-4, as TRL does; the file by that of the population.
    factors = [((len(group) - 1) / len(group)) ** 0.5 for group in data.groups for _ in group]
    expected = [factor * row["advantage"] for factor, row in zip(factors, scored, strict=True)]
    assert [sample.advantage for sample in samples] == pytest.approx(expected, rel=1e-3)
    assert [sample.reward for sample in samples] == [row["reward"]["total"] for row in scored]
    assert [sample.is_correct for sample in samples] == [row["is_correct"] for row in scored]
    assert len({sample.prompt_ids for sample in samples}) == 2
    assert data.report.dropped == {"groups: incomplete, a reply has no reward": 1}


def test_rows_that_name_their_prompt_otherwise_are_trained_on_in_the_same_groups(scoring):
    pytest.importorskip("transformers")
    from grpo_training.train.data.training_data import load_training_data

    scoring.prompts(1)
    rows = [rollout("p0", answer, index, step=step) for step in (1, 2) for index, answer in enumerate(["0", "7"])]
    for row in rows:
        row["problem_id"] = row.pop("prompt_id")
    assert main(scoring.arguments(scoring.write("r.jsonl", rows))) == 0
    config = GRPOTrainingConfig(
        model_name_or_path=str(ROOT / "data/models/pocket"),
        dataset_path=scoring.folder / "scored.jsonl",
        validation_share=0.0,
    )
    assert [len(group) for group in load_training_data(config).groups] == [2, 2]
