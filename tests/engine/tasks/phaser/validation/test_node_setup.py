"""What is missing is an error with the fix, before any work."""

import json
import os
from contextlib import closing

import pytest

from engine.errors import ConfigurationError
from engine.tasks.phaser.validation import browser, node_setup
from engine.tasks.phaser.validation.api_index import PHASER_VERSION, ApiIndex
from engine.tasks.phaser.validation.validator import PhaserValidator
from engine.tasks.phaser.validation.verdict import ValidationRequest
from tests.support.phaser import find


def _fake_node(folder, version):
    path = folder / "node"
    path.write_text(f"#!/bin/sh\necho {version}\n")
    path.chmod(0o755)


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """A folder with a package.json and node_modules as they should be."""
    monkeypatch.setattr(node_setup, "NODE_FOLDER", tmp_path)
    wanted = dict.fromkeys(("acorn", "acorn-walk", "eslint", "playwright-core", "pngjs"), "1.0.0") | {
        "phaser": PHASER_VERSION
    }
    (tmp_path / "package-lock.json").write_text("{}")
    (tmp_path / "package.json").write_text(json.dumps({"dependencies": wanted}))
    for name, version in wanted.items():
        (tmp_path / "node_modules" / name).mkdir(parents=True)
        (tmp_path / "node_modules" / name / "package.json").write_text(json.dumps({"version": version}))
    _fake_node(tmp_path, "v20.1.0")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin:/bin")
    return tmp_path


def _refused(match):
    return pytest.raises(ConfigurationError, match=match)


def test_a_complete_setup_is_accepted(packages):
    assert node_setup.find_node().version == "20.1.0"


@pytest.mark.parametrize(
    ("damage", "what", "fix"),
    [
        (lambda folder: _fake_node(folder, "v18.20.4"), r"18\.20\.4 is too old", "Install Node.js 20"),
        (lambda folder: (folder / "node").write_text("#!/bin/sh\nexit 3\n"), "does not start", "Install it again"),
        (
            lambda folder: (folder / "node_modules/phaser/package.json").write_text('{"version": "4.2.1"}'),
            r"phaser has version 4\.2\.1, not 3\.90\.0",
            "make phaser",
        ),
        (lambda folder: (folder / "node_modules/acorn/package.json").unlink(), "acorn is not installed", "make phaser"),
        (lambda folder: (folder / "node_modules").rename(folder / "gone"), "is not installed", "make phaser"),
    ],
    ids=["old-node", "broken-node", "other-phaser", "no-acorn", "no-packages"],
)
def test_what_is_wrong_is_named_with_the_fix(packages, damage, what, fix):
    damage(packages)
    with _refused(what) as caught:
        node_setup.find_node()
    assert fix in caught.value.fix
    assert caught.value.exit_code == 2


def test_no_node(packages, monkeypatch):
    monkeypatch.setenv("PATH", str(packages / "empty"))
    with _refused("Node.js was not found") as caught:
        PhaserValidator(ApiIndex([], "", PHASER_VERSION, packages / "phaser_api.jsonl"))
    assert "make phaser" in caught.value.fix


@pytest.mark.parametrize(("name", "what"), [("CHROMIUM", "Chromium was not found"), ("BUBBLEWRAP", "bubblewrap")])
def test_no_chromium(packages, monkeypatch, name, what):
    monkeypatch.setattr(browser, name, ("no-such-program",))
    with _refused(what) as caught:
        PhaserValidator(ApiIndex([], "", PHASER_VERSION, packages / "phaser_api.jsonl"))
    assert "apt install" in caught.value.fix
    assert "--skip-runtime" in caught.value.fix


@pytest.mark.node
def test_programs_are_read_without_chromium(api_index, monkeypatch):
    monkeypatch.setattr(browser, "CHROMIUM", ("no-such-program",))
    with closing(PhaserValidator(api_index, workers=1, runs=False)) as opened:
        verdict = opened.validate(ValidationRequest(code="new Phaser.Game({ scene: {} });", skip_runtime=True))
    assert (verdict.gates["parse"].ok, verdict.gates["runtime"].ok) == (True, None)


@pytest.mark.node
def test_the_index_of_the_package_is_complete_and_always_the_same(api_index, tmp_path):
    again = node_setup.build_api_index(tmp_path)
    assert again["sha256"] == api_index.sha256
    assert ApiIndex.load(tmp_path / "phaser_api.jsonl").sha256 == api_index.sha256
    assert sorted(path.name for path in tmp_path.iterdir()) == ["meta.json", "phaser_api.jsonl"]
    # what earlier indexes of this kind got wrong: inheritance, statics, enumerations, values, timers, events
    for symbol in (
        "Phaser.Cameras.Scene2D.Camera#setBounds",
        "Phaser.Display.Color.GetColor",
        "Phaser.BlendModes.ADD",
        "Phaser.Time.Clock#addEvent",
        "Phaser.Math.RandomDataGenerator#integerInRange",
        "Phaser.Input.Events.POINTER_DOWN",
        "Phaser.GameObjects.Sprite#setTint",
        "Phaser.Physics.Arcade.Sprite#setVelocity",
        "Phaser.Class",
    ):
        assert find(api_index, symbol), symbol
    for symbol in ("Phaser.Time.TimePlugin", "Phaser.GameObjects.Particles.ParticleEmitterManager", "Phaser.Nothing"):
        assert not find(api_index, symbol), symbol
    timer = find(api_index, "Phaser.Time.Clock#addEvent")
    assert (timer["since"], timer["returns"]["type"]) == ("3.0.0", "Phaser.Time.TimerEvent")
    assert find(api_index, "Phaser.Input.Events.POINTER_DOWN")["value"] == "pointerdown"
    assert len(api_index) > 8000
