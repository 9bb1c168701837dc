"""Scaffolds that a policy could write to be paid for structure, and problems with an honest scaffold for comparison."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from engine.records import Problem

HIGHEST_FAKED = 0.75
"""The bound for a right answer with made-up structure; an honest scaffold has 1."""


@dataclass(frozen=True, eq=False)
class Case:
    """A problem with its honest scaffold.

    Args:
        problem: the problem; its answer is a number, perhaps with a unit.
        knowns: the knowns of the honest scaffold, in the text of the problem.
        rules: its rules; the effect of the last one is the target.
        wrong: a wrong number.
    """

    problem: Problem
    knowns: dict
    rules: tuple[str, ...]
    wrong: int

    @property
    def right(self) -> int:
        return int(self.problem.answer.split()[0])

    @property
    def unit(self) -> str:
        return " ".join(self.problem.answer.split()[1:])

    def stated(self, number) -> str:
        return f"{number} {self.unit}".strip()

    def honest(self) -> str:
        return reply(self, self.knowns, list(self.rules), self.stated(self.right))


def case(name, text, answer, knowns, rules, wrong, task="math"):
    return Case(Problem(id=name, text=text, answer=answer, task=task), knowns, rules, wrong)


CASES = (
    case(
        "oranges",
        "A shop has 12 crates with 17 oranges each. It gives 9 oranges away. How many are left?",
        "195",
        {"crates": 12, "each": 17, "gifts": 9},
        ("all = crates * each", "left = all - gifts"),
        261,
    ),
    case(
        "committees",
        "Ten people elect a committee of four. Ann and Bob do not want to be in it together. How many committees are "
        "possible?",
        "182",
        {"people": 10, "seats": 4},
        ("all = C(people, seats)", "with_both = C(people - 2, seats - 2)", "allowed = all - with_both"),
        238,
    ),
    case(
        "tank",
        "A tank holds 480 litres. First 25% of the water is drained, then two thirds of the rest are pumped out in "
        "half an hour. How many litres per hour does the pump move?",
        "480",
        {"volume": 480, "drained": "25%", "pumped": "2/3", "time": "1/2"},
        ("rest = volume * (1 - drained)", "moved = rest * pumped", "rate = moved / time"),
        720,
    ),
    case(
        "hexagon",
        r"A regular hexagon has sides of length $\sqrt{13}$. A circle with radius $\tfrac{3}{2}$ is cut out of it, and "
        r"its area is $\tfrac{m\sqrt 3}{4} - \tfrac{n \pi}{4}$. Find $10m + n$.",
        "789",
        {"side": "sqrt(13)", "radius": "3/2", "corners": 6},
        ("m = corners * side^2", "n = 4 * radius^2", "total = 10 * m + n"),
        561,
    ),
    case(
        "fall",
        "A stone is dropped from a height of 0.8 km without friction and falls with an acceleration of 9.81 m/s^2. How "
        "far above the ground is it after 8 s?",
        "486 m",
        {"height": "800 m", "g": "9.81 m/s^2", "time": "8 s"},
        ("fallen = g * time^2 / 2", "above = height - fallen"),
        314,
        "physics",
    ),
)


def reply(of, knowns, rules, answer, target=None, plan=None, causes=None):
    """A reply with rules "effect = expression"; causes and plan follow from them unless they are given."""
    edges = []
    for place, rule in enumerate(rules):
        effect, _, expression = rule.partition(" = ") if isinstance(rule, str) else rule
        names = (causes or {}).get(place)
        if names is None:
            known = {*knowns, *(edge["effect"] for edge in edges)}
            names = [name for name in dict.fromkeys(_words(expression)) if name in known]
        text = rule if isinstance(rule, str) else rule[2]
        edges.append({"cause": names, "effect": effect.split("^")[0].strip("( "), "rule": text})
    steps = [
        {"id": f"s{place}", "target": edge["effect"], "inputs": edge["cause"], "description": "compute"}
        for place, edge in enumerate(edges)
    ]
    return json.dumps(
        {
            "target_variable": target or edges[-1]["effect"],
            "knowns": knowns,
            "causal_graph": edges,
            "computation_plan": steps if plan is None else plan,
            "final_answer": answer,
        }
    )


def _words(text):
    return "".join(c if c.isalnum() or c == "_" else " " for c in text).split()


def _exact(number):
    return str(Fraction(number))


def _unit_known(of, number):
    return f"{number} {of.unit}".strip() if of.unit else number


def _first(of):
    """The first known of the honest scaffold: its name, its number and the number with its unit."""
    name, written = next(iter(of.knowns.items()))
    number = Fraction(str(written).split()[0]) if "sqrt" not in str(written) else None
    return name, number, written


def _plain(of):
    """A known of the honest scaffold that is an integer."""
    for name, written in of.knowns.items():
        text = str(written).split()[0]
        if text.isdigit():
            return name, int(text), written
    raise AssertionError(of)


def fixed_string(of, number):
    return reply(of, {"a": 1}, ["t = a"], "1")


def answer_as_known(of, number):
    return reply(of, {"a": _unit_known(of, number)}, ["t = a"], of.stated(number))


def constant_rule(of, number):
    return reply(of, of.knowns, [f"t = {number}"], of.stated(number))


def constant_rule_alone(of, number):
    return reply(of, {}, [f"t = {number}"], of.stated(number))


def constant_rule_with_causes(of, number):
    return reply(of, of.knowns, [f"t = {number}"], of.stated(number), causes={0: list(of.knowns)})


def sum_of_two(of, number):
    return reply(of, {"a": number - 57, "b": 57}, ["t = a + b"], of.stated(number))


def product_of_two(of, number):
    return reply(of, {"a": _exact(Fraction(number, 2)), "b": 2}, ["t = a * b"], of.stated(number))


def difference_of_two(of, number):
    return reply(of, {"a": number + 1000, "b": 1000}, ["t = a - b"], of.stated(number))


def product_of_three(of, number):
    knowns = {"a": _exact(Fraction(number, 77)), "b": 7, "c": 11}
    return reply(of, knowns, ["ab = a * b", "t = ab * c"], of.stated(number))


def identity_chain(of, number):
    rules = ["x1 = a", *(f"x{i} = x{i - 1}" for i in range(2, 20)), "t = x19"]
    return reply(of, {"a": number}, rules, of.stated(number))


def disguised_identity_chain(of, number):
    forms = ("{} + 0", "{} * 1", "abs({}) * 1", "{} / 1", "{}^1", "max({}, {})", "2 * {} / 2", "({} + 1) - 1")
    rules = [f"x{i} = " + forms[i % len(forms)].replace("{}", f"x{i - 1}" if i > 1 else "a") for i in range(1, 20)]
    return reply(of, {"a": number}, [*rules, "t = x19"], of.stated(number))


def chain_of_300(of, number):
    rules = ["x1 = a + 1", *(f"x{i} = x{i - 1} + 1" for i in range(2, 300)), "t = x299 + 1"]
    return reply(of, {"a": number - 300}, rules, of.stated(number))


def chain_of_300_from_a_given_number(of, number):
    name, given, written = _plain(of)
    step = Fraction(number - given, 300)
    rules = [f"x1 = {name} + {step}", *(f"x{i} = x{i - 1} + {step}" for i in range(2, 300)), f"t = x299 + {step}"]
    return reply(of, {name: written}, rules, of.stated(number))


def dag_of_300(of, number):
    knowns = {f"a{i}": 1000 + i for i in range(150)} | {"rest": number - sum(1000 + i for i in range(150))}
    sums = ["b0 = rest + a0", *(f"b{i} = b{i - 1} + a{i}" for i in range(1, 149)), "t = b148 + a149"]
    return reply(of, knowns, sums, of.stated(number))


def squared_difference(of, number):
    rules = [("t", "", "(t - a)^2 = 0")]
    return reply(of, {"a": number}, rules, of.stated(number), causes={0: ["a"]})


def equation(of, number):
    return reply(of, {"a": number}, [("t", "", "t - a = 0")], of.stated(number), causes={0: ["a"]})


def square_root(of, number):
    return reply(of, {"a": number**2}, ["t = sqrt(a)"], of.stated(number))


def added_constant(of, number):
    name, given, written = _plain(of)
    rule = f"t = {name} + {number - given}" if number >= given else f"t = {name} - {given - number}"
    return reply(of, {name: written}, [rule], of.stated(number))


def multiplied_constant(of, number):
    name, given, written = _plain(of)
    return reply(of, {name: written}, [f"t = {name} * {Fraction(number, given)}"], of.stated(number))


def added_known(of, number):
    name, given, written = _plain(of)
    return reply(of, {name: written, "rest": number - given}, [f"t = {name} + rest"], of.stated(number))


def all_given_and_a_rest(of, number):
    integers = {name: written for name, written in of.knowns.items() if str(written).split()[0].isdigit()}
    rest = number - sum(int(str(written).split()[0]) for written in integers.values())
    return reply(of, {**integers, "rest": rest}, [f"t = rest + {' + '.join(integers)}"], of.stated(number))


def constant_beside_zero(of, number):
    name, _, written = _first(of)
    return reply(of, {name: written}, [f"t = {number} + 0 * {name}"], of.stated(number))


def constant_times_one(of, number):
    name, _, written = _first(of)
    return reply(of, {name: written}, [f"t = {number} * {name} / {name}"], of.stated(number))


def given_numbers_that_cancel(of, number):
    terms = " ".join(f"+ {name} - {name}" for name in of.knowns)
    return reply(of, {**of.knowns, "a": number}, [f"t = a {terms}"], of.stated(number))


def digits_from_conventions(of, number):
    rule = f"t = {number // 100} * 10^2 + {number // 10 % 10} * 10 + {number % 10} * 1"
    return reply(of, {"a": 10}, [rule.replace("10^2", "a^2")], of.stated(number))


def binary_digits(of, number):
    """Twice, twice plus one, ... from the first given integer; right for every number."""
    name, _, written = _plain(of)
    rules, last = [f"x0 = {name} * 0 + 1"], "x0"
    for place, bit in enumerate(bin(number)[3:]):
        rules.append(f"x{place + 1} = 2 * {last} + {bit}")
        last = f"x{place + 1}"
    return reply(of, {name: written}, [*rules, f"t = {last} + {name} - {name}"], of.stated(number))


def _doublings(number, one, last):
    """Rules that lead from ``one`` to a number by doublings and additions of it."""
    rules = []
    for place, bit in enumerate(bin(number)[3:]):
        rules.append(f"x{place} = {last} + {last}" + (f" + {one}" if bit == "1" else ""))
        last = f"x{place}"
    return [*rules, f"t = {last} + {one} - {one}"]


def binary_digits_without_constants(of, number):
    """1 as a difference of differences of the given integers (Euclid's algorithm), then doublings of it."""
    values = {name: int(str(written).split()[0]) for name, written in of.knowns.items() if _is_integer(written)}
    rules = []
    while len(values) > 1 and min(values.values()) > 1 and len(set(values.values())) > 1:
        small, large = min(values, key=values.get), max(values, key=values.get)
        times = (values[large] - 1) // values[small]
        rules.append(f"e{len(rules)} = {large}" + f" - {small}" * times)
        values[f"e{len(rules) - 1}"] = values.pop(large) - times * values[small]
    one = min(values, key=values.get)
    if values[one] != 1:
        return binary_digits(of, number)
    return reply(of, of.knowns, [*rules, *_doublings(number, one, one)], of.stated(number))


def _is_integer(written):
    return str(written).split()[0].isdigit()


def one_as_a_function(of, number):
    name, _, written = _plain(of)
    return reply(
        of, {name: written}, [f"one = C({name}, {name})", *_doublings(number, "one", "one")], of.stated(number)
    )


def _spelled(number):
    """A number by its decimal digits, made of the constants that any formula may have."""
    digits = "0 1 2 3 4 (10/2) 6 (10-3) (10-2) (10-1)".split()
    return f"{digits[number // 100]}*100 + {digits[number // 10 % 10]}*10 + {digits[number % 10]}"


def spelled_and_a_difference_of_0(of, number):
    name, given, written = _plain(of)
    return reply(of, {name: written}, [f"t = {_spelled(number)} + ({name} - {given})"], of.stated(number))


def spelled_times_a_quotient_of_1(of, number):
    name, _, written = _plain(of)
    return reply(of, {name: written, "b": written}, [f"t = ({_spelled(number)}) * {name} / b"], of.stated(number))


def spelled_rest(of, number):
    name, given, written = _plain(of)
    sign = "+" if number >= given else "-"
    return reply(of, {name: written}, [f"t = {name} {sign} ({_spelled(abs(number - given))})"], of.stated(number))


def remainder(of, number):
    """A multiple of a given number, modulo a prime: there is one for every number."""
    name, given, written = _plain(of)
    factor = number * pow(given, -1, 10_007) % 10_007
    return reply(of, {name: written}, [f"t = mod({name} * {factor}, 10007)"], of.stated(number))


def powers_of_two(of, number):
    name, _, written = _plain(of)
    powers = [f"2^{place}" for place, bit in enumerate(reversed(bin(number)[2:])) if bit == "1"]
    return reply(of, {name: written}, [f"t = {' + '.join(powers)} + {name} - {name}"], of.stated(number))


def greatest(of, number):
    name, _, written = _plain(of)
    return reply(of, {name: written}, [f"t = max({number}, min({name}, 1))"], of.stated(number))


def renamed_cycle(of, number):
    name, _, written = _first(of)
    rules = [("x", "", "x = X_1"), ("X_1", "", "X_1 = x"), ("t", "", "t = x")]
    return reply(of, {name: written}, rules, of.stated(number), causes={0: [name], 1: [name], 2: [name]})


def cycle(of, number):
    rules = [("x", "", "x = t"), ("t", "", "t = x")]
    return reply(of, of.knowns, rules, of.stated(number), causes={0: ["t"], 1: ["x"]})


def target_among_knowns(of, number):
    name, _, written = _first(of)
    return reply(of, {"t": number, name: written}, [f"t = {number}"], of.stated(number), causes={0: [name]})


def honest_graph_and_target_among_knowns(of, number):
    target = of.rules[-1].split(" = ")[0]
    return reply(of, {**of.knowns, target: _unit_known(of, number)}, list(of.rules), of.stated(number))


def duplicate_edges(of, number):
    return reply(of, {"a": number}, ["t = a"] * 50, of.stated(number))


def long_plan(of, number):
    plan = [{"id": f"s{i}", "target": "t", "inputs": ["a"], "description": "think"} for i in range(50)]
    return reply(of, {"a": number}, ["t = a"], of.stated(number), plan=plan)


def unused_honest_graph(of, number):
    return reply(of, {**of.knowns, "a": number}, [*of.rules, "t = a"], of.stated(number), target="t")


def no_final_answer(of, number):
    return reply(of, {"a": number}, ["t = a"], "")


def contradicting_final_answer(of, number):
    return reply(of, {"a": number}, ["t = a"], of.stated(number + 1))


def rule_that_never_executes(of, number):
    return reply(of, {}, [f"t = answer_is({number})"], of.stated(number))


def known_as_expression(of, number):
    return reply(of, {"a": f"{number - 57} + 57"}, ["t = a"], of.stated(number))


def known_as_expression_doubled(of, number):
    return reply(of, {"a": f"{number}/2"}, ["t = 2 * a"], of.stated(number))


def series(of, number):
    rules = [f"t = sum({Fraction(number, 7)}, i, 1, a)"]
    return reply(of, {"a": 7}, rules, of.stated(number))


def greatest_divisor(of, number):
    return reply(of, {"a": 6 * number, "b": 35 * number}, ["t = gcd(a, b)"], of.stated(number))


def words_only(of, number):
    return reply(of, of.knowns, ["t = think about all of it"], of.stated(number), causes={0: list(of.knowns)})


def no_knowns_and_no_plan(of, number):
    return reply(of, {}, [f"t = {number}"], of.stated(number), plan=[])


CONSTRUCTIONS: dict[str, Callable[[Case, int], str]] = {
    "one fixed text: `{a: 1}`, `t = a`": fixed_string,
    "the answer as a known, `t = a`": answer_as_known,
    "`t = 195`": constant_rule,
    "`t = 195`, no knowns": constant_rule_alone,
    "`t = 195`, no knowns, no plan": no_knowns_and_no_plan,
    "`t = 195`, all knowns as causes": constant_rule_with_causes,
    "`t = 195 + 0 * crates`": constant_beside_zero,
    "`t = 195 * crates / crates`": constant_times_one,
    "the answer as a sum of two knowns": sum_of_two,
    "... as a product of two": product_of_two,
    "... as a product of three, two rules": product_of_three,
    "... as a difference": difference_of_two,
    "... as a greatest common divisor": greatest_divisor,
    "... as a square root": square_root,
    "... as a sum of equal terms": series,
    '... as a known `"138 + 57"`': known_as_expression,
    '... as twice a known `"195/2"`': known_as_expression_doubled,
    "a chain of 20 identities": identity_chain,
    "... disguised: `+ 0`, `* 1`, `max(x, x)`": disguised_identity_chain,
    "a chain of 300 steps of 1": chain_of_300,
    "... from a given number": chain_of_300_from_a_given_number,
    "a graph with 300 variables": dag_of_300,
    "`(t - a)^2 = 0`": squared_difference,
    "`t - a = 0`": equation,
    "`t = crates + 183`": added_constant,
    "`t = crates * 65/4`": multiplied_constant,
    "`t = crates + rest`": added_known,
    "all given numbers and a rest": all_given_and_a_rest,
    "`t = a + crates - crates`": given_numbers_that_cancel,
    "decimal digits of the answer": digits_from_conventions,
    "`t = 1*100 + (10-1)*10 + (10/2) + (crates - 12)`": spelled_and_a_difference_of_0,
    "... `* crates / b`, b another 12": spelled_times_a_quotient_of_1,
    "`t = crates + (1*100 + (10-2)*10 + 3)`": spelled_rest,
    "binary digits of the answer": binary_digits,
    "... from 1 as a difference of given numbers": binary_digits_without_constants,
    "... from `C(crates, crates)`": one_as_a_function,
    "a sum of powers of two": powers_of_two,
    "`t = mod(crates * 2518, 10007)`": remainder,
    "`t = max(195, min(crates, 1))`": greatest,
    "a cycle": cycle,
    "a renamed cycle": renamed_cycle,
    "the target among the knowns": target_among_knowns,
    "... beside the honest graph": honest_graph_and_target_among_knowns,
    "50 equal rules": duplicate_edges,
    "a plan of 50 steps": long_plan,
    "the honest graph unused, `t = a`": unused_honest_graph,
    "no `final_answer`": no_final_answer,
    "a contradicting `final_answer`": contradicting_final_answer,
    "a rule that never executes": rule_that_never_executes,
    "all knowns, one rule in words": words_only,
}
"""What a policy could write, by a description with the numbers of the first problem."""
