"""The accuracy of visual question answering, on answer sets whose values were worked out by hand from its rules."""

import pytest

from grpo_training.selector.vqa import is_same_answer, normalize_answer, short_answer, vqa_accuracy
from tests.support.table import table

# Each person left out in turn: with m of 10 equal, (m min(1, (m-1)/3) + (10-m) min(1, m/3)) / 10.
BY_MATCHES = {0: 0.0, 1: 0.3, 2: 0.6, 3: 0.9, 4: 1.0, 5: 1.0, 7: 1.0, 10: 1.0}

# answer, reference, and whether the rules make them equal
PAIRS = [
    ("yes", "yes", True),
    ("yes", "no", False),
    ("Yes", "yes", True),
    ("YES", "yes", True),
    ("  yes ", "yes", True),
    ("yes\n", "yes", True),
    ("ice\tcream", "ice cream", True),
    ("ice\ncream", "ice cream", True),
    ("ice  cream", "ice cream", True),
    ("icecream", "ice cream", False),
    # numbers
    ("two", "2", True),
    ("2", "two", True),
    ("ten", "10", True),
    ("zero", "0", True),
    ("none", "0", True),
    ("None", "zero", True),
    ("Seven dogs", "7 dogs", True),
    ("eleven", "11", False),
    ("one", "1", True),
    ("three", "4", False),
    ("nine", "9", True),
    ("eight", "8", True),
    ("six", "6", True),
    ("five", "5", True),
    ("four", "4", True),
    ("twenty one", "20 1", False),
    ("twenty one", "twenty 1", True),
    # articles
    ("a dog", "dog", True),
    ("the dog", "dog", True),
    ("an apple", "apple", True),
    ("The cat and the dog", "cat and dog", True),
    ("dog a", "dog", True),
    ("another", "other", False),
    ("theater", "ater", False),
    ("this dog", "dog", False),
    ("a", "", True),
    # punctuation: a space, unless it stands beside a space or the text has a comma between digits
    ("black-white", "black white", True),
    ("black/white", "black white", True),
    ("black, white", "black white", True),
    ("black,white", "black white", True),
    ("black ,white", "black white", True),
    ("black -white", "black white", True),
    ("black - white", "black white", True),
    ("t-shirt", "t shirt", True),
    ("t-shirt", "tshirt", False),
    ("t- shirt", "t shirt", True),
    ("x-ray t- shirt", "xray t shirt", True),  # one hyphen beside a space removes all hyphens without a space
    ("x-ray t- shirt", "x ray t shirt", False),
    ("what?", "what", True),
    ("stop!", "stop", True),
    ("(red)", "red", True),
    ("[red]", "red", True),
    ("{red}", "red", True),
    ('"red"', "red", True),
    ("red;blue", "red blue", True),
    ("a=b", "b", True),  # "a b", then the article goes
    ("c+d", "c d", True),
    ("c_d", "c d", True),
    ("c\\d", "c d", True),
    ("<c>", "c", True),
    ("me@home", "me home", True),
    ("`c`", "c", True),
    ("100,978", "100978", True),
    ("1,000,000", "1000000", True),
    ("1,000-2,000", "10002000", True),  # a comma between digits: no mark leaves a space
    ("1,a", "1", True),  # no digit after the comma: a space, then the article goes
    ("10-20", "10 20", True),
    ("10-20", "1020", False),
    # the apostrophe and the colon stay
    ("2:50 pm", "2:50 pm", True),
    ("2:50", "250", False),
    ("2:50", "2 50", False),
    ("girl's", "girls", False),
    ("girl's", "girl's", True),
    ("5 o'clock", "five oclock", True),
    # periods
    ("mr. smith", "mr smith", True),
    ("U.S.A.", "usa", True),
    ("3.14", "3.14", True),
    ("3.14", "314", False),
    ("3.", "3", True),
    (".5", ".5", True),
    (".5", "5", False),
    ("no.", "no", True),
    ("a.m.", "am", True),
    ("v1.x", "v1x", True),
    ("v.1", "v1", False),
    # contractions
    ("dont", "don't", True),
    ("Dont know", "don't know", True),
    ("cant", "can't", True),
    ("isnt", "isn't", True),
    ("wont", "won't", True),
    ("its", "it's", False),
    ("im", "i'm", False),
    ("well", "we'll", False),
    ("shed", "she'd", False),
    ("couldnt've", "couldn't've", True),
    ("couldn'tve", "couldn't've", True),
    ("couldntve", "couldn't've", False),
    ("yall", "y'all", True),
    ("twas", "'twas", True),
    ("whats", "what's", True),
    ("theyre", "they're", True),
    ("hes", "he's", True),
    ("shes", "she's", False),
    ("somebodyd", "somebody'd", True),
    # nothing else is made equal
    ("dogs", "dog", False),
    ("grey", "gray", False),
    ("caf\u00e9", "cafe", False),
    ("running", "run", False),
    ("", "", True),
    ("50%", "50", False),
    ("$5", "5", False),
    ("#1", "1", False),
    ("a & b", "b", False),
    ("r&b", "r&b", True),
]


@table(("answer", "reference", "is_equal"), PAIRS)
def test_normalisation_makes_equal_what_the_rules_say(answer, reference, is_equal):
    assert (normalize_answer(answer) == normalize_answer(reference)) == is_equal


@table(
    ("answer", "form"),
    [
        ("The girl's", "girl's"),
        ("dogs' beds", "dogs' beds"),
        ("rock 'n' roll", "rock 'n' roll"),
        ("5 O'Clock.", "5 o'clock"),
        ("y'alll", "y'alll"),
        ("She's, he's", "she's he's"),
        ("mustn't've", "mustn't've"),
        ("somebody'd", "somebodyd"),
        ("somebodyd", "somebodyd"),
        ("somebodyd've", "somebody'd've"),
    ],
)
def test_apostrophes_are_those_of_the_vqa_evaluation(answer, form):
    assert normalize_answer(answer) == form


SETS = [
    (answer, [reference] * matches + ["zebra crossing"] * (10 - matches), BY_MATCHES[matches if is_equal else 0])
    for number, (answer, reference, is_equal) in enumerate(PAIRS)
    for matches in ((1, 4), (2, 10), (3, 5), (1, 7))[number % 4]
]


@table(("answer", "references", "accuracy"), SETS)
def test_accuracy_on_answer_sets(answer, references, accuracy):
    assert vqa_accuracy(answer, references) == pytest.approx(accuracy)
    assert vqa_accuracy(answer, references[::-1]) == pytest.approx(accuracy)


def test_there_are_as_many_answer_sets_as_promised():
    assert len({(answer, *references) for answer, references, _ in SETS}) >= 200


@table(
    ("answer", "references", "accuracy"),
    [
        # people who wrote the same answer in different ways agree
        ("2", ["two", "2", "Two", "the two", *["three"] * 6], 1.0),
        ("red", ["red", "Red.", *["blue"] * 8], 0.6),
        ("don't know", ["dont know", *["yes"] * 9], 0.3),
        # three people: (1 min(1, 0/3) + 2 x 1/3) / 3
        ("yes", ["yes", "no", "no"], 2 / 9),
        ("yes", ["yes", "yes", "yes"], 2 / 3),
    ],
)
def test_mixed_answer_sets(answer, references, accuracy):
    assert vqa_accuracy(answer, references) == pytest.approx(accuracy)


def test_the_answer_ends_where_the_model_goes_on():
    assert short_answer("red Question: what") == "red"
    assert short_answer(" red, blue") == "red"
    assert short_answer("1,000 Short answer") == "1,000"
    with pytest.raises(ValueError, match="at least two people"):
        vqa_accuracy("yes", ["yes"])


@table(
    ("answer", "truth", "is_same"),
    [
        ("a", "A", True),
        ("", "A", False),
        ("the", "A", False),
        ("?", "the", False),
        ("", "", False),
        ("5", "-5", False),
        ("-5", "-5", True),
        ("35", "3,5", False),
        ("23", "(2,3)", False),
        ("1000", "1,000", True),
        ("C", "C++", False),
        ("(b)", "B.", True),
        ("the dog", "Dog", True),
        ("two", "2", True),
        ("half past", "half-past", True),
        ("dont", "don't", True),
        ("3.", "3", True),
        ("3.5", "35", False),
    ],
)
def test_the_only_right_answer_is_compared_with_its_signs(answer, truth, is_same):
    assert is_same_answer(answer, truth) is is_same


@table(
    ("completion", "answer"),
    [
        ("<think>red? no</think> blue", "blue"),
        ("<think>red", ""),
        ("blue <think>red", "blue"),
        (" blue, or red", "blue"),
    ],
)
def test_thinking_is_no_answer(completion, answer):
    assert short_answer(completion) == answer
