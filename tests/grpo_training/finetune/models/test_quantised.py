import importlib.util
import io

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
peft = pytest.importorskip("peft")
pytest.importorskip("accelerate")

from engine.errors import ConfigurationError  # noqa: E402
from grpo_training.finetune import train  # noqa: E402
from grpo_training.finetune.models.loading import load_model, trained_weights  # noqa: E402
from grpo_training.finetune.offline.loop import train_offline  # noqa: E402
from tests.support.tiny_model import good_and_bad, lines, load, logps, settings, write_model  # noqa: E402

needs_bitsandbytes = pytest.mark.skipif(
    importlib.util.find_spec("bitsandbytes") is None, reason="bitsandbytes is not installed"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"), hidden=64)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"load_in_4bit": True, "use_peft": False}, "needs use_peft: 4-bit weights cannot be trained"),
        ({"load_in_4bit": True, "mode": "online", "dataset": "quickstart"}, "offline and supervised training only"),
        ({"load_in_4bit": True, "backend": "unsloth"}, "used by the backend hf only"),
    ],
)
def test_contradictions_are_refused(folder, changes, message):
    with pytest.raises(ValueError, match=message):
        settings(folder, **changes)


def test_runs_of_earlier_versions_keep_their_fingerprint(folder):
    assert "load_in_4bit" not in settings(folder).fingerprint()
    assert settings(folder, load_in_4bit=True).fingerprint()["load_in_4bit"] is True


def test_without_bitsandbytes_the_command_says_so_before_it_reads_anything(folder, tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "bitsandbytes" else find(name))
    with pytest.raises(ConfigurationError, match="load_in_4bit needs bitsandbytes"):
        train.train_grpo(settings(folder, load_in_4bit=True, output_dir=tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_quantised_weights_are_not_divided_among_processes(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    monkeypatch.setenv("FSDP_VERSION", "2")
    config = settings(folder, load_in_4bit=True)
    with pytest.raises(ConfigurationError, match="load_in_4bit is not supported with FSDP"):
        train_offline(config, good_and_bad(), (), (), tmp_path / "run", stream=io.StringIO())


def gradients(model):
    """Of the LoRA, for the log-prob of one reply."""
    row = good_and_bad(1)[0][0]
    ids = torch.tensor([row.prompt_ids + row.completion_ids])
    model.train()(input_ids=ids, labels=ids).loss.backward()
    found = torch.cat([weight.grad.flatten() for weight in trained_weights(model).values()])
    model.zero_grad()
    return found


@needs_bitsandbytes
def test_gradients_are_near_those_of_the_whole_model_also_after_a_pass_that_only_scores(folder):
    """Rounding to 4 bits changes the output of a layer by about a tenth."""
    model, _ = load_model(settings(folder, load_in_4bit=True))
    plain, _ = load_model(settings(folder))
    assert {weight.dtype for name, weight in model.named_parameters() if "q_proj.base_layer" in name} == {torch.uint8}
    before = gradients(model)
    logps(model.eval(), good_and_bad(1)[0])
    after = gradients(model)
    assert torch.allclose(after, before, rtol=1e-3, atol=1e-6)
    assert torch.cosine_similarity(after, gradients(plain), dim=0) > 0.9


@needs_bitsandbytes
def test_the_adapter_is_merged_into_the_stored_base(folder, tmp_path):
    groups = good_and_bad()
    config = settings(folder, num_train_epochs=1, beta=0.1, load_in_4bit=True)
    result = train_offline(config, groups, groups[:1], (), tmp_path / "run", stream=io.StringIO())
    assert result.exported == "checkpoint-3"
    assert lines(tmp_path / "run")[0]["kl"] == pytest.approx(0.0, abs=1e-6)
    assert lines(tmp_path / "run")[-1]["kl"] > 0
    merged = load(result.merged)
    assert {weight.dtype for weight in merged.parameters()} == {torch.float32}
    on_top = peft.PeftModel.from_pretrained(load(folder), result.adapter).eval()
    assert logps(merged, groups[0]) == pytest.approx(logps(on_top, groups[0]), abs=1e-4)
    assert logps(merged, groups[0])[0] > logps(load(folder), groups[0])[0]
