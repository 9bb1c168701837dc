"""A random model of two layers with a tokenizer of 40 words, on the disk, and samples for it."""

import json

from grpo_training.train.config import GRPOTrainingConfig
from grpo_training.train.data.samples import Sample

END, PAD = 0, 1
WORDS = ["<end>", "<pad>", "<user>", "<assistant>", *(f"w{number}" for number in range(36))]
TEMPLATE = (
    "{% for m in messages %}<{{ m['role'] }}> {{ m['content'] }} <end> {% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def write_model(folder, *, hidden=32, seed=0, more_words=(), template=TEMPLATE):
    """Write the model into ``folder``; the same seed gives the same weights."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(WORDS) + len(more_words),
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        tie_word_embeddings=True,
        max_position_embeddings=128,
        bos_token_id=None,
        eos_token_id=END,
        pad_token_id=PAD,
    )
    Qwen3ForCausalLM(config).save_pretrained(folder)
    words = Tokenizer(
        models.WordLevel({word: number for number, word in enumerate((*WORDS, *more_words))}, unk_token="<pad>")
    )
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<end>", pad_token="<pad>")
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    return folder


def settings(model, **changes):
    """A configuration for the tiny model: float32, no schedule, nothing held back."""
    values = {
        "model_name_or_path": str(model),
        "dataset_path": "unused.jsonl",
        "learning_rate": 5e-3,
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 2,
        "num_train_epochs": 2,
        "warmup_steps": 0,
        "lr_scheduler_type": "constant",
        "beta": 0.0,
        "self_sft_weight": 0.0,
        "lora_r": 4,
        "bf16": False,
        "max_completion_length": 8,
    }
    return GRPOTrainingConfig.model_validate(values | changes)


def sample(completion, reward, advantage, *, group="g0", prompt=(2, 10, 11, 3), old=None, truncated=False):
    """One row."""
    return Sample(
        group_id=group,
        prompt_ids=tuple(prompt),
        completion_ids=tuple(completion),
        reward=reward,
        advantage=advantage,
        old_logps=old,
        ids_source="server",
        truncated=truncated,
        is_correct=reward == 1.0,
    )


def good_and_bad(count=6):
    """Groups of four: two replies with the word 20 have reward 1, two with the word 21 have 0; lengths differ."""
    return [
        [
            sample((20, 12 + number, END), 1.0, 1.0, group=f"g{number}", prompt=(2, 10 + number, 3)),
            sample((20, END), 1.0, 1.0, group=f"g{number}", prompt=(2, 10 + number, 3)),
            sample((21, 13, 14, END), 0.0, -1.0, group=f"g{number}", prompt=(2, 10 + number, 3)),
            sample((21, END), 0.0, -1.0, group=f"g{number}", prompt=(2, 10 + number, 3)),
        ]
        for number in range(count)
    ]


def logps(model, rows):
    """The log-prob of each row's completion under ``model``, in the plainest way."""
    import torch

    with torch.no_grad():
        totals = []
        for row in rows:
            ids = torch.tensor([row.prompt_ids + row.completion_ids], device=model.device)
            scores = model(input_ids=ids).logits.float().log_softmax(-1)[0, :-1]
            tokens = scores.gather(1, ids[0, 1:, None])[:, 0]
            totals.append(float(tokens[len(row.prompt_ids) - 1 :].sum()))
    return totals


def load(folder):
    """A model on the disk, for measuring."""
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder).eval()


def lines(run_dir):
    """What stands in metrics.jsonl."""
    return [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
