"""The export: the same pages as one file."""

import html
import json
import re

import pytest

from engine.errors import InputError, MissingInputError
from grpo_training.view.data.runs import Store
from grpo_training.view.web.export import export
from tests.support.full_disk import largest_file
from tests.support.viewer_runs import group, pages_of, write


@pytest.fixture(scope="module")
def exported(pocket, tmp_path_factory):
    report = tmp_path_factory.mktemp("report") / "new/report.html"
    assert export(Store([pocket]), report, 500) == len(pages_of(report)) > 10
    return report


def test_every_link_of_the_export_leads_to_a_page_or_an_asset_of_it(exported):
    pages = pages_of(exported)
    assets = re.search(r'id="report-assets">(.+?)</script>', exported.read_text(encoding="utf-8"))[1]
    known = {f"#page={path}" for path in pages} | json.loads(assets).keys() | {"assets/icon.svg"}
    for name, page in pages.items():
        links = [html.unescape(link) for link in re.findall(r'(?:href|src)="([^"]+)"', page)]
        assert len(links) > 5
        for link in links:
            is_anchor = link.startswith("#") and not link.startswith("#page=")
            assert is_anchor or re.match(r"#?[^#]+", link)[0] in known, (name, link)


def test_an_exported_page_has_no_script_or_style_of_its_own(exported):
    for text in pages_of(exported).values():
        assert not re.search(r"<script(?![^>]*(?:\bsrc=|type=\"application/json\"))", text)
        assert " style=" not in text
        assert 'method="post"' not in text


def test_only_some_groups_of_a_large_run_have_a_page(tmp_path):
    groups = [group(f"p{number}", [0.5 - number / 100, 0.5 + number / 100]) for number in range(10)]
    groups += [group(f"q{number}", [0.5, 0.5]) for number in range(10)]
    write(tmp_path / "cache/generator_1_rollouts.jsonl", groups)
    export(Store([tmp_path / "cache"]), tmp_path / "out.html", 6)
    pages = pages_of(tmp_path / "out.html")
    shown = {int(match[1]) for path in pages if (match := re.fullmatch(r"cache-generator_1/groups/(\d+)\.html", path))}
    assert shown == {8, 9, 10, 18, 19, 20}  # three with the largest sigma, and the three newest
    assert "14 groups have no page of their own" in pages["cache-generator_1/groups.html"]


def test_the_policy_of_an_export_allows_just_its_scripts(exported):
    text = exported.read_text(encoding="utf-8")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)[1]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "'self'" not in policy
    assert not re.search(r'\b(?:src|href)="', text)


def test_an_export_never_replaces_a_file(tmp_path, pocket):
    (tmp_path / "report.html").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="exists"):
        export(Store([pocket]), tmp_path / "report.html", 5)
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == "mine"


def test_the_name_of_an_export_says_that_it_is_html(tmp_path, pocket):
    with pytest.raises(InputError, match="is no name of an HTML file") as refused:
        export(Store([pocket]), tmp_path / "report", 5)
    assert "ends in .html" in refused.value.fix
    assert list(tmp_path.iterdir()) == []


def test_an_export_of_nothing_is_an_error(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(MissingInputError, match="Nothing to export"):
        export(Store([tmp_path / "empty"]), tmp_path / "out.html", 5)
    assert not (tmp_path / "out.html").exists()


def test_an_export_that_cannot_be_written_leaves_nothing_and_can_be_repeated(pocket, tmp_path):
    store, target = Store([pocket]), tmp_path / "report.html"
    with largest_file(9000), pytest.raises(OSError, match="File too large") as caught:
        export(store, target, 500)
    assert caught.value.filename == str(target)
    assert list(tmp_path.iterdir()) == []
    assert export(store, target, 500) > 10
