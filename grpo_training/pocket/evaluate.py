"""``python -m grpo_training.pocket.evaluate``: what the pocket model can do, role by role and family by family."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from grpo_training.cli.entry import run_command
from grpo_training.cli.settings import POCKET_MODEL, Positive, Settings, parse_settings
from grpo_training.serving.model_folder import check_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

    from engine.tasks.math.quickstart import Family
    from grpo_training.pocket.corpus import Conversation


class EvaluateSettings(Settings):
    """Settings of ``python -m grpo_training.pocket.evaluate``."""

    model: Path = Field(POCKET_MODEL, description="folder of the model")
    split: Literal["train", "validation", "test"] = Field("test", description="whose wordings and numbers are asked")
    per_family: Positive = Field(16, description="samples of each family in each setting")
    most_lessons: Positive = Field(6, description="lessons in a prompt, the fitting one among them, at most")
    temperature: float = Field(1.0, ge=0, le=2, description="of the sampling")
    seed: int = Field(0, description="seed of problems and samples")
    output: Path | None = Field(None, description="JSON file for the figures")


@dataclass(frozen=True)
class Judged:
    """A reply and what is true of it."""

    conversation: Conversation
    reply: str
    is_json: bool
    right: bool


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Prints the figures as JSON. Returns the exit code."""
    settings = parse_settings(
        EvaluateSettings,
        argv,
        prog="python -m grpo_training.pocket.evaluate",
        description="Samples from the pocket model and reports what is right, by role and family.",
    )
    check_model(settings.model)
    figures = evaluate(*load_model(settings.model), settings)
    text = json.dumps(figures, indent=1)
    print(text)
    if settings.output is not None:
        settings.output.write_text(text + "\n", encoding="utf-8")
    return 0


def load_model(folder: Path) -> tuple[Qwen3ForCausalLM, PreTrainedTokenizerFast]:
    """A written model and its tokenizer, in float32 on the CPU."""
    from transformers import AutoTokenizer, Qwen3ForCausalLM

    return Qwen3ForCausalLM.from_pretrained(folder, dtype="float32"), AutoTokenizer.from_pretrained(folder)


def validation_figures(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast) -> dict[str, Any]:
    """A short evaluation for the training's log."""
    settings = EvaluateSettings.model_validate({"split": "validation", "per_family": 4})
    figures = evaluate(model, tokenizer, settings)
    return {name: value for name, value in figures.items() if "json" in value}


def evaluate(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, settings: EvaluateSettings) -> dict[str, Any]:
    """All figures: rates between 0 and 1 by setting, and for the generator by family.

    The analyst is asked as the main job asks it, at temperature 0.
    """
    from engine.tasks.math.quickstart import FAMILIES
    from grpo_training.pocket.corpus import Corpus, prompt_hashes
    from grpo_training.pocket.sampling import sample_replies

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
    families: dict[str, dict[str, float]] = {name: {} for name in FAMILIES}
    for name, (draw, lessons, temperature) in settings_of.items():
        rng = random.Random(f"{settings.seed}:{name}")  # noqa: S311
        asked = [draw(family, rng, lessons) for family in FAMILIES.values() for _ in range(settings.per_family)]
        replies = sample_replies(
            model, tokenizer, [item.messages for item in asked], temperature=temperature, seed=settings.seed
        )
        judged = [judge(item, reply) for item, reply in zip(asked, replies, strict=True)]
        figures[name] = {"json": rate(item.is_json for item in judged), "right": right_rate(judged)}
        if name.startswith("critic"):
            figures[name]["majority"] = rate(majority_is_right(item) for item in asked)
        for family in FAMILIES:
            families[family][name] = right_rate(
                [item for item in judged if item.conversation.instance.family.name == family]
            )
    figures["families"], figures["prompts"] = families, prompt_hashes()
    return figures


def judge(conversation: Conversation, reply: str) -> Judged:
    """Whether a reply is JSON, and whether it is right: executed by the math task, or the family's lesson."""
    try:
        value = json.loads(reply)
    except ValueError:
        return Judged(conversation, reply, False, False)
    if conversation.role == "analyst":
        operations = value.get("operations") if isinstance(value, dict) else None
        if not isinstance(operations, list) or not all(isinstance(item, dict) for item in operations):
            return Judged(conversation, reply, False, False)
        return Judged(conversation, reply, True, _lesson_is_right(conversation, operations))
    from engine.records import Completion
    from engine.tasks.math.task import TASK

    problem = conversation.instance.problem
    candidate = TASK.parse(Completion(text=reply), problem)
    is_right = bool(TASK.evaluate(candidate, problem).is_correct)
    return Judged(conversation, reply, candidate.content is not None, is_right)


def _lesson_is_right(conversation: Conversation, operations: list[dict[str, Any]]) -> bool:
    """The operations are as the group and the list call for: a lesson of the family that may be kept, or none."""
    from engine.experience.review import check_text

    expected = json.loads(conversation.reply)["operations"]
    if not expected or conversation.has_lesson:
        return not operations or operations[0].get("op") == "modify"
    if len(operations) != 1 or operations[0].get("op") != "add":
        return False
    content = str(operations[0].get("content"))
    instance = conversation.instance
    return family_of(content) is instance.family and check_text(content, instance.problem) is None


def family_of(lesson: str) -> Family:
    """The family whose lessons share most words with a text (Jaccard index)."""
    from engine.tasks.math.quickstart import FAMILIES

    words = set(lesson.lower().split())

    def likeness(family: Family) -> float:
        return max(len(words & other) / len(words | other) for other in map(_words, family.lessons))

    return max(FAMILIES.values(), key=likeness)


def _words(text: str) -> set[str]:
    return set(text.lower().split())


def majority_is_right(conversation: Conversation) -> bool:
    """Whether more than half of a critic's proposals take the right way."""
    text = conversation.messages[-1].content
    family = conversation.instance.family
    right, mistaken = (text.count(f'"chosen_strategy":"{way.strategy}"') for way in (family.right, family.mistaken))
    return right > mistaken


def right_rate(judged: Sequence[Judged]) -> float:
    """Share of right replies."""
    return rate(item.right for item in judged)


def rate(values: Iterable[bool]) -> float:
    """Share of the true ones, three digits."""
    listed = list(values)
    return round(sum(listed) / len(listed), 3)


if __name__ == "__main__":
    run_command(main)
