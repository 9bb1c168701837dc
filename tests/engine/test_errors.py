"""What errors say of their causes."""

import pytest

from engine.errors import first_line


@pytest.mark.parametrize(
    ("error", "line"),
    [(ValueError("a\nb"), "a"), (OSError("\n  no space \n"), "no space"), (RuntimeError(), "RuntimeError")],
)
def test_the_first_line_of_a_cause(error, line):
    assert first_line(error) == line
