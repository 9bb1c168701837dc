import json

import pytest

from engine.errors import InputError, MissingInputError
from grpo_training.export import __main__ as export
from tests.support.full_disk import largest_file
from tests.support.recorded_replies import EXAMPLE

datasets = pytest.importorskip("datasets")

COLUMNS = {
    "trl-sft": {"prompt", "completion", "reward"},
    "trl-dpo": {"prompt", "chosen", "rejected"},
    "trl-kto": {"prompt", "completion", "label"},
    "trl-grpo": {"prompt", "problem_id", "task", "completions", "rewards"},
}


@pytest.fixture(scope="module")
def recorded():
    """The recorded rollouts, with the text of their problem."""
    return [
        {**rollout, "problem_text": group["problem_text"], "group": (name, group["problem_id"])}
        for name in ("generator_1", "generator_2", "generator_3")
        for line in (EXAMPLE / f"{name}_rollouts.jsonl").read_text().splitlines()
        for group in [json.loads(line)]
        for rollout in group["rollouts"]
    ]


def exported(form, output, *more):
    flags = [str(EXAMPLE), "--to", form, "--output", str(output), "--prompts", "compact", *more]
    assert export.main(flags) == 0
    return output


def test_what_was_left_out_names_no_flag_of_another_command(tmp_path, capsys):
    exported("trl-sft", tmp_path / "rows.jsonl")
    *left_out, count = capsys.readouterr().out.splitlines()
    assert any(line.endswith("groups: all rewards are equal, so all advantages are 0") for line in left_out)
    assert all(line.startswith("left out") and "--" not in line for line in left_out)
    assert " rows: " in count


@pytest.mark.parametrize("form", COLUMNS)
def test_trl_formats_are_loaded_by_datasets_as_messages(tmp_path, form):
    file = exported(form, tmp_path / "rows.jsonl")
    rows = datasets.load_dataset("json", data_files=str(file), split="train", cache_dir=str(tmp_path / "hf"))
    assert set(rows.column_names) == COLUMNS[form]
    for name in {"completion", "chosen", "rejected"} & COLUMNS[form]:
        assert {message["role"] for row in rows for message in row[name]} == {"assistant"}


def test_the_rows_are_those_of_the_recorded_rewards(tmp_path, recorded):
    def rows_of(form, *more):
        return [json.loads(line) for line in exported(form, tmp_path / f"{form}.jsonl", *more).read_text().splitlines()]

    texts = {rollout["completion"]["text"]: rollout["r_total"] for rollout in recorded}
    good = rows_of("trl-sft", "--min-reward", "0.8")
    assert len(good) > 0
    assert all(texts[row["completion"][0]["content"]] >= 0.8 for row in good)
    pairs = rows_of("trl-dpo")
    assert all(texts[row["chosen"][0]["content"]] > texts[row["rejected"][0]["content"]] for row in pairs)
    groups = {}
    for rollout in recorded:
        groups.setdefault(rollout["group"], []).append(rollout["r_total"])
    different = [rewards for rewards in groups.values() if len(set(rewards)) > 1]
    assert len(pairs) == len(rows_of("trl-grpo")) == len(different)
    labels = [row["label"] for row in rows_of("trl-kto")]
    above = [reward > sum(rewards) / len(rewards) for rewards in different for reward in rewards]
    assert sorted(labels) == sorted(above)


def test_what_cannot_be_written_is_one_error_and_leaves_no_file(tmp_path):
    with pytest.raises(InputError, match="ends in .jsonl"):
        exported("trl-sft", tmp_path / "rows.csv")
    with pytest.raises(InputError, match="Nothing in .* fits trl-sft"):
        exported("trl-sft", tmp_path / "rows.jsonl", "--min-reward", "2")
    with pytest.raises(InputError, match="--run sums exclude each other"):
        export.main([str(tmp_path), "--run", "sums", "--to", "trl-sft", "--output", str(tmp_path / "out.jsonl")])
    with pytest.raises(MissingInputError, match="No results in"):
        export.main([str(tmp_path), "--to", "rollouts", "--output", str(tmp_path / "out.jsonl")])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", ["trl-sft", "trl-grpo"])
def test_a_full_disk_names_the_output_and_leaves_nothing(tmp_path, form):
    with largest_file(5000), pytest.raises(OSError, match="File too large") as caught:
        exported(form, tmp_path / "new" / "a.jsonl", "--role", "generator_1")
    assert caught.value.filename == str(tmp_path / "new" / "a.jsonl")
    assert list((tmp_path / "new").iterdir()) == []
