"""An exported environment, run by the evaluation command of verifiers."""

import json
import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.support.fault_server import chat_app, serve_in_thread

pytest.importorskip("verifiers.v1", reason="the package verifiers is not installed")


def test_verifiers_asks_scores_and_keeps_what_was_not_measured_apart(exported, tmp_path):
    folder = exported("verifiers", tmp_path / "add_numbers")

    def reply(body, sample):
        text = "\n".join(message["content"] for message in body["messages"])
        assert [message["role"] for message in body["messages"]] == ["system", "user"]
        return "<think>...</think><answer>3</answer>" if "Add 1 and 2." in text else "<answer>crash</answer>"

    with serve_in_thread(chat_app(reply)) as base_url:
        subprocess.run(
            [
                *(sys.executable, "-c", "from verifiers.v1.cli.eval.main import main; main()", "add-numbers"),
                *("--model", "m", "--client.base-url", base_url, "--client.api-key-var", "NO_KEY", "--no-push"),
                *("--no-rich", "-r", "2", "--run.name", "run", "--output-dir", str(tmp_path / "out")),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": f"{folder}:{ROOT}", "NO_KEY": "EMPTY"},
            timeout=100,
        )
    lines = (tmp_path / "out/run/traces.jsonl").read_text().splitlines()
    traces = [trace for line in lines for trace in json.loads(line).get("traces", [json.loads(line)])]
    by_problem = {}
    for trace in traces:
        by_problem.setdefault(trace["task"]["data"]["problem"]["id"], []).append(trace)
    assert {name: len(found) for name, found in by_problem.items()} == {"one": 2, "two": 2}
    for trace in by_problem["one"]:
        assert trace["ok"]
        assert trace["rewards"]["reward"]["score"] == 1.0
        assert trace["metrics"] == {"exact": 1.0, "short": 1.0, "is_correct": 1.0}
    for trace in by_problem["two"]:
        assert not trace["ok"]
        assert "no checker" in trace["errors"][-1]["message"]
        assert trace["rewards"].get("reward") is None
