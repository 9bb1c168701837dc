"""Commands in processes of their own, forked from one process that has loaded their modules and prompt templates.

A start takes milliseconds; ``python -m`` takes a second of processor time, and ten with torch. What a process does from
its first statement on is the same, except that all of them have the same hash seed.
"""

import atexit
import contextlib
import gc
import os
import runpy
import subprocess
import sys
import threading
import types
from multiprocessing import Pipe, forkserver, get_context
from unittest import mock

from tests.conftest import ROOT


def _server(*modules):
    server = forkserver.ForkServer()
    server.set_forkserver_preload(["tests.support.without_collection", *modules, "tests.support.forked_command"])
    return server


LEARNING = _server(
    *("grpo_training.learning.generator", "grpo_training.learning.critic", "grpo_training.teacher.generate"),
    *("engine.llm.connection", "tests.support.loaded_early"),
)
"""Has loaded what the generators and the critic need."""
TRAINING = _server(
    *("grpo_training.train.run", "grpo_training.train.offline.loop", "grpo_training.train.online.trainer"),
    *("accelerate", "peft", "safetensors.torch"),
)
"""Has loaded what a training needs."""
_starts = threading.Lock()


class ForkedCommand:
    """A running command, with the members of ``subprocess.Popen`` that the tests use.

    Args:
        program: the name of a module, the path of a script, or the text of one, of several lines.
        arguments: the command line after it.
        folder: the folder that it works in.
        server: the process that it is forked from.
        output: a file that it writes to, instead of ``stdout``.
        variables: environment variables to set.
    """

    def __init__(self, program, arguments, folder=ROOT, *, server=LEARNING, output=None, **variables):
        received, sent = Pipe(duplex=False)
        environment = {**os.environ, **variables}
        self._process = get_context("forkserver").Process(
            target=_run, args=(str(program), [*map(str, arguments)], str(folder), environment, output or sent)
        )
        with (
            _starts,
            contextlib.chdir(ROOT),  # the server is started here, and imports from the current folder
            mock.patch.object(forkserver, "connect_to_new_process", server.connect_to_new_process),
        ):
            self._process.start()
        sent.close()
        atexit.register(self._process.kill)  # after a failed test it may still run, and exit would wait for it
        self.stdout = os.fdopen(os.dup(received.fileno()), encoding="utf-8", errors="replace")
        received.close()
        self.pid = self._process.pid

    @property
    def returncode(self):
        return self._process.exitcode

    def poll(self):
        return self._process.exitcode

    def wait(self, timeout=None):
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("the command", timeout)
        return self._process.exitcode

    def communicate(self, timeout=None):
        """What the command prints until it ends. Reading ends with the command; ``timeout`` is for its last steps."""
        return self.stdout.read(), self.wait(timeout)

    def kill(self):
        self._process.kill()

    def terminate(self):
        self._process.terminate()

    def send_signal(self, number):
        os.kill(self.pid, number)


def _run(program, arguments, folder, environment, output):
    gc.freeze()
    gc.enable()  # see without_collection
    os.setsid()
    fd = os.open(output, os.O_WRONLY | os.O_APPEND) if isinstance(output, str) else output.fileno()
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    if not isinstance(output, str):
        output.close()
    sys.stdout, sys.stderr = (os.fdopen(fd, "w", closefd=False) for fd in (1, 2))
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = [program, *arguments]
    try:
        if "\n" in program:
            sys.modules["__main__"] = module = types.ModuleType("__main__")
            exec(program, vars(module))
        elif program.endswith(".py"):
            runpy.run_path(program, run_name="__main__")
        else:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
    finally:
        atexit._run_exitfuncs()  # processes of multiprocessing end without them
