"""The scorer of an optional package: it is imported once per process, and a process that is late is replaced."""

import pytest

from engine.records import Outcome
from engine.sandbox.worker import KillablePool, WorkResult
from engine.tasks import package_scorer
from engine.tasks.package_scorer import PackageScorer, json_or_text
from tests.support.table import table


@pytest.fixture
def scorer(monkeypatch):
    pool = KillablePool(size=1, packages=("tests.",))
    monkeypatch.setattr(package_scorer, "_pool", lambda: pool)
    yield PackageScorer("tests.support.package_jobs")
    pool.close()


def test_the_package_is_imported_once(scorer):
    for answer in ("0.25", "1"):
        result = scorer.score({"answer": answer}, 60.0, load_argument="path")
        assert result == WorkResult(Outcome.OK, {"score": float(answer), "loaded": ["path"]})


def test_a_scorer_may_wait_for_longer_than_its_processor_time(scorer):
    assert scorer.score({"answer": "wait"}, 0.5).value == {"score": 1.0, "loaded": [None]}


def test_an_answer_that_hangs_or_raises_was_scored(scorer):
    assert scorer.score({"answer": "no number"}, 60.0).outcome is Outcome.MODEL_FAULT
    assert scorer.score({"answer": "hang"}, 0.5).outcome is Outcome.VERIFIER_TIMEOUT
    assert scorer.score({"answer": "0.5"}, 60.0, load_argument="again").value["loaded"] == ["again"]


def test_a_package_that_cannot_be_imported_says_nothing_about_the_answer(scorer):
    result = scorer.score({"answer": "1"}, 60.0, load_argument="broken")
    assert result.outcome is Outcome.INFRA_FAULT
    assert "no such package" in result.error


def test_a_process_that_does_not_start_says_nothing_about_the_answer(scorer, monkeypatch):
    not_started = WorkResult(Outcome.INFRA_FAULT, error="the worker did not start")
    monkeypatch.setattr(KillablePool, "run", lambda *_, **__: not_started)
    assert scorer.score({"answer": "1"}, 60.0).outcome is Outcome.INFRA_FAULT


@table("text, value", [("3", 3), ('{"a": [1]}', {"a": [1]}), ("true", True), ("test", "test"), ("", "")])
def test_a_setting_is_a_json_value_or_a_text(text, value):
    assert json_or_text(text) == value
