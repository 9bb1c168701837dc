import pytest

from engine.sandbox import Sandbox, SandboxError
from engine.sandbox.host import LEVELS, Zygote


def _works(level):
    try:
        Zygote(level).close()
    except SandboxError as error:
        return str(error)
    return ""


_WHY_NOT = {}


@pytest.fixture(scope="session", params=LEVELS)
def sandbox(request):
    """A sandbox of each level that this machine has; nothing is remembered, so everything is run."""
    level = request.param
    why_not = _WHY_NOT.setdefault(level, _works(level))
    if why_not:
        pytest.skip(why_not)
    sandbox = Sandbox(2, level, remembered=0)
    yield sandbox
    sandbox.close()
