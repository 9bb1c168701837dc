"""Tests of programs in short, and failures of the sandbox."""

from itertools import count

from engine.sandbox.zygote_process import SandboxError
from engine.tasks.code.literals import to_literal
from engine.tasks.code.testing.test_runner import TestRunner


def call_test(fn, args=(), kwargs=None, expected=None, cmp="exact"):
    """A test that calls a function."""
    text = repr(expected) if isinstance(expected, complex) else to_literal(expected)
    literals = {"args": to_literal(tuple(args)), "kwargs": to_literal(kwargs or {}), "expected": text}
    return {"kind": "call", "fn": fn, **literals, "cmp": cmp}


def stdin_test(stdin, expected, cmp="lines"):
    """A test that runs a program with an input."""
    return {"kind": "stdin", "stdin": stdin, "expected": expected, "cmp": cmp}


def assert_test(code, setup=""):
    """A test that is code."""
    return {"kind": "assert", "code": code, "setup": setup}


def fail_every(period, monkeypatch):
    """Let the sandbox fail for one of so many programs, from the first on."""
    statuses, calls = TestRunner.statuses, count()

    def sometimes(runner, tests):
        if next(calls) % period == 0:
            raise SandboxError("injected")
        return statuses(runner, tests)

    monkeypatch.setattr(TestRunner, "statuses", sometimes)
