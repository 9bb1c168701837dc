"""The console script ``scaffold-grpo COMMAND ...``, the same as ``python -m grpo_training.COMMAND ...``."""

from __future__ import annotations

import difflib
import pkgutil
import runpy
import sys
from typing import NoReturn

import grpo_training
from engine.errors import InputError
from grpo_training.cli.entry import run_command


def commands() -> list[str]:
    """The names of all commands: the modules at the top of ``grpo_training``."""
    return sorted(module.name for module in pkgutil.iter_modules(grpo_training.__path__) if not module.ispkg)


def main() -> NoReturn:
    """Run the command that the first argument names, with the remaining arguments."""
    run_command(_run)


def _run() -> int:
    given = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if given in ("-h", "--help"):
        print("usage: scaffold-grpo COMMAND [options]\n\ncommands:")
        print("".join(f"  {command}\n" for command in commands()))
        print("scaffold-grpo COMMAND --help shows the options of a command.")
        return 0
    if given == "--version":
        print(grpo_training.__version__)
        return 0
    name = given.replace("-", "_")
    if name not in commands():
        near = difflib.get_close_matches(name, commands(), 1)
        raise InputError(
            f"Unknown command {given!r}", fix=f"Did you mean {near[0]!r}?" if near else "See scaffold-grpo --help."
        )
    del sys.argv[1]
    runpy.run_module(f"grpo_training.{name}", run_name="__main__", alter_sys=True)
    return 0
