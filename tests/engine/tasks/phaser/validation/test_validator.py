"""The stages of the validator, end to end with Node.js and Chromium."""

import base64
import json
import struct

import pytest

from engine.records import Outcome
from engine.tasks.phaser.validation.verdict import STAGES, RuntimeOutcome, ValidationRequest
from tests.conftest import shared_file

pytestmark = pytest.mark.node

GAME = """
class Main extends Phaser.Scene {
  constructor() { super('main'); }
  preload() {
    const g = this.make.graphics({ add: false });
    g.fillStyle(0xff0000).fillRect(0, 0, 32, 32);
    g.generateTexture('box', 32, 32);
    g.destroy();
  }
  create() {
    this.score = 0;
    this.player = this.physics.add.sprite(100, 100, 'box').setVelocity(60, 0);
    this.label = this.add.text(10, 10, 'score 0');
    this.cursors = this.input.keyboard.createCursorKeys();
    this.input.on('pointerdown', () => { this.score += 10; });
    this.time.addEvent({ delay: 100, loop: true, callback: () => { this.score += 1; } });
    this.tweens.add({ targets: this.label, alpha: 0.2, duration: 500 });
  }
  update() {
    if (this.cursors.left.isDown) this.player.setVelocityX(-160);
    if (this.label.text !== `score ${this.score}`) console.log(`score ${this.score}`);
    this.label.setText(`score ${this.score}`);
  }
}
const config = { type: Phaser.AUTO, width: 800, height: 600, physics: { default: 'arcade' }, scene: Main };
new Phaser.Game(config);
"""


def _validate(validator, code, **fields):
    return validator.validate(ValidationRequest(code=code, skip_eslint=True, **fields))


def test_a_right_game_passes_every_gate_and_its_state_is_observed(validator):
    verdict = validator.validate(ValidationRequest(code=GAME, must_use=("Phaser.GameObjects.Graphics",)))
    assert verdict.outcome is Outcome.OK
    assert {stage: verdict.gates[stage].ok for stage in STAGES} == dict.fromkeys(STAGES, True)
    observed = verdict.runtime.observed
    (scene,) = observed.scenes
    assert (scene.key, scene.created, scene.active, scene.objects) == ("main", 1, True, 2)
    assert observed.frames == 60
    assert (observed.shows, observed.moves, observed.reacts) == (True, True, True)
    assert observed.colors == ("#000000", "#ff0000")
    # 60 frames are one second: the timer of 100 ms has fired 9 times, and there were two clicks
    assert observed.console[-1] == "score 29"
    picture = base64.b64decode(verdict.runtime.screenshot)
    assert struct.unpack(">II", picture[16:24]) == (800, 600)


@pytest.mark.parametrize(
    ("change", "moves", "reacts"),
    [
        (("if (this.cursors.left.isDown)", "if (this.score < 0)"), True, True),  # the clicks change the score
        (("this.score += 10;", ""), True, True),
        (("this.score += 10; });", "}); this.cursors.left.reset = 1; this.cursors = { left: {} };"), True, False),
    ],
)
def test_what_moves_and_what_reacts_to_input(validator, change, moves, reacts):
    observed = _validate(validator, GAME.replace(*change)).runtime.observed
    assert (observed.moves, observed.reacts) == (moves, reacts)


def test_a_picture_that_stands_still(validator):
    code = "new Phaser.Game({ scene: { create() { this.add.text(9, 9, 'Hello'); } } });"
    observed = _validate(validator, code).runtime.observed
    assert (observed.shows, observed.moves, observed.reacts) == (True, False, None)


def test_the_same_request_gives_the_same_verdict(validator):
    code = GAME.replace("this.score = 0;", "this.score = Math.random() + Date.now() + performance.now();")
    varying = {"runtime": {"ms"}}
    first, second = (_validate(validator, code).model_dump(exclude=varying) for _ in range(2))
    assert first == second
    assert first["deterministic"]


@pytest.mark.parametrize(
    ("fault", "outcome", "frame"),
    [
        (("preload() {", "preload() { null.x;"), RuntimeOutcome.PRELOAD_ERROR, None),
        (("this.score = 0;", "this.score = missing;"), RuntimeOutcome.CREATE_ERROR, None),
        (("update() {", "update() { if (this.score === 2) null.x;"), RuntimeOutcome.UPDATE_ERROR, 12),
        (("this.score += 1;", "this.score += nothing;"), RuntimeOutcome.UPDATE_ERROR, 6),
        (("create() {", "async create() { await null; null.x; } unused() {"), RuntimeOutcome.UPDATE_ERROR, None),
        (("new Phaser.Game(config);", "null.x;"), RuntimeOutcome.SCRIPT_ERROR, None),
        (("new Phaser.Game(config);", ""), RuntimeOutcome.NO_GAME, None),
        (("scene: Main", "scene: []"), RuntimeOutcome.NO_SCENE, None),
        (("scene: Main", "scene: { key: 'empty' }"), RuntimeOutcome.NO_SCENE, None),
        (("create() {", "create() { for (;;); "), RuntimeOutcome.TIMEOUT, None),
    ],
    ids=lambda value: value.value if isinstance(value, RuntimeOutcome) else None,
)
# The timer of 100 ms fires first in frame 6 (6 x 1000/60 ms), and in frame 12 for the second time.
def test_a_fault_ends_the_run_where_it_happens(validator, fault, outcome, frame):
    verdict = _validate(validator, GAME.replace(*fault))
    report = verdict.runtime
    assert report.outcome is outcome, report.message
    assert verdict.deterministic is (outcome is not RuntimeOutcome.TIMEOUT)
    if frame is not None:
        assert report.frame == frame


@pytest.mark.parametrize(
    ("asked", "code", "used"),
    [
        ("Phaser.Math.Between", "Phaser.Math.Between(1, 2);", True),
        ("Phaser.Math.Between", "// Phaser.Math.Between(1, 2)", False),
        ("Phaser.Math.Between", "const text = 'Phaser.Math.Between(1, 2)';", False),
        ("Phaser.Math.Between", "const never = () => Phaser.Math.Between(1, 2);", False),
        ("Phaser.Math.Between", "if (false) Phaser.Math.Between(1, 2);", False),
        ("Phaser.Math.Between", "const { Between } = Phaser.Math; Between(1, 2);", True),
        ("Phaser.Math.Angle", "Phaser.Math.Angle.Between(1, 2, 3, 4);", True),
        ("Phaser.Math.RND", "Phaser.Math.RND.pick([1]);", True),
        ("Phaser.Input.Keyboard.KeyCodes", "Phaser.Input.Keyboard.KeyCodes.A;", True),
        ("Phaser.Input.Events.POINTER_MOVE", "this.input.on('pointermove', () => {});", True),
        ("Phaser.Input.Events.POINTER_MOVE", "this.input.on(Phaser.Input.Events.POINTER_MOVE, () => {});", True),
        ("Phaser.Cameras.Scene2D.Camera", "const c = this.cameras.main; c.setZoom(1.1);", True),
        ("Phaser.Cameras.Scene2D.Camera", "", False),
        ("Phaser.GameObjects.Container", "this.add.container(0, 0);", True),
        ("Phaser.GameObjects.Container", "new (class extends Phaser.GameObjects.Container {})(this, 0, 0);", True),
        ("Phaser.GameObjects.Sprite#setTint", "this.make.sprite({}, false).setTint(1);", True),
        ("Phaser.Physics.Arcade.Group", "this.physics.add.group();", True),
        ("Phaser.Nothing.Here", "this.physics.add.group();", False),
    ],
)
def test_must_use_is_judged_by_reachable_code(reader, asked, code, used):
    program = GAME.replace("this.score = 0;", f"this.score = 0;\n{code}\n")
    verdict = _validate(reader, program, must_use=(asked,), skip_runtime=True)
    assert verdict.gates["must_use"].ok is used, verdict.gates["must_use"].reasons


@pytest.mark.parametrize(
    ("code", "misses"),
    [
        ("const g = this.add; g.sprit(1, 2);", {"Phaser.GameObjects.GameObjectFactory#sprit"}),
        ("const { add } = this; add.sprit(1, 2);", {"Phaser.GameObjects.GameObjectFactory#sprit"}),
        ("this.add.text(1, 1, '').setTextt('x');", {"Phaser.GameObjects.Text#setTextt"}),
        ("help(this); function help(s) { s.physics.add.spritee(1); }", {"Phaser.Physics.Arcade.Factory#spritee"}),
        ("Phaser.Math.Betwen(1, 2);", {"Phaser.Math.Betwen"}),
        ("Phaser.BlendModes.ADDD;", {"Phaser.BlendModes.ADDD"}),
        ("this.cameras.main.setZom(2);", {"Phaser.Cameras.Scene2D.Camera#setZom"}),
        (
            "class B extends Phaser.GameObjects.Sprite { hit() { this.setTintt(1); } }",
            {"Phaser.GameObjects.Sprite#setTintt"},
        ),
        ("class B extends Phaser.GameObjects.Sprite { hit() { this.burn(); } burn() {} }", set()),
        ("const s = this.add.sprite(1, 1); s.speed = 3; s.speed.toFixed();", set()),
        ("this.time.addEvent({}); this.cameras.main.setBounds(0, 0, 1, 1);", set()),
        ("Phaser.Display.Color.GetColor(1, 2, 3); Phaser.Math.RND.integerInRange(1, 2);", set()),
        ("const any = window.thing || { whatever() {} }; any.whatever();", set()),
        ("const { Bodies } = Phaser.Physics.Matter.Matter; Bodies.circle(1, 1, 1);", set()),
        ("this.helper = () => 1; this.helper();", set()),
    ],
)
def test_api_misses_are_found_through_aliases_and_own_members_are_none(reader, code, misses):
    program = GAME.replace("this.score = 0;", f"this.score = 0;\n{code}\n")
    verdict = _validate(reader, program, skip_runtime=True)
    assert {miss.symbol_id for miss in verdict.api_usage.misses} == misses
    assert verdict.gates["api"].ok is not bool(misses)
    assert verdict.gates["runtime"].ok is None


def test_code_that_is_no_program_fails_to_parse(reader):
    for code in ("", "// only a comment", "class {", "if (", "(" * 5000, "\ud800"):
        verdict = _validate(reader, code)
        assert verdict.gates["parse"].ok is False
        assert verdict.runtime.outcome is RuntimeOutcome.SKIPPED


STARTS = "new Phaser.Game({ scene: { create() { this.add.text(9, 9, 'Hello'); } } });"


@pytest.mark.parametrize(
    "start",
    [
        "window.onload = () => { %s };",
        "document.addEventListener('DOMContentLoaded', () => { %s });",
        "requestAnimationFrame(() => { %s });",
        "setTimeout(() => { %s }, 300);",
        "(async () => { await null; %s })();",
    ],
)
def test_games_start_on_events_of_the_page_and_on_timers(validator, start):
    report = _validate(validator, start % STARTS, frames=5).runtime
    assert report.outcome is RuntimeOutcome.OK, report.message


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("this.scene.start('GameOver');", 'the scene "GameOver" does not exist'),
        ("this.time.delayedCall(100, () => this.scene.launch('hud'));", 'the scene "hud" does not exist'),
        ("this.add.image(50, 50, 'hero');", 'the texture "hero" does not exist'),
        ("this.load.image('sky', 'assets/sky.png'); this.add.image(1, 1, 'sky');", 'the texture "sky" does not exist'),
        ("this.add.sprite(9, 9, 'box').play('walk');", 'the animation "walk" does not exist'),
    ],
)
def test_names_that_do_not_exist_are_errors_of_the_run(validator, code, message):
    report = _validate(validator, GAME.replace("this.score = 0;", f"this.score = 0;\n{code}\n", 1)).runtime
    assert report.outcome in (RuntimeOutcome.CREATE_ERROR, RuntimeOutcome.UPDATE_ERROR)
    assert report.message == message


@pytest.mark.parametrize("name", ["control_scene", "dom_ready", "onload", "unknown_scene", "unknown_scene_case"])
def test_programs_of_public_reports(validator, name):
    code = shared_file(f"public/reports/phaser/{name}.js").read_text()
    verdict = _validate(validator, code)
    assert verdict.gates["runtime"].ok is not name.startswith("unknown"), verdict.runtime.message


SHOWS = "const game = new Phaser.Game({ scene: { create() { this.add.text(9, 9, 'Hello').setScale(3); %s } } });"


@pytest.mark.parametrize(
    ("hide", "shows"),
    [
        ("", True),
        ("game.canvas.style.display = 'none';", False),
        ("game.canvas.style.opacity = '0';", False),
        ("game.canvas.style.marginLeft = '5000px';", False),
        ("game.canvas.remove();", False),
        ("const cover = document.body.appendChild(document.createElement('div'));"
         " cover.style.cssText = 'position: fixed; inset: 0; background: black';", False),
        ("this.cameras.main.setVisible(false);", False),
        ("this.cameras.main.setZoom(0.5);", True),
    ],
)  # fmt: skip
def test_a_picture_counts_that_a_person_can_see(validator, hide, shows):
    verdict = _validate(validator, SHOWS % hide, frames=6)
    assert verdict.runtime.observed.shows is shows
    assert verdict.runtime.outcome is (RuntimeOutcome.OK if shows else RuntimeOutcome.NOTHING_SHOWN)


def test_effects_run_in_webgl(validator):
    small = STARTS.replace("{ scene", "{ width: 80, height: 60, scene")  # the processor draws what a GPU would
    code = small.replace("'Hello')", "'Hello').postFX.addGlow(0xff0000)")
    report = _validate(validator, code, frames=5).runtime
    assert (report.outcome, report.observed.renderer) == (RuntimeOutcome.OK, "webgl"), report.message


def test_a_report_is_stored_as_json(validator):
    rows = _validate(validator, STARTS, frames=3).rows()
    assert json.loads(json.dumps(rows))["runtime"]["signals"]["shows"] is True
