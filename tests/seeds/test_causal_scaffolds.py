"""The document about the generators and the critic: its commands in the order of its steps, its files and its figures.

A server gives recorded replies of a real model, so that no key is needed.
"""

import json
from datetime import datetime

import pytest

from engine.errors import ConfigurationError, MissingInputError
from engine.statistics.groups import combine_rewards, group_stats
from engine.tasks.registry import task_named
from grpo_training import critic, experience_extractor, generator1
from tests.conftest import ROOT
from tests.support.main_loop import World
from tests.support.recorded_replies import EXAMPLE

pytestmark = pytest.mark.timeout(300)

GENERATORS = ("generator_1", "generator_2", "generator_3")
FILES = [EXAMPLE / f"{name}_rollouts.jsonl" for name in GENERATORS] + [EXAMPLE / "critic_results.jsonl"]
ROLLOUT_KEYS = ["rollout_id", "scaffold", "answer", "is_correct", "r_ans", "r_logic", "r_graph", "r_total"]
GROUP_KEYS = ["problem_id", "problem_text", "ground_truth", "rollouts", "timestamp"]
FUSION_KEYS = [
    *("problem_id", "problem_text", "ground_truth", "generator_id", "fused_scaffold", "final_answer", "is_correct"),
    *("rewards", "timestamp"),
]
EXPERIENCE_KEYS = ["id", "content", "category", "source_problem", "created_at"]


def rows(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """The folder after steps 1 and 2 of the document."""
    folder = tmp_path_factory.mktemp("document")
    problems = {group["problem_id"]: group for name in FILES[:3] for group in rows(name)}
    (folder / "problems.jsonl").write_text(
        "".join(
            json.dumps({"id": name, "problem": group["problem_text"], "answer": group["ground_truth"]}) + "\n"
            for name, group in problems.items()
        )
    )
    with World(folder, FILES, copies=False) as opened:
        for number in (1, 2, 3):
            assert opened.generate(number, folder / "problems.jsonl", "--max-problems", "4") == 0
        assert opened.criticise() == 0
        yield opened


def test_the_figures_of_the_formats():
    weights = task_named("math").reward_weights
    assert combine_rewards({"r_ans": 0.0, "r_logic": 0.75, "r_graph": 0.80}, weights) == pytest.approx(0.3875)
    four = {"r_ans": 1.0, "r_logic": 0.85, "r_graph": 0.90, "r_fusion": 0.75}
    assert combine_rewards(four, dict.fromkeys(four, 1.0)) == pytest.approx(0.875)
    assert group_stats([0.40, 0.46, 0.50], tau=0.05).triggered is False  # sigma 0.041
    assert group_stats([0.35, 0.46, 0.55], tau=0.05).triggered is True  # sigma 0.082


def test_the_defaults_of_the_flags(capsys):
    for command, wanted in (
        (generator1, {"dataset": "aime2024", "max_problems": None, "rollouts": 3, "temperature": 0.3, "tau": 0.05}),
        (critic, {"temperature": 0.0, "tau": 0.05}),
    ):
        with pytest.raises(SystemExit):
            command.main(["--print-config"])
        printed = json.loads(capsys.readouterr().out)
        assert {name: printed[name] for name in wanted} == wanted


def test_the_caches_have_the_keys_and_the_rewards_are_the_weighted_sums(world):
    for name in GENERATORS:
        groups = rows(world.cache / f"{name}_rollouts.jsonl")
        assert len(groups) == 4
        for group in groups:
            assert list(group)[:5] == GROUP_KEYS
            assert datetime.fromisoformat(group["timestamp"])
            assert len(group["rollouts"]) == 3
            for rollout in group["rollouts"]:
                assert list(rollout)[:8] == ROLLOUT_KEYS
                total = 0.5 * rollout["r_ans"] + 0.25 * rollout["r_logic"] + 0.25 * rollout["r_graph"]
                assert rollout["r_total"] == pytest.approx(total)


def test_the_critic_fuses_what_each_generator_wrote(world):
    fusions = rows(world.cache / "critic_results.jsonl")
    assert len(fusions) == 12
    for fusion in fusions:
        assert list(fusion)[:9] == FUSION_KEYS
        parts = [fusion["rewards"][name] for name in ("r_ans", "r_logic", "r_graph", "r_fusion")]
        assert fusion["rewards"]["r_total"] == pytest.approx(sum(parts) / 4)
    assert sum(bool(fusion["is_correct"]) for fusion in fusions) >= 6


def test_the_libraries_are_arrays_of_short_experiences(world):
    libraries = {name: json.loads((world.experiences / f"{name}_experiences.json").read_text()) for name in GENERATORS}
    entries = [entry for library in libraries.values() for entry in library]
    assert entries
    for name, library in libraries.items():
        for entry in library:
            assert list(entry)[:5] == EXPERIENCE_KEYS
            assert entry["id"].startswith(f"G{name[-1]}-")
            assert entry.get("kind") == "case" or len(entry["content"].split()) <= 32


def test_experiences_are_extracted_again(world):
    assert experience_extractor.main(world.arguments("--role", "generator_1")) == 0


def test_the_problems_of_the_document_name_their_solution(tmp_path):
    config = tmp_path / "api_config.json"
    config.write_text(json.dumps({"critic": {"api_key": "sk-x", "base_url": "http://localhost:1/v1", "model": "m"}}))
    flags = ["--api-config", str(config), "--cache-dir", str(tmp_path), "--experiences-dir", str(tmp_path)]
    with pytest.raises(ConfigurationError, match="API key not found for generator_1"):
        generator1.main([*flags, "--dataset", "quickstart", "--max-problems", "1"])
    with pytest.raises(MissingInputError, match="Rollouts file not found: .*generator_1_rollouts"):
        critic.main(flags)
    assert (ROOT / "data/api_keys/api_config.json.example").is_file()
