import json

import pytest

from engine.datasets import load_dataset


@pytest.fixture
def loaded(tmp_path):
    """A function that reads rows as the dataset of a file."""

    def load(rows, **arguments):
        path = tmp_path / "rows.json"
        path.write_text(json.dumps(rows), encoding="utf-8")
        return load_dataset(str(path), **arguments)

    return load
