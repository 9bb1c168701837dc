"""Experiment trackers get the figures of a run; stand-ins have the calls that the packages document."""

import sys
from types import SimpleNamespace

import pytest
from pydantic import BaseModel

from engine.errors import ConfigurationError
from grpo_training.runs.trackers import PROJECT, open_trackers


class Seed(BaseModel):
    """Settings of a run."""

    seed: int = 1


FIGURES = {"loss": 0.5, "stage": "grpo", "kl": float("nan"), "right": 3, "done": True}
SENT = {"loss": 0.5, "right": 3}


class Calls(list):
    """Keeps each call with its arguments."""

    def __getattr__(self, name):
        return lambda *args, **kwargs: self.append((name, args, kwargs))


@pytest.fixture
def calls(monkeypatch):
    """Stand-ins of the packages."""
    calls = Calls()
    run = SimpleNamespace(log=calls.log, finish=calls.finish)
    wandb = SimpleNamespace(init=lambda **arguments: (calls.append(("init", (), arguments)), run)[1])
    for name, module in {"wandb": wandb, "mlflow": calls, "trackio": calls}.items():
        monkeypatch.setitem(sys.modules, name, module)
    return calls


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "wandb",
            [
                ("init", (), {"project": PROJECT, "name": "mails", "config": {"seed": 1}}),
                ("log", (SENT,), {"step": 7}),
                ("finish", (), {}),
            ],
        ),
        (
            "trackio",
            [
                ("init", (), {"project": PROJECT, "name": "mails", "config": {"seed": 1}}),
                ("log", (SENT,), {"step": 7}),
                ("finish", (), {}),
            ],
        ),
        (
            "mlflow",
            [
                ("set_experiment", (PROJECT,), {}),
                ("start_run", (), {"run_name": "mails"}),
                ("log_params", ({"seed": "1"},), {}),
                ("log_metrics", (SENT,), {"step": 7}),
                ("end_run", (), {}),
            ],
        ),
    ],
)
def test_each_tracker_gets_the_finite_numbers(calls, name, expected):
    with open_trackers([name], "mails", Seed()) as trackers:
        trackers.log(FIGURES, 7)
    assert calls == expected


def test_a_tracker_that_fails_ends_no_run_and_gets_no_more(calls, caplog):
    with open_trackers(["mlflow", "trackio"], "mails", Seed()) as trackers:
        sys.modules["mlflow"] = None
        trackers._open["mlflow"] = SimpleNamespace()  # has no log_metrics any more
        trackers.log(FIGURES, 1)
        trackers.log(FIGURES, 2)
    assert [name for name, *_ in calls].count("log") == 2
    assert caplog.text.count("mlflow gets no more figures") == 1


def test_a_package_that_is_missing_is_named_before_the_run(monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ConfigurationError, match="wandb is not installed") as refused:
        open_trackers(["wandb"], "mails", Seed()).__enter__()
    assert "pip install wandb" in refused.value.fix
