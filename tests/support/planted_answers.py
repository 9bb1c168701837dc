"""A model server with planted effects: rows of four kinds of answers, and experiences that help, do nothing, or harm.

The chance of a right answer depends on the problem and on the experiences in the prompt alone, and the reply on a hash
of the request, so that the truth about a library is known.
"""

import hashlib
import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.analyst import with_lesson

FAMILIES = ("invoices", "parcels", "passwords")
_LABELS = ("billing", "shipping", "access")
_NUMBER, _LESSON = re.compile(r"case (\d+)"), re.compile(r"rule-(\w+)-\d+")
_CITIES = (("New York", "NYC"), ("Saint Petersburg", "St. Petersburg"), ("Munich", "München"))


def _fraction(*key: object) -> float:
    digest = hashlib.sha256("\0".join(map(str, key)).encode()).digest()
    return int.from_bytes(digest[:8]) / 2**64


@dataclass(frozen=True)
class Kind:
    """Rows of one kind of answers: the truth of problem n, and the text of a reply that states it or not."""

    truth: Callable[[int], Any]
    right: Callable[[int], str]
    wrong: Callable[[int], str]


KINDS = {
    "label": Kind(
        lambda n: _LABELS[n % 3],
        lambda n: f"Answer: {_LABELS[n % 3].title()}.",
        lambda n: f"Answer: {_LABELS[n % 3 - 1]}",
    ),
    "number": Kind(
        lambda n: f"{n + 10}.5 kg", lambda n: f"Answer: {1000 * (n + 10) + 500} g", lambda n: f"Answer: {n + 11}.5 kg"
    ),
    "json": Kind(
        lambda n: {"name": f"N{n}", "total": n + 1},
        lambda n: f'Answer:\n```json\n{{"total": {n + 1}.0, "name": "n{n}"}}\n```',
        lambda n: f'Answer: {{"name": "N{n}", "total": {n}}}',
    ),
    "text": Kind(
        lambda n: "|".join(_CITIES[n % 3]), lambda n: f"Answer: {_CITIES[n % 3][n % 2]}", lambda n: "Answer: a city"
    ),
}


KINDS["rubric"] = Kind(
    lambda n: f"The reply is polite and names case {n}.",
    lambda n: f"Answer: Dear customer,\nthank you for writing about case {n}.",
    lambda n: f"Answer: No, {n} is your own fault.",
)
"""A judge, the model ``judge`` of the server, gives 1 to answers that are polite."""


@dataclass
class PlantedServer:
    """Replies to chat requests.

    Args:
        kind: one of ``KINDS``.
        effect: of an experience of a problem's family on the chance of a right answer.
        seed: of the chances and the replies.
    """

    kind: str
    effect: float
    seed: int = 0
    proposals: int = 0

    def rows(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        """The rows of a dataset."""
        return [
            {
                "id": f"case-{n}",
                "question": f"In case {n} about {FAMILIES[n % 3]}, what is it?",
                self.field: self._kind.truth(n),
            }
            for n in numbers
        ]

    def chance(self, number: int, lessons: set[str]) -> float:
        """The chance of a right answer with experiences of these families in the prompt."""
        base = random.Random(f"{self.seed}:{number}").uniform(0.25, 0.65)
        return min(0.97, max(0.03, base + self.effect * (FAMILIES[number % 3] in lessons)))

    def reply(self, body: dict[str, Any], index: int) -> str:
        """The text of a reply."""
        text = " ".join(message["content"] for message in body["messages"])
        number = int(_NUMBER.findall(text)[-1])
        family = FAMILIES[number % 3]
        if body["model"] == "judge":
            answer = body["messages"][-1]["content"].partition("Answer:")[2]
            return json.dumps({"score": 1.0 if "thank you" in answer else 0.2})
        if body["model"] == "analyst":
            self.proposals += 1
            content = f"In cases about {family}, apply rule-{family}-{self.proposals} of the handbook for {family}."
            return with_lesson(content)
        is_right = _fraction(self.seed, text, body.get("seed"), index) < self.chance(number, set(_LESSON.findall(text)))
        return f"I look at it.\n{(self._kind.right if is_right else self._kind.wrong)(number)}"

    @property
    def field(self) -> str:
        """The field of the truth in the rows."""
        return "rubric" if self.kind == "rubric" else "answer"

    @property
    def _kind(self) -> Kind:
        return KINDS[self.kind]
