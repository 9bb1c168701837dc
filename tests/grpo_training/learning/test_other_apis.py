"""A generator whose endpoint speaks another API learns the same as with the chat API."""

import json
import shutil

import pytest

from grpo_training import generator1
from grpo_training.doctor import endpoints
from grpo_training.doctor.settings import DoctorSettings
from tests.support.fault_server import chat_app, serve_in_thread
from tests.support.other_apis import anthropic_app, responses_app
from tests.support.quickstart_model import learner_reply

APPS = {"chat": chat_app, "responses": responses_app, "anthropic": anthropic_app}


def learner(body, index):
    """Replies that do not depend on a seed, as the other APIs have none."""
    if "ready" in body["messages"][-1]["content"]:
        return "ready"
    return learner_reply({**body, "seed": None}, index)


def run(folder, config, cache="cache"):
    places = ["--cache-dir", folder / cache, "--experiences-dir", folder / cache / "experiences"]
    words = ["--dataset", "quickstart", "--max-problems", 5, "--prompts", "compact", "--max-tokens", 2000, *places]
    assert generator1.main([str(word) for word in [*words, "--budget-usd", 1, "--api-config", config]]) == 0
    groups = [json.loads(line) for line in (folder / cache / "generator_1_rollouts.jsonl").read_text().splitlines()]
    return sorted(groups, key=lambda group: group["step"])


def without(value, *names):
    """A JSON value without the fields of these names."""
    if isinstance(value, list):
        return [without(item, *names) for item in value]
    if not isinstance(value, dict):
        return value
    return {name: without(item, *names) for name, item in value.items() if name not in names}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The groups, the library and the requests of a run with each API, and those of a second one with its journal."""
    by_api = {}
    for api, make in APPS.items():
        folder, app = tmp_path_factory.mktemp(api), make(learner)
        with serve_in_thread(app) as url:
            entry = {"api_key": "EMPTY", "base_url": url, "model": "m", "api": api, "price_in": 1, "price_out": 2}
            config = folder / "api_config.json"
            config.write_text(json.dumps({"default": entry | {"price_cached": 0.1}}))
            groups = run(folder, config)
            asked = len(app["seen"])
            (folder / "again").mkdir()
            shutil.copy(folder / "cache/requests.sqlite", folder / "again")
            again = run(folder, config, "again")
            assert len(app["seen"]) == asked, "the journal answers everything"
            lessons = json.loads((folder / "cache/experiences/generator_1_experiences.json").read_text())
            settings = DoctorSettings(api_config=config)
            checks = [*endpoints.ask_endpoints(settings), *endpoints.api_config(settings)]
            by_api[api] = groups, again, lessons, checks
    return by_api


@pytest.mark.parametrize("api", ["responses", "anthropic"])
def test_rollouts_and_lessons_are_those_of_the_chat_api(runs, api):
    volatile = ("request_key", "usage", "latency_s", "timestamp", "created_at", "run_id", "seconds")
    groups, again, lessons, checks = runs[api]
    assert without(groups, *volatile) == without(runs["chat"][0], *volatile)
    assert without(again, *volatile) == without(groups, *volatile)
    assert lessons
    assert without(lessons, *volatile) == without(runs["chat"][2], *volatile)
    assert checks[0].level.name == "PASS"
    assert any(check.level.name == "PASS" and f"{api} API, no key" in check.text for check in checks)


def test_the_cost_counts_what_the_cache_had(runs):
    usages = [
        rollout["completion"]["usage"]
        for group in runs["anthropic"][0]
        for rollout in group["rollouts"]
        if rollout["completion"]["usage"]["cached_tokens"]
    ]
    assert usages
    for usage in usages:
        new = usage["prompt_tokens"] - usage["cached_tokens"]
        cost = (new + 0.1 * usage["cached_tokens"] + 2 * usage["completion_tokens"]) / 1e6
        assert usage["cost_usd"] == pytest.approx(cost)
