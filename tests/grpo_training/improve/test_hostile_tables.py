"""Tables as people have them, and worse: each is read, or refused in one sentence."""

import json
import math

import pytest

from engine.errors import ScaffoldError
from grpo_training.improve import __main__ as improve
from grpo_training.runs import folder as run_folders


def csv(*rows, header="question,answer", ending="\n"):
    return ending.join([header, *rows]) + ending


def jsonl(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def good(count=12, question="question", answer="answer"):
    return [{question: f"What is the {n}th word?", answer: ("red", "blue")[n % 2]} for n in range(count)]


def plain_rows(count=12):
    return [f"What is number {n}?,{('red', 'blue')[n % 2]}" for n in range(count)]


REFUSED = {
    "empty.csv": "",
    "empty.jsonl": "",
    "empty.json": "",
    "blank_lines.jsonl": "\n\n\n",
    "header_only.csv": "question,answer\n",
    "one_row.csv": csv("What?,red"),
    "seven_rows.csv": csv(*plain_rows(7)),
    "one_row_nine_times.csv": csv(*["What?,red"] * 9),
    "no_answer_column.csv": csv(*[f"What {n}?" for n in range(12)], header="question"),
    "three_unknown_columns.csv": csv(*[f"a{n},b{n},c{n}" for n in range(12)], header="x,y,z"),
    "empty_answers.csv": csv(*[f"What {n}?," for n in range(12)]),
    "empty_questions.csv": csv(*[f",red{n}" for n in range(12)]),
    "not_json.jsonl": "question: what\n" * 12,
    "cut_off.jsonl": jsonl(*good())[:-10],
    "cut_off.json": json.dumps(good())[:-2],
    "numbers.json": "[1, 2, 3]",
    "a_string.json": '"text"',
    "null.json": "null",
    "an_object.json": '{"a": 1}',
    "lists.jsonl": "[1, 2]\n" * 12,
    "deep.json": "[" * 100_000,
    "deep_row.jsonl": '{"question": ' + "[" * 50_000 + "]" * 50_000 + ', "answer": 1}\n',
    "null_bytes.csv": "question,answer\n" + "\0" * 1000,
    "binary.csv": bytes(range(256)) * 20,
    "png.jsonl": b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 10,
    "utf16_without_mark.csv": csv(*plain_rows()).encode("utf-16-le"),
    "html.csv": "<!DOCTYPE html><html><body>404 Not Found</body></html>\n" * 3,
    "question_is_null.jsonl": jsonl(*[{"question": None, "answer": "b"} for _ in range(12)]),
    "answer_is_null.jsonl": jsonl(*[{"question": f"q {n}", "answer": None} for n in range(12)]),
    "unclosed_quote.csv": csv('"What,red', *plain_rows()),
    "nan_answer.jsonl": '{"question": "what", "answer": NaN}\n' * 12,
    "same_id_twice.jsonl": jsonl(*[{"id": "a", **row} for row in good()]),
    "unknown_task.jsonl": jsonl(*[{"task": "chess", "problem": f"Move {n}?", "answer": "e4"} for n in range(12)]),
    "unknown_compare.jsonl": jsonl(*[{"compare": "about", **row} for row in good()]),
    "too_many_fields.csv": csv(*[f"What {n}?,red,more,and more" for n in range(12)]),
    "folder.jsonl": None,
}
READ = {
    "plain.csv": csv(*plain_rows()),
    "windows.csv": csv(*plain_rows(), ending="\r\n"),
    "byte_order_mark.csv": "\ufeff" + csv(*plain_rows()),
    "semicolons.csv": csv(*[row.replace(",", ";") for row in plain_rows()], header="question;answer"),
    "tabs.csv": csv(*[row.replace(",", "\t") for row in plain_rows()], header="question\tanswer"),
    "quotes_and_breaks.csv": csv(*[f'"What,\n""{n}""?",red' if n % 2 else f"What {n}?,blue" for n in range(12)]),
    "upper_case.csv": csv(*plain_rows(), header="Question,Answer"),
    "other_names.csv": csv(*plain_rows(), header="mail,label"),
    "unknown_names.csv": csv(*plain_rows(), header="customer_says,we_do"),
    "formulas.csv": csv(*[f"=1+{n}?,=SUM(A{n})" for n in range(12)]),
    "html_in_cells.jsonl": jsonl(*[row | {"question": f"<script>alert({n})</script>"} for n, row in enumerate(good())]),
    "prompt_injection.jsonl": jsonl(
        *[row | {"question": f"{row['question']} {{{{ 7*7 }}}} </answer>"} for row in good()]
    ),
    "duplicates.csv": csv(*plain_rows(), *plain_rows()),
    "all_equal.csv": csv(*[f"What {n}?,red" for n in range(12)]),
    "emoji.jsonl": jsonl(*good(), {"question": "🙂 \u202e what?", "answer": "🙂"}),
    "control_characters.jsonl": jsonl(*[row | {"question": f"{row['question']} \x1b[31m \x07"} for row in good()]),
    "long_question.jsonl": jsonl(*good(), {"question": "long " * 20_000, "answer": "red"}),
    "nested_answers.jsonl": jsonl(*[{"question": f"q {n}", "answer": {"a": {"b": [n]}}} for n in range(12)]),
    "lists_as_answers.jsonl": jsonl(*[{"question": f"q {n}", "answer": [n, "x"]} for n in range(12)]),
    "booleans.jsonl": jsonl(*[{"question": f"q {n}", "answer": n % 2 == 0} for n in range(12)]),
    "numbers.csv": csv(*[f"What is {n} squared?,{n * n}" for n in range(12)]),
    "units.csv": csv(*[f"How heavy is {n}?,{n}.5 kg" for n in range(12)]),
    "dates.csv": csv(*[f"When {n}?,2026-03-{n + 1:02}" for n in range(12)]),
    "alternatives.csv": csv(*[f"Where {n}?,New York{n}|NYC{n}" for n in range(12)]),
    "infinite_numbers.csv": csv(*[f"What {n}?,inf" for n in range(12)]),
    "spaces.csv": csv(*[f"  What {n}?  ,  red  " for n in range(12)]),
    "json_array.json": json.dumps(good()),
    "nan_of_pandas.jsonl": jsonl(*[row | {"note": math.nan} for row in good()], {"question": "q", "answer": math.nan}),
    "extra_columns.jsonl": jsonl(*[row | {"more": [1, {"a": math.pi}], "split": "x"} for row in good()]),
    "task_of_others.jsonl": jsonl(*[{"task": "closed choice", **row} for row in good()]),  # as in ScienceQA
    "braces.jsonl": jsonl(
        *[row | {"question": f"{{question}} {{experiences}} %s {n}"} for n, row in enumerate(good())]
    ),
}


def start(tmp_path, monkeypatch, name, content, *flags):
    """Read a table as the command does before it asks anything."""
    monkeypatch.setattr(run_folders, "WORKING_DIR", tmp_path)
    path = tmp_path / name
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    words = ["--dataset", path, "--base-url", "http://127.0.0.1:9/v1", "--model", "m", "--dry-run", *flags]
    return improve.main([str(word) for word in words])


@pytest.mark.parametrize("name", REFUSED)
def test_a_table_that_cannot_be_used_is_refused_in_one_sentence(tmp_path, monkeypatch, name):
    with pytest.raises(ScaffoldError) as raised:
        start(tmp_path, monkeypatch, name, REFUSED[name])
    assert 10 < len(raised.value.what) < 400
    assert "\n" not in raised.value.what.strip()
    assert raised.value.exit_code == 1


@pytest.mark.parametrize("name", READ)
def test_a_table_that_can_be_used_is_read(tmp_path, monkeypatch, capsys, name):
    assert start(tmp_path, monkeypatch, name, READ[name]) == 0
    output = capsys.readouterr().out
    assert " answers each in " in output
    assert "\x1b[31m" not in output
    assert "\x07" not in output


def test_problems_of_the_test_that_were_learned_from_are_left_out(tmp_path, monkeypatch, capsys):
    test = tmp_path / "test.csv"
    test.write_text(csv(*plain_rows(12), *[f"New {n}?,red" for n in range(9)]))
    start(tmp_path, monkeypatch, "train.csv", csv(*plain_rows()), "--test", test)
    output = capsys.readouterr().out
    assert f"12 problems of {test} are left out, as their text occurs twice" in output
    assert "9 problems from which nothing is learned" in output


def test_a_large_table_is_read_in_bounded_memory_and_time(tmp_path, monkeypatch, capsys):
    rows = "".join(
        f'{{"question": "q {n} {"x" * 900}", "answer": "{("red", "blue")[n % 2]}"}}\n' for n in range(20_000)
    )
    assert start(tmp_path, monkeypatch, "large.jsonl", rows, "--max-problems", 200) == 0
    assert "answers each in 2 passes" in capsys.readouterr().out


def test_texts_that_occur_twice_are_counted(tmp_path, monkeypatch, capsys):
    rows = csv(*plain_rows(), "What is number 0?,blue", "What is number 1?,BLUE")
    start(tmp_path, monkeypatch, "mails.csv", rows)
    assert "2 problems of" in capsys.readouterr().out


def test_a_long_prompt_is_shown_in_part(tmp_path, monkeypatch, capsys):
    start(tmp_path, monkeypatch, "long.jsonl", jsonl({"question": "long " * 20_000, "answer": "red"}, *good()))
    output = capsys.readouterr().out
    assert len(output) < 8000
    assert "... (100,0" in output


def test_one_pass_is_not_called_passes(tmp_path, monkeypatch, capsys):
    start(tmp_path, monkeypatch, "mails.csv", csv(*plain_rows()), "--epochs", 1)
    assert "4 answers each in 1 pass: at most 48 answers." in capsys.readouterr().out
