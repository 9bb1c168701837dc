"""What a learner shows while its endpoint does not answer."""

import functools
import io
import json

import pytest

from engine.errors import FatalEndpointError
from grpo_training import generator1
from grpo_training.cli import progress
from tests.support.llm_client import refusing_url


@pytest.mark.parametrize("live", [False, True])
def test_a_learner_says_what_it_waits_for_and_gives_up(tmp_path, capsys, monkeypatch, live):
    """In lines, also above the footer of a terminal."""
    terminal = io.StringIO()
    if live:
        monkeypatch.setenv("COLUMNS", "200")
        shown = functools.partial(progress.Progress, stream=terminal, live=True)
        monkeypatch.setattr("grpo_training.learning.learner.Progress", shown)
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
