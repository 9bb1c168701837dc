import base64
import gzip
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from grpo_training.view.pages.training import charts_of, samples_over_time, training_view
from grpo_training.view.series import matching, shown, stages, thinned
from grpo_training.view.training_page import write_page
from tests.support.attributes import attributes
from tests.support.table import table

EVIL = "<script>alert('x')</script>\" onmouseover=\"1"


def run_of(folder, rows, **files):
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return folder


def rows_of(count, **changes):
    return [
        {"step": step, "stage": "online", "reward": step / 100, "reward_std": 0.1, "kl": 0.01, "beta": 0.5} | changes
        for step in range(1, count + 1)
    ]


class Page(HTMLParser):
    """All tags and texts of a page outside of its scripts, and its data for scripts."""

    def __init__(self, source):
        super().__init__()
        self.source = source
        self.tags, self.text, self.data, self.inline = [], [], {}, {"script": [], "style": []}
        self._open = None
        self.feed(self.source)
        self.charts = json.loads(self.data.get("charts", "null"))

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append((tag, attributes))
        self._open = (tag, attributes.get("id"), attributes.get("type"))

    def handle_endtag(self, tag):
        self._open = None

    def handle_data(self, data):
        tag, name, kind = self._open or (None, None, None)
        if tag == "script" and kind == "application/json":
            self.data[name] = data
        elif tag in self.inline and kind != "text/plain":
            self.inline[tag].append(data)
        else:
            self.text.append(data)


def view_of(folder):
    return attributes(training_view(folder))


def unpacked(report):
    """The page in a report."""
    [packed] = re.findall('data-page="[^"]*">([^<]*)<', report.read_text(encoding="utf-8"))
    return gzip.decompress(base64.b64decode(packed)).decode()


def page_of(folder, rows, **files):
    return Page(unpacked(write_page(run_of(folder, rows, **files))))


def test_the_page_of_an_offline_training_leads_with_the_held_out_figures(tmp_path):
    """The reward of an offline training is that of the stored rollouts, whatever the model does."""
    rows = rows_of(4, stage="late", **{"validation/reward": 0.6, "validation/reward_start": 0.5})
    page = page_of(tmp_path, rows)
    assert next(iter(page.charts)) == "held_out"
    assert list(page.charts)[-1] == "reward_stored"
    assert "reward" not in page.charts
    assert page.source.index("Initial model") < page.source.index('id="curve-held_out"')
    assert {"0.500", "0.600", "+0.100"} <= set(page.text)
    assert next(iter(page_of(tmp_path, rows_of(4)).charts)) == "reward"


def test_numbers_are_short():
    assert [shown(value) for value in (0.123456, 12345.6, 3e-4, 0.0, -2.0)] == ["0.1235", "12,346", "0.0003", "0", "-2"]


def test_patterns_match_any_text_in_place_of_the_star():
    row = {"rewards/r_ans/mean": 1.0, "rewards/r_ans/std": 1.0, "loss/grpo": 1.0, "loss": 1.0, "loss/rce": None}
    assert matching(("rewards/*/mean", "loss", "loss/*"), [row]) == ["rewards/r_ans/mean", "loss", "loss/grpo"]


def test_long_runs_are_averaged_within_their_stages():
    rows = [{"step": step, "stage": "a" if step <= 3 else "b", "kl": float(step)} for step in range(1, 8)]
    assert stages(rows) == [(0, 3, "a"), (3, 7, "b")]
    points = thinned(rows, columns=4)  # two steps a point
    assert [(point["step"], point["kl"]) for point in points] == [(2, 1.5), (3, 3.0), (5, 4.5), (7, 6.5)]
    assert len(thinned(rows_of(5000))) <= 200


def test_each_chart_has_its_series_and_the_values_of_every_step(tmp_path):
    rows = rows_of(7, kl=0.0123456)
    rows[3]["kl"] = None
    charts = page_of(tmp_path, rows).charts
    assert charts.keys() == {"reward", "kl", "beta"}  # the other metrics were not measured
    assert charts["kl"]["x"] == [1, 2, 3, 5, 6, 7]
    assert charts["kl"]["series"][0]["values"] == [0.0123456] * 6
    reward = charts["reward"]["series"][0]
    assert (reward["values"][1], reward["low"][1], reward["high"][1]) == pytest.approx((0.02, -0.08, 0.12))


def test_a_metric_that_is_measured_now_and_then_is_a_line_over_its_gaps():
    rows = [{"step": step, "kl": 0.1, **({"validation/kl": 0.2} if step % 5 == 0 else {})} for step in range(10)]
    series = {curve["label"]: curve["gaps"] for curve in charts_of(rows)["kl"]["series"]}
    assert series == {"kl": False, "validation/kl": True}


def test_the_file_loads_nothing_and_runs_only_its_own_scripts(tmp_path):
    page = Page(write_page(run_of(tmp_path, rows_of(30))).read_text(encoding="utf-8"))
    assert not [tag for tag, _ in page.tags if tag in ("link", "img", "iframe", "object", "base")]
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on") or name == "style"]
    assert not [attributes for tag, attributes in page.tags if tag == "script" and "src" in attributes]
    assert not [attributes["href"] for _, attributes in page.tags if not attributes.get("href", "#").startswith("#")]
    policy = next(attributes for tag, attributes in page.tags if attributes.get("http-equiv"))["content"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    for text in page.inline["script"] + page.inline["style"]:
        if text.strip():
            assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in policy


def test_hostile_names_and_texts_are_shown_and_escaped(tmp_path):
    rows = [*rows_of(3), {"step": 4, "stage": EVIL, "reward": 0.5, f"loss/{EVIL}": 1.0, f"rewards/{EVIL}/mean": 1.0}]
    sample = {"step": 1, "problem": EVIL, "completion": EVIL, "reward": 0.5, "is_correct": True}
    page = page_of(tmp_path, rows, config_yaml=EVIL, samples_jsonl=json.dumps(sample))
    assert not [1 for _, attributes in page.tags if "onmouseover" in attributes]
    assert page.source.count("<script>alert") == 0
    assert page.charts["components"]["series"][0]["label"] == EVIL
    assert page.charts["loss"]["series"][0]["label"] == f"loss/{EVIL}"
    assert sum(EVIL in text for text in page.text) >= 4  # settings, problem, completion, stage


def test_incomplete_lines_and_lines_that_are_not_metrics_are_skipped(tmp_path):
    folder = run_of(tmp_path, rows_of(2))
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('[1]\n"x"\n{"loss": 1}\n{"step": 3, "rew')
    assert "2 steps · online (1–2)" in " ".join(unpacked(write_page(folder)).split())


def test_one_step_is_enough_for_a_page(tmp_path):
    assert page_of(tmp_path, rows_of(1)).charts["reward"]["x"] == [1]


def test_stages_are_named(tmp_path):
    rows = [{"step": step, "stage": "rce" if step < 11 else "late", "reward": step / 20} for step in range(1, 21)]
    view = view_of(run_of(tmp_path, rows))
    assert (view.steps, view.stages) == (20, [("rce", 1, 10), ("late", 11, 20)])


def test_completions_of_a_problem_are_shown_over_time():
    rows = [
        {"step": step, "problem": "P", "completion": f"reply {step}", "reward": step / 10, "is_correct": step > 50}
        for step in range(100, 0, -1)
    ]
    [problem] = attributes(samples_over_time([*rows, {"step": "x"}, {"completion": "no step"}]))
    assert [sample.step for sample in problem.samples] == [1, 15, 29, 43, 58, 72, 86, 100]
    assert (problem.samples[0].verdict, problem.samples[-1].verdict) == ("wrong", "right")
    assert problem.samples[-1].reward == "10"


def test_a_training_without_a_line_of_metrics_has_no_curves(tmp_path):
    (tmp_path / "metrics.jsonl").write_text("{torn")
    assert view_of(tmp_path).charts == {}  # the page of a training that has just begun


BEYOND = table(
    "values",
    [
        [1e308, -1e308, 0.5],
        [1e308, 1e308, 1e308],
        [10**400, -(10**400), 1],
        [5e-324, 0.0, -5e-324],
        ["1", None, True],
    ],
)


@BEYOND
def test_values_beyond_all_scales_do_not_break_the_page(tmp_path, values):
    rows = [{"step": step, "loss": value, "reward": value, "reward_std": value} for step, value in enumerate(values)]
    page = page_of(tmp_path, [*rows, {"step": 10**400, "loss": 1.0}, {"step": True}, *rows_of(3)])
    drawn = [
        value
        for chart in page.charts.values()
        for curve in chart["series"]
        for key in ("values", "low", "high")
        for value in curve.get(key, [])
    ]
    assert all(value is None or abs(value) <= 2e12 for value in drawn)
    assert all(len(text) < 200 for text in page.text)


def test_half_a_surrogate_and_control_characters_do_not_break_the_page(tmp_path):
    odd = "a\ud800b\u202ec\x1b[31md"
    rows = [{**row, "stage": odd, f"loss/{odd}": 1.0} for row in rows_of(2)]
    page = page_of(tmp_path, rows, samples_jsonl=json.dumps({"step": 1, "problem": odd, "completion": odd}))
    assert "abc[31md" in page.source
    assert "\u202e" not in page.source
