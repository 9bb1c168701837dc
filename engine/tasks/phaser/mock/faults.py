"""The table of faults: how a program is changed, and which gate it fails then."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from engine.tasks.phaser.seeds.features import draw_values, features_by_name
from engine.tasks.phaser.seeds.programs import Part, Program


@dataclass(frozen=True)
class Fault:
    """A way in which a reply is wrong.

    Args:
        name: ``quality`` of the rollout.
        weight: of the random choice.
        failed_gates: codes that a scored row must have with every stage on, see
            :meth:`engine.tasks.phaser.task.PhaserTask.scored_fields`.
        outcomes: how the run may end.
        change: the program with the fault.
        fenced: whether the reply puts the program into a fence.
    """

    name: str
    weight: float
    failed_gates: tuple[str, ...] = ()
    outcomes: tuple[str, ...] = ("ok",)
    change: Callable[[Program], Program] = lambda program: program
    fenced: bool = True


_ONLY_THEMSELVES = ("star", "triangle", "ellipse", "line", "polygon", "grid", "text", "rectangle")
"""Features whose code uses no symbol of another feature."""


def _something_else(program: Program) -> Program:
    """A program that runs and uses no symbol that a prompt of these features may demand.

    Leaving out the feature of a symbol is not enough: many features use a rectangle, or graphics for a texture.
    """
    asked = {part.feature.name for part in program.parts}
    name = next(name for name in _ONLY_THEMSELVES if name not in asked)
    part = Part(features_by_name()[name], draw_values(random.Random(name)))  # noqa: S311
    return replace(program, parts=(part,), has_texture=False)


def _with(**texts: str) -> Callable[[Program], Program]:
    """Further code at the end of some parts of a program."""
    return lambda program: replace(program, **{name: getattr(program, name) + text for name, text in texts.items()})


_NO_SUCH_METHOD = "this.add.rectangel(10, 10, 5, 5, 0xffffff);\n"
_THROW = "throw new Error('level data is missing');\n"
_LATE_THROW = "if (window.__signals__.frames > 20) {\n  this.enemy.x += 1;\n}\n"
_UNDECLARED = "if (typeof highScore !== 'undefined') {\n  highScore = 1;\n}\n"

GOOD = Fault("good", 0.36)

FAULTS: tuple[Fault, ...] = (
    Fault("parse_fail", 0.06, ("parse_failed",), ("skipped",), _with(tail="\nif (\n")),
    Fault("unsafe", 0.06, ("unsafe",), ("skipped",), _with(tail="\nconst fs = require('fs');\nfs.readdirSync('/');\n")),
    Fault("missing_game", 0.08, ("runtime_failed",), ("no_game",), lambda program: replace(program, has_game=False)),
    Fault("missing_scene", 0.08, ("runtime_failed",), ("no_scene",), lambda program: replace(program, has_scene=False)),
    Fault("lint_fail", 0.08, ("lint_failed",), ("ok",), _with(create=_UNDECLARED)),
    Fault("must_use_miss", 0.08, ("must_use_failed",), ("ok",), _something_else),
    Fault("api_miss", 0.08, ("api_failed", "runtime_failed"), ("create_error",), _with(create=_NO_SUCH_METHOD)),
    Fault("runtime_crash", 0.06, ("runtime_failed",), ("create_error",), _with(create=_THROW)),
    Fault("update_crash", 0.03, ("runtime_failed",), ("update_error",), _with(update=_LATE_THROW)),
    Fault("no_code", 0.03, ("no_code",), ("skipped",), fenced=False),
)
"""All faults. Their weights and that of :data:`GOOD` sum to 1. ``must_use_miss`` is for prompts with a symbol that
:func:`engine.tasks.phaser.seeds.programs.feature_of` knows; any program uses the others (``Phaser.Scene``)."""
