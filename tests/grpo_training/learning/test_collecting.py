"""``--learn none``: rollouts alone."""

import json

import pytest

from engine.errors import InputError
from grpo_training import critic, generator1
from tests.support.analyst import for_analyst
from tests.support.fault_server import chat_app, serve_in_thread
from tests.support.scaffolds import scaffold_reply


@pytest.fixture
def world(tmp_path):
    """Four problems whose groups differ in reward, so that an analyst would be asked about each."""
    app = chat_app(lambda body, index: scaffold_reply(42 if index % 2 else 40))
    rows = [
        {"id": f"p{n}", "problem": f"How many sides has figure {n}? Answer with an integer.", "answer": "42"}
        for n in range(4)
    ]
    dataset = tmp_path / "figures.jsonl"
    dataset.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with serve_in_thread(app) as url:

        def run(command, *more):
            folders = ["--cache-dir", str(tmp_path / "cache"), "--experiences-dir", str(tmp_path / "experiences")]
            return command.main(["--base-url", url, "--model", "m", *folders, *more])

        run.app, run.folder = app, tmp_path
        run.dataset = ("--dataset", str(dataset), "--rollouts", "4")
        yield run


def system_prompts(app):
    return [request.body["messages"][0]["content"] for request in app["seen"]]


def test_rollouts_are_collected_and_nothing_is_learned(world, capsys):
    assert world(generator1, *world.dataset, "--learn", "none") == 0
    lines = [json.loads(line) for line in (world.folder / "cache/generator_1_rollouts.jsonl").read_text().splitlines()]
    assert sorted(line["problem_id"] for line in lines) == ["p0", "p1", "p2", "p3"]
    assert all(line["stats"]["triggered"] and len(line["rollouts"]) == 4 for line in lines)
    assert not any(for_analyst(request.body) for request in world.app["seen"])
    assert not list(world.folder.glob("experiences/*_experiences*"))
    shown = capsys.readouterr().out
    assert "Only rollouts are collected, and the library is empty (--learn none)" in shown
    assert "an earlier start has recorded" not in shown
    assert "σ=" in shown  # no group is said to trigger, or not to
    assert not any(text in shown for text in ("Skip", "σ>τ", "experiences saved"))
    asked = len(world.app["seen"])
    assert world(generator1, *world.dataset, "--learn", "none") == 0
    assert len(world.app["seen"]) == asked
    assert world(critic, "--generators", "1", "--learn", "none") == 0
    assert not list(world.folder.glob("experiences/*_experiences*"))


def test_a_library_that_is_there_is_used_and_not_changed(world, capsys):
    library = world.folder / "experiences/generator_1_experiences.json"
    library.parent.mkdir()
    text = "Count the sides of the figure one by one before the answer."
    entry = {"id": "G1-001", "content": text, "category": "c", "source_problem": "x", "created_at": "2026-01-01"}
    library.write_text(json.dumps([entry]))
    before = library.read_bytes()
    assert world(generator1, *world.dataset, "--learn", "none") == 0
    assert library.read_bytes() == before
    assert [path.name for path in library.parent.glob("*_experiences*")] == [library.name]
    assert all(text in json.dumps(request.body) for request in world.app["seen"])
    assert "the 1 experience of the library is used as it is" in capsys.readouterr().out


def test_results_with_and_without_learning_are_not_mixed_and_a_gate_needs_a_library(world):
    assert world(generator1, *world.dataset, "--learn", "none") == 0
    with pytest.raises(InputError, match="learn"):
        world(generator1, *world.dataset)
    with pytest.raises(InputError, match="--gate tests what a run has learned"):
        world(generator1, *world.dataset, "--learn", "none", "--gate")
