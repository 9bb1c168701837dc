"""Commands of several steps, each of which has settings and a ``--help`` of its own."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
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


def run_step(words: Sequence[str], module: str, steps: Mapping[str, type[StepSettings]]) -> int:
    """Run the step that the first word names, or print the help; the exit code.

    Args:
        words: the name of a step, and its flags.
        module: of the command; its ``steps.py`` has the function of each step in ``FUNCTIONS``.
        steps: the settings of each step.

    Raises:
        InputError: there is no such step, or a setting is not valid.
    """
    if not words or words[0] in HELP_FLAGS:
        print(f"usage: python -m {module} STEP [options]\n\nSteps (each has its own --help):")
        width = max(map(len, steps))
        for name, step in steps.items():
            print(fitted(f"  {name:{width}}  {step.__doc__}"))
        return 0
    name, *flags = words
    if name not in steps:
        raise InputError(f"Unknown step {name!r}", fix=f"Choose one of: {', '.join(steps)}.")
    step = steps[name]
    if step.positional and flags and not flags[0].startswith("-"):
        flags = [f"--{step.positional}", *flags]
    settings = parse_settings(step, flags, f"{module} {name}")
    run: Callable[[StepSettings], int] = importlib.import_module(f"{module}.steps").FUNCTIONS[name]
    return run(settings)
