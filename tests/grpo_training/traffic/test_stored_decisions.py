"""Policies on stored decisions: figures by hand, models asked through an endpoint, failures. No SUMO runs."""

import asyncio
import json
import re

import pytest

from engine.errors import BudgetExceededError, FatalEndpointError, IncompleteRunError, InputError, MissingInputError
from engine.llm.limits.budget import SharedBudget
from engine.llm.retry import RetryPolicy
from grpo_training.evaluate import models
from grpo_training.traffic.__main__ import main
from tests.engine.tasks.traffic.support import row
from tests.grpo_training.traffic.support import endpoint, state_of

# Mean queues of (extend, switch) by row: queue of the current phase 3.5 against 1.0, so Max-Pressure extends all.
OUTCOMES = [(5, 9), (5, 9), (9, 5), (4, 4)]


def write_dataset(folder, outcomes=OUTCOMES, scenario="grid2x2", **changes):
    values = []
    for number, (extend, switch) in enumerate(outcomes):
        one = row(extend=extend, switch=switch, time=600.0 + 200 * number).model_dump(mode="json")
        values.append({**one, "id": f"{scenario}_{number}", "scenario": scenario, **changes})
    path = folder / scenario / "grpo_dataset.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values))
    return path


def evaluate(dataset, output, *more):
    code = main(["evaluate", "--dataset", str(dataset), "--output", str(output), *more])
    return code, json.loads(output.read_text())["stored_decisions"]


def mean(figures, policy, name):
    return figures["total"][policy]["means"][name]["value"]


def test_regret_agreement_and_ties_are_those_worked_out_by_hand(tmp_path, capsys):
    code, figures = evaluate(
        write_dataset(tmp_path), tmp_path / "out.json", "--policy", "max-pressure,extend,switch,fixed"
    )
    assert code == 0
    assert (figures["decisions"], figures["horizon"], figures["ties"]) == (4, 20, 0.25)
    assert {policy: mean(figures, policy, "regret") for policy in figures["total"]} == {
        "oracle": 0.0,
        "max-pressure": 1.0,  # 4 in one of four rows
        "extend": 1.0,
        "switch": 2.0,  # 4 in two of four rows
    }
    assert mean(figures, "oracle", "agreement") == 1.0
    assert mean(figures, "max-pressure", "agreement") == pytest.approx(2 / 3)  # the tie does not count
    assert mean(figures, "switch", "agreement") == pytest.approx(1 / 3)
    difference = figures["total"]["switch"]["difference_to_max_pressure"]["regret"]
    assert difference["value"] == 1.0
    # Rows at 600, 800, 1000 and 1200 s are in the windows of five minutes that begin at 600, 600, 900 and 1200 s.
    assert difference["clusters"] == 3
    assert "Stored decisions: 4, horizon 20 s, 25.0% ties" in capsys.readouterr().out


def test_no_line_of_the_tables_is_longer_than_100_columns(tmp_path, capsys):
    for scenario in ("a_scenario_with_a_very_long_name_indeed", "b"):
        write_dataset(tmp_path / "data", scenario=scenario)
    evaluate(tmp_path / "data", tmp_path / "out.json", "--policy", "max-pressure,extend,switch,random")
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("Results: ")]
    assert max(map(len, lines)) <= 100
    assert any("By scenario" in line for line in lines)


def test_a_model_is_asked_once_per_row_with_the_experiences_of_a_library(tmp_path):
    library = tmp_path / "generator_1_experiences.json"
    advice = "Compare the queue of the current phase with the longest other queue."
    experience = {"id": "G1-001", "content": advice, "category": "c", "source_problem": "p", "created_at": "t"}
    library.write_text(json.dumps([experience]))
    with endpoint(lambda body, index: '{"extend": "no"}') as (url, seen):
        words = ("--policy", f"max-pressure,{url}", "--model", "m", "--experiences", str(library))
        _, figures = evaluate(write_dataset(tmp_path), tmp_path / "out.json", *words)
        assert len(seen) == 4
        assert all(advice in str(request.body["messages"]) for request in seen)
        assert all(request.body["temperature"] == 0 for request in seen)
        evaluate(tmp_path, tmp_path / "out.json", *words)
        assert len(seen) == 4  # the second start reads the journal
    assert mean(figures, "m", "regret") == 2.0


def test_an_unreadable_reply_switches_and_is_counted_and_never_agrees(tmp_path):
    with endpoint(lambda body, index: "I would extend.") as (url, _):
        _, figures = evaluate(write_dataset(tmp_path), tmp_path / "out.json", "--policy", url, "--model", "m")
    assert mean(figures, "m", "unreadable") == 1.0
    assert mean(figures, "m", "regret") == 2.0  # that of always switching
    assert mean(figures, "m", "agreement") == 0.0


def test_zero_variance_is_the_share_of_sampled_groups_whose_rewards_are_equal(tmp_path):
    """The first two rows get both decisions; the third the same one twice; in the tie both decisions pay the same."""

    def answer(body, index):
        return json.dumps({"extend": "yes" if index == 0 or state_of(body) == third else "no"})

    path = write_dataset(tmp_path)
    values = json.loads(path.read_text())
    prompt = json.loads(values[2]["prompt"])
    prompt["state"]["current_green_elapsed_s"] = 21
    values[2] |= {"prompt": json.dumps(prompt), "current_green_elapsed": 21.0}
    path.write_text(json.dumps(values))
    third = prompt["state"]
    with endpoint(answer) as (url, _):
        words = ("--policy", url, "--model", "m", "--num-samples", "2", "--temperature", "1")
        _, figures = evaluate(path, tmp_path / "out.json", *words)
    assert mean(figures, "m", "zero_variance") == 0.5
    # regrets of the rows: (0 + 4) / 2, (0 + 4) / 2, 4, 0
    assert mean(figures, "m", "regret") == 2.0


def test_samples_need_a_temperature(tmp_path):
    with pytest.raises(InputError, match="--temperature above 0"):
        main(["evaluate", "--dataset", str(write_dataset(tmp_path)), "--num-samples", "4"])


def test_rows_whose_call_failed_are_left_out_and_reported_and_asked_again(tmp_path, monkeypatch):
    """A failed call is no decision: the other rows have figures, and the second start asks only for the missing one."""
    monkeypatch.setattr(models, "RetryPolicy", lambda **_: RetryPolicy(attempts=1, total_s=5))
    path, output = write_dataset(tmp_path), tmp_path / "out.json"
    values = json.loads(path.read_text())
    prompt = json.loads(values[1]["prompt"])
    prompt["state"]["current_green_elapsed_s"] = 31
    values[1] |= {"prompt": json.dumps(prompt), "current_green_elapsed": 31.0}
    path.write_text(json.dumps(values))
    broken = [True]

    def answer(body, index):
        if broken[0] and state_of(body)["current_green_elapsed_s"] == 31:
            raise RuntimeError("the server fails")
        return '{"extend": "no"}'

    # The prompts of the other three rows differ in the time only.
    with endpoint(answer) as (url, seen):
        words = ["evaluate", "--dataset", str(path), "--output", str(output), "--policy", url, "--model", "m"]
        with pytest.raises(IncompleteRunError, match="1 of 4 stored decisions failed"):
            main(words)
        figures = json.loads(output.read_text())["stored_decisions"]
        assert figures["left_out"] == {"m": 1}
        assert figures["total"]["m"]["means"]["regret"]["observations"] == 3
        asked, broken[0] = len(seen), False
        assert main(words) == 0
        assert len(seen) == asked + 1
    assert mean(json.loads(output.read_text())["stored_decisions"], "m", "regret") == 2.0


def test_a_refused_key_and_an_exhausted_budget_stop_the_evaluation(tmp_path):
    path, output = write_dataset(tmp_path), tmp_path / "out.json"
    with endpoint(api_key="right") as (url, _):
        words = ["evaluate", "--dataset", str(path), "--output", str(output), "--policy", url, "--model", "m"]
        with pytest.raises(FatalEndpointError):
            main(words)
    with endpoint() as (url, seen):
        words = ["evaluate", "--dataset", str(path), "--output", str(output), "--policy", url, "--model", "m"]
        with pytest.raises(BudgetExceededError):
            main([*words, "--budget-tokens", "10"])
        assert seen == []
        shared = SharedBudget(tmp_path / "budget.sqlite", tokens=10**6)
        shared.settle(asyncio.run(shared.hold(100, None)), 10**6 - 10, None)  # another start has spent nearly all of it
        shared.close()
        with pytest.raises(BudgetExceededError):
            main([*words, "--budget-tokens", str(10**6), "--budget-file", str(tmp_path / "budget.sqlite")])
        assert seen == []
    assert not output.exists()


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"horizon": 5}, "different values of horizon: 5, 20"), ({"extend_seconds": 10}, "values of extend_seconds")],
)
def test_datasets_of_different_horizons_are_not_mixed(tmp_path, changes, said):
    write_dataset(tmp_path)
    write_dataset(tmp_path, scenario="other", **changes)
    with pytest.raises(InputError, match=said):
        main(["evaluate", "--dataset", str(tmp_path), "--output", str(tmp_path / "out.json")])
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        (["--policy", "max-presure"], InputError, "Unknown policy 'max-presure'"),
        (["--policy", ","], InputError, "No policy is named"),
        (["--policy", "http://127.0.0.1:1/v1"], InputError, "--model NAME"),
        (["--policy", "role:generator_1", "--api-config", "none.json"], MissingInputError, "none.json"),
        (["--policy", "."], MissingInputError, "No model in"),
        (["--experiences", "none.json"], MissingInputError, "No library at none.json"),
        (["--dataset", "none"], MissingInputError, "No grpo_dataset.json in none"),
        (["--output", "."], InputError, "is a folder"),
    ],
)
def test_bad_input_is_one_clear_error_and_writes_nothing(tmp_path, monkeypatch, words, error, said):
    write_dataset(tmp_path)
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    given = {"--dataset": ".", "--output": "out.json"} | dict(zip(words[::2], words[1::2], strict=True))
    with pytest.raises(error, match=re.escape(said)):
        main(["evaluate", *(word for pair in given.items() for word in pair)])
    assert sorted(tmp_path.rglob("*")) == before


def test_a_scenario_or_a_dataset_is_needed(tmp_path):
    with pytest.raises(InputError, match="exactly one of --scenario, --scenarios and --all"):
        main(["evaluate"])
