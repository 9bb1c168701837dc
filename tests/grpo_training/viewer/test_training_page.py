import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from engine.errors import InputError, MissingInputError
from grpo_training.viewer.charts import Chart, chart_svg, matching, shown, stages, thinned, ticks
from grpo_training.viewer.training_page import CHARTS, write_page

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


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.text = [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text.append(data)


def read(page):
    parser = Tags()
    parser.feed(page.read_text(encoding="utf-8"))
    return parser


@pytest.mark.parametrize(
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


def test_a_curve_goes_through_the_right_places_and_breaks_where_a_figure_is_missing():
    rows = [{"step": step, "kl": value} for step, value in ((0, 0.0), (10, 1.0), (20, None), (30, 0.5), (40, 1.0))]
    svg = chart_svg(Chart("KL", ("kl",)), rows)
    # x: 52 to 468 over steps 0 to 40; y: 204 at 0, 26 at 1
    assert '<path class="line s0" d="M52.0 204.0L156.0 26.0"/>' in svg
    assert '<path class="line s0" d="M364.0 115.0L468.0 26.0"/>' in svg


def test_the_right_axis_has_a_scale_of_its_own():
    rows = [{"step": 0, "kl": 0.0, "beta": 0.0}, {"step": 1, "kl": 1.0, "beta": 100.0}]
    svg = chart_svg(Chart("KL", ("kl",), ("beta",)), rows)
    assert svg.count('d="M52.0 204.0L468.0 26.0"') == 2
    assert 'text-anchor="start">100<' in svg


def test_the_band_is_the_mean_plus_and_minus_the_spread():
    rows = [{"step": 0, "reward": 0.5, "reward_std": 0.5}, {"step": 1, "reward": 0.5, "reward_std": 0.25}]
    svg = chart_svg(Chart("Reward", ("reward",), band=("reward", "reward_std")), rows)
    assert 'class="band" d="M52.0 204.0L468.0 159.5L468.0 70.5L52.0 26.0Z"' in svg
    assert "reward 0.5 ± 0.25" in svg


def test_every_step_has_its_figures_under_the_pointer():
    svg = chart_svg(Chart("KL", ("kl",), ("beta",)), rows_of(7))
    assert [f"step {step}  kl 0.01  beta 0.5" in svg for step in range(1, 8)] == [True] * 7
    strips = re.findall(r'<rect x="([\d.]+)" y="0" width="([\d.]+)"', svg)
    assert float(strips[0][0]) == 48
    assert sum(float(width) for _, width in strips) == pytest.approx(424, abs=0.5)


def test_a_chart_without_figures_is_left_out():
    assert chart_svg(Chart("KL", ("kl",)), [{"step": 1, "kl": None}, {"step": 2}]) == ""


def test_patterns_take_what_fits_in_the_middle():
    row = {"rewards/r_ans/mean": 1.0, "rewards/r_ans/std": 1.0, "loss/grpo": 1.0, "loss": 1.0, "loss/rce": None}
    assert matching(("rewards/*/mean", "loss", "loss/*"), [row]) == ["rewards/r_ans/mean", "loss", "loss/grpo"]


def test_long_runs_are_averaged_within_their_stages():
    rows = [{"step": step, "stage": "a" if step <= 3 else "b", "kl": float(step)} for step in range(1, 8)]
    assert stages(rows) == [(0, 3, "a"), (3, 7, "b")]
    points = thinned(rows, columns=4)  # two steps a point
    assert [(point["step"], point["kl"]) for point in points] == [(2, 1.5), (3, 3.0), (5, 4.5), (7, 6.5)]
    assert len(thinned(rows_of(5000))) <= 200


def test_the_page_loads_and_runs_nothing(tmp_path):
    page = write_page(run_of(tmp_path, rows_of(30)))
    parser = read(page)
    assert page.name == "report.html"
    assert not [tag for tag, _ in parser.tags if tag in ("script", "link", "img", "iframe", "object", "base")]
    assert not [attribute for _, attributes in parser.tags for attribute in attributes if attribute.startswith("on")]
    assert not re.search(r"https?:|@import|url\(", page.read_text())
    policy = next(attributes for tag, attributes in parser.tags if attributes.get("http-equiv"))
    assert policy["content"] == "default-src 'none'; style-src 'unsafe-inline'"


def test_all_text_is_escaped(tmp_path):
    rows = [*rows_of(3), {"step": 4, "stage": EVIL, "reward": 0.5, f"loss/{EVIL}": 1.0, f"rewards/{EVIL}/mean": 1.0}]
    sample = {"step": 1, "problem": EVIL, "completion": EVIL, "reward": 0.5, "is_correct": True}
    folder = run_of(tmp_path, rows, config_yaml=EVIL, samples_jsonl=json.dumps(sample))
    parser = read(write_page(folder))
    assert "script" not in {tag for tag, _ in parser.tags}
    assert not [1 for _, attributes in parser.tags if "onmouseover" in attributes]
    assert sum(EVIL in text for text in parser.text) >= 5  # settings, problem, completion, stage, legend


def test_every_chart_is_well_formed_xml(tmp_path):
    row = {"stage": EVIL, **{name: 0.5 for chart in CHARTS for name in chart.left + chart.right if "*" not in name}}
    text = write_page(run_of(tmp_path, [{"step": 1, **row}, {"step": 2, **row, "stage": "b"}])).read_text()
    drawn = re.findall(r"<svg.*?</svg>", text)
    assert len(drawn) == sum(any("*" not in name for name in chart.left + chart.right) for chart in CHARTS)
    for one in drawn:
        ElementTree.fromstring(one)


def test_a_torn_line_and_lines_that_are_no_metrics_are_passed_over(tmp_path):
    folder = run_of(tmp_path, rows_of(2))
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('[1]\n"x"\n{"loss": 1}\n{"step": 3, "rew')
    assert "2 steps: online" in write_page(folder).read_text()


def test_one_step_is_enough_for_a_page(tmp_path):
    assert "1 steps" in write_page(run_of(tmp_path, rows_of(1))).read_text()


def test_stages_are_marked_and_the_summary_compares_both_ends(tmp_path):
    rows = [{"step": step, "stage": "rce" if step < 11 else "late", "reward": step / 20} for step in range(1, 21)]
    text = write_page(run_of(tmp_path, rows)).read_text()
    assert "20 steps: rce → late" in text
    assert text.count('<path class="stage"') == 2
    assert "<td>0.075</td><td>0.975</td><td>+0.9</td>" in text  # means of steps 1-2 and 19-20


def test_completions_of_the_first_and_the_last_step_stand_side_by_side(tmp_path):
    lines = [
        {"step": step, "problem": "P", "completion": f"reply {step}", "reward": step / 10, "is_correct": verdict}
        for step, verdict in ((1, False), (5, True), (9, True))
    ]
    text = write_page(run_of(tmp_path, rows_of(9), samples_jsonl="\n".join(map(json.dumps, lines)))).read_text()
    assert "reply 1" in text
    assert "reply 9" in text
    assert "reply 5" not in text
    assert "wrong, reward 0.1" in text
    assert "right, reward 0.9" in text


def test_a_folder_without_metrics_is_told(tmp_path):
    with pytest.raises(MissingInputError, match="No metrics"):
        write_page(tmp_path)
    (tmp_path / "metrics.jsonl").write_text("{torn")
    with pytest.raises(InputError, match="no line of metrics"):
        write_page(tmp_path)
