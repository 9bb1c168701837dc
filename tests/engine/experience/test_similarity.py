"""The most similar experiences of a library."""

from engine.experience.similarity import most_similar
from engine.records import Experience

LIBRARY = [
    Experience(id="G1-001", content="Check the sign of the answer before writing it down.", category="sign"),
    Experience(id="G1-002", content="For trains that meet, add their speeds.", category="relative_speed"),
    Experience(id="G1-003", content="For a discount, multiply the price by one minus the rate.", category="percent"),
    Experience(id="G1-004", content="求两数之和时先检查进位。", category=""),
    Experience(id="G1-005", content="Check the sign of each term before adding.", category="sign"),
]


def ids(text, count):
    return [one.id for one in most_similar(text, LIBRARY, count)]


def test_experiences_about_the_subject_come_first():
    assert ids("Two trains meet after 3 hours; what are their speeds?", 1) == ["G1-002"]
    assert ids("The price of a coat falls by a DISCOUNT of 20 %.", 1) == ["G1-003"]
    assert ids("求两数之和", 1) == ["G1-004"]
    assert ids("a question of relative speed", 1) == ["G1-002"]  # the category counts


def test_rare_words_weigh_more_than_common_ones():
    # "before" is in two experiences, "trains" in one
    assert ids("before trains", 1) == ["G1-002"]


def test_without_a_shared_word_the_order_of_the_library_holds():
    assert ids("zzz", 3) == ["G1-001", "G1-002", "G1-003"]
    assert len(ids("zzz", 99)) == 5
    assert most_similar("zzz", [], 3) == []
