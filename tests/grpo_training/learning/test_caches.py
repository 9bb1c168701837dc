"""The generators' rollouts as the critic's steps."""

import json
import tracemalloc

from engine.records import Outcome, Rollout, RolloutGroup
from engine.storage.rollout_store import RolloutStore
from grpo_training.learning.generator_caches import GeneratorCaches


def group(problem_id, answer="1"):
    rollout = Rollout(rollout_id=1, answer=answer, r_total=0.5, outcome=Outcome.OK)
    return RolloutGroup(problem_id=problem_id, problem_text="?", ground_truth="1", rollouts=[rollout], timestamp="t")


def test_keys_stay_in_memory_and_a_group_is_read_when_it_is_fused(tmp_path, recorded):
    path = tmp_path / "generator_1_rollouts.jsonl"
    line = json.loads(recorded["generator_1_rollouts"].read_text().splitlines()[0])
    line["problem_text"] += " and on" * 600
    path.write_text("".join(json.dumps({**line, "problem_id": f"p{number}"}) + "\n" for number in range(1000)))
    assert len(list(GeneratorCaches(tmp_path, "1").steps())) == 1000  # what the first pass keeps is not measured
    tracemalloc.start()
    for number, step in enumerate(GeneratorCaches(tmp_path, "1").steps()):
        assert step.inputs["generator_1"].problem_id == step.problem.id == f"p{number}"
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert number == 999
    assert taken < path.stat().st_size / 8


def test_groups_without_a_step_count_on(tmp_path):
    """Such as rollouts of another machine, to which a generator then adds."""
    store = RolloutStore(tmp_path / "generator_1_rollouts.jsonl")
    store.append(group("a"))
    assert [(step.number, step.problem.id) for step in GeneratorCaches(tmp_path, "1").steps()] == [(0, "a")]
    store.append(group("b"))
    steps = [(step.number, step.problem.id) for step in GeneratorCaches(tmp_path, "1").steps()]
    assert steps == [(0, "a"), (1, "b")]


def test_steps_are_in_problem_order_and_not_in_that_of_the_file(tmp_path):
    store = RolloutStore(tmp_path / "generator_1_rollouts.jsonl")
    for number in (2, 0, 3, 1):
        store.append(group(f"p{number}").model_copy(update={"step": number}))
    steps = [(step.number, step.problem.id) for step in GeneratorCaches(tmp_path, "1").steps()]
    assert steps == [(number, f"p{number}") for number in range(4)]


def test_a_group_that_cannot_be_read_is_left_out_and_named(tmp_path):
    store = RolloutStore(tmp_path / "generator_1_rollouts.jsonl")
    for name in "abc":
        store.append(group(name))
    lines = store.path.read_text().splitlines()
    lines[1] = lines[1].replace('"reward_detail":{}', '"reward_detail":3')
    store.path.write_text("\n".join(lines) + "\n")
    caches = GeneratorCaches(tmp_path, "1")
    assert [step.problem.id for step in caches.steps()] == ["a", "c"]
    assert [line.number for line in caches.broken] == [2]


def test_the_steps_are_the_problems_that_all_generators_have_answered(tmp_path):
    for name, problems in (("generator_1", "abcd"), ("generator_2", "cab")):
        store = RolloutStore(tmp_path / f"{name}_rollouts.jsonl")
        for problem_id in problems:
            store.append(group(problem_id))
    caches = GeneratorCaches(tmp_path, "1,2")
    assert len(caches) == 3
    assert [(step.number, step.problem.id) for step in caches.steps()] == [(0, "a"), (1, "b"), (2, "c")]
    assert caches.notes() == ["left out: 1 group that generator_2 has not completed (d ...)"]
