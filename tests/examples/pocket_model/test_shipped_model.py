"""The shipped model: its files, its recorded figures, and the prompts that it was trained on."""

import json

import pytest

from examples.pocket_model.corpus import prompt_hashes
from examples.pocket_model.quickstart import FAMILIES
from tests.conftest import ROOT

FOLDER = ROOT / "data/models/pocket"


@pytest.fixture(scope="module")
def figures():
    return json.loads((FOLDER / "evaluation.json").read_text())


def test_the_folder_is_whole_and_small():
    files = {path.name: path.stat().st_size for path in FOLDER.iterdir()}
    needed = {"model.safetensors", "config.json", "generation_config.json", "tokenizer.json", "README.md"}
    assert needed | {"tokenizer_config.json", "chat_template.jinja", "evaluation.json"} <= files.keys()
    assert sum(files.values()) < 24 * 2**20
    assert json.loads((FOLDER / "config.json").read_text())["model_type"] == "qwen3"


def test_the_prompts_are_those_that_the_model_was_trained_on(figures):
    assert figures["prompts"] == prompt_hashes(), "the prompts changed: train the pocket model again"


def test_habits_without_a_lesson_and_nearly_always_right_with_one(figures):
    assert figures["settings"]["split"] == "test"
    assert figures["settings"]["temperature"] == 1.0
    assert figures["families"].keys() == FAMILIES.keys()
    assert len(FAMILIES) >= 24
    assert all(row["json"] >= 0.98 for row in figures.values() if "json" in row)
    assert 0.4 <= figures["generator, no lesson"]["right"] <= 0.6
    assert figures["generator, fitting lesson"]["right"] >= 0.85
    critic = figures["critic, no lesson"]
    assert critic["right"] > critic["majority"]


def test_the_card_has_the_limits_of_the_model_and_how_it_was_trained():
    card = (FOLDER / "README.md").read_text()
    assert f"It knows these {len(FAMILIES)} families and nothing else" in card
    assert "python -m examples.pocket_model.train" in card
