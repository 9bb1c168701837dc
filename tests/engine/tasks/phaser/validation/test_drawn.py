"""What counts is what a run draws: each way to have what was asked for without showing it fails its conditions."""

import pytest

from engine.tasks.phaser.hints import holds
from engine.tasks.phaser.validation.verdict import ValidationRequest
from tests.support.table import table

pytestmark = pytest.mark.node

HINTS = (
    *("objects.Rectangle >= 3", "shapes.red >= 3", "sizes.60x40 >= 3", "moved >= 3", "texts.40 >= 1"),
    *("drawn.Rectangle_red_60x40_speed120 == 3", "drawn.Text_text40 == 1"),
)
HONEST = """
this.boxes = [];
for (let n = 0; n < 3; n += 1) this.boxes.push(this.add.rectangle(200 + n * 90, 200, 60, 40, 0xe53935));
this.label = this.add.text(100, 400, 'Score: 40', { fontSize: '24px', color: '#ffffff' });
this.all = [...this.boxes, this.label];
"""
MOVES = "this.boxes.forEach((box) => { box.x += 2; });"

PROGRAM = """
class Main extends Phaser.Scene {
  preload() {}
  create() {
    %s
  }
  update(time, delta) {
    this.count = (this.count || 0) + 1;
    %s
  }
}
new Phaser.Game({ type: Phaser.AUTO, width: 800, height: 600, backgroundColor: '#202830', scene: Main });
"""

CREATES = {
    "transparent": "this.all.forEach((one) => one.setAlpha(0));",
    "nearly_transparent": "this.all.forEach((one) => one.setAlpha(0.03));",
    "invisible": "this.all.forEach((one) => one.setVisible(false));",
    "outside": "this.all.forEach((one) => { one.x += 5000; });",
    "outside_but_for_an_edge": """
        this.boxes.forEach((one) => { one.y = -19; });
        this.label.y = -23;""",
    "tiny": "this.all.forEach((one) => one.setScale(0.001));",
    "covered": "this.add.graphics().fillStyle(0x00ff00, 1).fillRect(0, 0, 800, 600);",
    "covered_by_the_ground": "this.add.rectangle(400, 300, 800, 600, 0x202830);",
    "in_the_colour_of_the_ground": """
        this.boxes.forEach((one) => one.setFillStyle(0x202830));
        this.label.setColor('#202830');""",
    "stacked": "this.boxes.forEach((one) => { one.x = 300; }); this.label.destroy();",
    "camera_elsewhere": "this.cameras.main.setScroll(5000, 5000);",
    "camera_transparent": "this.cameras.main.setAlpha(0);",
    "camera_invisible": "this.cameras.main.setVisible(false);",
    "camera_without_size": "this.cameras.main.setViewport(0, 0, 1, 1);",
    "camera_ignores": "this.cameras.main.ignore(this.all);",
    "camera_faded": "this.cameras.main.fadeOut(1);",
    "camera_zoomed_out": "this.cameras.main.setZoom(0.001);",
    "masked": """
        const ink = this.make.graphics({}, false);
        ink.fillRect(700, 550, 2, 2);
        this.all.forEach((one) => one.setMask(ink.createGeometryMask()));""",
    "canvas_without_display": "this.game.canvas.style.display = 'none';",
    "canvas_transparent": "this.game.canvas.style.opacity = '0';",
    "canvas_invisible": "this.game.canvas.style.visibility = 'hidden';",
    "canvas_without_size": "this.game.canvas.style.width = '0px';",
    "canvas_removed": "this.game.canvas.remove();",
    "canvas_style_text": "this.game.canvas.setAttribute('style', 'display: none');",
    "canvas_parent_hidden": """
        const box = document.createElement('div');
        box.style.display = 'none';
        document.body.appendChild(box);
        box.appendChild(this.game.canvas);""",
    "canvas_covered": """
        const box = document.createElement('div');
        box.style.position = 'fixed';
        box.style.background = 'black';
        document.body.appendChild(box);""",
    "style_sheet": """
        const sheet = document.createElement('style');
        sheet.textContent = 'canvas { display: none; }';
        document.head.appendChild(sheet);""",
    "another_canvas": "this.game.canvas = document.createElement('canvas');",
    "renders_nothing": "this.all.forEach((one) => { one.renderCanvas = () => {}; one.renderWebGL = () => {}; });",
    "will_not_render": "this.all.forEach((one) => { one.renderFlags = 0; });",
    "scene_invisible": "this.scene.setVisible(false);",
}  # fmt: skip

UPDATES = {
    "for_one_frame": "this.all.forEach((one) => one.setVisible(this.count === 3));",
    "in_the_last_frame": "this.all.forEach((one) => one.setVisible(this.count >= 58));",
    "in_every_tenth_frame": "this.all.forEach((one) => one.setVisible(this.count % 10 === 0));",
    "gone_after_a_while": "this.all.forEach((one) => one.setVisible(this.count < 10));",
}

LIES = {
    "pushed_into_the_list": """
this.boxes = [];
const fake = (kind, more) => {
  const made = Object.create(Phaser.GameObjects[kind].prototype);
  const one = Object.assign(made, { isFilled: true, fillColor: 0xe53935, ...more });
  one.willRender = () => true;
  one.renderCanvas = () => {};
  for (const [name, value] of [['x', 100], ['y', 100], ['displayWidth', 60], ['displayHeight', 40], ['depth', 0]]) {
    Object.defineProperty(one, name, { value, writable: true });
  }
  this.sys.displayList.list.push(one);
  return one;
};
for (let n = 0; n < 3; n += 1) this.boxes.push(fake('Rectangle', {}));
fake('Text', { text: 'Score: 40' });
""",
    "getters": """
this.boxes = [];
for (let n = 0; n < 3; n += 1) {
  const box = this.add.rectangle(200 + n * 20, 200, 4, 4, 0xffffff);
  Object.defineProperty(box, 'displayWidth', { get: () => 60 });
  Object.defineProperty(box, 'displayHeight', { get: () => 40 });
  this.boxes.push(box);
}
const label = this.add.text(100, 400, '0');
Object.defineProperty(label, 'text', { get: () => 'Score: 40' });
""",
}


def results(validator, create, update, hints=HINTS):
    found = validator.validate(ValidationRequest(code=PROGRAM % (create, update), skip_eslint=True))
    seen = found.runtime.observed
    assert seen is not None, found.runtime.message
    return {hint: holds(hint, seen) for hint in hints}, found


def test_an_honest_game_satisfies_its_conditions(validator):
    held, found = results(validator, HONEST, MOVES)
    assert found.gates["runtime"].ok, found.runtime.message
    assert all(held.values()), held


@table("name", CREATES)
def test_what_nobody_can_see_satisfies_nothing(validator, name):
    held, _ = results(validator, HONEST + CREATES[name], MOVES)
    allowed = (
        {"objects.Rectangle >= 3"}
        if name in ("tiny", "in_the_colour_of_the_ground", "covered_by_the_ground")
        else set()
    )
    assert {hint for hint, value in held.items() if value} <= allowed, held


@table("name", UPDATES)
def test_what_is_shown_for_a_moment_satisfies_nothing(validator, name):
    held, _ = results(validator, HONEST, MOVES + UPDATES[name])
    assert not any(held.values()), held


@table("name", LIES)
def test_what_objects_say_of_themselves_does_not_count(validator, name):
    held, _ = results(validator, LIES[name], "")
    assert {hint for hint, value in held.items() if value} <= {"objects.Rectangle >= 3"}, held
    if name == "pushed_into_the_list":
        assert not held["objects.Rectangle >= 3"]


OTHER_VALUES = {
    "speed": ("box.x += 2", "box.x += 3", {"drawn.Rectangle_red_60x40_speed120 == 3"}),
    "number": ("Score: 40", "Score: 45", {"texts.40 >= 1", "drawn.Text_text40 == 1"}),
    "count": ("n < 3", "n < 4", {"drawn.Rectangle_red_60x40_speed120 == 3"}),
    "colour": ("0xe53935", "0x1e88e5", {"shapes.red >= 3", "drawn.Rectangle_red_60x40_speed120 == 3"}),
    "all_numbers": (
        "'Score: 40'",
        "'5 10 15 20 25 30 35 40 45 50'",
        {"drawn.Text_text40 == 1"},
    ),
}


@table("name", OTHER_VALUES)
def test_other_values_than_those_asked_for_fail_their_conditions(validator, name):
    right, wrong, failing = OTHER_VALUES[name]
    assert right in HONEST + MOVES
    held, _ = results(validator, HONEST.replace(right, wrong), MOVES.replace(right, wrong))
    assert {hint for hint, value in held.items() if not value} == failing, held


def test_the_values_of_textures_turns_and_falls_are_measured(validator):
    create = """
const pen = this.make.graphics({ x: 0, y: 0 }, false);
pen.fillStyle(0x43a047, 1).fillCircle(12, 12, 12);
pen.generateTexture('ball', 24, 24);
pen.destroy();
this.add.image(400, 300, 'ball').setDisplaySize(96, 96);
this.add.rectangle(200, 400, 120, 8, 0x1e88e5).setAngle(60);
this.drop = this.add.star(600, 60, 5, 10, 20, 0xfdd835);
this.time.delayedCall(300, () => this.add.ellipse(100, 100, 50, 30, 0xffffff));
const cart = this.add.container(300, 520);
cart.add(this.add.circle(0, 0, 10, 0x8e24aa));
cart.add(this.add.circle(30, 0, 10, 0x8e24aa));
this.cameras.main.setZoom(1.1);
"""
    update = "const t = this.count / 60; this.drop.y = 60 + 150 * t * t;"
    hints = (
        *("drawn.Image_green_96x96 == 1", "drawn.Rectangle_blue_120x8_angle60 == 1", "drawn.blue_zoom110 == 1"),
        *("drawn.Star_yellow_fall300_down == 1", "drawn.Ellipse_white_50x30_since300 == 1"),
        "drawn.inContainer_purple == 2",
    )
    held, _ = results(validator, create, update, hints)
    assert all(held.values()), held
    others = (
        "drawn.Image_red == 1",
        "drawn.Rectangle_blue_angle90 == 1",
        "drawn.Star_fall600 == 1",
        "drawn.since600 == 1",
    )
    held, _ = results(validator, create, update, others)
    assert not any(held.values()), held
