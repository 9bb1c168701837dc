import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from engine.errors import InputError, MissingInputError
from grpo_training.viewer.series import matching, shown, stages, thinned, ticks
from grpo_training.viewer.training_page import CHARTS, write_page
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
    """All tags and texts of a page, and of each figure its legend and its texts."""

    def __init__(self, path):
        super().__init__()
        self.source = path.read_text(encoding="utf-8")
        self.tags, self.text, self.charts = [], [], {}
        self._chart, self._open = None, []
        self.feed(self.source)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag == "figure":
            self._chart = {"texts": [], "legend": [], "heights": []}
        if self._chart is not None and tag == "circle" and "cy" in dict(attributes):
            self._chart["heights"].append(float(dict(attributes)["cy"]))
        self._open.append(tag)

    def handle_endtag(self, tag):
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data):
        self.text.append(data)
        if self._chart is None or not data.strip():
            return
        if self._open[-1] == "h2":
            self.charts[data] = self._chart
        elif "figcaption" in self._open:
            self._chart["legend"].append(data.strip())
        else:
            self._chart["texts"].append(data.strip())


def test_the_page_of_an_offline_training_leads_with_the_held_out_figures(tmp_path):
    """The reward of an offline training is that of the stored rollouts, whatever the model does."""
    rows = rows_of(4, stage="late", **{"validation/reward": 0.6, "validation/reward_start": 0.5})
    page = page_of(tmp_path, rows)
    assert next(iter(page.charts)) == "Held-out groups"
    assert list(page.charts)[-1] == "Reward of the stored rollouts"
    online = page_of(tmp_path, rows_of(4))
    assert next(iter(online.charts)) == "Reward"


def page_of(folder, rows, **files):
    return Page(write_page(run_of(folder, rows, **files)))


@table(
    ("low", "high", "marks"),
    [
        (0.0, 1.0, [0.0, 0.5, 1.0]),
        (0.0, 8.0, [0.0, 2.0, 4.0, 6.0, 8.0]),
        (0.31, 0.69, [0.3, 0.4, 0.5, 0.6, 0.7]),
        (-3.0, 4.0, [-4.0, -2.0, 0.0, 2.0, 4.0]),
        (5.0, 5.0, [4.5, 5.0, 5.5]),
        (0.0, 0.0, [0.0, 0.5, 1.0]),
    ],
)
def test_ticks_are_round_and_cover_the_values(low, high, marks):
    assert ticks(low, high) == pytest.approx(marks)


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
    assert charts.keys() == {"Reward", "KL and beta"}  # the other metrics were not measured
    assert charts["KL and beta"]["legend"] == ["kl", "beta"]
    texts = charts["KL and beta"]["texts"]
    assert [text for text in texts if text.startswith("step ")] == [
        f"step {step}  beta 0.5" if step == 4 else f"step {step}  kl 0.01235  beta 0.5" for step in range(1, 8)
    ]
    assert "step 2  reward 0.02 ± 0.1" in charts["Reward"]["texts"]


def test_both_axes_have_their_own_scale(tmp_path):
    rows = [{"step": 0, "kl": 0.0, "beta": 0.0}, {"step": 1, "kl": 1.0, "beta": 100.0}]
    chart = page_of(tmp_path, rows).charts["KL and beta"]
    assert {"0.5", "1", "50", "100"} <= set(chart["texts"])
    assert len(set(chart["heights"])) == 2  # kl and beta are at the bottom first, at the top then


def test_a_chart_is_well_formed_and_its_larger_values_are_higher(tmp_path):
    rows = [{"step": step, "kl": value} for step, value in ((0, 0.0), (10, 1.0), (20, None), (30, 0.5))]
    chart = page_of(tmp_path, rows).charts["KL and beta"]
    low, high, middle = chart["heights"][-3:]
    assert high < middle < low  # heights are counted from the top
    assert middle == pytest.approx((low + high) / 2)


def test_the_page_loads_and_runs_nothing(tmp_path):
    page = page_of(tmp_path, rows_of(30))
    assert (tmp_path / "report.html").exists()
    assert not [tag for tag, _ in page.tags if tag in ("script", "link", "img", "iframe", "object", "base")]
    assert not [attribute for _, attributes in page.tags for attribute in attributes if attribute.startswith("on")]
    assert not re.search(r"https?:|@import|url\(", page.source)
    policy = next(attributes for tag, attributes in page.tags if attributes.get("http-equiv"))
    assert policy["content"] == "default-src 'none'; style-src 'unsafe-inline'"


def test_hostile_names_and_texts_are_shown_and_escaped(tmp_path):
    rows = [*rows_of(3), {"step": 4, "stage": EVIL, "reward": 0.5, f"loss/{EVIL}": 1.0, f"rewards/{EVIL}/mean": 1.0}]
    sample = {"step": 1, "problem": EVIL, "completion": EVIL, "reward": 0.5, "is_correct": True}
    page = page_of(tmp_path, rows, config_yaml=EVIL, samples_jsonl=json.dumps(sample))
    assert "script" not in {tag for tag, _ in page.tags}
    assert not [1 for _, attributes in page.tags if "onmouseover" in attributes]
    assert page.charts["Reward components"]["legend"] == [EVIL]
    assert page.charts["Loss"]["legend"] == [f"loss/{EVIL}"]
    assert sum(EVIL in text for text in page.text) >= 6  # settings, problem, completion, stage, two legends


def test_every_chart_is_drawn_as_well_formed_svg(tmp_path):
    row = {"stage": EVIL, **{name: 0.5 for chart in CHARTS for name in chart.left + chart.right if "*" not in name}}
    page = page_of(tmp_path, [{"step": 1, **row}, {"step": 2, **row, "stage": "b"}])
    drawn = re.findall(r"<svg.*?</svg>", page.source, re.DOTALL)
    assert len(drawn) == sum(any("*" not in name for name in chart.left + chart.right) for chart in CHARTS)
    for one in drawn:
        ElementTree.fromstring(one)


def test_incomplete_lines_and_lines_that_are_not_metrics_are_skipped(tmp_path):
    folder = run_of(tmp_path, rows_of(2))
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('[1]\n"x"\n{"loss": 1}\n{"step": 3, "rew')
    assert "2 steps: online" in write_page(folder).read_text()


def test_one_step_is_enough_for_a_page(tmp_path):
    assert "1 steps" in page_of(tmp_path, rows_of(1)).source


def test_stages_are_marked_and_the_summary_compares_both_ends(tmp_path):
    rows = [{"step": step, "stage": "rce" if step < 11 else "late", "reward": step / 20} for step in range(1, 21)]
    page = page_of(tmp_path, rows)
    assert "20 steps: rce → late" in page.source
    assert {"rce", "late"} <= set(page.charts["Reward of the stored rollouts"]["texts"])
    start = page.text.index("reward")
    assert [text for text in page.text[start : start + 8] if text.strip()][:4] == ["reward", "0.075", "0.975", "+0.9"]


def test_completions_of_the_first_and_the_last_step_are_shown(tmp_path):
    lines = [
        {"step": step, "problem": "P", "completion": f"reply {step}", "reward": step / 10, "is_correct": verdict}
        for step, verdict in ((1, False), (5, True), (9, True))
    ]
    text = page_of(tmp_path, rows_of(9), samples_jsonl="\n".join(map(json.dumps, lines))).source
    assert "reply 1" in text
    assert "reply 9" in text
    assert "reply 5" not in text
    assert "wrong, reward 0.1" in text
    assert "correct, reward 0.9" in text


def test_a_folder_without_metrics_is_refused(tmp_path):
    with pytest.raises(MissingInputError, match="No metrics"):
        write_page(tmp_path)
    (tmp_path / "metrics.jsonl").write_text("{torn")
    with pytest.raises(InputError, match="no line of metrics"):
        write_page(tmp_path)


@table(
    "values",
    [
        [1e308, -1e308, 0.5],
        [1e308, 1e308, 1e308],
        [10**400, -(10**400), 1],
        [5e-324, 0.0, -5e-324],
        ["1", None, True],
    ],
)
def test_values_beyond_all_scales_do_not_break_the_page(tmp_path, values):
    rows = [{"step": step, "loss": value, "reward": value, "reward_std": value} for step, value in enumerate(values)]
    page = page_of(tmp_path, [*rows, {"step": 10**400, "loss": 1.0}, *rows_of(3)])
    assert "nan" not in page.source
    assert "inf" not in page.source.replace("information", "")
    assert all(len(text) < 200 for chart in page.charts.values() for text in chart["texts"])


def test_half_a_surrogate_and_control_characters_do_not_break_the_page(tmp_path):
    odd = "a\ud800b\u202ec\x1b[31md"
    rows = [{**row, "stage": odd, f"loss/{odd}": 1.0} for row in rows_of(2)]
    page = page_of(tmp_path, rows, samples_jsonl=json.dumps({"step": 1, "problem": odd, "completion": odd}))
    assert "abc[31md" in page.source
    assert "\u202e" not in page.source
