"""The fine-tuning demo from its settings to its table; better models stand in for the two trainings."""

import contextlib
import json
import re

import pytest

from grpo_training.demo.settings import TrainDemoSettings
from grpo_training.demo.training import run_train_demo
from grpo_training.training.metrics_log import latest_metrics
from tests.support.fault_server import chat_app, serve_in_thread
from tests.support.quickstart_model import TEST, local_server_at, skilled_reply

SKILL = {"base": 0.25, "offline": 0.6, "online": 0.95}


@contextlib.contextmanager
def serve(model, *, temperature, log):
    """Serves replies of the skill of the model's folder."""
    name = model.parent.name if model.name == "merged" else "base"
    with serve_in_thread(chat_app(skilled_reply(SKILL[name]), models=(name,))) as base_url:
        yield local_server_at(base_url, name)


def test_each_training_starts_from_the_one_before_and_is_compared_with_the_base(tmp_path, capfd):
    trainings = []

    def train(settings, mode, config, model):
        trainings.append((mode, config.name, str(model)))

    settings = TrainDemoSettings(problems=4, rollouts=2, test_problems=TEST, samples=2, output=tmp_path, model=tmp_path)
    assert run_train_demo(settings, serve, train) == 0
    printed = capfd.readouterr().out
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
    assert re.search(r"online after it: \+\d+\.\d points .* the interval excludes 0\.", printed)
    for n in (1, 2, 3):
        groups = (tmp_path / f"cache/generator_{n}_rollouts.jsonl").read_text().splitlines()
        assert [len(json.loads(line)["rollouts"]) for line in groups] == [2] * 4


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ('{"step": 1, "reward": 0.25}\n{"step": 2, "reward": 0.5, "kl": null, "loss": 1.25}\n',
         "step 2, reward 0.500, loss 1.250"),
        ("", ""),
        ('{"step": 1', ""),  # a line that is being written
    ],
)  # fmt: skip
def test_the_latest_metrics_of_a_training(tmp_path, lines, expected):
    path = tmp_path / "metrics.jsonl"
    assert latest_metrics(path) == ""
    path.write_text(lines)
    assert latest_metrics(path) == expected
