"""The traffic task in generators and critic, and its measurements."""

import json

import pytest

from engine.datasets import load_problems
from engine.errors import InputError
from engine.records import Completion, Outcome
from engine.reward_evaluator import RewardEvaluator
from engine.task import validate
from engine.tasks.registry import task_named
from tests.characterisation.support import ModelServer, Workspace, lesson
from tests.engine.tasks.traffic.support import row


@pytest.fixture
def dataset(tmp_path):
    """Two decisions: extending is better in the first, switching in the second."""
    rows = [row(extend=5, switch=9, time=600.0), row(extend=9, switch=5, time=700.0)]
    path = tmp_path / "grid2x2" / "grpo_dataset.json"
    path.parent.mkdir()
    path.write_text(json.dumps([entry.model_dump(mode="json") for entry in rows], indent=2))
    return path


def measured(problem, text):
    task = task_named("traffic")
    return RewardEvaluator().score(task, problem, task.parse(Completion(text=text), problem))


def test_the_better_branch_earns_most_and_no_decision_earns_nothing(dataset):
    first, second = load_problems(str(dataset))
    assert (first.task, first.id) == ("traffic", "grid2x2_n7_600_9")
    totals = [measured(first, text).rewards.r_total for text in ('{"extend": "yes"}', '{"extend": "no"}', "yes")]
    assert totals[0] > 0.8
    assert totals[1] == 0
    assert totals[2] == 0
    assert measured(second, '{"extend": "no"}').is_correct


def test_the_gold_reply_is_right_and_the_empty_one_earns_nothing(dataset):
    for problem in load_problems(str(dataset)):
        assert validate(task_named("traffic"), problem) == []


def test_a_right_decision_in_poor_form_earns_more_than_a_wrong_one_in_perfect_form(dataset):
    first, _ = load_problems(str(dataset))
    poor, perfect = measured(first, 'I say {"extend": "yes"}'), measured(first, '{"extend": "no"}')
    assert poor.rewards.r_total > perfect.rewards.r_total + 0.2


def test_a_better_decision_earns_more_where_it_saves_more_and_either_is_right_where_both_end_alike(dataset):
    values = json.loads(dataset.read_text())
    for entry, name in zip(values, ("far", "tie"), strict=True):
        switch = {"far": 29, "tie": 9}[name] * entry["horizon"]
        entry["branches"]["switch"]["queue_seconds"] = switch
        entry["branches"]["extend"]["queue_seconds"] = 9 * entry["horizon"]
    dataset.write_text(json.dumps(values))
    far, tie = load_problems(str(dataset))
    # gain 20: 0.5 + 0.4 (1 + tanh 2) / 2 + 0.1 = 0.9928; gain 0: 0.5 + 0.4 / 2 + 0.1 = 0.8
    assert measured(far, '{"extend": "yes"}').rewards.r_total == pytest.approx(0.9928, abs=1e-4)
    assert [measured(tie, f'{{"extend": "{word}"}}').rewards.r_total for word in ("yes", "no")] == [0.8, 0.8]


@pytest.mark.parametrize("text", ["", "\x00", "{" * 50_000, '{"extend": {"extend": "no"', "是"])
def test_hostile_text_is_a_model_fault(dataset, text):
    first, _ = load_problems(str(dataset))
    scored = measured(first, text)
    assert scored.outcome is Outcome.MODEL_FAULT
    assert scored.rewards.r_total == 0


def test_a_broken_row_is_named(dataset):
    values = json.loads(dataset.read_text())
    del values[1]["branches"]
    dataset.write_text(json.dumps(values))
    with pytest.raises(InputError, match="branches"):
        load_problems(str(dataset))


def test_an_experience_may_not_name_the_junction_or_the_moment(dataset):
    first, _ = load_problems(str(dataset))
    task, state = task_named("traffic"), json.loads(first.text)
    assert task.leaks_answer(f"At crossing {state['crossing_id']} always extend.", first)
    assert not task.leaks_answer("Extend while vehicles still arrive on the current phase.", first)
    assert not task.leaks_answer(f"Extend where 1{state['crossing_id']}0 vehicles arrive.", first)
    foreign = first.model_copy(update={"text": "a state in words"})  # of a dataset of another program
    assert task.leaks_answer(f"At crossing {state['crossing_id']} always extend.", foreign)
    assert task.leaks_answer(f"At {state['as_of']} extend.", foreign)


def test_generator_and_critic_learn_from_decisions(dataset, tmp_path):
    def answer(body):
        if taught := lesson(body):
            return taught
        assert "phase_metrics_by_id" in body["messages"][-1]["content"]
        return ['{"extend": "no"}'] if body["model"] == "critic" else ['{"extend": "yes"}', '{"extend": "no"}']

    with ModelServer(answer) as server:
        workspace = Workspace(tmp_path)
        workspace.configure(server.base_url)
        workspace.run(["generator1", "--dataset", dataset, "--rollouts", 2, "--window", 1])
        workspace.run(["critic", "--generators", 1, "--window", 1])
    groups = [json.loads(line) for line in (tmp_path / "cache/generator_1_rollouts.jsonl").read_text().splitlines()]
    assert [[rollout["is_correct"] for rollout in group["rollouts"]] for group in groups] == [
        [True, False],
        [False, True],
    ]
    assert all(group["stats"]["triggered"] for group in groups)
    assert set(groups[0]["rollouts"][0]["components"]) == {"r_tsc", "r_format"}
    fusions = [json.loads(line) for line in (tmp_path / "cache/critic_results.jsonl").read_text().splitlines()]
    assert [fusion["is_correct"] for fusion in fusions] == [False, True]
    assert json.loads((tmp_path / "experiences/generator_1_experiences.json").read_text())


def test_a_decision_is_displayed_with_the_queues_of_both_branches(dataset, tmp_path):
    first, _ = load_problems(str(dataset))
    task = task_named("traffic")
    candidate = task.parse(Completion(text='{"extend": "yes"}'), first)
    [block] = task.display(candidate, first, {}, tmp_path)
    rows = {row[0]: row[1:] for row in block.rows}
    assert rows["mean over the horizon"] == ("", "5.0", "9.0")
    assert "the better decision" in block.text
    assert task.display(candidate, first.model_copy(update={"answer": "[1]"}), {}, tmp_path) == []
