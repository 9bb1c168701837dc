"""A run's lifecycle: begin, continue, resume, refuse, set aside, finish."""

import json
from typing import ClassVar, Literal

import pytest
from pydantic import ValidationError

from engine.errors import InputError, LockHeldError
from engine.storage.append_log import AppendLog
from grpo_training.runs.run import Run, load_manifest, stamp_of
from grpo_training.runs.settings import ResumableSettings

FACTS = {"model": "m"}


class ProbeSettings(ResumableSettings):
    fingerprinted: ClassVar = ("tau", "mode")

    tau: float = 0.05
    mode: Literal["a", "b"] = "a"
    stream: str = "out"


@pytest.fixture
def results(tmp_path):
    return tmp_path / "results.jsonl"


def run_of(results):
    return Run(results.with_name("probe_run.json"), [results], lock=AppendLog(results))


def start(results, *, facts=FACTS, finish=False, **settings):
    """One start of a command that appends a line; the manifest it was given."""
    run = run_of(results)
    with run.open(run.resumed(ProbeSettings(**settings)), facts) as manifest:
        with results.open("a") as stream:
            stream.write("{}\n")
        if finish:
            manifest.finish()
    return manifest


def stored(results):
    return json.loads(results.with_name("probe_run.json").read_text())


def test_the_same_command_continues_the_run(results):
    first = start(results, finish=True)
    assert stored(results) == {
        "run": first.run,
        "finished": True,
        "configuration": {"settings": {"tau": 0.05, "mode": "a"}, "facts": FACTS},
    }
    second = start(results, stream="elsewhere")
    assert (second.run, second.finished) == (first.run, True)
    assert stored(results)["finished"] is False
    assert results.read_text() == "{}\n{}\n"


def test_a_report_holds_until_an_input_or_a_file_changes(results):
    path, report = results.with_name("probe_run.json"), {"table": ["right", 3]}
    start(results)
    before = stamp_of(["p1"], [results])
    load_manifest(path).finish(report, before)
    assert load_manifest(path).report_of(before) == report
    assert load_manifest(path).report_of(stamp_of(["p1", "p2"], [results])) is None
    results.write_bytes(results.read_bytes())  # the same content, written again
    assert load_manifest(path).report_of(stamp_of(["p1"], [results])) is None
    start(results)  # goes on
    assert load_manifest(path).report_of(before) is None
    start(results, finish=True)  # without a report
    assert load_manifest(path).report_of("") is None


@pytest.mark.parametrize(
    ("given", "why", "fix"),
    [
        ({"tau": 0.1}, "tau: stored 0.05, given 0.1", "Pass --resume to .*, --fresh"),
        (
            {"facts": {"model": "n", "prompt_hash": "p"}},
            "model: stored m, given n; prompt_hash \\(the prompts\\): stored nothing",
            "Pass --fresh",
        ),
        (
            {"facts": {"model": "m", "samples": "0123456789abcdef"}},
            r"samples \(the replies to train on\): stored nothing, given 0123456789abcdef",
            "Pass --fresh",
        ),
        (
            {"facts": {"model": "m", "analyst": "n"}},
            "analyst: stored nothing, given n\n",
            "Pass --fresh",
        ),
        ({"facts": {"model": "m", "reward_evaluator": "n"}}, "reward_evaluator: stored nothing, given n", "--fresh"),
    ],
    ids=["setting", "fact", "digest", "analyst", "judge"],
)
def test_results_of_another_configuration_are_refused(results, given, why, fix):
    before = start(results)
    with pytest.raises(InputError, match=f"{why}(.|\n)*{fix}"):
        start(results, **given)
    assert stored(results)["run"] == before.run
    assert results.read_text() == "{}\n"


def test_resume_restores_the_settings_but_not_the_facts(results):
    first = start(results, tau=0.2)
    assert start(results, tau=0.1, resume=True).run == first.run
    with pytest.raises(InputError, match="model: stored m, given n\nPass --fresh"):
        start(results, facts={"model": "n"}, resume=True)


def test_fresh_renames_everything_to_the_first_free_number(results):
    first = start(results)
    results.with_name("results.jsonl.old1").write_text("taken")
    second = start(results, tau=0.1, fresh=True)
    assert second.run != first.run
    assert results.read_text() == "{}\n"
    assert results.with_name("results.jsonl.old1").read_text() == "taken"
    assert results.with_name("results.jsonl.old2").read_text() == "{}\n"
    assert load_manifest(results.with_name("probe_run.json.old2")).run == first.run


def test_results_without_a_manifest_need_resume(results):
    results.write_text("{}\n")
    with pytest.raises(InputError, match="unknown configuration"):
        start(results)
    assert start(results, resume=True).run == stored(results)["run"]


def test_resume_without_anything_stored_is_refused(results):
    with pytest.raises(InputError, match=r"No run to resume in .*\n.*no probe_run.json.*no results(.|\n)*--resume"):
        start(results, resume=True)
    assert list(results.parent.iterdir()) == []


def test_a_run_that_stopped_before_its_first_result_is_resumed_with_its_settings(results):
    start(results, tau=0.2)
    results.unlink()
    assert run_of(results).resumed(ProbeSettings(resume=True)).tau == 0.2


def test_a_manifest_without_results_may_be_replaced(results):
    first = start(results)
    results.unlink()
    assert start(results, tau=0.3).run != first.run


@pytest.mark.parametrize(
    "content",
    [
        *("{", "[]", "null", "\x00", "[" * 100_000, "9" * 5000, '{"run": "r"}'),
        '{"run": 1, "finished": 0, "configuration": 3}',
        '{"run": "r", "finished": false, "configuration": {"settings": 5, "facts": {}}}',
        '{"run": "r", "finished": false, "configuration": {"settings": {}, "facts": ["a"]}}',
        '{"run": "r", "finished": false, "configuration": {"settings": null}}',
    ],
)
def test_a_damaged_manifest_is_refused_until_fresh(results, content):
    results.with_name("probe_run.json").write_text(content)
    with pytest.raises(InputError, match="Cannot read .*probe_run.json(.|\n)*--fresh"):
        start(results)
    assert start(results, fresh=True).finished is False


def test_stored_settings_that_are_not_valid_now_are_refused(results):
    start(results)
    manifest = stored(results)
    manifest["configuration"]["settings"]["mode"] = "c"
    results.with_name("probe_run.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match="stored settings are not valid(.|\n)*mode"):
        start(results, resume=True)


def test_one_process_writes(results):
    with AppendLog(results).hold():
        for fresh in (False, True):
            with pytest.raises(LockHeldError):
                start(results, fresh=fresh)
    assert not results.with_name("probe_run.json").exists()


def test_resume_and_fresh_exclude_each_other():
    with pytest.raises(ValidationError, match="exclude each other"):
        ProbeSettings(resume=True, fresh=True)
