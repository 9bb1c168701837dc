import time

from hypothesis import given
from hypothesis import strategies as st

from engine.tasks.code.reply import MAX_CODE, extract, normalised
from tests.support.table import table

OK, NONE, THINK, FENCE, SYNTAX = "ok", "no_code", "unclosed_think", "unclosed_fence", "syntax_error"
F = "def f():\n    return 1"
INDENTED = F.replace("\n", "\n   ")
USE = "print(f())\nprint(f())\nprint(f())"
QUOTES = '"' * 3
DOCUMENTED = f"def f():\n    {QUOTES}One.\n\n    ```\n    f()\n    ```\n    {QUOTES}\n    return 1"
BROKEN = f"def f():\n    {QUOTES}One."
GUARDED = "try:\n    from math import tau\nexcept ImportError:\n    def f(): return 2\nelse:\n    def f(): return 1"
METHOD = "class Solution:\n    def g(self): pass"


def fenced(code, tag="python"):
    return f"```{tag}\n{code}\n```"


@table(
    ("text", "entry_point", "thinking", "code", "status"),
    [
        # thinking
        (f"<think>first</think>\n{fenced(F)}", "f", "first", F, OK),
        (f"<THINK>\nfirst\n</THINK>\n{fenced(F)}", "f", "first", F, OK),
        (f"draft {fenced('A')}\n</think> {fenced('B')}", None, f"draft {fenced('A')}", "B", OK),
        ("draft ```python A``` </think> ```python B```", None, "draft ```python A```", "B", OK),
        ("<think> ```python A```", None, "```python A```", None, THINK),
        (f"<think>one</think> two <think> three {fenced(F)}", "f", "one", None, THINK),
        (f"<think>a</think>b</think>{fenced(F)}", "f", "a</think>b", F, OK),
        (fenced("s = '<think>'"), None, None, "s = '<think>'", OK),
        # which fence
        (f"{fenced(F)}\nUse it:\n{fenced(USE)}", "f", None, F, OK),
        (f"{fenced('def f(): return 0')}\n{fenced(F)}", "f", None, F, OK),
        (f"{fenced(F)}\n{fenced('x = 1', '')}", "f", None, F, OK),
        (f"{fenced('$ pip install x', 'bash')}\n{fenced(F, '')}", "f", None, F, OK),
        (f"{fenced('x = 1')}\n{fenced('y = 2')}", None, None, "y = 2", OK),
        (f"{fenced('g = 1')}\n{fenced('y = 2')}", "f", None, "y = 2", OK),
        (f"{fenced('words and words', '')}", None, None, None, NONE),
        (fenced('{"f": 1}', "json"), None, None, None, NONE),
        (fenced(F, "Python3"), "f", None, F, OK),
        (fenced(F, "{.python}"), "f", None, F, OK),
        (f"````python\ns = '''\n```\n'''\n{F}\n````", "f", None, f"s = '''\n```\n'''\n{F}\n", OK),
        (f"~~~python\n{F}\n~~~", "f", None, F, OK),
        (f"Stray:\n```\nand then\n{fenced(F)}", "f", None, F, OK),
        (f"Use ```f``` like this: {fenced(F)}", "f", None, F, OK),
        (f"1. So:\n   ```python\n   {INDENTED}\n   ```", "f", None, F, OK),
        (fenced(F).replace("\n", "\r\n"), "f", None, F, OK),
        (fenced(METHOD), "Solution", None, METHOD, OK),
        ("```python\nf = lambda: 1\n```", "f", None, "f = lambda: 1", OK),
        (fenced(F, "python:f.py"), "f", None, F, OK),
        (fenced(F, "python3.11"), "f", None, F, OK),
        (fenced(F, "{python, eval=FALSE}"), "f", None, F, OK),
        (f"{fenced(F)} That is all.", "f", None, F, OK),
        (f"{fenced(F)}</answer>\n{fenced('f = 2', 'text')}", "f", None, F, OK),
        (fenced(DOCUMENTED), "f", None, DOCUMENTED, OK),
        (f"{fenced(BROKEN)}\n{fenced(F)}", "f", None, F, OK),
        (fenced(f"Q = '{QUOTES}'\n{F}") + "\nDone", "f", None, f"Q = '{QUOTES}'\n{F}", OK),
        (f"{fenced(F)}\n{fenced('from solution import f' + chr(10) + USE)}", "f", None, F, OK),
        (f"{fenced(F)}\n{fenced('import f.tests')}", "f", None, F, OK),
        (f"{fenced('from math import gcd')}\n{fenced('print(gcd(1, 2))')}", "gcd", None, "from math import gcd", OK),
        (f"{fenced(GUARDED)}\n{fenced(USE)}", "f", None, GUARDED, OK),
        (f"{fenced('f, g = abs, 1')}\n{fenced(USE)}", "f", None, "f, g = abs, 1", OK),
        # what is missing
        ("```python\ndef f():\n    return (1,", "f", None, None, FENCE),
        (f"```python\n{F}", "f", None, F, FENCE),
        (f"```python\n{F}", "g", None, None, FENCE),
        (fenced("def f(:"), "f", None, "def f(:", SYNTAX),
        (fenced(""), "f", None, None, NONE),
        # without a fence
        (F, "f", None, F, OK),
        (f"Here is the code:\n{F}", "f", None, F, OK),
        (f"Here is the code:\n\nimport re\n{F}", None, None, f"import re\n{F}", OK),
        (f"The idea comes\nfrom a book.\n{F}", "f", None, F, OK),
        (f"Here is the code:\n{F}", "g", None, None, NONE),
        (f"Here is the code:\n{F}\nIt returns one.", "f", None, None, NONE),
        ("Everything comes\nfrom a book.", None, None, None, NONE),
        ("from here\n" * 9 + F, "f", None, None, NONE),
        ("Sorry", None, None, None, NONE),
        ("Answer: 42", None, None, None, NONE),
        ("I cannot solve this.", None, None, None, NONE),
        ("", None, None, None, NONE),
    ],
)  # fmt: skip
def test_the_table(text, entry_point, thinking, code, status):
    reply = extract(text, entry_point=entry_point)
    strip = str.strip if reply.code else lambda value: value
    assert (reply.thinking, strip(reply.code), reply.status) == (thinking, strip(code), status)


EXAMPLE = f"def f():\n    {QUOTES}One.\n\n    ```python\n    f()\n    ```\n    {QUOTES}\n    return 1"
TWO = EXAMPLE + "\n\n" + EXAMPLE.replace("def f", "def g").replace("```python", "~~~py").replace("```", "~~~")
IMPORTING = f"from math import tau\n\n\n@staticmethod\n{F}"


@table("code", [F, DOCUMENTED, EXAMPLE, TWO, IMPORTING, "async " + F, "f = lambda: 1"])
@table(
    "style",
    [
        "CODE",
        "CODE\n",
        "```python\nCODE\n```",
        "```py\nCODE\n```\n",
        "```\nCODE\n```",
        "~~~python\nCODE\n~~~",
        "````python\nCODE\n````",
        "```text\nCODE\n```",
        "CODE\n```",
        "CODE\n```\n\nIt returns one, and that's all.",
        "CODE\n```\nUse it:\n```python\nprint(f())\n```",
        "CODE\n\n```python\nprint(f())\n```",
        "Here's it:\n\n```python\nCODE\n```\n\nIt returns one.",
        "```python\nprint(2)\n```\nbut rather\n```python\nCODE\n```",
        "```python\nCODE\n```\nUse it:\n```python\nprint(f())\n```",
        "```python\nCODE\n```\nIt prints\n```\n1\n```",
        "<think>Not ```python\nf = 2\n```</think>\n```python\nCODE\n```",
        "<think>One.</think>\nCODE",
    ],
)
def test_a_program_is_read_in_every_style(style, code):
    reply = extract(style.replace("CODE", code), entry_point="f")
    assert (reply.status, (reply.code or "").strip()) == (OK, code)


@table("code", [F, IMPORTING, "f = lambda: 1", DOCUMENTED, EXAMPLE])
@table("style", ["```python\nCODE", "Here it is:\n```\nCODE", "```python\nCODE\n\n```python\nprint(f())\n```"])
def test_a_complete_program_in_a_fence_that_is_not_closed(style, code):
    reply = extract(style.replace("CODE", code), entry_point="f")
    assert (reply.status, (reply.code or "").strip()) == (FENCE, code)


@table("style", ["CODE\n```", "CODE\n```\nIt's done.", "So:\n\nCODE\n```\n", "```python\nCODE\n```"])
@table("code", [f"import sys\n{F}\nprint(f())", f"{EXAMPLE}\n\n\nprint(f())"])
def test_a_program_that_reads_stdin_is_read_in_every_style(style, code):
    reply = extract(style.replace("CODE", code))
    assert (reply.status, (reply.code or "").strip()) == (OK, code)


STUB = f"def f(x, y):\n    {QUOTES}Their sum.{QUOTES}\n"
METHOD_STUB = "class Solution:\n    def f(self, x, y):\n        "


@table(("stub", "name", "indentation"), [(STUB, "f", 4), ("def f(x, y):", "f", 4), (METHOD_STUB, "Solution", 8)])
@table("body", ["return x + y", "z = x\nif y:\n    z = x + y\nreturn z", "yield x\nyield y"])
@table(
    "style",
    [
        "INDENTED",
        "STRIPPED",
        "BODY",
        "\nINDENTED\n\n\n",
        "INDENTED\n\n\ndef g():\n    return 2",
        "```python\nINDENTED\n```",
        "```python\nBODY\n```\nIt adds them.",
        "```\nSTRIPPED\n```",
        "INDENTED\n```",
        "INDENTED\n```\nIt adds them.",
        "<think>Add.</think>\nINDENTED",
    ],
)
def test_a_body_continues_the_stub(style, body, stub, name, indentation):
    indented = "\n".join(" " * indentation + line for line in body.split("\n"))
    text = style.replace("INDENTED", indented).replace("STRIPPED", indented.strip()).replace("BODY", body)
    reply = extract(text, entry_point=name, stub=stub)
    assert reply.status == OK
    assert normalised(reply.code).startswith(normalised(f"{stub.rstrip()}\n{indented}"))


@table(
    "text", ["Sorry", "I cannot solve this.", "Answer: 42", "", fenced("print(f(1, 2))"), fenced("def g(): return 1")]
)
def test_what_is_no_continuation_leaves_the_stub_alone(text):
    assert extract(text, entry_point="f", stub=STUB) == extract(text, entry_point="f")


def test_a_whole_program_is_not_a_continuation():
    assert extract(fenced(F), entry_point="f", stub=STUB).code == F
    assert extract(f"    return 2\n\n{fenced(F)}", entry_point="f", stub=STUB).code == F


def test_reasoning_that_the_endpoint_gives_is_the_thinking():
    assert extract(fenced(F), reasoning=" first ").thinking == "first"
    assert extract(f"<think>old</think>{fenced(F)}", reasoning="new").thinking == "new"
    assert extract(f"<think>old</think>{fenced(F)}", reasoning="  ").thinking == "old"
    assert extract("", reasoning="only thoughts").status == NONE


HOSTILE = {
    "3 MB of words": "a" * 3_000_000,
    "3 MB of ticks": "`" * 3_000_000,
    "3 MB fence": "```python\n" + "a=1\n" * 750_000 + "```",
    "25k fences": "```python\nx=1\n```\n" * 25_000,
    "25k open docstrings": "```python\n'''\n```\n" * 25_000,
    "25k ticks in a docstring": "```python\n'''\n" + "```\n" * 25_000,
    "25k almost defining": "```python\nf=(\n```\n" * 25_000,
    "25k inline": "```python x``` " * 25_000,
    "25k openers": "```python\n" * 25_000,
    "tags": "<think>" * 125_000 + "</think>" * 125_000,
    "parentheses": fenced("(" * 50_000 + ")" * 50_000),
    "minus": fenced("-" * 100_000 + "1"),
    "sum": fenced("x = " + "+".join("1" * 60_000)),
    "NUL": fenced("\0"),
    "half a pair": fenced("\ud800"),
    "25k strings": '"""' * 25_000 + "\n```python\nf()\n```\n" * 1000,
    "half strings": "```python\n" + '\\"' * 125_000 + "\n```",
    "open strings": "```python\n'''\n" * 12_500 + "```\n" * 12_500,
    "prompts": "```python\n" + ">>> f(\n" * 20_000 + "```",
    "first lines": "def f():\n" + "from a import b\n" * 10_000 + "(",
}


@table("name", HOSTILE)
def test_hostile_text_ends_soon(name):
    started = time.process_time()
    extract(HOSTILE[name], entry_point="f")
    assert time.process_time() - started < 1


@given(st.text(st.sampled_from(list("`~\n <>/thinkpyo=1f():\r\t")) | st.characters(), max_size=200))
def test_no_text_raises(text):
    reply = extract(text, entry_point="f")
    assert reply.code is not None or reply.status != OK
    assert reply.code is None or (len(reply.code) <= MAX_CODE and reply.code)


def test_equal_programs_are_equal_texts():
    commented = 'def f(a,b):\n    """Adds."""\n    # really\n    return a+b'
    other = "def f(a, b):\n\n    return (a + b)"
    assert normalised(commented) == normalised(other) == "def f(a, b):\n    return a + b"
    assert normalised("def f(): 'only a docstring'") == "def f():\n    pass"
    assert normalised("def f(:") is None
    assert normalised("return 1") != normalised("return 2")
