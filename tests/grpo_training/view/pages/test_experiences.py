"""The list of libraries, and the groups that the page of a library links to."""

import html
import re

import pytest
from starlette.testclient import TestClient

from engine.experience.events import GateEvent
from engine.experience.library import ExperienceLibrary
from grpo_training.view.data.runs import Store
from grpo_training.view.web.server import application
from tests.grpo_training.view.pages.test_evaluations import GATE
from tests.support.viewer_runs import pocket_run


@pytest.fixture
def store(tmp_path):
    """Two runs with names and equal results; the first library of the second one is adopted."""
    for name in ("mails", "sums"):
        pocket_run(tmp_path / "runs" / name)
    library = ExperienceLibrary(tmp_path / "runs/sums/experiences/generator_1_experiences.json")
    gate = {"verdict": "adopted", "mean": 0.1, "low": 0.02, "high": 0.18, "at": "2026-01-02T00:00"}
    library.record_gate(GateEvent(version=library.state.version, **GATE, **gate))
    return Store([tmp_path / "runs"])


def read(store, path):
    return TestClient(application(store), base_url="http://localhost").get(f"/{path}").text


def test_the_list_names_the_run_of_each_library_and_its_last_verdict(store):
    rows = re.findall("<tr data-row>(.*?)</tr>", read(store, "experiences.html"), re.DOTALL)
    cells = [[html.unescape(re.sub("<[^>]*>", "", cell)) for cell in re.findall("<td.*?</td>", row)] for row in rows]
    listed = [row[:3] for row in cells if row[1] == "generator_1"]
    assert listed == [["mails", "generator_1", "–"], ["sums", "generator_1", "adopted"]]


def test_a_library_links_to_the_groups_of_its_own_run(store):
    runs = {run.shown_folder: run.id for run in store.runs if run.name == "generator_1"}
    libraries = {viewed.shown_folder: viewed.id for viewed in store.libraries if viewed.name == "generator_1"}
    assert set(runs) == set(libraries) == {"mails", "sums"}
    for name, library in libraries.items():
        page = read(store, f"libraries/{library}.html")
        assert set(re.findall('href="../([^"]+)/groups/', page)) == {runs[name]}
