"""Generator, rewards, experiences, critic and the data of an offline training on decisions of traffic lights."""

import json

import pytest

from engine.tasks.traffic.task import TASK
from grpo_training.train.config import GRPOTrainingConfig
from grpo_training.train.data.rollout_data import load_groups
from tests.engine.tasks.traffic.support import row
from tests.support.main_loop import World, fusions_of, groups_of

YES, NO = '{"extend": "yes"}', '{"extend": "no"}'
REPLIES = [YES, NO, "It depends."]
# r_ans 0.5, r_tsc 0.4 (1 + tanh(4 / 10)) / 2, r_format 0.1 x 0.25: the replay server adds a key to a JSON reply, so
# that these are partial. The worse branch earns nothing.
TOTALS = [0.5 + 0.4 * 0.68997 + 0.025, 0.0, 0.0]


def rows():
    return [
        row(before=7, extend=4, switch=8, time=600.0).model_dump(mode="json") | {"id": "extend_is_better"},
        row(before=7, extend=8, switch=4, time=700.0).model_dump(mode="json") | {"id": "switch_is_better"},
    ]


def record(folder, problems):
    """The recorded files of three generators and the critic."""
    folder.mkdir()
    same = [
        {"problem_id": problem.id, "problem_text": problem.text, "ground_truth": problem.answer} for problem in problems
    ]
    replies = [{"rollout_id": number, "scaffold": text} for number, text in enumerate(REPLIES, 1)]
    numbers = (1, 2, 3)
    files = {
        f"generator_{number}_rollouts.jsonl": [{**fields, "rollouts": replies, "timestamp": "t"} for fields in same]
        for number in numbers
    }
    files["critic_results.jsonl"] = [
        {**fields, "generator_id": f"generator_{number}", "fused_scaffold": YES, "final_answer": None, "timestamp": "t"}
        for fields in same
        for number in numbers
    ]
    for name, lines in files.items():
        (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return [folder / name for name in files]


def test_decisions_run_on_the_rails_of_every_task(tmp_path):
    dataset = tmp_path / "grpo_dataset.json"
    dataset.write_text(json.dumps(rows()))
    problems = [TASK.problem_from_row(decision, "here") for decision in rows()]
    with World(tmp_path / "run", record(tmp_path / "recorded", problems), copies=False) as world:
        assert [world.generate(number, dataset) for number in (1, 2, 3)] == [0, 0, 0]
        assert world.criticise() == 0
        assert {(fusion["problem_id"], fusion["is_correct"]) for fusion in fusions_of(world)} == {
            ("extend_is_better", True),
            ("switch_is_better", False),
        }
        groups = groups_of(world, 1)
        totals = [[rollout["r_total"] for rollout in group["rollouts"]] for group in groups]
        assert totals[0] == pytest.approx(TOTALS, abs=1e-4)
        assert totals[1] == pytest.approx([TOTALS[1], TOTALS[0], 0.0], abs=1e-4)
        mean = sum(TOTALS) / 3
        sigma = (sum((total - mean) ** 2 for total in TOTALS) / 3) ** 0.5
        for group in groups:
            assert group["stats"]["mean"] == pytest.approx(mean, abs=1e-4)
            assert group["stats"]["std"] == pytest.approx(sigma, abs=1e-4)
            assert group["stats"]["triggered"]
            assert group["rollouts"][2]["outcome"] == "model_fault"
        experiences = json.loads((world.experiences / "generator_1_experiences.json").read_text())
        assert {experience["source_problem"] for experience in experiences} == {"extend_is_better", "switch_is_better"}
        config = GRPOTrainingConfig.model_validate(
            {
                "model_name_or_path": "none",
                "dataset_path": str(world.cache / "generator_1_rollouts.jsonl"),
                "prompts": "compact",
                "experiences": "strip",
            }
        )
        trained, _ = load_groups(config)
        assert [[response.reward for response in group.responses] for group in trained] == totals
        assert trained[0].messages[-1].content.endswith(problems[0].text)
