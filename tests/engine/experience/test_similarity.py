"""The experiences of a library that fit a problem."""

import json
import math
import random
import statistics

import pytest

from engine.datasets import load_problems
from engine.experience.similarity import ExperienceMatcher, ProblemKinds
from engine.records import Evidence, Experience, Problem
from tests.conftest import shared_file

LIBRARY = [
    Experience(id="G1-001", content="Check the sign of the answer before writing it down.", category="sign"),
    Experience(id="G1-002", content="For trains that meet, add their speeds.", category="relative_speed"),
    Experience(id="G1-003", content="For a discount, multiply the price by one minus the rate.", category="percent"),
    Experience(id="G1-004", content="求两数之和时先检查进位。", category=""),
    Experience(id="G1-005", content="Check the sign of each term before adding.", category="sign"),
]


def ids(text, count):
    return [experience.id for experience in ExperienceMatcher(LIBRARY).most_similar(text, count)]


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
    assert ExperienceMatcher([]).most_similar("zzz", 3) == []


def learned(number, content, *problems):
    evidence = [Evidence(problem_id=f"p{index}", problem_text=text) for index, text in enumerate(problems)]
    return Experience(id=f"G1-{number:03}", content=content, evidence=evidence)


def test_an_experience_fits_the_problems_that_it_was_learned_from():
    library = [
        learned(
            1, "Count the pauses, not the signals.", "A lighthouse flashes every 7 seconds. When is the 9th flash?"
        ),
        learned(2, "Add what both of them do in an hour.", "Two pipes fill a tank.", "Ann and Ben paint a fence."),
        learned(3, "A tank that is filled twice holds no more than once."),
    ]
    matcher = ExperienceMatcher(library)
    assert [lesson.id for lesson in matcher.most_similar("A bell flashes a lamp every 3 seconds.", 1)] == ["G1-001"]
    assert [lesson.id for lesson in matcher.most_similar("Carla and Dan paint a wall.", 1)] == ["G1-002"]
    # written by hand, without a problem: its own words
    assert sum(matcher.cosines("What holds more, a pot or a pan?")[2]) > 0
    # the same text is as similar as texts can be, in its problem and not in its words
    exact = sum(matcher.cosines("Two pipes fill a tank.")[1])
    assert 1.0 <= exact < 1.3


def test_what_was_learned_from_problems_of_another_kind_is_left_out():
    library = [
        learned(1, "Count the pauses.", "A lighthouse flashes every 7 seconds. When is the 9th flash?"),
        learned(2, "Add what both do in an hour.", "Two pipes fill a tank in 3 hours and 6 hours."),
        learned(3, "Written by hand, for whatever is asked."),
    ]
    matcher = ExperienceMatcher(library)
    about_pipes = "Two pipes fill a tank in 4 hours and 5 hours. When is it full?"
    assert [lesson.id for lesson in matcher.most_similar(about_pipes, 3)] == ["G1-002", "G1-003"]
    # "half as similar" is relative to the most similar one that may be chosen
    assert [lesson.id for lesson in matcher.most_similar(about_pipes, 3, without={"G1-002"})] == ["G1-001", "G1-003"]
    assert [lesson.id for lesson in matcher.most_similar(about_pipes, 3, share=0)] == ["G1-002", "G1-001", "G1-003"]
    # a problem that shares no word with any leaves all
    assert len(matcher.most_similar("zzz", 3)) == 3


def test_on_new_problems_the_experience_of_their_own_family_comes_first():
    """Quickstart: one experience for each of 17 families, from a problem of it, with the same words everywhere."""

    def family(problem):
        return problem.id.rpartition("-")[0]

    rng, train, new = random.Random(0), load_problems("quickstart"), load_problems("quickstart:test")
    families = rng.sample(sorted({family(problem) for problem in train}), 17)
    sources = [rng.choice([problem for problem in train if family(problem) == name]) for name in families]
    matcher = ExperienceMatcher([learned(n, "Check each step again.", source.text) for n, source in enumerate(sources)])
    asked = [problem for problem in new if family(problem) in families]
    first = [int(matcher.most_similar(problem.text, 1)[0].id[-3:]) for problem in asked]
    right = [families[index] == family(problem) for index, problem in zip(first, asked, strict=True)]
    assert len(asked) > 100
    assert sum(right) / len(right) > 0.9


TANKS = ("Two pipes fill a tank in 3 and 6 hours.", "Two pipes fill a tank in 4 and 5 hours.", "Four taps fill a tank.")


def asked_about(text, problem_id="new"):
    return Problem(id=problem_id, text=text, answer="")


def test_what_comes_from_a_problem_of_its_kind():
    texts = (*TANKS, "A lighthouse flashes every 7 seconds.", "Ann reads a book of 200 pages.")
    library = [
        Experience(id=f"G1-{n}", content="Check it.", evidence=[Evidence(problem_id=f"p{n}", problem_text=text)])
        for n, text in enumerate(texts)
    ]
    by_hand = Experience(id="G1-9", content="Two pipes fill a tank together.")
    kinds = ProblemKinds(texts)

    def of_kind(problem):
        return [experience.id for experience in (*library, by_hand) if kinds.is_of_kind(problem, experience)]

    assert of_kind(asked_about("Two pipes fill a tank in 2 and 9 hours.")) == ["G1-0", "G1-1"]
    assert of_kind(asked_about(TANKS[0], "p0")) == ["G1-0", "G1-1"]
    assert of_kind(asked_about("zzz")) == []
    assert of_kind(asked_about("zzz", "p3")) == ["G1-3"]
    assert not ProblemKinds([]).is_of_kind(asked_about("zzz"), library[0])


@pytest.mark.parametrize("name", ["gsm8k/test.jsonl", "bbh/sports_understanding.json", "bbh/date_understanding.json"])
def test_few_problems_of_public_data_are_of_one_kind(name):
    """The analyst is not asked about a kind of which ten lessons are there; 60 lessons are not of one kind."""
    path = shared_file(f"datasets/{name}")
    rows = json.loads(path.read_text())["examples"] if path.suffix == ".json" else map(json.loads, path.open())
    texts = [row.get("input") or row["question"] for row in rows][:360]
    kinds = ProblemKinds(texts)
    lessons = [
        Experience(id=f"G1-{n}", content="", evidence=[Evidence(problem_id=f"p{n}", problem_text=text)])
        for n, text in enumerate(texts[:60])
    ]
    counts = [sum(kinds.is_of_kind(asked_about(text), lesson) for lesson in lessons) for text in texts[60:160]]
    assert sum(count >= 10 for count in counts) <= 10


def test_likeness_is_a_share_of_the_usual_similarity_of_a_kind():
    """Against the cosines of texts as vectors of words, worked out here."""
    texts = ["red boat sails north", "red boat sails south", "blue cart rolls south", "blue cart rolls west east"]
    split = [set(text.split()) for text in texts]
    rarity = {word: math.log(5 / (1 + sum(word in other for other in split))) + 1 for words in split for word in words}

    def cosine(left, right):
        length = math.prod(math.sqrt(sum(rarity[word] ** 2 for word in words)) for words in (left, right))
        return sum(rarity[word] ** 2 for word in left & right) / length

    nearest = [max(cosine(words, other) for other in split if other is not words) for words in split]
    usual, kinds = statistics.median(nearest), ProblemKinds(texts)
    for index, text in enumerate(texts):
        for other_index, other_text in enumerate(texts):
            share = cosine(split[index], split[other_index]) / max(nearest[index], usual)
            assert kinds.likeness(text, [other_text]) == pytest.approx(min(1, max(0, (share - 0.35) / 0.15)))
    assert kinds.likeness(texts[0], [texts[1]]) == 1
    assert kinds.likeness(texts[0], [texts[2]]) == 0
    assert 0 < kinds.likeness(texts[1], [texts[2]]) < 1  # one word of four
    # the most similar one of several, none, and an experience without problems
    assert kinds.likeness(texts[0], texts[1:]) == 1
    assert kinds.likeness(texts[0], []) == 0
    assert kinds.likeness_of(texts[0], LIBRARY[0]) == 1
    assert kinds.likeness_of(texts[0], learned(1, "Mind the wind.", texts[2])) == 0


def test_in_a_run_without_kinds_all_problems_count_alike():
    texts = ["red boat sails north", "blue cart rolls west", "green lamp burns low", "grey fox runs home"]
    assert ProblemKinds(texts).likeness(texts[0], [texts[1]]) == 1
    assert ProblemKinds([]).likeness(texts[0], [texts[1]]) == 1
