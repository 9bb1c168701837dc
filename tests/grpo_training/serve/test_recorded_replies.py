"""Recorded replies: made from records, found by prompts."""

import json
import time

import pytest

from engine.errors import InputError, MissingInputError
from grpo_training.serve.recorded_replies import NotRecordedError, RecordedReplies, count_tokens, reply_text
from tests.support.recorded_rows import OTHER, SCAFFOLD, TEXT, recorded_fusion, recorded_group, write_rows


@pytest.mark.parametrize("scaffold", [SCAFFOLD, json.dumps(SCAFFOLD), repr(SCAFFOLD)])
def test_a_scaffold_in_each_form_becomes_json_with_the_recorded_answer(scaffold):
    assert json.loads(reply_text(scaffold, "7")) == {**SCAFFOLD, "final_answer": "7"}
    assert json.loads(reply_text(scaffold, None))["final_answer"] is None


def test_the_recorded_answer_replaces_the_one_in_the_scaffold():
    assert json.loads(reply_text({"final_answer": "1"}, "2")) == {"final_answer": "2"}


def test_unreadable_records_stay_unreadable():
    assert reply_text(None, "33") == "33"
    assert "sorry" in reply_text(None, None)
    assert reply_text("{'cut': off", "33") == "{'cut': off"
    assert reply_text("[1, 2]", "33") == "[1, 2]"


def test_python_values_without_a_json_form():
    reply = json.loads(reply_text("{'t': (1, 2), 's': {3}, 'b': b'x', 'n': None, 'l': True}", "1"))
    assert reply == {"t": [1, 2], "s": [3], "b": "b'x'", "n": None, "l": True, "final_answer": "1"}
    assert reply_text("{(1, 2): 3}", "1") == "{(1, 2): 3}"
    assert reply_text("{'x': 1e999}", "1") == "{'x': 1e999}"


@pytest.mark.parametrize(
    "hostile", ["__import__('os').getpid()", "[" * 100_000, "{'a': 9**9**9}", "(" * 300 + ")" * 300, "\0"]
)
def test_hostile_text_is_not_evaluated(hostile):
    started = time.process_time()
    assert reply_text(hostile, "1") == hostile
    assert time.process_time() - started < 5


def test_tokens_are_words_and_punctuation_marks():
    assert count_tokens(["x + 1 = 43.", "", "two words"]) == 8


@pytest.fixture
def write(tmp_path):
    return lambda name, *rows: write_rows(tmp_path / name, *rows)


def test_the_last_recorded_text_of_a_prompt_is_found_whatever_its_white_space(write):
    replies = RecordedReplies([
        write("generator_1_rollouts.jsonl", recorded_group(), recorded_group(OTHER, problem_id="p2"),
              recorded_group("Find $x$.", problem_id="short"))
    ])  # fmt: skip
    wrapped = TEXT.replace(" ", "  \n")
    assert replies.find("generator_1", ["system", f"Problem:{wrapped} Go."]).problem_id == "p1"
    assert replies.find("generator_1", [f"Example: {TEXT}\nNow: {OTHER}"]).problem_id == "p2"
    assert replies.find("generator_1", [TEXT, "no JSON", "Write JSON only."]).problem_id == "p1"
    assert replies.find("generator_1", ["Find $x$."]).problem_id == "short"


def test_many_problems_with_the_same_beginning(write):
    rows = [
        recorded_group(f"Consider the following problem. What is {k} + {k}?", problem_id=str(k)) for k in range(2000)
    ]
    replies = RecordedReplies([write("generator_1_rollouts.jsonl", *rows)])
    prompt = ["words " * 5000 + "Consider the following problem. What is 1999 + 1999? Think."]
    started = time.process_time()
    assert replies.find("generator_1", prompt).problem_id == "1999"
    assert time.process_time() - started < 5


def test_the_last_record_with_a_scaffold_wins(write):
    nothing, half = [(None, None)] * 3, [(None, None), (SCAFFOLD, "2"), (None, "3")]
    path = write(
        "generator_1_rollouts.jsonl", recorded_group(rollouts=nothing), recorded_group(rollouts=[(SCAFFOLD, "1")] * 3),
        recorded_group(rollouts=half), recorded_group(rollouts=nothing), recorded_group(OTHER, nothing, "p2"),
    )  # fmt: skip
    replies = RecordedReplies([path])
    assert replies.problems == {"generator_1": 2}
    assert json.loads(replies.find("generator_1", [TEXT]).replies[1])["final_answer"] == "2"
    assert replies.find("generator_1", [TEXT]).replies[2] == "3"
    assert "sorry" in replies.find("generator_1", [OTHER]).replies[0]


def test_a_fusion_is_selected_by_the_named_generator(write):
    path = write("critic_results.jsonl", *(recorded_fusion(f"generator_{k}", str(k)) for k in (1, 2, 10)))
    replies = RecordedReplies([path])

    def picked(*messages):
        return replies.find("critic", messages).generator_id

    assert picked(TEXT, "Proposals from generator_10:") == "generator_10"
    assert picked("Fuse generator_1.", f"{TEXT} ({{generator_2}})", "generator_2, once more") == "generator_2"
    for messages in ([TEXT], [f"{TEXT} generator_1 generator_2"], [f"{TEXT} generator_3 my_generator_1x"]):
        with pytest.raises(NotRecordedError, match="generator_1, generator_10, generator_2") as caught:
            picked(*messages)
        assert caught.value.code == "generator_not_found"


def test_the_model_is_named_by_the_file_or_by_the_records(write):
    by_name = write("generator_1_rollouts.jsonl", recorded_group(generator_id="other"))
    by_record = write(
        "old.jsonl", recorded_group(generator_id="generator_7"), recorded_group(OTHER, generator_id="generator_8")
    )
    fusions = write("fused.jsonl", recorded_fusion("generator_1", "1"))
    assert RecordedReplies([by_name, by_record, fusions]).problems == {
        "generator_1": 1, "generator_7": 1, "generator_8": 1, "critic": 1
    }  # fmt: skip
    with pytest.raises(InputError, match="the model is named neither"):
        RecordedReplies([write("nameless.jsonl", recorded_group())])


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "is empty"),
        ([recorded_group(), '{"problem_id": "p"'], r"damaged line: .*generator_1_rollouts\.jsonl:2: not JSON"),
        ([recorded_group(), recorded_fusion("generator_1", "1")], "generator_1_rollouts.jsonl:2: no rollouts"),
        (["[1]"], "generator_1_rollouts.jsonl:1: expected a JSON object, got list"),
        ([{**recorded_group(), "problem_text": " "}], "the record of p1 has no 'problem_text'"),
    ],
)
def test_damaged_files_are_named(write, rows, words):
    with pytest.raises(InputError, match=words):
        RecordedReplies([write("generator_1_rollouts.jsonl", *rows)])


def test_missing_files_are_named(tmp_path, write):
    with pytest.raises(MissingInputError, match="Recorded file not found"):
        RecordedReplies([tmp_path / "generator_1_rollouts.jsonl"])
    with pytest.raises(MissingInputError, match="Recorded file not found"):
        RecordedReplies([tmp_path])
    with pytest.raises(InputError, match="No recorded file given"):
        RecordedReplies([])
    with pytest.raises(InputError, match="has no .generator_id."):
        RecordedReplies([write("critic_results.jsonl", recorded_fusion("", "1"))])


def test_the_last_of_four_real_runs_of_a_problem_is_used(recorded):
    path = recorded["generator_1_rollouts"]
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    runs = [row for row in rows if row["problem_id"] == "aime2024_001"]
    assert len(runs) == 4
    assert [rollout["scaffold"] for rollout in runs[0]["rollouts"]] == [None] * 3
    found = RecordedReplies([path]).find("generator_1", [runs[0]["problem_text"]])
    answers = [json.loads(reply)["final_answer"] for reply in found.replies]
    assert answers == [rollout["answer"] for rollout in runs[-1]["rollouts"]]
