"""The frame of every command: errors become one clear message and the right exit code."""

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
    """Run a command's ``main`` and leave the process.

    Exit codes: what ``main`` returns, else 1 bad input, 2 configuration or endpoint, 3 budget, 130 Ctrl-C.
    """
    signal.signal(signal.SIGTERM, _terminated)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # else nohup wants it to outlive its terminal
        signal.signal(signal.SIGHUP, _terminated)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that cannot show a sign shows another
            stream.reconfigure(errors="replace")
    try:
        code = main()
    except ScaffoldError as error:
        print_error(error)
        code = error.exit_code
    except KeyboardInterrupt:
        print("\nInterrupted. Nothing is lost: the same command goes on where it stopped.", file=sys.stderr)
        code = INTERRUPTED
    except BrokenPipeError:  # the reader of our output (head, less) left
        code = 0
    except OSError as error:
        place = f": {error.filename}" if error.filename else ""
        print_error(
            ScaffoldError(
                f"{error.strerror or error}{place}",
                why="Nothing that was stored is lost.",
                fix="Mend the place that is named (its rights, its kind, the space on the disk) and run again.",
            )
        )
        code = 1
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:  # what is left must not fail once more when the interpreter ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(code)


def _terminated(number: int, frame: object) -> NoReturn:
    """End like Ctrl-C does, with everything closed on the way out."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # shells send it twice; the second would cut the way out short
    raise SystemExit(128 + number)


class CommandParser(argparse.ArgumentParser):
    """An argument parser whose errors leave with status 1 (bad input) and name the nearest flag."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(allow_abbrev=False, **arguments)

    def error(self, message: str) -> Any:
        """Raise instead of printing the usage; ``message`` is argparse's own."""
        unknown = re.search(r"unrecognized arguments: (\S+)", message)
        fix = f"See {self.prog} --help."
        if unknown:
            flag = unknown.group(1).split("=")[0]
            near = difflib.get_close_matches(flag, [*self._option_string_actions], 1)
            if near:
                fix = f"Did you mean {near[0]}? {fix}"
        raise InputError(message, fix=fix)


def print_error(error: ScaffoldError) -> None:
    """Write what happened, why, and how to mend it to stderr."""
    print(f"✗ {error.what}", file=sys.stderr)
    for part in (error.why, error.fix):
        if part:
            print(f"  {part}", file=sys.stderr)
