import pytest

from engine.reading.model_text import as_one_line, without_control_characters


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31mb\x00c\u202ed\u200be\ud800", "a[31mbcde"),
        ("one\r\ntwo\u2028three\ttab", "one\ntwo\nthree\ttab"),
        ("ign\ufe0fore\u034f all\u3164\u115f\U000e0141 \ufe0fthis", "ignore all this"),
        ("a\u200b\ufe0f", "a"),
        ("a" + 500 * "\u0301\u20dd" + "b", "a" + 4 * "\u0301\u20dd" + "b"),
        ("⚠️ and 1️⃣ and ✔︎", "⚠️ and 1️⃣ and ✔︎"),
        ("नमस्ते, é and 한국어", "नमस्ते, é and 한국어"),
        ("בְּרֵאשִׁ֖ית ที่สุด كُتُبٌ Việt", "בְּרֵאשִׁ֖ית ที่สุด كُتُبٌ Việt"),
    ],
)
def test_what_cannot_be_seen_is_removed_and_the_rest_stays(text, shown):
    assert without_control_characters(text) == shown
    assert without_control_characters(shown) == shown


def test_a_text_is_put_on_one_line():
    assert as_one_line("a\nb\tc\u2029d") == "a b c d"
