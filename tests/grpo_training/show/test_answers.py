import json
import re

import pytest

from engine.errors import InputError, MissingInputError
from grpo_training.show import __main__ as show
from tests.support.recorded_replies import EXAMPLE


@pytest.fixture
def shown(capsys):
    def run(*arguments):
        assert show.main([str(argument) for argument in arguments]) == 0
        return capsys.readouterr().out

    return run


def test_a_group_is_printed_with_its_replies(shown):
    text = shown(EXAMPLE, "handshakes", "--role", "generator_1")
    record = next(
        group
        for line in (EXAMPLE / "generator_1_rollouts.jsonl").read_text().splitlines()
        if "handshakes" in (group := json.loads(line))["problem_id"]
    )
    assert record["problem_text"] in text
    assert f"truth: {record['ground_truth']}" in text
    for rollout in record["rollouts"]:
        assert rollout["completion"]["text"] in text
        verdict = "right" if rollout["is_correct"] else "wrong"
        figures = f"  r_total {rollout['r_total']:.3f}"
        assert f"rollout {rollout['rollout_id']}: {verdict}: {rollout['answer']}\n{figures}" in text
    assert "generator_2" not in text


def test_the_fusions_come_last_and_long_replies_are_cut(shown):
    text = shown(EXAMPLE, "handshakes", "--chars", 20)
    assert text.index("generator_3: μ=") < text.index("\ncritic\n") < text.index("fusion of generator_1")
    assert "characters more (--chars 0)" in text


def test_a_fusion_that_does_not_say_how_it_was_made_is_not_said_to_be_merged(shown, tmp_path):
    lines = [json.loads(line) for line in (EXAMPLE / "critic_results.jsonl").read_text().splitlines()]
    merged = [line for line in lines if line["merged"] == "structural"][:1]
    foreign = [{**merged[0], "merged": None, "generator_id": "generator_9"}]
    (tmp_path / "critic_results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in merged + foreign))
    text = shown(tmp_path, merged[0]["problem_id"])
    assert f"fusion of {merged[0]['generator_id']}, merged without a model: " in text
    assert "fusion of generator_9: " in text


@pytest.mark.parametrize(
    ("verdicts", "right"),
    [
        ([True, False, None, None], "1 of 2, 2 not judged"),
        ([None, None], "2 not judged"),
        ([True, False], "1 of 2"),
        ([False, None], "0 of 1, 1 not judged"),
    ],
)
def test_only_answers_that_were_judged_count(shown, tmp_path, verdicts, right):
    rows = [{"prompt_id": "p", "text": "t", "is_correct": verdict, "reward": {"total": 0.5}} for verdict in verdicts]
    (tmp_path / "scored.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = shown(tmp_path / "scored.jsonl")
    assert "1 group\n" in text
    assert re.search(rf"  {re.escape(right)}  +[\d.-]", text)
    [listed] = json.loads(shown(tmp_path / "scored.jsonl", "--json"))
    assert (listed["right"], listed["judged"]) == (verdicts.count(True), len(verdicts) - verdicts.count(None))


@pytest.mark.parametrize("name", ["generator_2_rollouts.jsonl", "critic_results.jsonl"])
def test_the_results_of_one_learner_are_shown(shown, name):
    learner = "critic" if "critic" in name else "generator_2"
    assert shown(EXAMPLE / name) == shown(EXAMPLE, "--role", learner)
    assert shown(EXAMPLE / name, "handshakes") == shown(EXAMPLE, "handshakes", "--role", learner)


def test_json_has_the_stored_records(shown):
    records = [json.loads(line) for line in shown(EXAMPLE, "handshakes", "--json").splitlines()]
    assert [record.get("generator_id") for record in records] == ["generator_1", "generator_2", "generator_3"] * 2
    listed = json.loads(shown(EXAMPLE, "--json"))
    assert len(listed) == 4 * 8
    assert {entry["role"] for entry in listed} == {"generator_1", "generator_2", "generator_3", "critic"}
    assert sum(entry["right"] for entry in listed if entry["role"] == "generator_1") == 11


@pytest.mark.parametrize("role", ["generator_1", "generator_3", "critic"])
def test_the_list_has_the_mean_and_the_standard_deviation_of_each_group(shown, role):
    listed = json.loads(shown(EXAMPLE, "--role", role, "--json"))
    text = shown(EXAMPLE, "--role", role)
    assert text.startswith("8 groups\n")
    name = "critic_results.jsonl" if role == "critic" else f"{role}_rollouts.jsonl"
    lines = [json.loads(line) for line in (EXAMPLE / name).read_text().splitlines()]
    for entry in listed:
        of_problem = [line for line in lines if line["problem_id"] == entry["problem_id"]]
        stored = [line["stats"] for line in of_problem if "stats" in line]
        if stored:
            assert (entry["mean"], entry["std"]) == pytest.approx((stored[0]["mean"], stored[0]["std"]))
        else:
            assert entry["mean"] == pytest.approx(sum(line["rewards"]["r_total"] for line in of_problem) / 3)
        assert f"{entry['mean']:.3f}" in text
        assert f"{entry['std']:.3f}" in text


def test_the_list_has_dashes_for_groups_without_rewards(shown, tmp_path):
    group = {"problem_id": "p", "problem_text": "?", "ground_truth": "1", "rollouts": [{"rollout_id": 1}]}
    (tmp_path / "generator_1_rollouts.jsonl").write_text(json.dumps({**group, "timestamp": "t"}) + "\n")
    assert shown(tmp_path).startswith("1 group\n")
    [entry] = json.loads(shown(tmp_path, "--json"))
    assert (entry["mean"], entry["std"]) == (None, None)


def test_hostile_text_does_not_reach_the_terminal(shown, tmp_path):
    hostile = "\x1b]0;owned\x07 \u202eevil [/x]"
    rollout = {"rollout_id": 1, "answer": hostile, "is_correct": False, "completion": {"text": f"a\n{hostile}"}}
    group = {"problem_id": "p\x1b[2J", "problem_text": hostile, "ground_truth": "1", "rollouts": [rollout]}
    (tmp_path / "generator_1_rollouts.jsonl").write_text(json.dumps({**group, "timestamp": "t"}) + "\n")
    for arguments in (["p"], [], ["p", "--json"], ["--json"]):
        text = shown(tmp_path, *arguments)
        assert not {"\x1b", "\x07", "\u202e"} & set(text)
    assert "\\x1b]0;owned\\x07 \\x202eevil [/x]" in shown(tmp_path, "p")


def test_what_is_not_stored_is_one_error(tmp_path):
    with pytest.raises(InputError, match="Did you mean 'quickstart-handshakes-"):
        show.main([str(EXAMPLE), "quickstart-handshake-f1e3bd0469"])
    with pytest.raises(InputError, match="a part of several ids"):
        show.main([str(EXAMPLE), "quickstart"])
    for problem, message in (["handshakes"], "has no"), ([], "No problem has an"):
        with pytest.raises(InputError, match=rf"{message} epoch 3 in .*\nEpochs: 0"):
            show.main([str(EXAMPLE), *problem, "--epoch", "3"])
    with pytest.raises(MissingInputError, match="No results in"):
        show.main([str(tmp_path), "p"])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"prompt_id": "a", "text": "b"}', r"is not scored: line 1 has no reward .*\n.*\n.*score_rollouts --prompts"),
        ('{"id": "a", "text": "b"}', "is not scored: line 1"),
        ("[1]", "is not scored: line 1"),
        ('{"prompt_id": "a", "text": "b", "reward": {"total": "much"}}', "cannot be read as scored rows"),
    ],
)
def test_a_file_that_was_not_scored_is_named(tmp_path, line, message):
    path = tmp_path / "rollouts.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(InputError, match=message):
        show.main([str(path)])
