"""The stages of the validator, end to end with Node.js."""

import pytest

from engine.records import Outcome
from engine.tasks.phaser.validation.verdict import STAGES, RuntimeOutcome, ValidationLimits, ValidationRequest

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
    this.label.setText(`score ${this.score}`);
    window.__signals__ = { score: this.score };
  }
}
const config = { type: Phaser.AUTO, width: 800, height: 600, physics: { default: 'arcade' }, scene: Main };
new Phaser.Game(config);
"""


def _validate(validator, code, **fields):
    return validator.validate(ValidationRequest(code=code, skip_eslint=True, **fields))


def test_a_right_game_passes_every_gate_and_its_state_is_observed(validator):
    verdict = validator.validate(ValidationRequest(code=GAME, must_use=("Phaser.GameObjects.Graphics",), inputs=()))
    assert verdict.outcome is Outcome.OK
    assert {stage: verdict.gates[stage].ok for stage in STAGES} == dict.fromkeys(STAGES, True)
    observed = verdict.runtime.observed
    (scene,) = observed.scenes
    assert (scene.key, scene.created, scene.objects, scene.bodies) == ("main", 1, {"Sprite": 1, "Text": 1}, 1)
    assert observed.frames == 60
    assert observed.textures == ("box",)
    # 60 frames are one second: the timer of 100 ms has fired 10 times, at 100 ... 1000 ms
    assert observed.timers_fired == 10
    assert observed.signals == {"score": 10}
    assert observed.moved == 1
    assert observed.tween_updates


def test_the_game_reacts_to_keys_and_pointer(validator):
    observed = _validate(validator, GAME, check_reaction=True).runtime.observed
    assert observed.reacted_to_keys
    assert observed.reacted_to_pointer
    assert observed.signals == {"score": 30}  # 10 of the timer, and two clicks
    still = GAME.replace("if (this.cursors.left.isDown)", "if (this.cursors.left.isDown && this.score < 0)")
    assert _validate(validator, still, check_reaction=True).runtime.observed.reacted_to_keys is False


def test_the_same_request_gives_the_same_verdict(validator):
    code = GAME.replace("this.score = 0;", "this.score = Math.random() + Date.now() + performance.now();")
    varying = {"seconds": True, "runtime": {"ms"}}
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
        (("create() {", "async create() { await null; null.x; } unused() {"), RuntimeOutcome.CREATE_ERROR, None),
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
    limits = ValidationLimits(time_s=0.4) if outcome is RuntimeOutcome.TIMEOUT else ValidationLimits()
    verdict = _validate(validator, GAME.replace(*fault), limits=limits)
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
        ("Phaser.Math.Between", "if (this.score > 5) Phaser.Math.Between(1, 2);", False),
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
def test_must_use_is_judged_by_execution(validator, asked, code, used):
    program = GAME.replace("this.score = 0;", f"this.score = 0;\n{code}\n")
    verdict = _validate(validator, program, must_use=(asked,), frames=2)
    assert verdict.runtime.outcome is RuntimeOutcome.OK, verdict.runtime.message
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
def test_api_misses_are_found_through_aliases_and_own_members_are_none(validator, code, misses):
    program = GAME.replace("this.score = 0;", f"this.score = 0;\n{code}\n")
    verdict = _validate(validator, program, skip_runtime=True)
    assert {miss.symbol_id for miss in verdict.api_usage.misses} == misses
    assert verdict.gates["api"].ok is not bool(misses)
    assert verdict.gates["runtime"].ok is None


def test_code_that_is_no_program_fails_to_parse(validator):
    for code in ("", "// only a comment", "class {", "if (", "(" * 5000, "\ud800"):
        verdict = _validate(validator, code)
        assert verdict.gates["parse"].ok is False
        assert verdict.runtime.outcome is RuntimeOutcome.SKIPPED
