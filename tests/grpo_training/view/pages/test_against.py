"""The critic against the generators by problem, and what its requests used."""

import html
import re

import pytest
from starlette.testclient import TestClient

from engine.records import Completion, Usage
from engine.storage.lines import encode_line
from grpo_training.view.data.runs import Store
from grpo_training.view.pages import against, fusions
from grpo_training.view.web.page import Request
from grpo_training.view.web.server import application
from tests.grpo_training.view.pages.test_fusions import fusion
from tests.support.viewer_runs import group, write


def used(cost, latency):
    usage = Usage(prompt_tokens=100, completion_tokens=30, cost_usd=cost)
    return Completion(text="{}", usage=usage, latency_s=latency)


@pytest.fixture
def folder(tmp_path):
    """p: generators 1/4 and 3/4, critic 1 and 1; q: 3/4 and a wrong fusion; r: not judged; s: no group."""
    cache = tmp_path / "cache"
    groups = [group("p", [0.9, 0.1, 0.1, 0.1]), group("q", [0.9, 0.9, 0.9, 0.1]), group("r", [0.9, 0.1])]
    write(cache / "generator_1_rollouts.jsonl", groups)
    write(cache / "generator_2_rollouts.jsonl", [group("p", [0.9, 0.9, 0.9, 0.1])])
    made = [
        fusion(problem_id="p", completion=used(0.01, 2.0)),
        fusion(problem_id="p", generator_id="generator_2", completion=used(0.02, 4.0)),
        fusion(problem_id="q", is_correct=False, completion=None),
        fusion(problem_id="r", is_correct=None, completion=None),
        fusion(problem_id="s", completion=None),
    ]
    (cache / "critic_results.jsonl").write_bytes(b"".join(encode_line(one) + b"\n" for one in made))
    return tmp_path


def test_each_problem_has_the_share_of_the_generators_and_of_the_critic(folder):
    found = against.build(Store([folder]), Request({"run": "cache-critic"}))
    rows = {row.problem_id: (row.generator, row.critic, row.lines) for row in found["rows"]}
    assert rows == {"p": (0.5, 1.0, [1, 2]), "q": (0.75, 0.0, [3])}
    assert [row.problem_id for row in found["rows"]] == ["q", "p"]  # the largest difference first
    assert (found["fusions"], found["unmatched"], found["better"], found["worse"]) == (3, 2, 1, 1)
    assert found["difference"].value == pytest.approx(2 / 3 - (0.25 + 0.75 + 0.75) / 3)


def test_problems_with_equal_shares_are_one_larger_point():
    rows = [against.ProblemRow(name, "", [0.5], [1.0]) for name in "abcd"] + [against.ProblemRow("e", "", [1.0], [0.0])]
    found = against.points(rows)
    assert [(one.generator, one.critic, one.problems) for one in found] == [(0.5, 1.0, 4), (1.0, 0.0, 1)]
    assert found[0].radius > found[1].radius


def test_the_page_has_a_point_and_a_row_for_each_problem(folder):
    page = TestClient(application(Store([folder])), base_url="http://localhost").get("/cache-critic/against.html").text
    assert page.count("<circle") == 2
    assert page.count('<circle class="better"') == 1
    rows = [re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", one))) for one in
            re.findall(r"<tr data-row>.*?</tr>", page, re.DOTALL)]  # fmt: skip
    assert rows[0].split()[:2] == ["q", "75.0"]
    assert "+50.0 pp" in rows[1]


def test_a_critic_without_groups_says_so(tmp_path):
    (tmp_path / "critic_results.jsonl").write_bytes(encode_line(fusion()) + b"\n")
    [run] = Store([tmp_path]).runs
    site = TestClient(application(Store([tmp_path])), base_url="http://localhost")
    assert "No judged fusion has its group" in site.get(f"/{run.id}/against.html").text


def test_tokens_price_and_time_of_the_critic(folder):
    found = fusions.build_list(Store([folder]), Request({"run": "cache-critic"}))["used"]
    assert (found.prompt_tokens, found.completion_tokens) == (200, 60)
    assert found.cost_usd == pytest.approx(0.03)
    assert (found.mean_s, found.slowest_s) == (3.0, 4.0)  # fusions without a request have no latency
    page = TestClient(application(Store([folder])), base_url="http://localhost").get("/index.html").text
    assert "$0.03" in page
