"""Gates and evaluations as pages: results, intervals, problems, price."""

import html
import json
import re

import pytest
from starlette.testclient import TestClient

from engine.experience.events import GateEvent
from engine.experience.library import ExperienceLibrary
from grpo_training.evaluate.figures import differences, estimates_json, figures, figures_json, task_results
from grpo_training.view.data.runs import Store
from grpo_training.view.web.export import export
from grpo_training.view.web.server import application
from tests.grpo_training.evaluate.test_figures import result
from tests.support.library import by_hand
from tests.support.viewer_runs import pages_of

GATE = {"problems": 40, "of": 100, "own": 3, "samples": 4, "alpha": 0.05, "looks": 2, "dataset": "d", "model": "tiny"}
HOSTILE = "<img src=x onerror=alert(1)>"


def read(folder, path):
    reply = TestClient(application(Store([folder])), base_url="http://localhost").get(f"/{path}")
    return reply.status_code, reply.text


def plain(page, section=""):
    markup = re.search(rf'<(section|div) id="{section}".*?</\1>', page, re.DOTALL)[0] if section else page
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", markup)).split())


def gated(folder):
    folder.mkdir(parents=True, exist_ok=True)
    library = ExperienceLibrary(folder / "generator_1_experiences.json")
    library = by_hand(library, new=["Check the units."])
    first = {"verdict": "not_proven", "mean": 0.01, "low": -0.1, "high": 0.12, "needed": 412, "at": "2026-01-01T00:00"}
    library.record_gate(GateEvent(version=library.state.version, **GATE, **first))
    library = by_hand(library, new=["Draw a picture of it."])
    second = {"verdict": "adopted", "mean": 0.1, "low": 0.02, "high": 0.18, "right_with": 0.6, "right_without": 0.5,
              "tokens": 12000, "tokens_ratio": 1.25, "cost_usd": 0.42, "at": "2026-01-02T00:00"}  # fmt: skip
    library.record_gate(GateEvent(version=library.state.version, **GATE, **second))
    return library


def evaluated(folder, **changes):
    """An evaluation as the command writes it: the model is right in 5 of 6 samples, the base in 3 of 6."""
    after = [result("a", "++"), result("b", "+-"), result("c", "++")]
    before = [result("a", "+-"), result("b", "--"), result("c", "++")]
    sides = [
        {**figures_json(figures(results, (1, 2))), "task_results": task_results(results), "model": name, "seconds": 3.0}
        for name, results in (("model, sampled", after), ("base, sampled", before))
    ]
    report = {**sides[0], "base": sides[1], "test_data_path": "sums.csv", "timestamp": "2026-01-03T00:00:00+00:00",
              "settings": {"seed": 7}, "difference_to_base": {"sampled": estimates_json(differences(after, before))},
              "facts": {}, **changes}  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sums.json").write_text(json.dumps(report), encoding="utf-8")
    (folder / "sums.samples.jsonl").touch()


def test_each_gate_of_each_library_is_listed_with_what_it_found_and_cost(tmp_path):
    gated(tmp_path)
    status, page = read(tmp_path, "evaluations.html")
    assert status == 200
    newest, oldest = re.findall(r"<tr data-row>.*?</tr>", page, re.DOTALL)
    for shown in ("adopted", "60.0 %", "50.0 %", "+10.0 pp", "+2.0 pp … +18.0 pp", "40 / 100", "12 000", "$0.42"):
        assert shown in plain(newest), shown
    assert "1.25 times those without" in plain(newest)
    assert "earlier version" not in plain(newest)
    assert "not proven" in plain(oldest)
    assert "about 412 problems" in plain(oldest)
    assert "earlier version" in plain(oldest)


def test_an_evaluation_is_listed_with_its_base_and_the_paired_difference(tmp_path):
    evaluated(tmp_path / "cache")
    _, page = read(tmp_path, "evaluations.html")
    assert "83.3 %" in plain(page, "evaluation-list")
    assert "50.0 %" in plain(page, "evaluation-list")
    assert "+33.3 pp" in plain(page, "evaluation-list")
    status, page = read(tmp_path, "evaluations/cache-sums.html")
    assert status == 200
    rows = [plain(row) for row in re.findall(r"<tr data-row>.*?</tr>", page, re.DOTALL)]
    assert any(row.startswith("pass@2 100.0 %") for row in rows)
    assert rows[-3:] == ["b 1 / 2 0 / 2", "a 2 / 2 1 / 2", "c 2 / 2 2 / 2"]  # those that differ first


def test_a_gate_with_absurd_numbers_is_shown(tmp_path):
    library = gated(tmp_path)
    odd = {"verdict": "rejected", "mean": 0.0, "low": -1e308, "high": 1e308, "at": "2026-01-03T00:00"}
    library.record_gate(GateEvent(version=library.state.version, tokens=10**400, **GATE, **odd))
    assert read(tmp_path, "evaluations.html")[0] == 200


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{", '{"mean_at_n": 1}', '{"num_tasks": -1}', '{"mean_at_n": {"value": 1e300}}', '{"base": []}'],
)
def test_a_damaged_file_of_figures_says_why(tmp_path, content):
    evaluated(tmp_path / "cache")
    (tmp_path / "cache/sums.json").write_text(content, encoding="utf-8")
    status, page = read(tmp_path, "evaluations.html")
    assert status == 200
    assert "It has no figures of an evaluation" in page
    assert read(tmp_path, "evaluations/cache-sums.html")[0] == 409


def test_figures_without_a_base_and_hostile_texts_are_shown(tmp_path):
    evaluated(tmp_path / "cache", base=None, difference_to_base={}, model=HOSTILE, outcomes={HOSTILE: 3},
              test_data_path=HOSTILE, settings={HOSTILE: HOSTILE}, task_results={HOSTILE: {"num_correct": 1,
              "num_total": 2}})  # fmt: skip
    for path in ("evaluations.html", "evaluations/cache-sums.html"):
        status, page = read(tmp_path, path)
        assert status == 200
        assert "<img" not in page
        assert html.escape(HOSTILE) in page


def test_an_export_has_the_pages_of_evaluations(tmp_path):
    gated(tmp_path / "in")
    evaluated(tmp_path / "in/cache")
    export(Store([tmp_path / "in"]), tmp_path / "out.html", 10)
    pages = pages_of(tmp_path / "out.html")
    assert ">adopted<" in pages["evaluations.html"]
    assert "evaluations/cache-sums.html" in pages


def test_without_a_test_the_page_says_which_command_makes_one(tmp_path):
    _, page = read(tmp_path, "evaluations.html")
    assert "data-reading" not in page
    assert "python -m grpo_training.gate" in page
    assert "python -m grpo_training.evaluate" in page
