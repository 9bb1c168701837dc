import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.tasks.code.literals import from_literal, to_literal

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.binary(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.sets(st.integers() | st.text(max_size=2), max_size=3)
        | st.dictionaries(st.integers() | st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(plain)
def test_a_literal_reads_back_as_the_same_value(value):
    assert repr(from_literal(to_literal(value))) == repr(value) or from_literal(to_literal(value)) == value


def test_integers_of_any_length_have_a_literal():
    big = 10**20_000 + 1
    assert from_literal(to_literal([big, -big])) == [big, -big]


def test_what_has_no_literal_is_refused():
    endless = []
    endless.append(endless)
    for value in (float("nan"), object(), endless, frozenset()):
        with pytest.raises(ValueError, match=r"."):
            to_literal(value)
