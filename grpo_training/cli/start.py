"""The first step of a command, before anything else is imported: until then, Ctrl-C prints a traceback."""

from __future__ import annotations

import signal
import sys


def started_module() -> str:
    """The module of ``python -m MODULE``; empty for another start."""
    return sys.orig_argv[sys.orig_argv.index("-m") + 1] if "-m" in sys.orig_argv[:-1] else ""


def leave_ctrl_c_to_the_system() -> None:
    """Let Ctrl-C end a command without a traceback while its modules are imported; ``run_command`` handles it then.

    Another program that imports the package keeps its own handler.
    """
    package, _, command = started_module().partition(".")
    is_command = package == "grpo_training" and "." not in command
    if is_command and signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not under nohup, for example
        signal.signal(signal.SIGINT, signal.SIG_DFL)
