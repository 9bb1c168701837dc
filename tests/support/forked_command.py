"""Commands in processes of their own, forked from one process that has loaded their modules and prompt templates.

A start takes milliseconds; ``python -m`` takes a second of processor time. What a process does from its first statement
on is the same, except that all of them have the same hash seed.
"""

import atexit
import contextlib
import multiprocessing
import os
import runpy
import sys

from tests.conftest import ROOT

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(
    [
        *("grpo_training.learning.generator", "grpo_training.learning.critic", "grpo_training.teacher.generate"),
        *("engine.llm.connection", "tests.support.loaded_early", "tests.support.forked_command"),
    ]
)


class ForkedCommand:
    """A running command, with the members of ``subprocess.Popen`` that the tests use.

    Args:
        program: the name of a module, or the path of a script.
        arguments: the command line after it.
        folder: the folder that it works in.
        variables: environment variables to set.
    """

    def __init__(self, program, arguments, folder=ROOT, **variables):
        output, self._sent = _SERVER.Pipe(duplex=False)
        environment = {**os.environ, **variables}
        self._process = _SERVER.Process(
            target=_run, args=(str(program), [*map(str, arguments)], str(folder), environment, self._sent)
        )
        with contextlib.chdir(ROOT):  # the server is started here, and imports from the current folder
            self._process.start()
        self._sent.close()
        atexit.register(self._process.kill)  # after a failed test it may still run, and exit would wait for it
        self.stdout = os.fdopen(os.dup(output.fileno()), encoding="utf-8", errors="replace")
        output.close()
        self.pid = self._process.pid

    @property
    def returncode(self):
        return self._process.exitcode

    def poll(self):
        return self._process.exitcode

    def wait(self, timeout=None):
        self._process.join(timeout)
        assert self._process.exitcode is not None, f"the command still runs after {timeout} s"
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
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    output.close()
    sys.stdout, sys.stderr = (os.fdopen(fd, "w", closefd=False) for fd in (1, 2))
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = [program, *arguments]
    try:
        if program.endswith(".py"):
            runpy.run_path(program, run_name="__main__")
        else:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
    finally:
        atexit._run_exitfuncs()  # processes of multiprocessing end without them
