import pytest

from engine.reading.json_reading import ObjectSearch, read_json_object
from engine.reading.loose_json import plain


@pytest.mark.parametrize(
    ("text", "value", "repairs"),
    [
        pytest.param('{"score": 0.5}', {"score": 0.5}, [], id="plain"),
        pytest.param('So:\n```json\n{"score": 1}\n```\nDone.', {"score": 1}, [], id="prose and fence"),
        pytest.param('{"score": 1} and then {"score": 2} {"x": 3}', {"score": 2}, [], id="last with the key"),
        pytest.param('<think>{"score": 1}</think>{"score": 2}', {"score": 2}, [], id="after thinking"),
        pytest.param("{'score': 1,}", {"score": 1}, ["python_literal"], id="python literal"),
        pytest.param('{"score": 1, // why\n}', {"score": 1}, ["comments", "trailing_commas"], id="comments"),
        pytest.param(r'{"score": "\frac{1}{2}"}', {"score": "\\frac{1}{2}"}, ["latex_backslashes"], id="latex"),
        pytest.param('{"score": 1} {"score": @@', {"score": 1}, [], id="complete object before a cut-off one"),
    ],
)
def test_an_object_is_found_and_read(text, value, repairs):
    assert read_json_object(text, "score") == value
    candidate = next(iter(ObjectSearch(text, ("score",))))
    assert plain(candidate.value, candidate.repairs, 100) == value
    assert candidate.repairs.codes == repairs


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("no object at all", "no_json"),
        ('{"other": 1}', "no_json"),
        ('{"other": "score"}', "schema"),
        ('{"score": ' + "[" * 100 + "]" * 100 + "}", "schema"),
        ('{"score": [1, 2', "cut_off"),
    ],
)
def test_a_text_without_a_readable_object_is_a_fault(text, kind):
    assert read_json_object(text, "score").kind == kind
