"""The recorded example of the project: ``replay_server`` without arguments."""

import json
import os
import re
import subprocess
import sys

import pytest

from engine.storage.stored_records import StoredGroups
from grpo_training import critic, generator1
from grpo_training.serve.recorded_replies import RecordedReplies
from grpo_training.serve.replay import build_app
from grpo_training.serve.settings import EXAMPLE, EXAMPLE_FILES, ReplaySettings
from tests.conftest import ROOT
from tests.support.fault_server import serve_in_thread


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A generator and the critic on the example."""
    folder = tmp_path_factory.mktemp("run")
    places = ["--cache-dir", str(folder / "cache"), "--experiences-dir", str(folder / "experiences")]
    with serve_in_thread(build_app(RecordedReplies(EXAMPLE_FILES))) as url:
        problems = ["--dataset", "quickstart", "--max-problems", "8", "--rollouts", "4", "--window", "8"]
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
        assert [one.is_correct for one in group.rollouts] == [one.is_correct for one in replayed[key].rollouts]
    before, after = (
        [one["content"] for one in json.loads((folder / library).read_text())]
        for folder in (EXAMPLE, run / "experiences")
    )
    assert after == before
    assert len((run / "cache/critic_results.jsonl").read_text().splitlines()) == 8


def test_the_example_is_small_and_names_no_folder_of_a_machine():
    files = list(EXAMPLE.iterdir())
    assert sum(file.stat().st_size for file in files) < 300_000
    assert not any(re.search(rb'"/[a-z]+/', file.read_bytes()) for file in files)


def test_without_arguments_the_server_prints_its_models_and_commands_that_work(tmp_path):
    assert ReplaySettings.parse([]).recorded == EXAMPLE_FILES
    process = subprocess.Popen(
        [sys.executable, "-m", "grpo_training.replay_server", "--port", "0"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        lines = [process.stdout.readline() for _ in range(10)]
        assert lines[1] == (
            "Models: generator_1 (8 problems), generator_2 (8 problems), generator_3 (8 problems), "
            "critic (8 problems), analyst\n"
        )
        printed = "".join(lines[3:]).replace("python ", f"{sys.executable} ")
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        subprocess.run(["bash", "-ec", printed], cwd=tmp_path, env=environment, check=True, timeout=300)
    finally:
        process.terminate()
        process.wait(60)
    assert len((tmp_path / "runs/replay/cache/critic_results.jsonl").read_text().splitlines()) == 8 * 3
    for role in ("generator_1", "generator_2", "generator_3", "critic"):
        assert json.loads((tmp_path / f"runs/replay/experiences/{role}_experiences.json").read_text())
