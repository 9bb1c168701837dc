"""Training and scoring with outcomes that are simulated instead of read from the rows."""

import importlib.util
import json
import os
import random
import shutil
import signal

import pytest

from engine.errors import InputError, MissingInputError
from engine.tasks.registry import task_named
from engine.tasks.traffic.simulation import live as live_module
from engine.tasks.traffic.simulation import process as process_module
from engine.tasks.traffic.simulation.live import TooManyFailuresError
from engine.tasks.traffic.simulation.process import simulate
from grpo_training.score_rollouts.__main__ import main as score_rollouts
from grpo_training.train.online.reward_settings import check_rewards, reward_functions
from grpo_training.train.online.rewards import TrlReward
from tests.grpo_training.train.online.test_rewards import score

pytestmark = [
    pytest.mark.sumo,
    pytest.mark.skipif(importlib.util.find_spec("libsumo") is None, reason="SUMO is not installed (make traffic)"),
    pytest.mark.timeout(120),
]
YES, NO, PARTLY, UNREADABLE = '{"extend": "yes"}', '{"extend": "no"}', "so {extend: yes}", "perhaps"


def rows_of(folder):
    return [row for path in sorted(folder.glob("*/grpo_dataset.json")) for row in json.loads(path.read_text())]


def problems_of(rows):
    return [task_named("traffic").problem_from_row(row, "here") for row in rows]


def with_false_outcomes(row):
    """The row as if nothing had queued in either branch."""
    nothing = dict.fromkeys(row["branches"]["extend"], 0) | {"phase_queues": {}}
    return row | {"branches": {"extend": nothing, "switch": nothing}}


@pytest.fixture
def live(scenarios, generated):
    return {
        "tsc_reward_mode": "live",
        "live_dataset": str(generated),
        "live_scenarios_dir": str(scenarios),
        "reward_scale": 3.0,
    }


@pytest.fixture
def simulations(monkeypatch):
    """The arguments of the simulations that are started in the test."""
    started = []

    def note(*arguments, **options):
        started.append(arguments)
        return simulate(*arguments, **options)

    monkeypatch.setattr(live_module, "simulate", note)
    return started


def pay(problems, texts, settings):
    with reward_functions(problems, settings) as paid_by, TrlReward(reward_functions=paid_by) as reward:
        return score(reward, problems, texts), reward.latest


def test_a_shuffled_batch_is_paid_the_same_by_simulated_and_by_stored_outcomes(generated, live, simulations):
    """The rows of the batch have false outcomes, so that the rewards can only come from the simulations."""
    rows = rows_of(generated)
    assert len({row["scenario"] for row in rows}) == 2
    batch = [(number, text) for number in range(len(rows)) for text in (YES, NO, PARTLY, UNREADABLE)]
    random.Random(7).shuffle(batch)
    true, false = problems_of(rows), problems_of(map(with_false_outcomes, rows))
    for samples, options in ((batch, {}), (batch[:20], {"use_relative_baseline": True})):
        texts = [text for _, text in samples]
        stored, of_stored = pay([true[number] for number, _ in samples], texts, {"reward_scale": 3.0} | options)
        before = len(simulations)
        simulated, of_simulated = pay([false[number] for number, _ in samples], texts, live | options)
        assert simulated == stored
        assert [scored.figures for scored in of_simulated] == [scored.figures for scored in of_stored]
        assert len(set(stored)) > 5
        decisions = {(number, word) for number, text in samples for word in ((YES, NO) if text != UNREADABLE else ())}
        assert len(simulations) - before == len(decisions)  # each is simulated once
    assert pay([false[number] for number, _ in samples], texts, {"reward_scale": 3.0})[0] != stored


@pytest.mark.parametrize("number_of_signal", [signal.SIGSTOP, signal.SIGKILL], ids=["hangs", "dies"])
def test_a_simulation_that_hangs_or_dies_is_not_scored_and_done_again_when_it_is_asked_for_again(
    generated, live, monkeypatch, number_of_signal
):
    problems = problems_of(rows_of(generated))[:3]
    settings = live | {"live_workers": 1, "live_max_failures": 1}
    stored, _ = pay(problems, [YES] * 3, {"reward_scale": 3.0})
    broken = []

    class Processes(set):
        """Process ids of the simulations; one that is to break gets the signal before it begins."""

        def add(self, pid):
            super().add(pid)
            if broken:
                broken.pop()
                os.kill(pid, number_of_signal)

    def with_short_limit(*arguments, limit_s):
        return simulate(*arguments, limit_s=1.0 if broken else limit_s)

    monkeypatch.setattr(process_module, "_running", Processes())
    monkeypatch.setattr(live_module, "simulate", with_short_limit)
    with (
        reward_functions(problems, settings) as paid_by,
        TrlReward(reward_functions=paid_by, workers=1) as reward,
    ):
        assert score(reward, problems[:1], [YES]) == stored[:1]
        broken.append(True)
        metrics = {}
        again = score(reward, problems, [YES] * 3, log_metric=metrics.__setitem__)
        assert again == [stored[0], None, stored[2]]  # the first is known, the second was broken
        assert metrics["faults/infra"] == pytest.approx(1 / 3)
        assert problems[1].id in reward.first_error
        assert score(reward, problems, [YES] * 3) == stored
        broken.append(True)
        with pytest.raises(TooManyFailuresError, match="2 simulated decisions failed") as stopped:
            score(reward, problems_of(rows_of(generated))[3:4], [YES])
        assert stopped.value.exit_code == 3


def test_rows_without_a_state_file_are_named_before_the_training(generated, live, tmp_path):
    folder = shutil.copytree(generated, tmp_path / "data")
    settings = live | {"live_dataset": str(folder)}
    path = min(folder.glob("*/grpo_dataset.json"))
    rows = json.loads(path.read_text())
    problems = problems_of(rows)
    (path.parent / rows[3]["state_file"]).unlink()
    with pytest.raises(InputError, match=f"state file is missing of {rows[3]['id']}\n.*--keep-states"):
        check_rewards(problems, settings)
    path.write_text(json.dumps([row | {"state_file": ""} for row in rows]))
    with pytest.raises(InputError, match=f"missing of {rows[0]['id']}, .* and {len(rows) - 5} more"):
        check_rewards(problems, settings)
    path.write_text(json.dumps([row | {"queue": row["queue"] + 1} for row in rows[:1]]))
    with pytest.raises(InputError, match=f"do not have these rows, or have other ones: {rows[0]['id']}, "):
        check_rewards(problems, settings)
    with pytest.raises(MissingInputError, match=r"No \.sumocfg in"):
        check_rewards(problems, live | {"live_scenarios_dir": str(tmp_path)})
    check_rewards(problems, settings | {"tsc_reward_mode": "stored"})


def test_a_scenario_whose_files_are_others_is_named_before_the_training(generated, live, scenarios, tmp_path):
    """States of another network: the folders have the names of the scenarios and the files of the other one."""
    first, second = sorted(scenarios.iterdir())
    shutil.copytree(second, tmp_path / first.name)
    shutil.copytree(first, tmp_path / second.name)
    with pytest.raises(InputError, match="its rows are of other files than those in"):
        check_rewards(problems_of(rows_of(generated)), live | {"live_scenarios_dir": str(tmp_path)})


def test_score_rollouts_with_simulated_outcomes_gives_the_stored_figures(generated, scenarios, tmp_path):
    path = min(generated.glob("*/grpo_dataset.json"))
    rows = json.loads(path.read_text())[:4]
    rollouts = [
        {"prompt_id": row["id"], "sample_id": number, "text": text}
        for row in rows
        for number, text in enumerate((YES, NO))
    ]
    (tmp_path / "rollouts.jsonl").write_text("".join(json.dumps(rollout) + "\n" for rollout in rollouts))
    live = ["--tsc-reward-mode", "live", "--live-dataset", str(generated), "--live-scenarios-dir", str(scenarios)]
    rewards = []
    for name, change, words in (
        ("stored", dict, []),
        ("live", with_false_outcomes, live),
        ("false", with_false_outcomes, []),
    ):
        prompts = tmp_path / f"{name}.json"
        prompts.write_text(json.dumps([change(row) for row in rows]))
        out = tmp_path / f"{name}_scored.jsonl"
        flags = ["--prompts", str(prompts), "--rollouts", str(tmp_path / "rollouts.jsonl"), "--out", str(out)]
        assert score_rollouts([*flags, "--task", "traffic", "--workers", "1", *words]) == 0
        rewards.append([json.loads(line)["reward"] for line in out.read_text().splitlines()])
    assert rewards[1] == rewards[0] != rewards[2]
