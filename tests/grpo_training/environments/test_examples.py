"""The examples of trainers that use an exported environment."""

import importlib.util
import json
import tomllib

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
    assert score == {"score": 1.0, "is_correct": 1.0, "exact": 1.0, "short": 1.0}


@pytest.mark.skipif(importlib.util.find_spec("verifiers") is None, reason="the package verifiers is not installed")
def test_the_environment_of_the_prime_rl_example_is_valid(exported, tmp_path, monkeypatch):
    import verifiers.v1 as vf

    monkeypatch.syspath_prepend(exported("verifiers", tmp_path / "gsm8k_scaffold"))
    config = tomllib.loads((ROOT / "examples/prime_rl.toml").read_text())
    [listed] = config["orchestrator"]["train"]["env"]
    environment = vf.load_environment(vf.resolve_env_config(listed["env"]))
    assert [task.data.id for task in environment.taskset] == ["one", "two"]
    assert environment.config.agent.runtime.type == "subprocess"
    assert environment.config.agent_harnesses()["agent"].id == "gsm8k-scaffold"
