import json
import random

import pytest

from examples.pocket_model.corpus import Corpus, scaffold_reply
from examples.pocket_model.judging import family_of, judge, majority_is_right, rate
from examples.pocket_model.quickstart import FAMILIES
from tests.support.forked_command import ForkedCommand

CORPUS = Corpus("test", 5)
FAMILY = FAMILIES["fence_posts"]


def asked(role, lessons="others", want=lambda item: True):
    rng = random.Random(0)
    return next(item for item in (getattr(CORPUS, role)(FAMILY, rng, lessons) for _ in range(300)) if want(item))


def adds(item):
    return '"op":"add"' in item.reply


def operations(*listed):
    return json.dumps({"operations": list(listed)})


def test_a_scaffold_is_right_when_its_graph_gives_the_answer():
    item = asked("generator")
    right, mistaken = (judge(item, scaffold_reply(item.instance, way)) for way in (True, False))
    assert (right.is_json, right.right) == (True, True)
    assert (mistaken.is_json, mistaken.right) == (True, False)


@pytest.mark.parametrize(
    ("reply", "is_json"), [("", False), ("{", False), ('{"chosen_strategy":"gaps', False), ("[]", False), ("{}", False)]
)
def test_other_text_is_neither_valid_nor_right(reply, is_json):
    judged = judge(asked("generator"), reply)
    assert (judged.is_json, judged.right) == (is_json, False)


def test_a_lesson_must_be_of_the_family_and_new():
    item = asked("analyst", want=adds)
    lesson, other = FAMILY.lessons[0], FAMILIES["ages"].lessons[0]
    assert judge(item, operations({"op": "add", "content": lesson})).right
    assert not judge(item, operations({"op": "add", "content": other})).right
    assert not judge(item, operations({"op": "add", "content": lesson}, {"op": "add", "content": lesson})).right
    assert not judge(item, operations()).right
    assert not judge(
        item, operations({"op": "add", "content": f"{lesson} The answer is {item.instance.problem.answer}."})
    ).right
    known = asked("analyst", "fitting")
    assert judge(known, operations()).right
    assert not judge(known, operations({"op": "add", "content": lesson})).right


def test_malformed_replies_of_an_analyst_are_wrong():
    item = asked("analyst", want=adds)
    for reply in ("[]", "3", '{"operations": 3}', '{"operations": [3]}', '{"operations": [{"op": "add"}]}', "null"):
        assert not judge(item, reply).right


def test_every_lesson_is_attributed_to_its_family():
    for family in FAMILIES.values():
        assert all(family_of(lesson) is family for lesson in family.lessons)


def test_the_majority_of_the_proposals_is_counted():
    item = asked("critic", want=lambda item: item.messages[1].content.count(FAMILY.right.strategy) == 2
                 and item.messages[1].content.count(FAMILY.mistaken.strategy) == 1)  # fmt: skip
    assert majority_is_right(item)
    item = asked("critic", want=lambda item: item.messages[1].content.count(FAMILY.right.strategy) == 1
                 and item.messages[1].content.count(FAMILY.mistaken.strategy) == 1)  # fmt: skip
    assert not majority_is_right(item)


def test_a_rate_is_a_share():
    assert rate([True, False, False]) == 0.333


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("evaluate --split nosuch", "--split: "),
        ("evaluate --nosuch", "unrecognized arguments"),
        ("evaluate --model nowhere", "No model in nowhere"),
        ("train --tokens -1", "--tokens: "),
    ],
)
def test_bad_input_gives_one_line_and_no_traceback(command, message):
    program, *words = f"examples.pocket_model.{command}".split()
    printed, code = ForkedCommand(program, words).communicate(60)
    assert code == 1
    assert printed.startswith("✗ ")
    assert message in printed
    assert "Traceback" not in printed
