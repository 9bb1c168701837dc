"""Pages over HTTP: which there are, what they do with hostile texts and broken files, and when they are sent again."""

import html
import json
import re

import pytest
from starlette.testclient import TestClient

from grpo_training.view.data.runs import Store
from grpo_training.view.web.server import application
from tests.support.viewer_runs import append, group, write

HOSTILE = {
    "markup": "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'><svg/onload=alert(3)>",
    "template": "{{ 7 * 7 }} {% raw %} {0.__class__} %(name)s ${1}",
    "bidi": "safe \u202etxet desrever\u202c \u2066 isolated \u2069 \u200f",
    "terminal": "\x1b[31mred\x1b[0m \x07 \x00 \x9b1m",
    "separators": "one\u2028two\u2029three\r\nfour",
    "comment": "<!-- <script> --> ]]> &lt;b&gt; &#x3c;",
}


def client(*folders, **options):
    return TestClient(application(Store(folders), **options), base_url="http://localhost", follow_redirects=False)


@pytest.mark.parametrize("path", ["index.html", "cache-generator_1/overview.html", "cache-generator_1/groups.html"])
def test_each_page_of_a_recorded_run_opens(pocket, path):
    reply = client(pocket).get(f"/{path}")
    assert reply.status_code == 200
    assert '<html lang="en"' in reply.text


def test_the_pages_of_a_recorded_run_link_to_pages_that_exist(pocket):
    site = client(pocket)
    seen, pending = set(), ["/index.html"]
    while pending:
        path = pending.pop()
        if path in seen:
            continue
        seen.add(path)
        reply = site.get(path)
        assert reply.status_code == 200, path
        if path.endswith(".html"):
            links = re.findall(r'(?:href|src)="([^"#]+)"', reply.text)
            pending += [str(reply.url.join(html.unescape(link)).path) for link in links]
    assert len(seen) > 15


@pytest.mark.parametrize(
    "path",
    ["nothing.html", "nothing/overview.html", "cache-critic/overview.html", "cache-generator_1/groups/99.html",
     "cache-generator_1/groups/x.html", "cache-generator_1/groups/..%2f1.html",
     "assets/../web/server.py", "assets/%2e%2e/web/server.py"],
)  # fmt: skip
def test_what_does_not_exist_is_not_found(pocket, path):
    assert client(pocket).get(f"/{path}").status_code == 404


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_text_stays_text_on_every_page(tmp_path, text):
    groups = [group(f"{text}{number}", [0.1, 0.9], text=text, fields={"answer": text}) for number in range(3)]
    write(tmp_path / "cache/generator_1_rollouts.jsonl", groups, settings={"dataset": text, text: text})
    site = client(tmp_path)
    plain = client(tmp_path)  # the same run with a harmless text has as many elements
    harmless = [group(f"p{number}", [0.1, 0.9], text="p", fields={"answer": "a"}) for number in range(3)]
    pages = ["index", "cache-generator_1/overview", "cache-generator_1/groups"]
    texts = {page: site.get(f"/{page}.html").text for page in pages}
    write(tmp_path / "cache/generator_1_rollouts.jsonl", harmless, settings={"dataset": "d", "key": "value"})
    for page in pages:
        expected = plain.get(f"/{page}.html").text
        assert tags(texts[page]) == tags(expected), page
        assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200f\u202a-\u202e\u2066-\u2069]", texts[page]), page
    data = json.loads(re.search(r'id="table" data-live>(.*?)</script>', texts[pages[2]], re.DOTALL)[1])
    assert len(data["problems"]) == 3


def tags(page):
    return re.findall(r"<(/?[a-z0-9]+)", page)


def test_a_text_of_ten_megabytes_does_not_make_the_table_large(tmp_path):
    write(tmp_path / "cache/generator_1_rollouts.jsonl", [group("p1", [0.1, 0.9], text="long " * 2_000_000)])
    reply = client(tmp_path).get("/cache-generator_1/groups.html")
    assert reply.status_code == 200
    assert len(reply.text) < 50_000


def test_broken_lines_are_shown_with_their_number_and_reason(tmp_path):
    path = write(tmp_path / "cache/generator_1_rollouts.jsonl", [group("p1", [0.1, 0.9])])
    path.write_bytes(path.read_bytes() + b'{"problem_id": "\xff"}\n<script>\n')
    reply = client(tmp_path).get("/cache-generator_1/overview.html")
    assert reply.status_code == 200
    assert "Lines that are not groups: 2" in reply.text
    assert "not UTF-8 at byte 16" in reply.text


def test_damaged_manifests_and_empty_files_are_no_error(tmp_path):
    write(tmp_path / "cache/generator_1_rollouts.jsonl", [])
    (tmp_path / "cache/generator_1_run.json").write_text("{ no manifest", encoding="utf-8")
    site = client(tmp_path)
    for page in ("index", "cache-generator_1/overview", "cache-generator_1/groups"):
        assert site.get(f"/{page}.html").status_code == 200


def test_a_page_is_sent_again_only_after_a_change(tmp_path):
    path = write(tmp_path / "cache/generator_1_rollouts.jsonl", [group("p1", [0.1, 0.9])])
    site = client(tmp_path)
    first = site.get("/cache-generator_1/groups.html")
    known = {"if-none-match": first.headers["etag"]}
    assert site.get("/cache-generator_1/groups.html", headers=known).status_code == 304
    append(path, [group("p2", [0.1, 0.9])])
    again = site.get("/cache-generator_1/groups.html", headers=known)
    assert again.status_code == 200
    assert "p2" in again.text


def test_folders_without_a_run_say_what_to_do(tmp_path):
    reply = client(tmp_path).get("/")
    assert "No run was found" in reply.text
    assert "data-reading" not in reply.text
    assert str(tmp_path) in reply.text
