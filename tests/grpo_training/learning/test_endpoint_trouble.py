"""What a learner shows while its endpoint does not answer."""

import functools
import io
import json

import pytest

from engine.errors import ConfigurationError, FatalEndpointError
from grpo_training import generator1
from grpo_training.cli import progress
from tests.support.fault_server import FaultPlan, chat_app, serve_in_thread
from tests.support.llm_client import refusing_url


@pytest.mark.parametrize("live", [False, True])
def test_a_learner_says_what_it_waits_for_and_gives_up(tmp_path, capsys, monkeypatch, live):
    """In lines, also above the bar of a terminal."""
    terminal = io.StringIO()
    if live:
        terminal.isatty = lambda: True
        shown = functools.partial(progress.Progress, stream=terminal)
        monkeypatch.setattr("grpo_training.learning.run.Progress", shown)
    problems, config = tmp_path / "p.jsonl", tmp_path / "api.json"
    row = {"problem_id": "p1", "problem": "What is 1 + 1?", "answer": "2"}
    problems.write_text(json.dumps(row) + "\n", encoding="utf-8")
    with refusing_url() as url:
        config.write_text(json.dumps({"generator_1": {"api_key": "EMPTY", "base_url": url, "model": "m"}}))
        folders = ["--cache-dir", str(tmp_path / "cache"), "--experiences-dir", str(tmp_path / "experiences")]
        with pytest.raises(FatalEndpointError, match=f"generator_1: cannot reach {url}"):
            generator1.main(
                ["--api-config", str(config), *folders, "--dataset", str(problems), "--connect-minutes", "0.05"]
            )
    line = f"cannot reach {url}: connection refused; is the server running? (trying again)"
    assert line in (terminal.getvalue() if live else capsys.readouterr().out)
    assert not (tmp_path / "cache/generator_1_rollouts.jsonl").exists()


def test_a_learner_says_that_many_replies_are_cut_off(tmp_path, capsys):
    faults = FaultPlan(seed=1, rate=1.0, kinds=["length"], max_consecutive_per_request=99)
    with serve_in_thread(chat_app(faults=faults)) as url:
        assert (
            generator1.main(
                [
                    *("--base-url", url, "--model", "m", "--dataset", "quickstart", "--max-problems", "8"),
                    *("--cache-dir", str(tmp_path / "cache"), "--experiences-dir", str(tmp_path / "experiences")),
                    *("--max-tokens", "50", "--rollouts", "3"),
                ]
            )
            == 0
        )
    shown = capsys.readouterr().out
    assert shown.count("replies cannot be used whole") == 1
    assert "20 of 20 replies cannot be used whole: 20 were cut off at --max-tokens 50, 20 could not be read" in shown
    assert "try --prompts compact or a larger --max-tokens" in shown


@pytest.mark.parametrize("role", ["generator_1", "analyst", "reward_evaluator"])
def test_a_placeholder_of_a_role_that_a_learner_asks_is_refused_before_anything_is_asked(tmp_path, role):
    app, config = chat_app(), tmp_path / "api.json"
    with serve_in_thread(app) as url:
        entry = {"api_key": "EMPTY", "base_url": url, "model": "m"}
        config.write_text(json.dumps({"generator_1": entry, role: {**entry, "api_key": "YOUR_KEY_HERE"}}))
        folders = ["--cache-dir", str(tmp_path / "cache"), "--experiences-dir", str(tmp_path / "experiences")]
        with pytest.raises(ConfigurationError, match=f"The API key of {role} is still a placeholder"):
            generator1.main(["--api-config", str(config), *folders, "--dataset", "quickstart"])
    assert app["seen"] == []
    assert not (tmp_path / "cache").exists()
