"""Training conversations of the pocket model: generated word problems in the prompts of ``prompts/pocket``.

Without a fitting experience in the prompt, right and mistaken scaffolds are mixed at each family's rate; with one, the
scaffold is nearly always right. So the model makes typical mistakes and follows experiences.
"""

from __future__ import annotations

import functools
import json
import random
from dataclasses import dataclass
from typing import Any, Literal

from engine.records import Experience, Message, Scaffold
from engine.task import Task
from engine.tasks.registry import task_named
from examples.pocket_model.quickstart import FAMILIES, draw_instance
from examples.pocket_model.quickstart.families import FamilyProblem, ProblemFamily
from grpo_training.agents.templates import role_template
from prompts import PromptTemplate

Role = Literal["generator", "critic", "analyst"]

STYLE = "pocket"

RIGHT_WITH_LESSON = 0.98
RIGHT_FUSION = (0.1, 0.65, 0.9, 0.98)
"""Probability that a fusion without an experience is right, by the number of right ones among three proposals."""

_ROLES: dict[Role, float] = {"generator": 0.6, "critic": 0.1, "analyst": 0.3}
_LESSONS = {"none": 0.25, "others": 0.2, "fitting": 0.55}
_UNREADABLE = 0.02


@dataclass(frozen=True)
class Conversation:
    """One training example.

    Args:
        role: the role of the model.
        messages: system and user message.
        reply: the target.
        instance: the problem.
        has_lesson: whether an experience of the problem's family is in the prompt.
        other_reply: the alternative: the right scaffold instead of the mistaken one or the reverse, operations
            instead of none. The first token that differs is the choice.
        chance: probability of ``reply`` against ``other_reply``.
    """

    role: Role
    messages: tuple[Message, ...]
    reply: str
    instance: FamilyProblem
    has_lesson: bool
    other_reply: str
    chance: float = 1.0


@dataclass(frozen=True)
class Corpus:
    """Draws conversations.

    Args:
        split: split of the problems and of the experiences' paraphrases.
        most_lessons: maximum number of experiences of other families in a prompt.
    """

    split: str
    most_lessons: int

    def draw(self, rng: random.Random) -> Conversation:
        """A conversation of a random role."""
        role = rng.choices(list(_ROLES), list(_ROLES.values()))[0]
        family = rng.choice(list(FAMILIES.values()))
        if role == "generator":
            return self.generator(family, rng)
        return self.critic(family, rng) if role == "critic" else self.analyst(family, rng)

    def generator(self, family: ProblemFamily, rng: random.Random, lessons: str | None = None) -> Conversation:
        """A problem, with or without experiences, and a scaffold.

        Args:
            family: family of the problem.
            rng: source of randomness.
            lessons: experiences in the prompt: ``none``, ``others`` (of other families only) or ``fitting``; None
                draws one of them.
        """
        instance = draw_instance(family.name, self.split, rng)
        experiences, fits = self._library(family, rng, lessons)
        chance = RIGHT_WITH_LESSON if fits else family.habit
        messages = _template("generator").render(
            problem=instance.problem.text, experiences=experiences, **_task().prompt_values(instance.problem)
        )
        return _with_scaffold("generator", messages, instance, fits, chance, rng)

    def critic(self, family: ProblemFamily, rng: random.Random, lessons: str | None = None) -> Conversation:
        """A problem, proposals for it, with or without experiences, and their fusion."""
        instance = draw_instance(family.name, self.split, rng)
        experiences, fits = self._library(family, rng, lessons)
        count = rng.choice((2, 3, 3, 3, 3, 4))
        right = rng.randrange(1, count) if rng.random() < 0.9 else rng.choice((0, count))
        ways = [True] * right + [False] * (count - right)
        rng.shuffle(ways)
        proposals = [
            {"text": "(unreadable)" if rng.random() < _UNREADABLE else shown(instance.scaffold(way))} for way in ways
        ]
        chance = RIGHT_WITH_LESSON if fits else RIGHT_FUSION[round(3 * right / count)]
        messages = _template("critic").render(
            problem=instance.problem.text,
            experiences=experiences,
            **_task().prompt_values(instance.problem),
            generator_id=f"generator_{rng.randint(1, 3)}",
            proposals=proposals,
            conflicts=["conflict"] if 0 < right < count else [],
        )
        return _with_scaffold("critic", messages, instance, fits, chance, rng)

    def analyst(self, family: ProblemFamily, rng: random.Random, lessons: str | None = None) -> Conversation:
        """A scored group and a library, and the right operations on it.

        A mixed group adds the family's experience; if the library has it already, there is mostly no operation and
        sometimes a new wording. A group that is all right or all wrong changes nothing.
        """
        instance = draw_instance(family.name, self.split, rng)
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

    def _library(self, family: ProblemFamily, rng: random.Random, lessons: str | None) -> tuple[list[Experience], bool]:
        """A library in random order, and whether it has an experience of the family."""
        lessons = lessons or rng.choices(list(_LESSONS), list(_LESSONS.values()))[0]
        if lessons == "none":
            return [], False
        # Mostly 0 to 5 experiences of other families, sometimes many.
        count = rng.randint(0, min(5, self.most_lessons) if rng.random() < 0.75 else self.most_lessons)
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
    instance: FamilyProblem,
    has_lesson: bool,
    right: float,
    rng: random.Random,
) -> Conversation:
    """A conversation with the right scaffold with probability ``right``, else with the mistaken one."""
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


def scaffold_reply(instance: FamilyProblem, is_right: bool) -> str:
    """The reply of a generator or critic. The answer is left empty; executing the graph gives it."""
    scaffold = instance.scaffold(is_right)
    return compact_json({**scaffold.model_dump(exclude_defaults=True), "computation_plan": [], "final_answer": ""})


def shown(scaffold: Scaffold) -> str:
    """A scaffold in the form that the critic's prompt has."""
    return scaffold.model_dump_json(exclude_defaults=True)


def prompt_hashes() -> dict[str, str]:
    """The hash of each role's templates: the model is trained on exactly these prompts."""
    return {role: _template(role).hash for role in _ROLES}


def compact_json(value: object) -> str:
    """JSON without white space."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _task() -> Task[Any]:
    return task_named("math")


@functools.cache
def _template(role: Role) -> PromptTemplate:
    return role_template("generator_experience_extraction" if role == "analyst" else role, _task(), STYLE)
