"""The shipped model in a server of transformers: by which names it is asked, and the whole loop."""

import importlib.util
import json

import httpx
import pytest

from grpo_training import critic
from grpo_training.serve.engines import TRANSFORMERS
from grpo_training.serve.local_server import local_server
from tests.conftest import ROOT
from tests.support.main_loop import GENERATOR_COMMANDS

MODEL = ROOT / "data/models/pocket"
NEEDED = ("torch", "transformers", "fastapi", "uvicorn", "accelerate")
MISSING = [package for package in NEEDED if importlib.util.find_spec(package) is None]

pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (make local)"),
    pytest.mark.skipif(not (MODEL / "config.json").exists(), reason=f"no model in {MODEL}"),
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A real server, started once: it takes seconds."""
    log = tmp_path_factory.mktemp("server") / "log"
    with local_server(MODEL, engine=TRANSFORMERS, temperature=1.0, log=log) as opened:
        yield opened


def test_the_model_is_served_and_listed_under_the_name_and_the_path_of_its_folder(server):
    def ask(name, content="1"):
        body = {"model": name, "messages": [{"role": "user", "content": content}], "max_tokens": 1}
        return httpx.post(f"{server.base_url}/chat/completions", json=body, timeout=60, trust_env=False)

    assert [ask(name).status_code for name in (server.model, "pocket", str(MODEL))] == [200] * 3
    assert ask("another").status_code == 400
    listed = httpx.get(f"{server.base_url}/models", timeout=60, trust_env=False).json()["data"]
    names = [model["id"] for model in listed]
    assert {"pocket", server.model} <= set(names)
    assert {ask(name).status_code for name in names} == {200}
    parts = [{"type": "text", "text": "1"}, {"type": "image_url", "image_url": {"url": "https://example.com/1.png"}}]
    assert ask("pocket", parts[:1]).status_code == 200
    refused = ask("pocket", parts)
    assert (refused.status_code, "reads text only" in refused.text) == (400, True)


def test_three_generators_and_the_critic_on_the_pocket_model(server, tmp_path):
    config = tmp_path / "keys" / "api_config.json"
    config.parent.mkdir()
    shared = [
        *("--api-config", str(config), "--cache-dir", str(tmp_path / "cache"), "--prompts", "pocket"),
        *(
            "--cases",
            "0",
            "--experiences-dir",
            str(tmp_path / "experiences"),
            "--temperature",
            "1.0",
            "--max-tokens",
            "256",
        ),
    ]
    roles = ("generator_1", "generator_2", "generator_3", "critic")
    config.write_text(json.dumps(dict.fromkeys(roles, server.endpoint())))
    for number in (1, 2, 3):
        assert GENERATOR_COMMANDS[number - 1](["--dataset", "quickstart", "--max-problems", "4", *shared]) == 0
    assert critic.main(shared) == 0
    rollouts = [
        rollout
        for number in (1, 2, 3)
        for line in (tmp_path / f"cache/generator_{number}_rollouts.jsonl").read_text().splitlines()
        for rollout in json.loads(line)["rollouts"]
    ]
    assert len(rollouts) == 3 * 4 * 3
    readable = sum(rollout["scaffold"] is not None for rollout in rollouts) / len(rollouts)
    executed = sum(rollout["answer_source"] == "executed" for rollout in rollouts) / len(rollouts)
    right = sum(rollout["is_correct"] for rollout in rollouts) / len(rollouts)
    assert readable >= 0.9
    assert executed >= 0.9
    assert 0.2 <= right <= 0.95  # neither useless nor perfect
    lessons = [
        lesson
        for number in (1, 2, 3)
        for lesson in json.loads((tmp_path / f"experiences/generator_{number}_experiences.json").read_text())
    ]
    assert len(lessons) >= 2  # of 12 groups, which are drawn anew in each run
    assert all(len(lesson["content"].split()) <= 32 for lesson in lessons)
    fusions = (tmp_path / "cache/critic_results.jsonl").read_text().splitlines()
    assert len(fusions) == 12
