"""The choice of the engine and its command line."""

import json
from pathlib import Path

import pytest

from engine.errors import ConfigurationError
from grpo_training.serve import engines, vllm_program
from grpo_training.serve.engines import TRANSFORMERS, VLLM, automatic_engine, choose_engine
from grpo_training.serve.vllm_program import find_vllm
from tests.support.vllm_environment import install_vllm, no_vllm


def test_missing_packages_are_named(monkeypatch, tmp_path):
    monkeypatch.setattr(engines.importlib.util, "find_spec", lambda name: None)
    no_vllm(monkeypatch, tmp_path)
    with pytest.raises(ConfigurationError, match=r"Not installed: torch, transformers.*\n.*\[local\]"):
        choose_engine("transformers")
    with pytest.raises(ConfigurationError, match=r"(?s)vLLM is not installed.*make vllm"):
        choose_engine("vllm")


@pytest.mark.parametrize(
    ("version", "has_gpu", "engine"),
    [
        ("0.32.0", True, "vllm"),
        ("0.32.0", False, "transformers"),
        ("0.32.0+cpu", False, "vllm"),
        ("0.32.0+cpu", True, "transformers"),
        ("", False, "transformers"),
    ],
)
def test_auto_is_vllm_where_its_build_fits_the_machine(monkeypatch, tmp_path, version, has_gpu, engine):
    monkeypatch.setattr(engines.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(engines, "has_gpu", lambda: has_gpu)
    no_vllm(monkeypatch, tmp_path)
    assert automatic_engine() == (TRANSFORMERS, "vLLM is not installed")
    program = install_vllm(tmp_path / ".venv-vllm", version)
    monkeypatch.chdir(tmp_path)
    chosen, why = automatic_engine()
    assert chosen.name == choose_engine().name == engine
    assert str(program) in why
    assert choose_engine("vllm") is VLLM


def test_vllm_of_this_environment_comes_before_venv_vllm_and_that_before_the_path(monkeypatch, tmp_path):
    no_vllm(monkeypatch, tmp_path)
    on_path = install_vllm(tmp_path / "other", "")
    monkeypatch.setenv("PATH", str(on_path.parent))
    assert find_vllm() == (str(on_path), "")
    beside = install_vllm(tmp_path / ".venv-vllm", "0.32.0+cpu")
    monkeypatch.chdir(tmp_path)
    assert find_vllm() == (str(beside), "0.32.0+cpu")
    inside = install_vllm(tmp_path / "own", "0.33.0")
    assert find_vllm() == (str(inside), "0.33.0")


@pytest.mark.parametrize(
    ("flags", "dtype"),
    [("fpu avx2 avx512f", "float32"), ("fpu avx512_bf16 x2apic", "bfloat16"), ("fpu amx_bf16", "bfloat16")],
)
def test_vllm_on_a_cpu_computes_in_bfloat16_where_the_processor_has_it(monkeypatch, tmp_path, flags, dtype):
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\nflags\t\t: {flags}\nbogomips\t: 1\n")
    monkeypatch.setattr(vllm_program, "_CPU_INFO", tmp_path / "cpuinfo")
    assert vllm_program.VllmProgram("vllm", "0.32.0+cpu").flags[:2] == ["--dtype", dtype]
    assert vllm_program.VllmProgram("vllm", "0.32.0").flags == []


def test_a_system_without_facts_about_its_processor_computes_in_float32(monkeypatch, tmp_path):
    monkeypatch.setattr(vllm_program, "_CPU_INFO", tmp_path / "missing")
    assert vllm_program.cpu_dtype() == "float32"


@pytest.mark.parametrize("place", [".venv-vllm", "own/.venv-vllm"], ids=["beside it", "in it"])
def test_an_installed_package_finds_venv_vllm_at_its_environment(monkeypatch, tmp_path, place):
    no_vllm(monkeypatch, tmp_path)
    assert find_vllm() is None
    program = install_vllm(tmp_path / place, "0.32.0")
    assert find_vllm() == (str(program), "0.32.0")


def test_the_build_for_cpus_gets_a_batch_that_holds_every_request(monkeypatch, tmp_path):
    """Other builds get no flags of ours."""
    no_vllm(monkeypatch, tmp_path)
    monkeypatch.chdir(tmp_path)
    program = install_vllm(tmp_path / ".venv-vllm", "0.32.0+cpu")
    command = VLLM.command(Path("model"), None, 8000, ["model-1"])
    assert command[:3] == [str(program), "serve", "model"]
    assert command[command.index("--max-num-batched-tokens") + 1] == "65536"
    for cores, threads in ((1, "1"), (2, "2"), (3, "2"), (16, "15")):
        monkeypatch.setattr(vllm_program, "usable_cores", lambda cores=cores: cores)
        assert find_vllm().variables["OMP_NUM_THREADS"] == threads
    assert find_vllm().variables["TORCH_COMPILE_DISABLE"] == find_vllm().variables["PYTHONFAULTHANDLER"] == "1"
    install_vllm(tmp_path / ".venv-vllm", "0.32.0")
    address = ["--host", "127.0.0.1", "--port", "8000"]
    named = ["--served-model-name", "model-1", "folder"]
    assert VLLM.command(Path("model"), None, 8000, ["model-1", "folder"])[1:] == ["serve", "model", *address, *named]
    assert find_vllm().variables == {}


@pytest.mark.parametrize(("rank", "max_rank"), [(4, "8"), (16, "16"), (20, "32")])  # below, at and between sizes
def test_vllm_gets_the_rank_and_the_name_of_an_adapter(tmp_path, rank, max_rank):
    adapter = tmp_path / "lora"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text(json.dumps({"r": rank}))
    command = VLLM.command(Path("model"), adapter, 8000, ["model+lora-0123456789", "lora"])
    assert command[command.index("--max-lora-rank") + 1] == max_rank
    assert command[-2:] == [f"model+lora-0123456789={adapter}", f"lora={adapter}"]
    assert "--served-model-name" not in command  # the names are those of the adapted model
