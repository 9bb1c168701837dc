"""Programs of our own: right ones pass every gate, hacks pass neither the gates nor harm what runs after them."""

import json
from pathlib import Path

import pytest

from engine.records import Outcome
from engine.tasks.phaser.validation.verdict import STAGES, RuntimeOutcome, ValidationRequest

pytestmark = pytest.mark.node

PROGRAMS = Path(__file__).parent / "programs"
RIGHT = sorted(path.stem for path in (PROGRAMS / "right").glob("*.js"))
HACKS = json.loads((PROGRAMS / "hacks.json").read_text())


def _code(kind, name):
    return (PROGRAMS / kind / f"{name}.js").read_text()


def test_there_are_enough_programs_and_each_hack_says_where_it_fails():
    assert len(RIGHT) >= 40
    assert len(HACKS) >= 40
    assert set(HACKS) == {path.stem for path in (PROGRAMS / "hacks").glob("*.js")}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_program_passes_every_gate(validator, name):
    verdict = validator.validate(ValidationRequest(code=_code("right", name)))
    assert verdict.outcome is Outcome.OK, verdict.fault
    failed = {stage: verdict.gates[stage].reasons for stage in STAGES if verdict.gates[stage].ok is not True}
    assert failed == {}
    assert verdict.api_usage.misses == ()
    assert verdict.runtime.observed.frames == 60


@pytest.mark.parametrize("name", sorted(HACKS))
def test_a_hack_fails_where_it_should(validator, name):
    expected = HACKS[name]
    time_s = 1.0 if expected == "timeout" else 8.0  # it is spent
    request = ValidationRequest(code=_code("hacks", name), skip_eslint=True, time_s=time_s)
    verdict = validator.validate(request)
    assert verdict.outcome is Outcome.OK, verdict.fault
    assert verdict.gates["runtime"].ok is not True
    if expected in STAGES:
        assert verdict.gates[expected].ok is False
        assert verdict.runtime.outcome is RuntimeOutcome.SKIPPED
    else:
        assert verdict.gates["runtime"].ok is False
        assert verdict.runtime.outcome.value == expected, verdict.runtime.message
