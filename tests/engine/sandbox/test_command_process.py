"""Executables that are not Python programs run under the same confinement, and exchange messages with their starter."""

import os
import sys
import textwrap
import time

import pytest

from engine.sandbox.command_process import CommandProcess, CommandStoppedError
from engine.sandbox.levels import LEVELS
from engine.sandbox.zygote_process import SandboxError, Zygote

_INTERPRETER = os.path.realpath(sys.executable)
_WIRE = """
import json, os, struct, sys
def take(size):
    data = b""
    while len(data) < size: data += os.read(3, size - len(data)) or sys.exit(0)
    return data
def receive(): return json.loads(take(struct.unpack(">I", take(4))[0]))
def send(message):
    data = json.dumps(message).encode()
    os.write(3, struct.pack(">I", len(data)) + data)
"""


@pytest.fixture(scope="module", params=LEVELS)
def level(request):
    try:
        Zygote(request.param).close()
    except SandboxError as error:
        pytest.skip(str(error))
    return request.param


def _start(level, program, busy_factor=15.0):
    command = [_INTERPRETER, "-s", "-S", "-I", "-c", _WIRE + textwrap.dedent(program)]
    return CommandProcess(command, Zygote(level), memory_mb=256, busy_factor=busy_factor)


def test_messages_go_both_ways_and_prints_are_kept_apart(level):
    process = _start(
        level,
        """
        while True:
            message = receive()
            print("working on", message["number"], flush=True)
            send({"double": 2 * message["number"]})
        """,
    )
    for number in (1, 21):
        process.send({"number": number})
        assert process.receive(5) == {"double": 2 * number}
    assert process.printed == "working on 1\nworking on 21\n"
    process.close()
    process.close()


def test_it_can_touch_nothing(level, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    process = _start(
        level,
        f"""
        import signal, socket, subprocess, threading
        def tries(action):
            try: return str(action())[:40]
            except BaseException as error: return type(error).__name__
        send({{
            "fork": tries(os.fork),
            "spawn": tries(lambda: subprocess.run([sys.executable, "-c", ""])),
            "kill": tries(lambda: os.kill(os.getppid() or {os.getpid()}, 0)),
            "network": tries(lambda: socket.create_connection(("127.0.0.1", 9), 1)),
            "overwrite": tries(lambda: open({str(secret)!r}, "w")),
            "create": tries(lambda: open({str(tmp_path / "new")!r}, "w")),
            "memory": tries(lambda: len(bytearray(1 << 30))),
            "environment": sorted(os.environ),
            "descriptors": [fd for fd in range(64) if tries(lambda: os.fstat(fd)) != "OSError"],
        }})
        """,
    )
    results = process.receive(10)
    process.close()
    for name in ("fork", "spawn", "kill", "network", "overwrite", "create", "memory"):
        assert results[name].endswith("Error"), (name, results[name])
    assert results["environment"] in ([], ["LC_ALL"], ["LC_ALL", "LC_CTYPE"])
    assert results["descriptors"] == [0, 1, 2, 3]
    assert secret.read_text() == "secret"
    assert not (tmp_path / "new").exists()


def test_other_files_are_not_visible_where_there_are_namespaces(tmp_path):
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "shown").write_text("shown")
    try:
        zygote = Zygote("bubblewrap", [str(tmp_path / "shown")])
    except SandboxError as error:
        pytest.skip(str(error))
    names = [str(tmp_path / name) for name in ("secret", "shown")]
    program = f"send({{'seen': [os.path.exists(name) for name in {names!r}]}})"
    process = CommandProcess([_INTERPRETER, "-s", "-S", "-I", "-c", _WIRE + program], zygote, memory_mb=256)
    assert process.receive(5) == {"seen": [False, True]}
    process.close()


@pytest.mark.parametrize(
    ("program", "why", "starved"),
    [
        ("while True: pass", "timeout", False),
        ("import time; time.sleep(60)", "timeout", True),
        ("print('last words', flush=True); sys.exit(7)", "exited", False),
        ("os.write(3, b'xxxxxxxxxxxxxxxx')", "protocol", False),
        ("os.write(3, struct.pack('>I', 3) + b'[1]')", "protocol", False),
    ],
    ids=["loop", "sleep", "exit", "length", "no-object"],
)
def test_a_process_that_does_not_answer_is_ended(program, why, starved):
    process = _start("rlimits", program, busy_factor=4.0 if starved else 60.0)
    started = time.monotonic()
    with pytest.raises(CommandStoppedError) as caught:
        process.receive(0.3)
    assert time.monotonic() - started < 30
    assert (caught.value.why, caught.value.starved) == (why, starved)
    if why == "exited":
        assert caught.value.ending.code == 7
        assert caught.value.printed == "last words\n"
