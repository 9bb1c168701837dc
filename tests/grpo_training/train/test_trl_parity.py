"""The same batch through TRL's trainer and through ours: equal losses, gradients and figures.

TRL gets prompts padded on the left, as it makes them; ours gets rows without a gap. The policy has moved away from the
one that sampled, so that ratios differ from 1 and clipping acts.
"""

import copy
import itertools
import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from grpo_training.export import __main__ as export
from tests.support.recorded_replies import EXAMPLE

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from grpo_training.rl_math.losses import StepTotals, policy_loss  # noqa: E402
from grpo_training.train.objective.logprobs import completion_logps  # noqa: E402

PROMPT_LENGTHS = (3, 5, 2, 5, 4, 3, 5, 1)
COMPLETION_LENGTHS = (6, 2, 4, 7, 1, 5, 3, 7)
MAX_COMPLETION_LENGTH = 9
TEMPERATURE = 0.8
EPSILON, EPSILON_HIGH = 0.2, 0.28
BETA = 0.07


@dataclass
class Batch:
    """One batch in both layouts, with log-probs of the policy that sampled and of the reference."""

    trl: dict
    ids: object
    attention: object
    starts: object
    mask: object
    old: object
    ref: object
    advantages: object


@pytest.fixture(autouse=True)
def _no_telemetry(monkeypatch):
    monkeypatch.setenv("CI", "1")  # TRL's trainers then do not report that they were made


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory) -> Path:
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    folder = tmp_path_factory.mktemp("tiny")
    torch.manual_seed(1)
    config = Qwen3Config(
        vocab_size=96,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        initializer_range=0.3,  # far from uniform: every token has a probability of its own
        tie_word_embeddings=True,
    )
    Qwen3ForCausalLM(config).save_pretrained(folder)
    words = {"<pad>": 0, "<eos>": 1} | {f"w{n}": n for n in range(2, 96)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>").save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def model(model_folder):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)


@pytest.fixture(scope="module")
def batch(model) -> Batch:
    torch.manual_seed(3)
    rows, prompt, completion = len(PROMPT_LENGTHS), max(PROMPT_LENGTHS), max(COMPLETION_LENGTHS)
    ids = torch.zeros(rows, prompt + completion, dtype=torch.long)
    attention = torch.zeros_like(ids)
    prompt_ids, prompt_mask = torch.zeros(rows, prompt, dtype=torch.long), torch.zeros(rows, prompt, dtype=torch.long)
    completion_ids = torch.zeros(rows, completion, dtype=torch.long)
    mask = torch.zeros(rows, completion, dtype=torch.long)
    for row, (p, c) in enumerate(zip(PROMPT_LENGTHS, COMPLETION_LENGTHS, strict=True)):
        tokens = torch.randint(2, 96, (p + c,))
        ids[row, : p + c], attention[row, : p + c] = tokens, 1
        prompt_ids[row, prompt - p :], prompt_mask[row, prompt - p :] = tokens[:p], 1
        completion_ids[row, :c], mask[row, :c] = tokens[p:], 1
    starts = torch.tensor(PROMPT_LENGTHS)
    with torch.no_grad():
        logps, _ = completion_logps(model, ids, attention, starts, mask, temperature=TEMPERATURE)
    old = (logps + 0.5 * torch.randn(rows, completion)) * mask
    ref = (logps + 0.3 * torch.randn(rows, completion)) * mask
    advantages = torch.tensor([1.2, -0.7, 0.4, -0.9, 1.5, -1.1, 0.6, -1.0])
    trl = {
        "prompt_ids": prompt_ids,
        "prompt_mask": prompt_mask,
        "completion_ids": completion_ids,
        "completion_mask": mask,
        "advantages": advantages,
        "old_per_token_logps": old,
        "ref_per_token_logps": ref,
        "num_items_in_batch": mask.sum(),
    }
    return Batch(trl, ids, attention, starts, mask, old, ref, advantages)


def trl_trainer(folder: Path, output: Path, *, accumulation: int = 1, **settings):
    """TRL's own trainer; the batch is handed to its loss, so it neither samples nor rewards."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    config = GRPOConfig(
        output_dir=str(output),
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        report_to="none",
        save_strategy="no",
        per_device_train_batch_size=len(PROMPT_LENGTHS) // accumulation,
        gradient_accumulation_steps=accumulation,
        num_generations=2,
        max_completion_length=MAX_COMPLETION_LENGTH,
        temperature=TEMPERATURE,
        top_entropy_quantile=1.0,
        mask_truncated_completions=False,
        disable_dropout=True,
        use_bias_correction_kl=False,
        delta=None,
        **settings,
    )
    trainer = GRPOTrainer(
        model=str(folder),
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=config,
        train_dataset=Dataset.from_list([{"prompt": "w2 w3"}] * 8),
    )
    trainer.current_gradient_accumulation_steps = accumulation  # its training loop would set this
    trainer.model.train()
    return trainer


def share_of(batch: Batch, start: int, stop: int) -> dict:
    return {key: value[start:stop] if value.dim() else value for key, value in batch.trl.items()}


def loss_and_gradients_of_trl(trainer, micro_batches: list[dict]) -> tuple[float, dict]:
    total = 0.0
    for inputs in micro_batches:
        loss = trainer.compute_loss(trainer.model, inputs)
        loss.backward()
        total += loss.item()
    return total, {name: weight.grad for name, weight in trainer.model.named_parameters()}


def loss_and_gradients_of_ours(model, batch: Batch, cuts: list[tuple[int, int]], **settings):
    model = copy.deepcopy(model).train()
    totals = StepTotals(sequences=len(batch.ids), tokens=int(batch.mask.sum()))
    total, figures = 0.0, {}
    for start, stop in cuts:
        rows = slice(start, stop)
        logps, entropy = completion_logps(
            model,
            batch.ids[rows],
            batch.attention[rows],
            batch.starts[rows],
            batch.mask[rows],
            temperature=TEMPERATURE,
            chunk_size=5,
            entropy=True,
        )
        ref = batch.ref[rows] if settings.get("beta") else None
        term = policy_loss(
            logps,
            batch.old[rows],
            batch.advantages[rows],
            batch.mask[rows],
            ref_logps_BC=ref,
            max_completion_length=MAX_COMPLETION_LENGTH,
            totals=totals,
            **settings,
        )
        term.loss.backward()
        total += term.loss.item()
        figures["entropy"] = figures.get("entropy", 0.0) + float(entropy.sum()) / totals.tokens
        for name, value in term.metrics.items():
            figures[name] = figures.get(name, 0.0) + value
    return total, {name: weight.grad for name, weight in model.named_parameters()}, figures


def assert_equal_gradients(ours: dict, theirs: dict) -> None:
    assert ours.keys() == theirs.keys()
    assert sum(float(gradient.abs().sum()) for gradient in theirs.values()) > 1  # something to compare
    for name, gradient in theirs.items():
        torch.testing.assert_close(ours[name], gradient, atol=1e-4, rtol=1e-4, msg=lambda text, n=name: f"{n}: {text}")


CASES = [
    pytest.param(
        {"loss_type": loss_type, "importance_sampling_level": level, "beta": beta},
        id=f"{loss_type}-{level}-beta{beta:g}",
    )
    for loss_type, level, beta in itertools.product(
        ("grpo", "dr_grpo", "dapo", "bnpo", "cispo"), ("token", "sequence"), (0.0, BETA)
    )
]


def explicit(settings: dict) -> dict:
    """Every value that shapes the loss, so that neither side falls back on a default; bounds that act on this batch.

    A ratio per response is a mean, and so nearer to 1. The bound of cispo is on the ratio itself.
    """
    narrow = settings["importance_sampling_level"] == "sequence"
    low, high = (0.02, 0.03) if narrow else (EPSILON, EPSILON_HIGH)
    if settings["loss_type"] == "cispo":
        high += 1
    return {"epsilon": low, "epsilon_high": high} | settings


@pytest.mark.parametrize("case", CASES)
def test_loss_gradients_and_figures_equal_trls(case, model, model_folder, batch, tmp_path):
    settings = explicit(case)
    trainer = trl_trainer(model_folder, tmp_path, **settings)
    their_loss, theirs = loss_and_gradients_of_trl(trainer, [batch.trl])
    our_loss, ours, figures = loss_and_gradients_of_ours(model, batch, [(0, 8)], **settings)

    assert abs(their_loss) > 1e-3
    assert our_loss == pytest.approx(their_loss, abs=1e-5)
    assert_equal_gradients(ours, theirs)

    names = {"clip_ratio/low_mean", "clip_ratio/high_mean", "clip_ratio/region_mean", "cispo_clip_ratio", "kl"}
    for name in {"entropy"} | (names & figures.keys()):
        assert figures[name] == pytest.approx(trainer._metrics["train"][name][0], abs=1e-5), name
    clipping = [figures[name] for name in ("clip_ratio/region_mean", "cispo_clip_ratio") if name in figures]
    assert 0 < clipping[0] < 1  # it acts, and not everywhere


@pytest.mark.parametrize("loss_type", ["grpo", "dr_grpo", "dapo", "cispo"])
def test_an_accumulated_step_equals_trls(loss_type, model, model_folder, batch, tmp_path):
    settings = explicit({"loss_type": loss_type, "importance_sampling_level": "token", "beta": BETA})
    trainer = trl_trainer(model_folder, tmp_path, accumulation=2, steps_per_generation=2, **settings)
    their_loss, theirs = loss_and_gradients_of_trl(trainer, [share_of(batch, 0, 4), share_of(batch, 4, 8)])
    our_loss, ours, _ = loss_and_gradients_of_ours(model, batch, [(0, 4), (4, 8)], **settings)
    assert our_loss == pytest.approx(their_loss, abs=1e-5)
    assert_equal_gradients(ours, theirs)


def test_without_old_log_probs_both_learn_on_policy(model, model_folder, batch, tmp_path):
    settings = explicit({"loss_type": "dapo", "importance_sampling_level": "token", "beta": 0.0})
    trainer = trl_trainer(model_folder, tmp_path, **settings)
    inputs = {key: value for key, value in batch.trl.items() if key != "old_per_token_logps"}
    their_loss, theirs = loss_and_gradients_of_trl(trainer, [inputs])
    unknown = copy.copy(batch)
    unknown.old = torch.full_like(batch.old, float("nan"))
    our_loss, ours, figures = loss_and_gradients_of_ours(model, unknown, [(0, 8)], **settings)
    assert our_loss == pytest.approx(their_loss, abs=1e-5)
    assert_equal_gradients(ours, theirs)
    assert figures["old_logps_missing"] == sum(COMPLETION_LENGTHS)
    assert figures["ratio_mean"] == pytest.approx(1.0)


def test_a_token_that_vllm_sampled_has_its_weight_in_the_loss_of_online_training(model_folder, batch, tmp_path):
    """The loss is TRL's, with p(trained model) / p(vLLM) as a factor of each token."""
    from trl import GRPOTrainer

    from grpo_training.train.online.trainer import GRPOWithImitationTrainer

    assert GRPOWithImitationTrainer._compute_loss is GRPOTrainer._compute_loss
    trainer = trl_trainer(model_folder, tmp_path, loss_type="dapo", beta=0.0)
    plain, _ = loss_and_gradients_of_trl(trainer, [batch.trl])
    trainer.use_vllm = trainer.vllm_importance_sampling_correction = True
    ratio = {"importance_sampling_ratio": torch.full_like(batch.old, 0.5)}
    weighted, _ = loss_and_gradients_of_trl(trainer, [batch.trl | ratio])
    assert weighted == pytest.approx(0.5 * plain, abs=1e-6)
    assert plain != 0


@pytest.mark.parametrize("form", ["trl-sft", "trl-dpo", "trl-kto", "trl-grpo"])
def test_exported_rows_are_conversational_for_trl(tmp_path, form):
    from trl.data_utils import is_conversational

    file = tmp_path / "rows.jsonl"
    assert export.main([str(EXAMPLE), "--to", form, "--output", str(file), "--prompts", "compact"]) == 0
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert rows
    assert all(is_conversational(row) for row in rows)
