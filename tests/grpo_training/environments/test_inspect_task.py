"""An exported task, run by inspect_ai against a server of scripted replies."""

import pytest

from tests.support.fault_server import chat_app, serve_in_thread

inspect_ai = pytest.importorskip("inspect_ai", reason="the package inspect_ai is not installed")


def evaluated(folder, logs, replies):
    """The log of an evaluation whose model answers each problem by its text; tolerates errors of samples."""
    from inspect_ai.model import get_model

    from grpo_training.environments.inspect_task import problem_task

    def reply(body, sample):
        assert [message["role"] for message in body["messages"]] == ["system", "user"]
        return next(answer for text, answer in replies.items() if text in body["messages"][1]["content"])

    with serve_in_thread(chat_app(reply)) as base_url:
        model = get_model("openai-api/local/m", base_url=base_url, api_key="EMPTY")
        [log] = inspect_ai.eval(
            problem_task(folder), model=model, log_dir=str(logs), display="none", fail_on_error=False
        )
    return log


def test_inspect_asks_and_scores_as_the_task_does(exported, tmp_path):
    replies = {"Add 1 and 2.": "<think>...</think><answer>3</answer>", "Add 3 and 4.": "<answer>eight</answer>"}
    log = evaluated(exported("inspect-task", tmp_path / "add"), tmp_path / "logs", replies)
    assert log.status == "success"
    stored = inspect_ai.log.read_eval_log(log.location)
    assert {one.id: one.scores["task_reward"].value for one in stored.samples} == {
        "one": {"r_total": 1.0, "exact": 1.0, "short": 1.0, "is_correct": 1.0},
        "two": {"r_total": 0.25, "exact": 0.0, "short": 0.5, "is_correct": 0.0},
    }
    means = {score.name: score.metrics["mean"].value for score in stored.results.scores}
    assert means == {"r_total": 0.625, "exact": 0.5, "short": 0.75, "is_correct": 0.5}


def test_a_reply_that_was_not_measured_is_an_error_and_no_score(exported, tmp_path):
    folder = exported("inspect-task", tmp_path / "add", "--max-problems", "1")
    [sample] = evaluated(folder, tmp_path / "logs", {"Add 1": "<answer>crash</answer>"}).samples
    assert "no checker" in sample.error.message
    assert not sample.scores
