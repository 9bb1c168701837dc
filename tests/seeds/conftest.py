"""The index of Phaser's API, from the tests of the task."""

from tests.engine.tasks.phaser.conftest import api_index, node

__all__ = ["api_index", "node"]
