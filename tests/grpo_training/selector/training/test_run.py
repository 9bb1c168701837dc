"""Trainings as a user starts them: SFT, RCE and GRPO, interruption, refusals."""

import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from engine.errors import InputError  # noqa: E402
from grpo_training.cli.parsing import settings_from_yaml  # noqa: E402
from grpo_training.selector.__main__ import main  # noqa: E402
from grpo_training.selector.data.beam_file import load_groups  # noqa: E402
from grpo_training.selector.data.embeddings import load_table  # noqa: E402
from grpo_training.selector.model.checkpoint import load_model, load_plain  # noqa: E402
from grpo_training.selector.settings import TrainSettings  # noqa: E402
from grpo_training.selector.training.loop import _Run  # noqa: E402
from grpo_training.selector.training.validation import stored_logps  # noqa: E402
from tests.conftest import ROOT  # noqa: E402

SMALL = ["--hidden-dim", "8", "--epochs", "2", "--batch-size", "8", "--learning-rate", "0.003"]


@pytest.fixture(scope="module")
def trained(shared_world, tmp_path_factory):
    """The folder of a trained selector. Not to be written to."""
    folder = tmp_path_factory.mktemp("trained") / "sft"
    words = ["--beam-data", str(shared_world / "beams.json"), "--embeddings", str(shared_world / "embeddings.npy")]
    assert main(["sft", *words, *SMALL, "--output-dir", str(folder)]) == 0
    return folder


@pytest.fixture
def sft(world, trained):
    """The world with a trained selector in it."""
    shutil.copytree(trained, world / "sft")
    return world


def post(world, output, *more, data="rewards.json"):
    """The seed's own flags, with underscores."""
    words = ["--sft_ckpt", str(world / "sft/best_model.ckpt"), "--beam_data", str(world / data)]
    return main(["train", *words, "--batch-size", "8", "--output_dir", str(world / output), *more])


def metrics(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_rce_then_grpo_write_what_the_plan_names(sft, capsys):
    assert post(sft, "rce", "--rce_epochs", "2", "--grpo_epochs", "0", "--log-every-steps", "1") == 0
    rows = metrics(sft / "rce")
    temperatures = [row["rce/temperature"] for row in rows]
    assert (temperatures[0], temperatures[-1]) == (2.0, 0.5)
    assert temperatures == sorted(temperatures, reverse=True)
    assert max(row["learning_rate"] for row in rows) == pytest.approx(0.0003)  # a tenth of that of SFT
    assert rows[-1]["validation/loss"] < rows[len(rows) // 2 - 1]["validation/loss"]
    assert {path.name for path in (sft / "rce").glob("*.ckpt")} == {
        *("rce_epoch1.ckpt", "rce_epoch2.ckpt", "rce_final.ckpt", "best_model.ckpt"),
    }

    words = ["--sft_ckpt", str(sft / "rce/rce_final.ckpt"), "--beam_data", str(sft / "rewards.json")]
    more = [
        "--rce_epochs",
        "0",
        "--grpo_epochs",
        "2",
        "--grpo-lr",
        "0.01",
        "--batch-size",
        "4",
        "--warmup-ratio",
        "0.4",
    ]
    assert main(["train", *words, *more, "--output_dir", str(sft / "grpo"), "--log-every-steps", "1"]) == 0
    rows = metrics(sft / "grpo")
    assert rows[0]["kl"] == pytest.approx(0, abs=1e-6)  # the old policy is the one at the start, in the same mode
    assert rows[0]["ratio_mean"] == pytest.approx(1, abs=1e-5)
    assert rows[-1]["kl"] > 0.001
    rates = [row["learning_rate"] / 0.01 for row in rows]  # 10 steps, 4 of them warm-up, then half a cosine
    assert rates == pytest.approx(
        [0.25, 0.5, 0.75, 1, *((1 + math.cos(math.pi * done / 6)) / 2 for done in range(6))], rel=1e-6
    )
    assert {"loss/policy", "advantage/mean", "validation/kl", "validation/reward"} <= rows[-1].keys()
    assert load_model(sft / "grpo/grpo_epoch2.ckpt")[1].phase == "grpo"
    assert "curves" in capsys.readouterr().out
    assert (sft / "grpo/report.html").is_file()


def test_beta_and_temperature_change_within_an_epoch_by_the_kl(sft, capsys):
    flags = ["--rce_epochs", "0", "--grpo_epochs", "1", "--grpo-lr", "1e-7", "--log-every-steps", "1"]
    assert post(sft, "once", *flags, "--batch-size", "2") == 0
    rows = metrics(sft / "once")  # 10 steps
    assert [row["beta"] for row in rows] == pytest.approx([0.1] * 5 + [0.1 / 1.5] * 5)
    assert [row["grpo/temperature"] for row in rows] == pytest.approx([1.05**step for step in range(10)])
    out = capsys.readouterr().out
    assert re.search(r"grpo 4/10  loss \S+  reward \S+  tau 1.16  kl 0.0000  beta 0.1", out)
    flags[3] = "2"
    assert post(sft, "out", *flags) == 0
    betas = [row["beta"] for row in metrics(sft / "out")]
    assert sorted(set(betas), reverse=True) == [0.1, pytest.approx(0.1 / 1.5)]
    assert betas[0] == betas[1] == 0.1
    assert load_model(sft / "out/grpo_epoch2.ckpt")[1].kl_beta == pytest.approx(0.1 / 1.5)


def test_an_interrupted_training_ends_with_the_same_weights(sft, monkeypatch):
    flags = ["--rce_epochs", "1", "--grpo_epochs", "2", "--grpo-lr", "0.003", "--log-every-steps", "1"]
    assert post(sft, "whole", *flags) == 0
    steps = len(metrics(sft / "whole"))
    optimize, interrupted = _Run._optimize, {2, 5, 7}

    def optimize_and_press_ctrl_c(run, groups):
        metrics = optimize(run, groups)
        if run.progress.step in interrupted:
            interrupted.remove(run.progress.step)
            os.kill(os.getpid(), signal.SIGINT)
        return metrics

    monkeypatch.setattr(_Run, "_optimize", optimize_and_press_ctrl_c)
    interruptions = 0
    while True:
        try:
            assert post(sft, "parts", *flags) == 0
            break
        except KeyboardInterrupt:
            interruptions += 1
    assert interruptions == 3
    assert [row["step"] for row in metrics(sft / "parts")] == list(range(1, steps + 1))
    for name in ("rce_final.ckpt", "grpo_final.ckpt", "best_model.ckpt"):
        whole, parts = (load_plain(sft / folder / name) for folder in ("whole", "parts"))
        assert whole["metrics"] == parts["metrics"], name
        assert all(torch.equal(whole["state_dict"][key], parts["state_dict"][key]) for key in whole["state_dict"]), name
    assert not (sft / "parts/training_state.pt").exists()
    assert post(sft, "parts", *flags) == 0  # finished


def test_the_sequence_level_changes_the_rewards_that_are_learned(sft):
    flags = ["--rce_epochs", "1", "--grpo_epochs", "0"]
    assert post(sft, "plain", *flags) == 0
    assert post(sft, "more", *flags, "--coherence-weight", "0.5", "--diversity-weight", "2") == 0
    plain, more = (metrics(sft / name)[-1]["validation/reward"] for name in ("plain", "more"))
    assert more > plain + 1  # the diversity of pairs in eight dimensions is about 0.9


def test_a_dry_run_checks_everything_and_writes_nothing(sft, capsys):
    assert post(sft, "out", "--rce_epochs", "1", "--grpo_epochs", "1", "--max_samples", "10", "--dry_run") == 0
    out = capsys.readouterr().out
    assert re.search(r"queries +8 to train on, 2 held out", out)
    assert "phase rce" in out
    assert re.search(r"^rce 1/2 .* tau 2.00", out, re.MULTILINE)  # the loops of both phases run
    assert re.search(r"^grpo 2/2 .* kl ", out, re.MULTILINE)
    assert not (sft / "out").exists()


def test_predict_chooses_sequences_from_the_pool_of_each_query(sft):
    words = ["--checkpoint", str(sft / "sft/best_model.ckpt"), "--test-data", str(sft / "beams.json")]
    assert main(["predict", *words, "--output", str(sft / "chosen.json")]) == 0
    beams = json.loads((sft / "beams.json").read_text())
    chosen = json.loads((sft / "chosen.json").read_text())
    assert chosen.keys() == beams.keys()
    for query, entry in chosen.items():
        assert set(entry["id_list"][0][:-1]) <= set(beams[query]["candidate_pool_ids"])
        assert entry["id_list"][0][-1] == int(query)
        assert entry["score_list"] == sorted(entry["score_list"], reverse=True)


def test_a_trained_selector_prefers_better_stored_sequences_than_chance(sft):
    model, _ = load_model(sft / "sft/best_model.ckpt")
    groups = load_groups(sft / "beams.json")
    logps = stored_logps(model, groups, load_table(sft / "embeddings.npy"))
    rewards = [[sequence.reward for sequence in group.sequences] for group in groups]
    preferred = [
        values[int(logps[group.query].sum(-1).argmax())] for group, values in zip(groups, rewards, strict=True)
    ]
    assert np.mean([np.mean(values) for values in rewards]) < np.mean(preferred) <= np.mean([*map(max, rewards)])


@pytest.mark.parametrize("version", ["v2", "V2"])
def test_the_version_of_the_model_may_be_named(sft, version):
    words = ["--checkpoint", str(sft / "sft/best_model.ckpt"), "--test-data", str(sft / "beams.json")]
    assert main(["predict", "--model_version", version, *words, "--output", str(sft / "chosen.json")]) == 0
    with pytest.raises(InputError, match=r"is a v2 checkpoint \(phase sft\), not v3"):
        main(["predict", "--model_version", version.replace("2", "3"), *words])
    with pytest.raises(InputError, match="model.version: .*'v2' or 'v3'"):
        main(["predict", "--model_version", "v4", *words])
    assert post(sft, "out", "--rce_epochs", "1", "--grpo_epochs", "0") == 0
    words[1] = str(sft / "out/rce_final.ckpt")
    words += ["--output", str(sft / "chosen.json")]
    assert main(["predict", "--model_version", version.replace("2", "3"), *words]) == 0


@pytest.mark.parametrize("key", ["state_dict", "model_state_dict"])
def test_a_checkpoint_of_lightning_is_refused(sft, key):
    torch.save(
        {"epoch": 3, key: {"pointer_selector.query_proj.weight": torch.zeros(2, 2)}}, sft / "sft/best_model.ckpt"
    )
    with pytest.raises(InputError, match="no checkpoint of a selector") as raised:
        post(sft, "out")
    assert "Lightning" in raised.value.why


def test_wrong_input_is_refused_before_anything_is_written(sft):
    np.save(sft / "short.npy", np.zeros((5, 8), dtype=np.float32))
    np.save(sft / "other.npy", np.zeros((99, 3), dtype=np.float32))
    with pytest.raises(InputError, match="no row for the item"):
        post(sft, "out", "--embeddings", str(sft / "short.npy"))
    with pytest.raises(InputError, match="needs embeddings of 8 dimensions, these have 3"):
        post(sft, "out", "--embeddings", str(sft / "other.npy"))
    with pytest.raises(InputError, match="rce_epochs and grpo_epochs are both 0"):
        post(sft, "out", "--rce_epochs", "0", "--grpo_epochs", "0")
    with pytest.raises(InputError, match="The embeddings are not known"):
        main(["sft", "--beam-data", str(sft / "beams.json"), "--output-dir", str(sft / "out")])
    with pytest.raises(InputError, match="Unknown step 'fit'"):
        main(["fit"])
    assert not (sft / "out").exists()


def test_results_of_other_data_are_refused(sft):
    assert post(sft, "out", "--rce_epochs", "1", "--grpo_epochs", "0") == 0
    with pytest.raises(InputError):
        post(sft, "out", "--rce_epochs", "1", "--grpo_epochs", "0", data="beams.json")


def test_the_shipped_configuration_has_the_keys_of_the_plan(tmp_path):
    shipped = ROOT / "grpo_training/configs/selector.yaml"
    text = shipped.read_text()
    for key in ("rce_epochs", "grpo_epochs", "kl_beta", "gradient_clip_norm", "clip_epsilon", "warmup_ratio"):
        assert re.search(rf"^{key}:", text, re.MULTILINE), key
    complete = tmp_path / "complete.yaml"
    complete.write_text(text + "\nsft_ckpt: a\nbeam_data: b\n")
    read = settings_from_yaml(TrainSettings, complete)
    assert (read.rce_temperature_start, read.rce_temperature_end, read.rce_lr_ratio) == (2.0, 0.5, 0.1)
    assert (read.kl_target_min, read.kl_target_max, read.gradient_clip_norm) == (0.01, 0.1, 1.0)
    assert (read.early_top_k, read.clip_epsilon, read.lr_scheduler) == (3, 0.2, "cosine")


def test_the_launcher_passes_the_flags_of_the_plan_on(sft):
    script = ROOT / "scripts/grpo_post_train.sh"
    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0
    asked = subprocess.run(["bash", script, "--help"], capture_output=True, text=True, check=False)
    assert asked.returncode == 0
    for flag in ("--sft_ckpt", "--beam_data", "--rce_epochs", "--grpo_epochs", "--output_dir"):
        assert flag in asked.stdout
    words = ["--sft_ckpt", sft / "sft/best_model.ckpt", "--beam_data", sft / "rewards.json", "--rce_epochs", "1"]
    done = subprocess.run(
        ["bash", script, *words, "--grpo_epochs", "1", "--dry_run", "--output_dir", sft / "out"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "PYTHON": sys.executable, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    assert "phase grpo" in done.stdout


def test_the_kl_of_a_grpo_epoch_comes_into_the_range_of_the_plan(sft):
    """Step 8 of the plan: the KL is between 0.01 and 0.1, and nothing becomes infinite."""
    flags = ["--rce_epochs", "0", "--grpo_epochs", "6", "--grpo-lr", "0.0015", "--log-every-steps", "1"]
    assert post(sft, "out", *flags) == 0
    rows = metrics(sft / "out")
    assert all(math.isfinite(row["loss"]) for row in rows)
    assert 0.01 <= np.mean([row["kl"] for row in rows[-3:]]) <= 0.1
