"""Defects of an earlier system of this kind, by their number in its list; none may occur here."""

import json
import re

import pytest

from engine.records import Completion, Scaffold
from engine.reward_evaluator import RewardEvaluator
from engine.statistics.groups import DeadRewardWatch, combine_rewards
from tests.engine.tasks.test_scaffold_task import APPLES, MATH, scaffold
from tests.support.fault_server import FaultPlan
from tests.support.main_loop import World, fusions_of, groups_of
from tests.support.scripted_client import ScriptedClient


@pytest.fixture(scope="module")
def finished(recorded, aime2024, tmp_path_factory):
    """Generators 1 to 3 and the critic on twenty problems."""
    with World(tmp_path_factory.mktemp("finished"), list(recorded.values())) as world:
        for number in (1, 2, 3):
            world.generate(number, aime2024, "--max-problems", 20, "--temperature", 0.7, "--tau", 0.01)
        world.criticise()
        yield world


def sent(world):
    return [json.loads(entry["body"]) for entry in world.traffic.requests]


def test_01_templates_are_checked_when_an_agent_is_made():
    from engine.records import Sampling
    from grpo_training.agents.analyst import ExperienceAnalyst
    from grpo_training.agents.critic import CriticAgent
    from grpo_training.agents.generator import GeneratorAgent
    from grpo_training.agents.judge import Judge

    client = ScriptedClient()  # a template that does not fit raises
    ExperienceAnalyst(client, "analyst", "generator")
    GeneratorAgent(client, "generator_1", Sampling())
    CriticAgent(client, Sampling())
    Judge(client)


def test_02_operations_are_applied_and_every_experience_has_content(finished):
    lessons = json.loads((finished.experiences / "generator_1_experiences.json").read_text())
    assert lessons
    assert all(lesson["content"] and re.fullmatch(r"G1-\d{3}", lesson["id"]) for lesson in lessons)
    assert all(lesson["source_problem"].startswith("aime2024_") for lesson in lessons)


def test_03_the_temperature_that_is_asked_for_is_sent(finished):
    rollouts = [body for body in sent(finished) if body["model"].startswith("generator") and body.get("n") == 3]
    assert rollouts
    assert {body["temperature"] for body in rollouts} == {0.7}
    assert {body["temperature"] for body in sent(finished) if body["model"] == "critic"} == {0.0}


def test_04_and_06_no_component_of_the_reward_is_constant(finished):
    groups = [group for number in (1, 2, 3) for group in groups_of(finished, number)]
    rollouts = [rollout for group in groups for rollout in group["rollouts"]]
    for component in ("r_ans", "r_logic", "r_graph"):
        assert len({rollout[component] for rollout in rollouts}) > 1, component
    assert len({fusion["rewards"]["r_fusion"] for fusion in fusions_of(finished)}) > 1


def test_05_a_perfect_scaffold_with_lists_of_causes_earns_the_whole_graph_reward():
    scored = RewardEvaluator().score(MATH, APPLES, MATH.parse(Completion(text=json.dumps(scaffold())), APPLES))
    assert scored.rewards.r_graph == 1.0


def test_07_the_answer_is_computed_by_the_graph():
    changed = scaffold(knowns={"crates": 5, "each": 4}, final_answer="12")
    assert MATH.evaluate(MATH.parse(Completion(text=json.dumps(changed)), APPLES), APPLES).answer == "20"


def test_08_scaffolds_are_stored_as_json_and_read_back_by_the_critic(finished):
    for group in groups_of(finished, 1):
        for rollout in group["rollouts"]:
            if rollout["scaffold"] is not None:
                Scaffold.model_validate_json(rollout["scaffold"])
    raw = scaffold()
    forms = [raw, json.dumps(raw), repr(raw)]
    candidates = [MATH.candidate_from_record(form, "12", APPLES) for form in forms]
    assert {MATH.evaluate(candidate, APPLES).answer_source for candidate in candidates} == {"executed"}
    assert MATH.candidate_from_record("no scaffold at all", "12", APPLES).stated_answer == "12"


def test_09_one_set_of_weights_gives_the_documented_figures():
    generator = {"r_ans": 0.0, "r_logic": 0.75, "r_graph": 0.80}
    critic = {"r_ans": 1.0, "r_logic": 0.85, "r_graph": 0.90, "r_fusion": 0.75}
    assert combine_rewards(generator, MATH.reward_weights) == pytest.approx(0.3875)
    assert combine_rewards(critic, dict.fromkeys(critic, 0.25)) == pytest.approx(0.875)


def test_10_a_failed_call_never_becomes_a_reward(recorded, aime2024, tmp_path):
    from engine.errors import IncompleteRunError

    plan = FaultPlan(seed=1, rate=1.0, kinds=("503",), max_consecutive_per_request=10**6)
    with World(tmp_path, list(recorded.values()), plan=plan) as world:
        with pytest.raises(IncompleteRunError, match="HTTP 503"):
            world.generate(1, aime2024, "--attempts", 1)
        assert groups_of(world, 1) == []
        assert (
            not (world.experiences / "generator_1_experiences.json").exists()
            or json.loads((world.experiences / "generator_1_experiences.json").read_text()) == []
        )


def test_11_a_second_start_adds_no_second_line(finished, aime2024):
    before = groups_of(finished, 1)
    finished.generate(1, aime2024, "--max-problems", 20, "--temperature", 0.7, "--tau", 0.01)
    assert groups_of(finished, 1) == before


def test_13_problems_are_asked_in_parallel(recorded, aime2024, tmp_path):
    with World(tmp_path, list(recorded.values()), latency_s=0.3) as world:
        world.generate(1, aime2024, "--max-problems", 9, "--window", 8)
    spans = [
        (entry["came"], entry["left"])
        for entry in world.traffic.requests
        if b'"n": 3' in entry["body"] or b'"n":3' in entry["body"]
    ]
    most = max(sum(came <= moment < left for came, left in spans) for moment, _ in spans)
    assert most >= 4


def test_14_uses_are_counted(finished):
    lessons = json.loads((finished.experiences / "generator_1_experiences.json").read_text())
    counted = [
        sum(
            lesson["id"] in rollout["experience_ids"]
            for group in groups_of(finished, 1)
            for rollout in group["rollouts"]
        )
        for lesson in lessons
    ]
    assert [lesson["uses"]["rollouts"] for lesson in lessons] == counted


def test_16_interventions_are_measured_between_0_and_1(finished):
    shares = [
        rollout["reward_detail"]["logic"]["interventions"]
        for number in (1, 2, 3)
        for group in groups_of(finished, number)
        for rollout in group["rollouts"]
        if "logic" in rollout["reward_detail"]
    ]
    measured = [share for share in shares if share is not None]
    assert measured
    assert all(0 <= share <= 1 for share in measured)


def test_17_no_part_of_a_key_is_printed_or_stored(recorded, aime2024, tmp_path, capfd):
    key = "sk-Zq81xvMPuR7wTt0cLbN4"
    with World(tmp_path, list(recorded.values())) as world:
        world.write_config(world.base_url, api_key=key)
        world.generate(1, aime2024, "--max-problems", 2)
        process = world.start("generator2", "--dataset", aime2024, "--print-config")
        shown = process.communicate(timeout=60)[0] + "".join(capfd.readouterr())
    written = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file() and file != world.config]
    for start in range(len(key) - 7):
        piece = key[start : start + 8]
        assert piece not in shown
        assert not any(piece.encode() in content for content in written)


def test_a_constant_component_raises_the_dead_reward_alarm():
    watch = DeadRewardWatch(window=3)
    alarms = [watch.feed({"r_logic": [0.5, 0.5, 0.5]}) for _ in range(5)]
    assert [len(raised) for raised in alarms] == [0, 0, 1, 0, 0]
    assert "r_logic was 0.5 in all 9 rollouts" in alarms[2][0].reason
