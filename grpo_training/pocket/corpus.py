"""Conversations that the pocket model learns from: quickstart problems in the words of ``prompts/compact``.

The corpus gives the model habits and an ear for lessons. Without a lesson that fits, right and mistaken
scaffolds are mixed as each family's habit says; with one, the scaffold is nearly always right.
"""

from __future__ import annotations

import functools
import json
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from agents.analyst import MAX_WORDS, analyst_template
from agents.critic import critic_template
from agents.generator import generator_template
from engine.records import Experience
from engine.tasks.math.quickstart import FAMILIES, draw_instance
from engine.tasks.math.task import TASK
from prompts import PromptTemplate

if TYPE_CHECKING:
    from engine.records import Message, Scaffold
    from engine.tasks.math.quickstart import Family, Instance

Role = Literal["generator", "critic", "analyst"]

STYLE = "compact"
MAX_OPERATIONS = 2

RIGHT_WITH_LESSON = 0.98
RIGHT_FUSION = (0.1, 0.65, 0.9, 0.98)
"""How often a fusion without lesson is right, by the number of right ones among three proposals."""

_ROLES: dict[Role, float] = {"generator": 0.6, "critic": 0.1, "analyst": 0.3}
_LESSONS = {"none": 0.25, "others": 0.2, "fitting": 0.55}
_UNREADABLE = 0.02


@dataclass(frozen=True)
class Conversation:
    """One exchange, and what it is about.

    Args:
        role: who is asked.
        messages: system and user message.
        reply: what the model is to say.
        instance: the problem.
        has_lesson: whether a lesson of the problem's family is in the prompt.
        other_reply: the scaffold of the other way, or operations instead of none; where the two replies part,
            the choice falls.
        chance: how probable ``reply`` was against ``other_reply``.
    """

    role: Role
    messages: tuple[Message, ...]
    reply: str
    instance: Instance
    has_lesson: bool
    other_reply: str
    chance: float = 1.0


@dataclass(frozen=True)
class Corpus:
    """Draws conversations.

    Args:
        split: of the problems and of the lessons' paraphrases.
        most_lessons: the longest library in a prompt.
    """

    split: str
    most_lessons: int

    def draw(self, rng: random.Random) -> Conversation:
        """A conversation of any role."""
        role = rng.choices(list(_ROLES), list(_ROLES.values()))[0]
        family = rng.choice(list(FAMILIES.values()))
        if role == "generator":
            return self.generator(family, rng)
        return self.critic(family, rng) if role == "critic" else self.analyst(family, rng)

    def generator(self, family: Family, rng: random.Random, lessons: str | None = None) -> Conversation:
        """A problem, perhaps with lessons, and a scaffold.

        Args:
            family: of the problem.
            rng: what is drawn from.
            lessons: ``none``, ``others`` (of other families only) or ``fitting``; None draws it.
        """
        instance = draw_instance(family, self.split, rng)
        experiences, fits = self._library(family, rng, lessons)
        chance = RIGHT_WITH_LESSON if fits else family.habit
        messages = _template("generator").render(
            problem=instance.problem.text, experiences=experiences, answer_form=TASK.answer_form
        )
        return _with_scaffold("generator", messages, instance, fits, chance, rng)

    def critic(self, family: Family, rng: random.Random, lessons: str | None = None) -> Conversation:
        """A problem, proposals for it, perhaps lessons, and their fusion."""
        instance = draw_instance(family, self.split, rng)
        experiences, fits = self._library(family, rng, lessons)
        count = rng.choice((2, 3, 3, 3, 3, 4))
        right = rng.randrange(1, count) if rng.random() < 0.9 else rng.choice((0, count))
        ways = [True] * right + [False] * (count - right)
        rng.shuffle(ways)
        proposals = [
            {"text": "(unreadable)" if rng.random() < _UNREADABLE else shown(_scaffold(instance, way))} for way in ways
        ]
        chance = RIGHT_WITH_LESSON if fits else RIGHT_FUSION[round(3 * right / count)]
        messages = _template("critic").render(
            problem=instance.problem.text,
            experiences=experiences,
            answer_form=TASK.answer_form,
            generator_id=f"generator_{rng.randint(1, 3)}",
            proposals=proposals,
            conflicts=["conflict"] if 0 < right < count else [],
        )
        return _with_scaffold("critic", messages, instance, fits, chance, rng)

    def analyst(self, family: Family, rng: random.Random, lessons: str | None = None) -> Conversation:
        """A scored group and a library, and the operations that it calls for.

        A group that is all right or all wrong teaches nothing. A mixed one teaches the family's lesson, unless
        the library has it: then it is mostly left alone, now and then reworded.
        """
        instance = draw_instance(family, self.split, rng)
        experiences, knows = self._library(family, rng, lessons or rng.choice(("none", "others", "fitting")))
        count = rng.choice((2, 3, 3, 3, 4, 6))
        right = rng.randrange(1, count) if rng.random() < 0.85 else rng.choice((0, count))
        ways = [True] * right + [False] * (count - right)
        rng.shuffle(ways)
        attempts = [
            {
                "is_correct": way,
                "text": "(no text)" if not way and rng.random() < _UNREADABLE else scaffold_reply(instance, way),
            }
            for way in ways
        ]
        messages = _template("analyst").render(
            learner=rng.choice(("scaffold", "fusion")),
            max_words=MAX_WORDS,
            max_operations=MAX_OPERATIONS,
            experiences=experiences,
            problem=instance.problem.text,
            ground_truth=instance.problem.answer,
            attempts=attempts,
        )
        operations: list[dict[str, str]] = []
        lesson = {"content": rng.choice(family.lessons_of(self.split)), "category": family.category}
        if 0 < right < count and not knows:
            operations = [{"op": "add", **lesson}]
        elif 0 < right < count and rng.random() < 0.1:
            [known] = [item for item in experiences if item.content in family.lessons][:1]
            operations = [{"op": "modify", "id": known.id, **lesson}]
        other = [] if operations else [{"op": "add", **lesson}]
        replies = (compact_json({"operations": listed}) for listed in (operations, other))
        return Conversation("analyst", messages, next(replies), instance, knows, next(replies))

    def _library(self, family: Family, rng: random.Random, lessons: str | None) -> tuple[list[Experience], bool]:
        """A library in any order, and whether a lesson of the family is in it."""
        lessons = lessons or rng.choices(list(_LESSONS), list(_LESSONS.values()))[0]
        if lessons == "none":
            return [], False
        count = _library_size(rng, self.most_lessons)
        others = [other for other in FAMILIES.values() if other is not family]
        chosen = [rng.choice(rng.choice(others).lessons_of(self.split)) for _ in range(max(count, lessons == "others"))]
        if lessons == "fitting":
            chosen += rng.sample(family.lessons_of(self.split), 1 if rng.random() < 0.8 else 2)
            rng.shuffle(chosen)
        prefix, first = rng.choice(("G1", "G2", "G3", "C")), rng.randint(1, 4)
        return [
            Experience(id=f"{prefix}-{number:03d}", content=content) for number, content in enumerate(chosen, first)
        ], lessons == "fitting"


def _with_scaffold(
    role: Role,
    messages: tuple[Message, ...],
    instance: Instance,
    has_lesson: bool,
    right: float,
    rng: random.Random,
) -> Conversation:
    """A conversation that ends in the right scaffold with probability ``right``, else in the mistaken one."""
    is_right = rng.random() < right
    return Conversation(
        role,
        messages,
        scaffold_reply(instance, is_right),
        instance,
        has_lesson,
        scaffold_reply(instance, not is_right),
        right if is_right else 1 - right,
    )


def scaffold_reply(instance: Instance, is_right: bool) -> str:
    """The reply of a generator or critic. The answer is left to the program that executes the graph."""
    scaffold = _scaffold(instance, is_right)
    return compact_json({**scaffold.model_dump(exclude_defaults=True), "computation_plan": [], "final_answer": ""})


def shown(scaffold: Scaffold) -> str:
    """A scaffold as the math task shows it to the critic."""
    return scaffold.model_dump_json(exclude_defaults=True)


def prompt_hashes() -> dict[str, str]:
    """The hash of each role's templates; the model knows these words and no others."""
    return {role: _template(role).hash for role in _ROLES}


def compact_json(value: object) -> str:
    """JSON without spaces between its parts."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _scaffold(instance: Instance, is_right: bool) -> Scaffold:
    family = instance.family
    return family.scaffold(family.right if is_right else family.mistaken, instance.draw)


def _library_size(rng: random.Random, most: int) -> int:
    """Mostly 0 to 5 lessons of other families, now and then a long library."""
    return rng.randint(0, min(5, most)) if rng.random() < 0.75 else rng.randint(0, most)


@functools.cache
def _template(role: Role) -> PromptTemplate:
    if role == "generator":
        return generator_template(TASK, STYLE)
    if role == "critic":
        return critic_template(TASK, STYLE)
    return analyst_template(TASK, "generator", STYLE)
