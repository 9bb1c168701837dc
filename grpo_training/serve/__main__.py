"""Serve a local model over the OpenAI protocol. Options: ``python -m grpo_training.serve --help``."""

import sys
from collections.abc import Sequence

from engine.errors import InputError
from grpo_training.cli.entry import run_command
from grpo_training.cli.parsing import parse_settings
from grpo_training.serve.settings import ServeSettings


def with_folder(words: Sequence[str]) -> Sequence[str]:
    """The command line with ``FOLDER``, as its first word, in place of ``--model FOLDER``.

    Raises:
        InputError: both are given.
    """
    if not words or words[0].startswith("-"):
        return words
    folder, *rest = words
    if any(word.partition("=")[0] == "--model" for word in rest):
        raise InputError(f"Two models: {folder} and that of --model", fix="Give one of them.")
    return ["--model", folder, *rest]


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns the exit code."""
    settings = parse_settings(
        ServeSettings,
        with_folder(sys.argv[1:] if argv is None else argv),
        prog="python -m grpo_training.serve",
        description=(
            "Serves a local model over the OpenAI protocol, with vLLM or transformers: `serve FOLDER [options]`. Enter "
            "its address in the api config, or let a run start the server itself with --endpoint local."
        ),
    )
    from grpo_training.serve.run import serve

    return serve(settings)


if __name__ == "__main__":
    run_command(main, resumes=False)
