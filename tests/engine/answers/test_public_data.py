"""Right and wrong replies to small data sets after the forms of public ones, as a user of the product meets them."""

import json

import pytest

from engine.answers.by_kind import compare
from engine.answers.how_compared import HowCompared
from engine.answers.reply import read_answer
from tests.conftest import shared_file


def label(*labels, ids=()):
    return HowCompared(kind="label", labels=labels, ids=ids)


CHOICE = HowCompared(kind="choice", marks=("A", "B", "C"), options=("stone", "carrot", "river"))
SETS = HowCompared(kind="set", marks=("A", "B", "C", "D"))
TEXT, NUMBER, FORMULA = (HowCompared(kind=kind) for kind in ("text", "number", "formula"))
COMPARED = {
    **dict.fromkeys(
        ("choices_in_columns.csv", "choices_list_gold_index.jsonl", "choices_dict_answer_idx.jsonl"), (CHOICE, "B")
    ),
    "choices_gold_in_brackets.csv": (CHOICE, "(B)"),
    "noise_among_labels.csv": (HowCompared(kind="choice"), "(B)"),
    "sets_mixed.jsonl": (SETS, "AC"),
    "sets_lists.jsonl": (SETS, '["A", "C"]'),
    "several_right_answers.jsonl": (HowCompared(kind="text", also=("A. Author1",)), "Ann Author1"),
    "ordered_words.jsonl": (TEXT, "apple fig1 pear"),
    "marks_in_line.jsonl": (TEXT, "son1"),
    "rows_below_a_key.json": (label("yes", "no"), "no"),
    "pairs_by_split.json": (label("book_flight", "play_music"), "book_flight"),
    "class_ids.jsonl": (label("negative", "positive", ids=("0", "1")), "positive"),
    "class_ids.csv": (label("0", "1"), "0"),
    "short_labels.csv": (label("e", "n", "c"), "c"),
    "many_labels.csv": (label("topic_red_house", "topic_red_car", "topic_blue_house"), "topic_red_house"),
    "booleans.jsonl": (label("true", "false"), "false"),
    "control_labels.csv": (label("billing", "shipping"), "shipping"),
    "mathematics_with_equations.jsonl": (FORMULA, r"\frac{3}{56}"),
    "numbers_as_floats.jsonl": (NUMBER, "1926.0"),
    "control_units.csv": (NUMBER, "3 h"),
    "entities.jsonl": (HowCompared(kind="json", keys=("LOC", "PER")), '{"LOC": ["Rome2"]}'),
    "control_json.jsonl": (HowCompared(kind="json"), '{"name": "Ann1", "count": 2}'),
    "sql.jsonl": (HowCompared(kind="sql"), "SELECT name FROM items WHERE id = 1"),
}


@pytest.mark.parametrize("name", COMPARED)
def test_replies_to_a_data_set(name):
    how, truth = COMPARED[name]
    expected = {entry["file"]: entry for entry in json.loads(shared_file("public/small/expected.json").read_text())}
    for reply in (*expected[name]["right"], *expected[name]["wrong"]):
        answer = read_answer(reply, how)
        is_right = answer is not None and compare(answer, truth, how).is_correct is True
        assert is_right is (reply in expected[name]["right"]), reply
