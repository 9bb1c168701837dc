"""The demo of the fine-tune from its command to its table; the two trainings are stood in for by better models."""

import contextlib
import hashlib
import json
import re
import sys
import types

import pytest

from grpo_training.demos import training as train_demo
from grpo_training.demos.training import main
from grpo_training.finetune import train
from tests.grpo_training.demos.test_learning import INSTANCES, TEST, as_server
from tests.support.fault_server import chat_app, serve_in_thread

FLAGS = ["--problems", "4", "--rollouts", "2", "--test-problems", str(TEST), "--samples", "2"]
SKILL = {"base": 0.25, "offline": 0.6, "online": 0.95}


def model_of(skill):
    """Right with the model's own probability; with a lesson of the family always."""

    def reply(body, index):
        user = body["messages"][1]["content"]
        if body["messages"][0]["content"].startswith("Study"):
            return json.dumps({"operations": []})
        instance = INSTANCES[re.search(r"^Problem: (.*)$", user, re.MULTILINE).group(1)]
        draw = hashlib.sha256(f"{user}{body.get('seed')}{index}".encode()).digest()[0] / 256
        way = instance.family.right if draw < skill else instance.family.mistaken
        return json.dumps({**instance.family.scaffold(way, instance.draw).model_dump(), "final_answer": ""})

    return reply


@pytest.fixture
def trainings(monkeypatch, tmp_path):
    """Serves a model by its folder's name; a training leaves a folder and is taken down."""
    taken = []

    @contextlib.contextmanager
    def local_server(model, **options):
        name = model.parent.name if model.name == "merged" else "base"
        with serve_in_thread(chat_app(model_of(SKILL[name]), models=(name,))) as base_url:
            yield as_server(base_url, name)

    def trained(settings, mode, config, model):
        taken.append((mode, config.name, str(model)))
        (settings.output / mode / "merged").mkdir(parents=True, exist_ok=True)

    module = types.ModuleType("grpo_training.serving.local_server")
    module.local_server = local_server
    monkeypatch.setitem(sys.modules, "grpo_training.serving.local_server", module)
    monkeypatch.setattr(train_demo, "_train", trained)
    monkeypatch.setattr(train, "check_packages", lambda config: None)
    return taken


def test_each_stage_is_trained_on_the_one_before_and_compared_with_the_base(trainings, tmp_path, capfd):
    assert main([*FLAGS, "--output", str(tmp_path), "--model", str(tmp_path)]) == 0
    said = capfd.readouterr().out
    assert trainings == [
        ("offline", "pocket.yaml", str(tmp_path)),
        ("online", "pocket_online.yaml", str(tmp_path / "offline/merged")),
    ]
    results = json.loads((tmp_path / "results.json").read_text())
    arms = {arm["name"]: arm for arm in results["arms"]}
    assert list(arms) == [
        *("base", "base again (A/A)", "library of generator_1", "offline fine-tune", "online after it"),
    ]
    right = {name: arm["accuracy"]["value"] for name, arm in arms.items()}
    assert right["base"] < right["offline fine-tune"] < right["online after it"]
    assert arms["base"]["verdicts"] != arms["base again (A/A)"]["verdicts"]
    assert arms["online after it"]["difference_to_base"]["low"] > 0
    assert re.search(r"online after it: \+\d+\.\d points .* the interval excludes 0\.", said)
    for n in (1, 2, 3):
        groups = (tmp_path / f"cache/generator_{n}_rollouts.jsonl").read_text().splitlines()
        assert [len(json.loads(line)["rollouts"]) for line in groups] == [2] * 4


def test_the_newest_figures_of_a_training(tmp_path):
    path = tmp_path / "metrics.jsonl"
    assert train_demo._last_figures(path) == ""
    path.write_text('{"step": 1, "reward": 0.25}\n{"step": 2, "reward": 0.5, "kl": null, "loss": 1.25}\n')
    assert train_demo._last_figures(path) == "step 2, reward 0.500, loss 1.250"
