import pytest

from engine.experience.library import ExperienceLibrary
from tests.support.library import CONTENTS, add, clock, commit, outcome


@pytest.fixture
def path(tmp_path):
    return tmp_path / "generator_1_experiences.json"


@pytest.fixture
def library(path):
    library = ExperienceLibrary(path, clock=clock())
    for number, content in enumerate(CONTENTS[:3]):
        commit(library, outcome(number), [add(content, category="math")])
    return library
