"""Log-probs in chunks against the plain way: all logits, softmax, gather."""

import copy

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from engine.errors import ConfigurationError, InputError  # noqa: E402
from grpo_training.train.objective.logprobs import (  # noqa: E402
    can_pack,
    check_logits,
    completion_logps,
)
from tests.support.table import table  # noqa: E402

VOCABULARY = 61
STARTS = torch.tensor([3, 1, 5])
LENGTHS = torch.tensor([4, 6, 1])
MASK = (torch.arange(6) < LENGTHS.unsqueeze(1)).float()


def rows():
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(0, VOCABULARY, (3, 7), generator=generator)
    attention = (torch.arange(7) < (STARTS + LENGTHS).unsqueeze(1)).long()
    return ids, attention


def tiny(**changes):
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(3)
    settings = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "initializer_range": 0.3,
    }
    return Qwen2ForCausalLM(Qwen2Config(**(settings | changes)))


def plain(model, temperature=1.0):
    """The definition, token by token: each row alone, without padding."""
    ids, _ = rows()
    expected, entropy = torch.zeros(3, 6), torch.zeros(3, 6)
    for row, (start, length) in enumerate(zip(STARTS.tolist(), LENGTHS.tolist(), strict=True)):
        logps = (model(ids[row : row + 1, : start + length]).logits[0] / temperature).log_softmax(-1)
        for position in range(length):
            expected[row, position] = logps[start + position - 1, ids[row, start + position]]
            distribution = logps[start + position - 1]
            entropy[row, position] = -(distribution.exp() * distribution).sum()
    return expected, entropy


@table("chunk_size", [1, 4, 11, 100])
@table("temperature", [1.0, 0.7])
def test_chunks_give_the_log_probs_and_gradients_of_the_definition(chunk_size, temperature):
    model, reference = tiny(), tiny()
    upstream = torch.randn(3, 6, generator=torch.Generator().manual_seed(5))
    ids, attention = rows()
    logps, entropy = completion_logps(
        model, ids, attention, STARTS, MASK, temperature=temperature, chunk_size=chunk_size, entropy=True
    )
    expected, expected_entropy = plain(reference, temperature)
    torch.testing.assert_close(logps, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(entropy, expected_entropy, atol=1e-5, rtol=1e-5)
    assert not entropy.requires_grad
    (logps * upstream).sum().backward()
    (expected * upstream).sum().backward()
    for (name, weight), other in zip(model.named_parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(weight.grad, other.grad, atol=1e-4, rtol=1e-4, msg=name)


def test_padding_on_the_left_gives_the_same():
    model = tiny()
    ids, attention = rows()
    width = 12
    left_ids, left_attention = torch.zeros(3, width, dtype=torch.long), torch.zeros(3, width, dtype=torch.long)
    for row, (start, length) in enumerate(zip(STARTS.tolist(), LENGTHS.tolist(), strict=True)):
        left_ids[row, 5 - start : 5 + length] = ids[row, : start + length]
        left_attention[row, 5 - start : 5 + length] = 1
    right, _ = completion_logps(model, ids, attention, STARTS, MASK)
    left, _ = completion_logps(model, left_ids, left_attention, torch.full((3,), 5), MASK)
    torch.testing.assert_close(left, right, atol=1e-5, rtol=1e-5)


def rows_of_two_prompts():
    """Five rows: the first, third and fifth have one prompt, the others another one; padded on both sides."""
    generator = torch.Generator().manual_seed(4)
    prompts = [torch.randint(0, VOCABULARY, (length,), generator=generator) for length in (40, 20)]
    ids, attention = torch.zeros(5, 58, dtype=torch.long), torch.zeros(5, 58, dtype=torch.long)
    starts, lengths = [50, 30, 41, 20, 40], [3, 15, 6, 1, 2]
    for row, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        tokens = torch.cat([prompts[row % 2], torch.randint(0, VOCABULARY, (length,), generator=generator)])
        before = start - len(prompts[row % 2])
        ids[row, before : before + len(tokens)] = tokens
        attention[row, before : before + len(tokens)] = 1
    mask = torch.arange(15) < torch.tensor(lengths).unsqueeze(1)
    mask[2, 1] = False
    return ids, attention, torch.tensor(starts), mask


@pytest.fixture
def _flex_on_a_cpu(monkeypatch):
    """FlexAttention computes by its definition, uncompiled, with gradients, which PyTorch refuses on CPUs."""
    flex = pytest.importorskip("torch.nn.attention.flex_attention")
    monkeypatch.setattr(flex, "_validate_device", lambda *_: None)
    monkeypatch.setattr(flex, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)
    monkeypatch.setattr(
        "transformers.integrations.flex_attention.WrappedFlexAttention.__call__", lambda _: flex.flex_attention
    )
    with torch.compiler.set_stance("force_eager"):  # transformers compiles the making of masks, for half a minute
        yield


@table("chunk_size", [4, 100])
@table("attention", ["sdpa", "eager", "flex_attention"])
@pytest.mark.usefixtures("_flex_on_a_cpu")
def test_rows_in_one_sequence_give_the_log_probs_and_gradients_of_padded_rows(chunk_size, attention):
    model, reference, tensors = tiny(), tiny(), rows_of_two_prompts()
    model.set_attn_implementation(attention)
    assert can_pack(model, 58)
    shapes = []
    model.model.layers[0].register_forward_hook(
        lambda _module, arguments, _output: shapes.append(arguments[0].shape[:2])
    )
    ours, entropy = completion_logps(model, *tensors, chunk_size=chunk_size, packs=True, entropy=True)
    tokens = 40 + 20 + 27  # each prompt once
    assert shapes == [(1, 128 if attention == "flex_attention" else tokens)]
    padded, expected_entropy = completion_logps(reference, *tensors, entropy=True)
    torch.testing.assert_close(ours, padded, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(entropy, expected_entropy, atol=1e-5, rtol=1e-5)
    upstream = torch.randn(ours.shape, generator=torch.Generator().manual_seed(5))
    (ours * upstream).sum().backward()
    (padded * upstream).sum().backward()
    for (name, weight), other in zip(model.named_parameters(), reference.parameters(), strict=True):
        largest = float(other.grad.abs().max())
        torch.testing.assert_close(weight.grad, other.grad, atol=1e-5 * largest, rtol=0, msg=name)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU for CUDA")
def test_on_a_gpu_flex_attention_gives_the_log_probs_and_gradients_of_padded_rows():
    model, reference = tiny(hidden_size=64).cuda(), tiny(hidden_size=64).cuda()
    model.set_attn_implementation("flex_attention")
    tensors = [tensor.cuda() for tensor in rows_of_two_prompts()]
    assert can_pack(model, 58)
    ours, _ = completion_logps(model, *tensors, packs=True)
    padded, _ = completion_logps(reference, *tensors)
    torch.testing.assert_close(ours, padded, atol=1e-3, rtol=1e-3)
    ours.sum().backward()
    padded.sum().backward()
    for (name, weight), other in zip(model.named_parameters(), reference.parameters(), strict=True):
        largest = float(other.grad.abs().max())
        torch.testing.assert_close(weight.grad, other.grad, atol=1e-3 * largest, rtol=0, msg=name)


def test_rows_without_a_common_prompt_are_padded():
    model, shapes = tiny(), []
    model.model.layers[0].register_forward_hook(
        lambda _module, arguments, _output: shapes.append(arguments[0].shape[:2])
    )
    ids, attention = rows()
    completion_logps(model, ids[:1], attention[:1], STARTS[:1], MASK[:1], packs=True)
    assert shapes == [(1, 7)]


def test_a_model_whose_rows_would_see_each_other_is_not_packed(monkeypatch):
    model = tiny().eval()
    assert can_pack(model, 9)
    backbone = model.model.forward
    monkeypatch.setattr(
        model.model,
        "forward",
        lambda **named: backbone(**{key: value for key, value in named.items() if key != "attention_mask"}),
    )  # one long sequence
    assert not can_pack(model, 9)


def test_a_model_that_takes_no_mask_of_its_own_is_not_packed(monkeypatch):
    model = tiny().eval()
    backbone = model.model.forward

    def only_padding(*, attention_mask=None, **named):
        if attention_mask is not None and attention_mask.dim() != 2:
            raise ValueError("attention_mask has to be (batch, tokens)")
        return backbone(attention_mask=attention_mask, **named)

    monkeypatch.setattr(model.model, "forward", only_padding)
    assert not can_pack(model, 9)


def test_rows_beyond_a_sliding_window_are_not_packed():
    narrow = tiny(use_sliding_window=True, sliding_window=48, max_window_layers=0)
    assert can_pack(narrow, 48)
    assert not can_pack(narrow, 49)
    assert can_pack(tiny(sliding_window=48), 49)  # Qwen2 has the number, and does not use it


def test_only_wanted_positions_pass_through_the_head_and_never_more_than_a_chunk():
    model = tiny()
    ids, attention = rows()
    shapes = []
    model.lm_head.register_forward_hook(lambda _module, arguments, _output: shapes.append(tuple(arguments[0].shape)))
    with torch.no_grad():
        completion_logps(model, ids, attention, STARTS, MASK, chunk_size=4)
    assert shapes == [(4, 32), (4, 32), (3, 32)]  # 4 + 6 + 1 tokens of 21 positions


def test_a_backward_pass_keeps_no_logits():
    """What autograd holds between the passes: nothing as large as a chunk's logits, unless there is one chunk only."""
    model = tiny(vocab_size=5000)
    ids, attention = rows()

    def saved(chunk_size):
        largest = 0

        def pack(tensor):
            nonlocal largest
            if tensor.dim() == 2 and tensor.shape[1] == 5000 and tensor.shape[0] <= 11:
                largest = max(largest, tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            completion_logps(model, ids, attention, STARTS, MASK, chunk_size=chunk_size)
        return largest

    assert saved(chunk_size=100) == 11 * 5000
    assert saved(chunk_size=4) == 0


def test_a_batch_without_wanted_tokens_has_a_gradient_of_zero():
    model = tiny()
    ids, attention = rows()
    logps, _ = completion_logps(model, ids, attention, STARTS, torch.zeros(3, 6), chunk_size=4)
    logps.sum().backward()
    assert logps.tolist() == [[0.0] * 6] * 3
    assert all(weight.grad is None or not weight.grad.any() for weight in model.parameters())


def test_a_completion_needs_a_token_before_it():
    ids, attention = rows()
    with pytest.raises(InputError):
        completion_logps(tiny(), ids, attention, torch.tensor([3, 0, 5]), MASK)


def lora(model):
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(task_type="CAUSAL_LM", r=4, target_modules="all-linear", init_lora_weights=False)
    torch.manual_seed(4)
    return peft.get_peft_model(model, config)


def test_a_lora_learns_and_switched_off_it_is_its_base():
    base = tiny()
    model = lora(copy.deepcopy(base))
    ids, attention = rows()
    logps, _ = completion_logps(model, ids, attention, STARTS, MASK, chunk_size=4)
    expected, _ = plain(model)
    torch.testing.assert_close(logps, expected, atol=1e-4, rtol=1e-4)
    logps.sum().backward()
    gradients = {name: weight.grad for name, weight in model.named_parameters() if weight.requires_grad}
    assert gradients
    assert all(gradient.abs().sum() > 0 for gradient in gradients.values())

    with torch.no_grad(), model.disable_adapter():
        reference, _ = completion_logps(model, ids, attention, STARTS, MASK)
    torch.testing.assert_close(reference, plain(base)[0], atol=1e-5, rtol=1e-5)
    assert (reference - logps.detach()).abs().max() > 0.1


def test_a_model_that_bends_its_logits_is_followed():
    from transformers import Gemma2Config, Gemma2ForCausalLM, GraniteConfig, GraniteForCausalLM

    settings = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "initializer_range": 1.0,
    }
    torch.manual_seed(0)
    ids, attention = rows()
    for model in (
        Gemma2ForCausalLM(Gemma2Config(**settings, head_dim=16, final_logit_softcapping=2.0)),
        GraniteForCausalLM(GraniteConfig(**settings, logits_scaling=4.0)),
    ):
        model.eval()
        check_logits(model)
        logps, _ = completion_logps(model, ids, attention, STARTS, MASK, chunk_size=4)
        torch.testing.assert_close(logps, plain(model)[0], atol=1e-4, rtol=1e-4)


def test_a_model_that_does_something_unknown_to_its_logits_is_refused():
    check_logits(tiny())
    check_logits(lora(tiny()))
    odd = tiny()
    forward = odd.forward

    def bent(*args, **kwargs):
        output = forward(*args, **kwargs)
        output.logits = output.logits * 3
        return output

    odd.forward = bent
    with pytest.raises(ConfigurationError, match="cannot be computed in chunks"):
        check_logits(odd)
