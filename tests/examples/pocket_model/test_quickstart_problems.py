import hashlib
import inspect
import itertools
import random
import re
from fractions import Fraction

import pytest

from engine.datasets import load_problems
from engine.errors import InputError
from engine.experience.text_checks import check_text, count_words
from engine.records import Completion
from engine.scaffold.execution import compile_scaffold, execute
from engine.scaffold.structure import check_structure
from engine.tasks.registry import task_named
from examples.pocket_model.quickstart import FAMILIES, SPLITS, draw_instance, instances, problems
from examples.pocket_model.quickstart.wording import expand
from tests.support.table import table

EACH = table("family", FAMILIES.values())
DRAWS = 12


def draws(family):
    """All clean choices of numbers, by name."""
    return [dict(zip(family.numbers, choice, strict=True)) for split in SPLITS for choice in family.choices_of(split)]


def executed(scaffold):
    execution = execute(scaffold)
    assert execution.executed, execution
    return Fraction(execution.answer)


def test_the_grammar_gives_all_alternatives_in_order():
    assert expand("[a|b [c|d]]-{x}") == ("a-{x}", "b c-{x}", "b d-{x}")
    assert expand("[|so ]it is") == ("it is", "so it is")
    assert expand("plain") == ("plain",)


@pytest.mark.parametrize("grammar", ["[a|b", "a]b", "[a|[b]", "[a|b|c|d|e|f|g|h|i|j]" * 5])
def test_broken_or_boundless_grammars_are_refused(grammar):
    with pytest.raises(ValueError, match="bracket|wordings"):
        expand(grammar)


def test_there_are_enough_families_with_habits_around_one_half():
    assert len(FAMILIES) >= 24
    habits = [family.habit for family in FAMILIES.values()]
    assert min(habits) >= 0.25
    assert max(habits) <= 0.75
    assert 0.45 <= sum(habits) / len(habits) <= 0.55


def test_worked_by_hand():
    family = FAMILIES["round_trip"]  # 60 km/h out and 40 back: 120 km take 2 h + 3 h, so 48 km/h
    assert family.answer(there=60, back=40) == 48
    assert executed(family.scaffold(family.mistaken, {"there": 60, "back": 40})) == 50
    family = FAMILIES["rise_and_fall"]  # 200 + 10 % = 220, less 20 % of 220 = 176; the mistake says 180
    assert family.answer(price=200, up=10, down=20) == 176
    assert executed(family.scaffold(family.mistaken, {"price": 200, "up": 10, "down": 20})) == 180
    family = FAMILIES["clock_strikes"]  # 4 strikes have 3 pauses of 2 s; 7 strikes have 6, so 12 s
    assert family.answer(strikes=4, seconds=6, hour=7) == 12


@EACH
def test_the_right_graph_gives_the_answer_and_the_mistaken_one_another_number(family):
    for draw in random.Random(1).sample(draws(family), DRAWS):
        answer = Fraction(family.answer(**draw))
        right, mistaken = family.scaffold(family.right, draw), family.scaffold(family.mistaken, draw)
        assert executed(right) == answer
        assert executed(mistaken) != answer
        structure = check_structure(compile_scaffold(right))
        assert structure["acyclic"]
        assert structure["target_covered"]
        assert structure["knowns_used"] == 1.0
        assert structure["rules_parse"] == 1.0


@EACH
def test_no_choice_of_numbers_hides_the_mistake(family):
    """Where mistake and truth give the same number, a wrong way would count as right."""
    target = family.right.target
    assert target == family.mistaken.target

    def value(way, draw):
        values = dict(draw)
        for edge in way.edges:
            expression = edge.rule.partition(" = ")[2].replace("^", "**")
            values[edge.effect] = eval(expression, {}, values)
        return values[target]

    for draw in draws(family):
        assert value(family.right, draw) == pytest.approx(float(family.answer(**draw)))
        assert value(family.mistaken, draw) != pytest.approx(float(family.answer(**draw)))


@EACH
def test_the_conditions_take_the_numbers_in_their_order(family):
    assert list(inspect.signature(family.fits).parameters) == list(family.numbers)


@EACH
def test_every_known_and_only_knowns_stand_in_the_wordings(family):
    assert len(family.wordings) >= 36
    for wording in family.wordings:
        slots = set(re.findall(r"{(\w+)}", wording)) - {"who", "other", "place", "thing"}
        assert slots == set(family.numbers)
        assert not re.search(r"\d", re.sub(r"1/{", "{", wording))


@EACH
def test_lessons_are_short_general_and_many(family):
    assert len(set(family.lessons)) >= 6
    for lesson in family.lessons:
        assert count_words(lesson) <= 32
        assert not re.search(r"\d", lesson)
    rng = random.Random(2)
    for _ in range(40):
        problem = draw_instance(family.name, "train", rng).problem
        assert [check_text(lesson, problem) for lesson in family.lessons] == [None] * len(family.lessons)


def test_no_lesson_belongs_to_two_families():
    lessons = [lesson for family in FAMILIES.values() for lesson in family.lessons]
    assert len(set(lessons)) == len(lessons)


@EACH
def test_splits_share_neither_wordings_nor_numbers_nor_paraphrases(family):
    for parts in (family.wordings_of, family.choices_of, family.lessons_of):
        pieces = [[str(item) for item in parts(split)] for split in SPLITS]
        assert all(len(piece) >= 3 for piece in pieces)
        together = [item for piece in pieces for item in piece]
        assert len(set(together)) == len(together)
    assert sum(len(family.wordings_of(split)) for split in SPLITS) == len(family.wordings)
    assert len(draws(family)) == sum(family.fits(*choice) for choice in itertools.product(*family.numbers.values()))


def test_problems_of_the_splits_differ_by_wording_and_by_text():
    drawn = {split: problems(split, 260) for split in SPLITS}
    for first, second in (("train", "test"), ("train", "validation"), ("validation", "test")):
        assert not {item.meta["wording"] for item in drawn[first]} & {item.meta["wording"] for item in drawn[second]}
        assert not {item.text for item in drawn[first]} & {item.text for item in drawn[second]}


def test_problems_are_balanced_distinct_and_the_same_every_time():
    drawn = problems("test", 2 * len(FAMILIES))
    assert drawn == problems("test", 2 * len(FAMILIES))
    assert drawn[:10] == problems("test", 10)
    assert drawn != problems("test", 2 * len(FAMILIES), seed=1)
    assert len({item.text for item in drawn}) == len({item.id for item in drawn}) == len(drawn)
    families = [item.meta["family"] for item in drawn]
    assert {families.count(name) for name in FAMILIES} == {2}


def test_problems_can_be_scored_by_their_task():
    for instance in instances("validation", len(FAMILIES)):
        task = task_named(instance.problem.task)
        scaffold = instance.family.scaffold(instance.family.right, instance.draw)
        candidate = task.parse(Completion(text=scaffold.model_dump_json()), instance.problem)
        measurement = task.evaluate(candidate, instance.problem)
        assert measurement.answer_source == "executed"
        assert measurement.is_correct


def test_a_split_that_is_not_there_is_refused():
    with pytest.raises(InputError, match="Unknown split"):
        problems("tset", 3)


def test_the_problems_are_those_of_earlier_runs():
    """Caches go on, and a model that was trained on a split has not seen the others."""
    texts = "".join(problem.text for split in SPLITS for problem in problems(split, 100))
    assert hashlib.sha256(texts.encode()).hexdigest()[:16] == "3b92576241d8b82c"


@pytest.mark.parametrize(("name", "split"), [("quickstart", "train"), ("quickstart:test", "test")])
def test_the_shipped_files_hold_these_problems(name, split):
    assert load_problems(name) == problems(split, 240)


def test_no_other_split_is_shipped():
    with pytest.raises(InputError, match="Unknown split 'validation' of quickstart"):
        load_problems("quickstart:validation")
