import importlib.util
import json
import shutil
import time

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")

from engine.errors import ConfigurationError, InputError, MissingInputError  # noqa: E402
from grpo_training.train.models import loading, tokenizer  # noqa: E402
from grpo_training.train.models.loading import (  # noqa: E402
    has_adapter,
    load_model,
    load_weights,
    trained_weights,
)
from grpo_training.train.models.tokenizer import load_tokenizer  # noqa: E402
from tests.support.tiny_model import good_and_bad, load, logps, settings, write_model  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"))


def test_a_fresh_lora_changes_nothing_and_is_all_that_learns(folder):
    model, tokenizer = load_model(settings(folder))
    rows = good_and_bad(1)[0]
    assert has_adapter(model)
    assert logps(model, rows) == pytest.approx(logps(load(folder), rows), abs=1e-6)
    learning = trained_weights(model)
    assert learning
    assert all("lora_" in name and weight.dtype == torch.float32 for name, weight in learning.items())
    assert len(learning) == 2 * 7 * 2  # A and B of q, k, v, o, gate, up, down in 2 layers; not of the head
    assert tokenizer.pad_token == "<pad>"
    assert model.training


def test_the_same_seed_draws_the_same_lora_and_leaves_the_callers_generator_alone(folder):
    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    first, second, third = (trained_weights(load_model(settings(folder, seed=seed))[0]) for seed in (0, 0, 1))
    assert torch.equal(torch.rand(1), expected)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert any(not torch.equal(first[name], third[name]) for name in first)


def test_with_the_adapter_off_the_model_is_its_base(folder):
    model, _ = load_model(settings(folder))
    rows = good_and_bad(1)[0]
    base = logps(model, rows)
    with torch.no_grad():
        for weight in trained_weights(model).values():
            weight.fill_(0.05)
    assert logps(model, rows) != pytest.approx(base, abs=1e-3)
    with model.disable_adapter():
        assert logps(model, rows) == base


def test_without_peft_everything_learns(folder):
    model, _ = load_model(settings(folder, use_peft=False))
    assert not has_adapter(model)
    assert len(trained_weights(model)) == len(list(model.parameters()))


@pytest.mark.parametrize("modules", ["lm_head", "embed_tokens", "q_proj,lm_head"])
def test_a_lora_on_embeddings_that_are_tied_is_refused(folder, modules):
    """Merged into the one tensor that both share, it would change the other one too."""
    with pytest.raises(ConfigurationError, match="The LoRA does not fit") as raised:
        load_model(settings(folder, lora_target_modules=modules))
    assert "one tensor" in raised.value.why


def test_gradient_checkpointing_gives_the_same_gradient(folder):
    gradients = []
    for checkpointing in (False, True):
        model, _ = load_model(settings(folder, gradient_checkpointing=checkpointing))
        model(input_ids=torch.tensor([[2, 10, 11, 3, 20]])).logits.square().mean().backward()
        gradients.append({name: weight.grad for name, weight in trained_weights(model).items()})
    assert any(gradient.abs().max() > 0 for gradient in gradients[1].values())
    assert all(torch.allclose(gradients[0][name], gradients[1][name], atol=1e-7) for name in gradients[0])


@pytest.mark.parametrize("name", ["./no/such/model", "/no/such/model", "data/models/nothing", "models/"])
def test_a_model_that_is_not_there(name):
    with pytest.raises(MissingInputError, match="Model not found") as raised:
        load_model(settings(name))
    assert "Hugging Face hub" in raised.value.fix


def test_a_hub_name_without_a_network(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(MissingInputError, match="Model not found: nobody/nothing") as raised:
        load_model(settings("nobody/nothing"))
    assert raised.value.why


def test_a_hub_that_cannot_be_reached_is_asked_once(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    began = time.monotonic()
    with pytest.raises(MissingInputError, match="Model not found: nobody/nothing"):
        load_model(settings("nobody/nothing"))
    assert time.monotonic() - began < 10  # from_pretrained tries each file for 23 s


def test_a_model_in_the_hubs_cache_needs_no_network(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    cached = tmp_path / "models--nobody--nothing"
    shutil.copytree(folder, cached / "snapshots/0123abc")
    (cached / "refs").mkdir()
    (cached / "refs/main").write_text("0123abc")
    asked = []
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", lambda *_, **__: asked.append(1))
    tokenizer.from_hub(settings("nobody/nothing"), lambda name: name)
    assert not asked


def test_a_file_is_no_model(tmp_path):
    (tmp_path / "model.bin").write_bytes(b"x")
    with pytest.raises(MissingInputError, match="Model not found"):
        load_model(settings(tmp_path / "model.bin"))


def test_a_folder_without_a_model_or_tokenizer(folder, tmp_path):
    with pytest.raises(InputError, match=r"It has no config\.json"):
        load_model(settings(tmp_path))
    bare = tmp_path / "bare"
    shutil.copytree(folder, bare)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (bare / name).unlink()
    with pytest.raises(InputError, match="has no tokenizer"):
        load_model(settings(bare))


def test_weights_that_are_cut_off(folder, tmp_path):
    torn = tmp_path / "torn"
    shutil.copytree(folder, torn)
    content = (torn / "model.safetensors").read_bytes()
    (torn / "model.safetensors").write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match="cannot be loaded"):
        load_model(settings(torn))
    (torn / "config.json").write_text("{")
    with pytest.raises(InputError, match="cannot be loaded"):
        load_model(settings(torn))


@pytest.mark.parametrize("use_peft", [True, False])
@pytest.mark.parametrize("missing", ["model.layers.0.mlp.up_proj.weight", "model.embed_tokens.weight"])
def test_weights_that_are_not_stored_get_no_random_values(folder, tmp_path, missing, use_peft):
    incomplete = tmp_path / "incomplete"
    shutil.copytree(folder, incomplete)
    remove_weight(incomplete, missing)
    with pytest.raises(InputError, match="cannot be loaded") as raised:
        load_model(settings(incomplete, use_peft=use_peft))
    assert "Weights are missing in its files" in raised.value.why


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            {"num_hidden_layers": 1, "layer_types": ["full_attention"]},
            "layers that its config.json does not have: model",
        ),
        (
            {"quantization_config": {"quant_method": "int3"}},
            "does not know the quant_method of its config.json, 'int3'",
        ),
    ],
)
def test_a_configuration_that_does_not_fit_the_weights(folder, tmp_path, changes, why):
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps(config | changes))
    with pytest.raises(InputError, match="cannot be loaded") as raised:
        load_model(settings(other))
    assert why in raised.value.why


def test_weights_of_no_layer_are_left_out(folder, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    safetensors = importlib.import_module("safetensors.torch")
    weights = safetensors.load_file(other / "model.safetensors")
    safetensors.save_file({**weights, "v_head.weight": torch.zeros(3)}, other / "model.safetensors", {"format": "pt"})
    rows = good_and_bad(1)[0]
    assert logps(load_model(settings(other))[0], rows) == pytest.approx(logps(load(folder), rows), abs=1e-6)


def test_a_checkpoint_of_a_whole_model_needs_all_weights(folder, tmp_path):
    model, _ = load_model(settings(folder, use_peft=False))
    model.save_pretrained(tmp_path)
    remove_weight(tmp_path, "model.norm.weight")
    with pytest.raises(InputError, match=f"The weights in {tmp_path} cannot be read"):
        load_weights(model, tmp_path)


def remove_weight(folder, name):
    safetensors = importlib.import_module("safetensors.torch")
    weights = safetensors.load_file(folder / "model.safetensors")
    del weights[name]
    safetensors.save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", "[]"),
        ("config.json", "null"),
        ("config.json", {"vocab_size": "40"}),
        ("config.json", {"num_attention_heads": 0}),
        ("tokenizer.json", "[]"),
        ("tokenizer_config.json", "[]"),
        ("tokenizer_config.json", {"eos_token": ["<end>"]}),
        ("generation_config.json", "[]"),
    ],
)
def test_a_damaged_file_of_a_model_is_one_error(folder, tmp_path, name, content):
    damaged = tmp_path / "damaged"
    shutil.copytree(folder, damaged)
    if isinstance(content, dict):
        content = json.dumps(json.loads((damaged / name).read_text()) | content)
    (damaged / name).write_text(content)
    with pytest.raises(InputError, match=f"The model in {damaged} cannot be loaded"):
        load_model(settings(damaged))


def test_full_memory_is_not_taken_for_a_damaged_file(folder, monkeypatch):
    def full(name, **options):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(loading, "load_complete", full)
    with pytest.raises(torch.OutOfMemoryError):
        load_model(settings(folder))


def test_a_package_that_a_model_needs_is_named(folder, monkeypatch):
    def needs(name, **options):
        raise ImportError("Loading a GPTQ quantized model requires optimum")

    monkeypatch.setattr(loading, "load_complete", needs)
    with pytest.raises(ConfigurationError, match="needs a package that is not installed\nLoading a GPTQ"):
        load_model(settings(folder))


def test_an_adapters_folder_is_no_model(folder, tmp_path):
    model, tokenizer = load_model(settings(folder))
    model.save_pretrained(tmp_path / "lora")
    tokenizer.save_pretrained(tmp_path / "lora")
    with pytest.raises(InputError, match="a LoRA adapter, not a model"):
        load_model(settings(tmp_path / "lora"))


def test_an_adapter_of_another_model_or_rank(folder, tmp_path):
    wide = write_model(tmp_path / "wide", hidden=64)
    model, _ = load_model(settings(wide))
    model.save_pretrained(tmp_path / "lora")
    small, _ = load_model(settings(folder))
    with pytest.raises(InputError, match="cannot be read"):
        load_weights(small, tmp_path / "lora")
    other_rank, _ = load_model(settings(wide, lora_r=8))
    with pytest.raises(InputError, match="cannot be read"):
        load_weights(other_rank, tmp_path / "lora")
    with pytest.raises(InputError, match="cannot be read") as missing:
        load_weights(small, tmp_path / "nothing")
    assert "Remove that folder" in missing.value.fix


def test_a_lora_on_modules_that_do_not_exist(folder):
    with pytest.raises(ConfigurationError, match="The LoRA does not fit") as raised:
        load_model(settings(folder, lora_target_modules=("query_key_value",)))
    assert "query_key_value" in raised.value.why


def test_bf16_on_a_machine_without_it(folder, monkeypatch):
    for module in (tokenizer, loading):
        monkeypatch.setattr(module, "supports_bf16", lambda: False)
    with pytest.raises(ConfigurationError, match="does not support bfloat16"):
        load_model(settings(folder, bf16=True))
    assert not loading.uses_bf16(settings(folder, bf16=None))


@pytest.mark.parametrize(
    ("avx512_bf16", "amx", "default"), [(False, False, False), (True, False, True), (False, True, True)]
)
def test_bf16_is_the_default_on_cpus_that_compute_it(folder, monkeypatch, avx512_bf16, amx, default):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx512_bf16)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    assert loading.uses_bf16(settings(folder, bf16=None)) is default
    assert not loading.uses_bf16(settings(folder, bf16=False))


def test_in_bf16_the_base_is_half_as_large_and_the_lora_stays_exact(folder, monkeypatch):
    for module in (tokenizer, loading):
        monkeypatch.setattr(module, "supports_bf16", lambda: True)
    model, _ = load_model(settings(folder, bf16=True))
    assert model.get_input_embeddings().weight.dtype == torch.bfloat16
    assert {weight.dtype for weight in trained_weights(model).values()} == {torch.float32}
    full_model, _ = load_model(settings(folder, bf16=True, use_peft=False))
    assert {weight.dtype for weight in full_model.parameters()} == {torch.float32}  # what learns is never rounded so


def test_a_tokenizer_without_an_end_is_refused(folder, tmp_path):
    endless = tmp_path / "endless"
    shutil.copytree(folder, endless)
    described = json.loads((endless / "tokenizer_config.json").read_text())
    del described["eos_token"]
    (endless / "tokenizer_config.json").write_text(json.dumps(described))
    with pytest.raises(InputError, match="no end-of-text token"):
        load_tokenizer(settings(endless))


@pytest.mark.parametrize("use_peft", [True, False])
def test_weights_of_a_damaged_checkpoint_are_reported_with_its_folder(folder, tmp_path, use_peft):
    model, _ = load_model(settings(folder, use_peft=use_peft))
    model.save_pretrained(tmp_path)
    [weights] = tmp_path.glob("*.safetensors")
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(InputError, match=f"The weights in {tmp_path} cannot be read") as raised:
        load_weights(model, tmp_path)
    assert "Remove that folder" in raised.value.fix


def test_the_attention_can_be_chosen(folder):
    model, _ = load_model(settings(folder, attn_implementation="eager"))
    assert model.config._attn_implementation == "eager"
    if importlib.util.find_spec("flash_attn") is None:
        with pytest.raises(ConfigurationError, match="needs a package that is not installed\nFlashAttention2"):
            load_model(settings(folder, attn_implementation="flash_attention_2"))
    with pytest.raises(InputError, match="nonsense"):
        load_model(settings(folder, attn_implementation="nonsense"))
