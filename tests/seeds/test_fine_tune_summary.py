"""The document about a GRPO training script with a YAML configuration: its keys, commands and functions."""

import importlib.util
import json
import sys

import pytest

from engine.errors import InputError
from grpo_training import GRPOTrainingConfig, load_config, load_grpo_dataset
from tests.conftest import ROOT

pytest.importorskip("trl")
from grpo_training.train import __main__ as training

pytestmark = pytest.mark.timeout(300)

YAML = f"""
model_path: {ROOT / "data/models/pocket"}
max_seq_length: 256
learning_rate: 1e-5
batch_size: 4
num_generations: 4
temperature: 0.9
kl_coeff: 0.1
max_new_tokens: 8
top_p: 0.9
repetition_penalty: 1.0
num_train_epochs: 3
warmup_steps: 10
logging_steps: 5
optim: adamw_torch
format_reward:
  strict: 1.0
  partial: -0.5
  invalid: -10.0
reward:
  format_weight: 1.0
  tsc_weight: 1.0
sumo:
  extend_seconds: 5
dataset_path: data/grpo_datasets
output_dir: model/grpo_model
"""
ROW = {"scenario": "grid", "junction_id": "n7", "simulation_time": 642.0, "state_file": "states/state_1.xml"}
OF_THE_DOCUMENT = {
    **ROW,
    "current_phase_id": 2,
    "current_phase_order_idx": 1,
    "current_green_elapsed": 12.0,
    "min_green": 10,
    "max_green": 55,
    "extend_seconds": 5,
    "can_extend": True,
    "phase_order": [0, 2],
    "phase_metrics": {"0": 1.5, "2": 4.0},
    "expert_decision": None,
}
"""A row as the document's generator writes it: measured queues, and no outcomes of the decisions."""
REWARDS = '''
def reward_function_placeholder(prompts, outputs, **kwargs):
    """The placeholder of the document."""
    return [0.0 for _ in outputs]

def short(prompts, completions, junction_id, **kwargs):
    return [-float(len(text)) if name == "n7" else None for text, name in zip(completions, junction_id)]
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of the document: configuration and datasets of two scenarios."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").mkdir()
    (tmp_path / "config/grpo_config.yaml").write_text(YAML)
    for name in ("grid", "arterial"):
        subfolder = tmp_path / f"data/grpo_datasets/{name}"
        subfolder.mkdir(parents=True)
        rows = [{"id": f"{name}_{n}", "prompt": f"The queue is {n}.", **ROW} for n in range(4)]
        (subfolder / "grpo_dataset.json").write_text(json.dumps(rows))
    (tmp_path / "rewards.py").write_text(REWARDS)
    return tmp_path


def train(*words):
    """``python grpo/training.py``, under the name of the command."""
    return training.main(["--config", "config/grpo_config.yaml", *words])


def test_the_configuration_class(folder):
    config = GRPOTrainingConfig.from_yaml("config/grpo_config.yaml")
    assert (config.learning_rate, config.batch_size, config.num_generations) == (1e-5, 4, 4)
    assert (config.temperature, config.kl_coeff, config.max_new_tokens, config.top_p) == (0.9, 0.1, 8, 0.9)
    assert config.model_path == str(ROOT / "data/models/pocket")
    assert config.lora_rank == 32
    assert (config.mode, config.self_sft_weight) == ("online", 0.0)
    assert config.reward_settings["invalid"] == -10.0
    assert load_config("config/grpo_config.yaml") == config
    assert GRPOTrainingConfig(**config.to_dict()) == config
    with pytest.raises(ValueError, match="temperature"):
        GRPOTrainingConfig(model_path="m", temperature=-1)
    with pytest.raises(ValueError, match="model_name_or_path"):
        GRPOTrainingConfig()


def test_the_command_line_has_priority_over_the_file(folder, capsys):
    words = ["--output-dir", "./my_grpo_model", "--batch-size", "4", "--learning-rate", "5e-6", "--max-steps", "10"]
    with pytest.raises(SystemExit):
        train(*words, "--print-config")
    printed = json.loads(capsys.readouterr().out)
    assert (printed["output_dir"], printed["learning_rate"], printed["max_steps"]) == ("my_grpo_model", 5e-6, 10)
    assert (printed["per_device_train_batch_size"], printed["beta"], printed["num_train_epochs"]) == (4, 0.1, 3)


def test_the_dataset_of_a_file_or_a_folder(folder):
    dataset = load_grpo_dataset("data/grpo_datasets")
    assert len(dataset) == 8
    assert dataset[0]["prompt"] == [{"role": "user", "content": "The queue is 0."}]
    assert {"id", "scenario", "junction_id"} <= set(dataset.column_names)
    assert len(load_grpo_dataset("data/grpo_datasets/grid/grpo_dataset.json")) == 4


@pytest.mark.parametrize("more", [{}, {"task": "traffic"}, {"branches": {}}], ids=["as is", "with task", "half"])
def test_the_file_and_the_placeholder_of_the_document_train_on_its_rows(folder, capsys, monkeypatch, more):
    config = folder / "config/grpo_config.yaml"
    config.write_text(YAML.replace("adamw_torch", "adamw_8bit"))
    for file in (folder / "data/grpo_datasets").glob("*/grpo_dataset.json"):
        rows = [{**row, **OF_THE_DOCUMENT, **more} for row in json.loads(file.read_text())]
        file.write_text(json.dumps(rows))
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "bitsandbytes" else find(name))
    words = ["--reward", "rewards.py:reward_function_placeholder", "--max-steps", "1", "--no-bf16"]
    assert train(*words, "--dry-run") == 0
    out = capsys.readouterr()
    assert out.out.count("adamw_torch is used") == 1
    assert "problems         8 of data/grpo_datasets (prompts 8)" in out.out
    keys = "format_reward.strict, format_reward.partial, format_reward.invalid"
    keys += ", reward.format_weight, reward.tsc_weight, sumo.extend_seconds"
    assert out.err.count(f"config/grpo_config.yaml: {keys}: no effect, as --reward") == 1
    if not more:
        assert train(*words) == 0
        assert (folder / "model/grpo_model/lora/adapter_model.safetensors").is_file()


def test_rows_without_outcomes_name_the_command_that_makes_rows_with_them(folder):
    with pytest.raises(InputError, match="has no outcomes") as raised:
        train("--dry-run")
    assert "traffic generate" in raised.value.fix


def test_a_debug_run_with_a_reward_function_of_trl(folder, capsys):
    text = YAML.partition("format_reward:")[0] + "dataset_path: data/grpo_datasets\noutput_dir: out\nmode: online\n"
    (folder / "config/grpo_config.yaml").write_text(text)
    with pytest.raises(InputError, match="no task can score"):
        train("--dry-run")
    assert train("--dry-run", "--reward", "rewards.py:reward_function_placeholder") == 0
    assert "loss             1 dapo, beta 0.1\n" in capsys.readouterr().out
    code = train("--reward", "rewards.py:short", "--max-steps", "2", "--no-bf16")
    assert code == 0
    lines = [json.loads(line) for line in (folder / "out/metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["step"] == 2  # fewer than logging_steps, and logged
    assert -100 < lines[-1]["reward"] < 0
    assert lines[-1]["faults/infra"] == 0.0
    assert (folder / "out/lora/adapter_model.safetensors").is_file()
    assert (folder / "out/merged/model.safetensors").is_file()
    assert "unsloth" not in sys.modules
