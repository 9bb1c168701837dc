"""Which experiences of a library go into a prompt: the whole library, by similarity, by chance, by a selector."""

import json

import pytest

from engine.errors import InputError
from engine.experience.choice import ByChance, WholeLibrary
from engine.records import Experience, Problem
from grpo_training import critic
from grpo_training.learning.settings import CriticSettings, GeneratorSettings
from tests.grpo_training.learning.test_generator import Runs, reply
from tests.support.fault_server import chat_app, serve_in_thread

SUBJECTS = ("crates", "trains", "prices", "circles", "ladders", "clocks", "boats", "coins", "fences", "tiles")


@pytest.fixture
def runs(tmp_path):
    """Problems about crates, and a library in which only one experience is about them."""
    runs = Runs(tmp_path)
    runs.experiences.mkdir()
    entries = [
        {"id": f"G1-{n:03d}", "content": f"With {subject}, write the unit beside every number."}
        for n, subject in enumerate(reversed(SUBJECTS), 1)
    ]
    (runs.experiences / "generator_1_experiences.json").write_text(json.dumps(entries))
    return runs


def prompt(body):
    return " ".join(message["content"] for message in body["messages"])


def subjects(body):
    return [subject for subject in SUBJECTS if f"With {subject}," in prompt(body)]


def used(runs):
    lines = (runs.cache / "generator_1_rollouts.jsonl").read_text().splitlines()
    return [rollout["experience_ids"] for line in lines for rollout in json.loads(line)["rollouts"]]


def fuse(runs, folder, *flags):
    """One start of the critic: the bodies of its requests, and its fusions."""
    app = chat_app(reply)
    with serve_in_thread(app) as url:
        config = {"critic": {"api_key": "EMPTY", "base_url": url, "model": "m"}}
        (folder / "critic.json").write_text(json.dumps(config))
        places = ["--cache-dir", runs.cache, "--experiences-dir", runs.experiences]
        words = ["--api-config", folder / "critic.json", "--learn", "none", "--generators", "1", *places, *flags]
        assert critic.main([str(word) for word in words]) == 0
    lines = (runs.cache / "critic_results.jsonl").read_text().splitlines()
    return [seen.body for seen in app["seen"]], [json.loads(line) for line in lines]


def test_a_library_that_fits_is_used_whole(runs):
    bodies = runs.generate({}, "--learn", "add", "--tau", "9")
    assert all(len(subjects(body)) == 10 for body in bodies)
    assert used(runs) == [[f"G1-{n:03d}" for n in range(1, 11)]] * 4
    assert "select" not in json.loads((runs.cache / "generator_1_run.json").read_text())["configuration"]["settings"]


def test_a_library_above_the_budget_is_cut_by_similarity_not_by_position(runs):
    bodies = runs.generate({}, "--learn", "add", "--tau", "9", "--prompt-experiences", "1")
    assert [subjects(body) for body in bodies] == [["crates"]] * len(bodies)
    assert used(runs) == [["G1-010"]] * 4


def test_the_chosen_experiences_are_kept_on_the_rollout_and_count_as_used(runs):
    bodies = runs.generate({}, "--learn", "add", "--tau", "9", "--select", "text", "--k", "2")
    assert all("crates" in subjects(body) and len(subjects(body)) == 2 for body in bodies)
    assert {len(ids) for ids in used(runs)} == {2}
    library = json.loads((runs.experiences / "generator_1_experiences.json").read_text())
    counted = {one["id"]: one["uses"]["rollouts"] for one in library if one["uses"]["rollouts"]}
    assert counted == {"G1-010": 4, "G1-001": 4}
    with pytest.raises(InputError, match="k: stored 2, given 3"):  # results of another choice are not mixed
        runs.generate({}, "--learn", "add", "--tau", "9", "--select", "text", "--k", "3")


def test_choices_by_chance_differ_between_problems_and_epochs_and_are_the_same_again():
    library = [Experience(id=f"G1-{n:03d}", content=f"text {n}") for n in range(40)]
    choice = ByChance(8, "0:generator_1")
    problems = [Problem(id=f"p{n}", text="t", answer="1") for n in range(20)]
    found = {tuple(one.id for one in choice.choose(p, epoch, library)) for p in problems for epoch in (0, 1)}
    assert len(found) == 40
    assert choice.choose(problems[0], 0, library) == ByChance(8, "0:generator_1").choose(problems[0], 0, library)
    assert choice.choose(problems[0], 0, library) != ByChance(8, "0:generator_2").choose(problems[0], 0, library)
    assert len(choice.choose(problems[0], 0, library[:3])) == 3
    assert WholeLibrary(64).choose(problems[0], 0, library) is library


def test_two_ways_of_choosing_are_refused():
    for model in (GeneratorSettings, CriticSettings):
        with pytest.raises(ValueError, match="--select and --selector exclude each other"):
            model.model_validate({"select": "text", "selector": "a.ckpt"})


def test_rollouts_train_a_selector_that_then_chooses(runs, tmp_path, capsys):
    pytest.importorskip("torch")
    from grpo_training.selector.__main__ import main
    from grpo_training.selector.model.checkpoint import load_model, save_model

    def helped_by_crates(body, index):
        return reply(body, 0 if "With crates," in prompt(body) else 1)

    flags = ("--tau", "9", "--select", "random", "--k", "3", "--epochs", "8")
    runs.generate_with(helped_by_crates, *flags)
    data = tmp_path / "data"
    words = ["--cache-dir", str(runs.cache), "--experiences-dir", str(runs.experiences), "--output-dir", str(data)]
    assert main(["experiences", *words]) == 0
    beams = json.loads((data / "beams.json").read_text())
    assert len(beams) == 2
    crates = 9  # the last of ten experiences
    for entry in beams.values():
        best, rest = entry["score_list"][0], entry["score_list"][-1]
        assert crates in entry["id_list"][0]
        assert best > rest
        assert entry["candidate_pool_ids"] == list(range(10))
    files = ["--beam-data", str(data / "beams.json"), "--embeddings", str(data / "embeddings.npy")]
    small = [
        "--hidden-dim",
        "16",
        "--epochs",
        "40",
        "--learning-rate",
        "0.01",
        "--beam-size",
        "1",
        "--train-ratio",
        "1",
    ]
    assert main(["sft", *files, *small, "--output-dir", str(tmp_path / "sft")]) == 0
    capsys.readouterr()
    checkpoint = tmp_path / "sft/best_model.ckpt"
    bodies = runs.generate({}, "--tau", "9", "--learn", "add", "--selector", checkpoint, "--k", "3", "--fresh")
    assert all("crates" in subjects(body) and len(subjects(body)) == 3 for body in bodies)
    assert all(len(ids) == 3 for ids in used(runs))

    library = json.loads((runs.experiences / "generator_1_experiences.json").read_text())
    library = [one | {"id": one["id"].replace("G1", "C")} for one in library]
    (runs.experiences / "critic_experiences.json").write_text(json.dumps(library))
    bodies, fusions = fuse(runs, tmp_path, "--learn", "add", "--selector", checkpoint, "--k", "3")
    assert len(bodies) == len(fusions) == 2
    assert all("crates" in subjects(body) and len(subjects(body)) == 3 for body in bodies)
    assert all(len(one["experience_ids"]) == 3 and "C-010" in one["experience_ids"] for one in fusions)

    model, info = load_model(checkpoint)
    save_model(tmp_path / "other.ckpt", model, info.__class__("sft", 1, {"files": ["x.npy"]}))
    with pytest.raises(InputError, match="cannot choose experiences"):
        runs.generate({}, "--selector", tmp_path / "other.ckpt", "--fresh")
