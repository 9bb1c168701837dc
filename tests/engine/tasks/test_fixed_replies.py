"""Replies that do not do the work: the bounds of ``bench.fixed_replies`` on fewer problems.

Programs for games are in ``tests/engine/tasks/phaser/test_fixed_programs.py``.
"""

import pytest

from bench.fixed_replies import MOST, code, copying_replies, fixed_replies, math, physics
from engine.tasks.scaffold_task import STRUCTURE_OF_WRONG_ANSWER
from tests.conftest import shared_file

STRUCTURE = 0.5
"""The weight of structure in the total of a generator."""


@pytest.mark.parametrize("subject", [math(40), physics()], ids=lambda one: one.name)
def test_a_fixed_reply_earns_no_more_than_an_empty_one(subject):
    empty, *others = fixed_replies(subject)
    assert empty.mean == 0
    assert len(others) >= 20
    assert {one.reply: one.mean for one in others if one.mean > empty.mean + MOST} == {}


@pytest.mark.parametrize("subject", [math(40), physics()], ids=lambda one: one.name)
def test_a_scaffold_of_copied_numbers_earns_at_most_the_structure_of_a_wrong_answer(subject):
    most = STRUCTURE * STRUCTURE_OF_WRONG_ANSWER
    for one in copying_replies(subject):
        assert one.mean <= most * (1 - one.right) + one.right, one


def test_programs_that_ignore_their_problem_earn_no_more_than_an_empty_reply():
    subject = code(shared_file("datasets/mbpp_train.jsonl"), 24)
    for one in (*fixed_replies(subject), *copying_replies(subject)):
        assert one.mean <= MOST + one.right, one
