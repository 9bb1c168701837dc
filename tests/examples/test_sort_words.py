"""The example of an own task, outside the package, through every command that scores completions."""

import json

import pytest

from engine.datasets import load_problems
from engine.records import Completion
from engine.reward_evaluator import RewardEvaluator
from engine.tasks.registry import load_task
from tests.characterisation.support import ModelServer, Workspace, lesson
from tests.conftest import ROOT
from tests.support.tiny_model import lines, settings, write_model

PLACE = f"{ROOT}/examples/sort_words.py:TASK"


def answer(body):
    """Half of the samples sort the words; the others repeat them. The critic's fusions are sorted."""
    if taught := lesson(body):
        return taught
    text = body["messages"][-1]["content"]
    words = text.partition("by spaces: ")[2].split("\n")[0].split()
    good, bad = (f"<think>Look.</think>\n<answer>{' '.join(order)}</answer>" for order in (sorted(words), words))
    return [good] if body["model"] == "critic" else [good, bad]


@pytest.fixture
def workspace(tmp_path):
    with ModelServer(answer) as server:
        workspace = Workspace(tmp_path)
        workspace.configure(server.base_url)
        yield workspace


def records(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_it_runs_through_generator_critic_and_evaluation(workspace):
    task = ("--task", PLACE)
    workspace.run(["generator1", *task, "--dataset", "sort_words", "--max-problems", 3, "--rollouts", 2, "--window", 1])
    groups = records(workspace.folder / "cache/generator_1_rollouts.jsonl")
    assert [group["task"] for group in groups] == ["sort_words"] * 3
    for group in groups:
        right, wrong = group["rollouts"]
        assert right["components"] == {"exact": 1.0, "in_place": 1.0}
        assert (right["r_ans"], right["r_total"], right["is_correct"]) == (None, 1.0, True)
        assert wrong["r_total"] == pytest.approx(0.2 * wrong["components"]["in_place"])
        assert group["stats"]["triggered"]
    library = json.loads((workspace.folder / "experiences/generator_1_experiences.json").read_text())
    assert library  # groups with different rewards gave experiences

    workspace.run(["critic", *task, "--generators", 1, "--window", 1])
    fusions = records(workspace.folder / "cache/critic_results.jsonl")
    assert [fusion["rewards"]["components"] for fusion in fusions] == [{"exact": 1.0, "in_place": 1.0}] * 3
    wrong = {group["problem_id"]: group["rollouts"][1]["r_total"] for group in groups}
    for fusion in fusions:
        # f = 1; best = 1; the two inputs disagree, so their mean takes the place of the majority.
        mean = (1 + wrong[fusion["problem_id"]]) / 2
        assert fusion["rewards"]["r_fusion"] == pytest.approx(0.5 + (1 - mean) / 4)

    output = workspace.folder / "figures.json"
    places = ("--role", "generator_1", "--api-config", "keys/api_config.json", "--output", output)
    flags = ("--dataset", "sort_words", "--max-problems", 3, "--num-samples", 2, "--k-values", 1)
    workspace.run(["evaluate", *task, *flags, *places], shared=False)
    samples = records(output.with_suffix(".samples.jsonl"))
    assert sorted(sample["is_correct"] for sample in samples) == [False] * 3 + [True] * 3


def test_its_rewards_are_the_weighted_components():
    task = load_task(PLACE)
    [problem] = load_problems("sort_words", max_problems=1)
    words = json.loads(problem.answer)["words"].split()
    swapped = sorted(words)[:2] + sorted(words)[:1:-1]
    for order, expected in ((sorted(words), 1.0), (swapped, 0.1), ([], 0.0)):
        text = f"<answer>{' '.join(order)}</answer>"
        scored = RewardEvaluator().score(task, problem, task.parse(Completion(text=text), problem))
        assert scored.rewards.r_total == pytest.approx(expected)


@pytest.mark.parametrize("reward", [None, f"{ROOT}/examples/sort_words.py:reward"])
def test_a_model_is_trained_online_on_it(tmp_path, reward):
    pytest.importorskip("trl")
    from grpo_training.train.online.loop import train_online

    load_task(PLACE)
    config = settings(
        write_model(tmp_path / "model"),
        mode="online",
        dataset="sort_words",
        dataset_path=None,
        reward=reward,
        num_generations=4,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=1,
        max_steps=1,
        max_completion_length=4,
        max_seq_length=120,
    )
    train_online(config, load_problems("sort_words", max_problems=2), tmp_path / "run")
    [line] = lines(tmp_path / "run")
    assert {"rewards/exact/mean", "rewards/in_place/mean"} <= line.keys()
