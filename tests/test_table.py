"""The table of cases that is one test: every row runs, and a failure names its rows."""

import pytest

from tests.support.table import table


def test_every_row_runs_and_each_failure_is_named():
    ran = []

    @table("one, other", [(1, 1), (1, 2), (3, 3), (3, 4)])
    def check(one, other):
        ran.append(one)
        assert one == other

    with pytest.raises(AssertionError) as caught:
        check()
    assert ran == [1, 1, 3, 3]
    notes = "\n".join(caught.value.__notes__)
    assert "Row: one=1, other=2" in notes
    assert "Row: one=3, other=4" in notes
    assert "one=3, other=3" not in notes


def test_a_time_limit_ends_the_table():
    ran = []

    @table("row", [1, 2])
    def check(row):
        ran.append(row)
        pytest.fail("too slow")

    with pytest.raises(pytest.fail.Exception):
        check()
    assert ran == [1]


@table("value", "ab")
@table("factor", (1, 2))
def test_tables_multiply_and_fixtures_are_passed(tmp_path, value, factor):
    file = tmp_path / "seen"
    file.touch()
    with file.open("a") as handle:
        handle.write(value * factor)
    assert file.read_text() in ("a", "aaa", "aaab", "aaabbb")
