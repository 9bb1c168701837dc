"""Every prompt of every kind of task, as the server sees it, and the records that follow from scripted replies."""

import json

import pytest

from tests.characterisation.support import ModelServer, Workspace, assert_golden, lesson, readable_requests

CASE = "prompts"
STYLES = ("full", "compact", "zh")

PROBLEMS = [
    {
        "id": "apples",
        "task": "math",
        "problem": "A farmer has 12 boxes of 7 apples and gives away 5 apples. How many apples are left?",
        "answer": "79",
    },
    {
        "id": "cart",
        "task": "physics",
        "problem": "A cart moves at a constant 3.0 m/s for 4.0 s. How far does it travel? Give the answer in metres.",
        "answer": "12 m",
    },
    {
        "task_id": "triple",
        "prompt": "Write a function that returns three times its argument.",
        "canonical_solution": "def triple(x):\n    return 3 * x",
        "tests": [{"kind": "call", "fn": "triple", "args": f"({x},)", "expected": str(3 * x)} for x in (2, 0, 5)],
        "public_count": 2,
        "starter_code": "def triple(x):\n",
    },
    {
        "task_id": "echo",
        "prompt": "Read two lines of text and print them in reverse order.",
        "canonical_solution": "a = input()\nb = input()\nprint(b)\nprint(a)",
        "io_mode": "stdin",
        "tests": [{"kind": "stdin", "stdin": "a\nb\n", "expected": "b\na\n"}],
        "public_count": 1,
    },
    {
        "id": "pears",
        "task": "math",
        "problem": "A basket holds 4 bags of 9 pears, and 6 pears fall out. How many pears stay in the basket?",
        "answer": "30",
    },
]


def scaffold(first, second, third, operation, answer, unit=""):
    return json.dumps(
        {
            "constraints_and_premises": ["all quantities are positive"],
            "problem_model": "A product, then a difference.",
            "chosen_strategy": "Work forward from what is known.",
            "target_variable": "result",
            "expected_answer_type": "Numerical",
            "knowns": {"first": f"{first}{unit}", "second": second, "third": third},
            "causal_graph": [
                {"cause": ["first", "second"], "effect": "product", "rule": "product = first * second"},
                {"cause": ["product", "third"], "effect": "result", "rule": f"result = product {operation} third"},
            ],
            "computation_plan": [
                {"id": "step1", "target": "product", "inputs": ["first", "second"], "description": "multiply"},
                {"id": "step2", "target": "result", "inputs": ["product", "third"], "description": "subtract"},
            ],
            "final_answer": answer,
        }
    )


def program(code):
    return f"<think>Let me see.</think>\n\n```python\n{code}\n```"


# Of each problem: the replies of generator 1, of generator 2, and the critic's fusion.
REPLIES = {
    "12 boxes of 7 apples": (
        [scaffold(12, 7, 5, "-", "79"), scaffold(12, 7, 5, "+", "89")],
        ["I think it is 79.", scaffold(12, 7, 5, "-", "78")],
        [scaffold(12, 7, 5, "-", "79")],
    ),
    "A cart moves": (
        [scaffold(3, 4, 0, "-", "12 m"), scaffold(3, 4, 2, "-", "10 m")],
        ['{"final_answer": "12 m"}', '{"final_answer": "1200 cm", "knowns": "?"}'],
        [scaffold(3, 4, 0, "-", "12 m"), "no fusion"],
    ),
    "three times its argument": (
        [program("def triple(x):\n    return 3 * x"), program("def triple(x):\n    return x + 4")],
        ["I cannot do this.", program("def triple(x):\n    return 3 * x +")],
        [program("def triple(x):\n    return x * 3")],
    ),
    "two lines of text": (
        [program("a, b = input(), input()\nprint(b)\nprint(a)"), program("print(input())")],
        [program("print(1)"), "```python\nprint(input()"],
        [program("print(2)")],
    ),
    "4 bags of 9 pears": (
        [scaffold(4, 9, 6, "-", "30"), scaffold(4, 9, 6, "*", "216")],
        [scaffold(4, 9, 6, "/", "6"), "{" + scaffold(4, 9, 6, "-", "30")],
        [scaffold(4, 9, 6, "-", "30")],
    ),
}


def answer(body):
    """What stands in the script; a re-asked math scaffold comes whole, a re-asked program never."""
    if body["model"] == "reward_evaluator":
        text = body["messages"][-1]["content"]
        return ["it depends"] if "216" in text else ['{"score": 0.25, "reason": "thin"}']
    if taught := lesson(body):
        return taught
    if body["model"] == "generator_2" and len(body["messages"]) > 2 and "apples" in body["messages"][1]["content"]:
        return [scaffold(12, 7, 5, "-", "79")]
    index = ("generator_1", "generator_2", "critic").index(body["model"])
    question = body["messages"][1]["content"]
    return next(replies[index] for marker, replies in REPLIES.items() if marker in question)


def run_style(folder, style):
    workspace = Workspace(folder / style)
    workspace.write_rows("mixed.jsonl", PROBLEMS)
    with ModelServer(answer) as server:
        workspace.configure(server.base_url, *(["reward_evaluator"] if style == "full" else []))
        flags = ("--dataset", "mixed.jsonl", "--rollouts", 2, "--window", 1, "--prompts", style)
        workspace.run(["generator1", *flags], ["generator2", *flags])
        workspace.run(["critic", "--generators", "1,2", "--window", 1, "--prompts", style])
    results = {**workspace.results(), "requests.json": readable_requests(server.bodies)}
    return {f"{style}_{name}": text for name, text in results.items()}


def observe(folder):
    results = {}
    for style in STYLES:
        results |= run_style(folder, style)
    return results


@pytest.mark.parametrize("style", STYLES)
def test_prompts_and_records_of_every_task(tmp_path, style):
    """Messages of generator, critic, analyst and judge (the judge in ``full``), re-asks, lessons in later prompts."""
    assert_golden(CASE, run_style(tmp_path, style), only=f"{style}_")
