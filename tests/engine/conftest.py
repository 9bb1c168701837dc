import pytest

from engine.sandbox.levels import LEVELS
from engine.sandbox.zygote_process import SandboxError, Zygote, strongest_level
from engine.tasks.code.testing.tester import ProgramTester


def _why_unavailable(level):
    try:
        Zygote(level).close()
    except SandboxError as error:
        return str(error)
    return ""


@pytest.fixture(scope="session", params=LEVELS)
def tester(request):
    """A program tester on each level of isolation that works here."""
    reason = _why_unavailable(request.param)
    if reason:
        pytest.skip(reason)
    tester = ProgramTester(2, request.param)
    yield tester
    tester.close()


@pytest.fixture(scope="session")
def strongest_tester():
    """The tester of the strongest level, for what no level changes."""
    tester = ProgramTester(2, strongest_level())
    yield tester
    tester.close()
