"""Every shipped physics answer is computed twice: by a formula with units, and numerically by another way."""

import importlib
import json
import math
import re
from collections import Counter
from pathlib import Path

from tests.engine.tasks.physics.known_results.registry import CLOSED, KNOWNS, NUMERIC, Q, solve_closed, solve_numeric
from tests.support.table import table

AREAS = ["mechanics", "waves", "thermodynamics", "electricity", "optics", "modern physics"]
for area in AREAS:
    importlib.import_module(f"tests.engine.tasks.physics.known_results.{area.split()[0]}")

FILE = Path(__file__).resolve().parents[4] / "data" / "datasets" / "physics.jsonl"
ROWS = {row["id"]: row for row in map(json.loads, FILE.read_text(encoding="utf-8").splitlines())}
ANSWER = re.compile(r"(\d+(?:\.\d+)?) (\S+)")
WAYS_AGREE = 2e-5
ROOM = 2.5e-4
"""Relative room to the next rounding: a constant with one more digit must not change the answer."""
CANCELS = {("physics_001", "g"), ("physics_024", "V")}
"""Values that a person would be given, though the answer does not depend on them."""


def _parts(row):
    match = ANSWER.fullmatch(row["answer"])
    assert match, f"{row['id']}: {row['answer']!r} is not a number and a unit"
    return match[1], match[2]


def _agrees(quantity, row):
    """Whether a quantity, in the answer's unit, rounds to the answer's digits (and not just barely)."""
    number, unit = _parts(row)
    value = float(quantity.to(unit).magnitude)
    half = 0.5 * 10.0 ** -len(number.partition(".")[2])
    return abs(value - float(number)) < half - ROOM * abs(value)


def test_there_are_six_problems_of_each_area_and_all_are_checked():
    assert Counter(row["area"] for row in ROWS.values()) == dict.fromkeys(AREAS, 6)
    assert list(ROWS) == [f"physics_{number:03d}" for number in range(1, 37)]
    assert set(CLOSED) == set(NUMERIC) == set(ROWS)
    assert len({row["problem"] for row in ROWS.values()}) == len(ROWS)
    assert all(set(row) == {"id", "problem", "answer", "area", "task"} for row in ROWS.values())


@table("problem_id", ROWS)
def test_the_formula_gives_the_answer(problem_id):
    result = solve_closed(problem_id)
    assert _agrees(result, ROWS[problem_id]), f"{result.to_base_units()} is not {ROWS[problem_id]['answer']}"


@table("problem_id", ROWS)
def test_another_way_gives_the_answer_too(problem_id):
    formula = solve_closed(problem_id).to_base_units()
    value = solve_numeric(problem_id)
    assert math.isclose(value, formula.magnitude, rel_tol=WAYS_AGREE)
    assert _agrees(Q(value, formula.units), ROWS[problem_id])


@table("problem_id", ROWS)
def test_the_solution_uses_the_values_of_the_text_and_no_others(problem_id):
    rest = text = ROWS[problem_id]["problem"]
    for known in sorted(KNOWNS[problem_id].values(), key=len, reverse=True):
        assert re.search(rf"(?<![\d.]){re.escape(known)}(?![\d.]*\d)", text), f"{known!r} is not in the text"
        rest = rest.replace(known, "")
    assert not re.findall(r"\d+\.\d+|\d{2,}", rest), "a value of the text is not used"


@table("problem_id", ROWS)
def test_the_text_is_whole(problem_id):
    number, unit = _parts(ROWS[problem_id])
    text = ROWS[problem_id]["problem"]
    assert len(number.replace(".", "").lstrip("0")) == 3
    assert "." in number or not number.endswith("0"), "how many digits are significant?"
    assert re.search(rf"Give the answer in {re.escape(unit)}( \(\w+\))?\.$", text)
    assert text.count("?") + text.count("Find ") == 1
    assert text.isascii()


@table("problem_id", ROWS)
def test_every_given_value_matters(problem_id):
    expected = solve_closed(problem_id)
    for name in KNOWNS[problem_id]:
        changed = solve_closed(problem_id, **{name: 1.01})
        cancels = (problem_id, name) in CANCELS
        assert (abs((changed / expected).to("").magnitude - 1) < 1e-4) == cancels, name


@table("problem_id", ROWS)
def test_the_neighbours_of_the_answer_are_refused(problem_id):
    number, unit = _parts(ROWS[problem_id])
    digits = len(number.partition(".")[2])
    for step in (10.0**-digits, -(10.0**-digits)):
        wrong = {"id": problem_id, "answer": f"{float(number) + step:.{digits}f} {unit}"}
        assert not _agrees(solve_closed(problem_id), wrong)
