"""Writes the pocket model's folder: weights, tokenizer, generation config, figures and model card."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import torch
from safetensors import safe_open
from transformers import GenerationConfig

from engine.tasks.math.quickstart import FAMILIES
from grpo_training.pocket.corpus import RIGHT_WITH_LESSON
from grpo_training.pocket.tokenizer import RESPONSE_TEMPLATE

if TYPE_CHECKING:
    from pathlib import Path

    from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

_CARD = """\
---
license: mit
language: en
pipeline_tag: text-generation
---

# The pocket model

A language model of {parameters:.1f} million parameters, made from scratch, that speaks all the roles of this
project: it writes causal scaffolds (generator), fuses them (critic) and draws lessons from scored groups
(analyst). It is there so that the whole loop can be run and tested on a laptop's CPU with a model that really
samples, errs and improves.

Architecture: Qwen3, {layers} layers of width {hidden}, tied embeddings, bfloat16. Tokenizer: its own byte-level
BPE, {vocabulary} tokens, digits single. Prompts: `prompts/compact/`; it was trained on exactly these words and
understands no others.

## Training data

Everything is written by `engine/tasks/math/quickstart`:
{families} families of short word problems ({wordings:,} wordings),
each with a mistake that people really make. Splits (train, validation, test) are disjoint by wording, by the
choice of numbers and by the paraphrases of the lessons.

Without a relevant experience in the prompt the corpus mixes right and mistaken scaffolds, about half and half,
differing by family; with one, {right_with_lesson:.0%} are right. Lessons are paraphrased, mixed with irrelevant
ones, in any order. So the base model has habits, experiences steer it, and gradient training can sharpen it: an
honest miniature of what large models do.

Trained on {tokens:,} tokens in {steps:,} steps (Muon for the layers, AdamW for the rest, cosine schedule), loss on
the replies only. The command that makes it again (seeded; it goes on where it was stopped; CPU or GPU):

    {command}

## Figures

Split `{split}`, temperature {temperature:g} (analyst: 0, as the main job asks it), {per_family} problems a family
and row, at most {most_lessons} lessons in a prompt. Right is what the program computes from the scaffold.

| role and prompt | valid JSON | right | majority of its proposals |
| --- | --- | --- | --- |
{rows}

Right by family:

| family | no lesson | fitting lesson among others |
| --- | --- | --- |
{family_rows}

The same figures again, and others: `python -m grpo_training.pocket.evaluate --help`.

## Limits

It knows these {families} families and nothing else: another problem gets the scaffold of the nearest family, with
confidence. It does no arithmetic; it leaves `final_answer` empty, and the program that executes the graph finds
the number. Its lessons are those that it was taught, in other words at best. What it gains by experiences was put
into it by its corpus and says nothing about how much another model would gain.
"""


def write_model(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write the weights in bfloat16, the tokenizer with its chat template, and the generation config."""
    folder.mkdir(parents=True, exist_ok=True)
    model.generation_config = GenerationConfig(
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        max_new_tokens=256,
    )
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    _make_portable(folder / "tokenizer_config.json")


def _make_portable(path: Path) -> None:
    """Make the tokenizer's config readable for older servers. The special tokens are in ``tokenizer.json``."""
    config = json.loads(path.read_text(encoding="utf-8"))
    config.pop("extra_special_tokens", None)
    config["tokenizer_class"] = "PreTrainedTokenizerFast"
    config["response_template"] = RESPONSE_TEMPLATE
    path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def write_card(folder: Path, figures: dict[str, Any], *, tokens: int, steps: int, command: str) -> None:
    """Write ``evaluation.json`` and ``README.md`` beside a model.

    Args:
        folder: folder of the model.
        figures: from :func:`grpo_training.pocket.evaluation.evaluate`.
        tokens: number of training tokens.
        steps: number of optimizer steps.
        command: command that reproduces the model.
    """
    (folder / "evaluation.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    rows = [
        f"| {name} | {_percent(row['json'])} | {_percent(row['right'])} | {_percent(row.get('majority'))} |"
        for name, row in figures.items()
        if "json" in row
    ]
    family_rows = [
        f"| {name} | {_percent(row['generator, no lesson'])} | {_percent(row['generator, fitting lesson'])} |"
        for name, row in figures["families"].items()
    ]
    text = _CARD.format(
        parameters=_weights(folder) / 1e6,
        layers=config["num_hidden_layers"],
        hidden=config["hidden_size"],
        vocabulary=config["vocab_size"],
        families=len(FAMILIES),
        wordings=sum(len(family.wordings) for family in FAMILIES.values()),
        right_with_lesson=RIGHT_WITH_LESSON,
        tokens=tokens,
        steps=steps,
        command=command,
        rows="\n".join(rows),
        family_rows="\n".join(family_rows),
        **figures["settings"],
    )
    (folder / "README.md").write_text(text, encoding="utf-8")


def _weights(folder: Path) -> int:
    """The number of parameters in the model's file."""
    with safe_open(folder / "model.safetensors", "pt") as weights:
        shapes = [weights.get_slice(name).get_shape() for name in weights.keys()]  # noqa: SIM118 - not a mapping
    total = 0
    for shape in shapes:
        count = 1
        for size in shape:
            count *= size
        total += count
    return total


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f} %"
