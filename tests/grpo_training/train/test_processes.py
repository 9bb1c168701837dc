import types

import pytest

torch = pytest.importorskip("torch")
accelerate = pytest.importorskip("accelerate")

from engine.errors import ConfigurationError  # noqa: E402
from grpo_training.train.processes import exit_code_of_the_first, join_processes, local_share  # noqa: E402


def test_one_process_joins_nobody_and_tells_itself(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.setattr(accelerate, "PartialState", None)
    join_processes()
    assert exit_code_of_the_first(3) == 3


@pytest.mark.parametrize("name", ["FSDP", "DeepSpeed"])
def test_a_model_that_accelerate_would_divide_is_refused(monkeypatch, name):
    monkeypatch.setenv(f"ACCELERATE_USE_{name.upper()}", "true")
    with pytest.raises(ConfigurationError, match=f"{name} is not supported"):
        join_processes()


@pytest.mark.parametrize(("number", "parts"), [(1, 3), (2, 4), (2, 5), (3, 1)])
def test_every_process_computes_as_many_parts_and_each_part_counts_once(number, parts):
    shares = [
        local_share(list(range(parts)), types.SimpleNamespace(num_processes=number, process_index=process))
        for process in range(number)
    ]
    assert len({len(share) for share in shares}) == 1
    assert sorted(part for share in shares for part, counts in share if counts) == list(range(parts))


def test_no_parts_are_no_work():
    assert local_share([], types.SimpleNamespace(num_processes=2, process_index=0)) == []
