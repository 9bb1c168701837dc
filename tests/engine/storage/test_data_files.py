"""Tables as spreadsheets write them, and what is said of those that cannot be read."""

import pytest

from engine.datasets import load_dataset, load_problems
from engine.errors import InputError

ROWS = "mail,label\n" + "".join(f"Where is order {n}?,{('billing', 'shipping')[n % 2]}\n" for n in range(8))
"""Nine lines."""


def refusal(tmp_path, content, name="mails.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError) as raised:
        load_dataset(str(path))
    return raised.value


def texts(tmp_path, content):
    path = tmp_path / "mails.csv"
    path.write_text(content, encoding="utf-8")
    return [problem.text for problem in load_problems(str(path))]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("a mail, with a comma,billing\n", "line 10: more fields than the first line has names"),
        ('"not closed,billing\n"Mail?",billing\n', "line 10: not CSV"),
    ],
)
def test_the_line_of_a_csv_file_is_the_one_of_an_editor(tmp_path, more, said):
    assert said in refusal(tmp_path, ROWS + more).what


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("Why?,\n", "line 10: field 'label' is empty"),
        (",billing\n", "line 10: field 'mail' is empty"),
        ('"two\nlines",billing\n\n,\nWhy?,\n', "line 14: field 'label' is empty"),
    ],
)
def test_the_line_of_a_row_that_is_left_out_is_the_one_of_an_editor(tmp_path, more, said):
    path = tmp_path / "mails.csv"
    path.write_text(ROWS + more)
    assert said in load_dataset(str(path)).note


def test_the_line_of_a_repeated_id_is_the_one_of_an_editor(tmp_path):
    fault = refusal(tmp_path, "id,mail,label\n1,Why?,billing\n1,When?,shipping\n")
    assert fault.what.endswith("line 3: field 'id': '1' is already on line 2")


def test_a_missing_answer_is_not_taken_from_another_field(tmp_path):
    rows = "date,mail,label\n" + "".join(f"2026-01-0{n + 1},Mail {n}?,billing\n" for n in range(3))
    path = tmp_path / "mails.csv"
    path.write_text(rows + "2026-01-05,Why?,\n")
    loaded = load_dataset(str(path))
    assert len(loaded.problems) == 3
    assert "line 5: field 'label' is empty" in loaded.note


def test_rows_of_empty_fields_are_skipped(tmp_path):
    assert len(texts(tmp_path, ROWS + ",\n , \n\n")) == 8


def test_the_line_with_the_delimiter_that_excel_writes_is_no_row(tmp_path):
    assert texts(tmp_path, "sep=;\n" + ROWS.replace(",", ";"))[0] == "Where is order 0?"


def test_a_field_may_be_as_long_as_a_line_of_jsonl(tmp_path):
    assert len(texts(tmp_path, ROWS + f"{'x' * 300_000},billing\n")[-1]) == 300_000


def test_a_table_without_names_is_refused(tmp_path):
    fault = refusal(tmp_path, ROWS.partition("\n")[2])
    assert "looks like a row, not like names of columns: 'billing' is also a value of this column below" in fault.what
    assert "--columns text,label" in fault.fix


def test_a_name_that_occurs_twice_is_refused(tmp_path):
    assert "the name 'mail' occurs twice" in refusal(tmp_path, "mail,mail,label\na,b,c\n").what


@pytest.mark.parametrize("name", ["mails.csv", "mails.xlsx"])
def test_a_workbook_is_named_as_what_it_is(tmp_path, name):
    fault = refusal(tmp_path, b"PK\x03\x04" + bytes(range(200)), name)
    assert "workbook of Excel" in fault.what
    assert "CSV UTF-8" in fault.fix


def test_another_encoding_is_named_with_its_line_and_the_ways_out(tmp_path):
    fault = refusal(tmp_path, (ROWS + "Где мой заказ номер семь?,доставка\n" * 9).encode("cp1251"))
    assert "line 10: not UTF-8" in fault.what
    assert "CP1251" in fault.fix


@pytest.mark.parametrize(
    ("name", "content", "fix"),
    [
        ("mails.json", '{\n "rows": []\n}', "array of objects"),
        ("mails.txt", "one mail\nanother mail\n", "a table whose first line names its columns"),
        ("mails.csv", "mail,label\n", "whose first line has these names"),
    ],
)
def test_the_message_names_the_form_that_is_needed(tmp_path, name, content, fix):
    assert fix in refusal(tmp_path, content, name).fix


def test_a_dataset_with_one_answer_says_that_there_is_nothing_to_learn(tmp_path):
    path = tmp_path / "mails.csv"
    path.write_text(ROWS.replace("shipping", "billing"))
    assert "all answers are 'billing'" in load_dataset(str(path)).note


def test_an_empty_field_that_a_flag_names_is_empty_and_not_missing(tmp_path):
    path = tmp_path / "mails.csv"
    path.write_text("body,team,agent\nWhere is it?,billing,tom\nWhy?,,tom\n")
    loaded = load_dataset(str(path), fields={"problem": "body", "answer": "team"})
    assert "line 3: field 'team' is empty" in loaded.note
