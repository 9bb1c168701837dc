import pytest

from tests.support.scoring import ScoringFolder


@pytest.fixture
def scoring(tmp_path, monkeypatch):
    return ScoringFolder(tmp_path, monkeypatch)
