"""The pages in a browser: over a server while the run goes on, and exported to files.

With ``VIEWER_SCREENSHOTS=folder`` (``make screenshots``) pictures of the pages are kept.
"""

import re

import pytest

from grpo_training.view.data.runs import Store
from grpo_training.view.web.export import export
from tests.support.browser import expect
from tests.support.viewer_runs import append, exported_page, group, write

pytestmark = pytest.mark.browser

RUN = "cache-generator_1"
PAGES = {
    "runs": "index.html",
    "overview": f"{RUN}/overview.html",
    "groups": f"{RUN}/groups.html",
}
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 420, "height": 900}


@pytest.fixture(scope="module")
def report(pocket, tmp_path_factory):
    """The recorded run as one file: from a page's path to its address."""
    target = tmp_path_factory.mktemp("export") / "report.html"
    export(Store([pocket]), target, 500)
    return lambda path: exported_page(target, path)


@pytest.mark.parametrize("name", PAGES)
def test_each_page_opens_and_fits_its_window(pocket, served, open_page, screenshot, name):
    with served([pocket]) as address:
        page = open_page(address + PAGES[name])
        for scheme, size in (("light", WIDE), ("dark", WIDE), ("light", NARROW), ("dark", NARROW)):
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size(size)
            page.wait_for_selector("main h1, main table tbody tr")
            width, window = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
            assert width <= window
            screenshot(page, f"{name}-{scheme}{'-narrow' if size is NARROW else ''}")


def lines(page):
    return [int(text) for text in page.locator("#groups tbody tr td:first-child").all_text_contents()]


def check_the_table(page):
    """Filter, sort and search the six groups of the recorded run; the state is in the address."""
    page.wait_for_selector("#groups tbody tr")
    assert lines(page) == [6, 5, 4, 3, 2, 1]
    page.get_by_role("button", name="Sigma").click()
    sigmas = [float(text) for text in page.locator("#groups tbody tr td:nth-child(4)").all_text_contents()]
    assert sigmas == sorted(sigmas, reverse=True)
    assert page.locator('th[aria-sort="descending"]').text_content() == "Sigma"
    page.get_by_role("button", name="Line").click()
    page.get_by_role("button", name="Line").click()
    assert lines(page) == [1, 2, 3, 4, 5, 6]
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("brine bucket")
    assert lines(page) == [1]
    assert page.locator("#count").text_content() == "1 of 6 groups"
    address = page.url
    page.get_by_role("button", name="Reset").click()
    expect(page.locator("#groups tbody tr")).to_have_count(6)
    page.get_by_label("Right").select_option("all")
    for marks in page.locator("#groups tbody tr td:nth-child(3)").all_text_contents():
        right, all_ = marks.split("/")
        assert right == all_
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("#groups tbody tr")
    assert lines(page) == [1]


def test_the_table_filters_and_sorts_live(pocket, served, open_page):
    with served([pocket]) as address:
        check_the_table(open_page(f"{address}{RUN}/groups.html"))


def test_the_table_filters_and_sorts_in_an_export(report, open_page):
    check_the_table(open_page(report(f"{RUN}/groups.html")))


def test_links_and_keys_of_an_export_lead_to_its_pages(report, open_page):
    page = open_page(report("index.html"))
    page.get_by_role("link", name="generator_1").click()
    page.wait_for_selector(".chart canvas")
    page.keyboard.press("g")
    page.keyboard.press("l")
    page.get_by_role("searchbox").fill("brine bucket")
    page.locator("#groups tbody a").click()
    expect(page.locator(".graph svg").first).to_be_visible()
    page.locator('a[href="#rollout-2"]').first.click()
    expect(page.locator("#rollout-2")).to_be_in_viewport()
    page.go_back()
    page.go_back()
    expect(page.locator("#groups tbody tr")).to_have_count(1)  # the address keeps the filter
    page.get_by_role("link", name="Runs", exact=True).click()
    expect(page.locator("table.runs")).to_be_visible()
    page.reload()
    expect(page.locator("table.runs")).to_be_visible()


def test_from_a_row_to_its_group_by_keyboard(pocket, served, open_page):
    with served([pocket]) as address:
        page = open_page(f"{address}{RUN}/groups.html")
        page.wait_for_selector("#groups tbody tr")
        for key in "jjjk":
            page.keyboard.press(key)
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/{RUN}/groups/5.html")
        page.keyboard.press("g")
        page.keyboard.press("o")
        page.wait_for_url(f"**/{RUN}/overview.html")


def test_a_page_follows_a_run_that_goes_on(tmp_path, served, open_page):
    groups = [group(f"p{number}", [0.1, 0.9], at=number) for number in range(3)]
    path = write(tmp_path / "cache/generator_1_rollouts.jsonl", groups)
    with served([tmp_path]) as address:
        table = open_page(f"{address}{RUN}/groups.html")
        table.wait_for_selector("#groups tbody tr")
        table.locator("input[type=search]").fill("p")
        overview = open_page(f"{address}{RUN}/overview.html")
        overview.wait_for_selector(".chart canvas")
        append(path, [group("p3", [0.2, 0.9], at=9)])
        expect(table.locator("#groups tbody tr")).to_have_count(4)
        assert table.locator("input[type=search]").input_value() == "p"
        expect(overview.locator("#figures")).to_contain_text("4 problems")
        expect(overview.locator(".chart-legend").first).to_have_text(re.compile("^group 4"))


def test_pages_of_a_run_without_a_group_fill_up(tmp_path, served, open_page):
    path = write(tmp_path / "cache/generator_1_rollouts.jsonl", [])
    with served([tmp_path]) as address:
        table, overview = open_page(f"{address}{RUN}/groups.html"), open_page(f"{address}{RUN}/overview.html")
        expect(overview.locator("main")).to_contain_text("No group is complete yet")
        append(path, [group(f"p{number}", [0.1, 0.9], at=number) for number in range(3)])
        expect(table.locator("#groups tbody tr")).to_have_count(3)
        table.locator("th button", has_text="r_logic").click()
        table.locator("#filter-component").select_option("r_logic")
        expect(table.locator("#groups tbody tr")).to_have_count(3)
        expect(overview.locator(".chart canvas").first).to_be_visible()


def test_curves_show_values_under_the_cursor_and_zoom_by_drag(pocket, served, open_page):
    with served([pocket]) as address:
        page = open_page(f"{address}{RUN}/overview.html")
        box = page.locator(".chart .u-over").first.bounding_box()
        legend = page.locator(".chart-legend").first
        assert legend.text_content().startswith("group 6")
        page.mouse.move(box["x"] + 2, box["y"] + 40)
        expect(legend).to_have_text(re.compile(r"group 1\d+\.\d %"))
        before = page.locator(".chart").first.screenshot()
        page.mouse.move(box["x"] + box["width"] * 0.1, box["y"] + 40)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 40, steps=4)
        page.mouse.up()
        page.mouse.move(5, 5)
        assert page.locator(".chart").first.screenshot() != before


def test_theme_and_help(pocket, served, open_page):
    with served([pocket]) as address:
        page = open_page(address, color_scheme="light")
        page.keyboard.press("t")
        assert page.evaluate("getComputedStyle(document.body).color") == "rgb(228, 232, 230)"
        page.reload()
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        page.keyboard.press("?")
        assert page.locator("#help").is_visible()
        page.get_by_role("button", name="Close").click()
        assert not page.locator("#help").is_visible()


HOSTILE = (
    '</script><script>window.taken = 1</script><img src="x:" onerror="window.taken = 2">',
    '"><svg onload="window.taken = 3"></svg>{{ 7 * 7 }}\u202eabc\x1b[31m',
)


def test_hostile_texts_stay_text(tmp_path, served, open_page):
    groups = [
        group(f"{text}#{number}", [0.1, 0.9], text=text, fields={"answer": text}) for number, text in enumerate(HOSTILE)
    ]
    write(tmp_path / "cache/generator_1_rollouts.jsonl", groups, settings={"dataset": HOSTILE[0], HOSTILE[1]: "x"})
    with served([tmp_path]) as address:
        page = open_page(f"{address}{RUN}/groups.html")
        page.wait_for_selector("#groups tbody tr")
        assert page.locator("#groups tbody a").all_text_contents() == [
            '"><svg onload="window.taken = 3"></svg>{{ 7 * 7 }}abc[31m#1',
            f"{HOSTILE[0]}#0",
        ]
        for path in ("index.html", f"{RUN}/overview.html", f"{RUN}/groups/1.html", f"{RUN}/groups.html"):
            page.goto(address + path)
            page.wait_for_timeout(50)
            assert page.evaluate("window.taken === undefined")
            assert page.locator("main img[src='x:'], main svg[onload]").count() == 0
