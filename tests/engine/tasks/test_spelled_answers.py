"""Right answers that are spelled with conventional constants, and fixed replies: what they earn."""

import json
import re
from fractions import Fraction

import pytest

from engine.records import Completion, Problem, RolloutGroup
from engine.reward_evaluator import RewardEvaluator
from engine.storage.rollout_store import read
from engine.tasks.registry import task_named
from examples.pocket_model.quickstart import instances
from tests.conftest import ROOT
from tests.support.constructions import HIGHEST_FAKED, reply
from tests.support.recorded_replies import reply_text

DIGITS = "0 1 2 3 4 (10/2) 6 (10-3) (10-2) (10-1)".split()
INTEGERS = range(6, 312, 2)  # 153 numbers
ORANGES = "A shop has 12 crates with 17 oranges each. It gives 9 oranges away. How many are left?"
TRAIN = "A train has 37 coaches with 48 seats each, and 5 of them are full. How many seats is that?"


def spelled(number):
    """A number by its decimal digits, which are made of conventional constants."""
    places = zip((number // 100, number // 10 % 10, number % 10), ("*100", "*10", ""), strict=True)
    return " + ".join(DIGITS[digit] + place for digit, place in places if digit) or "0"


def total(problem, text):
    task = task_named(problem.task)
    return RewardEvaluator().score(task, problem, task.parse(Completion(text=text), problem))


VANISHING = {
    "c - 12": ["t = {s} + (c - {c})"],
    "c / c2": ["t = ({s}) * c / c2"],
    "c - c2": ["t = {s} + c - c2"],
    "c / 12 as an exponent": ["t = ({s})^(c/{c})"],
    "mod(c, 12)": ["t = {s} + mod(c, {c})"],
    "mod(c, c2)": ["t = {s} + mod(c, c2)"],
    "mod(4 c, 4)": ["t = {s} + mod(c*4, 4)"],
    "c^0": ["t = ({s}) * c^0"],
    "gcd(c, 12) / c": ["t = ({s}) * gcd(c, {c}) / c"],
    "C(c, 12)": ["t = ({s}) * C(c, {c})"],
    "min(c, 12) - c": ["t = {s} + min(c, {c}) - c"],
    "max(c, c2) - c2": ["t = {s} + max(c, c2) - c2"],
    "c^2 - 12 c": ["t = {s} + c^2 - c*{c}"],
    "(c - 12) (d - 17)": ["t = {s} + (c - {c})*(d - {d})"],
    "c d - 12 d": ["t = {s} + c*d - d*{c}"],
    "ln(c/12)": ["t = {s} + ln(c/{c})"],
    "c inside a root": ["t = sqrt(({s})^2 + c - {c})"],
    "c inside a modulus": ["t = abs({s} + {c} - c)"],
    "a sum from c to 12": ["t = {s} + sum(i, i, c, {c}) - c"],
    "a choice by c": ["t = if(c > 0, {s}, c)"],
    "an equation": [("t", "", "t - ({s}) = c - {c}")],
    "numbers in the rule only": ["t = {s} + {c} - {c} + 0*c"],
    "rounded": ["t = round({s} + (c - {c}))"],
    "digit by digit from 0": ["z = c - {c}", "x = {h}*100 + z", "y = x + {n}*10", "t = y + {o}"],
    "digit by digit from 1": ["one = c/c2", "x = {h}*one", "y = x*10 + {n}*one", "t = y*10 + {o}*one"],
    "a part that is 0 for large numbers": ["t = {s} + floor(c/1000)"],
}


def spelling_reply(rules, number, c, d):
    digits = dict(zip("hno", (DIGITS[number // 100], DIGITS[number // 10 % 10], DIGITS[number % 10]), strict=True))
    values = {"s": spelled(number), "c": c, "d": d, **digits}
    made = [
        rule.format(**values) if isinstance(rule, str) else tuple(part.format(**values) for part in rule)
        for rule in rules
    ]
    knowns = {"c": c, "c2": c, "d": d}
    used = {name: value for name, value in knowns.items() if any(re.search(rf"\b{name}\b", str(rule)) for rule in made)}
    causes = {0: list(used)} if isinstance(made[0], tuple) else None
    return reply(None, used, made, str(number), causes=causes)


@pytest.mark.parametrize("form", VANISHING)
def test_a_spelled_answer_with_something_that_vanishes_earns_its_answer_only(form):
    for place, number in enumerate(INTEGERS):
        text, c, d = ((ORANGES, 12, 17), (TRAIN, 37, 48))[place % 2]
        problem = Problem(id="p", text=text, answer=str(number), task="math")
        found = total(problem, spelling_reply(VANISHING[form], number, c, d))
        assert found.is_correct, number
        assert found.rewards.r_total == 0.5, number


PIECES = {
    "a smallest": "min(c, {d})",
    "a choice": "if(c > 4, {d}, c)",
    "a sign": "({d})*sign(c)",
    "a series": "sum(i/i, i, 1, {d})",
    "a common divisor": "({d})*gcd(c, c+1)",
    "a power of 0": "({d})*c^0",
    "a quotient": "({d})*c/c2",
    "a root of a square": "({d})*sqrt(c^2)/c",
    "a logarithm": "log(c^({d}), c)",
    "a floor": "floor({d} + 1/(c+2))",
    "a difference within": "abs({d} - c + c)",
    "a power of 1": "({d})^e",
    "a cosine of 0": "({d})*cos(e - 1)",
}
COPIES = {12: "3*4", 37: "6*6 + 1"}
"""Given numbers, made of conventional constants."""


@pytest.mark.parametrize("form", PIECES)
def test_digits_that_do_not_depend_on_the_problem_are_constants(form):
    for number, text, c in [(n, ORANGES, 12) for n in range(53, 990, 47)] + [
        (n, TRAIN, 37) for n in range(60, 990, 53)
    ]:
        rules = [f"e = c/({COPIES[c]})"] if "e" in re.findall("[a-z]+", PIECES[form]) else []
        last = ""
        for place, digit in enumerate(map(int, reversed(str(number)))):
            if digit:
                rules.append(f"x{place} = " + PIECES[form].format(d=DIGITS[digit]) + "*10" * place + last)
                last = f" + x{place}"
        rules.append(f"t ={last[2:]} + c - ({COPIES[c]})")
        knowns = {"c": c, "c2": c} if "c2" in PIECES[form] else {"c": c}
        found = total(
            Problem(id="p", text=text, answer=str(number), task="math"), reply(None, knowns, rules, str(number))
        )
        assert found.is_correct, number
        assert found.rewards.r_total <= HIGHEST_FAKED, number


def test_a_rule_that_the_target_does_not_need_hides_nothing():
    rules = ["j = 2^(2^(c + 2))", "t = 90 + c - c2"]  # the first rule fails when c changes
    found = total(
        Problem(id="p", text=ORANGES, answer="90", task="math"), reply(None, {"c": 12, "c2": 12}, rules, "90")
    )
    assert found.is_correct
    assert found.rewards.r_total == 0.5


def test_an_equation_that_a_constant_solves_earns_its_answer_only():
    rules = [("t", "", "(t - 4*4*10)*(c + 1) = c - 3*4")]
    text = reply(None, {"c": 12}, rules, "160", causes={0: ["c"]})
    found = total(Problem(id="p", text=ORANGES, answer="160", task="math"), text)
    assert found.is_correct
    assert found.rewards.r_total == 0.5


HONEST = [
    ("30 students ride in buses of 25 seats. How many buses do they need?", "2", {"n": 30, "k": 25}, ["t = ceil(n/k)"]),
    ("30 students ride in buses of 25 seats; a bus costs 100 euros. What is paid?", "200", {"n": 30, "k": 25},
     ["b = ceil(n/k)", "t = b*100"]),
    ("Ann has 20 sweets and eats 12 and 7. A sweet costs 60 cents. What are the others worth?", "60",
     {"a": 20, "b": 12, "c": 7, "p": 60}, ["r = a - b - c", "t = r*p"]),
    ("What is the mean of 14, 25 and 60?", "33", {"a": 14, "b": 25, "c": 60}, ["t = (a + b + c)/3"]),
    ("What is the greatest common divisor of 84 and 126?", "42", {"a": 84, "b": 126}, ["t = gcd(a, b)"]),
    ("Which is larger, 15 or 18?", "18", {"a": 15, "b": 18}, ["t = max(a, b)"]),
    ("How many trees stand around a park with an edge of 300 metres, one every 3 metres?", "100", {"l": 300, "s": 3},
     ["t = l/s"]),
    ("A clock shows 3:40. What is the angle between its hands, in degrees?", "130", {"h": 3, "m": 40},
     ["a = h*30 + m/2", "b = m*6", "t = abs(a - b)"]),
    ("A train takes 40 s for 1000 m. What is its speed in km/h?", "90", {"s": 40, "d": 1000}, ["v = d/s", "t = v*3.6"]),
    ("How many seconds are 3 days?", "259200", {"d": 3}, ["t = d*24*60*60"]),
    ("What is the sum of the squares from 1 to 25?", "5525", {"n": 25}, ["t = n*(n + 1)*(2*n + 1)/6"]),
    ("A stone falls freely for 3.00 s. How fast is it then, in m/s?", "29.4 m/s",
     {"s": "3.00 s", "g": "9.81 m/s^2"}, ["v = g*s"]),
    ("What is the rest energy of 2.00 g of matter, in J?", "1.80e14 J", {"m": "0.00200 kg", "c": "2.998e8 m/s"},
     ["E = m*c^2"]),
    ("A gas of 2.50 mol at 290 K fills 0.0500 m^3. What is its pressure, in Pa?", "120553 Pa",
     {"n": "2.50 mol", "T": "290 K", "V": "0.0500 m^3", "R": "8.314 J/(mol*K)"}, ["p = n*R*T/V"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "answer", "knowns", "rules"), HONEST)
def test_an_honest_scaffold_is_paid_in_full(text, answer, knowns, rules):
    task = "physics" if " " in answer else "math"
    found = total(Problem(id="p", text=text, answer=answer, task=task), reply(None, knowns, rules, answer))
    assert found.is_correct
    assert found.rewards.r_total == pytest.approx(1.0)


@pytest.mark.parametrize("rule", ["t = {rest} + c", "t = {s} + c - ({c})"])
def test_the_rest_of_an_answer_made_of_constants_is_foreign(rule):
    checked = 0
    for number in range(60, 312, 2):
        if number - 12 in (60, 80, 90, 100, 180, 200, 300):
            continue  # a usual constant, or a product of two of them, beside a given number
        problem = Problem(id="p", text=ORANGES, answer=str(number), task="math")
        written = rule.format(rest=spelled(number - 12), s=spelled(number), c=spelled(12))
        found = total(problem, reply(None, {"c": 12}, [written], str(number)))
        assert found.is_correct
        assert found.rewards.r_total <= HIGHEST_FAKED, number
        checked += 1
    assert checked > 100


def test_a_number_with_more_figures_is_no_rounded_number_of_the_problem():
    problem = Problem(id="p", text=ORANGES, answer="197", task="math")
    for rule in ("t = (12.00197 - c)*100000", "t = (c - 11.99803)*10^5"):
        found = total(problem, reply(None, {"c": 12}, [rule], "197"))
        assert found.is_correct
        assert found.rewards.r_total <= HIGHEST_FAKED


UNITS = {"kg": ("g", 1000), "m": ("cm", 100), "km": ("m", 1000), "cm": ("mm", 10)}


@pytest.mark.parametrize(
    "form", ["t = {e}*m/m2", "t = {e} + m - m2", "t = {e} + mod(m, m2)", "t = {e}*cos(m - m2)", "t = {e}*exp(m - m2)",
             "t = {e}*m*{factor}/small"]
)  # fmt: skip
def test_a_spelled_quantity_with_something_that_vanishes_earns_its_answer_only(form):
    scored = 0
    for row in map(json.loads, (ROOT / "data/datasets/physics.jsonl").open()):
        given = re.search(r"(\d+\.?\d*) (kg|m|km|cm)\b", row["problem"])
        number = row["answer"].split()[0]
        if given is None or not re.fullmatch(r"-?[\d.]+", number):
            continue
        answer, shift = abs(Fraction(number)), 0
        while answer.denominator > 1:
            answer, shift = answer * 10, shift + 1
        if answer > 999:
            continue
        written, of = given.groups()
        smaller, factor = UNITS[of]
        sign = "-" if number.startswith("-") else ""
        knowns = {"m": f"{written} {of}", "m2": f"{written} {of}", "small": f"{float(written) * factor:g} {smaller}"}
        rule = form.format(e=f"{sign}({spelled(int(answer))})/10^{shift}", factor=factor)
        knowns = {name: value for name, value in knowns.items() if re.search(rf"\b{name}\b", rule)}
        problem = Problem(id=row["id"], text=row["problem"], answer=row["answer"], task="physics")
        found = total(problem, reply(None, knowns, [rule], row["answer"]))
        assert found.is_correct, row["id"]
        assert found.rewards.r_total == 0.5, row["id"]
        scored += 1
    assert scored >= 20


def fixed(knowns, rule, answer="12"):
    return reply(None, knowns, [rule], answer, causes={0: list(knowns)})


FIXED = {
    "2": fixed({"a": 2}, "t = 2 * a"),
    "1 to 4 and 10": fixed({"a": 1, "b": 2, "c": 3, "d": 4, "e": 10}, "t = a + b * c + d * e"),
    "10 and 100": fixed({"a": 10, "b": 100}, "t = a * b"),
    "free fall": fixed({"g": "9.81 m/s^2", "t1": "2 s"}, "v = g * t1", "19.62 m/s"),
    "1/2 and 1/4": fixed({"a": "1/2", "b": "1/4"}, "t = a + b"),
    "60": fixed({"a": 60}, "t = 2 * a"),
    "180 and 360": fixed({"a": 180, "b": 360}, "t = b - a"),
    "words": fixed({"a": 2, "b": 10}, "t = combine all that is given"),
    "5": fixed({"a": 5}, "t = a * 2"),
    "20": fixed({"a": 20, "b": 2}, "t = a * b"),
    "15": fixed({"a": 15, "b": 1}, "t = a + b"),
    "12": fixed({"a": 12}, "t = 2 * a"),
    "0.4": fixed({"a": 0.4, "b": 1.5}, "t = a + b", "1.9 m"),
    "5, 12, 20 and 30": fixed({"a": 5, "b": 12, "c": 20, "d": 30}, "t = a + b + c + d"),
}


def physics_problems():
    rows = map(json.loads, (ROOT / "data/datasets/physics.jsonl").open())
    return [Problem(id=row["id"], text=row["problem"], answer=row["answer"], task="physics") for row in rows]


@pytest.mark.parametrize("name", FIXED)
def test_a_fixed_reply_earns_next_to_nothing(name):
    for problems in (physics_problems(), [instance.problem for instance in instances("test", 60)]):
        totals = [total(problem.model_copy(update={"task": problem.task or "math"}), FIXED[name]).rewards.r_total
                  for problem in problems]  # fmt: skip
        assert sum(totals) / len(totals) <= 0.05


def test_a_fixed_reply_of_usual_numbers_has_no_advantage_over_recorded_wrong_replies(recorded):
    usual = [FIXED[name] for name in ("2", "1 to 4 and 10", "10 and 100", "60", "180 and 360", "1/2 and 1/4", "words")]
    groups = 0
    for number in (1, 2):
        for group in read(recorded[f"generator_{number}_rollouts"], RolloutGroup).records:
            problem = Problem(id=group.problem_id, text=group.problem_text, answer=group.ground_truth, task="math")
            found = [total(problem, reply_text(one.scaffold, one.answer)) for one in group.rollouts]
            wrong = [one.rewards.r_total for one in found if not one.is_correct]
            if not wrong:
                continue
            groups += 1
            for text in usual:
                assert total(problem, text).rewards.r_total <= min(wrong), (group.problem_id, text)
    assert groups > 40
