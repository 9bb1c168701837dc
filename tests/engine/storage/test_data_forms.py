"""The forms in which people publish rows, each known by the content of its file."""

import contextlib
import csv
import datetime
import gzip
import itertools
import json
import random
import sys
import tracemalloc
from decimal import Decimal
from types import ModuleType

import pytest

from engine.errors import InputError, ScaffoldError
from engine.storage import hub
from engine.storage.data_files import SUFFIXES, open_data_file, split_files
from tests.conftest import SHARED_DATA
from tests.engine.storage.forms import ASKED, COLUMNS, LISTS, NUMBERED, PAIRS, opening, written
from tests.support.table import table


@pytest.fixture
def opened(tmp_path):
    return opening(tmp_path)


@table(
    ("document", "rows", "note"),
    [
        ({"data": ASKED}, ASKED, "rows are under 'data'"),
        ({"canary": "x", "keywords": ["a"], "examples": ASKED}, ASKED, "rows are under 'examples'"),
        ({"a": {"b": {"rows": ASKED}, "n": []}}, ASKED, "rows are under 'a.b.rows'"),
        ({"data": {"common": ASKED, "synonyms": [{"value": "a"}]}}, ASKED, "2 lists of rows (data.common, data.syn"),
        (
            {f"q{n}": row for n, row in enumerate(ASKED)},
            [{"id": f"q{n}", **ASKED[n]} for n in range(6)],
            "6 rows by id",
        ),
        ({"7": {"id": "own", **ASKED[0]}}, [{"id": "own", **ASKED[0]}], "1 rows by id"),
        (COLUMNS, ASKED, "rows are columns"),
        ({"name": "x", "n": 6, **COLUMNS}, ASKED, "rows are columns"),
        (
            {"train": {"data": ASKED}, "test": {"data": PAIRS}},
            ASKED,
            "2 splits (train.data, test.data); read are the 6",
        ),
        ({"dev": {"1": ASKED[0]}, "train": {"1": ASKED[1]}}, [{"id": "1", **ASKED[1]}], "read are the 1 rows of train"),
        ([["question", "answer"], *LISTS], ASKED, None),
        (LISTS, NUMBERED, "rows are lists; their columns are 1, 2"),
        ({"test": LISTS, "train": LISTS}, NUMBERED, "2 splits (test, train); read are the 6 rows of train"),
        ({"train": ASKED[:1], "test": ASKED * 2}, ASKED * 2, "read are the 12 rows of test"),
        ({"train": COLUMNS, "test": COLUMNS}, ASKED, "2 splits"),
        ({"question": "Why?", "choices": [{"text": "a"}, {"text": "b"}], "answer": "a"}, None, None),
        ({"messages": [{"role": "user", "content": "x"}]}, None, None),
        ({"question": "Why?", "reward": {"truth": "7"}}, None, None),
    ],
)
def test_the_rows_of_a_document_are_found(opened, document, rows, note):
    file_rows, file = opened(document)
    assert file_rows == ([document] if rows is None else rows)
    assert note is None or any(note in file_note for file_note in file.notes)


@table(
    ("document", "rows"),
    [
        (
            [{"title": "t", "id": 1, "paragraphs": [{"context": "c", "qas": [{"question": "Q", "id": "a"}]}]}],
            [{"title": "t", "context": "c", "question": "Q", "id": "a"}],
        ),
        (
            {"p1": {"passage": "c", "qa_pairs": [{"question": "Q", "answer": 1}, {"question": "R", "answer": 2}]}},
            [{"passage": "c", "question": "Q", "answer": 1}, {"passage": "c", "question": "R", "answer": 2}],
        ),
        (
            [
                {"table": {"a": 1}, "paragraphs": [{"text": "x"}], "questions": [{"question": "Q", "scale": "%"}]},
                {"table": {"a": 2}, "paragraphs": [], "questions": []},
            ],
            [{"table": {"a": 1}, "paragraphs": [{"text": "x"}], "question": "Q", "scale": "%"}],
        ),
    ],
)
def test_nested_questions_are_rows_with_the_fields_of_what_holds_them(opened, document, rows):
    assert opened(document)[0] == rows
    lines = document if isinstance(document, list) else [{"id": key, **row} for key, row in document.items()]
    assert opened("".join(json.dumps(line) + "\n" for line in lines * 2))[0] == rows * 2


def test_half_a_surrogate_pair_becomes_a_question_mark(opened):
    for content in ('{"question": "a\\ud800", "answer": "b"}\n', '[{"question": "a\\ud800", "answer": "b"}]'):
        assert opened(content)[0] == [{"question": "a?", "answer": "b"}]


def test_the_split_that_is_read_can_be_named(opened):
    document = {"data": {"dev": ASKED[:2], "test": ASKED[2:]}}
    for split, rows in (("validation", 2), ("dev", 2), ("data.test", 4)):
        assert len(opened(document, split=split)[0]) == rows
    with pytest.raises(InputError, match=r"several lists of rows(?s:.*)data\.dev \(2 rows\), data\.test \(4 rows\)"):
        opened(document)
    with pytest.raises(InputError, match="has no 'train'"):
        opened(document, split="train")


@table(
    ("content", "what", "fix"),
    [
        (b"\x89PNG\r\n\x1a\n" + bytes(50), "not a text file", "UTF-8"),
        (b"\n <!DOCTYPE html>\n<html>", "a page of HTML", "raw content"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "a pointer of Git LFS", "git lfs pull"),
        (gzip.compress(bytes(257) + b"ustar"), "not a text file", "UTF-8"),
        (gzip.compress(b"a,b\n" * 999)[:-20], "a damaged gzip file", "anew"),
        (b"PAR1" + bytes(50), "not a parquet file", ""),
        (b"one line of prose\nand another one\n", "neither JSON nor a table", "JSONL"),
        (b"{'a': 1}\n{'a': 2}\n", "line 1: not JSON", "array of objects"),
        (b"a,b\n" + b"x" * 3_000_000, "line 2: the line is longer than", ""),
        (b'{"a": [' * 50_000, "nested too deeply", ""),
        (b'[{"a": -Infinity}]', "-Infinity is not a JSON number", ""),
        (b'{"rows": []}', "holds no list of rows", "array of objects"),
    ],
)  # fmt: skip
def test_other_files_are_named_as_what_they_are(opened, content, what, fix):
    for name in ("a", "a.csv" if what[0] != "n" else "b"):
        with pytest.raises(InputError, match=what) as caught:
            opened(content, name)
        assert fix in caught.value.fix


def test_values_of_parquet_become_texts_and_classes_have_names(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    day = datetime.datetime(2026, 1, 2)
    values = {
        "date": (day.date(), "2026-01-02"),
        "day": (day, "2026-01-02"),
        "time": (datetime.time(9, 30), "09:30:00"),
        "moment": (day.replace(hour=9), "2026-01-02T09:00:00"),
        "zone": (day.replace(hour=9, tzinfo=datetime.UTC), "2026-01-02T09:00:00+00:00"),
        "span": (datetime.timedelta(days=1, minutes=2, seconds=3), "1 day, 0:02:03"),
        "price": (Decimal("1.50"), "1.50"),
        "code": (b"text", "text"),
        "nested": ({"when": day.date(), "all": [Decimal("0.10")]}, {"when": "2026-01-02", "all": ["0.10"]}),
        "missing": (float("nan"), None),
        "label": (1, 1),
    }
    rows = [
        {"image": b"\x89PNG\0", "file": {"bytes": b"\xff\0", "path": "a.png"}, **{k: v for k, (v, _) in values.items()}}
    ]
    features = {"label": {"_type": "ClassLabel", "names": ["no", "yes"]}, "date": {"_type": "Value"}}
    schema = {"huggingface": json.dumps({"info": {"features": features}})}
    path = tmp_path / "a"
    from pyarrow import parquet

    parquet.write_table(pyarrow.Table.from_pylist(rows).replace_schema_metadata(schema), path)
    file = open_data_file(path)
    assert list(file.rows) == [{"file": {"path": "a.png"}, **{name: text for name, (_, text) in values.items()}}]
    assert file.notes == ("image: left out, as they are bytes",)
    assert file.class_names == {"label": ("no", "yes")}


def test_a_folder_that_datasets_has_saved(tmp_path):
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(text=datasets.Value("string"), label=datasets.ClassLabel(names=["no", "yes"]))
    saved = datasets.Dataset.from_list([{"text": "Q", "label": 1}], features=features)
    saved.save_to_disk(tmp_path / "one")
    datasets.DatasetDict(train=saved, test=saved).save_to_disk(tmp_path / "two")
    for folder, splits in (("one", {"train"}), ("two", {"train", "test"})):
        found = split_files(tmp_path / folder)
        assert found.keys() == splits
        for path in found.values():
            file = open_data_file(path)
            assert list(file.rows) == [{"text": "Q", "label": 1}]
            assert file.class_names == {"label": ("no", "yes")}


def put_on_hub(monkeypatch, rows):
    """Every dataset of the hub has these rows."""
    module = ModuleType("datasets")
    module.get_dataset_config_names = lambda repository: ["default"]
    module.get_dataset_split_names = lambda repository, config: ["train"]
    module.load_dataset = lambda *arguments, **options: rows
    monkeypatch.setitem(sys.modules, "datasets", module)
    monkeypatch.setattr(hub, "_use_the_cache_if_offline", lambda: None)


def test_the_hub_gives_the_names_of_classes_and_plain_values(monkeypatch):
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        text=datasets.Value("string"), label=datasets.ClassLabel(names=["no", "yes"]), when=datasets.Value("date32"),
        picture=datasets.Image(),
    )  # fmt: skip
    row = {"text": "Q", "label": 1, "when": datetime.date(2026, 1, 2), "picture": None}
    rows = datasets.Dataset.from_list([row], features=features)
    put_on_hub(monkeypatch, rows)
    source, hub_rows, class_names = hub.rows_of_hub(hub.hub_name("owner/name"))
    assert source == "owner/name:train (Hugging Face hub)"
    assert list(hub_rows) == [{"text": "Q", "label": 1, "when": "2026-01-02"}]
    assert class_names == {"label": ("no", "yes")}


def test_the_hub_gives_the_bytes_of_images_to_commands_that_show_them(monkeypatch):
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(text=datasets.Value("string"), image=datasets.Image(), map=datasets.Image())
    stored = {"bytes": b"\x89PNG\r\n\x1a\n", "path": "a.png"}
    rows = datasets.Dataset.from_list([{"text": "Q", "image": stored, "map": stored}], features=features)
    put_on_hub(monkeypatch, rows)
    for images, more in ((True, {"image": stored}), (False, {})):
        _, hub_rows, _ = hub.rows_of_hub(hub.hub_name("owner/name"), images=images)
        assert list(hub_rows) == [{"text": "Q", **more}]


@table(
    ("names", "splits"),
    [
        (["train.jsonl", "test.csv", "dev.tsv.gz", "README.md"], {"train": 0, "test": 1, "validation": 2}),
        (
            ["data/train-00000-of-00001.parquet", "data/test-00000-of-00001.parquet", "notes.txt"],
            {"train": 0, "test": 1},
        ),
        (["snli_1.0_train.jsonl", "snli_1.0_dev.jsonl"], {"train": 0, "validation": 1}),
        (["train.csv", "train_extra.csv"], {"train": 0}),
        (["train-00000-of-00002.parquet", "train-00001-of-00002.parquet"], {"train": 0}),
        (["a.csv", "contest.csv"], {}),
        (["data-00000-of-00001.arrow", "state.json"], {"train": 0}),
        (
            ["train/data-00000-of-00002.arrow", "train/data-00001-of-00002.arrow", "test/data-00000-of-00001.arrow"],
            {"train": 0, "test": 2},
        ),
    ],
)
def test_a_folder_of_splits(tmp_path, names, splits):
    folder = tmp_path / str(len(list(tmp_path.iterdir())))
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    assert split_files(folder) == {split: folder / names[index] for split, index in splits.items()}


def test_two_files_of_one_split_and_a_part_of_one(tmp_path, opened):
    for name in ("a_train.csv", "b_train.csv"):
        (tmp_path / name).touch()
    with pytest.raises(InputError, match=r"several files of the split train: a_train\.csv, b_train\.csv"):
        split_files(tmp_path)
    assert opened(written(PAIRS), "train-00001-of-00003.csv")[1].notes == ("part 2 of 3",)


@table("form", ["jsonl", "csv", "tsv"])
def test_rows_are_read_as_they_are_taken(tmp_path, form):
    path = tmp_path / f"a.{form}"
    rows = ({"question": f"How many are {n}?", "answer": str(n)} for n in range(100_000))
    with path.open("w") as handle:
        if form == "jsonl":
            handle.writelines(json.dumps(row) + "\n" for row in rows)
        else:
            writer = csv.DictWriter(handle, ["question", "answer"], delimiter="," if form == "csv" else "\t")
            writer.writeheader()
            writer.writerows(rows)
    tracemalloc.start()
    try:
        assert len(list(itertools.islice(open_data_file(path).rows, 3))) == 3
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_suffixes_are_those_of_all_forms():
    assert {".jsonl", ".json", ".csv", ".tsv", ".txt", ".parquet", ".csv.gz", ".jsonl.gz"} <= set(SUFFIXES)


WORDS = 'what is the "red" one, 5" or 4;5 | (x) $3.50 \\frac{1}{2} {a} [INST] two\nlines it\'s'.split(" ")
ENCODINGS = {
    "utf-8": ["é", "中文", "🙂"],
    "utf-8-sig": ["ß"],
    "utf-16": ["я", "🙂"],
    "cp1252": ["café"],
    "gb18030": ["我们在"],
}


def generated(random_):
    """Rows in some form and encoding: the rows and the bytes of their file."""
    encoding = random_.choice(list(ENCODINGS))
    names = random_.choice([("question", "answer"), ("mail", "team"), ("id", "text", "label"), ("v1", "v2")])
    rows = [
        {
            name: " ".join(random_.choices(WORDS + ENCODINGS[encoding] * 3, k=random_.randint(2, 8))).strip()
            for name in names
        }
        for _ in range(random_.randint(2, 20))
    ]
    for number, row in enumerate(rows):
        row[names[0]] += f" {number}"
    form = random_.choice(["table", "lines", "array", "below", "columns", "by id", "splits"])
    if form == "table":
        content = written(rows, random_.choice(",;\t|"))
    elif form == "lines":
        content = "\n".join(json.dumps(row) for row in rows)
    else:
        document = {
            "array": rows,
            "below": {"name": "x", "examples": rows},
            "columns": {name: [row[name] for row in rows] for name in names},
            "by id": {f"k{number}": {"id": "", **row} for number, row in enumerate(rows)},
            "splits": {"test": rows[:1], "train": rows},
        }[form]
        rows = list(document.values()) if form == "by id" else rows
        content = json.dumps(document, ensure_ascii=random_.random() < 0.5, indent=random_.choice([None, 1]))
    if form != "table" and encoding in ("cp1252", "gb18030", "utf-16"):  # JSON is UTF-8
        encoding = "utf-8"
    packed = content.encode(encoding)
    return rows, gzip.compress(packed) if random_.random() < 0.2 else packed


@pytest.mark.parametrize("seed", range(4))
def test_generated_files_are_read_as_they_were_written_and_damaged_ones_are_one_error(tmp_path, seed):
    random_, path = random.Random(seed), tmp_path / "rows"
    for _ in range(100):
        rows, content = generated(random_)
        path.write_bytes(content)
        assert list(open_data_file(path).rows) == rows
        noise = bytearray(content)
        noise[random_.randrange(len(noise))] = random_.randrange(256)
        for damaged in (content[: random_.randrange(len(content))], bytes(noise)):
            path.write_bytes(damaged)
            with contextlib.suppress(ScaffoldError):
                list(open_data_file(path).rows)


PUBLIC = {
    "reports/pipes.csv": 12, "reports/wrapped.json": 12, "reports/dates.parquet": 12, "reports/decimals.parquet": 12,
    "reports/objects_with_dates.parquet": 12, "small/latin1_unnamed_columns.csv": 11, "small/quote_inside.csv": 10,
    "small/tabs.tsv": 10, "small/rows_below_a_key.json": 10, "small/rows_by_id.json": 10, "small/squad_nested.json": 10,
    "small/pairs_by_split.json": 10, "small/target_scores.json": 10, "small/class_names_in_schema.parquet": 12,
}  # fmt: skip


def test_files_of_the_public_forms():
    folder = SHARED_DATA / "public"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    for name, number in PUBLIC.items():
        assert len(list(open_data_file(folder / name).rows)) == number, name
    for name in ("no_names_tabs.txt", "choices_without_names.csv"):
        with pytest.raises(InputError, match="looks like a row"):
            open_data_file(folder / "small" / name)


def test_each_task_of_bbh_is_read():
    files = sorted((SHARED_DATA / "datasets/bbh").glob("*.json"))
    if not files:
        pytest.skip("bbh is not there")
    assert all({*row} == {"input", "target"} for path in files for row in open_data_file(path).rows)
