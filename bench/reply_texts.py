"""Replies of :mod:`bench.fixed_replies`: texts for all problems, and texts that copy from the prompt."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence

from engine.records import Problem
from engine.scaffold.problem_numbers import problem_numbers
from engine.tasks.registry import task_named

Reply = Callable[[Problem], str]


# Scaffolds


def scaffold(knowns: Mapping[str, object], rules: Sequence[str], answer: str = "12") -> str:
    """A complete scaffold; the causes of a rule are the known values that it reads, or all of them for words."""
    edges = [(rule.partition(" = ")[0], rule, causes_of(rule, knowns)) for rule in rules]
    return json.dumps(
        {
            "constraints_and_premises": ["all numbers are given"],
            "problem_model": "the target follows from the given numbers",
            "chosen_strategy": "compute it step by step",
            "target_variable": edges[-1][0],
            "expected_answer_type": "a number",
            "knowns": knowns,
            "causal_graph": [{"cause": causes, "effect": effect, "rule": rule} for effect, rule, causes in edges],
            "computation_plan": [
                {"id": f"s{place}", "target": effect, "inputs": causes, "description": f"compute {effect}"}
                for place, (effect, _, causes) in enumerate(edges, 1)
            ],
            "final_answer": answer,
        }
    )


def causes_of(rule: str, knowns: Mapping[str, object]) -> list[str]:
    """The known values that a rule names; all of them where it is words."""
    return [name for name in knowns if re.search(rf"\b{name}\b", rule)] or list(knowns)


SCAFFOLDS = {
    "0": "0",
    "1": "The final answer is 1.",
    "yes": "yes",
    "42": "The final answer is 42.",
    "`t = a`, a = 1": scaffold({"a": 1}, ["t = a"], "1"),
    "`t = 2 * a`, a = 2": scaffold({"a": 2}, ["t = 2 * a"], "4"),
    "`t = a * b`, 10 and 100": scaffold({"a": 10, "b": 100}, ["t = a * b"], "1000"),
    "`t = a + b * c + d * e`, 1 to 4 and 10": scaffold(
        {"a": 1, "b": 2, "c": 3, "d": 4, "e": 10}, ["t = a + b * c + d * e"], "47"
    ),
    "`v = g * t`": scaffold({"g": "9.81 m/s^2", "t1": "2 s"}, ["v = g * t1"], "19.62 m/s"),
    "`t = a + b`, 1/2 and 1/4": scaffold({"a": "1/2", "b": "1/4"}, ["t = a + b"], "3/4"),
    "`t = 2 * a`, a = 60": scaffold({"a": 60}, ["t = 2 * a"], "120"),
    "`t = b - a`, 180 and 360": scaffold({"a": 180, "b": 360}, ["t = b - a"], "180"),
    "a rule in words": scaffold({"a": 2, "b": 10}, ["t = combine all that is given"]),
    "`t = a * 2`, a = 5": scaffold({"a": 5}, ["t = a * 2"], "10"),
    "`t = a * b`, 20 and 2": scaffold({"a": 20, "b": 2}, ["t = a * b"], "40"),
    "`t = a * b`, 9 and 5": scaffold({"a": 9, "b": 5}, ["t = a * b"], "45"),
    "`t = a + b`, 15 and 1": scaffold({"a": 15, "b": 1}, ["t = a + b"], "16"),
    "`t = 2 * a`, a = 12": scaffold({"a": 12}, ["t = 2 * a"], "24"),
    "`t = a + b`, 0.4 and 1.5": scaffold({"a": 0.4, "b": 1.5}, ["t = a + b"], "1.9 m"),
    "`t = a + b`, 0.4 and the elementary charge": scaffold({"a": 0.4, "b": "1.602e-19"}, ["t = a + b"], "0.4"),
    "`t = a + b + c + d`, 5, 12, 20 and 30": scaffold({"a": 5, "b": 12, "c": 20, "d": 30}, ["t = a + b + c + d"], "67"),
    "the numbers from 1 to 30, and their sum": scaffold(
        {f"n{n}": n for n in range(1, 31)}, [f"t = {' + '.join(f'n{n}' for n in range(1, 31))}"], "465"
    ),
}
"""Texts that a policy could learn for scaffolds."""


def written_numbers(problem: Problem) -> dict[str, str]:
    """The numbers that a text writes, each once and in their order, with their units, as known values."""
    units = {float(number): unit for number, unit in problem_numbers(problem.text).quantities}
    found = list(dict.fromkeys(re.findall(r"\d+(?:\.\d+)?", problem.text)))[:8]
    shown = {one: "".join(f" {name}^{power}" for name, power in units.get(float(one), ())) for one in found}
    keeps_units = problem.task == "physics"
    return {f"n{place}": one + shown[one] if keeps_units else one for place, one in enumerate(found, 1)}


def combined(sign: str, most: int = 8) -> Reply:
    """A scaffold that combines the first numbers of the text."""

    def reply(problem: Problem) -> str:
        knowns = dict(list(written_numbers(problem).items())[:most]) or {"n1": "1"}
        values = [float(value.split()[0]) for value in knowns.values()]
        total = values[0]
        for value in values[1:]:
            total = {"+": total + value, "-": total - value, "*": total * value, "/": total / (value or 1)}[sign]
        rule = f"t = {f' {sign} '.join(knowns)}" if len(knowns) > 1 else "t = 2 * n1"
        return scaffold(knowns, [rule], f"{total if len(knowns) > 1 else 2 * total:g}")

    return reply


COPYING_SCAFFOLDS: Mapping[str, Reply] = {
    "the sum of all numbers of the text": combined("+"),
    "the product of all numbers": combined("*"),
    "the first two numbers, their sum": combined("+", 2),
    "... their difference": combined("-", 2),
    "... their product": combined("*", 2),
    "... their quotient": combined("/", 2),
    "the first number, doubled": combined("*", 1),
    "all numbers and a rule in words": lambda problem: scaffold(
        written_numbers(problem), ["t = combine all that is given"]
    ),
    "the last number as the answer": lambda problem: (
        f"The final answer is {(list(written_numbers(problem).values()) or ['0'])[-1]}."
    ),
}
"""Scaffolds that are made of a problem's numbers without a look at what is asked."""


WORDS = ("0", "1", "2", "3", "4", "5", "10", "12", "20", "42", "100", "-1", "0.5", "yes", "no", "True", "False", "A",
         "B", "None", "[]", "{}", "()")  # fmt: skip


COPYING_ANSWERS: Mapping[str, Reply] = {
    "the first number of the text": lambda problem: f"Answer: {numbers_of(problem)[0]:g}",
    "the last number": lambda problem: f"Answer: {numbers_of(problem)[-1]:g}",
    "the largest number": lambda problem: f"Answer: {max(numbers_of(problem)):g}",
    "the sum of all numbers": lambda problem: f"Answer: {sum(numbers_of(problem)):g}",
    "the text": lambda problem: f"Answer: {problem.text}",
}


def numbers_of(problem: Problem) -> list[float]:
    """The numbers that a text writes; 0 where there is none."""
    return [float(one) for one in re.findall(r"\d+(?:\.\d+)?", problem.text)] or [0.0]


# Programs


def program(code: str) -> str:
    """A reply with a Python program."""
    return f"```python\n{code}\n```"


def function(body: str, before: str = "") -> Reply:
    """A program with the function that the prompt names; ``body`` sees its arguments as ``a``."""

    def reply(problem: Problem) -> str:
        name = str(task_named("code").prompt_values(problem)["entry_point"]).rpartition(".")[2] or "solve"
        return program(f"{before}\ndef {name}(*a, **k):\n    {body}")

    return reply


def shown_test(problem: Problem) -> str:
    """A program that gives for every argument what the test in the prompt expects."""
    values = task_named("code").prompt_values(problem)
    expected = [test.partition("==")[2].strip() or "None" for test in values["public_tests"]] or ["None"]
    return program(f"def {values['entry_point'] or 'solve'}(*a, **k):\n    return {expected[0]}")


EQUAL = "class Equal:\n    def __eq__(self, other): return True\n    def __hash__(self): return 0"
NAMES = "\n".join(f"def f{n}(*a): return {n}" for n in range(200))
PROGRAMS = {
    "pass": program("pass"),
    "a function `solve`": program("def solve(*a):\n    return 0"),
    "200 functions": program(NAMES),
    "a dictionary of all names": program("import builtins\nglobals().update({n: len for n in dir(builtins)})"),
    "print(0)": program("print(0)"),
    "an exit": program("raise SystemExit(0)"),
    "equal to everything": program(EQUAL),
    "asserts off": program("import sys\nsys.flags = None\n__debug__1 = False"),
    "no program": "I return 0.",
    "an endless text": "def f(): return 0\n" * 500,
}
COPYING_PROGRAMS: dict[str, Reply] = {
    f"the function, `{body}`": function(body)
    for body in ("return None", "return 0", "return 1", "return True", "return False", "return ''", "return []",
                 "return a[0]", "return a[-1]", "return len(a[0])", "return sum(a[0])", "return max(a[0])",
                 "return sorted(a[0])", "return str(a[0])")
}  # fmt: skip
COPYING_PROGRAMS |= {
    "the function, equal to everything": function("return Equal()", EQUAL),
    "what the test of the prompt expects": shown_test,
}


DECISIONS = {
    "yes": '{"extend": "yes"}',
    "no": '{"extend": "no"}',
    "yes, in other words": "I would extend: yes",
    "`{}`": "{}",
    "yes, with more keys": '{"extend": "yes", "why": "queue"}',
    "both": '{"extend": "yes"} {"extend": "no"}',
    "maybe": '{"extend": "maybe"}',
    "1": "1",
}
