import json

import pytest

pytest.importorskip("accelerate")

from grpo_training.training.metrics_log import MetricsLog
from tests.support.full_disk import largest_file


class Tracker:
    def __init__(self, fails=False):
        self.logged, self.finished, self._fails = [], 0, fails

    def log(self, metrics, step):
        if self._fails:
            raise ConnectionError("gone")
        self.logged.append((step, dict(metrics)))

    def finish(self):
        self.finished += 1


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_line_is_json_and_written_at_once(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with MetricsLog(path) as log:
        log.write(1, {"stage": "late", "loss": 0.5, "kl": float("nan"), "beta": float("inf")})
        assert read(path) == [{"step": 1, "stage": "late", "loss": 0.5, "kl": None, "beta": None}]


def test_a_resumed_run_writes_each_step_once(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "loss": 1}\n{"step": 2, "loss": 2}\nnoise\n{"step": 3, "loss": 3}\n{"step": 4, "lo')
    with MetricsLog(path, resume_step=2) as log:
        log.write(3, {"loss": 30})
    assert [(line["step"], line["loss"]) for line in read(path)] == [(1, 1), (2, 2), (3, 30)]
    with MetricsLog(path):
        pass
    assert path.read_text() == ""


def test_a_tracker_gets_the_finite_numbers_and_is_finished(tmp_path):
    tracker = Tracker()
    with MetricsLog(tmp_path / "metrics.jsonl", tracker=tracker) as log:
        log.write(3, {"stage": "late", "loss": 0.5, "kl": float("nan"), "num_tokens": 7})
    assert tracker.logged == [(3, {"loss": 0.5, "num_tokens": 7.0})]
    assert tracker.finished == 1


def test_a_tracker_that_fails_is_reported_once_and_stops_nothing(tmp_path):
    warnings = []
    with MetricsLog(tmp_path / "metrics.jsonl", tracker=Tracker(fails=True), warn=warnings.append) as log:
        for step in (1, 2, 3):
            log.write(step, {"loss": 0.1})
    assert len(warnings) == 1
    assert "ConnectionError: gone" in warnings[0]
    assert len(read(tmp_path / "metrics.jsonl")) == 3


def test_a_full_disk_names_the_file(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with largest_file(60), pytest.raises(OSError, match="File too large") as caught, MetricsLog(path) as log:
        log.write(0, {"loss": "x" * 99})
    assert caught.value.filename == str(path)
    with MetricsLog(path, resume_step=1) as log:
        log.write(2, {"loss": 0.5})
    assert [line["step"] for line in read(path)] == [2]
