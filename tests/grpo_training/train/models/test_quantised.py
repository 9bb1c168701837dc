import importlib.util
import io

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
peft = pytest.importorskip("peft")
pytest.importorskip("accelerate")

from engine.errors import ConfigurationError  # noqa: E402
from grpo_training.train import run as train  # noqa: E402
from grpo_training.train.data.training_data import TrainingData  # noqa: E402
from grpo_training.train.models.loading import load_model, trained_weights  # noqa: E402
from grpo_training.train.offline import loop  # noqa: E402
from grpo_training.train.offline.loop import train_offline  # noqa: E402
from tests.support.tiny_model import good_and_bad, lines, load, logps, settings, write_model  # noqa: E402

needs_bitsandbytes = pytest.mark.skipif(
    importlib.util.find_spec("bitsandbytes") is None, reason="bitsandbytes is not installed"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"), hidden=64)


BITS = pytest.mark.parametrize("bits", ["load_in_4bit", "load_in_8bit"])


@BITS
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"use_peft": False}, "needs use_peft: rounded weights cannot be trained"),
        ({"mode": "online", "dataset": "quickstart"}, "is used by offline and supervised training only"),
    ],
)
def test_contradictions_are_refused(folder, bits, changes, message):
    with pytest.raises(ValueError, match=f"{bits} {message}"):
        settings(folder, **{bits: True}, **changes)


def test_a_base_is_rounded_once(folder):
    with pytest.raises(ValueError, match="load_in_4bit and load_in_8bit exclude each other"):
        settings(folder, load_in_4bit=True, load_in_8bit=True)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("load_in_4bit", {"load_in_4bit": True}),
        ("load_in_8bit", {"load_in_8bit": True}),
    ],
)
def test_without_bitsandbytes_the_command_says_so_before_it_reads_anything(
    folder, tmp_path, monkeypatch, name, changes
):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "bitsandbytes" else find(name))
    with pytest.raises(ConfigurationError, match=f"^{name} needs bitsandbytes"):
        train.train_grpo(settings(folder, **changes, output_dir=tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("changes", [{}, {"mode": "online", "dataset": "quickstart"}], ids=["offline", "online"])
def test_without_bitsandbytes_the_usual_optimizer_is_used_and_named(folder, tmp_path, monkeypatch, capsys, changes):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "bitsandbytes" else find(name))
    (tmp_path / "rows.jsonl").write_text(
        '{"prompt": "1 + 1?", "text": "a", "reward": 0}\n{"prompt": "1 + 1?", "text": "b", "reward": 1}\n'
    )
    more = {"dataset_path": tmp_path / "rows.jsonl", "validation_share": 0, "dry_run": True, **changes}
    assert train.train_grpo(settings(folder, **more, optim="adamw_8bit", output_dir=tmp_path / "run")) == 0
    assert capsys.readouterr().out.count("so adamw_torch is used") == 1


def gradients(model):
    """Of the LoRA, for the log-prob of one reply."""
    row = good_and_bad(1)[0][0]
    ids = torch.tensor([row.prompt_ids + row.completion_ids], device=model.device)
    model.train()(input_ids=ids, labels=ids).loss.backward()
    gradient = torch.cat([weight.grad.flatten() for weight in trained_weights(model).values()])
    model.zero_grad()
    return gradient.cpu()


@needs_bitsandbytes
@pytest.mark.parametrize(
    ("bits", "dtype", "similarity"), [("load_in_4bit", torch.uint8, 0.9), ("load_in_8bit", torch.int8, 0.999)]
)
def test_gradients_are_near_those_of_the_whole_model_also_after_a_pass_that_only_scores(
    folder, bits, dtype, similarity
):
    """Rounding changes the output of a layer by about a tenth (4 bits) or a hundredth (8 bits)."""
    model, _ = load_model(settings(folder, **{bits: True}))
    plain, _ = load_model(settings(folder))
    assert {weight.dtype for name, weight in model.named_parameters() if "q_proj.base_layer" in name} == {dtype}
    before = gradients(model)
    with torch.no_grad():
        logps(model, good_and_bad(1)[0])
    after = gradients(model)
    assert torch.allclose(after, before, rtol=1e-3, atol=1e-6)
    assert torch.cosine_similarity(after, gradients(plain), dim=0) > similarity


@needs_bitsandbytes
@BITS
def test_the_first_step_starts_at_the_reference_and_the_adapter_is_merged_into_the_stored_base(folder, tmp_path, bits):
    groups = good_and_bad()
    config = settings(folder, num_train_epochs=1, beta=0.1, **{bits: True})
    result = train_offline(config, TrainingData(groups, groups[:1]), tmp_path / "run", stream=io.StringIO())
    first, last = lines(tmp_path / "run")[0], lines(tmp_path / "run")[-1]
    assert first["kl"] == pytest.approx(0.0, abs=1e-5)
    assert first["clip_ratio/region_mean"] == 0
    assert last["kl"] > 0
    merged = load(result.merged)
    assert {weight.dtype for weight in merged.parameters()} == {torch.float32}
    on_top = peft.PeftModel.from_pretrained(load(folder), result.adapter).eval()
    assert logps(merged, groups[0]) == pytest.approx(logps(on_top, groups[0]), abs=1e-4)
    assert logps(merged, groups[0])[0] > logps(load(folder), groups[0])[0]


class Kill(BaseException):
    """The process is gone."""


def states(run_dir, step):
    """The optimizer state of each weight in a checkpoint."""
    stored = torch.load(run_dir / f"checkpoint-{step}" / "training.pt", weights_only=True)["optimizer"]["state"]
    return [state.get("__bnb_optimizer_quant_state__", state) for state in stored.values()]


@needs_bitsandbytes
@pytest.mark.parametrize("use_peft", [True, False])
def test_an_8_bit_optimizer_takes_nearly_the_same_steps_and_can_be_resumed(tmp_path, monkeypatch, use_peft):
    """Weights of at least 4096 numbers have a state in 8 bits."""
    folder = write_model(tmp_path / "model", hidden=256)
    rows = good_and_bad(1)[0]

    def trained(name, **changes):
        options = {"rce_epochs": 1, "lora_r": 32, "learning_rate": 5e-4, "save_steps": 1, "use_peft": use_peft}
        config = settings(folder, **options, **changes)
        return train_offline(config, TrainingData(good_and_bad()), tmp_path / name, stream=io.StringIO())

    uninterrupted = trained("whole", optim="adamw_8bit")
    assert uninterrupted.steps == 9
    kinds = {state["state1"].dtype for state in states(tmp_path / "whole", 9)}
    assert torch.uint8 in kinds

    real = loop.save

    def dying(training, number, held_out):
        real(training, number, held_out)
        if number == 6:  # in the second phase
            raise Kill

    with monkeypatch.context() as patch:
        patch.setattr(loop, "save", dying)
        with pytest.raises(Kill):
            trained("torn", optim="adamw_8bit")
    resumed = trained("torn", optim="adamw_8bit")
    expected, weights = load(uninterrupted.merged).state_dict(), load(resumed.merged).state_dict()
    assert all(torch.equal(expected[name], weights[name]) for name in expected)

    exact, start = logps(load(trained("exact").merged), rows), logps(load(folder), rows)
    moved = torch.tensor(exact) - torch.tensor(start)
    off = torch.tensor(logps(load(uninterrupted.merged), rows)) - torch.tensor(exact)
    assert 0 < off.norm() < 0.05 * moved.norm()
