"""``python -m grpo_training.pocket.train``: makes the pocket model from scratch, on a CPU or a GPU."""

from __future__ import annotations

import json
import math
import random
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from grpo_training.cli.entry import run_command
from grpo_training.cli.settings import WORKING_DIR, Positive, Settings, parse_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import torch
    from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

    from grpo_training.pocket.corpus import Conversation

POOL = 512
"""Conversations that are drawn at once, sorted by length and cut into batches."""

CHOICE_WEIGHT = 8.0
"""How much the token where right and mistaken replies part counts against each other token."""

_IGNORED = -100
_STAGES = ((0.75, 4), (0.88, 10), (1.0, 26))
"""Until which share of the training how many lessons stand in a prompt: short prompts first."""


class PocketSettings(Settings):
    """Settings of ``python -m grpo_training.pocket.train``."""

    output: Path = Field(WORKING_DIR / "data/models/pocket", description="where the model is written")
    run_dir: Path = Field(WORKING_DIR / "grpo_training/cache/pocket", description="checkpoint and metrics.jsonl")
    tokens: Positive = Field(8_000_000, description="tokens to train on")
    batch_tokens: Positive = Field(4096, description="tokens in a batch")
    learning_rate: float = Field(2e-3, gt=0, description="the highest; warmed up, then along a cosine")
    hidden: Positive = Field(256, description="width of the model")
    layers: Positive = Field(6, description="layers of the model")
    seed: int = Field(0, description="seed of weights and corpus")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="where to train")
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="auto: bfloat16 where the device computes in it"
    )
    threads: Annotated[int, Field(ge=0)] = Field(0, description="CPU threads; 0: as torch thinks best")
    checkpoint_minutes: float = Field(3.0, gt=0, description="how often to save")
    evaluate_minutes: float = Field(10.0, gt=0, description="how often to evaluate on the validation split")
    fresh: bool = Field(False, description="begin anew, whatever the run folder holds")


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Goes on from the run folder's checkpoint where there is one. Returns the exit code."""
    settings = parse_settings(
        PocketSettings,
        argv,
        prog="python -m grpo_training.pocket.train",
        description="Makes the pocket model: tokenizer, training from scratch, evaluation, model card.",
    )
    from grpo_training.pocket.evaluate import EvaluateSettings, evaluate, load_model
    from grpo_training.pocket.model_card import write_card, write_model

    trainer = Trainer(settings)
    trainer.run()
    write_model(trainer.model, trainer.tokenizer, settings.output)
    figures = evaluate(*load_model(settings.output), EvaluateSettings.model_validate({"model": settings.output}))
    write_card(
        settings.output,
        figures,
        tokens=trainer.tokens,
        steps=trainer.steps,
        command=f"python -m grpo_training.pocket.train --tokens {settings.tokens} "
        f"--batch-tokens {settings.batch_tokens} --seed {settings.seed}",
    )
    return 0


class Trainer:
    """A training run and what of it survives an interruption.

    Args:
        settings: of the run.
        clock: seconds that only grow.
    """

    def __init__(self, settings: PocketSettings, clock: Callable[[], float] = time.monotonic) -> None:
        import torch

        self.settings, self._clock = settings, clock
        if settings.threads:
            torch.set_num_threads(settings.threads)
        self.device = torch.device(
            ("cuda" if torch.cuda.is_available() else "cpu") if settings.device == "auto" else settings.device
        )
        settings.run_dir.mkdir(parents=True, exist_ok=True)
        self.tokenizer = load_or_train_tokenizer(settings)
        torch.manual_seed(settings.seed)
        self.model = new_model(settings, self.tokenizer).to(self.device)
        self.optimizers = new_optimizers(self.model, settings.learning_rate)
        self.pools, self.steps, self.tokens = 0, 0, 0
        self._checkpoint = settings.run_dir / "checkpoint.pt"
        if self._checkpoint.exists() and not settings.fresh:
            self._restore()

    @property
    def progress(self) -> float:
        """Share of the tokens that were seen, 0 to 1."""
        return min(1.0, self.tokens / self.settings.tokens)

    def run(self) -> None:
        """Train to the end, saving and evaluating now and then."""
        from grpo_training.pocket.evaluate import validation_figures

        saved = evaluated = self._clock()
        while self.progress < 1:
            self._train_on_pool()
            now = self._clock()
            if now - saved > self.settings.checkpoint_minutes * 60 or self.progress >= 1:
                self._save()
                saved = now
            if now - evaluated > self.settings.evaluate_minutes * 60 or self.progress >= 1:
                self._log(kind="validation", **validation_figures(self.model, self.tokenizer))
                evaluated = self._clock()

    def _train_on_pool(self) -> None:
        started, tokens = self._clock(), self.tokens
        most = next(most for share, most in _STAGES if self.progress <= share)
        losses = [
            self._step(batch) for batch in batches(self.tokenizer, self.settings, self.pools, most) if self.progress < 1
        ]
        self.pools += 1
        seconds = self._clock() - started
        self._log(
            kind="train",
            loss=round(sum(losses) / len(losses), 5),
            learning_rate=round(learning_rate(self.settings.learning_rate, self.progress), 6),
            tokens_per_s=round((self.tokens - tokens) / seconds),
            most_lessons=most,
        )

    def _step(self, batch: Batch) -> float:
        import torch

        batch = Batch(**{name: tensor.to(self.device) for name, tensor in vars(batch).items()})
        rate = learning_rate(self.settings.learning_rate, self.progress)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self._uses_bfloat16):
            loss = reply_loss(self.model, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.steps += 1
        self.tokens += int((batch.ids != self.tokenizer.pad_token_id).sum())
        return float(loss.detach())

    @property
    def _uses_bfloat16(self) -> bool:
        """A CPU without bfloat16 units emulates it, ten times slower than float32."""
        import torch

        if self.settings.precision != "auto":
            return self.settings.precision == "bfloat16"
        if self.device.type == "cuda":
            return True
        return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())

    def _save(self) -> None:
        import torch

        state = {
            "model": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "counts": {"pools": self.pools, "steps": self.steps, "tokens": self.tokens},
        }
        part = self._checkpoint.with_suffix(".part")
        torch.save(state, part)
        part.replace(self._checkpoint)

    def _restore(self) -> None:
        import torch

        state = torch.load(self._checkpoint, map_location=self.device, weights_only=True)
        self.model.load_state_dict(state["model"])
        for optimizer, kept in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(kept)
        counts = state["counts"]
        self.pools, self.steps, self.tokens = counts["pools"], counts["steps"], counts["tokens"]

    def _log(self, **figures: Any) -> None:
        line = json.dumps({"step": self.steps, "tokens": self.tokens, **figures})
        with (self.settings.run_dir / "metrics.jsonl").open("a", encoding="utf-8") as handle:
            handle.write(line + "\n")
        print(line, file=sys.stderr, flush=True)


def new_model(settings: PocketSettings, tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """A model with fresh weights."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    heads = settings.hidden // 64
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=settings.hidden,
        intermediate_size=2 * settings.hidden,
        num_hidden_layers=settings.layers,
        num_attention_heads=heads,
        num_key_value_heads=max(1, heads // 2),
        head_dim=64,
        tie_word_embeddings=True,
        max_position_embeddings=4096,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Qwen3ForCausalLM(config)


def new_optimizers(model: Qwen3ForCausalLM, rate: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices inside the layers, AdamW for embeddings and norms."""
    import torch

    from grpo_training.pocket.muon import Muon

    matrices = [weight for weight in model.model.layers.parameters() if weight.ndim == 2]
    inside = set(matrices)
    rest = [weight for weight in model.parameters() if weight not in inside]
    return [
        Muon(matrices, lr=rate),
        torch.optim.AdamW(rest, lr=rate, betas=(0.9, 0.95), weight_decay=0.0),
    ]


def load_or_train_tokenizer(settings: PocketSettings) -> PreTrainedTokenizerFast:
    """The run's tokenizer; trained on the corpus where the run folder has none yet."""
    from transformers import AutoTokenizer

    from grpo_training.pocket.corpus import Corpus
    from grpo_training.pocket.tokenizer import train_tokenizer

    folder = settings.run_dir / "tokenizer"
    if folder.exists() and not settings.fresh:
        loaded: PreTrainedTokenizerFast = AutoTokenizer.from_pretrained(folder)
        return loaded
    rng, corpus = random.Random(f"{settings.seed}:tokenizer"), Corpus("train", 5)  # noqa: S311
    drawn = (corpus.draw(rng) for _ in range(40 * POOL))
    tokenizer = train_tokenizer(
        text for item in drawn for text in (*(message.content for message in item.messages), item.reply)
    )
    tokenizer.save_pretrained(folder)
    return tokenizer


@dataclass(frozen=True)
class Batch:
    """Conversations as tensors of the shape ``(conversations, length)``, padded at the end.

    Args:
        ids: the tokens.
        labels: the token itself where it belongs to a reply, else -100.
        others: where a reply parts from the other reply, that one's token, else -100.
        chances: there, how probable the own token was against the other's; 1 elsewhere.
    """

    ids: torch.Tensor
    labels: torch.Tensor
    others: torch.Tensor
    chances: torch.Tensor


@dataclass(frozen=True)
class Encoded:
    """A conversation's token ids, the number of them in its prompt, and where the choice falls."""

    ids: list[int]
    prompt: int
    fork: int
    other: int
    chance: float


def batches(
    tokenizer: PreTrainedTokenizerFast, settings: PocketSettings, pool: int, most_lessons: int
) -> Iterator[Batch]:
    """The batches of one pool: conversations of like length together, in random order."""
    from grpo_training.pocket.corpus import Corpus

    rng, corpus = random.Random(f"{settings.seed}:{pool}"), Corpus("train", most_lessons)  # noqa: S311
    rows = sorted((encode(tokenizer, corpus.draw(rng)) for _ in range(POOL)), key=lambda row: len(row.ids))
    cut: list[list[Encoded]] = [[]]
    for row in rows:
        if (len(cut[-1]) + 1) * len(row.ids) > settings.batch_tokens and cut[-1]:
            cut.append([])
        cut[-1].append(row)
    rng.shuffle(cut)
    for part in cut:
        yield _batch(part, int(tokenizer.pad_token_id))


def _batch(rows: Sequence[Encoded], padding: int) -> Batch:
    import torch

    shape = len(rows), max(len(row.ids) for row in rows)
    ids, labels, others = (torch.full(shape, fill) for fill in (padding, _IGNORED, _IGNORED))
    chances = torch.ones(shape)
    for place, row in enumerate(rows):
        tokens, length = torch.tensor(row.ids), len(row.ids)
        ids[place, :length] = tokens
        labels[place, row.prompt : length] = tokens[row.prompt :]
        others[place, row.fork] = row.other
        chances[place, row.fork] = row.chance
    return Batch(ids, labels, others, chances)


def encode(tokenizer: PreTrainedTokenizerFast, conversation: Conversation) -> Encoded:
    """The tokens of a conversation."""
    messages = [message.model_dump() for message in conversation.messages]
    prompt = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    prompt_ids, reply, other = (
        tokenizer(text)["input_ids"]
        for text in (
            prompt,
            conversation.reply + tokenizer.eos_token,
            conversation.other_reply + tokenizer.eos_token,
        )
    )
    fork = next(index for index, (one, two) in enumerate(zip(reply, other, strict=False)) if one != two)
    return Encoded(prompt_ids + reply, len(prompt_ids), len(prompt_ids) + fork, other[fork], conversation.chance)


def reply_loss(model: Qwen3ForCausalLM, batch: Batch) -> torch.Tensor:
    """Cross entropy of the replies' tokens, where the choice falls against both ways by their chances.

    The corpus knows how probable each way is, so the model is shown that and not only one throw of the dice. A
    choice is one token among many, and it is what counts; it weighs ``CHOICE_WEIGHT``.

    Padding stands behind all that counts, so causal attention alone hides it. Logits are made only where a
    label is.

    Returns:
        the weighted sum over the number of the replies' tokens.
    """
    import torch.nn.functional as functional

    hidden = model.model(input_ids=batch.ids, use_cache=False).last_hidden_state[:, :-1]
    counts = batch.labels[:, 1:] != _IGNORED
    labels, others, chances = (tensor[:, 1:][counts] for tensor in (batch.labels, batch.others, batch.chances))
    logits = model.lm_head(hidden[counts]).float()
    own = functional.cross_entropy(logits, labels, reduction="none")
    other = functional.cross_entropy(logits, others, reduction="none", ignore_index=_IGNORED)
    weights = 1 + (CHOICE_WEIGHT - 1) * (others != _IGNORED)
    return (weights * (chances * own + (1 - chances) * other)).sum() / len(labels)


def learning_rate(highest: float, progress: float, warm_up: float = 0.02, lowest: float = 0.03) -> float:
    """Linear up, then a cosine down to ``lowest`` of the highest.

    Args:
        highest: the peak.
        progress: share of the training that is done, 0 to 1.
        warm_up: share of the training until the peak.
        lowest: the end, as a share of the peak.
    """
    if progress < warm_up:
        return highest * (progress + 0.05 * warm_up) / (1.05 * warm_up)
    angle = math.pi * (progress - warm_up) / (1 - warm_up)
    return highest * (lowest + (1 - lowest) * 0.5 * (1 + math.cos(angle)))


if __name__ == "__main__":
    run_command(main)
