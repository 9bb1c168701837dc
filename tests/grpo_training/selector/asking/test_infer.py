"""Prompts with chosen shots, the answers of an endpoint, and their accuracy."""

import base64
import json

import pytest

torch = pytest.importorskip("torch")

from engine.errors import InputError, MissingInputError  # noqa: E402
from engine.records import Problem  # noqa: E402
from grpo_training.selector.__main__ import main  # noqa: E402
from grpo_training.selector.asking.answers import score  # noqa: E402
from grpo_training.selector.model.checkpoint import CheckpointInfo, save_model  # noqa: E402
from grpo_training.selector.model.pointer import PointerSelector, SelectorConfig  # noqa: E402
from tests.support.fault_server import chat_app, serve_in_thread  # noqa: E402

COLOURS = ("red", "blue", "green", "grey", "pink", "white")


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def make(folder, embeddings):
    torch.manual_seed(0)
    model = PointerSelector(SelectorConfig(256, hidden_dim=8))
    save_model(folder / "a.ckpt", model, CheckpointInfo("sft", 1, embeddings, 2))


def answer(body, index):
    """The colour of the query if a shot is about the same thing, else a guess; then the model goes on."""
    prompt = body["messages"][-1]["content"]
    *shots, query = [question.split(" Short")[0] for question in prompt.split("Question:colour of the ")[1:]]
    return f"{COLOURS[int(query[-1]) % 6] if query in shots else 'black'} Question: next"


def test_the_shots_stand_before_the_query_and_answers_are_scored(tmp_path, capsys):
    shots = [{"id": f"s{n}", "problem": f"colour of the thing{n}", "answer": COLOURS[n]} for n in range(6)]
    queries = [{"id": f"q{n}", "problem": f"colour of the thing{n}", "answer": COLOURS[n]} for n in range(4)]
    write(tmp_path / "shots.jsonl", shots)
    write(tmp_path / "queries.jsonl", queries)
    make(tmp_path, {"files": ["x.npy"], "parts": [{"modality": "text", "model": "hashing"}]})
    app = chat_app(answer)
    words = ["--checkpoint", "a.ckpt", "--dataset", "queries.jsonl", "--shots-dataset", "shots.jsonl"]
    words = [str(tmp_path / word) if "." in word else word for word in words]
    words += ["--shot-nums", "1,3", "--pool", "6", "--cache-dir", str(tmp_path / "cache")]
    words += ["--api-config", str(tmp_path / "api.json"), "--output", str(tmp_path / "metrics.json")]
    with serve_in_thread(app) as url:
        config = {"generator_1": {"api_key": "EMPTY", "base_url": url, "model": "m"}}
        (tmp_path / "api.json").write_text(json.dumps(config))
        assert main(["infer", *words]) == 0
        asked = len(app["seen"])
        assert main(["infer", *words]) == 0
        assert len(app["seen"]) == asked  # stored replies are used again
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert len(metrics) == 6
    assert metrics["similarity: shot_num=1"]["accuracy"] == 100  # the shot about the same thing is the nearest
    assert metrics["similarity: shot_num=1"]["low"] == 51.01  # Wilson: 4 / (4 + 1.96^2)
    assert metrics["random: shot_num=1"]["accuracy"] < 100
    assert all(0 <= metric["low"] <= metric["accuracy"] <= metric["high"] <= 100 for metric in metrics.values())
    prompts = [request.body["messages"][-1]["content"] for request in app["seen"]]
    assert {prompt.count("Short answer:") for prompt in prompts} == {2, 4}
    assert all(prompt.endswith("Short answer:") for prompt in prompts)
    assert "against similarity" in capsys.readouterr().out

    with pytest.raises(InputError, match="7 shots are asked for"):
        main(["infer", *words, "--shot-nums", "7"])
    make(tmp_path, {"files": ["x.npy"]})
    with pytest.raises(InputError, match="does not tell which model embeds texts"):
        main(["infer", *words])


PNG, JPEG = b"\x89PNG\r\n\x1a\n" + b"p" * 40, b"\xff\xd8\xff" + b"j" * 40


def colour_of_the_image(body, index):
    """The answer of the example whose image is that of the query; else a guess."""
    parts = body["messages"][-1]["content"]
    images = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    texts = [part["text"] for part in parts if part["type"] == "text"]
    answers = dict(zip(images, (text.partition("answer:")[2].strip() for text in texts[:-1]), strict=False))
    return answers.get(images[-1], "black")


def test_images_are_sent_with_their_questions(tmp_path):
    for number in range(4):
        (tmp_path / f"{number}.png").write_bytes(PNG + bytes([number]))
    rows = [
        {"id": f"s{n}", "problem": f"which colour, {n}?", "answer": COLOURS[n], "image": f"{n}.png"} for n in range(4)
    ]
    write(tmp_path / "shots.jsonl", rows)
    write(tmp_path / "queries.jsonl", [row | {"id": f"q{n}"} for n, row in enumerate(rows)])
    make(tmp_path, {"files": ["x.npy"], "parts": [{"modality": "text", "model": "hashing"}]})
    app = chat_app(colour_of_the_image)
    words = ["--checkpoint", "a.ckpt", "--dataset", "queries.jsonl", "--shots-dataset", "shots.jsonl"]
    words = [str(tmp_path / word) if "." in word else word for word in words]
    words += ["--shot-nums", "2", "--pool", "4", "--cache-dir", str(tmp_path / "cache"), "--images", "image"]
    words += ["--api-config", str(tmp_path / "api.json"), "--output", str(tmp_path / "metrics.json")]
    words += ["--images-dir", str(tmp_path)]
    with serve_in_thread(app) as url:
        config = {"generator_1": {"api_key": "EMPTY", "base_url": url, "model": "m"}}
        (tmp_path / "api.json").write_text(json.dumps(config))
        assert main(["infer", *words]) == 0
        assert json.loads((tmp_path / "metrics.json").read_text())["similarity: shot_num=2"]["accuracy"] == 100
        content = app["seen"][0].body["messages"][-1]["content"]
        assert [part["type"] for part in content] == ["image_url", "text"] * 3
        urls = [base64.b64decode(part["image_url"]["url"].partition(",")[2]) for part in content[::2]]
        assert content[0]["image_url"]["url"].startswith("data:image/png;base64,")
        texts = [part["text"] for part in content[1::2]]
        assert all(image[:-1] == PNG and f", {image[-1]}?" in text for image, text in zip(urls, texts, strict=True))
        asked = len(app["seen"])
        assert main(["infer", *words]) == 0
        assert len(app["seen"]) == asked
        (tmp_path / "0.png").write_bytes(JPEG)  # another image is another request
        assert main(["infer", *words]) == 0
        assert len(app["seen"]) > asked
        asked = len(app["seen"])
        (tmp_path / "0.png").write_bytes(JPEG + bytes(5_000_000))
        with pytest.raises(InputError, match=r"at most 5 MB are sent"):
            main(["infer", *words])
        (tmp_path / "0.png").write_bytes(JPEG)
        (tmp_path / "1.png").write_text("no image")
        with pytest.raises(InputError, match="no PNG, JPEG, GIF or WebP"):
            main(["infer", *words])
        (tmp_path / "1.png").unlink()
        with pytest.raises(MissingInputError, match="No image at"):
            main(["infer", *words])
        write(tmp_path / "shots.jsonl", [row | {"image": None} for row in rows])
        with pytest.raises(InputError, match=r"row 0 \(s0\): no image in 'image'"):
            main(["infer", *words])
        assert len(app["seen"]) == asked  # nothing was sent


def test_answers_of_people_are_used_where_there_are_any():
    people = [{"answer": text} for text in ["two", "2", *["three"] * 8]]
    problem = Problem(id="1", text="how many?", answer="three", meta={"answers": people})
    assert score(problem, "2, maybe") == pytest.approx(0.6)
    assert score(Problem(id="1", text="t", answer="The dog"), "dog Question: x") == 1.0


def test_a_right_answer_may_have_a_comma():
    problem = Problem(id="1", text="where?", answer="Paris, France")
    assert (score(problem, "Paris, France"), score(problem, "Paris"), score(problem, "Paris, Texas")) == (1, 0, 0)
    assert score(Problem(id="1", text="t", answer="red"), "red, I think") == 1


def test_no_query_is_a_shot_of_itself(tmp_path, capsys):
    rows = [{"id": f"s{n}", "problem": f"colour of the thing{n}", "answer": COLOURS[n]} for n in range(6)]
    write(tmp_path / "rows.jsonl", rows)
    for name in ("a_b.ckpt", "c_d.ckpt"):
        make(tmp_path, {"files": ["x.npy"], "parts": [{"modality": "text", "model": "hashing"}]})
        (tmp_path / "a.ckpt").rename(tmp_path / name)
    app = chat_app(answer)
    words = ["--checkpoint", str(tmp_path / "a_b.ckpt"), str(tmp_path / "c_d.ckpt")]
    words += ["--dataset", str(tmp_path / "rows.jsonl"), "--shots-dataset", str(tmp_path / "rows.jsonl")]
    words += ["--shot-nums", "5", "--cache-dir", str(tmp_path / "cache"), "--api-config", str(tmp_path / "api.json")]
    words += ["--output", str(tmp_path / "metrics.json")]
    with serve_in_thread(app) as url:
        config = {"generator_1": {"api_key": "EMPTY", "base_url": url, "model": "m"}}
        (tmp_path / "api.json").write_text(json.dumps(config))
        for sampler in ("near", "rand"):
            assert main(["infer", *words, "--sampler", sampler]) == 0
        with pytest.raises(InputError, match="6 shots are asked for"):
            main(["infer", *words, "--shot-nums", "6"])
    for request in app["seen"]:
        *shots, query = request.body["messages"][-1]["content"].split("Question:colour of the ")[1:]
        assert query.split(" ")[0] not in {shot.split(" ")[0] for shot in shots}
    assert json.loads((tmp_path / "metrics.json").read_text())["similarity: shot_num=5"]["accuracy"] == 0
    shown = capsys.readouterr().out
    assert "6 queries are also among the shots" in shown
    assert "against selector a_b.ckpt" in shown
