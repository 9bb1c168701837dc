"""The entry point of every command: errors become one clear message and an exit code."""

from __future__ import annotations

import argparse
import difflib
import io
import os
import re
import signal
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from engine.errors import InputError, ScaffoldError

if TYPE_CHECKING:
    from collections.abc import Callable

INTERRUPTED = 130


def run_command(main: Callable[[], int]) -> NoReturn:
    """Run a command's ``main`` and exit.

    Exit codes: what ``main`` returns; for errors 1 (bad input), 2 (configuration or endpoint), 3 (stopped by a budget)
    or 130 (Ctrl-C).
    """
    signal.signal(signal.SIGTERM, _terminate)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # under nohup the command outlives its terminal
        signal.signal(signal.SIGHUP, _terminate)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without a character shows a replacement
            stream.reconfigure(errors="replace")
    try:
        code = main()
    except ScaffoldError as error:
        print_error(error)
        code = error.exit_code
    except KeyboardInterrupt:
        print("\nInterrupted. Stored results are kept; run the same command again to continue.", file=sys.stderr)
        code = INTERRUPTED
    except BrokenPipeError:  # the reader of the output (head, less) has exited
        code = 0
    except OSError as error:
        place = f": {error.filename}" if error.filename else ""
        print_error(
            ScaffoldError(
                f"{error.strerror or error}{place}",
                why="Stored results are kept.",
                fix="Check permissions and free disk space, then run the same command again.",
            )
        )
        code = 1
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:  # keeps the interpreter from failing once more at its own last flush
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(code)


def _terminate(number: int, frame: object) -> NoReturn:
    """Exit with the signal's code; context managers close files and servers on the way."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # shells send it twice; the second one would interrupt the cleanup
    raise SystemExit(128 + number)


class CommandParser(argparse.ArgumentParser):
    """An argument parser whose errors are ``InputError`` and suggest the nearest flag."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(allow_abbrev=False, **arguments)

    def error(self, message: str) -> NoReturn:
        """Raise ``InputError`` instead of printing the usage."""
        unknown = re.search(r"unrecognized arguments: (\S+)", message)
        fix = f"See {self.prog} --help."
        if unknown:
            flag = unknown.group(1).split("=")[0]
            near = difflib.get_close_matches(flag, [*self._option_string_actions], 1)
            if near:
                fix = f"Did you mean {near[0]}? {fix}"
        raise InputError(message, fix=fix)


def print_error(error: ScaffoldError) -> None:
    """Print what happened, why, and how to fix it to stderr."""
    print(f"✗ {error.what}", file=sys.stderr)
    for part in (error.why, error.fix):
        if part:
            print(f"  {part}", file=sys.stderr)
