"""Datasets: names, places, fields, and every kind of broken file."""

import csv
import json
import socket
import sys
import time
import tracemalloc
from types import ModuleType

import pytest

from engine.datasets import load_dataset, load_problems
from engine.errors import InputError, MissingInputError
from engine.storage import hub
from engine.tasks.registry import task_named
from engine.tasks.rows import read_field_map
from tests.support.table import table

GOOD = {"id": "a", "problem": "What is 6 * 7?", "answer": "42"}


@pytest.fixture(autouse=True)
def no_web(monkeypatch, tmp_path):
    """Datasets that earlier commands have fetched are not seen, and none is fetched."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def _line(line):
    if isinstance(line, bytes):
        return line
    return (line if isinstance(line, str) else json.dumps(line)).encode()


@pytest.fixture
def write(tmp_path):
    def _write(*lines, name="mine.jsonl"):
        path = tmp_path / name
        path.write_bytes(b"".join(_line(line) + b"\n" for line in lines))
        return str(path)

    return _write


def _stub_hub(monkeypatch, load):
    monkeypatch.setattr(hub, "_use_the_cache_if_offline", lambda: None)
    module = ModuleType("datasets")
    module.load_dataset = load
    monkeypatch.setitem(sys.modules, "datasets", module)


def test_physics_is_shipped_with_the_task_physics():
    problems = load_problems("physics")
    assert len(problems) >= 30
    assert {problem.task for problem in problems} == {"physics"}
    assert problems[0].id == "physics_001"
    assert set(problems[0].meta) == {"area"}


def test_a_path_gives_fields_defaults_and_meta(write):
    first, second = load_problems(
        write(GOOD, {"question": " Two? ", "ground_truth": 2, "task": "physics", "year": 2024, "level": None})
    )
    assert (first.id, first.text, first.answer, first.task, first.meta) == (
        "a", "What is 6 * 7?", "42", "math", {}
    )  # fmt: skip
    assert (second.id, second.text, second.answer, second.task) == ("mine_002", "Two?", "2", "physics")
    assert second.meta == {"year": 2024, "level": None}


@pytest.mark.parametrize("field", ["problem", "question", "prompt", "text"])
def test_names_of_the_text_field(write, field):
    assert load_problems(write({field: "Q", "answer": "1"}))[0].text == "Q"


def test_a_name_is_looked_for_in_the_given_order(write, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, answer in ((first, "1"), (second, "2")):
        folder.mkdir()
        (folder / "aime2024.jsonl").write_text(json.dumps({"problem": "Q", "answer": answer}))
    assert load_problems("aime2024", search=[tmp_path, first, second])[0].answer == "1"
    assert load_problems("aime2024", search=[second, first])[0].answer == "2"


def test_scaffold_data_is_a_place_and_any_stem_there_is_a_name(write, tmp_path, monkeypatch):
    write(GOOD, name="homework.jsonl")
    monkeypatch.setenv("SCAFFOLD_DATA", str(tmp_path))
    (problem,) = load_problems("homework")
    assert problem.id == "a"


def test_max_problems_reads_no_further(write):
    path = write(GOOD, {"problem": "Q", "answer": "1"}, "this line is broken")
    assert [problem.id for problem in load_problems(path, max_problems=2)] == ["a", "mine_002"]
    with pytest.raises(InputError, match="max_problems is 0"):
        load_problems(path, max_problems=0)


def test_an_unknown_name_gets_the_nearest_valid_one():
    with pytest.raises(InputError) as caught:
        load_problems("amie2024")
    assert "Unknown dataset: 'amie2024'" in caught.value.what
    assert "aime2024" in caught.value.fix
    assert all(name in caught.value.why for name in ("aime2024", "aime2025", "physics"))


def test_a_file_of_this_folder_is_read_and_one_without_a_suffix_is_pointed_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("problems.txt", "problems"):
        (tmp_path / name).write_text(json.dumps(GOOD))
        assert load_problems(f"./{name}")[0].id == "a"
    assert load_problems("problems.txt")[0].id == "a"
    with pytest.raises(InputError, match=r"To read problems of this folder, write \./problems\."):
        load_problems("problems")


def test_a_name_is_never_a_way_out_of_the_folders(tmp_path):
    (tmp_path / "secret.jsonl").write_text(json.dumps(GOOD))
    (tmp_path / "inner").mkdir()
    for name in ("..", ".secret", "", "a\0b"):
        with pytest.raises(InputError, match="Unknown dataset"):
            load_problems(name, search=[tmp_path / "inner"])


def test_a_missing_path_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MissingInputError, match=r"Dataset file not found: nowhere/x\.jsonl") as caught:
        load_problems("nowhere/x.jsonl")
    assert isinstance(caught.value, FileNotFoundError)
    assert '"problem"' in str(caught.value)
    assert str(tmp_path) in caught.value.why


def test_a_folder_is_no_dataset(tmp_path):
    with pytest.raises(InputError, match="Cannot read"):
        load_problems(f"{tmp_path}/")


def test_the_hub_is_asked_where_no_file_is(monkeypatch, tmp_path):
    asked = []

    def load(repository, *, split, revision):
        asked.append((repository, split, len(revision)))
        return [
            {"id": 60, "problem": "P", "solution": "S", "answer": "204", "url": "u", "year": "2024"},
            {"id": 61, "problem": "Q", "solution": "S", "answer": "025", "url": "u", "year": "2024"},
        ]

    _stub_hub(monkeypatch, load)
    first, second = load_problems("aime2024", search=[tmp_path])
    assert asked == [("HuggingFaceH4/aime_2024", "train", 40)]
    assert (first.id, first.answer, first.meta["source_id"], first.meta["year"]) == (
        "aime2024_001", "204", 60, "2024"
    )  # fmt: skip
    assert (second.id, second.answer) == ("aime2024_002", "25")


def test_aime2025_on_the_hub(monkeypatch, tmp_path):
    _stub_hub(monkeypatch, lambda repository, *, split, revision: [
        {"problem": f"{repository} {split}", "answer": "70", "id": "0"}
    ])  # fmt: skip
    (problem,) = load_problems("aime2025", search=[tmp_path])
    assert (problem.id, problem.text, problem.answer) == ("aime2025_001", "math-ai/aime25 test", "70")


def test_without_file_and_package_one_error_says_where_and_what(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingInputError) as caught:
        load_problems("aime2025", search=[tmp_path])
    message = str(caught.value)
    assert str(tmp_path / "aime2025.jsonl") in message
    assert all(word in message for word in ('"problem"', '"answer"', "math-ai/aime25", "[datasets]"))


def test_a_hub_that_fails_is_the_same_one_error(monkeypatch, tmp_path):
    def load(repository, *, split, revision):
        raise ConnectionError("no route\nto host")

    _stub_hub(monkeypatch, load)
    with pytest.raises(MissingInputError) as caught:
        load_problems("aime2024", search=[tmp_path])
    assert "ConnectionError: no route" in caught.value.why
    assert str(tmp_path / "aime2024.jsonl") in caught.value.fix


@pytest.mark.parametrize(
    ("name", "repository"), [("apps", "codeparrot/apps"), ("mbpp", "google-research-datasets/mbpp")]
)
def test_the_error_of_the_hub_names_the_dataset_and_not_the_format_of_its_files(
    monkeypatch, tmp_path, name, repository
):
    def load(*arguments, **options):
        raise OSError("no route")

    _stub_hub(monkeypatch, load)
    with pytest.raises(MissingInputError) as raised:
        load_problems(name, search=[tmp_path])
    assert f"The Hugging Face hub did not provide {repository}: OSError: no route" in raised.value.why


def test_a_set_without_a_place_on_the_hub(tmp_path):
    with pytest.raises(MissingInputError, match="Dataset physics is not on this machine"):
        load_problems("physics", search=[tmp_path])


@table(
    ("given", "answer"),
    [("033", "33"), (33, "33"), ("33", "33"), (33.0, "33"), ("000", "0"), ("$999$", "999"),
     ("336^\\circ", "336"), ("336^{\\circ}", "336"), ("82°", "82")],
)  # fmt: skip
def test_aime_answers_are_made_integers(write, tmp_path, given, answer):
    write({"problem": "Q", "answer": given}, name="aime2024.jsonl")
    assert load_problems("aime2024", search=[tmp_path])[0].answer == answer


@table("given", ["1000", "-1", 1234, "3/4", "33.5", "thirty", "٣٣", "", " ", True, None, [33]])
def test_other_aime_answers_are_refused_by_line_and_field(write, tmp_path, given):
    write({"problem": "Q", "answer": "1"}, {"problem": "Q", "answer": given}, name="aime2025.jsonl")
    with pytest.raises(InputError, match=r"aime2025\.jsonl, line 2: field 'answer'"):
        load_problems("aime2025", search=[tmp_path])


def test_a_task_in_rows_of_others_is_a_text(write):
    rows = [{"task": f"closed choice {n}", "question": f"How many are {n}?", "answer": f"{n}"} for n in range(2)]
    loaded = load_dataset(write(*rows))  # ScienceQA, LiveBench
    assert {problem.task for problem in loaded.problems} == {"answers"}
    assert "the column task names no task, as in 'closed choice 0', and is not used" in loaded.note
    assert "names no task" not in load_dataset(write(*[row | {"task": "answers"} for row in rows])).note


def test_other_answers_to_the_same_question_are_told(write):
    rows = [{"scene": f"Act {n}.", "question": "Who is it?", "answer": ("Ann", "Bo")[n % 2]} for n in range(4)]
    assert "4 of 4 rows have the question of another row, but another right answer" in load_dataset(write(*rows)).note
    clean = [row | {"question": f"Who is {n}?"} for n, row in enumerate(rows)]
    assert "another right answer" not in load_dataset(write(*clean)).note


@table(
    ("line", "words"),
    [
        ({"answer": "1", "subject": "x"}, "line 2: it is not clear which column is the question"),
        ({"problem": "Q", "solution": "so it is 7", "level": 2}, "line 2: there is no column with the right answer"),
        ({}, "line 2: it is not clear which column"),
        ({"problem": "Q", "answer": "1", "id": ""}, "line 2: field 'id' is empty"),
        ({"problem": "Q", "answer": "1", "task": "mth"}, "line 2: field 'task': (?s:.*)Did you mean 'math'"),
        ({"problem": "Q", "answer": "1", "task": {"a": 1}}, "line 2: field 'task': expected text"),
        ({"prompt": [{"role": "user"}], "answer": "1"}, "line 2: it is not clear which column is the question"),
        ({"problem": "Q", "answer": "1", "id": "a"}, "line 2: field 'id': 'a' is already on line 1"),
        ('{"problem": "Q", "answer": "1"', "line 2: not JSON: .* at column"),
        ('{"problem": "Q", "answer": Infinity}', "line 2: not JSON: Infinity is not a JSON number"),
        ('{"problem": "Q", "answer": ' + "7" * 5000 + "}", "line 2: not JSON: Exceeds the limit"),
        ("[" * 100_000, "line 2: nested too deeply"),
        ("[1, 2]", "line 2: expected a JSON object, got a list"),
        ('"text"', "line 2: expected a JSON object, got a str"),
        (b'{"problem": "caf\xe9", "answer": "1"}', "line 2: not UTF-8 .byte 0xe9 at column 17"),
    ],
)
def test_a_broken_line_is_named(write, line, words):
    path = write(GOOD, line)
    with pytest.raises(InputError, match=words) as caught:
        load_problems(path)
    assert path in caught.value.what
    assert len(str(caught.value)) < 1000


@table(
    "line",
    [
        {"problem": "Q", "answer": None},
        {"problem": "Q", "answer": " \t"},
        {"problem": "", "answer": "1"},
        {"problem": "Q", "answer": []},
        '{"problem": "Q", "answer": 1e999}',
    ],
)
def test_a_row_without_a_question_or_an_answer_is_left_out_and_named(write, line):
    loaded = load_dataset(write(GOOD, line))
    assert len(loaded.problems) == 1
    assert "1 row has no question or no right answer and is left out" in loaded.note
    assert "line 2: field" in loaded.note
    with pytest.raises(InputError, match="no column with the right answer|not clear which column"):
        load_problems(write(line))


def test_a_file_without_a_right_answer_names_the_flag_that_says_where_it_is(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"problem": "1 + 1?", "solution_text": "2", "level": 1}\n')
    with pytest.raises(InputError, match="there is no column with the right answer") as raised:
        load_problems(str(path), task=task_named("math"))
    assert "--fields answer=" in raised.value.fix


@pytest.mark.parametrize("content", [b"", b"\n\n  \n", b"\xef\xbb\xbf"])
def test_an_empty_file(tmp_path, content):
    path = tmp_path / "empty.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"empty\.jsonl holds no problem\n"):
        load_problems(str(path))


def test_blank_lines_a_byte_order_mark_and_windows_line_ends_are_no_fault(tmp_path):
    path = tmp_path / "w.jsonl"
    line = json.dumps({"problem": "Ω?", "answer": "1"}, ensure_ascii=False).encode()
    path.write_bytes(b"\xef\xbb\xbf" + line + b"\r\n\r\n" + line)
    assert [(problem.id, problem.text) for problem in load_problems(str(path))] == [
        ("w_001", "Ω?"),
        ("w_002", "Ω?"),
    ]


def test_a_line_of_10_mb_is_read(write):  # hidden tests of LiveCodeBench, images
    long = {"problem": "Q", "answer": "1", "tests_of_others": "x" * 10_000_000}
    assert [problem.text for problem in load_problems(write(long, GOOD))] == ["Q", GOOD["problem"]]


def test_a_line_of_100_mb_is_refused_in_bounded_memory(write):
    path = write(GOOD, b'{"problem": "' + b"x" * 100_000_000 + b'", "answer": "1"}')
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="line 2: the line is longer than 67,108,864 bytes"):
            load_problems(path)
        assert tracemalloc.get_traced_memory()[1] < 4 * (64 << 20)
    finally:
        tracemalloc.stop()


def test_real_aime2024(aime2024):
    problems = load_problems("aime2024", search=[aime2024.parent])
    assert [problem.id for problem in problems] == [f"aime2024_{k:03d}" for k in range(1, 31)]
    assert problems[1].answer == "23"
    assert all(0 <= int(problem.answer) <= 999 for problem in problems)


def test_a_folder_of_datasets_is_read_as_one_in_the_order_of_its_folders(tmp_path):
    for name, ids in (("b", ["b1"]), ("a", ["a1", "a2"])):
        (tmp_path / name).mkdir()
        rows = [{"id": problem_id, "problem": "Q", "answer": "1"} for problem_id in ids]
        (tmp_path / name / "grpo_dataset.json").write_text(json.dumps(rows))
    assert [problem.id for problem in load_problems(str(tmp_path))] == ["a1", "a2", "b1"]
    assert [problem.id for problem in load_problems(str(tmp_path), max_problems=2)] == ["a1", "a2"]
    assert [problem.id for problem in load_problems(str(tmp_path / "b"))] == ["b1"]
    (tmp_path / "b/grpo_dataset.json").write_text('[{"id": "a1", "problem": "Q", "answer": "1"}]')
    with pytest.raises(InputError, match="b/grpo_dataset.json: the id 'a1' is in an earlier file"):
        load_problems(str(tmp_path))


@pytest.mark.parametrize("mark", [";", "\t"])
def test_a_csv_file_of_a_spreadsheet_with_decimal_commas(tmp_path, mark):
    path = tmp_path / "mine.csv"
    path.write_text(f"problem{mark}answer\nHow much, in m?{mark}3.5\n", encoding="utf-8-sig")
    (problem,) = load_problems(str(path))
    assert (problem.text, problem.answer) == ("How much, in m?", "3.5")


def test_csv_and_parquet_are_read_as_jsonl_is(tmp_path):
    rows = [{"problem": 'A "quoted", one', "answer": "1", "year": None}]
    rows += [{"problem": "two\nlines", "answer": "2", "year": "2024"}]
    table = tmp_path / "mine.csv"
    with table.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, ["problem", "answer", "year"])
        writer.writeheader()
        writer.writerows(rows)
    columns = tmp_path / "mine.parquet"
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.Table.from_pylist(rows), columns)
    from_csv, from_parquet = load_problems(str(table)), load_problems(str(columns))
    for first, second in (from_csv, from_parquet):
        assert (first.id, first.text, first.answer) == ("mine_001", 'A "quoted", one', "1")
        assert (second.text, second.meta["year"]) == ("two\nlines", "2024")


@table(
    ("name", "content", "said"),
    [
        ("a.csv", b"problem,answer\none,1,2\n", "a.csv, line 2: more fields"),
        ("a.csv", b'problem,answer\n"one,1\n', "not CSV"),
        ("a.parquet", b"problem,answer\n", "not a parquet file"),
        ("a.arrow", b"problem,answer\n", "not an Arrow file"),
    ],
)
def test_a_damaged_table_is_one_error(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=said):
        load_problems(str(tmp_path / name))


def test_fields_are_read_under_other_names(write):
    path = write({"question": "Q", "problem": "not this", "reward": {"truth": "7"}, "id": "a", "level": 3})
    fields = read_field_map("problem=question, answer=reward.truth")
    (problem,) = load_problems(path, fields=fields)
    assert (problem.id, problem.text, task_named(problem.task).truth(problem)) == ("a", "Q", "7")
    assert problem.meta["level"] == 3
    with pytest.raises(InputError, match="there is no field 'final', which --fields names"):
        load_problems(path, fields={"answer": "final"})


@table("text", ["problem", "problem=", "=x", "problem=a,problem=b", "problem=a,"])
def test_a_field_map_of_another_form_is_refused(text):
    with pytest.raises(InputError, match="NAME=FIELD"):
        read_field_map(text)


def test_the_answer_of_a_gsm8k_row_is_the_number_after_its_mark(write):
    solution = "Janet sells 16 - 3 - 4 = <<16-3-4=9>>9 eggs.\nShe makes 9 * 2 = $18.\n#### 1,018"
    (problem,) = load_problems(write({"question": "Q", "answer": solution}))
    assert problem.answer == "1,018"


GSM8K = {
    "main": {"train": [{"question": "Q", "answer": "so\n#### 18"}], "test": [{"question": "T", "answer": "#### 3"}]}
}


def _fake_hub(monkeypatch, configurations):
    """The three functions of ``datasets`` that are used, on configurations of splits of rows."""
    _stub_hub(monkeypatch, lambda repository, config, *, split: configurations[config][split])
    module = sys.modules["datasets"]
    module.get_dataset_config_names = lambda repository: list(configurations)
    module.get_dataset_split_names = lambda repository, config: list(configurations[config])


@table(
    ("name", "text", "answer"),
    [
        ("openai/gsm8k", "Q", "18"),
        ("openai/gsm8k:test", "T", "3"),
        ("openai/gsm8k:test?config=main", "T", "3"),
    ],
)
def test_a_dataset_of_the_hub_by_its_name(monkeypatch, name, text, answer):
    _fake_hub(monkeypatch, {"socratic": GSM8K["main"], **GSM8K})
    (problem,) = load_problems(name)
    assert (problem.id, problem.text, problem.answer) == ("gsm8k_001", text, answer)


def test_an_unclear_configuration_or_split_of_the_hub_is_asked_for(monkeypatch):
    _fake_hub(monkeypatch, {"a": {}, "b": {}})
    with pytest.raises(InputError, match="Which config of owner/name is meant") as caught:
        load_problems("owner/name")
    assert "owner/name?config=a" in caught.value.fix
    _fake_hub(monkeypatch, {"a": {"dev": [], "eval": []}})
    with pytest.raises(InputError, match="It has: dev, eval"):
        load_problems("owner/name")


def test_a_hub_that_cannot_be_reached_is_one_error(monkeypatch):
    def offline(repository):
        raise ConnectionError("no route\nto host")

    _fake_hub(monkeypatch, {})
    sys.modules["datasets"].get_dataset_config_names = offline
    with pytest.raises(MissingInputError, match="owner/name is not available") as caught:
        load_problems("owner/name:train")
    assert "ConnectionError: no route" in caught.value.why
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingInputError, match=r"pip install .*\[datasets\]"):
        load_problems("owner/name")


@pytest.mark.parametrize("name", ["owner/name", "aime2024"])
def test_a_machine_without_a_connection_is_told_so_at_once(monkeypatch, tmp_path, name):
    """The packages of the hub retry for 20 s per call; a retry would sleep."""
    datasets, constants = pytest.importorskip("datasets"), pytest.importorskip("huggingface_hub.constants")
    for module in (datasets.config, constants):
        monkeypatch.setattr(module, "HF_HUB_OFFLINE", False)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # nobody listens on it
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{closed.getsockname()[1]}")
        slept = []
        monkeypatch.setattr(time, "sleep", slept.append)
        with pytest.raises(MissingInputError) as caught:
            load_problems(name, search=[tmp_path])
    assert "Connect" in caught.value.why
    assert slept == []


def test_an_existing_path_and_a_file_name_are_never_asked_from_the_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "owner").mkdir()
    (tmp_path / "owner/name").write_text(json.dumps(GOOD))
    assert load_problems("owner/name")[0].text == GOOD["problem"]
    with pytest.raises(MissingInputError, match="Dataset file not found"):
        load_problems("owner/name.jsonl")


def test_the_errors_tell_where_data_folders_are_looked_up(tmp_path):
    with pytest.raises(InputError, match=r"\$SCAFFOLD_DATA"):
        load_problems("no-such-set", search=[tmp_path])
    with pytest.raises(MissingInputError, match=r"\$SCAFFOLD_DATA"):
        load_problems("physics", search=[tmp_path])


MAILS = [("Where is my parcel?", "shipping"), ("You charged me twice.", "billing"), ("It crashes.", "technical")]


def test_rows_that_name_the_task_answers_are_compared_as_their_dataset_suggests(write):
    """Also beside rows of another task, and beside rows that name none and are read as answers too."""
    physics = {"problem": "How far do 3 m and 4 m reach?", "answer": "7 m", "task": "physics"}
    named = [{"problem": f"{text} {n}", "answer": label, "task": "answers"} for n in (1, 2) for text, label in MAILS]
    open_rows = [{"problem": text, "answer": label} for text, label in MAILS]
    loaded = load_dataset(write(physics, *named, *open_rows))
    assert "9 rows are read as answers, compared as one of 3 labels (billing, shipping, technical)" in loaded.note
    assert loaded.problems[0].task == "physics"
    values = [task_named("answers").prompt_values(problem) for problem in loaded.problems[1:]]
    labels = {"kind": "label", "labels": ["billing", "shipping", "technical"], "marks": [], "keys": [], "schema": None}
    assert values == [labels] * 9


def test_rows_that_name_the_task_answers_are_compared_as_the_user_says(write):
    row = {"question": "How long is it?", "answer": "12.5 km", "task": "answers"}
    assert "compared as numbers, right within 2 %" in load_dataset(write(row), compare_as="number:2%").note


def test_the_columns_of_a_chinese_file_are_known(write):
    path = write("序号,题型,题目,答案", "1,应用题,走了多久？,3小时", "2,应用题,走了多远？,12千米", name="a.csv")
    loaded = load_dataset(path)
    assert "2 rows are read as answers, compared as numbers" in loaded.note
    assert [problem.text for problem in loaded.problems] == ["走了多久？", "走了多远？"]


def test_a_file_in_another_encoding_is_read_and_the_encoding_is_said(write):
    loaded = load_dataset(write("题目,答案\n走了多久？,3小时".encode("gb18030"), name="a.csv"))
    assert [problem.text for problem in loaded.problems] == ["走了多久？"]
    assert "GB18030" in loaded.note


def test_a_sorted_file_of_which_one_class_is_read_is_named(write):
    rows = [{"text": f"mail {n}", "label": ("billing", "shipping")[n // 10]} for n in range(20)]
    assert "the file is sorted" in load_dataset(write(*rows), max_problems=5).note
    assert "the file is sorted" not in load_dataset(write(*rows), max_problems=12).note
    assert "the file is sorted" not in load_dataset(write(*rows)).note


def test_the_splits_of_a_folder_are_named(tmp_path):
    for split in ("train", "test"):
        row = {"question": f"{split}?", "answer": "yes"}
        (tmp_path / f"{split}.jsonl").write_text(json.dumps(row))
    loaded = load_dataset(str(tmp_path))
    assert [problem.text for problem in loaded.problems] == ["train?"]
    assert f"{tmp_path}:test" in loaded.note
    assert load_problems(f"{tmp_path}:test")[0].text == "test?"
    with pytest.raises(InputError, match="has no split 'dev'"):
        load_problems(f"{tmp_path}:dev")


def test_columns_without_names_are_named_or_numbered(write):
    lines = [f"ham\tmessage number {n} for you" if n % 2 else f"spam\tbuy {n} now, it is free" for n in range(8)]
    path = write(*lines, name="sms.txt")
    with pytest.raises(InputError, match="looks like a row"):
        load_dataset(path)
    named = load_dataset(path, columns=["label", "text"])
    numbered = load_dataset(path, fields=read_field_map("2=problem,1=answer"))
    assert len(named.problems) == len(numbered.problems) == 8
    assert [problem.text for problem in named.problems] == [problem.text for problem in numbered.problems]
    assert named.problems[0].text == "buy 0 now, it is free"


def test_a_template_joins_columns_and_never_changes_the_task(write):
    rows = [{"passage": f"Ann has {n} eggs.", "q": "How many?", "n": n, "colour": "red"} for n in range(9)]
    for given in (r"problem={passage}\n\n{q},answer=n", "problem=passage+q,answer=n"):
        loaded = load_dataset(write(*rows), fields=read_field_map(given))
        assert loaded.problems[3].text == "Ann has 3 eggs.\n\nHow many?"
        assert loaded.problems[3].task == "answers"
    assert read_field_map("problem={a}, then {b},answer=c") == {"problem": "{a}, then {b}", "answer": "c"}


def test_the_prompt_of_a_row_that_says_label_lists_the_labels_of_all_such_rows(write):
    """One label alone would be the answer."""
    numbers = [{"problem": f"How far is {n}?", "answer": f"{n} km", "compare": "number"} for n in (3, 5)]
    labelled = [{"problem": text, "answer": label, "compare": "label"} for text, label in MAILS]
    loaded = load_dataset(write(*numbers, *labelled))
    assert loaded.note == "5 rows are read as answers, compared as each row says"
    values = [task_named("answers").prompt_values(problem) for problem in loaded.problems]
    assert [value["kind"] for value in values] == ["number"] * 2 + ["label"] * 3
    assert values[-1]["labels"] == ["billing", "shipping", "technical"]
    open_rows = [{"problem": f"Which team, {n}?", "answer": label} for n in (1, 2) for _, label in MAILS]
    mixed = load_dataset(write(*numbers, *labelled[:1], *open_rows))
    assert "3 labels (billing, shipping, technical)" in mixed.note
    assert "3 of them as the row says" in mixed.note
    assert task_named("answers").prompt_values(mixed.problems[2])["labels"] == ["billing", "shipping", "technical"]
    alone = load_problems(write(labelled[0]))
    assert task_named("answers").prompt_values(alone[0])["labels"] == []
