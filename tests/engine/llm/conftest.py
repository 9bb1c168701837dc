import pytest

from engine.llm.journal import ResponseJournal


@pytest.fixture
def journal(tmp_path):
    journal = ResponseJournal(tmp_path / "journal.sqlite")
    yield journal
    journal.close()
