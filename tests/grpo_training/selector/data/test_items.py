"""Rows of visual question answering: answers of people alone, and the official pairs of files."""

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


def test_the_official_files_of_a_split_are_joined_by_the_id_of_the_question(tmp_path, monkeypatch):
    folder = tmp_path / "data/datasets/okvqa"
    folder.mkdir(parents=True)
    for split, answer in (("train2014", "dog"), ("val2014", "cat")):
        asked = [{"image_id": 51606, "question": "what is it?", "question_id": 516065}]
        given = [{"question_id": 516065, "image_id": 51606, "answers": [{"answer": answer, "answer_id": 1}] * 10}]
        content = {"questions": asked, "data_subtype": split}
        (folder / f"OpenEnded_mscoco_{split}_questions.json").write_text(json.dumps(content))
        content = {"annotations": given, "data_subtype": split}
        (folder / f"mscoco_{split}_annotations.json").write_text(json.dumps(content))
    monkeypatch.chdir(tmp_path)
    [problem] = load_items("okvqa:val")
    assert (problem.id, problem.text, problem.answer) == ("516065", "what is it?", "cat")
    assert problem.meta["image"] == "COCO_val2014_000000051606.jpg"
    assert len(problem.meta["answers"]) == 10
    assert load_items("okvqa:train")[0].answer == "dog"
    with pytest.raises(InputError, match="okvqa does not name one file of questions"):
        load_items("okvqa")
    (folder / "mscoco_val2014_annotations.json").write_text('{"annotations": []}')
    with pytest.raises(InputError, match="has no answers to question 516065"):
        load_items("okvqa:val")


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
