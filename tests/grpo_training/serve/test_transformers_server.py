"""A real server of transformers with the shipped model."""

import importlib.util

import httpx
import pytest

from grpo_training.serve.engines import TRANSFORMERS
from grpo_training.serve.local_server import local_server
from tests.conftest import ROOT

MODEL = ROOT / "data/models/pocket"
NEEDED = ("torch", "transformers", "fastapi", "uvicorn", "accelerate")


@pytest.mark.timeout(300)
@pytest.mark.skipif(any(importlib.util.find_spec(name) is None for name in NEEDED), reason="make local")
def test_the_model_is_served_and_listed_under_the_name_and_the_path_of_its_folder_and_refuses_images(tmp_path):
    def ask(server, name, content="1"):
        body = {"model": name, "messages": [{"role": "user", "content": content}], "max_tokens": 1}
        return httpx.post(f"{server.base_url}/chat/completions", json=body, timeout=60, trust_env=False)

    with local_server(MODEL, engine=TRANSFORMERS, log=tmp_path / "log") as server:
        assert [ask(server, name).status_code for name in (server.model, "pocket", str(MODEL))] == [200] * 3
        assert ask(server, "another").status_code == 400
        listed = httpx.get(f"{server.base_url}/models", timeout=60, trust_env=False).json()["data"]
        names = [one["id"] for one in listed]
        assert {"pocket", server.model} <= set(names)
        assert {ask(server, name).status_code for name in names} == {200}
        parts = [
            {"type": "text", "text": "1"},
            {"type": "image_url", "image_url": {"url": "https://example.com/1.png"}},
        ]
        assert ask(server, "pocket", parts[:1]).status_code == 200
        refused = ask(server, "pocket", parts)
        assert (refused.status_code, "reads text only" in refused.text) == (400, True)
