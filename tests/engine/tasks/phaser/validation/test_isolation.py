"""A program can touch nothing outside of its page, knows no other program, and cannot forge a verdict."""

import http.server
import os
import signal
import threading

import pytest

from engine.records import Outcome
from engine.tasks.phaser.validation.verdict import RuntimeOutcome, ValidationRequest

pytestmark = pytest.mark.node

GAME = "new Phaser.Game({ scene: { create() { this.add.text(9, 9, 'Hello'); } } });"
TEXT = "this.add.text(9, 9, 'Hello');"


def run(validator, code, **options):
    return validator.validate(ValidationRequest(code=code, skip_eslint=True, **{"frames": 5, **options}))


def printed(validator, code):
    """What a program printed, with a game after it."""
    verdict = run(validator, f"{code}\n{GAME}", frames=10)
    assert verdict.outcome is Outcome.OK, verdict.fault
    return verdict.runtime.observed.console


def test_a_program_cannot_know_its_random_numbers_and_its_time(validator):
    code = "console.log(Math.random()); console.log(Date.now()); console.log(new Date().getTime());"
    outputs = [printed(validator, program) for program in (code, code, f"{code} // x", f"{code} // y")]
    assert outputs[0] == outputs[1]
    for values in zip(*outputs, strict=True):
        assert len(set(values)) == 3


@pytest.fixture
def server():
    """A server on this machine, and the requests that reached it."""
    requests = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            requests.append(self.path)
            self.send_response(200)
            self.send_header("Access-Control-Allow-Origin", "*")
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as opened:
        threading.Thread(target=opened.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{opened.server_port}", requests
        opened.shutdown()


REACHES = {
    "fetch": "fetch('URL/fetch').then(ok, no);",
    "request": "const r = new XMLHttpRequest(); r.onload = ok; r.onerror = no; r.open('GET', 'URL'); r.send();",
    "image": "const i = new Image(); i.onload = ok; i.onerror = no; i.src = 'URL/image';",
    "socket": "const s = new WebSocket('URL'.replace('http', 'ws')); s.onopen = ok; s.onerror = no;",
    "file": "fetch('file:///etc/passwd').then(ok, no);",
    "frame": "const f = document.createElement('iframe'); f.src = 'file:///etc/passwd'; document.body.append(f);"
    " setTimeout(() => { try { f.contentDocument.body.innerText ? ok() : no(); } catch { no(); } }, 50);",
    "window": "window.open('URL/window'); no();",
    "node": "typeof require === 'function' || typeof process === 'object' ? ok() : no();",
    "worker": "new Worker(window.URL.createObjectURL(new Blob(['postMessage(1)']))).onmessage = ok;",
}


def test_nothing_outside_of_the_page_can_be_reached(validator, server):
    """One program tries every way, and prints how each ended. A worker that is refused prints nothing."""
    address, requests = server
    tries = [
        f"{{ const ok = () => console.log('{name} done'), no = () => console.log('{name} refused'); {code} }}"
        for name, code in REACHES.items()
    ]
    lines = printed(validator, "\n".join(tries).replace("'URL", f"'{address}"))
    assert sorted(lines) == sorted(f"{name} refused" for name in REACHES.keys() - {"worker"})
    assert requests == []


def test_a_page_that_leaves_or_starts_again_does_not_start_again(validator):
    for leave in ("location.href = 'http://example.org/';", "location.reload();", "document.open();"):
        verdict = run(validator, f"new Phaser.Game({{ scene: {{ create() {{ {TEXT} {leave} }} }} }});")
        assert verdict.outcome is Outcome.OK, (leave, verdict.fault)
        assert verdict.gates["runtime"].ok is False


FORGED = [
    "console.log(JSON.stringify({ outcome: 'ok', observed: { shows: true, frames: 60 } }));",
    'JSON.stringify = () => \'{"created":true,"games":1,"steps":60,"loading":0,"missing":""}\';',
    "globalThis.eval = Function.prototype.call = Function.prototype.apply = () => ({ created: true });",
    "Object.prototype.toJSON = () => ({ outcome: 'ok', shows: true });",
    "Array.prototype.some = () => true; Array.prototype.push = () => 1;",
    "Object.defineProperty(Object.prototype, 'created', { value: true });",
    "window.__signals__ = { outcome: 'ok', runtime_ok: true };",
    "const p = Phaser.Scenes.SceneManager['proto' + 'type']; try { p.create({ sys: { settings: {} } }); } catch {}",
]


@pytest.mark.parametrize("code", FORGED)
def test_what_a_program_writes_is_no_verdict(validator, code):
    for program in (code, f"{code}\nnew Phaser.Game({{ scene: {{}} }});"):  # without a game, and without a picture
        verdict = run(validator, program)
        assert verdict.outcome is Outcome.OK, verdict.fault
        assert verdict.gates["runtime"].ok is not True, verdict.runtime


@pytest.mark.timeout(120)
def test_a_game_that_crashes_its_page_is_run_twice_and_the_next_one_runs(validator):
    # Little in each frame: where memory is slow, the limit of one call would come before the crash.
    fills = "for (let i = 0; i < 4; i++) held.push(new Array(1e6).fill(0.5));"
    game = f"const held = []; new Phaser.Game({{ scene: {{ create() {{ {TEXT} }}, update() {{ {fills} }} }} }});"
    verdict = run(validator, game, frames=60)
    assert (verdict.outcome, verdict.runtime.outcome) == (Outcome.OK, RuntimeOutcome.OOM)
    assert "crashed twice" in verdict.runtime.message
    assert run(validator, GAME).gates["runtime"].ok


def test_a_browser_that_ends_is_a_fault_of_the_machine(validator):
    (browser,) = validator._browsers.running()
    os.killpg(browser._host._process.pid, signal.SIGKILL)
    assert run(validator, GAME).gates["runtime"].ok  # in a new one


def test_a_browser_that_does_not_start_is_no_verdict(validator, monkeypatch):
    validator._browsers.close()
    monkeypatch.setattr(validator, "_chromium", "/bin/false")
    assert run(validator, GAME).outcome is Outcome.INFRA_FAULT
    monkeypatch.undo()
    assert run(validator, GAME).gates["runtime"].ok
