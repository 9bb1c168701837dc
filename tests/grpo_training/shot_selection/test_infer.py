"""Prompts with chosen shots, the answers of an endpoint, and their accuracy."""

import json

import pytest

torch = pytest.importorskip("torch")

from engine.errors import InputError  # noqa: E402
from engine.records import Problem  # noqa: E402
from grpo_training.selector import main  # noqa: E402
from grpo_training.shot_selection.infer import score  # noqa: E402
from grpo_training.shot_selection.model.checkpoint import CheckpointInfo, save_model  # noqa: E402
from grpo_training.shot_selection.model.pointer import PointerSelector, SelectorConfig  # noqa: E402
from tests.support.fault_server import chat_app, serve_in_thread  # noqa: E402

COLOURS = ("red", "blue", "green", "grey", "pink", "white")


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def make(folder, embeddings):
    torch.manual_seed(0)
    model = PointerSelector(SelectorConfig(64, hidden_dim=8))
    save_model(folder / "a.ckpt", model, CheckpointInfo("sft", 1, embeddings, 2))


def answer(body, index):
    """The colour of the query if a shot is about the same thing, else a guess; then the model goes on."""
    prompt = body["messages"][-1]["content"]
    *shots, query = [part.split(" Short")[0] for part in prompt.split("Question:colour of the ")[1:]]
    return f"{COLOURS[int(query[-1]) % 6] if query in shots else 'black'} Question: next"


def test_the_shots_stand_before_the_query_and_answers_are_scored(tmp_path, capsys):
    shots = [{"id": f"s{n}", "problem": f"colour of the thing{n}", "answer": COLOURS[n]} for n in range(6)]
    queries = [{"id": f"q{n}", "problem": f"colour of the thing{n}", "answer": COLOURS[n]} for n in range(4)]
    write(tmp_path / "shots.jsonl", shots)
    write(tmp_path / "queries.jsonl", queries)
    make(tmp_path, {"files": ["x.npy"], "model": "hashing:64"})
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
    assert metrics["random: shot_num=1"]["accuracy"] < 100
    prompts = [seen.body["messages"][-1]["content"] for seen in app["seen"]]
    assert {prompt.count("Short answer:") for prompt in prompts} == {2, 4}
    assert all(prompt.endswith("Short answer:") for prompt in prompts)
    assert "against similarity" in capsys.readouterr().out

    with pytest.raises(InputError, match="7 shots are asked for"):
        main(["infer", *words, "--shot-nums", "7"])
    make(tmp_path, {"files": ["x.npy"]})
    with pytest.raises(InputError, match="does not tell which model embeds texts"):
        main(["infer", *words])


def test_answers_of_people_are_used_where_there_are_any():
    people = [{"answer": text} for text in ["two", "2", *["three"] * 8]]
    problem = Problem(id="1", text="how many?", answer="three", meta={"answers": people})
    assert score(problem, "2, maybe") == pytest.approx(0.6)
    assert score(Problem(id="1", text="t", answer="The dog"), "dog Question: x") == 1.0
