"""The entry point of every command: errors become one clear message and an exit code."""

from __future__ import annotations

import argparse
import asyncio
import copy
import difflib
import gc
import io
import itertools
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn, TypeVar

from engine.errors import InputError, ScaffoldError
from engine.reading.masking import MASK, looks_secret
from grpo_training.cli.terminal_text import fitted, say

ResultT = TypeVar("ResultT")

INTERRUPTED = 130
HELP_FLAGS = ("-h", "--help", "--help-all")
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


def run_command(main: Callable[[], int], *, resumes: bool = True) -> NoReturn:
    """Run a command's ``main`` and exit.

    Args:
        main: returns the exit code.
        resumes: whether the command stores results with which the same command continues later.

    Exit codes: what ``main`` returns; for errors 1 (bad input), 2 (configuration or endpoint), 3 (stopped by a budget)
    or 130 (Ctrl-C).
    """
    signal.signal(signal.SIGTERM, _terminate)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # under nohup the command outlives its terminal
        signal.signal(signal.SIGHUP, _terminate)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed, as by >&-: no other file may get its number
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - for as long as the process runs
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may have no Greek letters
    try:
        code = main()
    except ScaffoldError as error:
        print_error(error)
        code = error.exit_code
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # one more Ctrl-C would interrupt the interpreter's own last steps
        kept = " Stored results are kept; run the same command again to continue." if resumes else ""
        print(f"\nInterrupted.{kept}", file=sys.stderr)
        code = INTERRUPTED
    except BrokenPipeError:  # the reader of the output (head, less) has exited
        code = 0
    except OSError as error:
        path = f": {error.filename}" if error.filename else ""
        print_error(
            ScaffoldError(
                f"{error.strerror or error}{path}",
                why="Stored results are kept." if resumes else "",
                fix="Check the path, permissions and free disk space, then run the same command again.",
            )
        )
        code = 1
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:  # keeps the interpreter from failing once more at its own last flush
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    gc.freeze()  # at its end the interpreter would search all objects for cycles, which takes 0.1 to 0.2 s
    sys.exit(code)


_running: dict[int, tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = {}
"""Identifier of a thread -> what it runs now."""


def run_async(main: Coroutine[Any, Any, ResultT]) -> ResultT:
    """As ``asyncio.run``, but SIGTERM and SIGHUP cancel ``main`` as Ctrl-C does, so that it can end in order.

    The second signal ends it at once.
    """
    received: list[int] = []

    async def stoppable() -> ResultT:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        _running[threading.get_ident()] = loop, task

        def stop(number: int) -> None:
            received.append(number)
            loop.remove_signal_handler(number)
            signal.signal(number, _terminate)
            task.cancel()

        for number in before:
            loop.add_signal_handler(number, stop, number)
        try:
            return await main
        finally:
            del _running[threading.get_ident()]
            for number, handler in before.items():
                loop.remove_signal_handler(number)
                signal.signal(number, _terminate if number in received else handler)

    is_main = threading.current_thread() is threading.main_thread()
    before = {n: h for n in _STOP_SIGNALS if is_main and (h := signal.getsignal(n)) is not signal.SIG_IGN}
    try:
        return asyncio.run(stoppable())
    except asyncio.CancelledError:
        if received:
            raise SystemExit(128 + received[0]) from None
        raise


def cancel_in(thread: int) -> None:
    """Cancel what :func:`run_async` runs in another thread, so that it ends in order; nothing if nothing runs there.

    Args:
        thread: identifier of the thread.
    """
    if thread in _running:
        loop, task = _running[thread]
        loop.call_soon_threadsafe(task.cancel)


def _terminate(number: int, frame: object) -> NoReturn:
    """Exit with the signal's code; context managers close files and servers on the way."""
    for repeated in _STOP_SIGNALS:  # shells send them twice; the second one would interrupt the cleanup
        signal.signal(repeated, signal.SIG_IGN)
    raise SystemExit(128 + number)


class _HelpFormatter(argparse.HelpFormatter):
    """Keeps the lines of description and epilog; shows a flag by its first spelling.

    A line that is too long for the terminal is broken. A switch that is on by default is shown by the flag that turns
    it off.
    """

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(fitted(line) for line in text.splitlines())

    def _format_action_invocation(self, action: argparse.Action) -> str:
        shown = copy.copy(action)
        if action.dest != "help":
            shown.option_strings = action.option_strings[:1]
        if isinstance(action, argparse.BooleanOptionalAction) and "(default: True)" in (action.help or ""):
            shown.option_strings = action.option_strings[:2]
        return super()._format_action_invocation(shown)


class CommandParser(argparse.ArgumentParser):
    """An argument parser whose errors are ``InputError`` and suggest the nearest flag. ``--a_b`` means ``--a-b``.

    ``full_help`` is the flag that shows all flags.
    """

    full_help = "--help"

    def __init__(self, **arguments: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=_HelpFormatter, **arguments)
        self._words: list[str] = []
        self.add_argument("--help-all", action="help", help=argparse.SUPPRESS)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As in ``argparse``; the words are kept for its errors."""
        self._words = [_dashed(word) for word in (sys.argv[1:] if args is None else args)]
        return super().parse_known_args(self._words, namespace)

    def error(self, message: str) -> NoReturn:
        """Raise ``InputError`` instead of printing the usage."""
        fix = f"See {self.prog} {self.full_help}."
        flags = {name.lstrip("-"): name for name in self._option_string_actions}
        choice = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        if choice:  # of a flag that is misspelled, the value is taken for a subcommand
            before = itertools.takewhile(lambda word: word != choice[1], self._words)
            wrong = [word for word in before if word.startswith("--") and word not in flags.values()]
            message = f"unrecognized arguments: {wrong[0]}" if wrong else message
        unknown = re.search(r"unrecognized arguments: ([^\s=]+)", message)
        if unknown:
            near = [flags[name] for name in difflib.get_close_matches(unknown[1].lstrip("-"), flags, 1)]
        else:
            near = difflib.get_close_matches(choice[1], re.findall(r"[\w-]+", choice[2]), 1) if choice else []
        if near:
            fix = f"Did you mean {near[0]}? {fix}"
        shown = " ".join(MASK if looks_secret(word) else word for word in message.split(" "))
        raise InputError(shown, fix=fix)


def _dashed(word: str) -> str:
    """A word of a command line; a flag in the spelling of the help."""
    flag, equals, value = word.partition("=")
    return flag.replace("_", "-") + equals + value if word.startswith("--") else word


def print_error(error: ScaffoldError) -> None:
    """Print what happened, why, and how to fix it to stderr."""
    say(f"✗ {error.what}", sys.stderr)
    for text in (error.why, error.fix):
        if text:
            say(f"  {text}", sys.stderr)
