"""``scaffold-grpo COMMAND ...`` and ``python -m grpo_training COMMAND ...``: the commands with what each is for."""

from __future__ import annotations

import difflib
import runpy
import sys
from typing import NoReturn

import grpo_training
from engine.errors import InputError
from grpo_training.cli.before_install import explain_missing_packages
from grpo_training.cli.entry import HELP_FLAGS, run_command

GROUPS = {
    "main loop": {
        "improve": "learn from problems, test, and say whether it helped",
        "generator1": "answer problems, score, store, learn",
        "generator2": "the same, with its own library",
        "generator3": "the same, with its own library",
        "critic": "fuse the generators' candidates, score, learn",
        "experience_extractor": "extract experiences again from stored rollouts",
        "gate": "test whether a library as a whole helps",
        "compare": "say which of two prompts or models is better",
    },
    "look": {
        "show": "print the rollouts of a problem, with replies",
        "view": "pages about runs, in a browser",
        "experiences": "show and edit the libraries",
        "doctor": "check this machine and the configuration",
    },
    "train": {
        "train": "fine-tune a local model with GRPO",
        "evaluate": "measure a model: pass@k with intervals",
        "serve": "serve a local model over the OpenAI protocol",
    },
    "tasks": {
        "phaser": "games: prompts, mock rollouts, validation",
        "traffic": "traffic signals: datasets, policies",
        "selector": "choose in-context examples",
    },
    "data": {
        "prepare_data": "problems for training on Python code",
        "generate_teacher_traces": "solutions of a teacher that pass the tests",
        "verify_teacher_traces": "run the tests of traces of another program",
        "score_rollouts": "score rollouts of any program",
        "export": "rollouts for TRL and score_rollouts",
    },
}
"""Title -> command -> what it is for."""


def commands() -> list[str]:
    """The names of all commands."""
    return sorted(name for described in GROUPS.values() for name in described)


def main() -> NoReturn:
    """Run the command that the first argument names, with the remaining arguments."""
    explain_missing_packages()
    run_command(_run, resumes=False)  # each command that it runs says this for itself


def _listing() -> list[str]:
    prog = "scaffold-grpo COMMAND" if sys.argv[0].endswith("scaffold-grpo") else "python -m grpo_training.COMMAND"
    lines = [f"usage: {prog} [options]"]
    for title, described in GROUPS.items():
        lines += ["", f"{title}:", *(f"  {name:24} {text}" for name, text in described.items())]
    return [*lines, "", f"{prog} --help shows the options of a command."]


def _run() -> int:
    given = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if given in HELP_FLAGS:
        print("\n".join(_listing()))
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
