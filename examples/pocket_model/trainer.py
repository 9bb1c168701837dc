"""The training of the pocket model from scratch, on a CPU or a GPU."""

from __future__ import annotations

import json
import math
import random
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional
from transformers import AutoTokenizer, PreTrainedTokenizerFast, Qwen3ForCausalLM

from examples.pocket_model.batches import IGNORED, Batch, draw_batches
from examples.pocket_model.corpus import Corpus
from examples.pocket_model.evaluation import evaluate, validation_figures
from examples.pocket_model.model_card import write_card
from examples.pocket_model.muon import Muon
from examples.pocket_model.new_model import new_model, write_model
from examples.pocket_model.sampling import load_model
from examples.pocket_model.settings import PocketEvaluateSettings, PocketTrainSettings
from examples.pocket_model.tokenizer import pocket_tokenizer

POOL = 512
"""Conversations that are drawn at a time, sorted by length and divided into batches."""

CHOICE_WEIGHT = 8.0
"""Weight of the token that decides between the right and the mistaken reply; other tokens have weight 1."""

_STAGES = ((0.75, 4), (0.88, 10), (1.0, 26))
"""(share of the training, maximum number of experiences in a prompt until then): short prompts first."""


def make_model(settings: PocketTrainSettings) -> None:
    """Train, then write the model, its figures and its card."""
    trainer = Trainer(settings)
    trainer.run()
    write_model(trainer.model, trainer.tokenizer, settings.output)
    figures = evaluate(*load_model(settings.output), PocketEvaluateSettings.model_validate({"model": settings.output}))
    write_card(
        settings.output,
        figures,
        tokens=trainer.tokens,
        steps=trainer.steps,
        command=f"python -m examples.pocket_model.train --tokens {settings.tokens} "
        f"--batch-tokens {settings.batch_tokens} --seed {settings.seed}",
    )


class Trainer:
    """A training run with its checkpoint.

    Args:
        settings: the command's settings.
        pool: conversations per pool, see :data:`POOL`.
        validate: figures of the model during training.
        clock: monotonic time in seconds.
    """

    def __init__(
        self,
        settings: PocketTrainSettings,
        *,
        pool: int = POOL,
        validate: Callable[[Qwen3ForCausalLM, PreTrainedTokenizerFast], dict[str, Any]] = validation_figures,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings, self._pool, self._validate, self._clock = settings, pool, validate, clock
        if settings.threads:
            torch.set_num_threads(settings.threads)
        self.device = torch.device(
            ("cuda" if torch.cuda.is_available() else "cpu") if settings.device == "auto" else settings.device
        )
        settings.run_dir.mkdir(parents=True, exist_ok=True)
        self.tokenizer = load_or_train_tokenizer(settings, pool)
        torch.manual_seed(settings.seed)
        self.model = new_model(settings.hidden, settings.layers, self.tokenizer).to(self.device)
        self.optimizers = new_optimizers(self.model, settings.learning_rate)
        self.pools, self.steps, self.tokens = 0, 0, 0
        self._checkpoint = settings.run_dir / "checkpoint.pt"
        if self._checkpoint.exists() and not settings.fresh:
            self._restore()

    @property
    def progress(self) -> float:
        """Share of the training tokens that were processed, 0 to 1."""
        return min(1.0, self.tokens / self.settings.tokens)

    def run(self) -> None:
        """Train to the end; save checkpoints and evaluate at intervals."""
        saved = evaluated = self._clock()
        while self.progress < 1:
            self.train_on_pool()
            now = self._clock()
            if now - saved > self.settings.checkpoint_minutes * 60 or self.progress >= 1:
                self.save()
                saved = now
            if now - evaluated > self.settings.evaluate_minutes * 60 or self.progress >= 1:
                self._log(kind="validation", **self._validate(self.model, self.tokenizer))
                evaluated = self._clock()

    def train_on_pool(self) -> None:
        """Draw one pool of conversations and train on all of its batches."""
        started, tokens = self._clock(), self.tokens
        most = next(most for share, most in _STAGES if self.progress <= share)
        drawn = draw_batches(self.tokenizer, self.settings, self.pools, most, self._pool)
        losses = [self._step(batch) for batch in drawn if self.progress < 1]
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
        """Whether to compute in bfloat16. CPUs without native support emulate it ten times slower than float32."""
        if self.settings.precision != "auto":
            return self.settings.precision == "bfloat16"
        if self.device.type == "cuda":
            return True
        return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())

    def save(self) -> None:
        """Write the checkpoint atomically."""
        state = {
            "model": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "counts": {"pools": self.pools, "steps": self.steps, "tokens": self.tokens},
        }
        temporary = self._checkpoint.with_suffix(".part")
        torch.save(state, temporary)
        temporary.replace(self._checkpoint)

    def _restore(self) -> None:
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


def new_optimizers(model: Qwen3ForCausalLM, rate: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the layers, AdamW for embeddings and norms."""
    matrices = [weight for weight in model.model.layers.parameters() if weight.ndim == 2]
    inside = set(matrices)
    others = [weight for weight in model.parameters() if weight not in inside]
    return [
        Muon(matrices, lr=rate),
        torch.optim.AdamW(others, lr=rate, betas=(0.9, 0.95), weight_decay=0.0),
    ]


def load_or_train_tokenizer(settings: PocketTrainSettings, pool: int = POOL) -> PreTrainedTokenizerFast:
    """The tokenizer of the run folder; if there is none, it is trained on 40 pools of the corpus."""
    folder = settings.run_dir / "tokenizer"
    if folder.exists() and not settings.fresh:
        loaded: PreTrainedTokenizerFast = AutoTokenizer.from_pretrained(folder)
        return loaded
    rng, corpus = random.Random(f"{settings.seed}:tokenizer"), Corpus("train", 5)
    drawn = (corpus.draw(rng) for _ in range(40 * pool))
    tokenizer = pocket_tokenizer(
        text for item in drawn for text in (*(message.content for message in item.messages), item.reply)
    )
    tokenizer.save_pretrained(folder)
    return tokenizer


def reply_loss(model: Qwen3ForCausalLM, batch: Batch) -> torch.Tensor:
    """Cross entropy of the replies' tokens; at the choice, against both tokens weighted by their probabilities.

    The corpus knows how probable the right and the mistaken reply are, so the soft target replaces a single random
    draw. The choice is one token among many and has the weight ``CHOICE_WEIGHT``.

    Padding is at the end, so the causal mask hides it. Logits are computed only at positions with a label.

    Returns:
        the weighted sum divided by the number of the replies' tokens.
    """
    hidden = model.model(input_ids=batch.ids, use_cache=False).last_hidden_state[:, :-1]
    counts = batch.labels[:, 1:] != IGNORED
    labels, others, chances = (tensor[:, 1:][counts] for tensor in (batch.labels, batch.others, batch.chances))
    logits = model.lm_head(hidden[counts]).float()
    own_loss = functional.cross_entropy(logits, labels, reduction="none")
    other_loss = functional.cross_entropy(logits, others, reduction="none", ignore_index=IGNORED)
    weights = 1 + (CHOICE_WEIGHT - 1) * (others != IGNORED)
    return (weights * (chances * own_loss + (1 - chances) * other_loss)).sum() / len(labels)


def learning_rate(highest: float, progress: float, warm_up: float = 0.02, lowest: float = 0.03) -> float:
    """The learning rate: linear warm-up, then cosine decay.

    Args:
        highest: the peak.
        progress: completed share of the training, 0 to 1.
        warm_up: share of the training until the peak.
        lowest: the final rate as a share of the peak.
    """
    if progress < warm_up:
        return highest * (progress + 0.05 * warm_up) / (1.05 * warm_up)
    angle = math.pi * (progress - warm_up) / (1 - warm_up)
    return highest * (lowest + (1 - lowest) * 0.5 * (1 + math.cos(angle)))
