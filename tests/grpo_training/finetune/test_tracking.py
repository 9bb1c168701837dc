import io
import json
import sys
from types import SimpleNamespace

import pytest
from grpo_training.finetune.tracking import RunLog, TrainingProgress, open_tracker

from engine.errors import ConfigurationError, InputError


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


def test_each_line_is_json_and_there_at_once(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with RunLog(path) as log:
        log.write(1, {"stage": "late", "loss": 0.5, "kl": float("nan"), "beta": float("inf")})
        assert read(path) == [{"step": 1, "stage": "late", "loss": 0.5, "kl": None, "beta": None}]


def test_a_resumed_run_writes_each_step_once(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "loss": 1}\n{"step": 2, "loss": 2}\nnoise\n{"step": 3, "loss": 3}\n{"step": 4, "lo')
    with RunLog(path, resume_step=2) as log:
        log.write(3, {"loss": 30})
    assert [(line["step"], line["loss"]) for line in read(path)] == [(1, 1), (2, 2), (3, 30)]
    with RunLog(path):
        pass
    assert path.read_text() == ""


def test_a_tracker_gets_the_finite_numbers_and_its_end(tmp_path):
    tracker = Tracker()
    with RunLog(tmp_path / "metrics.jsonl", tracker=tracker) as log:
        log.write(3, {"stage": "late", "loss": 0.5, "kl": float("nan"), "num_tokens": 7})
    assert tracker.logged == [(3, {"loss": 0.5, "num_tokens": 7.0})]
    assert tracker.finished == 1


def test_a_tracker_that_fails_is_told_once_and_stops_nothing(tmp_path):
    said = []
    with RunLog(tmp_path / "metrics.jsonl", tracker=Tracker(fails=True), warn=said.append) as log:
        for step in (1, 2, 3):
            log.write(step, {"loss": 0.1})
    assert len(said) == 1
    assert "ConnectionError: gone" in said[0]
    assert len(read(tmp_path / "metrics.jsonl")) == 3


@pytest.mark.parametrize("name", ["trackio", "wandb", "mlflow"])
def test_a_tracker_that_is_not_installed_is_said_before_the_training(tmp_path, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigurationError, match=f"{name} is not installed") as raised:
        open_tracker(name, tmp_path, project="p", run_name="r", config={})
    assert f"pip install {name}" in raised.value.fix


def test_a_tracker_that_does_not_start_is_said_too(tmp_path, monkeypatch):
    def init(**_):
        raise PermissionError("not logged in")

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    with pytest.raises(ConfigurationError, match="wandb does not start") as raised:
        open_tracker("wandb", tmp_path, project="p", run_name="r", config={})
    assert "not logged in" in raised.value.why


def test_no_tracker_and_an_unknown_one(tmp_path):
    assert open_tracker("none", tmp_path, project="p", run_name="r", config={}) is None
    with pytest.raises(InputError, match="Unknown tracker 'comet'"):
        open_tracker("comet", tmp_path, project="p", run_name="r", config={})


@pytest.mark.parametrize("name", ["trackio", "wandb"])
def test_trackio_and_wandb_are_spoken_to_in_their_own_words(tmp_path, monkeypatch, name):
    calls = []
    module = SimpleNamespace(
        init=lambda **given: calls.append(("init", given)),
        log=lambda metrics, step: calls.append(("log", metrics, step)),
        finish=lambda: calls.append(("finish",)),
    )
    monkeypatch.setitem(sys.modules, name, module)
    tracker = open_tracker(name, tmp_path, project="p", run_name="r", config={"beta": 0.1})
    tracker.log({"loss": 1.0}, 4)
    tracker.finish()
    assert calls == [
        ("init", {"project": "p", "name": "r", "config": {"beta": 0.1}}),
        ("log", {"loss": 1.0}, 4),
        ("finish",),
    ]


def test_mlflow_is_spoken_to_in_its_own_words(tmp_path, monkeypatch):
    calls = []
    names = ("set_experiment", "start_run", "log_params", "log_metrics", "end_run")
    module = SimpleNamespace(
        **{name: lambda *given, _name=name, **named: calls.append((_name, given, named)) for name in names}
    )
    monkeypatch.setitem(sys.modules, "mlflow", module)
    tracker = open_tracker("mlflow", tmp_path, project="p", run_name="r", config={"beta": 0.1})
    tracker.log({"loss": 1.0}, 4)
    tracker.finish()
    assert calls == [
        ("set_experiment", ("p",), {}),
        ("start_run", (), {"run_name": "r"}),
        ("log_params", ({"beta": "0.1"},), {}),
        ("log_metrics", ({"loss": 1.0},), {"step": 4}),
        ("end_run", (), {}),
    ]


FIGURES = {
    "loss": -0.01234,
    "reward": 0.5,
    "kl": 0.0321,
    "beta": 0.05,
    "clip_ratio/region_mean": 0.125,
    "tokens_per_s": 12345.6,
    "grad_norm": 1.0,
}


def test_plain_lines_where_there_is_no_terminal():
    stream, times = io.StringIO(), iter([0.0, 10.0, 20.0, 20.0])
    with TrainingProgress(62, stream=stream, clock=lambda: next(times)) as progress:
        progress.note("going on \x1b[2J")
        progress.step_done(1, "late", FIGURES)
    shown = stream.getvalue()
    assert "going on \\x1b[2J\n" in shown
    assert (
        "late 1/62  loss -0.0123  reward 0.500  kl 0.0321  beta 0.05  clipped 12.5%  tokens/s 12,346  left 20:20\n"
        in shown
    )


def test_a_live_bar_on_a_terminal():
    stream = io.StringIO()
    with TrainingProgress(3, done=1, stream=stream, live=True) as progress:
        progress.step_done(2, "early", FIGURES | {"kl": float("nan")})
        progress.note("[/x] a note")
    shown = stream.getvalue()
    assert "[/x] a note" in shown
    assert "2/3" in shown
    assert "early" in shown
    assert "loss -0.0123  reward 0.500  beta 0.05" in shown
