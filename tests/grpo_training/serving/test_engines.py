"""The choice of the engine and its command line."""

import json
from pathlib import Path

import pytest

from engine.errors import ConfigurationError
from grpo_training.serving import engines
from grpo_training.serving.engines import VLLM, choose_engine


def test_missing_packages_are_named(monkeypatch):
    monkeypatch.setattr(engines.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(engines.shutil, "which", lambda *_, **__: None)
    with pytest.raises(ConfigurationError, match=r"Not installed: torch, transformers.*\n.*\[local\]"):
        choose_engine("transformers")
    with pytest.raises(ConfigurationError, match="vLLM is not installed"):
        choose_engine("vllm")


def test_auto_is_vllm_only_with_a_gpu(monkeypatch):
    monkeypatch.setattr(engines.importlib.util, "find_spec", lambda name: object())
    installed = {"vllm"}
    monkeypatch.setattr(engines.shutil, "which", lambda name, **_: name if name in installed else None)
    assert choose_engine().name == "transformers"
    installed.add("nvidia-smi")
    assert choose_engine().name == "vllm"


@pytest.mark.parametrize(("rank", "max_rank"), [(4, "8"), (16, "16"), (20, "32")])  # below, at and between sizes
def test_vllm_gets_the_rank_and_the_name_of_an_adapter(tmp_path, rank, max_rank):
    adapter = tmp_path / "lora-0123456789"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text(json.dumps({"r": rank}))
    command = VLLM.command(Path("model"), adapter, 8000)
    assert command[command.index("--max-lora-rank") + 1] == max_rank
    assert command[-1] == f"lora-0123456789={adapter}"
    assert VLLM.model_name(Path("model"), adapter) == "lora-0123456789"
