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
    "drawn_below_the_ground": "this.all.forEach((one) => one.setBlendMode(Phaser.BlendModes.DESTINATION_OVER));",
    "erasing_the_ground": "this.all.forEach((one) => one.setBlendMode(Phaser.BlendModes.XOR));",
    "erased_by_the_others": "this.all.forEach((one) => one.setBlendMode(Phaser.BlendModes.SOURCE_IN));",
    "erased_by_another": """
        this.add.rectangle(700, 500, 60, 60, 0xffffff).setBlendMode(Phaser.BlendModes.DESTINATION_IN);""",
    "context_filter": "this.game.context.filter = 'opacity(0)';",
    "erased_in_a_promise": """
        const erase = () => this.game.context.clearRect(0, 0, 800, 600);
        this.game.events.on('postrender', () => Promise.resolve().then(erase));""",
    "covered_by_pixels": """
        const pixels = this.game.context.createImageData(800, 600);
        for (let i = 3; i < pixels.data.length; i += 4) pixels.data[i] = 255;
        this.game.events.on('postrender', () => this.game.context.putImageData(pixels, 0, 0));""",
    "covered_by_many_translucent_ones": """
        for (let n = 0; n < 12; n += 1) this.add.rectangle(400, 300, 800, 600, 0x202830, 0.4);""",
    "masked_by_a_frame": """
        const frame = this.make.graphics({}, false);
        frame.fillRect(0, 0, 2, 600).fillRect(0, 0, 800, 2).fillRect(798, 0, 2, 600).fillRect(0, 598, 800, 2);
        this.all.forEach((one) => one.setMask(frame.createGeometryMask()));""",
    "canvas_dark": "this.game.canvas.style.filter = 'brightness(0)';",
    "canvas_moved_away": "this.game.canvas.style.transform = 'translateX(5000px)';",
    "canvas_margin": "this.game.canvas.style.marginLeft = '-5000px';",
    "canvas_a_few_pixels": "this.game.canvas.style.width = '5px';",
    "canvas_masked": "this.game.canvas.style.maskImage = 'linear-gradient(transparent, transparent)';",
    "canvas_style_assigned": "this.game.canvas.style = 'display: none';",
    "canvas_covered_by_another": """
        const other = document.createElement('canvas');
        other.width = 1024;
        other.height = 768;
        other.style.position = 'absolute';
        document.body.appendChild(other);""",
    "page_emptied": "document.body.innerHTML = '';",
    "page_replaced": "document.body.replaceChildren();",
    "another_body": """
        const body = document.createElement('div');
        body.appendChild(this.game.canvas);
        document.body = body;""",
    "style_sheet_of_a_text_node": """
        const sheet = document.createElement('style');
        sheet.appendChild(document.createTextNode('body > canvas { display: none }'));
        document.head.appendChild(sheet);""",
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
    "listed_again_and_again": """
this.boxes = [this.add.rectangle(200, 200, 60, 40, 0xffffff)];
this.children.list.push(this.boxes[0], this.boxes[0]);
""",
    "another_camera": """
this.boxes = [0, 1, 2].map((n) => this.add.rectangle(200 + n * 90, 200, 30, 20, 0xffffff));
const { matrix } = this.cameras.main.matrix;
this.game.events.on('postrender', () => { matrix[0] = matrix[3] = 0.5; });
""",
    "another_renderer": """
this.boxes = [0, 1, 2].map((n) => this.add.rectangle(200 + n * 90, 200, 60, 40, 0xe53935).setAlpha(0.03));
this.add.rectangle(700, 500, 60, 60, 0xffffff);
this.add.text(100, 400, 'Score: 40').setAlpha(0.03);
this.time.delayedCall(900, () => { this.game.renderer.gl = {}; });
""",
    "getters": """
this.boxes = [];
for (let n = 0; n < 3; n += 1) {
  const box = this.add.rectangle(200 + n * 20, 200, 4, 4, 0xffffff);
  Object.defineProperty(box, 'displayWidth', { get: () => 60 });
  Object.defineProperty(box, 'displayHeight', { get: () => 40 });
  const near = this.add.rectangle(200 + n * 90, 300, 51, 34, 0xffffff);
  Object.defineProperty(near, 'displayWidth', { get: () => 60 });
  Object.defineProperty(near, 'displayHeight', { get: () => 40 });
  this.boxes.push(box);
}
const label = this.add.text(100, 400, '0');
Object.defineProperty(label, 'text', { get: () => 'Score: 40' });
""",
}


MASKS = {
    "circle": "shape.fillCircle(400, 300, 390);",
    "two_boxes": "shape.fillRect(150, 150, 600, 100).fillRect(50, 350, 700, 200);",
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


@table("name", MASKS)
def test_what_a_mask_leaves_is_seen(validator, name):
    mask = f"const shape = this.make.graphics({{}}, false); {MASKS[name]} const mask = shape.createGeometryMask();"
    held, _ = results(validator, f"{HONEST} {mask} this.all.forEach((one) => one.setMask(mask));", MOVES)
    assert all(held.values()), held


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


PAGES = {
    "centred": """
        const { style } = this.game.canvas;
        Object.assign(style, { position: 'absolute', left: '50%', top: '50%', transform: 'translate(-50%, -50%)' });""",
    "styled": """
        Object.assign(document.body.style, { margin: '0', height: '100vh', overflow: 'hidden', background: '#000' });
        Object.assign(this.game.canvas.style, { opacity: '1', border: '1px solid', boxShadow: '0 0 10px #000' });""",
    "label_over_it": """
        const box = document.createElement('div');
        Object.assign(box.style, { position: 'absolute', top: '10px', background: '#000' });
        box.innerText = 'Lives: 3';
        document.body.appendChild(box);""",
    "hidden_overlay": """
        const box = document.createElement('div');
        Object.assign(box.style, { position: 'fixed', inset: '0', background: 'black', display: 'none' });
        document.body.appendChild(box);""",
    "style_sheet_of_others": """
        const sheet = document.createElement('style');
        sheet.textContent = '.menu, #over { display: none; } canvas { border: 1px solid; }';
        document.head.appendChild(sheet);""",
    "pixels_put_back": """
        const { context } = this.game;
        const draw = () => context.putImageData(context.getImageData(0, 0, 800, 600), 0, 0);
        this.game.events.on('postrender', draw);""",
}  # fmt: skip
"""What a game may do with the page it is in."""


@table("name", PAGES)
def test_a_game_is_seen_in_a_page_with_usual_styles(validator, name):
    held, found = results(validator, HONEST + PAGES[name], MOVES)
    assert all(held.values()), (held, found.runtime.message)


TEXTS = {
    "the_honest_one": ("this.add.text(99, 99, 'Score: 40');", True),
    "two_numbers_with_a_stroke": ("this.add.text(99, 99, '40 of 100', { stroke: '#000', strokeThickness: 4 });", True),
    "spaced_letters": ("this.add.text(99, 99, '40 of 100', { letterSpacing: 2, stroke: '#000' });", True),
    "from_right_to_left": ("this.add.text(300, 99, 'Score: 40', { rtl: true });", True),
    "turned": ("this.add.text(400, 99, 'Congratulations 40', { fontSize: '12px' }).setAngle(90);", True),
    "many_lines": ("this.add.text(9, 9, [...new Array(24).fill('x'), '40'], { fontSize: '10px' });", True),
    "on_a_button": ("this.add.rectangle(99, 99, 90, 40, 0x1e88e5); this.add.text(85, 90, '40');", True),
    "below_a_translucent_panel": ("this.add.text(85, 90, '40'); this.add.rectangle(99, 99, 90, 40, 0xff, 0.3);", True),
    "in_the_colour_of_its_box": ("this.add.text(99, 99, '40', { color: '#fff', backgroundColor: '#fff' });", False),
    "too_small": ("this.add.text(99, 99, 'Score: 40', { fontSize: '3px' });", False),
    "too_flat": ("this.add.text(99, 99, 'Score: 40', { fontSize: '24px' }).setScale(3, 0.1);", False),
    "cropped": ("this.add.text(99, 99, 'Score: 40', { fontSize: '24px' }).setCrop(0, 0, 20, 24);", False),
    "in_a_narrow_box": ("this.add.text(99, 99, 'Score: 40', { fontSize: '24px', fixedWidth: 30 });", False),
    "number_outside": ("this.add.text(700, 99, 'Score                 40', { fontSize: '24px' });", False),
    "number_covered": (
        "this.add.text(99, 99, 'Score: 40', { fontSize: '24px' }); this.add.rectangle(190, 111, 100, 30, 0x1e88e5);",
        False,
    ),
    "painted_over": (
        "const { context } = this.add.text(99, 99, 'Score: 40'); context.fillStyle = '#fff';"
        "context.fillRect(0, 0, 300, 300);",
        False,
    ),
    "written_outside": ("this.add.text(99, 99, 'Score').context.fillText('40', 9000, 9000);", False),
    "tinted_like_the_ground": ("this.add.text(99, 99, 'Score: 40').setTint(0x202830);", False),
}  # fmt: skip


@table("name", TEXTS)
def test_a_text_counts_if_it_can_be_read(validator, name):
    create, expected = TEXTS[name]
    held, _ = results(validator, create, "", ("drawn.Text_text40 == 1",))
    assert list(held.values()) == [expected]


MOTIONS = {
    "straight": ("this.ball.x += 2;", True, False),
    "to_and_fro": ("this.ball.x += this.count % 40 < 20 ? 2 : -2;", True, False),
    "for_two_frames": ("if (this.count === 30 || this.count === 31) this.ball.x += 2;", True, False),
    "shaking": ("this.ball.x += this.count % 2 ? 2 : -2;", False, False),
    "shaking_more_slowly": ("this.ball.x += this.count % 4 < 2 ? 2 : -2;", False, False),
    "one_step": ("if (this.count === 30) this.ball.x += 2;", False, False),
    "falling": ("this.ball.y = 60 + 150 * (this.count / 60) ** 2;", False, True),
    "trembling": ("this.ball.y = 60 + (150 / 3600) * (this.count % 4) ** 2;", False, False),
}


@table("name", MOTIONS)
def test_what_gets_nowhere_has_no_speed(validator, name):
    update, moves, falls = MOTIONS[name]
    create = "this.ball = this.add.circle(300, 60, 12, 0xe53935);"
    held, _ = results(validator, create, update, ("drawn.red_speed120 == 1", "drawn.red_fall300 == 1"))
    assert list(held.values()) == [moves, falls]


def test_colours_are_those_that_a_player_sees(validator):
    create = """
const pen = this.make.graphics({}, false);
pen.fillStyle(0xffffff).fillRect(0, 0, 40, 40).generateTexture('blank', 40, 40);
this.add.image(99, 99, 'blank').setTint(0xe53935);
this.add.sprite(199, 99, 'blank').setTintFill(0x1e88e5);
this.add.particles(400, 300, 'blank', { speed: 100, tint: 0x43a047 });
const { context } = this.textures.createCanvas('pixels', 50, 50);
const pixels = context.createImageData(50, 50);
for (let i = 0; i < pixels.data.length; i += 4) pixels.data.set([142, 36, 170, 255], i);
context.putImageData(pixels, 0, 0);
this.add.image(600, 99, 'pixels');
const painted = this.add.graphics({ x: 99, y: 500 });
for (let n = 0; n < 5; n += 1) painted.fillStyle(0xf06292).fillRect(0, 0, 50, 50);
painted.fillStyle(0x9e9e9e).fillRect(2, 2, 46, 46);
this.shapes = this.add.rectangle(99, 400, 60, 40, 0xffffff);
this.cameras.main.setBackgroundColor(0x795548);
this.add.rectangle(400, 300, 797, 597, 0x000000).setDepth(-1);
"""
    update = "this.shapes.fillColor = [0xe53935, 0x1e88e5, 0x43a047, 0x8e24aa, 0xfdd835][(this.count >> 3) % 5];"
    shown = (
        *("drawn.Image_red == 1", "drawn.Sprite_blue == 1", "drawn.ParticleEmitter_green == 1"),
        *("drawn.Image_purple_50x50 == 1", "drawn.Graphics_grey == 1"),
    )
    colours = [f"drawn.Rectangle_{name} == 1" for name in ("red", "blue", "green", "purple", "yellow")]
    hidden = ("drawn.Image_white == 1", "drawn.Graphics_pink == 1", "ground.brown", *colours)
    held, _ = results(validator, create, update, (*shown, *hidden))
    assert held == {**dict.fromkeys(shown, True), **dict.fromkeys(hidden, False)}


CHANGES = {
    "parse_int": "window.parseInt = () => 0xe5;",
    "iterators": """
        const { prototype } = [].constructor;
        const before = prototype[Symbol.iterator];
        try { prototype[Symbol.iterator] = function () { return before.call([1, 2, 3]); }; } catch {}""",
    "iteration": """
        const steps = Object.getPrototypeOf([][Symbol.iterator]());
        const before = steps.next;
        try { steps.next = function () { return { ...before.call(this), value: 5 }; }; } catch {}""",
    "a_context_of_another_canvas": """
        const other = document.createElement('canvas').getContext('2d');
        Object.defineProperty(other, 'canvas', { value: this.game.canvas });
        this.game.events.on('postrender', () => other.fillRect(0, 0, 800, 600));""",
    "no_context": """
        const { fillRect } = Object.getPrototypeOf(this.game.context);
        const fake = { canvas: this.game.canvas, globalAlpha: 1, fillStyle: '#000000' };
        this.game.events.on('postrender', () => { try { fillRect.call(fake, 0, 0, 800, 600); } catch {} });""",
    "styles_of_a_context": """
        const { context } = this.game;
        try { Object.defineProperty(context, 'fillStyle', { get: () => '#000000', set() {} }); } catch {}""",
    "the_measure_of_texts": """
        Object.getPrototypeOf(this.game.context).measureText = () => ({ width: 1, actualBoundingBoxAscent: 1 });""",
}  # fmt: skip


@table("name", CHANGES)
def test_a_program_cannot_change_what_is_read_of_its_drawing(validator, name):
    hints = tuple(hint for hint in HINTS if "40 " not in hint) if name == "the_measure_of_texts" else HINTS
    held, _ = results(validator, HONEST + CHANGES[name], MOVES, hints)
    assert all(held.values()), held


def test_callbacks_count_if_the_game_calls_them(validator):
    create = (
        HONEST
        + """
const sooner = this.time.addEvent({ delay: 100, callback() {} });
const later = this.time.addEvent({ delay: 60000, callback() {} });
const [one, other] = this.boxes.map((box) => this.physics.add.existing(box));
const collider = this.physics.add.collider(one, other, () => {});
later.callback();
collider.collideCallback(one, other);
"""
    )
    program = PROGRAM.replace("scene: Main", "physics: { default: 'arcade' }, scene: Main")
    code = program % (create, "")
    seen = validator.validate(ValidationRequest(code=code, skip_eslint=True)).runtime.observed
    assert (seen.timers_fired, seen.collisions) == (1, 0)


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
