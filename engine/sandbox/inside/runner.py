"""Runs one Python program in its own process and reports its values.

Messages are frames over one socket: four bytes of length, then JSON. The first frame is the job. Its ``kind`` is one
of:

``calls``
    Load the program. Each further frame requests one value: the result of a function call or of an expression.
``main``
    Run the program as a script. The parent process reads its standard output. A reply is sent only if it raises.
``remote``
    Run code whose functions are in another process. Each call is sent as ``{"call": ...}``; the next frame is its
    result.

A reply is ``{"value": ...}`` or ``{"error": kind, "text": ...}``, which has the class and the message of a common
exception in ``raised``, so that a test can expect it. The program shares this process and can forge replies, so the
parent process validates all of them and sends no expected values.
"""

from __future__ import annotations

import ast
import builtins
import gc
import json
import os
import random
import struct
import sys
import types
from collections.abc import Iterable
from typing import Any, NoReturn

from . import wire

_LENGTH = struct.Struct(">I")
_INT_DIGITS = 50_000
_TEXT = 300
_EXPECTED = (
    ValueError, TypeError, KeyError, IndexError, LookupError, ZeroDivisionError, OverflowError, ArithmeticError,
    AttributeError, NameError, NotImplementedError, RecursionError, RuntimeError, AssertionError, Exception,
)  # fmt: skip
"""Exceptions that a test can expect from a function in another process; subclasses count as the first that fits.

``StopIteration`` arrives as ``RuntimeError``, as from a generator (PEP 479): it would end ``map(f, ...)`` in the test
without an error, and the test would compare nothing.
"""


def run(channel: int) -> NoReturn:
    """Read a job from the file descriptor ``channel``, run it and exit this process."""
    _write_frame(channel, {"started": True})  # sent before the program is read, so it cannot be forged
    job = json.loads(_read_frame(channel))
    gc.enable()
    random.seed(0)
    sys.set_int_max_str_digits(_INT_DIGITS)
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", errors="surrogateescape", newline="\n", closefd=False)  # noqa: SIM115
    sys.__stdin__, sys.__stdout__ = sys.stdin, sys.stdout  # type: ignore[misc] # open while a program wraps their buffers
    builtins.exit = builtins.quit = _leave  # type: ignore[assignment]
    code = {"calls": _calls, "main": _main, "remote": _remote}[job["kind"]](channel, job)
    if job["kind"] == "main":  # the interpreter joins threads, runs exit functions and finalizers, and flushes
        sys.exit(code)
    os._exit(code)


def _leave(code: Any = None) -> NoReturn:
    """``exit`` and ``quit``, which are otherwise defined by the module ``site``, which is not loaded here."""
    raise SystemExit(code)


def _module(name: str) -> dict[str, Any]:
    module = types.ModuleType(name)
    sys.modules[name] = module  # dataclasses and pickle look up the module of a class
    return module.__dict__


def _execute(source: str, name: str, namespace: dict[str, Any]) -> None:
    exec(compile(source, f"<{name}>", "exec", dont_inherit=True), namespace)  # noqa: S102 - the purpose of this process


def _calls(channel: int, job: dict[str, Any]) -> int:
    namespace = _module("solution")
    try:
        _execute(job["program"], "program", namespace)
    except BaseException as error:  # noqa: BLE001 - any exception is reported, including SystemExit
        _write_frame(channel, _failure(error))
        return 0
    if job["entry_point"] and job["entry_point"] not in namespace:
        _write_frame(channel, _missing(job["entry_point"]))
        return 0
    _write_frame(channel, {"value": None})
    max_items = job["max_items"]
    while request := _read_frame(channel):
        try:
            reply = _answer(json.loads(request), namespace, max_items)
        except BaseException as error:  # noqa: BLE001
            reply = json.dumps(_failure(error)).encode()
        _write_bytes(channel, reply)
    return 0


def _answer(request: dict[str, Any], namespace: dict[str, Any], max_items: int) -> bytes:
    if "expression" in request:
        if request["setup"]:
            _execute(request["setup"], "setup", namespace)
        value = eval(compile(request["expression"], "<expression>", "eval", dont_inherit=True), namespace)  # noqa: S307
        return b'{"value":' + wire.encode(value, max_items) + b"}"
    path = request["fn"].split(".")
    if path[0] not in namespace:
        return json.dumps(_missing(path[0])).encode()
    function = namespace[path[0]]
    for name in path[1:]:
        function = getattr(function() if isinstance(function, type) else function, name)
    args = wire.from_form(request["args"])
    kwargs = wire.from_form(request["kwargs"])
    value = function(*args, **kwargs)
    if not request.get("changed"):
        return b'{"value":' + wire.encode(value, max_items) + b"}"
    reply = b'{"value":' + wire.encode_result(value, max_items)
    return reply + b',"args":' + wire.encode(args, max_items) + b"}"


def _main(channel: int, job: dict[str, Any]) -> int:
    namespace = _module("__main__")
    namespace.update(__builtins__=builtins, __file__="program.py")
    try:
        _execute(job["program"], "program", namespace)
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException as error:  # noqa: BLE001
        _write_frame(channel, _failure(error))
        return 1
    return 0


def _remote(channel: int, job: dict[str, Any]) -> int:
    """Run code that calls functions of another process."""
    namespace = _module("caller")
    try:
        trees = (ast.parse(job["setup"]), ast.parse(job["program"]))
        for name in job["remote"] or _remote_names(trees):  # a setup may call remote functions too
            namespace[name] = _Remote(channel, name)
        _execute(job["setup"], "setup", namespace)
        for name in job["remote"]:
            namespace[name] = _Remote(channel, name)
        _execute(job["program"], "caller", namespace)
    except _RemoteError as error:
        _write_frame(channel, {"error": error.kind, "text": error.text[:_TEXT]})
    except AssertionError as error:
        _write_frame(channel, {"error": "assertion", "text": str(error)[:_TEXT]})
    except BaseException as error:  # noqa: BLE001
        _write_frame(channel, {"error": "runtime_error", "text": _failure(error)["text"]})
    else:
        _write_frame(channel, {"value": None})
    return 0


def _remote_names(trees: Iterable[ast.AST]) -> set[str]:
    """The functions of the program that a test without an entry point calls: its free names.

    A free name whose call contains the call of another one, such as ``near`` in ``near(f(1), 5)``, is not among them,
    because the program could define it and learn or confirm the expected value.
    """
    nodes = [node for tree in trees for node in ast.walk(tree)]
    names = {node.id for node in nodes if isinstance(node, ast.Name)} - vars(builtins).keys()
    outer = {
        node.func.id
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and _calls_any(node, names - {node.func.id})
    }
    return names - outer


def _calls_any(call: ast.Call, names: set[str]) -> bool:
    inner = (
        node.func
        for argument in (*call.args, *call.keywords)
        for node in ast.walk(argument)
        if isinstance(node, ast.Call)
    )
    return any(isinstance(function, ast.Name) and function.id in names for function in inner)


class _RemoteError(Exception):
    """A failure of a remote call. What the function raised is a subclass, which is also of the raised class."""

    def __init__(self, message: str, kind: str, text: str) -> None:
        Exception.__init__(self, message)
        self.kind, self.text = kind, text


_REMOTE_ERRORS = {kind.__name__: type(kind.__name__, (_RemoteError, kind), {}) for kind in _EXPECTED[:-1]}


class _Remote:
    """A function in another process. Arguments and results are plain values."""

    def __init__(self, channel: int, name: str) -> None:
        self._channel, self._name = channel, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call = {
            "fn": self._name,
            "args": wire.to_form(list(args)),
            "kwargs": wire.to_form(kwargs),
            "changed": True,
        }
        _write_frame(self._channel, {"call": call})
        reply = wire.loads(_read_frame(self._channel))
        if "value" not in reply:  # the parent process has validated the error
            kind, message = reply.get("raised", ("", ""))
            text = f"{self._name}: {reply.get('text', '')}"
            raise _REMOTE_ERRORS.get(kind, _RemoteError)(str(message), reply["error"], text)
        for argument, changed in zip(args, wire.from_form(reply["args"]), strict=True):
            _copy_changes(argument, changed)
        return wire.from_form(reply["value"])


def _copy_changes(argument: Any, changed: Any) -> None:
    """Apply to an argument the changes that the remote call made to its copy."""
    if type(argument) is not type(changed):
        return
    if isinstance(argument, list):
        argument[:] = changed
    elif isinstance(argument, dict | set):
        argument.clear()
        argument.update(changed)


def _missing(name: str) -> dict[str, str]:
    return {"error": "no_entry_point", "text": f"the program does not define {name}"}


def _failure(error: BaseException) -> dict[str, Any]:
    kind = "runtime_error"
    if isinstance(error, MemoryError):
        kind = "memory"
    elif isinstance(error, PermissionError):
        kind = "forbidden"
    try:
        message = str(error.args[0]) if error.args else ""
        text = f"{type(error).__name__}: {error}"
    except BaseException:  # noqa: BLE001 - an exception whose own text raises
        message, text = "", type(error).__name__
    failure: dict[str, Any] = {"error": kind, "text": text[:_TEXT]}
    if kind == "runtime_error":
        raised = next((expected.__name__ for expected in _EXPECTED if isinstance(error, expected)), "")
        raised = "RuntimeError" if isinstance(error, StopIteration) else raised
        failure["raised"] = [raised, message[:_TEXT]]
    return failure


def _write_frame(channel: int, message: dict[str, Any]) -> None:
    _write_bytes(channel, json.dumps(message).encode())


def _write_bytes(channel: int, data: bytes) -> None:
    view = memoryview(_LENGTH.pack(len(data)) + data)
    while view:
        view = view[os.write(channel, view) :]


def _read_frame(channel: int) -> bytes:
    """The next frame; empty at the end of the channel."""
    head = _read_exactly(channel, _LENGTH.size)
    return _read_exactly(channel, _LENGTH.unpack(head)[0]) if head else b""


def _read_exactly(channel: int, count: int) -> bytes:
    chunks = []
    while count:
        data = os.read(channel, min(count, 1 << 20))
        if not data:
            return b""
        chunks.append(data)
        count -= len(data)
    return b"".join(chunks)
