"""Hosts, headers."""

import pytest
from starlette.testclient import TestClient

from grpo_training.view.data.runs import Store
from grpo_training.view.web.server import application


@pytest.fixture
def local(tmp_path):
    return TestClient(application(Store([tmp_path])), base_url="http://localhost:7860", follow_redirects=False)


@pytest.mark.parametrize("path", ["/", "/index.html", "/assets/base.css", "/nothing/here"])
def test_every_response_forbids_inline_scripts_other_origins_and_frames(local, path):
    headers = local.get(path).headers
    policy = dict(directive.strip().split(" ", 1) for directive in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost:7860", 200), ("127.0.0.1:1", 200), ("evil.example", 400), ("0.0.0.0", 400),
     ("localhost.evil.example:7860", 400), ("127.0.0.1.evil.example", 400), ("", 400)],
)  # fmt: skip
def test_a_name_that_was_pointed_at_this_machine_is_refused(local, host, status):
    assert local.get("/", headers={"host": host}).status_code == status
