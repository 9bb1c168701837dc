"""Recorded AIME replies through two generators and the critic. Digests only: the data is not ours to publish."""

import shutil

from tests.characterisation.support import Workspace, assert_golden, digested, replay_server, request_digests
from tests.conftest import shared_file

CASE = "recorded_aime"


def observe(folder):
    names = ("generator_1_rollouts", "generator_2_rollouts", "critic_results")
    files = [shared_file(f"recorded/{name}.jsonl") for name in names]
    workspace = Workspace(folder)
    shutil.copy(shared_file("datasets/aime2024.jsonl"), workspace.folder / "aime2024.jsonl")
    with replay_server(files) as server:
        workspace.configure(server.base_url)
        workspace.run(*([f"generator{number}", "--dataset", "aime2024.jsonl"] for number in (1, 2)))
        workspace.run(["critic", "--generators", "1,2"])
    results = workspace.results()
    manifests = {name: text for name, text in results.items() if name.endswith("_run.json")}
    others = {name: text for name, text in results.items() if name not in manifests}
    return {**digested(others), **manifests, "requests.jsonl": request_digests(server.bodies)}


def test_caches_libraries_and_requests_of_recorded_replies(tmp_path):
    """Prompts, parsing, rewards, statistics and lessons on replies of a real model."""
    assert_golden(CASE, observe(tmp_path))
