"""The document about the post-training of a shot selector: the tests of its steps, on small files of its formats."""

import json
import math
import shutil
import subprocess

import pytest

pytest.importorskip("torch")
import torch

from grpo_training.selector.__main__ import main as selector
from grpo_training.selector.data.beam_file import BeamDataset
from grpo_training.selector.rewards import (
    clip_advantages,
    compute_softmax_weights,
    normalize_rewards_zscore,
)
from grpo_training.selector.settings import TrainSettings
from tests.conftest import ROOT
from tests.grpo_training.selector.conftest import shared_world  # noqa: F401

pytestmark = pytest.mark.timeout(300)

SCRIPT = ROOT / "scripts/grpo_post_train.sh"
YAML = """
rce_epochs: 1
rce_temperature_start: 2.0
rce_temperature_end: 0.5
rce_lr_ratio: 0.1
grpo_epochs: 3
clip_epsilon: 0.2
kl_beta: 0.1
kl_target_max: 0.1
kl_target_min: 0.01
gradient_clip_norm: 1.0
warmup_ratio: 0.1
lr_scheduler: cosine
"""


@pytest.fixture(scope="module")
def folder(shared_world, tmp_path_factory):  # noqa: F811
    """The folders of the document, with an SFT checkpoint (its version v2)."""
    root = tmp_path_factory.mktemp("document") / "results/okvqa"
    (root / "generated_data").mkdir(parents=True)
    shutil.copy(shared_world / "beams.json", root / "generated_data/test.json")
    shutil.copy(shared_world / "embeddings.npy", root / "embeddings.npy")
    words = ["--beam-data", root / "generated_data/test.json", "--embeddings", root / "embeddings.npy"]
    assert selector(["sft", *map(str, words), "--output-dir", str(root / "model_cpk/v2")]) == 0
    return root


def post_train(folder, checkpoint, output, *words):
    """``bash scripts/grpo_post_train.sh``: the script passes its words on to this command."""
    flags = ["--sft_ckpt", folder / checkpoint, "--beam_data", folder / "generated_data/test.json", *words]
    return selector(["train", *map(str, flags), "--output_dir", str(folder / "model_cpk/v3" / output)])


def metrics(folder, output):
    text = (folder / "model_cpk/v3" / output / "metrics.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_step_2_the_beams_of_a_file(folder):
    data = json.loads((folder / "generated_data/test.json").read_text())
    ds = BeamDataset(data, beam_size=5)
    assert len(ds) == 24
    sample = ds[0]
    assert len(sample["beam_labels"]) == len(sample["beam_rewards"]) <= 5
    assert list(sample["beam_rewards"]) == sorted(sample["beam_rewards"], reverse=True)


def test_step_3_the_rewards():
    rewards = torch.tensor([[0.046, 0.045, 0.037, 0.035, 0.030]])
    normalized = normalize_rewards_zscore(rewards)
    assert float(normalized.mean()) == pytest.approx(0.0, abs=1e-6)
    assert float(normalized.std()) == pytest.approx(1.0, abs=1e-3)
    clipped = clip_advantages(torch.tensor([[-10.0, 5.0, 0.0, 3.0, 8.0]]))
    assert clipped.tolist() == [[-5.0, 5.0, 0.0, 3.0, 5.0]]
    weights = compute_softmax_weights(rewards, temperature=2.0)
    assert float(weights.sum()) == pytest.approx(1.0)
    assert float(weights[0, 0] / weights[0, 4]) == pytest.approx(math.exp((0.046 - 0.030) / 2.0))


def test_step_4_the_configuration(tmp_path, capsys):
    (tmp_path / "grpo_post_train.yaml").write_text(YAML)
    needed = ["--sft_ckpt", "a.ckpt", "--beam_data", "b.json"]
    with pytest.raises(SystemExit):
        selector(["train", "--config", str(tmp_path / "grpo_post_train.yaml"), *needed, "--print-config"])
    printed = json.loads(capsys.readouterr().out)
    assert (printed["rce_epochs"], printed["grpo_epochs"], printed["kl_beta"]) == (1, 3, 0.1)
    assert (printed["rce_temperature_start"], printed["rce_temperature_end"]) == (2.0, 0.5)
    assert (printed["kl_target_min"], printed["kl_target_max"], printed["warmup_ratio"]) == (0.01, 0.1, 0.1)
    assert 1e-4 in (printed["grpo_lr"], TrainSettings.model_fields["grpo_lr"].default)


def test_step_5_a_dry_run_writes_nothing(folder):
    words = ["--rce_epochs", "1", "--grpo_epochs", "1", "--max_samples", "10", "--dry_run"]
    assert post_train(folder, "model_cpk/v2/best_model.ckpt", "dry", *words) == 0
    assert not (folder / "model_cpk/v3/dry").exists()


def test_step_6_the_script(tmp_path):
    assert subprocess.run(["bash", "-n", str(SCRIPT)]).returncode == 0
    text = subprocess.run(["bash", str(SCRIPT), "--help"], capture_output=True, text=True, check=True).stdout
    for flag in ("--sft_ckpt", "--beam_data", "--rce_epochs", "--grpo_epochs", "--output_dir"):
        assert flag in text


def test_steps_7_to_10_rce_then_grpo_then_a_choice(folder, tmp_path):
    assert (
        post_train(folder, "model_cpk/v2/best_model.ckpt", "rce_test", "--rce_epochs", "4", "--grpo_epochs", "0") == 0
    )
    rce = [line for line in metrics(folder, "rce_test") if "loss" in line]
    assert [line["rce/temperature"] for line in rce] == pytest.approx([2.0, 1.5, 1.0, 0.5])
    assert [line["rce/nll"] for line in rce] == sorted((line["rce/nll"] for line in rce), reverse=True)
    start = "model_cpk/v3/rce_test/rce_final.ckpt"
    assert (folder / start).is_file()

    assert post_train(folder, start, "grpo_test", "--rce_epochs", "0", "--grpo_epochs", "2") == 0
    grpo = [line for line in metrics(folder, "grpo_test") if "loss" in line]
    assert len(grpo) == 2
    assert all(line["stage"] == "grpo" and abs(line["loss"]) < 1 for line in grpo)
    assert all(0 <= line["validation/kl"] <= 0.1 for line in grpo)
    best = folder / "model_cpk/v3/grpo_test/best_model.ckpt"
    assert best.is_file()

    chosen = tmp_path / "chosen.json"
    words = ["--checkpoint", best, "--test_data", folder / "generated_data/test.json", "--output", chosen]
    assert selector(["predict", *map(str, words)]) == 0
    written = json.loads(chosen.read_text())
    entries = [entry for key, entry in written.items() if key.isdigit()]
    assert len(entries) == 24
    assert all({"id_list", "score_list"} <= entry.keys() for entry in entries)
