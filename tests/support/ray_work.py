"""Workers for the tests of executors. They are imported in the processes that open them."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from engine.errors import InputError


@dataclass(frozen=True)
class Squares:
    """Describes workers that square numbers.

    Args:
        deadly: the number at which a worker ends its process.
        gate: a file that has to exist before a number of 100 or more is squared.
        seconds: how long a number takes.
    """

    deadly: int | None = None
    gate: str = ""
    seconds: float = 0.0

    def open(self, number):
        return SquareWorker(self, number)


class Unopenable:
    """Describes workers whose process ends when they are opened, as on a node that lacks a package."""

    def open(self, number):
        os._exit(1)


class Unmakeable:
    """Ends its process when it is made."""

    def __init__(self):
        os._exit(1)


class SquareWorker:
    def __init__(self, description, number):
        self._description, self._number = description, number

    def run(self, item):
        if item == self._description.deadly:
            os._exit(1)
        if item < 0:
            raise InputError(f"{item} is negative", fix="Give another number.")
        while item >= 100 and not Path(self._description.gate).exists():
            time.sleep(0.01)
        time.sleep(self._description.seconds)
        return item * item, self._number

    def close(self):
        if self._description.gate:
            Path(f"{self._description.gate}.closed{self._number}").touch()
