import json
import sys

import pytest

from engine.datasets import load_dataset, load_problems
from engine.errors import InputError, MissingInputError


def mbpp_row(number, **changes):
    return {"text": f"Problem {number}", "code": "def f(): return 1", "task_id": number,
            "test_setup_code": "", "test_list": ["assert f() == 1"], "challenge_test_list": [], **changes}  # fmt: skip


def apps_row(number, difficulty, **changes):
    given = json.dumps({"inputs": ["1"], "outputs": ["1"]})
    return {"problem_id": number, "question": "Q", "solutions": '["print(1)"]', "input_output": given,
            "difficulty": difficulty, "url": "", "starter_code": "", **changes}  # fmt: skip


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def ids(name, folder, **options):
    return [problem.id for problem in load_problems(name, search=[folder], **options)]


def test_the_official_splits_go_by_number(tmp_path):
    write(tmp_path / "mbpp.jsonl", map(mbpp_row, (1, 10, 11, 510, 511, 600, 601, 974)))
    assert ids("mbpp", tmp_path) == ids("mbpp:train", tmp_path) == ["mbpp_601", "mbpp_974"]
    assert ids("mbpp:test", tmp_path) == ["mbpp_11", "mbpp_510"]
    assert ids("mbpp:validation", tmp_path) == ["mbpp_511", "mbpp_600"]
    assert ids("mbpp:prompt", tmp_path) == ["mbpp_1", "mbpp_10"]
    assert ids("mbpp:test", tmp_path, max_problems=1) == ["mbpp_11"]


def test_a_split_may_have_a_file_of_its_own_and_the_sanitized_set_is_an_array(tmp_path):
    write(tmp_path / "mbpp_test.jsonl", [mbpp_row(20)])
    assert ids("mbpp:test", tmp_path) == ["mbpp_20"]
    (tmp_path / "sanitized-mbpp.json").write_text(json.dumps([mbpp_row(2), mbpp_row(602)], indent=1))
    assert ids("mbpp:sanitized", tmp_path) == ["mbpp_sanitized_602"]


def test_apps_by_difficulty(tmp_path):
    write(tmp_path / "apps_train.jsonl", [apps_row(0, "interview"), apps_row(1, "introductory")])
    write(tmp_path / "apps_test.jsonl", [apps_row(0, "introductory")])
    assert ids("apps", tmp_path) == ["apps_train_0", "apps_train_1"]
    assert ids("apps:introductory", tmp_path) == ["apps_train_1"]
    assert ids("apps:test-introductory", tmp_path) == ["apps_test_0"]


def test_rows_that_cannot_be_used_are_left_out_and_named(tmp_path):
    rows = [mbpp_row(601), mbpp_row(602, test_list=[]), mbpp_row(601), mbpp_row(603)]
    write(tmp_path / "mbpp.jsonl", rows)
    loaded = load_dataset("mbpp", search=[tmp_path])
    assert [problem.id for problem in loaded.problems] == ["mbpp_601", "mbpp_603"]
    assert [(name, reason) for name, reason, _ in loaded.dropped] == [
        ("mbpp_602", "no_tests"),
        ("mbpp_601", "repeated_id"),
    ]


def test_in_a_file_of_ones_own_such_a_row_is_an_error(tmp_path):
    write(tmp_path / "mine.jsonl", [mbpp_row(601), mbpp_row(602, test_list=[])])
    with pytest.raises(InputError, match=r"line 2: there is no test"):
        load_problems(str(tmp_path / "mine.jsonl"))


@pytest.mark.parametrize("name", ["mbpp:tset", "mbpp:introductory", "apps:sanitized", "apps:train-test"])
def test_an_unknown_part_names_the_words(name, tmp_path):
    with pytest.raises(InputError, match="with some of"):
        load_problems(name, search=[tmp_path])


def test_a_missing_set_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingInputError) as caught:
        load_problems("mbpp:test", search=[tmp_path])
    for hint in ("mbpp_test.jsonl", "google-research-datasets/mbpp", "pip install"):
        assert hint in str(caught.value)


def test_a_file_without_the_part_is_told(tmp_path):
    write(tmp_path / "mbpp.jsonl", [mbpp_row(11)])
    with pytest.raises(InputError, match="601 to 974"):
        load_problems("mbpp", search=[tmp_path])
