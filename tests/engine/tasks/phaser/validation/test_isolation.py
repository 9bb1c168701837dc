"""A program that gets out of its realm is still in a process that can touch nothing, and cannot forge a verdict."""

import json

import pytest

from engine.records import Outcome
from engine.sandbox.command_process import CommandProcess
from engine.sandbox.zygote_process import Zygote, strongest_level
from engine.tasks.phaser.validation.verdict import RuntimeOutcome, ValidationRequest

pytestmark = pytest.mark.node

GAME = "new Phaser.Game({ scene: { create() { this.add.text(1, 1, 'x'); } } });"
REQUEST = ValidationRequest(code=GAME, skip_eslint=True, frames=5)

# Visits all that a program can reach from its globals, caught errors and functions, and names what is of another realm.
REACHABLE = """
const seen = new Set();
const leaks = [];
const waiting = [['globalThis', globalThis], ['this', this]];
waiting.push(['async', (async () => {})()], ['yield', (function* () {})()]);
try { null.x; } catch (error) { waiting.push(['caught', error]); }
try { (function dive() { dive(); })(); } catch (error) { waiting.push(['overflow', error]); }
LEAK
while (waiting.length) {
  const [path, value] = waiting.pop();
  if (value === null || (typeof value !== 'object' && typeof value !== 'function') || seen.has(value)) continue;
  seen.add(value);
  let root = value;
  while (Object.getPrototypeOf(root)) root = Object.getPrototypeOf(root);
  if (root !== Object.prototype && Object.hasOwn(root, 'hasOwnProperty')) leaks.push(path);
  waiting.push([`${path}.__proto__`, Object.getPrototypeOf(value)]);
  for (const key of Reflect.ownKeys(value)) {
    const found = Reflect.getOwnPropertyDescriptor(value, key);
    for (const part of ['value', 'get', 'set']) waiting.push([`${path}.${String(key)}`, found[part]]);
  }
}
window.__signals__ = { seen: seen.size, leaks };
"""


def test_a_program_reaches_no_object_of_another_realm(validator):
    for leak, expected in (("", []), ("waiting.push(['fake', fake]);", ["fake"])):
        # the second program makes an object that looks as if it were of another realm: the check finds it
        fake = "const fake = Object.create(null, { hasOwnProperty: { value() {} } });" if leak else ""
        code = fake + REACHABLE.replace("LEAK", leak) + GAME
        signals = validator.validate(REQUEST.model_copy(update={"code": code})).runtime.observed.signals
        assert signals["seen"] > 10_000
        assert signals["leaks"] == expected


SIGNS = {
    "driven": "navigator.webdriver || /headless/i.test(navigator.userAgent)",
    "sources": "[setTimeout, Date, Date.now, Math.random, performance.now, requestAnimationFrame, console.log,"
    " CanvasRenderingContext2D.prototype.fillRect, HTMLCanvasElement.prototype.getContext, document.createElement,"
    " XMLHttpRequest.prototype.open, addEventListener, alert, Function.prototype.toString]"
    ".map(String).filter((text) => !text.endsWith('() { [native code] }'))",
    "own sources": "String(function own() { return 1; })",
    "kinds": "[window, document, navigator, performance, localStorage, location, screen].map(String)",
    "classes": "[typeof WebGLRenderingContext, typeof ResizeObserver, navigator instanceof Navigator,"
    " document instanceof Document]",
    "page": "[document.compatMode, document.characterSet, screen.colorDepth, navigator.vendor,"
    " document.body.isConnected]",
}
BROWSER = {
    "driven": False,
    "sources": [],
    "own sources": "function own() { return 1; }",
    "kinds": ["[object Window]", "[object HTMLDocument]", "[object Navigator]", "[object Performance]",
              "[object Storage]", "http://localhost/", "[object Screen]"],
    "classes": ["function", "function", True, True],
    "page": ["CSS1Compat", "UTF-8", 24, "Google Inc.", True],
}  # fmt: skip


def signs(opened):
    """What a program finds out about where it runs."""
    fields = ", ".join(f"{json.dumps(name)}: {code}" for name, code in SIGNS.items())
    code = f"window.__signals__ = {{ {fields} }};" + GAME
    return opened.validate(REQUEST.model_copy(update={"code": code})).runtime.observed.signals


def test_a_program_sees_the_signs_of_a_browser(validator):
    assert signs(validator) == BROWSER


def test_a_program_cannot_know_its_random_numbers_and_its_time(validator):
    code = "window.__signals__ = [Math.random(), Date.now(), performance.timeOrigin];" + GAME
    programs = [code, code, code + " ", f"{code} // x", f"{code} // y"]
    seen = [
        tuple(validator.validate(REQUEST.model_copy(update={"code": one})).runtime.observed.signals) for one in programs
    ]
    assert seen[0] == seen[1]
    for values in zip(*seen, strict=True):
        assert len(set(values)) == 4


@pytest.fixture
def impostor(validator, node, monkeypatch):
    """Makes a program's process run a script of ours, as if the program had taken it over."""
    (worker,) = validator._workers
    started = []

    def start(script):
        def start_runner():
            zygote = Zygote(strongest_level(), node.visible)
            started.append(CommandProcess([node.executable, "-e", _WIRE + script], zygote, memory_mb=640))
            return started[-1]

        worker._retire_runner()
        monkeypatch.setattr(worker, "_start_runner", start_runner)

    yield start
    worker._retire_runner()
    for process in started:
        process.close()


_WIRE = """
const fs = require('fs');
const read = (n) => {
  const b = Buffer.alloc(n);
  for (let at = 0; at < n;) at += fs.readSync(3, b, at, n - at);
  return b;
};
const receive = () => JSON.parse(read(read(4).readUInt32BE(0)));
const send = (m) => { const b = Buffer.from(typeof m === 'string' ? m : JSON.stringify(m));
  const h = Buffer.alloc(4); h.writeUInt32BE(b.length); fs.writeSync(3, Buffer.concat([h, b])); };
const good = JSON.stringify({ outcome: 'ok', message: '', frame: -1 });
"""


@pytest.mark.parametrize(
    "script",
    [
        "receive(); send({ outcome: good, report: '{}' });",
        "receive(); send({ nonce: 'a guess', outcome: good, report: '{}' });",
        "const { nonce } = receive(); send({ nonce, outcome: good, report: 'null' });",
        "const { nonce } = receive(); send({ nonce, outcome: good, report: '{\"frames\": 60}' });",
        "const { nonce } = receive(); send({ nonce, outcome: { outcome: 'ok' }, report: {} });",
        "receive(); send('[]');",
        "receive(); send('not JSON');",
        "receive(); fs.writeSync(3, Buffer.alloc(64, 255));",
        "receive(); process.stdout.write(JSON.stringify({ outcome: 'ok' })); process.exit(0);",
        "receive(); process.abort();",
    ],
    ids=["no-nonce", "guess", "no-report", "half", "objects", "list", "garbage", "length", "exit", "abort"],
)
def test_what_a_taken_over_process_forges_is_no_verdict(validator, impostor, script):
    impostor(script)
    verdict = validator.validate(REQUEST)
    assert verdict.outcome is Outcome.OK
    assert verdict.runtime.outcome is RuntimeOutcome.TAMPERED
    assert verdict.gates["runtime"].ok is False


def test_a_taken_over_process_can_touch_nothing(validator, impostor, tmp_path):
    target = tmp_path / "written"
    impostor(
        f"""
        const tries = (action) => {{
          try {{ action(); return 'done'; }} catch (error) {{ return error.code || error.name; }}
        }};
        const {{ nonce }} = receive();
        const spawned = require('child_process').spawnSync('/bin/true');
        const found = {{
          write: tries(() => fs.writeFileSync({str(target)!r}, 'x')),
          passwd: tries(() => fs.readFileSync('/etc/passwd')),
          spawn: spawned.error ? spawned.error.code : 'done',
          kill: tries(() => process.kill(1, 'SIGTERM')),
          environment: Object.keys(process.env).length,
        }};
        const finish = (network) => {{
          const message = JSON.stringify({{ ...found, network }});
          send({{ nonce, outcome: JSON.stringify({{ outcome: 'no_game', message, frame: -1 }}), report: 'null' }});
        }};
        const socket = require('net').connect(9, '127.0.0.1');
        socket.on('connect', () => finish('done')).on('error', (error) => finish(error.code));
        """
    )
    found = json.loads(validator.validate(REQUEST).runtime.message)
    assert "done" not in found.values(), found
    assert not target.exists()


def test_after_every_attack_the_next_program_runs(validator):
    assert validator.validate(REQUEST).gates["runtime"].ok
