"""Decisions as training data: chats for the form of a reply."""

import json

import pytest

from engine.errors import InputError
from grpo_training.traffic.__main__ import main
from tests.engine.tasks.traffic.support import row


def test_rows_that_are_there_twice_or_not_at_all_are_refused(tmp_path):
    path = tmp_path / "data/scenario/grpo_dataset.json"
    path.parent.mkdir(parents=True)
    rows = [row().model_dump(mode="json") | {"id": f"r{number}"} for number in range(2)]
    words = ["sft-data", "--dataset", str(tmp_path / "data"), "--output-dir", str(tmp_path / "out")]
    path.write_text(json.dumps([*rows, rows[0]]))
    with pytest.raises(InputError, match="grpo_dataset.json, row 3: the id 'r0' is there twice"):
        main(words)
    path.write_text("[]")
    with pytest.raises(InputError, match="has no rows"):
        main(words)
    assert not (tmp_path / "out").exists()


def test_the_chats_end_with_a_decision_after_the_prompt_of_the_row(tmp_path):
    path = tmp_path / "grpo_dataset.json"
    path.write_text(json.dumps([row().model_dump(mode="json")]))
    words = ["sft-data", "--dataset", str(path), "--output-dir", str(tmp_path / "out"), "--prompts", "compact"]
    assert main(words) == 0
    (line,) = (tmp_path / "out/sft_dataset.jsonl").read_text().splitlines()
    *prompt, reply = json.loads(line)["messages"]
    assert row().prompt in prompt[-1]["content"]
    assert set(json.loads(reply["content"])) == {"extend"}
