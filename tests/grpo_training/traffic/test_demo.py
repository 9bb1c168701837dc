"""The demo's stages: each command is read by its own settings and runs on what the stages before it have made."""

import json
import shutil

import pytest

from grpo_training.cli.parsing import parse_settings
from grpo_training.traffic import demo
from grpo_training.traffic.__main__ import main
from grpo_training.traffic.settings import STEPS
from grpo_training.train.config import GRPOTrainingConfig
from tests.engine.tasks.traffic.support import row

pytest.importorskip("torch")
pytest.importorskip("transformers")
SPLITS = ["train"] * 5 + ["validation"] + ["test"] * 2


class Stages:
    """Runs the stages in this process. SUMO and the trainings are replaced by what they write."""

    def __init__(self):
        self.names, self.generated, self.evaluated = [], {}, []

    def supervise(self, commands):
        (command,) = commands
        self.names.append(command.name)
        module, *words = command.arguments
        if module == "train":
            self.train(parse_settings(GRPOTrainingConfig, words, prog="train", description=""))
            return
        settings = parse_settings(STEPS[words[0]], words[1:], prog=words[0], description="")
        replaced = {"scenarios": self.scenarios, "generate": self.generate}.get(words[0])
        if replaced is not None:
            replaced(settings)
        else:
            assert main(words) == 0

    def scenarios(self, settings):
        for number in range(settings.count):
            folder = settings.scenarios_dir / f"grid_{number}"
            folder.mkdir(parents=True, exist_ok=True)
            spec = {"name": folder.name, "kind": "grid2x2", "profile": "peak", "split": SPLITS[number % 8], "seed": 1}
            spec |= {"length_m": 200, "lanes": 1, "vehicles_per_hour": 150}
            (folder / "scenario.json").write_text(json.dumps(spec))
            (folder / f"{folder.name}.sumocfg").write_text("<configuration/>")

    def generate(self, settings):
        from grpo_training.traffic.steps import chosen_folders

        names = [folder.name for folder in chosen_folders(settings)]
        self.generated[settings.split] = names
        for name in names:
            (settings.output_dir / name).mkdir(parents=True, exist_ok=True)
            rows = [row(time=600.0 + second).model_dump(mode="json") for second in range(settings.max_decisions)]
            rows = [{**one, "id": f"{name}_{number}", "scenario": name} for number, one in enumerate(rows)]
            (settings.output_dir / name / "grpo_dataset.json").write_text(json.dumps(rows))

    def train(self, config):
        assert config.dataset_path.exists()
        shutil.copytree(config.model_name_or_path, config.output_dir / "merged", dirs_exist_ok=True)

    def evaluate(self, settings, folders):
        self.evaluated.append((settings, [folder.name for folder in folders]))
        return 0


@pytest.fixture
def stages(monkeypatch):
    made = Stages()
    monkeypatch.setattr(demo, "supervise", made.supervise)
    monkeypatch.setattr(demo, "evaluate", made.evaluate)
    monkeypatch.setattr(demo, "require_sumo", lambda: None)
    return made


def test_the_stages_of_the_demo_follow_from_each_other_and_a_second_start_keeps_the_model(stages, tmp_path):
    words = ["demo", "--output", str(tmp_path), "--scenarios", "8", "--max-decisions", "3", "--seeds", "1"]
    assert main(words) == 0
    order = ["scenarios", "generate", "generate", "small-model", "sft-data", "rollouts", "train sft"]
    assert stages.names == [*order, "train small-model"]
    chats = (tmp_path / "data/sft_dataset.jsonl").read_text().splitlines()
    groups = (tmp_path / "data/rollouts/enumerated_rollouts.jsonl").read_text().splitlines()
    assert (len(chats), len(groups)) == (15, 15)  # three decisions of five scenarios
    model = tmp_path / "models/small-model/merged"
    [(settings, scenarios)] = stages.evaluated
    assert (settings.policy, settings.dataset) == (f"max-pressure,fixed,{model}", tmp_path / "data/test")
    assert (model / "tokenizer.json").is_file()
    assert scenarios == ["grid_6", "grid_7"]
    assert json.loads((tmp_path / "demo.json").read_text())["seconds"].keys() == set(stages.names)
    assert main(words) == 0
    assert stages.names.count("small-model") == 1


def test_no_scenario_of_the_test_is_trained_on(stages, tmp_path):
    assert main(["demo", "--output", str(tmp_path), "--scenarios", "16", "--max-decisions", "1"]) == 0
    [(_, evaluated)] = stages.evaluated
    trained = {json.loads(line)["problem_id"] for line in (tmp_path / "data/rollouts/enumerated_rollouts.jsonl").open()}
    assert {name.rpartition("_")[0] for name in trained} == set(stages.generated["train"])
    assert len(stages.generated["train"]) == 10
    assert set(stages.generated["test"]) == set(evaluated) == {"grid_6", "grid_7", "grid_14", "grid_15"}
    assert not set(evaluated) & set(stages.generated["train"])
