"""The pages as HTML: hostile texts stay text, in both languages."""

import json
from html.parser import HTMLParser

import pytest
from starlette.testclient import TestClient

from engine.records import Completion, GroupStats
from grpo_training.viewer.data.runs import Store
from grpo_training.viewer.web.server import application
from tests.grpo_training.viewer.pages.test_group import MEAN, RIGHT, group, rollout

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u202e\x1b[31m{{7*7}}"


class Tags(HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self, source):
        super().__init__()
        self.tags, self.texts = [], []
        self.feed(source)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.texts.append(data)


def assert_harmless(source):
    page = Tags(source)
    allowed = {"module", "application/json"}
    for tag, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        assert tag != "script" or "src" in attributes or attributes.get("type") in allowed
        assert tag != "img" or attributes["src"].startswith("data:image/png;base64,")
    assert "\u202e" not in source
    assert "\x1b" not in source
    assert "49" not in "".join(page.texts).replace("490", "")
    return page


@pytest.fixture
def cache(tmp_path):
    """A cache with one ordinary and one hostile group."""
    hostile = [{"cause": [EVIL], "effect": EVIL, "rule": EVIL}]
    groups = [
        group(
            rollout(1, MEAN, "40", 0.1),
            rollout(2, RIGHT, "44", 0.875),
            stats=GroupStats(mean=0.5, std=0.4, advantages=[-1.0, 1.0], triggered=True),
        ),
        group(
            rollout(1, hostile, EVIL, 0.1, completion=Completion(text=EVIL * 100, reasoning=EVIL), repairs=[EVIL]),
            rollout(2, RIGHT, "44", 0.875, reward_detail={EVIL: {EVIL: [EVIL]}, "graph": EVIL}),
            problem_id=EVIL,
            problem_text=EVIL,
            ground_truth=EVIL,
        ),
    ]
    path = tmp_path / "cache" / "generator_1_rollouts.jsonl"
    path.parent.mkdir()
    path.write_text("".join(one.model_dump_json() + "\n" for one in groups))
    return path.parent


@pytest.fixture
def site(cache):
    return TestClient(application(Store([cache])), base_url="http://localhost")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_group_is_shown_with_its_graphs_and_where_it_parts(site, language):
    page = site.get("/cache-generator_1/groups/1.html", headers={"cookie": f"language={language}"})
    assert page.status_code == 200
    tags = assert_harmless(page.text)
    graphs = [attributes["data-graph"] for _, attributes in tags.tags if "data-graph" in attributes]
    assert graphs == ["graph-2", "graph-1"]
    assert ("percent = (weak + strong) / 2" in page.text, "≠" in page.text) == (True, True)
    assert {"en": "parts at", "zh": "不同之处"}[language] in page.text


def test_hostile_texts_of_a_group_stay_text(site):
    page = site.get("/cache-generator_1/groups/2.html")
    assert page.status_code == 200
    tags = assert_harmless(page.text)
    assert "<script>alert(1)</script>" in "".join(tags.texts)


@pytest.mark.parametrize("line", ["3", "0", "x", "²", "1" * 30])
def test_a_group_that_does_not_exist_is_not_found(site, line):
    assert site.get(f"/cache-generator_1/groups/{line}.html").status_code == 404


def test_the_data_of_a_graph_cannot_leave_its_element(site):
    text = site.get("/cache-generator_1/groups/2.html").text
    start = text.index('id="graph-1"')
    data = text[text.index(">", start) + 1 : text.index("</script>", start)]
    assert any(node["name"].startswith("<script>") for node in json.loads(data)["nodes"])
