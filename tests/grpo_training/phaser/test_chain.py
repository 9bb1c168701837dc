"""From mock rollouts to a trained model: replies that were paid more become likelier, the others less likely."""

import json
import shutil
from statistics import fmean

import pytest

from grpo_training.phaser import __main__ as phaser
from grpo_training.score_rollouts import __main__ as score_rollouts
from grpo_training.train import __main__ as train
from grpo_training.train.config import GRPOTrainingConfig
from tests.conftest import ROOT

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

from transformers import AutoConfig, AutoModelForCausalLM  # noqa: E402

from grpo_training.train.data.batches import collate  # noqa: E402
from grpo_training.train.data.training_data import load_training_data  # noqa: E402
from grpo_training.train.objective.logprobs import completion_logps  # noqa: E402

pytestmark = pytest.mark.node

PROMPT = {
    "id": "box",
    "difficulty": "easy",
    "modules": ["Scene", "GameObjects"],
    "task": "Show a rectangle.",
    "constraints": [],
    "must_use_apis": ["Phaser.GameObjects.Rectangle"],
    "eval_hints": ["objects.Rectangle >= 1"],
    "tags": ["rectangle"],
}


@pytest.fixture
def small_model(tmp_path):
    """A random model of the pocket model's architecture with its tokenizer, a twentieth of its size."""
    pocket, folder = ROOT / "data/models/pocket", tmp_path / "model"
    shutil.copytree(pocket, folder, ignore=shutil.ignore_patterns("*.safetensors", "*.md", "evaluation.json"))
    config = AutoConfig.from_pretrained(pocket)
    config.update({"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "layer_types": None})
    config.update({"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32})
    config.layer_types = ["full_attention"] * 2
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(folder)
    return folder


def mean_logps(folder, samples):
    """The mean log-prob per token of each reply under a model."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    means = []
    for sample in samples:
        batch = collate([sample], 1)
        with torch.no_grad():
            logps, _ = completion_logps(
                model, batch.input_ids_BT, batch.attention_mask_BT, batch.completion_start_B, batch.mask_BC
            )
        means.append(float(logps.sum() / batch.mask_BC.sum()))
    return means


def test_training_on_scored_mock_rollouts_moves_replies_in_the_direction_of_their_advantages(
    small_model, api_index, tmp_path
):
    prompts, rollouts, scored = (tmp_path / f"{name}.jsonl" for name in ("prompts", "rollouts", "scored"))
    prompts.write_text(json.dumps(PROMPT) + "\n")
    assert phaser.main(["mock-rollouts", "--prompts", str(prompts), "--out", str(rollouts), "--group-size", "8"]) == 0
    arguments = ["--prompts", str(prompts), "--rollouts", str(rollouts), "--out", str(scored), "--workers", "1"]
    arguments += ["--prompt-style", "compact", "--api-index", str(api_index.path)]
    assert score_rollouts.main(arguments) == 0

    settings = ["--config", str(ROOT / "grpo_training/configs/phaser.yaml"), "--dataset-path", str(scored)]
    settings += ["--model-name-or-path", str(small_model), "--output-dir", str(tmp_path / "run")]
    assert train.main([*settings, "--learning-rate", "1e-3"]) == 0

    config = GRPOTrainingConfig(
        model_name_or_path=str(small_model), dataset_path=scored, validation_share=0.0, prompts="compact"
    )
    [samples] = load_training_data(config).groups
    before, after = mean_logps(small_model, samples), mean_logps(tmp_path / "run/merged", samples)
    changes = [new - old for old, new in zip(before, after, strict=True)]
    right = [change for change, sample in zip(changes, samples, strict=True) if sample.advantage > 0]
    wrong = [change for change, sample in zip(changes, samples, strict=True) if sample.advantage < 0]
    assert (len(right), len(wrong)) == (6, 2)
    assert fmean(right) > 0.002  # four of the six; the others share most of their text with them
    assert max(wrong) < -0.005
