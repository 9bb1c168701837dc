"""Images of a user's rows: in which forms they are read, what a problem keeps of them, and what is refused."""

import base64
import json

import pytest

from engine.datasets import load_dataset, load_problems
from engine.errors import InputError, MissingInputError
from engine.records import IMAGE_TAG
from engine.storage.images import sent_image
from engine.task_protocols import images_of
from engine.tasks.answers.task import truth_of
from engine.tasks.registry import task_named
from tests.support.table import table

PNG, OTHER = b"\x89PNG\r\n\x1a\n one", b"\x89PNG\r\n\x1a\n two"
JPEG, GIF, WEBP = b"\xff\xd8\xff one", b"GIF89a one", b"RIFF\0\0\0\0WEBP one"
URL = "https://example.com/one.png"


def as_url(content, kind="png"):
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def written(folder, rows, name="data/rows.jsonl", files=()):
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    for file, content in dict(files).items():
        (path.parent / file).write_bytes(content)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def read(path, **arguments):
    return load_dataset(path, reads_images=True, **arguments)


def sent(problem):
    return [sent_image(image) for image in images_of(task_named(problem.task), problem)]


CHAT = [
    {"role": "system", "content": "Look closely."},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "Before"},
            {"type": "image_url", "image_url": {"url": URL}},
            {"type": "text", "text": "after: what is it?"},
        ],
    },
]
FORMS = {
    "a path": ({"image": "one.png"}, [as_url(PNG)]),
    "paths": ({"images": ["one.png", "two.png"]}, [as_url(PNG), as_url(OTHER)]),
    "numbered columns": ({"image_1": "one.png", "image_2": "two.png"}, [as_url(PNG), as_url(OTHER)]),
    "an address": ({"image": URL}, [URL]),
    "a data URL": ({"image": as_url(JPEG, "jpeg")}, [as_url(JPEG, "jpeg")]),
    "base64": ({"image": base64.b64encode(PNG).decode()}, [as_url(PNG)]),
    "an object with an address": ({"image": {"src": URL, "height": 3}}, [URL]),
    "an object with bytes": ({"image": {"bytes": base64.b64encode(PNG).decode(), "path": "x.png"}}, [as_url(PNG)]),
    "an object with a path": ({"image": {"bytes": None, "path": "one.png"}}, [as_url(PNG)]),
    "a GIF": ({"image": "a.gif"}, [as_url(GIF, "gif")]),
    "a WebP": ({"image": "a.webp"}, [as_url(WEBP, "webp")]),
}
FILES = {"one.png": PNG, "two.png": OTHER, "a.gif": GIF, "a.webp": WEBP}


@pytest.mark.parametrize("name", FORMS)
def test_forms_of_images(tmp_path, name):
    columns, expected = FORMS[name]
    rows = [{"question": f"What is it, {n}?", **columns, "answer": f"thing {n}"} for n in range(3)]
    problem = read(written(tmp_path, rows, files=FILES)).problems[1]
    assert sent(problem) == expected
    tags = IMAGE_TAG.findall(problem.text)
    assert problem.text == f"{''.join(tags)}\nWhat is it, 1?"
    assert len(tags) == len(expected)
    assert not any(fragment in problem.model_dump_json() for fragment in (";base64,", "iVBOR"))


def test_the_parts_of_a_chat_have_images_at_their_places(tmp_path):
    rows = [{"messages": [*CHAT, {"role": "assistant", "content": "a cat"}]}]
    [problem] = read(written(tmp_path, rows)).problems
    assert IMAGE_TAG.sub("*", problem.text) == "Look closely.\n\nBefore\n*\nafter: what is it?"
    assert sent(problem) == [URL]
    open_part = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "It?"}]}]
    rows = [{"messages": open_part, "images": ["one.png"], "answer": "a cat"}]
    [problem] = read(written(tmp_path, rows, files=FILES)).problems
    assert IMAGE_TAG.sub("*", problem.text) == "*\nIt?"
    assert sent(problem) == [as_url(PNG)]


def test_an_image_may_be_the_whole_question_and_equal_questions_about_two_images_are_two(tmp_path):
    rows = [{"image": ("one.png", "two.png")[n % 2], "label": ("cat", "dog")[n % 2]} for n in range(6)]
    loaded = read(written(tmp_path, rows, files=FILES))
    assert "images = image, answer = label" in loaded.note
    assert "6 rows have images: the analyst does not see them" in loaded.note
    assert len({problem.text for problem in loaded.problems}) == 2


def test_rows_of_images_with_numbers_are_questions_with_answers(tmp_path):
    rows = [{"problem": "How much is $x^2$?", "image": "one.png", "answer": f"{n}"} for n in range(4)]
    path = written(tmp_path, rows, files=FILES)
    assert {problem.task for problem in read(path).problems} == {"answers"}
    with pytest.raises(InputError, match=r"line 1: the row has an image, and prompts of the task math have none"):
        read(path, task=task_named("math"))


def test_parquet_as_datasets_writes_it(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = [{"question": "It?", "image": {"bytes": PNG, "path": "x.png"}, "answer": "cat"}] * 2
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    assert sent(read(str(tmp_path / "a.parquet")).problems[0]) == [as_url(PNG)]


def test_commands_without_images_keep_the_column_and_refuse_chats_with_images(tmp_path):
    rows = [{"question": f"{n}?", "image": "missing.png", "answer": f"thing {n}"} for n in range(3)]
    assert load_problems(written(tmp_path, rows))[0].meta == {"image": "missing.png"}
    path = written(tmp_path, [{"messages": CHAT, "answer": "a cat"}])
    with pytest.raises(InputError, match="the row has an image"):
        load_problems(path)


@table(
    ("image", "error", "what", "fix"),
    [
        ("none.png", MissingInputError, r"rows\.jsonl, line 1: No image at .*none\.png", "Put it there"),
        ("text.png", InputError, r"line 1: .*text\.png is no PNG, JPEG, GIF or WebP image", "Convert it"),
        ("large.png", InputError, r"line 1: .*large\.png has 20\.0 MB; at most 20 MB are sent", "smaller"),
        ("data:image/png;base64,!!!!", InputError, r"line 1: 'data:image/png;base64,!!!!' is no base64", ""),
        (as_url(b"plain text"), InputError, r"line 1: the image is no PNG", "Convert it"),
    ],
)
def test_what_is_no_image_is_refused_with_its_line(tmp_path, image, error, what, fix):
    files = {"text.png": b"plain text", "large.png": PNG + bytes(20_000_000)}
    path = written(tmp_path, [{"question": "It?", "image": image, "answer": "cat"}], files=files)
    with pytest.raises(error, match=what) as refused:
        read(path)
    assert fix in refused.value.fix


def test_a_file_that_changes_after_its_row_was_read_is_not_sent(tmp_path):
    [problem] = read(
        written(tmp_path, [{"question": "It?", "image": "one.png", "answer": "cat"}], files=FILES)
    ).problems
    (tmp_path / "data/one.png").write_bytes(OTHER)
    with pytest.raises(InputError, match="has changed since its row was read"):
        sent(problem)


def of_rows(tmp_path, **columns):
    rows = [{"question": f"Which is {n}?", "answer": f"{n}", "image": URL} | columns for n in range(4)]
    return read(written(tmp_path, [{name: cell for name, cell in row.items() if cell is not None} for row in rows]))


def test_places_of_images_in_a_question_are_filled(tmp_path):
    """The forms of verl and of MMMU."""
    problem = of_rows(tmp_path, question="See <image>: what is it?").problems[0]
    assert IMAGE_TAG.sub("X", problem.text) == "See X: what is it?"
    assert "<image 1>" not in of_rows(tmp_path, question="<image 1> What is it?").problems[0].text
    assert "<image 2>" in of_rows(tmp_path, question="<image 1> <image 2> What is it?").problems[0].text


def test_an_image_beside_its_path_in_another_file(tmp_path):
    """The form of MathVista."""
    problem = of_rows(tmp_path, image="images/1.jpg", decoded_image=URL).problems[0]
    assert len(sent(problem)) == 1


def test_answers_of_annotators_and_in_tags(tmp_path):
    """The forms of VQAv2 and of CLEVR in R1-V."""
    annotated = [{"answer": "a net", "answer_confidence": "yes", "answer_id": n} for n in (1, 2)]
    assert truth_of(of_rows(tmp_path, answer=annotated).problems[0])[0] == "a net"
    assert truth_of(of_rows(tmp_path, answer=None, solution="<answer> 3 </answer>").problems[0])[0] == "3"
