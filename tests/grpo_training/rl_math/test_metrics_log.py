import json
from contextlib import closing

import pytest

pytest.importorskip("accelerate")

from grpo_training.rl_math.metrics_log import MetricsLog
from tests.support.full_disk import largest_file


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_line_is_json_and_written_at_once(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with closing(MetricsLog(path)) as log:
        log.write(1, {"stage": "late", "loss": 0.5, "kl": float("nan"), "beta": float("inf")})
        assert read(path) == [{"step": 1, "stage": "late", "loss": 0.5, "kl": None, "beta": None}]


def test_a_resumed_run_writes_each_step_once(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "loss": 1}\n{"step": 2, "loss": 2}\nnoise\n{"step": 3, "loss": 3}\n{"step": 4, "lo')
    with closing(MetricsLog(path, resume_step=2)) as log:
        log.write(3, {"loss": 30})
    assert [(line["step"], line["loss"]) for line in read(path)] == [(1, 1), (2, 2), (3, 30)]
    with closing(MetricsLog(path)):
        pass
    assert path.read_text() == ""


def test_a_full_disk_names_the_file(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with largest_file(60), pytest.raises(OSError, match="File too large") as caught, closing(MetricsLog(path)) as log:
        log.write(0, {"loss": "x" * 99})
    assert caught.value.filename == str(path)
    with closing(MetricsLog(path, resume_step=1)) as log:
        log.write(2, {"loss": 0.5})
    assert [line["step"] for line in read(path)] == [2]
