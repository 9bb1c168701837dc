"""Rows of visual question answering: answers of people alone."""

import json

import pytest

from engine.errors import InputError
from grpo_training.selector.data.items import load_items, people_of


def test_rows_with_answers_of_people_only_are_read(tmp_path, monkeypatch):
    people = [{"answer": text, "answer_id": number} for number, text in enumerate(["red", "blue", "blue"])]
    rows = [{"question_id": 7, "question": "which colour?", "answers": people, "image": "a.png"}]
    rows += [{"question": "how many?", "answers": ["2", "two", "2"]}]
    folder = tmp_path / "data/datasets"
    folder.mkdir(parents=True)
    (folder / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    first, second = load_items(str(folder / "own.jsonl"))
    assert (first.id, first.text, first.answer, first.meta["image"]) == ("7", "which colour?", "blue", "a.png")
    assert (second.id, second.answer) == ("1", "2")
    monkeypatch.chdir(tmp_path)
    assert load_items("own", 1) == [first]
    (folder / "own.jsonl").write_text('{"question": "q", "answers": []}\n')
    with pytest.raises(InputError, match=r"own.jsonl, row 0: it needs 'question' and 'answers'"):
        load_items(str(folder / "own.jsonl"))


RED = ["red", "red", "red"]


def load(tmp_path, *rows):
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return load_items(str(tmp_path / "rows.jsonl"))


def test_rows_of_people_stand_beside_rows_with_one_answer_in_any_order(tmp_path):
    rows = [{"id": "q1", "question": "one?", "answer": "1"}, {"id": "q2", "question": "colour?", "answers": RED}]
    for order in (rows, rows[::-1]):
        problems = {problem.id: problem for problem in load(tmp_path, *order)}
        assert (problems["q1"].answer, people_of(problems["q1"])) == ("1", None)
        assert (problems["q2"].answer, people_of(problems["q2"])) == ("red", RED)


def test_an_id_that_is_there_twice_is_named(tmp_path):
    """Figures are kept by id: of two such rows one would be missing without a word."""
    rows = [{"question_id": 7, "question": "colour?", "answers": RED}, {"id": "7", "question": "?", "answers": RED}]
    with pytest.raises(InputError, match="the id '7' is there twice"):
        load(tmp_path, *rows)


@pytest.mark.parametrize("answers", [[None] * 3, [["red"]] * 3, [{"text": "red"}] * 3, [{"answer": None}] * 3, RED[:1]])
def test_answers_that_are_no_texts_are_named(tmp_path, answers):
    with pytest.raises(InputError, match="row 0: it needs 'question' and 'answers'"):
        load(tmp_path, {"question": "colour?", "answers": answers})
