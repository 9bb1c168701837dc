"""The figures of the pocket model, by role and by family."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

from examples.pocket_model.corpus import Conversation, Corpus, prompt_hashes
from examples.pocket_model.judging import judge, majority_is_right, rate
from examples.pocket_model.quickstart import FAMILIES
from examples.pocket_model.sampling import load_model, sample_replies
from examples.pocket_model.settings import PocketEvaluateSettings


def print_figures(settings: PocketEvaluateSettings) -> int:
    """Evaluate, print the figures as JSON and write them to the output file; the exit code."""
    text = json.dumps(evaluate(*load_model(settings.model), settings), indent=1)
    print(text)
    if settings.output is not None:
        settings.output.write_text(text + "\n", encoding="utf-8")
    return 0


def validation_figures(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast) -> dict[str, Any]:
    """Figures of a short evaluation on the validation split."""
    settings = PocketEvaluateSettings.model_validate({"split": "validation", "per_family": 4})
    figures = evaluate(model, tokenizer, settings)
    return {name: value for name, value in figures.items() if "json" in value}


def evaluate(
    model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, settings: PocketEvaluateSettings
) -> dict[str, Any]:
    """All figures: shares between 0 and 1 by setting, and by family.

    The analyst samples at temperature 0, as in learning.
    """
    corpus = Corpus(settings.split, settings.most_lessons - 1)
    settings_of: dict[str, tuple[Callable[..., Conversation], str, float]] = {
        "generator, no lesson": (corpus.generator, "none", settings.temperature),
        "generator, other lessons": (corpus.generator, "others", settings.temperature),
        "generator, fitting lesson": (corpus.generator, "fitting", settings.temperature),
        "critic, no lesson": (corpus.critic, "none", settings.temperature),
        "critic, fitting lesson": (corpus.critic, "fitting", settings.temperature),
        "analyst, new lesson": (corpus.analyst, "others", 0.0),
        "analyst, known lesson": (corpus.analyst, "fitting", 0.0),
    }
    figures: dict[str, Any] = {"settings": settings.model_dump(mode="json", exclude={"model", "output"})}
    by_family: dict[str, dict[str, float]] = {name: {} for name in FAMILIES}
    for name, (draw, lessons, temperature) in settings_of.items():
        rng = random.Random(f"{settings.seed}:{name}")
        asked = [draw(family, rng, lessons) for family in FAMILIES.values() for _ in range(settings.per_family)]
        replies = sample_replies(
            model, tokenizer, [item.messages for item in asked], temperature=temperature, seed=settings.seed
        )
        judged = [judge(item, reply) for item, reply in zip(asked, replies, strict=True)]
        figures[name] = {"json": rate(item.is_json for item in judged), "right": rate(item.right for item in judged)}
        if name.startswith("critic"):
            figures[name]["majority"] = rate(majority_is_right(item) for item in asked)
        for family in FAMILIES:
            by_family[family][name] = rate(
                item.right for item in judged if item.conversation.instance.family.name == family
            )
    figures["families"], figures["prompts"] = by_family, prompt_hashes()
    return figures
