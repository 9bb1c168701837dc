"""Writes the pocket model's folder: weights, tokenizer, generation config, figures and model card."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from safetensors import safe_open

from examples.pocket_model.corpus import RIGHT_WITH_LESSON
from examples.pocket_model.quickstart import FAMILIES
from grpo_training.cli.settings import POCKET_DATASET

_CARD = """\
---
license: mit
language: en
pipeline_tag: text-generation
---

# The pocket model

A language model of {parameters:.1f} million parameters, trained from scratch for the roles of this project: it
writes causal scaffolds (generator), fuses them (critic) and extracts experiences from scored groups (analyst). With it
the whole loop can be run and tested on the CPU of a laptop.

Architecture: Qwen3, {layers} layers of width {hidden}, tied embeddings, bfloat16. Tokenizer: its own byte-level
BPE, {vocabulary} tokens, one token per digit. Prompts: the style `pocket`. It was trained on exactly these prompts and
cannot use others.

## Training data

All text is generated from the dataset `{dataset}`: {families} families of short word problems
({wordings:,} wordings), each with a typical human mistake. The splits (train, validation, test)
are disjoint in wording, in the choice of numbers and in the paraphrases of the experiences.

Without a relevant experience in the prompt, about half of the scaffolds in the corpus are right; the share differs by
family. With one, {right_with_lesson:.0%} are right. Experiences are paraphrased, mixed with irrelevant ones, and in
random order. Therefore experiences change what the model answers, and gradient training can improve it.

Trained on {tokens:,} tokens in {steps:,} steps (Muon for the layers, AdamW for the rest, cosine schedule), loss on
the replies only. The command that trains it again (seeded; continues after an interruption; CPU or GPU):

    {command}

## Figures

Split `{split}`, temperature {temperature:g} (analyst: 0, as in a run), {per_family} problems per family
and row, at most {most_lessons} experiences in a prompt. An answer is right if the value
computed from the scaffold is right.

| role and prompt | valid JSON | right | majority of its proposals |
| --- | --- | --- | --- |
{rows}

Right by family:

| family | no experience | fitting experience among others |
| --- | --- | --- |
{family_rows}

To measure these figures again, and others: `python -m examples.pocket_model.evaluate --help`.

## Limits

It knows these {families} families and nothing else: another problem gets the scaffold of the nearest family.
It does no arithmetic: it leaves `final_answer` empty, and the program that executes the graph computes the number. Its
experiences are those of its corpus, at best in other words. Its gain by experiences comes from its corpus and says
nothing about how much another model would gain.
"""


def write_card(folder: Path, figures: dict[str, Any], *, tokens: int, steps: int, command: str) -> None:
    """Write ``evaluation.json`` and ``README.md`` beside a model.

    Args:
        folder: folder of the model.
        figures: from :func:`examples.pocket_model.evaluation.evaluate`.
        tokens: number of training tokens.
        steps: number of optimizer steps.
        command: command that reproduces the model.
    """
    (folder / "evaluation.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    rows = [
        f"| {name.replace('lesson', 'experience')} | {_percent(row['json'])} | {_percent(row['right'])} "
        f"| {_percent(row.get('majority'))} |"
        for name, row in figures.items()
        if "json" in row
    ]
    family_rows = [
        f"| {name} | {_percent(row['generator, no lesson'])} | {_percent(row['generator, fitting lesson'])} |"
        for name, row in figures["families"].items()
    ]
    text = _CARD.format(
        parameters=_weights_of(folder) / 1e6,
        layers=config["num_hidden_layers"],
        hidden=config["hidden_size"],
        vocabulary=config["vocab_size"],
        families=len(FAMILIES),
        wordings=sum(len(family.wordings) for family in FAMILIES.values()),
        right_with_lesson=RIGHT_WITH_LESSON,
        tokens=tokens,
        steps=steps,
        command=command,
        dataset=POCKET_DATASET,
        rows="\n".join(rows),
        family_rows="\n".join(family_rows),
        **figures["settings"],
    )
    (folder / "README.md").write_text(text, encoding="utf-8")


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f} %"


def _weights_of(folder: Path) -> int:
    """The number of weights of a model."""
    with safe_open(folder / "model.safetensors", "pt") as weights:
        return sum(math.prod(weights.get_slice(name).get_shape()) for name in weights.keys())  # noqa: SIM118
