"""Fixtures of the tests of local servers."""

import tempfile

import pytest


@pytest.fixture
def model(tmp_path, monkeypatch):
    """A folder that looks like a model; files that processes share are below ``tmp_path``."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    yield folder
    tempfile.tempdir = None
