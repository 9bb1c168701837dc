import importlib.metadata
import io
import json
import shutil
import time
import types

import pytest
from aiohttp import web
from packaging.requirements import Requirement

from engine.errors import InputError
from engine.installation_checks import CheckLevel, failed, failure_of, passed, skipped, warned
from engine.storage.installation import install_command
from engine.tasks.code import checks as code_checks
from grpo_training.cli.check_report import CheckReport
from grpo_training.doctor import __main__ as doctor
from grpo_training.doctor import endpoints, environment, files, models, run
from grpo_training.doctor.settings import DoctorSettings
from grpo_training.serve.engines import TRANSFORMERS
from tests.support.fault_server import chat_app, serve_in_thread

SECRET = "sk-test-0123456789abcdef"
SOLUTION = "def sum_of_even(numbers):\n    return sum(n for n in numbers if n % 2 == 0)"


def levels(results):
    return [result.level for result in results]


def config(folder, **roles):
    path = folder / "api_config.json"
    path.write_text(json.dumps(roles))
    path.chmod(0o600)
    return path


def entry(url="http://127.0.0.1:9/v1", **fields):
    return {"api_key": SECRET, "base_url": url, "model": "m", "timeout_s": 5, **fields}


def test_lines_totals_and_fixes():
    stream = io.StringIO()
    report = CheckReport(stream)
    report.section("Things")
    for result in (passed("a"), passed("b"), failed("c", "mend c"), warned("d", "get d"), skipped("e")):
        report.add(result)
    report.totals()
    assert report.failures == 1
    assert stream.getvalue().splitlines() == [
        "",
        "Things",
        "✓ PASS a",
        "✓ PASS b",
        "✗ FAIL c",
        "       mend c",
        "⚠ WARN d",
        "       get d",
        "- SKIP e",
        "",
        "=" * 70,
        "Tests:    3",
        "Passed:   2",
        "Failed:   1",
        "Warnings: 1",
        "Skipped:  1",
        "",
    ]


def test_what_a_server_wrote_cannot_write_to_the_terminal():
    stream = io.StringIO()
    CheckReport(stream).add(failed("\x1b[2Jgone", "no"))
    assert "\x1b" not in stream.getvalue()


def test_the_reason_of_a_failure_is_one_line():
    error = InputError("It did not come up", why="first line\n  second line\n")
    assert failure_of(error).text == "It did not come up (first line second line)"


def broken_checks(*failures):
    return [(f"check {count}", lambda count=count: [failed("bad", "mend")] * count) for count in failures]


@pytest.mark.parametrize(("failures", "code"), [((0, 0), 0), ((1, 2), 3), ((100, 100), 125)])
def test_the_exit_code_is_the_number_of_failures(monkeypatch, capsys, failures, code):
    monkeypatch.setattr(run, "checks", lambda settings: broken_checks(*failures))
    assert doctor.main([]) == code
    assert ("All checks passed." in capsys.readouterr().out) is (code == 0)


def test_a_check_that_breaks_is_a_failure_and_the_others_are_made(monkeypatch, capsys):
    def breaks():
        yield passed("so far")
        raise ZeroDivisionError("oh")

    def refuses():
        raise InputError("the file is wrong", why="line 3", fix="mend line 3")

    monkeypatch.setattr(
        run, "checks", lambda settings: [("1", breaks), ("2", refuses), ("3", lambda: [passed("still made")])]
    )
    assert doctor.main([]) == 2
    shown = capsys.readouterr().out
    assert "✓ PASS so far" in shown
    assert "✗ FAIL the check itself failed: ZeroDivisionError: oh" in shown
    assert "✗ FAIL the file is wrong (line 3)\n       mend line 3" in shown
    assert "✓ PASS still made" in shown


def test_the_offline_doctor_finds_this_checkout_well(tmp_path, capsys):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    start = time.process_time()
    code = doctor.main(["--api-config", str(tmp_path / "none.json"), "--data-dir", str(tmp_path)])
    shown = capsys.readouterr().out
    assert code == 0, shown
    assert time.process_time() - start < 20
    for line in (
        "✓ PASS code: the right reply has r_ans 1.0 (status: ok; passed: 5; total: 5)",
        "✓ PASS code: the wrong reply has r_ans 0.0 (status: ok; passed: 2; total: 5)",
        "✓ PASS a connection to this machine",
        "labels are the reply, without the prompt and without padding",
        "Failed:   0",
    ):
        assert line in shown
    assert "no API configuration" in shown


@pytest.mark.parametrize(
    ("requirement", "installed", "complaint"),
    [
        ("x>=1.9", "1.10", ""),
        ("x>=1.16,<1.17", "1.16.4", ""),
        ("x>=1.16,<1.17", "1.17", "x 1.17 is not <1.17,>=1.16"),
        ("x[extra]>=3", "2.9.9", "x 2.9.9 is not >=3"),
        ("x>=2.0", "2", ""),
        ("x>=2.13", "2.13.0+cpu", ""),
        ("x==2.0", "2.0.1", "x 2.0.1 is not ==2.0"),
        ("x", "0.1", ""),
        ("x>=1", None, "x is not installed"),
    ],
)
def test_packages(monkeypatch, requirement, installed, complaint):
    def version(name):
        assert name == "x"
        if installed is None:
            raise importlib.metadata.PackageNotFoundError
        return installed

    monkeypatch.setattr(importlib.metadata, "version", version)
    assert environment.missing_package(Requirement(requirement)) == complaint


def test_missing_packages_and_tools_say_what_to_install(monkeypatch):
    monkeypatch.setattr(environment, "missing_package", lambda requirement: f"{requirement.name} is not installed")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(environment, "strongest_level", lambda: "rlimits")
    monkeypatch.setattr(environment, "automatic_engine", lambda: (TRANSFORMERS, "why"))
    results = list(environment.environment())
    served = passed("local models are served with transformers: why")
    assert served in results
    results.remove(served)
    assert levels(results) == [CheckLevel.PASS, CheckLevel.FAIL, *[CheckLevel.WARN] * 7]
    assert [result.fix for result in results[1:3]] == [install_command(), install_command("local")]
    assert any(result.fix == "apt-get install nodejs" for result in results)


def test_keys_are_checked_and_never_shown(tmp_path, monkeypatch):
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    path = config(
        tmp_path,
        generator_1=entry(),
        generator_2=entry(api_key="YOUR_KEY_HERE"),
        generator_3={"api_key_env": "NO_SUCH_KEY", "base_url": "http://a/v1", "model": "m"},
        reward_evaluator=entry(api_key="EMPTY"),
        analyst={"base_url": "local", "model": str(tmp_path)},
    )
    by_text = {result.text: result for result in endpoints.api_config(DoctorSettings(api_config=path))}
    shown = str(by_text)
    assert SECRET not in shown
    assert by_text["generator_1: m at http://127.0.0.1:9/v1, key present"].level is CheckLevel.PASS
    assert by_text["reward_evaluator: m at http://127.0.0.1:9/v1, no key"].level is CheckLevel.PASS
    assert (
        by_text[f"The API key of generator_2 is still a placeholder (It is the text of an example ({path}).)"].level
        is CheckLevel.FAIL
    )
    [missing] = [result for text, result in by_text.items() if "'NO_SUCH_KEY' is not set" in text]
    assert missing.level is CheckLevel.FAIL
    assert "the key of generator_3" in missing.text
    assert by_text[f"analyst: the model in {tmp_path}"].level is CheckLevel.FAIL  # no model lies there
    assert by_text["critic is not configured"].level is CheckLevel.WARN
    assert not any("can be read by other users" in text for text in by_text)
    path.chmod(0o644)
    assert any(
        "can be read by other users" in result.text for result in endpoints.api_config(DoctorSettings(api_config=path))
    )


def test_a_broken_configuration_is_one_failure(tmp_path):
    path = tmp_path / "api_config.json"
    path.write_text('{"critic": ')
    [result] = run.results_of(lambda: endpoints.api_config(DoctorSettings(api_config=path)))
    assert result.level is CheckLevel.FAIL
    assert "is not valid JSON" in result.text


def test_endpoints_are_asked_once_each(tmp_path):
    app = chat_app(lambda body, index: "ready", api_key=SECRET)
    with serve_in_thread(app) as url:
        path = config(
            tmp_path, generator_1=entry(url), critic=entry(url, api_key="sk-another-0000"), analyst=entry(timeout_s=1)
        )
        first, second, third = endpoints.ask_endpoints(DoctorSettings(api_config=path))
    assert first.level is CheckLevel.PASS
    assert "generator_1: m answered in" in first.text
    assert (second.level, third.level) == (CheckLevel.FAIL, CheckLevel.FAIL)
    assert third.text.startswith("analyst: no answer: cannot reach http://127.0.0.1:9/v1: connection refused")
    assert third.fix == "Start that server, or change base_url."
    assert second.text.startswith("critic: the endpoint refused the API key")
    assert SECRET not in str((first, second, third))
    assert app["seen"][0].body["max_tokens"] == 16


@pytest.mark.parametrize(
    ("message", "finish", "tokens", "level", "said"),
    [
        ({"content": ""}, "stop", 1, CheckLevel.FAIL, "the reply is empty: no text, finish_reason stop"),
        ({"content": None}, None, 1, CheckLevel.FAIL, "the reply is empty: no text, finish_reason None"),
        ({"content": " \n"}, "stop", 0, CheckLevel.FAIL, "the reply is empty: no text, finish_reason stop"),
        ({"content": ""}, "stop", 0, CheckLevel.FAIL, "a reply that cannot be used: no text and no tokens"),
        ({"content": "", "reasoning": "ready"}, "stop", 9, CheckLevel.FAIL, "no text and 5 characters of reasoning"),
        ({"content": ""}, "content_filter", 0, CheckLevel.FAIL, "no text, finish_reason content_filter"),
        ({"content": ""}, "length", 16, CheckLevel.PASS, "the 16 tokens of the reply were used up without any text"),
        ({"content": "", "reasoning": "The user"}, "length", 16, CheckLevel.PASS, "and 8 characters of reasoning"),
    ],
)
def test_an_endpoint_whose_replies_are_empty_does_not_pass(message, finish, tokens, level, said):
    async def chat(request):
        choice = {"index": 0, "message": {"role": "assistant", **message}}
        choice |= {} if finish is None else {"finish_reason": finish}
        return web.json_response({"choices": [choice], "usage": {"prompt_tokens": 5, "completion_tokens": tokens}})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", chat)
    with serve_in_thread(app) as url:
        [result] = endpoints.ask_endpoints(DoctorSettings(base_url=url, model="m"))
    assert result.level is level
    assert said in result.text
    assert ("Check chat template, stop strings" in result.fix) is (level is CheckLevel.FAIL)


def test_labels_on_the_prompt_are_found(monkeypatch):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from grpo_training.train.data import sft_batch

    real = sft_batch.prepare_teacher_sft_batch

    def leaky(*arguments, **named):
        batch = real(*arguments, **named)
        return {**batch, "labels": batch["input_ids"]}

    assert set(levels(models.labels())) == {CheckLevel.PASS}
    monkeypatch.setattr(sft_batch, "prepare_teacher_sft_batch", leaky)
    assert set(levels(models.labels())) == {CheckLevel.FAIL}


def test_labels_without_torch_are_skipped(monkeypatch):
    monkeypatch.setattr(models.importlib.util, "find_spec", lambda name: None)
    [result] = models.labels()
    assert result.level is CheckLevel.SKIP
    assert "torch is not installed" in result.text


def test_execution_that_rewards_everything_is_found(monkeypatch):
    from engine.records import Outcome
    from engine.tasks.code import task as code
    from engine.tasks.code.testing.report import Report as Verdicts
    from engine.tasks.code.testing.report import Status

    generous = Verdicts(Outcome.OK, (Status.PASS,) * 5)
    monkeypatch.setattr(code, "run_program", lambda *arguments, **named: generous)
    assert levels(files.examples()) == [CheckLevel.PASS] * 3 + [CheckLevel.FAIL]
    down = Verdicts(Outcome.INFRA_FAULT, (), "no workers")
    monkeypatch.setattr(code, "run_program", lambda *arguments, **named: down)
    math, code_problem, right, wrong = files.examples()
    assert [result.level for result in (math, code_problem, right, wrong)] == [CheckLevel.PASS] + [CheckLevel.FAIL] * 3
    assert "no workers" in code_problem.text
    assert "no workers" in right.text


def test_a_sandbox_that_lets_attacks_through_is_found(monkeypatch):
    monkeypatch.setattr(code_checks, "_run", lambda program: "pass")
    honest, *attacks = code_checks.attacks()
    assert honest.level is CheckLevel.PASS
    assert set(levels(attacks)) == {CheckLevel.FAIL}
    assert len(attacks) == 3
    monkeypatch.setattr(code_checks, "strongest_level", lambda: "rlimits")
    weak = [result.text for result in code_checks.attacks() if result.level is CheckLevel.WARN]
    assert [text.split(":")[0] for text in weak] == ["a file of this installation", "the environment of this process"]


def test_a_sandbox_that_is_down_is_found(monkeypatch):
    monkeypatch.setattr(code_checks, "_run", lambda program: "infra_error")
    assert set(levels(code_checks.attacks())) == {CheckLevel.FAIL}


def test_prompts_of_every_style_load():
    results = list(files.prompts())
    assert set(levels(results)) == {CheckLevel.PASS}
    assert results[0].text.startswith("prompt style full")


def test_libraries_that_cannot_be_read_are_found(tmp_path):
    (tmp_path / "grpo_experiences").mkdir()
    library = tmp_path / "grpo_experiences" / "generator_1_experiences.json"
    library.write_text("[")
    [failure] = [result.text for result in files.libraries(tmp_path) if result.level is CheckLevel.FAIL]
    assert str(library) in failure
    library.write_text('[{"id": "G1-001", "content": "Count twice."}]')
    results = list(files.libraries(tmp_path))
    assert passed("generator_1_experiences.json: 1 experience") in results
    assert set(levels(results)) == {CheckLevel.PASS}


@pytest.mark.parametrize(("free", "level"), [(1 << 30, CheckLevel.WARN), (3 << 30, CheckLevel.PASS)])
def test_disk(monkeypatch, tmp_path, free, level):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: types.SimpleNamespace(free=free))
    [result] = environment.disk([tmp_path / "not" / "yet"])
    assert result.level is level


@pytest.mark.parametrize("others", [[], ["prompt-tools"]])
def test_another_project_with_a_package_of_the_same_name_is_named(monkeypatch, others):
    owners = {"prompts": ["scaffold-grpo", *others], "engine": ["scaffold-grpo"], "numpy": ["numpy"]}
    monkeypatch.setattr(importlib.metadata, "packages_distributions", lambda: owners)
    results = list(environment.names_of_packages())
    assert [result.level for result in results] == [CheckLevel.WARN] * len(others)
    assert all("prompt-tools has a package 'prompts' too" in result.text for result in results)
