"""The group's page says what the group taught, and the overview shows the library with its effects."""

import html
import re

import pytest
from starlette.testclient import TestClient

from engine.experience.events import BeginEvent, GroupTrial
from engine.experience.library import ExperienceLibrary
from engine.records import GroupStats, Operation, Problem
from grpo_training.view.data.runs import Store
from grpo_training.view.web.formats import signed_points
from grpo_training.view.web.server import application
from tests.support.library import by_hand, mark, step_of
from tests.support.library import commit as commit_step
from tests.support.viewer_runs import group, write

TEXT = "Check <b>units</b> before adding lengths."


def commit(library, number, problem, mean, proposals=(), trial=None, run="abc", used=()):
    stats = GroupStats(mean=mean, std=0.4, advantages=[], triggered=True)
    about = Problem(id=problem, text="How many?", answer="42", task="math")
    step = step_of(run=run, step=number, problem=about, epoch=0, used=used, rollouts=2, correct=1, stats=stats,
                       trial=trial, on_trial=True)  # fmt: skip
    return commit_step(library, step, proposals)


@pytest.fixture
def folder(tmp_path):
    """A run of three groups; the first taught something, the second nothing, the third has no step."""
    groups = [group("p1", [0.1, 0.9]), group("p2", [0.1, 0.9]), group("p3", [0.1, 0.9])]
    write(tmp_path / "mails/cache/generator_1_rollouts.jsonl", groups, settings={})
    library = ExperienceLibrary(tmp_path / "mails/experiences/generator_1_experiences.json")
    library.begin_run(BeginEvent(at="", run="abc", model="tiny", tasks=["math"]))
    add = [Operation(op="add", content=TEXT), Operation(op="add", content="word " * 40)]
    commit(library, 0, "p1", 0.5, add)
    commit(library, 1, "p2", 0.5)
    return tmp_path


def pages(folder):
    site = TestClient(application(Store([folder])), base_url="http://localhost")

    def text(path):
        reply = site.get(f"/{path}")
        assert reply.status_code == 200
        return reply.text

    return text


def plain(page, section):
    found = re.search(rf'<(section|div) id="{section}".*?</\1>', page, re.DOTALL)[0]
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", found)).split())


def test_the_page_of_a_group_has_what_it_taught_and_what_was_refused(folder):
    page = pages(folder)("cache-generator_1/groups/1.html")
    assert f"added G1-001 {TEXT} not measured yet" in plain(page, "taught")
    assert "refused word word" in plain(page, "taught")
    assert 'href="../../libraries/experiences-generator_1-library.html#G1-001"' in page
    assert "<b>units</b>" not in page


def test_a_group_without_a_lesson_says_why_there_is_none(folder):
    read = pages(folder)
    assert "nothing was added to the library" in plain(read("cache-generator_1/groups/2.html"), "taught")
    assert "has no step of this group" in plain(read("cache-generator_1/groups/3.html"), "taught")


def test_the_effect_of_a_lesson_is_the_measured_one(folder):
    library = ExperienceLibrary(folder / "mails/experiences/generator_1_experiences.json")
    for number in range(2, 12):
        trial = GroupTrial(difference=0.5, halves={"G1-001": "A"}, rollouts={"A": 1, "B": 1}, correct={"A": 1, "B": 0})
        commit(library, number, f"q{number}", 0.7, trial=trial, used=["G1-001"])
    measured = library.state.trials.interval("G1-001")
    mean, low, high = map(signed_points, measured)
    shown = f"{mean} ({low} … {high})"
    read = pages(folder)
    assert f"effect {shown}" in plain(read("cache-generator_1/groups/1.html"), "taught")
    assert shown in plain(read("cache-generator_1/overview.html"), "lessons")


def test_a_lesson_that_was_changed_or_taken_out_since_says_so(folder):
    library = ExperienceLibrary(folder / "mails/experiences/generator_1_experiences.json")
    library = by_hand(library, {"G1-001": "Draw a picture first."})
    assert "has another text now" in plain(pages(folder)("cache-generator_1/groups/1.html"), "taught")
    mark(library, "forbid", "G1-001")
    assert "forbidden" in plain(pages(folder)("cache-generator_1/groups/1.html"), "taught")


def test_a_run_has_its_own_library_and_not_that_of_another_run(folder):
    other = ExperienceLibrary(folder / "a/experiences/generator_1_experiences.json")
    commit(other, 0, "p3", 0.5, [Operation(op="add", content="Of another run.")])
    read = pages(folder)
    assert "has no step of this group" in plain(read("cache-generator_1/groups/3.html"), "taught")
    overview = plain(read("cache-generator_1/overview.html"), "lessons")
    assert TEXT in overview
    assert "Of another run" not in overview
