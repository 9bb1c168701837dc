"""The examples of trainers that use an exported environment."""

import importlib.util
import json
import math
import tomllib
from pathlib import Path

import pytest

from engine.reading.plugins import load_object
from tests.conftest import ROOT


def test_verl_gets_the_prompts_and_a_reward_with_components(exported, tmp_path):
    rows = load_object(f"{ROOT / 'examples/verl_reward.py'}:rows")
    compute_score = load_object(f"{ROOT / 'examples/verl_reward.py'}:compute_score")
    folder = exported("verifiers", tmp_path / "add") / "add"
    first, second = json.loads(json.dumps(rows(folder)))
    assert [message["role"] for message in first["prompt"]] == ["system", "user"]
    assert "Add 3 and 4." in second["prompt"][1]["content"]
    score = compute_score(
        data_source=second["data_source"],
        solution_str="<answer>7</answer>",
        ground_truth=second["reward_model"]["ground_truth"],
        extra_info=second["extra_info"],
    )
    assert score == {"score": 1.0, "acc": 1.0, "exact": 1.0, "short": 1.0}


def test_all_replies_to_a_task_have_the_same_keys_for_verl(exported, tmp_path):
    rows = load_object(f"{ROOT / 'examples/verl_reward.py'}:rows")
    compute_score = load_object(f"{ROOT / 'examples/verl_reward.py'}:compute_score")
    row = rows(exported("verifiers", tmp_path / "add") / "add")[0]
    right, partly = (
        compute_score(row["data_source"], f"<answer>{text}</answer>", row["reward_model"]["ground_truth"])
        for text in ("3", "unmeasured length")
    )
    assert list(partly) == list(right)
    assert partly["exact"] == 0.0
    assert math.isnan(partly["short"])


@pytest.mark.skipif(importlib.util.find_spec("verl") is None, reason="the package verl is not installed")
def test_verl_accepts_the_settings_of_the_example():
    import verl
    from hydra import compose, initialize_config_dir
    from verl.utils.config import validate_config

    _, _, command = (ROOT / "examples/verl_reward.py").read_text().partition("verl.trainer.main_ppo ")
    settings = command.partition("\n\n")[0].replace("\\\n", " ").split()
    with initialize_config_dir(str(Path(verl.__file__).parent / "trainer/config"), version_base=None):
        config = compose("ppo_trainer", overrides=settings)
    validate_config(config, use_reference_policy=False, use_critic=False)
    assert config.reward.custom_reward_function.path == "examples/verl_reward.py"


@pytest.mark.skipif(importlib.util.find_spec("verifiers") is None, reason="the package verifiers is not installed")
def test_the_environment_of_the_prime_rl_example_is_valid(exported, tmp_path, monkeypatch):
    import verifiers.v1 as vf

    monkeypatch.syspath_prepend(exported("verifiers", tmp_path / "gsm8k_scaffold"))
    config = tomllib.loads((ROOT / "examples/prime_rl.toml").read_text())
    [listed] = config["orchestrator"]["train"]["source"]
    environment = vf.load_environment(vf.resolve_env_config(listed["env"]))
    assert [task.data.id for task in environment.taskset] == ["one", "two"]
    assert environment.config.agent.runtime.type == "subprocess"
    assert environment.config.agent_harnesses()["agent"].id == "gsm8k-scaffold"
