"""Names, tags and notes of runs: read from a file, written by a form."""

import html
import json
import re

import pytest
from starlette.testclient import TestClient

from grpo_training.view.data.notes import Notes, notes_of
from grpo_training.view.data.runs import Store
from grpo_training.view.web.server import application
from tests.support.viewer_runs import group, write

HOSTILE = "</textarea><script>alert(1)</script>\x1b[31m\u202e"


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "mails/cache/generator_1_rollouts.jsonl", [group("p1", [0.1, 0.9])], settings={})
    return tmp_path


def client(folder, **options):
    return TestClient(application(Store([folder]), **options), base_url="http://localhost", follow_redirects=False)


def csrf_of(site):
    return re.search(r'name="csrf" value="([^"]+)"', site.get("/cache-generator_1/overview.html").text)[1]


def send(site, csrf, origin="http://localhost", **fields):
    values = {"csrf": csrf, "run": "cache-generator_1", "name": "", "tags": "", "note": "", **fields}
    return site.post("/operations/notes", data=values, headers={"origin": origin})


def test_the_form_writes_a_file_that_the_pages_read(folder):
    site = client(folder)
    reply = send(site, csrf_of(site), name="First try", tags="baseline, small , baseline", note="With tau 0.05.\r\nOk.")
    assert (reply.status_code, reply.headers["location"]) == (303, "/cache-generator_1/overview.html")
    written = json.loads((folder / "mails/cache/notes.json").read_text(encoding="utf-8"))
    assert written == {"name": "First try", "tags": ["baseline", "small"], "note": "With tau 0.05.\nOk."}
    for page in ("/index.html", "/cache-generator_1/overview.html"):
        text = site.get(page).text
        assert "First try" in text
        assert '<span class="tag">baseline</span>' in text
        assert "With tau 0.05." in text


def test_a_file_written_by_hand_is_shown_and_an_open_page_is_sent_again(folder):
    site = client(folder)
    tag = site.get("/index.html").headers["etag"]
    (folder / "mails/cache/notes.json").write_text('{"name": "By hand"}', encoding="utf-8")
    reply = site.get("/index.html", headers={"if-none-match": tag})
    assert reply.status_code == 200
    assert "By hand" in reply.text


def test_without_the_token_of_the_page_nothing_is_written(folder):
    site = client(folder)
    csrf = csrf_of(site)
    assert send(site, "wrong", name="x").status_code == 403
    assert send(site, csrf, origin="http://evil.example", name="x").status_code == 403
    assert client(folder, token="secret").post("/operations/notes", data={}).status_code in (401, 403)
    assert not (folder / "mails/cache/notes.json").exists()


def test_hostile_notes_stay_text(folder):
    site = client(folder)
    assert send(site, csrf_of(site), name=HOSTILE, tags=HOSTILE, note=HOSTILE).status_code == 303
    for page in ("/index.html", "/cache-generator_1/overview.html"):
        text = site.get(page).text
        assert "<script>alert" not in text
        assert not re.search("[\x1b\u202e]", text)
        assert html.escape("<script>alert(1)") in text


@pytest.mark.parametrize(
    "fields",
    [{"name": "x" * 101}, {"note": "x" * 4001}, {"tags": "x" * 41}, {"tags": ",".join(map(str, range(21)))},
     {"run": "../mails"}],
)  # fmt: skip
def test_what_is_too_long_or_of_no_run_is_refused(folder, fields):
    site = client(folder)
    assert send(site, csrf_of(site), **fields).status_code in (404, 409)
    assert list(folder.rglob("notes.json*")) == []


@pytest.mark.parametrize("content", ["[]", "{", '{"tags": 3}', '{"name": null}'])
def test_a_damaged_file_is_named_and_not_overwritten(folder, content):
    path = folder / "mails/cache/notes.json"
    site = client(folder)
    csrf = csrf_of(site)
    path.write_text(content, encoding="utf-8")
    assert "is not a file of notes" in site.get("/cache-generator_1/overview.html").text
    assert send(site, csrf, name="x").status_code == 409
    assert path.read_text(encoding="utf-8") == content


def test_a_link_in_the_place_of_the_temporary_file_is_not_followed(folder, tmp_path):
    outside = tmp_path / "outside.txt"
    outside.write_text("kept", encoding="utf-8")
    (folder / "mails/cache/notes.json.tmp").symlink_to(outside)
    site = client(folder)
    assert send(site, csrf_of(site), name="x").status_code == 303
    assert outside.read_text(encoding="utf-8") == "kept"
    assert notes_of(folder / "mails/cache") == Notes(name="x")
