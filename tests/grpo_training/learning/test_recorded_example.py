"""A run on the recorded replies has the recorded verdicts and experiences."""

import json
import re

import pytest

from engine.storage.stored_records import StoredGroups
from grpo_training import critic, generator1
from tests.support.fault_server import serve_in_thread
from tests.support.recorded_replies import EXAMPLE, EXAMPLE_FILES, RecordedReplies
from tests.support.replay import build_app


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A generator and the critic on the example."""
    folder = tmp_path_factory.mktemp("run")
    places = ["--cache-dir", str(folder / "cache"), "--experiences-dir", str(folder / "experiences")]
    with serve_in_thread(build_app(RecordedReplies(EXAMPLE_FILES))) as url:
        problems = [
            "--dataset",
            "quickstart",
            "--max-problems",
            "8",
            "--rollouts",
            "4",
            "--window",
            "8",
            "--cases",
            "0",
        ]
        assert generator1.main([*problems, *places, "--base-url", url, "--model", "generator_1"]) == 0
        assert (
            critic.main([*places, "--generators", "1", "--learn", "none", "--base-url", url, "--model", "critic"]) == 0
        )
    return folder


def test_a_run_on_the_example_has_the_recorded_verdicts_and_experiences(run):
    name, library = "generator_1_rollouts.jsonl", "generator_1_experiences.json"
    folders = (EXAMPLE, run / "cache")
    recorded, replayed = (StoredGroups(folder / name) for folder in folders)
    assert list(recorded) == list(replayed)
    for key, group in recorded.items():
        assert [rollout.is_correct for rollout in group.rollouts] == [
            rollout.is_correct for rollout in replayed[key].rollouts
        ]
    before, after = (
        [experience["content"] for experience in json.loads((folder / library).read_text())]
        for folder in (EXAMPLE, run / "experiences")
    )
    assert after == before
    assert len((run / "cache/critic_results.jsonl").read_text().splitlines()) == 8


def test_the_example_is_small_and_names_no_folder_of_a_machine():
    files = list(EXAMPLE.iterdir())
    assert sum(file.stat().st_size for file in files) < 300_000
    assert not any(re.search(rb'"/[a-z]+/', file.read_bytes()) for file in files)
