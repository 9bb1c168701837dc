"""Folders of models and adapters: told apart by their weights, merged only where they fit."""

import json
import shutil
import struct
from pathlib import Path

import pytest

from engine.errors import ConfigurationError, InputError, MissingInputError
from grpo_training.serve.model_folder import (
    cached_model,
    content_digest,
    find_model,
    merged_with,
    model_name,
)


def safetensors(path, **tensors):
    """A file in that format: tensors of bytes, each 10,000 long, the value of all its bytes given."""
    header, body = {}, b""
    for name, value in tensors.items():
        header[name] = {"dtype": "U8", "shape": [10_000], "data_offsets": [len(body), len(body) + 10_000]}
        body += bytes([value]) * 10_000
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def folder_of(tmp_path, name, **tensors):
    folder = tmp_path / name
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    safetensors(folder / "model.safetensors", **tensors)
    return folder


def test_a_change_in_any_tensor_changes_the_digest(tmp_path):
    same = {"first": 1, "middle": 2, "last": 3}
    model, copy = folder_of(tmp_path, "one", **same), folder_of(tmp_path, "copy", **same)
    other = folder_of(tmp_path, "other", **{**same, "middle": 9})
    assert content_digest([model]) == content_digest([copy]) != content_digest([other])
    assert content_digest([model, other]) != content_digest([other, model])


@pytest.mark.parametrize("content", [b"", b"weights", b"\xff" * 20, struct.pack("<Q", 4) + b"null"])
def test_files_that_are_no_safetensors_have_a_digest(tmp_path, content):
    folder = folder_of(tmp_path, "odd")
    (folder / "model.safetensors").write_bytes(content)
    assert len(content_digest([folder])) == 10


def test_an_adapter_that_names_another_model_is_refused(tmp_path):
    model, other = folder_of(tmp_path, "one", w=1), folder_of(tmp_path, "other", w=2)
    copy = folder_of(tmp_path, "copy", w=1)
    adapter = tmp_path / "adapter"
    with pytest.raises(MissingInputError, match="No adapter in"):
        find_model(model, adapter)
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(model)}))
    find_model(model, adapter)
    find_model(copy, adapter)
    with pytest.raises(ConfigurationError, match="does not fit the model") as raised:
        find_model(other, adapter)
    assert str(model) in raised.value.why
    (adapter / "adapter_config.json").write_text("[")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        find_model(model, adapter)


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """A model in a cache of the hub; the hub itself cannot be reached."""
    pytest.importorskip("huggingface_hub")
    cache = tmp_path / "hub"
    snapshot = cache / "models--someone--small-1b" / "snapshots" / ("a" * 40)
    snapshot.mkdir(parents=True)
    for path in folder_of(tmp_path, "files", w=1).iterdir():
        path.rename(snapshot / path.name)
    refs = snapshot.parents[1] / "refs"
    refs.mkdir()
    (refs / "main").write_text("a" * 40)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    return snapshot


def test_a_name_of_the_hub_is_the_model_in_its_cache(cached, tmp_path, monkeypatch):
    assert find_model(Path("someone/small-1b")) == cached
    assert cached_model("someone/small-1b") == cached
    monkeypatch.chdir(tmp_path)
    folder = Path("someone/small-1b")
    folder_of(tmp_path, "someone", w=2).rename(tmp_path / "moved")
    folder.parent.mkdir()
    (tmp_path / "moved").rename(folder)
    assert find_model(folder) == folder  # a folder comes before a name
    assert cached_model(str(folder)) is None
    assert model_name(cached) == "small-1b"
    assert model_name(Path("models/small-1b")) == "small-1b"


def test_a_name_that_the_hub_does_not_know_is_named(cached, monkeypatch):
    def refuse(self, name, timeout):
        raise OSError("404 Not Found\nmore")

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", refuse)
    with pytest.raises(MissingInputError, match="Model not found: someone/other") as raised:
        find_model(Path("someone/other"))
    assert raised.value.why == "404 Not Found"
    assert cached_model("someone/other") is None
    assert cached_model("../other") is None
    with pytest.raises(MissingInputError, match="No model in"):
        find_model(Path("a/b/c"))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Makes models of some layers and width, and adapters of them; no adapter says whose it is."""
    torch = pytest.importorskip("torch")
    peft = pytest.importorskip("peft")
    tokenizers = pytest.importorskip("tokenizers")
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    root = tmp_path_factory.mktemp("tiny")
    torch.manual_seed(0)

    def make(name, layers, width):
        model = Qwen3ForCausalLM(
            Qwen3Config(
                vocab_size=32,
                hidden_size=width,
                intermediate_size=32,
                num_hidden_layers=layers,
                num_attention_heads=2,
                num_key_value_heads=1,
                head_dim=16,
                tie_word_embeddings=True,
            )
        )
        model.save_pretrained(root / name)
        words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
        PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(root / name)
        adapted = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM"))
        for parameter_name, parameter in adapted.named_parameters():
            if "lora_B" in parameter_name:
                torch.nn.init.normal_(parameter)
        adapted.peft_config["default"].base_model_name_or_path = None
        adapted.save_pretrained(root / f"{name}-lora")
        with torch.no_grad():
            return adapted(torch.tensor([[1, 2, 3]])).logits

    logits = make("two", 2, 32)
    make("four", 4, 32)
    make("narrow", 2, 16)
    return root, logits


def test_the_merged_model_is_the_adapted_one_and_goes_away(tiny):
    import torch
    from transformers import AutoModelForCausalLM

    root, logits = tiny
    with merged_with(root / "two", root / "two-lora") as folder:
        with torch.no_grad():
            merged = AutoModelForCausalLM.from_pretrained(folder)(torch.tensor([[1, 2, 3]])).logits
            plain = AutoModelForCausalLM.from_pretrained(root / "two")(torch.tensor([[1, 2, 3]])).logits
        assert (folder / "tokenizer.json").exists()
    assert torch.allclose(merged, logits, atol=1e-5)
    assert not torch.allclose(merged, plain, atol=1e-3)
    assert not folder.exists()


@pytest.mark.parametrize(
    ("model", "adapter", "why"),
    [
        ("two", "narrow", "size mismatch"),
        ("two", "four", "4 weights exist in one of them only"),
        ("four", "two", "4 weights"),
    ],
)
def test_an_adapter_of_another_model_is_refused(tiny, model, adapter, why):
    root, _ = tiny
    with (
        pytest.raises(ConfigurationError, match="does not fit the model") as raised,
        merged_with(root / model, root / f"{adapter}-lora"),
    ):
        pass
    assert why in raised.value.why
    assert "\n" not in raised.value.why


@pytest.fixture
def adapter(tiny, tmp_path):
    """A copy of an adapter of the model ``two``, to be damaged."""
    return Path(shutil.copytree(tiny[0] / "two-lora", tmp_path / "adapter"))


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("adapter_config.json", b"{}", "does not fit the model"),
        ("adapter_model.safetensors", b"half a cop", "does not fit the model"),
    ],
)
def test_an_adapter_that_is_not_whole_is_refused(tiny, adapter, file, content, message):
    (adapter / file).write_bytes(content)
    with pytest.raises(ConfigurationError, match=message), merged_with(tiny[0] / "two", adapter):
        pass


def test_an_adapter_of_a_tied_embedding_is_refused(tiny, tmp_path):
    peft = pytest.importorskip("peft")
    from transformers import AutoModelForCausalLM

    root, _ = tiny
    model = AutoModelForCausalLM.from_pretrained(root / "two")
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=["embed_tokens"], task_type="CAUSAL_LM"))
    adapted.save_pretrained(tmp_path)
    with pytest.raises(ConfigurationError, match="are one tensor"), merged_with(root / "two", tmp_path):
        pass


def test_an_adapter_that_is_not_finite_is_refused(tiny, adapter):
    from safetensors.torch import load_file, save_file

    weights = load_file(adapter / "adapter_model.safetensors")
    save_file({name: weight * float("nan") for name, weight in weights.items()}, adapter / "adapter_model.safetensors")
    with pytest.raises(ConfigurationError, match="NaN or infinite"), merged_with(tiny[0] / "two", adapter):
        pass


@pytest.mark.parametrize("changed", [{"r": "2"}, {"lora_alpha": None}, {"peft_type": "PROMPT_TUNING"}])
def test_an_adapter_with_a_wrong_configuration_is_refused(tiny, adapter, changed):
    path = adapter / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    with pytest.raises(ConfigurationError, match="does not fit the model"), merged_with(tiny[0] / "two", adapter):
        pass


def test_an_adapter_without_weights_is_named(tiny, adapter):
    (adapter / "adapter_model.safetensors").unlink()
    with pytest.raises(MissingInputError, match=f"No weights in {adapter}"), merged_with(tiny[0] / "two", adapter):
        pass


@pytest.mark.parametrize(
    ("file", "content"),
    [("config.json", "[]"), ("tokenizer.json", "[]"), ("generation_config.json", "[]"), ("model.safetensors", "")],
)
def test_a_damaged_base_of_an_adapter_is_named(tiny, tmp_path, file, content):
    root, _ = tiny
    model = tmp_path / "model"
    shutil.copytree(root / "two", model)
    (model / file).write_text(content)
    with (
        pytest.raises(InputError, match=f"The model in {model} cannot be loaded"),
        merged_with(model, root / "two-lora"),
    ):
        pass
