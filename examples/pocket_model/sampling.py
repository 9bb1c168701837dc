"""Samples replies of a model in this process, in batches and without a server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import AutoTokenizer, PreTrainedTokenizerFast, Qwen3ForCausalLM

from engine.records import Message

MAX_REPLY_TOKENS = 160


def load_model(folder: Path) -> tuple[Qwen3ForCausalLM, PreTrainedTokenizerFast]:
    """A stored model and its tokenizer, in float32 on the CPU."""
    return Qwen3ForCausalLM.from_pretrained(folder, dtype="float32"), AutoTokenizer.from_pretrained(folder)


def sample_replies(
    model: Qwen3ForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    prompts: Sequence[tuple[Message, ...]],
    *,
    temperature: float = 1.0,
    seed: int = 0,
    batch: int = 64,
) -> list[str]:
    """One reply per prompt, in their order; greedy at temperature 0."""
    texts = [
        tokenizer.apply_chat_template(
            [message.model_dump() for message in prompt], tokenize=False, add_generation_prompt=True
        )
        for prompt in prompts
    ]
    order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
    replies = [""] * len(texts)
    was_training = model.training
    model.eval()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        for start in range(0, len(order), batch):
            chosen = order[start : start + batch]
            inputs = tokenizer([texts[index] for index in chosen], return_tensors="pt", padding=True)
            how = {"do_sample": True, "temperature": temperature} if temperature > 0 else {"do_sample": False}
            with torch.no_grad():
                output = model.generate(
                    input_ids=inputs["input_ids"].to(model.device),
                    attention_mask=inputs["attention_mask"].to(model.device),
                    max_new_tokens=MAX_REPLY_TOKENS,
                    top_k=0,
                    top_p=1.0,
                    eos_token_id=tokenizer.eos_token_id,
                    pad_token_id=tokenizer.pad_token_id,
                    **how,
                )
            fresh = output[:, inputs["input_ids"].shape[1] :]
            for index, text in zip(chosen, tokenizer.batch_decode(fresh, skip_special_tokens=True), strict=True):
                replies[index] = text
    model.train(was_training)
    return replies
