"""Python programs as replies: what is read from them, how tests score them, and what the critic makes of them."""

from tests.characterisation.support import ModelServer, Workspace, assert_golden, lesson, readable_requests

CASE = "code_replies"


def calls(name, *pairs, **more):
    return [{"kind": "call", "fn": name, "args": args, "expected": expected, **more} for args, expected in pairs]


def stdin(*pairs, **more):
    return [{"kind": "stdin", "stdin": given, "expected": expected, **more} for given, expected in pairs]


def asserts(*statements):
    return [{"kind": "assert", "code": statement} for statement in statements]


def fenced(code):
    return f"```python\n{code}\n```"


# id, problem text, reference, tests, replies, fusion
SCRIPT = [
    (
        "square",
        "Write a function square that returns the square of a number.",
        "def square(x):\n    return x * x",
        calls("square", ("(2,)", "4"), ("(3,)", "9"), ("(-1,)", "1"), ("(0,)", "0")),
        [
            fenced("def square(x):\n    # multiply\n    return x * x"),
            fenced("def square(x):\n    return x + x"),
            fenced("def square(x)\n    return x * x"),
            "It is the number times itself.",
        ],
        fenced("def square(x):\n    return x ** 2"),
    ),
    (
        "largest",
        "Write a function largest that returns the largest of a list, or None for an empty list.",
        "def largest(values):\n    return max(values, default=None)",
        calls("largest", ("([1, 5, 2],)", "5"), ("([],)", "None"), ("([-3],)", "-3")),
        [
            fenced("def largest(values):\n    return max(values)"),
            fenced("def largest(values):\n    return max(values, default=None)"),
            "```python\ndef largest(values):\n    return sorted(values)[-1]",
            "<think>A list, so max will do",
        ],
        fenced("def largest(values):\n    return max(values) if values else None"),
    ),
    (
        "vowels",
        "Write a function vowels that counts the vowels of a text.",
        "def vowels(text):\n    return sum(sign in 'aeiou' for sign in text.lower())",
        asserts("assert vowels('abc') == 1", "assert vowels('AEIOU') == 5", "assert vowels('') == 0"),
        [
            fenced("def vowels(text):\n    return sum(sign in 'aeiou' for sign in text)"),
            fenced("def vowels(text):\n    return sum(sign in 'aeiouAEIOU' for sign in text)"),
            fenced("def count(text):\n    return 1"),
            fenced("def vowels(text):\n    raise ValueError(text)"),
        ],
        fenced("def vowels(text):\n    return len([s for s in text.lower() if s in 'aeiou'])"),
    ),
    (
        "total",
        "Read a line with whole numbers and print their sum.",
        "print(sum(map(int, input().split())))",
        stdin(("1 2 3\n", "6\n"), ("-4\n", "-4\n"), ("10 20\n", "30\n")),
        [
            fenced("print(sum(map(int, input().split())))"),
            fenced("print(sum(map(abs, map(int, input().split()))))"),
            fenced("print('6')"),
            fenced("import sys\nsys.exit(3)"),
        ],
        fenced("print(sum(int(word) for word in input().split()))"),
    ),
    (
        "greeting",
        "Read a name and print a greeting of two lines: Hello and the name.",
        "print('Hello')\nprint(input())",
        stdin(("Ann\n", "Hello\nAnn\n"), ("Bo\n", "Hello\nBo\n"), cmp="lines"),
        [
            fenced("name = input()\nprint('Hello  ')\nprint(name)"),
            fenced("print('Hello', input())"),
            fenced("print('hello')\nprint(input())"),
            fenced("def main():\n    print('Hello')\n    print(input())\n\nif __name__ == '__main__':\n    main()"),
        ],
        fenced("print('Hello\\n' + input())"),
    ),
    (
        "half",
        "Write a function half that returns half of a number.",
        "def half(x):\n    return x / 2",
        calls("half", ("(3,)", "1.5"), ("(1,)", "0.5"), ("(0.2,)", "0.1"), cmp="float"),
        [
            fenced("def half(x):\n    return x * 0.5000000000001"),
            fenced("def half(x):\n    return x // 2"),
            fenced("half = lambda x: x / 2"),
            "First a try:\n" + fenced("def half(x):\n    return x") + "\nBetter:\n" + fenced("def half(x): return x/2"),
        ],
        fenced("def half(x):\n    return x / 2"),
    ),
    (
        "swap",
        "Write a function swap that takes two values and returns them in the other order, as a tuple.",
        "def swap(a, b):\n    return b, a",
        calls("swap", ("(1, 2)", "(2, 1)"), ("('x', 'y')", "('y', 'x')"), ("(None, 1)", "(1, None)")),
        [
            fenced("def swap(a, b):\n    return b, a"),
            fenced("def swap(a, b):\n    return [b, a]"),
            fenced("class Swap:\n    def swap(self, a, b):\n        return b, a"),
            fenced("def swap(a, b):\n    print(b, a)"),
        ],
        fenced("def swap(a, b):\n    return (b, a)"),
    ),
    (
        "fact",
        "Write a function fact that returns the factorial of a number.",
        "import math\n\ndef fact(n):\n    return math.factorial(n)",
        asserts("assert fact(0) == 1", "assert fact(5) == 120", "assert fact(20) == 2432902008176640000"),
        [
            fenced("def fact(n):\n    return 1 if n == 0 else n * fact(n - 1)"),
            fenced("def fact(n):\n    return n * fact(n - 1)"),
            fenced("def fact(n):\n    return 1"),
            fenced("import math\nfact = math.factorial"),
        ],
        fenced("from math import factorial as fact"),
    ),
    (
        "words",
        "Read all lines of the input and print the number of words.",
        "import sys\nprint(len(sys.stdin.read().split()))",
        stdin(("a b\nc\n", "3\n"), ("", "0\n"), ("one\n", "1\n"), cmp="tokens"),
        [
            fenced("import sys\nprint(len(sys.stdin.read().split()))"),
            fenced("print(len(input().split()))"),
            fenced("import sys\nprint(sum(len(line.split()) for line in sys.stdin), 'words')"),
            "",
        ],
        fenced("print(len(open(0).read().split()))"),
    ),
]


def row(name, text, reference, tests):
    return {"task_id": name, "prompt": text, "canonical_solution": reference, "tests": tests, "public_count": 1}


def answer(body):
    if taught := lesson(body):
        return taught
    question = body["messages"][1]["content"]
    replies, fusion = next(entry[4:] for entry in SCRIPT if entry[1] in question)
    return [fusion] if body["model"] == "critic" else replies


def observe(folder):
    workspace = Workspace(folder)
    workspace.write_rows("own.jsonl", [row(*entry[:4]) for entry in SCRIPT])
    with ModelServer(answer) as server:
        workspace.configure(server.base_url)
        workspace.run(["generator1", "--dataset", "own.jsonl", "--rollouts", 4])
        workspace.run(["critic", "--generators", "1"])
    return {**workspace.results(), "requests.json": readable_requests(server.bodies)}


def test_scores_of_scripted_programs(tmp_path):
    """Calls, asserts and stdin, every comparison, and replies that hold no whole program."""
    assert_golden(CASE, observe(tmp_path))
