"""Jobs for ``KillablePool`` that end well, raise, never end, wait, or use too much memory."""

import importlib
import os
import sys
import time


def echo(payload):
    return payload


def fail(payload):
    raise RuntimeError(str(payload))


def spin(payload):
    while True:
        pass


def nap(seconds):
    time.sleep(seconds)
    return "awake"


def threads(payload):
    import numpy  # starts its threads

    numpy.ones((500, 500)) @ numpy.ones((500, 500))
    return len(os.listdir("/proc/self/task"))


def hoard(payload):
    return len(bytearray(1 << 40))


def is_imported(payload):
    return payload in sys.modules


def loaded_with(modules):
    """The large packages in this process after an import of modules."""
    for name in modules:
        importlib.import_module(name)
    return sorted({"pydantic", "sympy"} & sys.modules.keys())
