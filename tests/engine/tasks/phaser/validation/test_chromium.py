"""The audit in a real browser: the same verdicts as without a screen, and a picture of the game."""

import base64
import json
import struct

import pytest

from engine.errors import ConfigurationError
from engine.tasks.phaser.hints import holds
from engine.tasks.phaser.validation.browser import find_chromium
from engine.tasks.phaser.validation.validator import PhaserValidator
from engine.tasks.phaser.validation.verdict import RuntimeOutcome, ValidationRequest
from tests.engine.tasks.phaser.validation.test_drawn import CREATES, HINTS, HONEST, MOVES, PROGRAM
from tests.engine.tasks.phaser.validation.test_isolation import BROWSER, signs
from tests.engine.tasks.phaser.validation.test_programs import PROGRAMS

pytestmark = pytest.mark.node


@pytest.fixture(scope="module")
def browser(api_index):
    """A validator that runs programs in Chromium."""
    try:
        find_chromium()
    except ConfigurationError as error:
        pytest.skip(error.what)
    with PhaserValidator.open(api_index, workers=1, runtime="chromium") as opened:
        yield opened


@pytest.mark.timeout(400)
def test_chromium_agrees_and_makes_pictures(browser, validator):
    names = ("right/input_sampling_keys", "hacks/silent_rejection", "hacks/patched_game_hidden")
    requests = [
        ValidationRequest(code=(PROGRAMS / f"{name}.js").read_text(), frames=5, skip_eslint=True, screenshot=True)
        for name in names
    ]
    assert browser.versions["runtime"] == "chromium"
    seen = [browser.validate(request) for request in requests]
    without_screen = [validator.validate(request) for request in requests]
    assert [verdict.runtime.outcome for verdict in seen] == [verdict.runtime.outcome for verdict in without_screen]
    assert [verdict.gates["must_use"] for verdict in seen] == [verdict.gates["must_use"] for verdict in without_screen]
    game = seen[0]
    assert game.runtime.outcome is RuntimeOutcome.OK
    picture = base64.b64decode(game.screenshot)
    assert picture.startswith(b"\x89PNG")
    assert struct.unpack(">II", picture[16:24]) == (1024, 768)
    assert json.loads(game.model_dump_json())["runtime"]["observed"]["scenes"][0]["objects"] == {"Text": 1}


@pytest.mark.timeout(400)
def test_chromium_follows_what_is_drawn_and_runs_no_branch_for_another_browser(browser, validator):
    only_here = "if (typeof OffscreenCanvas !== 'undefined') this.all.forEach((one) => one.setVisible(false));"
    shows = {"honest": "", "transparent": CREATES["transparent"], "display": CREATES["canvas_without_display"]}
    shows |= {"cover": CREATES["canvas_covered"] + "box.style.inset = '0';", "branch": only_here}
    held = {}
    for name, create in shows.items():
        code = PROGRAM % (HONEST + create, MOVES)
        seen = browser.validate(ValidationRequest(code=code, frames=24, skip_eslint=True)).runtime.observed
        held[name] = [holds(hint, seen) for hint in HINTS]
    assert all(held.pop("honest"))
    assert {name: any(results) for name, results in held.items()} == dict.fromkeys(held, False)
    code = PROGRAM % (HONEST + only_here, MOVES)
    without_screen = validator.validate(ValidationRequest(code=code, skip_eslint=True)).runtime.observed
    assert all(holds(hint, without_screen) for hint in HINTS)  # why the audit is needed


@pytest.mark.timeout(400)
def test_a_program_is_not_told_that_chromium_is_driven(browser):
    assert signs(browser) == BROWSER
