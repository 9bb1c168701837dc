"""Generators, rewards, experiences and the critic on Python programs."""

import json

import pytest

from engine.errors import IncompleteRunError, InputError
from engine.tasks.code.problems import code_problem
from tests.conftest import SHARED_DATA, shared_file
from tests.support.analyst import for_analyst
from tests.support.main_loop import World, fusions_of, groups_of, normalised
from tests.support.sandbox import fail_every

pytestmark = pytest.mark.timeout(300)

ROWS = [
    {
        "problem_id": f"own_{number}",
        "task_id": f"own_{number}",
        "prompt": f"Write a function that multiplies a number by {number}, nothing else ({number}).",
        "canonical_solution": f"def times(x):\n    return {number} * x",
        "tests": [{"kind": "call", "fn": "times", "args": f"({x},)", "expected": str(number * x)} for x in (0, 1, 5)],
        "public_count": 1,
    }
    for number in (3, 4)
]


def said(code):
    return f"<think>Let me see.</think>\n\n```python\n{code}\n```"


def replies_to(problem):
    """A correct program, one that is correct only for 0, which the prompt shows, and no program."""
    right = json.loads(problem.answer)["reference"]
    entry_point = json.loads(problem.answer)["entry_point"]
    wrong = f"def {entry_point}(*args):\n    return 0"
    return [said(right), said(wrong), "I cannot do this."]


def record(directory, problems):
    """Recorded files of three generators and the critic, whose first fusion of each problem is wrong."""
    files = []
    for number in (1, 2, 3):
        path = directory / f"generator_{number}_rollouts.jsonl"
        lines = [
            {
                "problem_id": problem.id, "problem_text": problem.text, "ground_truth": problem.answer,
                "rollouts": [{"rollout_id": k, "scaffold": text} for k, text in enumerate(replies_to(problem), 1)],
                "timestamp": "t",
            }
            for problem in problems
        ]  # fmt: skip
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        files.append(path)
    path = directory / "critic_results.jsonl"
    lines = [
        {
            "problem_id": problem.id, "problem_text": problem.text, "ground_truth": problem.answer,
            "generator_id": f"generator_{number}", "fused_scaffold": replies_to(problem)[1 if number == 1 else 0],
            "final_answer": None, "timestamp": "t",
        }
        for problem in problems
        for number in (1, 2, 3)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return [*files, path]


@pytest.fixture
def own(tmp_path):
    dataset = tmp_path / "own.jsonl"
    dataset.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    problems = [code_problem(row, "x") for row in ROWS]
    (tmp_path / "recorded").mkdir()
    return dataset, record(tmp_path / "recorded", problems)


def test_generators_and_critic_on_programs(own, tmp_path):
    dataset, files = own
    with World(tmp_path / "run", files, copies=False) as world:
        for number in (1, 2, 3):
            assert world.generate(number, dataset) == 0
        assert world.criticise() == 0
        first = normalised(world)
        asked = len(world.traffic.requests)
        assert world.generate(1, dataset) == 0
        assert world.criticise() == 0
        assert normalised(world) == first
        assert len(world.traffic.requests) == asked  # nothing is paid for twice
    for number in (1, 2, 3):
        for group, row in zip(groups_of(world, number), ROWS, strict=True):
            right, wrong, none = group["rollouts"]
            assert (right["scaffold"], right["r_ans"], right["is_correct"]) == (row["canonical_solution"], 1.0, True)
            assert [rollout["r_ans"] for rollout in group["rollouts"]] == [1.0, 0.0, 0.0]
            assert [rollout["r_logic"] for rollout in group["rollouts"]] == pytest.approx([1.0, 0.0, 0.0])
            assert {rollout["r_graph"] for rollout in group["rollouts"]} == {None}
            assert [rollout["r_total"] for rollout in group["rollouts"]] == pytest.approx([1.0, 0.0, 0.0])
            assert (none["outcome"], none["fault"]["kind"], none["repairs"]) == (
                "model_fault",
                "no_code",
                ["re_asked", "first_kept"],
            )
            assert wrong["reward_detail"]["remarks"][0] == "1 of 3 tests pass"
            assert group["task"] == "code"
            assert group["stats"]["triggered"]
    library = json.loads((world.experiences / "generator_1_experiences.json").read_text())
    assert [experience.get("kind", "lesson") for experience in library] == ["lesson", "case"] * 2
    for case, row in zip(library[1::2], ROWS, strict=True):
        assert case["content"] == f"{row['prompt']}\n{row['canonical_solution']}"
    # Problems overlap, and so may their lines in the file.
    fusions = sorted(fusions_of(world), key=lambda fusion: (fusion["problem_id"], fusion["generator_id"]))
    assert [fusion["merged"] for fusion in fusions] == ["model"] * 6
    assert [fusion["is_correct"] for fusion in fusions] == [False, True, True] * 2
    # A right fusion: f = 1; best = 1; the inputs' answers are all different, so their mean takes the majority's place:
    # (1 + 0 + 0) / 3 = 1/3, and r_fusion = 1/2 + ((1 - 1) + (1 - 1/3)) / 4 = 2/3.
    assert [fusion["rewards"]["r_fusion"] for fusion in fusions[1:3]] == pytest.approx([2 / 3, 2 / 3])
    assert json.loads((world.experiences / "critic_experiences.json").read_text())


def test_the_analyst_sees_programs_and_what_failed(own, tmp_path):
    dataset, files = own
    with World(tmp_path / "run", files, copies=False) as world:
        assert world.generate(1, dataset, "--max-problems", 1) == 0
    [body] = [json.loads(entry["body"]) for entry in world.traffic.requests if for_analyst(json.loads(entry["body"]))]
    system, user = (message["content"] for message in body["messages"])
    assert "one rule for other problems of this kind" in system
    assert "says what to check or do in such a program" in user
    for text in ("def times(x):\n    return 3 * x", "(1 of 3 tests pass; first failure: wrong_answer in", "no_code"):
        assert text in user
    assert "scaffold" not in system + user


def test_fusions_of_another_prompt_are_refused(own, tmp_path):
    dataset, files = own
    with World(tmp_path / "run", files, copies=False) as world:
        for number in (1, 2, 3):
            assert world.generate(number, dataset) == 0
        assert world.criticise() == 0
        results = world.cache / "critic_results.jsonl"
        fusion = json.loads(results.read_text().splitlines()[0])
        results.write_text(results.read_text().replace(fusion["policy"]["prompt_hash"], "0123456789ab"))
        with pytest.raises(InputError, match="another prompt"):
            world.criticise()


def test_mbpp_by_name(tmp_path, monkeypatch):
    from engine.datasets import load_problems

    shared_file("datasets/mbpp_train.jsonl")
    monkeypatch.setenv("SCAFFOLD_DATA", str(SHARED_DATA / "datasets"))
    files = record(tmp_path, load_problems("mbpp", max_problems=5))
    with World(tmp_path / "run", files, copies=False) as world:
        assert world.generate(1, "mbpp", "--max-problems", 5, "--prompts", "zh") == 0
    groups = groups_of(world, 1)
    assert [group["problem_id"] for group in groups] == [f"mbpp_{number}" for number in range(601, 606)]
    assert [[rollout["is_correct"] for rollout in group["rollouts"]] for group in groups] == [[True, False, False]] * 5
    assert json.loads((world.experiences / "generator_1_experiences.json").read_text())


def test_occasional_sandbox_failures_change_no_result(own, tmp_path, monkeypatch):
    """A program that could not be run leaves its group open, and the same command completes it."""
    dataset, files = own
    with World(tmp_path / "calm", files, copies=False) as world:
        assert world.generate(1, dataset) == 0
        expected = normalised(world)
        asked = len(world.traffic.requests)
    stopped = []
    fail_every(7, monkeypatch)
    with World(tmp_path / "stormy", files, copies=False) as world:
        while len(stopped) < 20:
            try:
                assert world.generate(1, dataset) == 0
                break
            except IncompleteRunError as error:
                stopped.append(error.what)
        assert 0 < len(stopped) < 20
        assert all("an answer could not be verified: injected" in message for message in stopped)
        assert normalised(world) == expected
        assert len(world.traffic.requests) == asked
