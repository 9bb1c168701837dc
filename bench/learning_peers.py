"""Other rules of learning, in the same worlds: Training-Free GRPO, ACE, and GEPA.

Training-Free GRPO (arXiv 2510.08191) and ACE (arXiv 2510.04618) are reduced to their rules of what is kept. The model's
opinion, which both trust, is a chance that depends on the kind of the experience. GEPA (arXiv 2507.19457) is its own
package: :mod:`bench.learning_gepa` runs it against the served world.
"""

from __future__ import annotations

import json
import random
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from bench.learning_world import FIRST_NEW, World, served

_HELD = FIRST_NEW * 2
"""Number of the first problem of the peers' validation sets."""
_PROMPT_WORDS = 60
"""Words of a prompt and its reply without experiences; an experience has 7."""


@dataclass
class _Asked:
    """Asks a world, and counts."""

    world: World
    rollouts: int = 0
    _texts: dict[str, str] = field(default_factory=dict)

    def is_right(self, number: int, codes: list[str]) -> bool:
        self.rollouts += 1
        self.world.tokens += _PROMPT_WORDS + 7 * len(codes)
        return self.world.is_right(number, codes, self.rollouts)

    def proposal(self, number: int, codes: list[str]) -> str:
        self.world.tokens += 2 * _PROMPT_WORDS + 7 * len(codes)
        return self.world.codes(self.world.propose(number, codes, f"peer {self.rollouts}"))[0]


def training_free_grpo(world: World, problems: int, rollouts: int) -> list[str]:
    """Groups of five in batches; the proposals of a batch are consolidated by opinion. The experiences that it keeps.

    A duplicate is merged with probability 0.9; a proposal is kept with 0.9 if it helps and else with 0.75, a fifth of
    that from 64 on; after a batch an experience is deleted with probability 0.02 if it helps and else with 0.05.
    """
    rng, asked, kept = random.Random(f"{world.seed}:grpo"), _Asked(world), list[str]()
    numbers, batch, group = range(min(100, problems)), 50 if problems > 100 else 20, 5
    order: list[int] = []
    while asked.rollouts + batch * group <= rollouts:
        new = []
        for _ in range(batch):
            order = order or rng.sample(numbers, len(numbers))
            number = order.pop()
            right = sum(asked.is_right(number, kept) for _ in range(group))
            if 0 < right < group:
                new.append(asked.proposal(number, kept))
        kept = [code for code in kept if rng.random() >= (0.02 if world.planted[code].kind == "helps" else 0.05)]
        for code in new:
            insight = world.planted[code].insight
            is_known = insight is not None and insight in {world.planted[other].insight for other in kept}
            opinion = (0.9 if insight else 0.75) * (1.0 if len(kept) < 64 else 0.2)
            if not (is_known and rng.random() < 0.9) and rng.random() < opinion:
                kept.append(code)
    return kept


def ace(world: World, problems: int, rollouts: int) -> list[str]:
    """One answer, counters of helpful and harmful by opinion, and the best playbook of a validation each 100 steps.

    A counter follows the truth with probability 0.3, and else the outcome of the answer. A wrong answer is retried
    after reflection and adds an experience; one is deleted when it was harmful three times more often than helpful.
    """
    rng, asked, kept = random.Random(f"{world.seed}:ace"), _Asked(world), list[str]()
    held, best, best_right = 50 if problems > 100 else 20, list[str](), -1
    score: dict[str, int] = {}
    order: list[int] = []
    step = 0
    while asked.rollouts + 2 <= rollouts:
        if step % 100 == 0 and asked.rollouts + held <= rollouts:
            right = sum(asked.is_right(_HELD + number, kept) for number in range(held))
            if right > best_right:
                best, best_right = list(kept), right
        step += 1
        order = order or rng.sample(range(problems), problems)
        number = order.pop()
        is_right = asked.is_right(number, kept)
        for code in kept:
            planted = world.planted[code]
            is_own = planted.own_problem % world.families == number % world.families
            if rng.random() < (0.7 if is_own else 0.03):
                says_truth = rng.random() < 0.3
                if says_truth and planted.kind == "nothing":
                    continue
                helped = planted.kind == "helps" if says_truth else is_right
                score[code] = score.get(code, 0) + (1 if helped else -1)
        if not is_right:
            asked.is_right(number, kept)
            if len(kept) < 400:
                new = asked.proposal(number, kept)
                insight = world.planted[new].insight
                is_known = insight is not None and insight in {world.planted[other].insight for other in kept}
                if not (is_known and rng.random() < 0.5):
                    kept.append(new)
        kept = [code for code in kept if score.get(code, 0) > -3]
    return best


def gepa(world: World, problems: int, rollouts: int, python: Path) -> list[str]:
    """The experiences in the instructions that the package ``gepa`` ends with.

    Args:
        world: the world.
        problems: number of its training problems.
        rollouts: budget, as GEPA counts metric calls.
        python: interpreter of an environment with ``gepa``.

    Raises:
        subprocess.CalledProcessError: the script failed.
    """
    held = 25 if problems > 100 else 20
    with served(world) as url:
        order = {
            "url": url,
            "seed": world.seed,
            "rollouts": rollouts,
            "train": [world.text(number) for number in range(problems)],
            "held": [world.text(_HELD + number) for number in range(held)],
        }
        script = Path(__file__).with_name("learning_gepa.py")
        command = [str(python), str(script)]
        done = subprocess.run(command, input=json.dumps(order), capture_output=True, text=True, check=True)
    return world.codes(json.loads(done.stdout.splitlines()[-1])["instructions"])
