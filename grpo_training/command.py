"""The frame of every command: errors become one clear message and the right exit code."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NoReturn

from engine.errors import ScaffoldError

if TYPE_CHECKING:
    from collections.abc import Callable

INTERRUPTED = 130


def run_command(main: Callable[[], int]) -> NoReturn:
    """Run a command's ``main`` and leave the process.

    Exit codes: what ``main`` returns, else 1 bad input, 2 configuration or endpoint, 3 budget, 130 Ctrl-C.
    """
    try:
        code = main()
    except ScaffoldError as error:
        print_error(error)
        code = error.exit_code
    except KeyboardInterrupt:
        print("\nInterrupted. Nothing is lost: the same command goes on where it stopped.", file=sys.stderr)
        code = INTERRUPTED
    except BrokenPipeError:  # the reader of our output (head, less) left
        sys.stderr.close()
        code = 0
    sys.exit(code)


def print_error(error: ScaffoldError) -> None:
    """Write what happened, why, and how to mend it to stderr."""
    print(f"✗ {error.what}", file=sys.stderr)
    for part in (error.why, error.fix):
        if part:
            print(f"  {part}", file=sys.stderr)
