import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("peft")

from engine.errors import InputError  # noqa: E402
from grpo_training.train.data.batches import collate  # noqa: E402
from grpo_training.train.models.positions import check_positions, position_note  # noqa: E402
from grpo_training.train.objective.logprobs import completion_logps  # noqa: E402
from tests.support.tiny_model import sample  # noqa: E402

SCALED = {"factor": 4.0, "original_max_position_embeddings": 32}
LONGROPE = {"short_factor": [1.0] * 8, "long_factor": [4.0] * 8}


def rotary(kind, **scaling):
    """A random model of two layers that was made for 32 positions, before its RoPE scaling."""
    torch.manual_seed(0)
    made, own = "Llama", {"max_position_embeddings": 32}
    if kind == "longrope":
        made, own = "Phi3", {"max_position_embeddings": 256, "original_max_position_embeddings": 32}
    config = getattr(transformers, f"{made}Config")(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        pad_token_id=0,
        eos_token_id=1,
        **own,
        rope_parameters={"rope_type": kind, "rope_theta": 10000.0, **scaling},
    )
    model = getattr(transformers, f"{made}ForCausalLM")(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(3)
    return model


def logps(model, rows):
    batch = collate(rows, 0)
    with torch.no_grad():
        found, _ = completion_logps(
            model, batch.input_ids_BT, batch.attention_mask_BT, batch.completion_start_B, batch.mask_BC
        )
    return found[0, :20]


SHORT = sample(range(20, 40), 1.0, 1.0)
LONG = sample([5 + number % 50 for number in range(60)], 1.0, 1.0)


@pytest.mark.parametrize(
    ("kind", "scaling"), [("default", {}), ("linear", {"factor": 4.0}), ("yarn", SCALED), ("llama3", SCALED)]
)
def test_rows_beyond_rope_positions_are_taken_where_log_probs_do_not_depend_on_other_rows(kind, scaling):
    if kind == "llama3":
        scaling = {**scaling, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    model = rotary(kind, **scaling)
    assert torch.allclose(logps(model, [SHORT]), logps(model, [SHORT, LONG]), atol=1e-5)
    check_positions(model, LONG.length)


@pytest.mark.parametrize(("kind", "scaling"), [("dynamic", {"factor": 4.0}), ("longrope", LONGROPE)])
def test_rows_that_change_the_log_probs_of_other_rows_are_refused(kind, scaling):
    model = rotary(kind, **scaling)
    assert not torch.allclose(logps(model, [SHORT]), logps(model, [SHORT, LONG]), atol=0.01)
    with pytest.raises(InputError, match=f"beyond 32 the RoPE scaling '{kind}'") as raised:
        check_positions(model, 33)
    assert "--max-seq-length 32" in raised.value.fix
    check_positions(model, 32)


def test_rows_longer_than_the_model_was_made_for_are_noted():
    assert position_note(rotary("default"), 32) == ""
    said = "the longest prompt and reply have 33 tokens; the model was made for 32 (--max-seq-length 32 leaves longer "
    assert position_note(rotary("default"), 33).startswith(said)
    assert position_note(rotary("yarn", **SCALED), 128) == ""
    assert "was made for 128" in position_note(rotary("yarn", **SCALED), 129)
