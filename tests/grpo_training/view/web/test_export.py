"""The export: the same pages as files."""

import html
import os
import re

import pytest

from engine.errors import InputError, MissingInputError
from grpo_training.view.data.runs import Store
from grpo_training.view.web.export import export
from tests.support.full_disk import largest_file
from tests.support.viewer_runs import group, write


@pytest.fixture(scope="module")
def exported(pocket, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report") / "report"
    export(Store([pocket]), folder, 500)
    return folder


def test_every_link_of_the_export_leads_to_a_file_of_it(exported):
    pages = list(exported.rglob("*.html"))
    assert len(pages) > 10
    for page in pages:
        for link in re.findall(r'(?:href|src)="([^"#]+)"', page.read_text(encoding="utf-8")):
            target = os.path.normpath(page.parent / html.unescape(link))
            assert os.path.isfile(target), (page, link)
            assert target.startswith(str(exported))


def test_an_exported_page_forbids_scripts_and_requests_of_others(exported):
    for page in exported.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert "default-src 'none'" in re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)[1]
        assert not re.search(r"<script(?![^>]*(?:\bsrc=|type=\"application/json\"))", text)
        assert " style=" not in text
        assert 'method="post"' not in text


def test_only_some_groups_of_a_large_run_have_a_page(tmp_path):
    groups = [group(f"p{number}", [0.5 - number / 100, 0.5 + number / 100]) for number in range(10)]
    groups += [group(f"q{number}", [0.5, 0.5]) for number in range(10)]
    write(tmp_path / "cache/generator_1_rollouts.jsonl", groups)
    export(Store([tmp_path / "cache"]), tmp_path / "out", 6)
    pages = {int(path.stem) for path in (tmp_path / "out/cache-generator_1/groups").glob("*.html")}
    assert pages == {8, 9, 10, 18, 19, 20}  # three with the largest sigma, and the three newest
    table = (tmp_path / "out/cache-generator_1/groups.html").read_text(encoding="utf-8")
    assert "14 groups have no page of their own" in table


def test_an_export_never_writes_into_a_folder_with_files(tmp_path, pocket):
    (tmp_path / "note.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="not an empty folder"):
        export(Store([pocket]), tmp_path, 5)
    assert [path.name for path in tmp_path.iterdir()] == ["note.txt"]


def test_one_file_has_every_page_and_its_policy_allows_just_its_scripts(tmp_path, exported, pocket):
    report = tmp_path / "new/report.html"
    pages = export(Store([pocket]), report, 500)
    assert pages == len(list(exported.rglob("*.html")))
    text = report.read_text(encoding="utf-8")
    assert len(re.findall(r'<script type="text/plain" data-page="[^"]+">', text)) == pages
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)[1]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "'self'" not in policy
    assert not re.search(r'\b(?:src|href)="', text)


def test_one_file_never_replaces_a_file(tmp_path, pocket):
    (tmp_path / "report.html").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="exists"):
        export(Store([pocket]), tmp_path / "report.html", 5)
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == "mine"


def test_an_export_of_nothing_is_an_error(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(MissingInputError, match="Nothing to export"):
        export(Store([tmp_path / "empty"]), tmp_path / "out", 5)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["report", "report.html"])
def test_an_export_that_cannot_be_written_leaves_nothing_and_can_be_repeated(pocket, tmp_path, name):
    store, target = Store([pocket]), tmp_path / name
    with largest_file(9000), pytest.raises(OSError, match="File too large") as caught:
        export(store, target, 500)
    assert caught.value.filename == str(target)
    assert list(tmp_path.iterdir()) == []
    assert export(store, target, 500) > 10
