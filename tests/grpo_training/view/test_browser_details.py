"""Groups, libraries, fusions and trainings in a browser: what is drawn, hostile texts."""

import json
import shutil

import pytest

from engine.experience.events import GroupTrial
from engine.experience.library import ExperienceLibrary
from engine.records import Completion, GroupStats, Operation, Problem
from grpo_training.view.data.runs import Store
from grpo_training.view.training_page import write_page
from grpo_training.view.web.export import export
from tests.grpo_training.view.pages.test_evaluations import evaluated, gated
from tests.grpo_training.view.pages.test_fusions import fusion
from tests.grpo_training.view.pages.test_group import MEAN, RIGHT, group, rollout
from tests.support.browser import expect
from tests.support.library import commit, step_of
from tests.support.viewer_runs import exported_page

pytestmark = pytest.mark.browser

HOSTILE = '</script><script>window.taken = 1</script><img src="x:" onerror="window.taken = 2">\u202e\x1b[31m{{ 7 * 7 }}'
RUN, LIBRARY = "cache-generator_1", "libraries/experiences-generator_1-library.html"
PAGES = {
    "group": f"{RUN}/groups/1.html",
    "experiences": "experiences.html",
    "library": LIBRARY,
    "fusions": "cache-critic/fusions.html",
    "training": "tuned/training.html",
    "tests": "evaluations.html",
    "evaluation": "evaluations/tests-sums.html",
}
LOOKS = (("light", 1280), ("dark", 1280), ("light", 420), ("dark", 420))


@pytest.fixture(scope="module")
def runs(pocket, tmp_path_factory):
    """The recorded run with a training beside it. Not to be written to."""
    folder = tmp_path_factory.mktemp("runs")
    shutil.copytree(pocket, folder, dirs_exist_ok=True)
    tuned = folder / "tuned"
    tuned.mkdir()
    (tuned / "config.json").write_text("{}")
    rows = [
        {"step": step, "reward": step / 20, "reward_std": 0.2, "kl": 0.01 * step}
        | {"validation/reward": 0.5 + step / 50, "validation/reward_start": 0.5}
        for step in range(1, 21)
    ]
    (tuned / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    samples = [
        {"step": step, "problem": "How many?", "answer": "7", "completion": f"It is {step}.", "is_correct": step == 7}
        for step in (1, 4, 7)
    ]
    (tuned / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in samples))
    (folder / "tests").mkdir()
    gated(folder / "tests")
    evaluated(folder / "tests")
    return folder


@pytest.fixture(scope="module")
def report(runs, tmp_path_factory):
    """The runs as one file: from a page's path to its address."""
    target = tmp_path_factory.mktemp("export") / "report.html"
    export(Store([runs]), target, 500)
    return lambda path: exported_page(target, path)


@pytest.fixture
def cache(tmp_path):
    """A group whose first rollout is wrong, and its fusion."""
    folder = tmp_path / "cache"
    folder.mkdir()
    record = group(rollout(1, MEAN, "40", 0.1), rollout(2, RIGHT, "44", 0.875))
    (folder / "generator_1_rollouts.jsonl").write_text(record.model_dump_json() + "\n")
    (folder / "critic_results.jsonl").write_text(fusion().model_dump_json() + "\n")
    return folder


@pytest.mark.parametrize("name", PAGES)
def test_each_page_fits_its_window(runs, served, open_page, screenshot, name):
    with served([runs]) as address:
        page = open_page(address + PAGES[name])
        for scheme, width in LOOKS:
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_selector("main h1")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            screenshot(page, f"{name}-{scheme}{'-narrow' if width == 420 else ''}")


@pytest.mark.parametrize("name", ["group", "library", "overview"])
def test_what_is_unfolded_fits_a_narrow_window(runs, served, open_page, name):
    """Forms, and what a table has in its rows; a table itself scrolls."""
    with served([runs]) as address:
        path = {**PAGES, "overview": f"{RUN}/overview.html"}[name]
        page = open_page(address + path, viewport={"width": 420, "height": 900})
        page.wait_for_selector("main h1")
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        beyond = """() => [...document.querySelectorAll("form, textarea, input, button, summary, .card > *")]
            .filter((one) => one.closest(".scroll, .beside") === null && one.getBoundingClientRect().right > innerWidth)
            .map((one) => one.outerHTML.slice(0, 200))"""
        assert page.evaluate(beyond) == []


def test_a_narrow_page_names_its_run_in_full_and_has_the_library_without_scrolling(runs, served, open_page):
    with served([runs]) as address:
        page = open_page(f"{address}{RUN}/overview.html", viewport={"width": 420, "height": 900})
        expect(page.locator(".run-name b")).to_have_text("generator_1")
        expect(page.locator(".effects tbody tr")).not_to_have_count(0)
        cut = "one => one.scrollWidth - one.clientWidth"
        assert page.locator(".run-name").evaluate(cut) <= 0
        assert page.locator(".scroll:has(.effects)").evaluate(cut) <= 1


def test_effects_and_the_name_of_a_long_folder_fit_a_narrow_window(tmp_path, served, open_page):
    library = ExperienceLibrary(tmp_path / ("results_of_" * 8 + "a_run") / "experiences/generator_1_experiences.json")
    stats = GroupStats(mean=0.5, std=0.4, advantages=[], triggered=True)
    for number, difference in enumerate((1.0, 0.0, 1.0, 0.5)):
        trial = GroupTrial(difference=difference, halves={"G1-001": "A"} if number else {}, rollouts={"A": 2, "B": 2},
                           correct={"A": 2, "B": 1})  # fmt: skip
        problem = Problem(id=f"p{number}", text="How many?", answer="42", task="math")
        used = ["G1-001"] if number else []
        step = step_of("r", number, problem, 0, used, 4, 3, stats, trial=trial, on_trial=True)
        commit(library, step, [] if number else [Operation(op="add", content="Check the units.")])
    with served([tmp_path]) as address:
        page = open_page(address + LIBRARY, viewport={"width": 390, "height": 900})
        expect(page.locator(".effects td.number").first).to_contain_text(" pp … ")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        wide = "cells => cells.filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.textContent)"
        assert page.locator(".effects td.number").evaluate_all(wide) == []


def check_the_graphs(page):
    """The graphs of two rollouts and their fusion are drawn, without overlaps; the step that differs is marked."""
    page.wait_for_selector(".graph svg")
    graphs = page.locator(".graph svg")
    assert graphs.count() == 3
    assert graphs.nth(0).locator(".node").count() == 6
    assert graphs.nth(0).locator("path.edge").count() == 7
    assert graphs.nth(1).locator(".node.first .value").text_content() == "40"
    assert graphs.nth(0).locator(".node.target .value").text_content() == "44"
    boxes = [node.bounding_box() for node in graphs.nth(0).locator(".node rect").all()]
    for index, box in enumerate(boxes):
        for other in boxes[:index]:
            beside = box["x"] + box["width"] <= other["x"] or other["x"] + other["width"] <= box["x"]
            assert beside or box["y"] + box["height"] <= other["y"] or other["y"] + other["height"] <= box["y"]
    graphs.nth(0).locator(".node.step").focus()
    assert graphs.nth(0).locator(".node.chosen").count() == 5  # four knowns, and itself
    page.get_by_label("only what differs").check()
    expect(page.locator("#values tbody tr:visible")).to_have_count(2)  # content, percent


def test_the_graphs_of_a_group_are_drawn(cache, served, open_page):
    with served([cache]) as address:
        page = open_page(f"{address}{RUN}/groups/1.html")
        check_the_graphs(page)
        page.locator("[data-widen]").first.click()
        assert page.locator("article.wide").count() == 1


def test_the_graphs_of_exported_groups_and_fusions_are_drawn(cache, tmp_path, open_page):
    target = tmp_path / "report.html"
    export(Store([cache]), target, 5)
    check_the_graphs(open_page(exported_page(target, f"{RUN}/groups/1.html")))
    page = open_page(exported_page(target, "cache-critic/fusions.html"))
    page.get_by_role("link", name="p", exact=True).click()
    expect(page.locator("#rollout-fusion .graph .node")).to_have_count(3)


def test_each_page_of_an_export_opens(report, open_page):
    page = open_page(report(PAGES["experiences"]))
    for name, content in {
        "library": "main .entry ins",
        "group": ".graph svg",
        "fusions": "main tbody tr a",
        "training": ".chart canvas",
    }.items():
        page.goto("about:blank")  # in one file, only the part behind # differs
        page.goto(report(PAGES[name]))
        expect(page.locator(content).first).to_be_visible()
    assert page.locator(".chart canvas").count() == 3
    assert page.locator(".time .tag").all_text_contents() == ["wrong", "wrong", "right"]


def test_a_fusion_in_the_list_leads_to_its_graph_on_the_page_of_its_group(cache, served, open_page):
    with served([cache]) as address:
        page = open_page(f"{address}cache-critic/fusions.html")
        page.get_by_role("link", name="p", exact=True).click()
        page.wait_for_url(f"**/{RUN}/groups/1.html#rollout-fusion")
        expect(page.locator("#rollout-fusion .graph .node")).to_have_count(3)


def test_the_report_of_a_training_draws_from_disk(runs, tmp_path, open_page):
    folder = tmp_path / "tuned"
    shutil.copytree(runs / "tuned", folder)
    page = open_page(write_page(folder).as_uri())
    assert page.locator(".chart canvas").count() == 3
    legend = page.locator("#curve-held_out .chart-legend")
    assert legend.text_content().startswith("step 20")
    box = page.locator("#curve-held_out .u-over").bounding_box()
    page.mouse.move(box["x"] + 1, box["y"] + 50)
    expect(legend).to_contain_text("step 1")
    assert page.locator(".time .tag").all_text_contents() == ["wrong", "wrong", "right"]


def test_hostile_trainings_are_drawn_as_text(tmp_path, open_page):
    rows = [{"step": step, "loss": value, f"loss/{HOSTILE}": 1} for step, value in enumerate([1e308, -1e308, 10**400])]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "samples.jsonl").write_text(json.dumps({"step": 1, "problem": HOSTILE, "completion": HOSTILE}))
    page = open_page(write_page(tmp_path).as_uri())
    page.wait_for_selector(".chart canvas")
    assert page.evaluate("window.taken === undefined")
    assert "</script><script>window.taken = 1</script>" in page.locator(".chart-legend").first.text_content()


def test_hostile_groups_are_shown_as_text(tmp_path, served, open_page):
    """Markup, terminal codes, a reply of 10 MB, half a surrogate and bytes that are not UTF-8."""
    odd = [{"cause": ["a" * 300, HOSTILE], "effect": "__proto__", "rule": HOSTILE * 50}]
    long = rollout(2, RIGHT, "44", 0.9, completion=Completion(text="y" * 10_000_000))
    first = group(rollout(1, odd, HOSTILE, 0.1, completion=Completion(text=HOSTILE)), long, problem_text=HOSTILE)
    second = group(rollout(1, RIGHT, "44", 0.9)).model_dump(mode="json") | {"problem_text": "half \ud800 a pair"}
    path = tmp_path / "cache/generator_1_rollouts.jsonl"
    path.parent.mkdir()
    broken = (
        group(rollout(1, RIGHT, "44", 0.9), problem_text="xx").model_dump_json().encode().replace(b"xx", b"\xff\xfe")
    )
    path.write_bytes(b"\n".join([first.model_dump_json().encode(), json.dumps(second).encode(), broken, b""]))
    with served([tmp_path]) as address:
        page = open_page(f"{address}{RUN}/groups/1.html")
        page.wait_for_selector(".graph svg")
        assert page.evaluate("window.taken === undefined")
        assert page.locator("main img[src='x:']").count() == 0
        assert page.locator(".graph .node", has_text="__proto__").count() == 1
        assert "more characters are not shown" in page.locator("#rollout-2").text_content()
        page.goto(f"{address}{RUN}/groups/2.html")
        assert "half ? a pair" in page.locator(".question").text_content()
        page.goto("about:blank")  # a page that asks for news would report that the server has ended
    export(Store([path.parent]), tmp_path / "report.html", 5)
    page = open_page(exported_page(tmp_path / "report.html", f"{RUN}/groups/1.html"))
    page.wait_for_selector(".graph svg")
    assert page.evaluate("window.taken === undefined")
    assert page.locator("main img[src='x:']").count() == 0


def test_the_prompt_is_copied_as_text(runs, served, open_page):
    with served([runs]) as root:
        page = open_page(root + PAGES["group"], permissions=["clipboard-read", "clipboard-write"])
        button = page.locator("[data-copy]").first
        button.click()
        expect(button).to_have_text("Copied")
        copied = page.evaluate("navigator.clipboard.readText()")
        pieces = page.locator("[data-prompt]").first.locator("pre").text_content()
        assert pieces in copied
        assert page.locator("#main .question p").first.text_content() in copied


def test_a_table_that_is_too_wide_names_the_columns_that_are_hidden(runs, served, open_page):
    with served([runs]) as root:
        page = open_page(f"{root}index.html", viewport={"width": 420, "height": 900})
        note = page.locator("#run-list .hidden-columns")
        expect(note).to_contain_text("Tokens")
        expect(note).to_contain_text("Model")
        expect(note).not_to_contain_text("State")
        table = page.locator("#run-list .scroll")
        head = page.get_by_role("columnheader", name="Tokens")
        table.evaluate(
            "(box, head) => (box.scrollLeft = head.offsetLeft + 0.7 * head.offsetWidth - box.clientWidth)",
            head.element_handle(),
        )
        expect(note).to_contain_text("Tokens, Cost")  # a part of it is visible, and a part of a number is another one
        expect(note).not_to_contain_text("σ > τ")
        page.locator("#run-list .scroll").evaluate("box => (box.scrollLeft = box.scrollWidth)")
        expect(note).to_contain_text("Run, State")
        expect(note).not_to_contain_text("Model")
        page.set_viewport_size({"width": 1900, "height": 900})
        expect(note).to_have_text("")
