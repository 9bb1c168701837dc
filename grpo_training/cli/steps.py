"""Commands of several steps, each of which has settings and a ``--help`` of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from engine.errors import InputError
from grpo_training.cli.entry import HELP_FLAGS
from grpo_training.cli.parsing import parse_settings
from grpo_training.cli.settings import Settings
from grpo_training.cli.terminal_text import fitted


class StepSettings(Settings):
    """Base of the settings of a step.

    ``positional`` is the field that a first word without a flag sets.
    """

    positional: ClassVar[str] = ""


def parse_step(words: Sequence[str], module: str, steps: Mapping[str, type[StepSettings]]) -> StepSettings | None:
    """The settings of the step that the first word names; None after the help was printed.

    Raises:
        InputError: there is no such step, or a setting is not valid.
    """
    if not words or words[0] in HELP_FLAGS:
        print(f"usage: python -m {module} STEP [options]\n\nSteps (each has its own --help):")
        width = max(map(len, steps))
        for name, step in steps.items():
            print(fitted(f"  {name:{width}}  {step.__doc__}"))
        return None
    name, *flags = words
    if name not in steps:
        raise InputError(f"Unknown step {name!r}", fix=f"Choose one of: {', '.join(steps)}.")
    step = steps[name]
    if step.positional and flags and not flags[0].startswith("-"):
        flags = [f"--{step.positional}", *flags]
    return parse_settings(step, flags, f"{module} {name}")
