"""Reading the index: inherited members, near names, and a clear error for a file that cannot be used."""

import hashlib
import json

import pytest

from engine.errors import ConfigurationError
from engine.tasks.phaser.validation.api_index import PHASER_VERSION, ApiIndex
from tests.support.phaser import find

_ROWS = [
    {"symbol_id": "Phaser.Sprite", "name": "Sprite", "kind": "class", "owner": "Phaser", "inherits": ["Phaser.Base"]},
    {"symbol_id": "Phaser.Base", "name": "Base", "kind": "class", "owner": "Phaser", "inherits": ["Phaser.Alpha"]},
    {"symbol_id": "Phaser.Alpha#setAlpha", "name": "setAlpha", "kind": "method", "owner": "Phaser.Alpha"},
    {"symbol_id": "Phaser.Base.x", "name": "x", "kind": "property", "owner": "Phaser.Base"},
    {"symbol_id": "Phaser.Sprite#setAlphaOnly", "name": "setAlphaOnly", "kind": "method", "owner": "Phaser.Sprite"},
]


def _write(folder, rows=_ROWS, version=PHASER_VERSION, sha256=None):
    path = folder / "phaser_api.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    digest = sha256 or hashlib.sha256(path.read_bytes()).hexdigest()
    (folder / "meta.json").write_text(json.dumps({"phaser_version": version, "sha256": digest}))
    return path


def test_members_are_found_through_classes_and_mixins(tmp_path):
    index = ApiIndex.load(_write(tmp_path))
    assert find(index, "Phaser.Sprite#setAlpha")
    assert find(index, "Phaser.Sprite.x")
    assert find(index, "Phaser.Sprite.setAlpha")["symbol_id"] == "Phaser.Alpha#setAlpha"
    assert not find(index, "Phaser.Sprite#setBeta")
    assert not find(index, "Sprite")


def test_near_names_are_members_of_the_owner_inherited_ones_included(tmp_path):
    index = ApiIndex.load(_write(tmp_path))
    assert index.near("Phaser.Sprite#setAlpa")[0] == "Phaser.Alpha#setAlpha"
    assert index.near("Phaser.Sprit") == ("Phaser.Sprite",)
    assert index.near("Phaser.Sprite#zzzzzz") == ()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.unlink(), "not found"),
        (lambda path: path.with_name("meta.json").unlink(), "not found"),
        (lambda path: path.with_name("meta.json").write_text("{"), "damaged"),
        (lambda path: path.write_bytes(path.read_bytes()[:-20]), "SHA-256"),
        (lambda path: _write(path.parent, version="3.80.1"), "3.80.1"),
        (lambda path: _write(path.parent, rows=[{"no": "id"}]), "damaged"),
    ],
    ids=["no-index", "no-meta", "broken-meta", "truncated", "other-version", "no-ids"],
)
def test_an_index_that_cannot_be_used_is_refused_with_the_fix(tmp_path, damage, message):
    path = _write(tmp_path)
    damage(path)
    with pytest.raises(ConfigurationError, match=message) as caught:
        ApiIndex.load(path)
    assert "grpo_training.phaser api-index" in caught.value.fix
    assert caught.value.exit_code == 2
