import types

import pytest

pytest.importorskip("torch")
accelerate = pytest.importorskip("accelerate")

from engine.errors import ConfigurationError  # noqa: E402
from grpo_training.finetune.processes import join_processes, told_by_the_first  # noqa: E402


def test_one_process_joins_nobody_and_tells_itself(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.setattr(accelerate, "PartialState", None)
    join_processes()
    assert told_by_the_first(3) == 3


def test_processes_that_do_not_form_one_group_are_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(accelerate, "PartialState", lambda cpu: types.SimpleNamespace(num_processes=1))
    with pytest.raises(ConfigurationError, match="2 processes were started, but 1 form a group"):
        join_processes()
