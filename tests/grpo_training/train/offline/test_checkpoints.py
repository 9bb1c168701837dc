import os
import resource
import signal
import types

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")

from engine.errors import InputError, ScaffoldError  # noqa: E402
from grpo_training.rl_math.schedules import AdaptiveKL  # noqa: E402
from grpo_training.train.models.export import export_model  # noqa: E402
from grpo_training.train.models.loading import load_model, load_weights, trained_weights  # noqa: E402
from grpo_training.train.offline.checkpoints import (  # noqa: E402
    checkpoints,
    load_tensors,
    save,
    save_checkpoint,
    step_of,
)
from tests.support.tiny_model import settings, write_model  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def model(folder):
    return load_model(settings(folder))[0]


def test_what_is_saved_is_what_is_loaded(folder, model, tmp_path):
    with torch.no_grad():
        for weight in trained_weights(model).values():
            weight.normal_()
    tensors = {
        "optimizer": {"state": {0: {"step": torch.tensor(3.0)}}},
        "kl": {"beta": 0.1},
        "reference": {5: torch.tensor([1.5])},
        "progress": {"num_tokens": 120},
    }
    save_checkpoint(tmp_path, model, 12, tensors)
    (read,) = checkpoints(tmp_path)
    assert read == tmp_path / "checkpoint-12"
    other, _ = load_model(settings(folder))
    loaded = load_tensors(read)
    load_weights(other, read)
    assert loaded["reference"][5].tolist() == [1.5]
    assert loaded["optimizer"]["state"][0]["step"] == 3.0
    assert loaded["progress"] == {"num_tokens": 120}
    theirs = trained_weights(other)
    assert all(torch.equal(weight, theirs[name]) for name, weight in trained_weights(model).items())


def test_checkpoints_are_read_by_step_and_incomplete_ones_are_skipped(model, tmp_path):
    for step in (2, 10, 9):
        save_checkpoint(tmp_path, model, step, {})
    (tmp_path / "checkpoint-11.unfinished").mkdir()
    (tmp_path / "checkpoint-12").mkdir()  # no training.pt: not ours
    (tmp_path / "checkpoint-x").mkdir()
    assert [step_of(checkpoint) for checkpoint in checkpoints(tmp_path)] == [2, 9, 10]


def test_a_damaged_checkpoint_is_named(model, tmp_path):
    save_checkpoint(tmp_path, model, 1, {})
    (tmp_path / "checkpoint-1/training.pt").write_bytes(b"torn")
    with pytest.raises(InputError, match="checkpoint-1 cannot be read"):
        load_tensors(tmp_path / "checkpoint-1")


def test_a_checkpoint_without_some_of_its_tensors_is_named(model, tmp_path):
    save_checkpoint(tmp_path, model, 1, {"optimizer": {}, "kl": {}})
    with pytest.raises(InputError, match="checkpoint-1 cannot be read"):
        load_tensors(tmp_path / "checkpoint-1")


def test_tensors_that_carry_code_are_refused(model, tmp_path):
    class Evil:
        def __reduce__(self):
            return (os.system, (f"touch {tmp_path}/ran",))

    save_checkpoint(tmp_path, model, 1, {})
    torch.save({"optimizer": Evil()}, tmp_path / "checkpoint-1/training.pt")
    with pytest.raises(InputError, match="cannot be read"):
        load_tensors(tmp_path / "checkpoint-1")
    assert not (tmp_path / "ran").exists()


def test_the_last_ones_are_kept(model, tmp_path):
    training = types.SimpleNamespace(
        accelerator=types.SimpleNamespace(is_main_process=True),
        config=settings("model", save_total_limit=2),
        kl=AdaptiveKL(0.1),
        model=model,
        num_tokens=0,
        optimizer=torch.optim.AdamW(model.parameters()),
        reference=types.SimpleNamespace(known={}),
        run_dir=tmp_path,
    )
    for step in (2, 10, 9, 11):
        save(training, step)
    assert [step_of(checkpoint) for checkpoint in checkpoints(tmp_path)] == [10, 11]


def test_a_full_disk_leaves_no_partial_model(folder, tmp_path):
    model, tokenizer = load_model(settings(folder))
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        for room in (100, 3000, 20_000):  # enough for nothing, for the small files, for the adapter but not the model
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
            with pytest.raises(ScaffoldError, match="Cannot write"):
                save_checkpoint(tmp_path, model, 1, {"optimizer": torch.zeros(9000)})
            assert list(tmp_path.iterdir()) == []
        with pytest.raises(ScaffoldError, match=r"Cannot write .*(lora|merged)"):
            export_model(model, tokenizer, tmp_path, settings(folder))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert not (tmp_path / "merged").exists()
    assert not list(tmp_path.glob("*.unfinished"))
