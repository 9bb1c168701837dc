"""Which experiences of a library go into a prompt: the whole library, or by similarity."""

import json

import pytest

from engine.errors import InputError
from tests.grpo_training.learning.test_generator import Runs

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


def test_a_library_that_fits_is_used_whole(runs):
    bodies = runs.generate({}, "--learn", "add", "--tau", "9")
    assert all(len(subjects(body)) == 10 for body in bodies)
    assert used(runs) == [[f"G1-{n:03d}" for n in range(1, 11)]] * 4
    stored = json.loads((runs.cache / "generator_1_run.json").read_text())["configuration"]["settings"]
    assert (stored["learn"], stored["select"]) == ("add", None)


def test_the_chosen_experiences_are_kept_on_the_rollout_and_count_as_used(runs):
    bodies = runs.generate({}, "--learn", "add", "--tau", "9", "--select", "text", "--k", "2")
    assert all("crates" in subjects(body) and len(subjects(body)) == 2 for body in bodies)
    assert {len(ids) for ids in used(runs)} == {2}
    library = json.loads((runs.experiences / "generator_1_experiences.json").read_text())
    counted = {entry["id"]: entry["uses"]["rollouts"] for entry in library if entry["uses"]["rollouts"]}
    assert counted == {"G1-010": 4, "G1-001": 4}
    with pytest.raises(InputError, match="k: stored 2, given 3"):  # results of another choice are not mixed
        runs.generate({}, "--learn", "add", "--tau", "9", "--select", "text", "--k", "3")
