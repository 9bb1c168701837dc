"""Decisions as training data: enumerated rollouts in the cache format."""

import json

import pytest

from engine.errors import InputError
from engine.records import SamplingPolicy
from engine.reward_evaluator import RewardEvaluator
from grpo_training.traffic.__main__ import main
from grpo_training.traffic.training_data import ENUMERATED, ROLLOUTS, enumerated_group, problem_of
from grpo_training.train.config import GRPOTrainingConfig
from grpo_training.train.data.rollout_data import load_groups
from tests.engine.tasks.traffic.support import row


def write_rows(folder, *rows):
    (folder / "scenario").mkdir(parents=True)
    values = [one.model_dump(mode="json") | {"id": f"r{number}"} for number, one in enumerate(rows)]
    (folder / "scenario/grpo_dataset.json").write_text(json.dumps(values))
    return folder


def test_both_decisions_are_scored_as_the_task_scores_a_models_reply_and_say_that_no_model_wrote_them():
    problem = problem_of(row(before=7, extend=4, switch=8))
    group = enumerated_group(problem, RewardEvaluator(), SamplingPolicy(model=ENUMERATED), "now")
    extend, switch = group.rollouts
    assert (extend.completion.text, switch.completion.text) == ('{"extend": "yes"}', '{"extend": "no"}')
    # r_ans 0.5, r_tsc 0.4 (1 + tanh(4 / 10)) / 2, r_format 0.1; the worse branch earns nothing
    assert extend.r_total == pytest.approx(0.5 + 0.4 * 0.68997 + 0.1, abs=1e-4)
    assert switch.r_total == 0
    assert (extend.is_correct, switch.is_correct) == (True, False)
    assert group.policy.model == ENUMERATED
    assert all(one.reward_detail[ENUMERATED] and one.completion.model == ENUMERATED for one in group.rollouts)


def test_the_fine_tune_reads_the_groups_with_the_prompt_of_the_chosen_style(tmp_path):
    rows = [row(extend=4, switch=8), row(extend=9, switch=7), row(extend=5, switch=5)]
    data = write_rows(tmp_path / "data", *rows)
    out = tmp_path / "out"
    assert main(["rollouts", "--dataset", str(data), "--output-dir", str(out), "--prompts", "compact"]) == 0
    config = GRPOTrainingConfig.model_validate(
        {"model_name_or_path": "none", "dataset_path": str(out / ROLLOUTS), "prompts": "compact"}
    )
    groups, report = load_groups(config)
    assert [group.problem_id for group in groups] == ["r0", "r1"]  # the third teaches nothing: both are equal
    assert sum(report.dropped.values()) == 1
    better = [max(group.responses, key=lambda one: one.reward).text for group in groups]
    assert better == ['{"extend": "yes"}', '{"extend": "no"}']
    assert groups[0].messages[-1].content.endswith(rows[0].prompt)
    assert "their prompt differs" not in str(report)


@pytest.mark.parametrize("step", ["sft-data", "rollouts", "evaluate"])
def test_rows_that_are_there_twice_or_not_at_all_are_refused(tmp_path, step):
    out = ["--output", str(tmp_path / "out.json")] if step == "evaluate" else ["--output-dir", str(tmp_path / "out")]
    words = [step, "--dataset", str(write_rows(tmp_path / "data", row(extend=4, switch=8), row())), *out]
    path = tmp_path / "data/scenario/grpo_dataset.json"
    rows = json.loads(path.read_text())
    path.write_text(json.dumps([*rows, rows[0]]))
    with pytest.raises(InputError, match="grpo_dataset.json, row 3: the id 'r0' is there twice"):
        main(words)
    path.write_text("[]")
    with pytest.raises(InputError, match="has no rows"):
        main(words)
    assert not (tmp_path / "out").exists()
