"""Functions that tests call on a Ray cluster. Its workers import them from here."""

import os
import signal
import time
from pathlib import Path

from engine.errors import InputError


def square(number):
    """The square, and the process that has worked it out."""
    if number < 0:
        raise InputError(f"{number} is negative", fix="Give another number.")
    return number * number, os.getpid()


def square_at_gate(number, gate):
    """As :func:`square`, when a file is there; a file beside it has the process that waits."""
    Path(f"{gate}.{os.getpid()}").touch()
    while not Path(gate).exists():
        time.sleep(0.01)
    return square(number)


def end_worker():
    """End the process that this is called in."""
    os.kill(os.getpid(), signal.SIGKILL)


def fail():
    """Raise what no person is to read."""
    raise ZeroDivisionError("of the task")
