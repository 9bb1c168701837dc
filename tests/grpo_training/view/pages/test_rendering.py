"""The pages as HTML: hostile texts stay text."""

import json
import os
from html.parser import HTMLParser

import pytest
from starlette.testclient import TestClient

from engine.experience.events import BeginEvent
from engine.experience.library import ExperienceLibrary
from engine.records import Completion, Fault, GroupStats, Operation, Outcome, Problem
from grpo_training.view.data.runs import Store
from grpo_training.view.web.server import application
from tests.grpo_training.view.pages.test_fusions import fusion
from tests.grpo_training.view.pages.test_group import MEAN, RIGHT, group, rollout
from tests.support.library import commit, mark, step_of

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u202e\x1b[31m{{7*7777}}"


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
    assert "54439" not in "".join(page.texts)  # 7 * 7777
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
    path.write_text("".join(record.model_dump_json() + "\n" for record in groups))
    return path.parent


@pytest.fixture
def site(cache):
    return TestClient(application(Store([cache])), base_url="http://localhost")


def test_a_group_is_shown_with_its_graphs_and_where_it_parts(site):
    page = site.get("/cache-generator_1/groups/1.html")
    assert page.status_code == 200
    tags = assert_harmless(page.text)
    graphs = [attributes["data-graph"] for _, attributes in tags.tags if "data-graph" in attributes]
    assert graphs == ["graph-2", "graph-1"]
    assert ("percent = (weak + strong) / 2" in page.text, "≠" in page.text) == (True, True)
    assert "first different value" in page.text


def test_hostile_texts_of_a_group_stay_text(site):
    page = site.get("/cache-generator_1/groups/2.html")
    assert page.status_code == 200
    tags = assert_harmless(page.text)
    assert "<script>alert(1)</script>" in "".join(tags.texts)


@pytest.mark.parametrize("line", ["3", "0", "x", "²", "1" * 30])
def test_a_group_that_does_not_exist_is_not_found(site, line):
    assert site.get(f"/cache-generator_1/groups/{line}.html").status_code == 404


def test_what_went_wrong_with_a_reply_is_not_folded_away(tmp_path):
    fault = Fault(kind="cut_off", message="the reply was cut off")
    path = tmp_path / "cache/generator_1_rollouts.jsonl"
    path.parent.mkdir()
    broken = rollout(1, RIGHT, None, 0.0, fault=fault, outcome=Outcome.MODEL_FAULT)
    path.write_text(group(broken, rollout(2, RIGHT, "44", 0.9)).model_dump_json() + "\n")
    site = TestClient(application(Store([tmp_path])), base_url="http://localhost")
    page = site.get("/cache-generator_1/groups/1.html").text
    assert page.count("<summary>Details</summary>") == 2
    assert page.count("<details open><summary>Details</summary>") == 1


def test_the_data_of_a_graph_cannot_leave_its_element(site):
    text = site.get("/cache-generator_1/groups/2.html").text
    start = text.index('id="graph-1"')
    data = text[text.index(">", start) + 1 : text.index("</script>", start)]
    assert any(node["name"].startswith("<script>") for node in json.loads(data)["nodes"])


@pytest.fixture
def library(cache):
    """A library beside the cache: one experience was learned from its first group, with a hostile text refused."""
    library = ExperienceLibrary(cache / "generator_1_experiences.json")
    library.begin_run(BeginEvent(at="", run="run"))
    stats = GroupStats(mean=0.5, std=0.4, advantages=[-1.0, 1.0], triggered=True)
    step = step_of("run", 0, Problem(id="p", text="t", answer="44"), 0, [], 2, 1, stats)
    commit(library, step, [Operation(op="add", content="Weigh by the amounts."), Operation(op="add", content=EVIL)])
    commit(library, step_of("run", 1, Problem(id=EVIL, text="t", answer="44"), 0, ["G1-001"], 2, 1, stats))
    return library


LIBRARY = "/libraries/cache-generator_1-library.html"


def test_a_library_without_a_log_has_the_time_of_its_file(tmp_path):
    path = tmp_path / "experiences/generator_1_experiences.json"
    path.parent.mkdir()
    path.write_text(json.dumps([{"id": "G1-001", "content": "Weigh by the amounts."}]))
    os.utime(path, (1767312000, 1767312000))
    site = TestClient(application(Store([tmp_path])), base_url="http://localhost")
    for page in ("experiences.html", "libraries/experiences-generator_1-library.html"):
        assert "2026-01-02 00:00:00" in site.get(f"/{page}").text


def test_a_library_is_shown_with_its_evidence_and_history(site, library):
    page = site.get(LIBRARY)
    assert page.status_code == 200
    tags = assert_harmless(page.text)
    assert "../cache-generator_1/groups/1.html" in [attributes.get("href") for _, attributes in tags.tags]
    assert "<ins>Weigh by the amounts.</ins>" in page.text
    assert "right when present" in page.text
    assert "helped" not in page.text
    assert site.get("/experiences.html").text.count(LIBRARY.strip("/")) == 1


def test_a_case_is_shown_with_its_lines_in_all_places_of_its_library(site, library):
    for number in (2, 3, 4):
        step = step_of("run", number, Problem(id=f"p{number}", text="t", answer="44"), 0, [], 2, 1)
        commit(library, step, [Operation(op="add", content=f"How many {number}?\n<b>3</b>\n\n= 44", kind="case")])
    mark(library, "forbid", "G1-003")
    mark(library, "pin", "G1-004")
    page = site.get(LIBRARY).text
    assert_harmless(page)
    shown = "How many {}?\n&lt;b&gt;3&lt;/b&gt;\n\n= 44"
    assert f'<span class="mono id">G1-002</span> {shown.format(2)}</p>' in page
    assert f'<span class="mono">G1-003</span> {shown.format(3)}</li>' in page
    assert page.count(shown.format(4)) >= 2  # the experience, and what changed


def test_fusions_are_listed_and_shown(site, cache):
    fused = [fusion(), fusion(problem_id=EVIL, problem_text=EVIL, fused_scaffold=EVIL, final_answer=EVIL, task=EVIL)]
    (cache / "critic_results.jsonl").write_text("".join(record.model_dump_json() + "\n" for record in fused))
    listed = site.get("/cache-critic/fusions.html")
    assert assert_harmless(listed.text)
    assert listed.text.count('href="../cache-generator_1/groups/1.html#rollout-fusion"') == 1
    assert listed.text.count('href="../cache-generator_1/groups/2.html#rollout-fusion"') == 1
    for line in (1, 2):
        page = site.get(f"/cache-generator_1/groups/{line}.html").text
        assert_harmless(page)
        assert page.count('id="rollout-fusion"') == 1
