"""Trials of experiences in a run's rollouts as training data of the selector."""

import json

import pytest

pytest.importorskip("torch")

from engine.errors import InputError, MissingInputError
from engine.records import Problem
from grpo_training.selector.__main__ import main
from grpo_training.selector.data.embeddings import HashingEmbedder
from grpo_training.selector.experiences import SelectorChoice, texts_of_library
from grpo_training.selector.trials import trial_data
from tests.grpo_training.learning.test_trials import HARMS, HELPS, World


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """A run of a generator whose endpoint one experience helps and one harms."""
    world = World(tmp_path_factory.mktemp("trials") / "world", problems=80)
    world.learn("--k", "6", rollouts=4)
    return world


def test_a_half_is_a_sequence_and_its_reward_is_the_mean_of_its_rollouts(learned):
    data = trial_data(learned.cache, learned.experiences, "generator_1", HashingEmbedder(64))
    names = list(texts_of_library(learned.experiences, "generator_1")[0])
    problems = {}
    lines = (learned.cache / "generator_1_rollouts.jsonl").read_text().splitlines()
    for group in sorted(map(json.loads, lines), key=lambda group: group["step"]):
        for rollout in group["rollouts"]:
            if rollout["experience_ids"]:
                found = problems.setdefault(group["problem_id"], {})
                found.setdefault(tuple(rollout["experience_ids"]), []).append(rollout["r_total"])
    compared = [found for found in problems.values() if len(found) > 1]
    assert len(data.groups) == len(compared) > 40
    assert data.left_out == len(problems) - len(compared)
    assert len(data.table) == len(names) + len(compared)
    for group, found in zip(data.groups, compared, strict=True):
        halves = {tuple(names[shot] for shot in one.shots): one.reward for one in group.sequences}
        assert halves == pytest.approx({ids: sum(rewards) / len(rewards) for ids, rewards in found.items()})
        assert {names[shot] for shot in group.pool} == {name for ids in found for name in ids}


def test_a_selector_that_was_trained_on_trials_chooses_what_helps(learned, tmp_path):
    words = ["--trials", str(learned.cache), "--experiences-dir", str(learned.experiences)]
    sft = ["--hidden-dim", "32", "--epochs", "10", "--output-dir", str(tmp_path / "sft")]
    assert main(["sft", *words, *sft]) == 0
    post = ["--sft-ckpt", str(tmp_path / "sft/sft_final.ckpt"), "--output-dir", str(tmp_path / "post")]
    assert main(["train", *words, *post, "--rce-epochs", "8", "--rce-lr", "0.003", "--grpo-lr", "0.001"]) == 0
    chooser = SelectorChoice(tmp_path / "post/grpo_final.ckpt", 1)
    library = list(texts_of_library(learned.experiences, "generator_1")[0].values())  # also those that were retired
    new = [Problem(id=f"q{n}", text=f"{n}: crates of four?", answer="12") for n in range(100, 120)]
    chosen = [[one.content for one in chooser.choose(problem, 0, library)] for problem in new]
    assert sum(HELPS in one for one in chosen) >= 18
    assert not any(HARMS in one for one in chosen)


def test_the_library_of_trials_is_that_of_their_run(learned, tmp_path, capsys):
    words = ["--hidden-dim", "32", "--epochs", "1", "--output-dir", str(tmp_path / "sft")]
    assert main(["sft", "--trials", str(learned.cache), *words]) == 0
    config = json.loads((tmp_path / "sft/config.json").read_text())
    assert str(learned.experiences) in json.dumps(config)
    assert main(["sft", "--trials", str(learned.cache), "--experiences-dir", str(learned.experiences), *words]) == 0
    assert "This training is finished" in capsys.readouterr().out


def test_trials_that_are_not_there_are_named(learned, tmp_path):
    words = ["sft", "--output-dir", str(tmp_path / "out")]
    with pytest.raises(MissingInputError, match="Rollouts file not found"):
        main([*words, "--trials", str(tmp_path)])
    with pytest.raises(InputError, match="pass either --beam-data or --trials"):
        main(words)
    with pytest.raises(InputError, match="embeds the texts itself"):
        main([*words, "--trials", str(learned.cache), "--embeddings", "x.npy"])
    lines = (learned.cache / "generator_1_rollouts.jsonl").read_text().splitlines()
    plain = [json.loads(line) for line in lines]
    for group in plain:
        for rollout in group["rollouts"]:
            rollout.pop("prompt_half", None)
    (tmp_path / "generator_1_rollouts.jsonl").write_text("".join(json.dumps(one) + "\n" for one in plain))
    with pytest.raises(InputError, match="has no trials of experiences"):
        main([*words, "--trials", str(tmp_path), "--experiences-dir", str(learned.experiences)])


def test_a_line_that_cannot_be_read_is_named(learned, tmp_path, capsys):
    lines = (learned.cache / "generator_1_rollouts.jsonl").read_text().splitlines()
    (tmp_path / "generator_1_rollouts.jsonl").write_text("\n".join([*lines[:30], "{}", *lines[30:]]) + "\n")
    trial_data(tmp_path, learned.experiences, "generator_1", HashingEmbedder(64))
    assert "generator_1_rollouts.jsonl:31" in capsys.readouterr().out
    words = ["--cache-dir", str(tmp_path), "--experiences-dir", str(learned.experiences)]
    assert main(["experiences", *words, "--output-dir", str(tmp_path / "out")]) == 0
    assert "generator_1_rollouts.jsonl:31" in capsys.readouterr().out


def test_a_group_that_was_completed_later_counts_once(learned, tmp_path):
    """A stopped run stores a group with missing rollouts; the same command stores it again, complete."""
    lines = (learned.cache / "generator_1_rollouts.jsonl").read_text().splitlines()
    (tmp_path / "generator_1_rollouts.jsonl").write_text("\n".join(lines) + "\n")
    expected = trial_data(tmp_path, learned.experiences, "generator_1", HashingEmbedder(64))
    incomplete = []
    for line in lines:
        group = json.loads(line)
        group["rollouts"][0] |= {"outcome": "infra_fault", "r_total": None}
        for rollout in group["rollouts"][1:]:
            rollout["r_total"] = 0.0
        incomplete.append(json.dumps(group))
    (tmp_path / "generator_1_rollouts.jsonl").write_text("\n".join([*incomplete, *lines]) + "\n")
    found = trial_data(tmp_path, learned.experiences, "generator_1", HashingEmbedder(64))
    assert (found.groups, found.digest) == (expected.groups, expected.digest)
