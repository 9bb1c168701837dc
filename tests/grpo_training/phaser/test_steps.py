"""The steps that make files, with the names, flags and paths of the seed format."""

import hashlib
import json

import pytest

from engine.datasets import load_problems
from engine.errors import ConfigurationError, InputError, MissingInputError
from engine.tasks.registry import check_verifiers
from grpo_training.phaser.__main__ import main
from grpo_training.score_rollouts.__main__ import main as score_rollouts


def rows(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def seeds(tmp_path):
    path = tmp_path / "stage0/data/prompt_seeds/prompt_seeds.jsonl"
    assert main(["prompt-seeds", "--count", "200", "--lang", "zh", "--out", str(path)]) == 0
    return path


def test_the_report_of_seeds(seeds):
    report = json.loads(seeds.with_name("prompt_seeds_report.json").read_text())
    assert report["by_difficulty"] == {"easy": 80, "medium": 80, "hard": 40}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "is empty"),
        ("{bad", "line 1: not JSON"),
        ("[1]", "line 1: expected a JSON object"),
        ('{"id": "a"}', "row 1: task"),
    ],
)
def test_bad_seeds_are_named_and_nothing_is_written(tmp_path, line, message):
    path = tmp_path / "seeds.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(InputError, match=message):
        main(["build-sets", "--prompt-seeds", str(path), "--out-train", str(tmp_path / "out/t.jsonl")])
    assert not (tmp_path / "out").exists()


def test_missing_files_and_steps(tmp_path):
    with pytest.raises(MissingInputError, match="File not found") as caught:
        main(["build-sets", "--prompt-seeds", str(tmp_path / "absent.jsonl")])
    assert caught.value.fix.endswith(f"phaser prompt-seeds --out {tmp_path / 'absent.jsonl'}")
    with pytest.raises(MissingInputError, match="File not found") as caught:
        main(["mock-rollouts", "--prompts", str(tmp_path / "my prompts.jsonl")])
    assert caught.value.fix.endswith(f"phaser build-sets --out-train '{tmp_path / 'my prompts.jsonl'}'")
    with pytest.raises(InputError, match="Unknown step 'train'"):
        main(["train"])


@pytest.fixture
def without_node(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr("engine.tasks.phaser.validation.shared_validator._open", {})


@pytest.fixture
def index(tmp_path):
    """An index that is right as far as it goes."""
    path = tmp_path / "index/phaser_api.jsonl"
    path.parent.mkdir()
    row = {"symbol_id": "Phaser.Game", "name": "Game", "kind": "class", "owner": "Phaser"}
    path.write_text(json.dumps(row) + "\n")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    path.with_name("meta.json").write_text(json.dumps({"sha256": digest, "phaser_version": "3.90.0"}))
    return path


def test_without_node_every_command_stops_at_the_start(seeds, index, tmp_path, without_node, monkeypatch):
    monkeypatch.setattr("engine.tasks.phaser.validation.shared_validator.DEFAULT_PATH", index)
    game = tmp_path / "game.js"
    game.write_text("new Phaser.Game({});")
    rollouts = tmp_path / "r.jsonl"
    rollouts.write_text(json.dumps({"prompt_id": "seed_000001", "text": "x"}))
    with pytest.raises(ConfigurationError, match="Node.js was not found") as caught:
        main(["validate", str(game), "--api-index", str(index)])
    assert "make phaser" in caught.value.fix
    assert caught.value.exit_code == 2
    with pytest.raises(ConfigurationError, match="Node.js was not found"):
        main(["api-index", "--out-dir", str(tmp_path / "new")])
    arguments = ["--prompts", str(seeds), "--rollouts", str(rollouts), "--out", str(tmp_path / "s/s.jsonl")]
    with pytest.raises(ConfigurationError, match="Node.js was not found"):
        score_rollouts([*arguments, "--api-index", str(index)])
    assert not (tmp_path / "s").exists()
    with pytest.raises(ConfigurationError, match="Node.js was not found"):
        check_verifiers(load_problems(str(seeds)))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.unlink(), "not found"),
        (lambda path: path.write_text("{}\n"), "damaged"),
        (lambda path: path.with_name("meta.json").write_text("{"), "damaged"),
        (
            lambda path: path.with_name("meta.json").write_text(
                path.with_name("meta.json").read_text().replace("3.90.0", "3.80.1")
            ),
            "Phaser 3.80.1",
        ),
    ],
)
def test_a_damaged_index_or_one_of_another_version_is_named(tmp_path, index, damage, message):
    damage(index)
    game = tmp_path / "game.js"
    game.write_text("")
    with pytest.raises(ConfigurationError, match=message) as caught:
        main(["validate", str(game), "--api-index", str(index)])
    assert caught.value.fix.endswith(f"phaser api-index --out-dir {index.parent}")


def test_a_missing_index_is_named_by_the_path_that_was_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match="was not found") as caught:
        main(["validate", __file__, "--api-index", "stage0/data/api_index/phaser_api.jsonl"])
    assert caught.value.fix.endswith("phaser api-index --out-dir stage0/data/api_index")
