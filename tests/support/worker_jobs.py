"""Jobs for ``WorkerPool`` that end well, raise, never end, wait, use too much memory, or remember."""

import sys
import time

NOTES = []


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


def hoard(payload):
    return len(bytearray(1 << 40))


def note(payload):
    NOTES.append(payload)


def noted(_):
    return NOTES


def is_imported(payload):
    return payload in sys.modules
