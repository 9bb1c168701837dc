"""Generators, critic and experiences on games, with replies from a replay server and the validator of the project."""

import json
import random

import pytest

from engine.tasks.phaser.mock.faults import FAULTS, GOOD
from engine.tasks.phaser.mock.rollouts import reply_text
from engine.tasks.phaser.problems import read_prompt
from engine.tasks.phaser.seeds.prompt_seeds import make_prompt_seeds
from engine.tasks.phaser.task import TASK
from engine.tasks.phaser.validation import shared_validator
from tests.support.main_loop import World, fusions_of, groups_of

pytestmark = [pytest.mark.node, pytest.mark.timeout(300)]

REPLIES = ("good", "missing_game", "no_code")
KINDS = {fault.name: fault for fault in (GOOD, *FAULTS)}


@pytest.fixture
def default_index(api_index, monkeypatch):
    """The index in its usual place, and a validator that ends with the test."""
    monkeypatch.setattr(shared_validator, "DEFAULT_PATH", api_index.path)
    opened = {}
    monkeypatch.setattr(shared_validator, "_open", opened)
    yield
    for _, validator in opened.values():
        validator.close()


def record(folder, rows):
    """The recorded files of three generators and the critic, which always fuses a right game."""
    folder.mkdir()
    rng = random.Random(0)
    replies = {
        row["id"]: {kind: reply_text(read_prompt(row, "here"), KINDS[kind], rng) for kind in REPLIES} for row in rows
    }
    problems = [TASK.problem_from_row(row, "here") for row in rows]
    problem_fields = [
        {"problem_id": problem.id, "problem_text": problem.text, "ground_truth": problem.answer} for problem in problems
    ]
    files = {
        f"generator_{number}_rollouts.jsonl": [
            {
                **fields,
                "rollouts": [
                    {"rollout_id": position, "scaffold": replies[fields["problem_id"]][kind]}
                    for position, kind in enumerate(REPLIES, 1)
                ],
                "timestamp": "t",
            }
            for fields in problem_fields
        ]
        for number in (1, 2, 3)
    }
    files["critic_results.jsonl"] = [
        {
            **fields,
            "generator_id": f"generator_{number}",
            "fused_scaffold": replies[fields["problem_id"]]["good"],
            "final_answer": None,
            "timestamp": "t",
        }
        for fields in problem_fields
        for number in (1, 2, 3)
    ]
    for name, lines in files.items():
        (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return [folder / name for name in files]


def test_games_run_on_the_rails_of_every_task(default_index, tmp_path):
    rows = make_prompt_seeds(40, 1, "en")[:1]
    dataset = tmp_path / "prompts.jsonl"
    dataset.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with World(tmp_path / "run", record(tmp_path / "recorded", rows), copies=False) as world:
        assert [world.generate(number, dataset) for number in (1, 2, 3)] == [0, 0, 0]
        assert world.criticise() == 0
        groups = groups_of(world, 1)
        assert [group["problem_id"] for group in groups] == [row["id"] for row in rows]
        for group in groups:
            right, without_game, without_code = group["rollouts"]
            assert (right["is_correct"], without_game["is_correct"]) == (True, False)
            assert right["r_total"] > 0.9
            assert 0 < without_game["r_total"] <= 0.15 + 0.85 * 0.2
            assert (without_code["r_total"], without_code["outcome"]) == (0.0, "model_fault")
            assert without_game["reward_detail"]["remarks"][0].startswith("the run ended with no_game")
            assert group["stats"]["triggered"]
        experiences = json.loads((world.experiences / "generator_1_experiences.json").read_text())
        assert {experience["source_problem"] for experience in experiences} == {row["id"] for row in rows}
        fusions = fusions_of(world)
        assert [fusion["is_correct"] for fusion in fusions] == [True] * 3
