"""Reading a reply: plan, code, and what is never code."""

import json

import pytest

from engine.tasks.phaser.reply import Plan, read_plan, read_reply

PLAN = (
    "[PLAN]\nREQ: a ball\nAPI: Phaser.Game, Phaser.Scene；Phaser.Math.Between\nSTEPS:\n1. preload\n- create\n[/PLAN]\n"
)
CODE = "const config = { keyCode: 32 };\nnew Phaser.Game(config);"


def fenced(code, tag="javascript"):
    return f"```{tag}\n{code}\n```\n"


def test_plan_and_code():
    reply = read_reply(PLAN + fenced(CODE) + "Enjoy!")
    assert reply.code == CODE
    assert reply.plan == Plan(
        ("a ball",), ("Phaser.Game", "Phaser.Scene", "Phaser.Math.Between"), ("preload", "create")
    )
    assert reply.extraction.method == "javascript_fence"
    assert reply.extraction.plan_closed is True


@pytest.mark.parametrize(
    "code",
    ["input.addKey({ keyCode: 32 });", "f({code: 1});", "// the code:\nplay();", "const plan = 1; // plan:\nx();"],
)
def test_labels_inside_a_program_leave_it_whole(code):
    assert read_reply(PLAN + fenced(code)).code == code


@pytest.mark.parametrize(
    ("text", "code", "method"),
    [
        (fenced("ls -la", "bash") + fenced("first()", "js") + fenced("second()", "javascript"), "second()", None),
        (fenced("first()", "js") + fenced("npm start", "sh"), "first()", None),
        (fenced("{}", "json") + fenced("plain()", ""), "plain()", "untagged_fence"),
        (fenced("plain()", "") + fenced("tagged()", "JavaScript"), "tagged()", None),
        ("~~~js\na();\n```\nb();\n~~~", "a();\n```\nb();", None),
        ("````js\n```\n````", "```", None),
        ("<think>\n```js\nwrong()\n```\n</think>\n```js\nright()\n```", "right()", None),
    ],
)
def test_which_text_is_the_code(text, code, method):
    reply = read_reply(text)
    assert reply.code == code
    assert reply.extraction.method == (method or "javascript_fence")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I would write a game with new Phaser.Game(config).",
        "new Phaser.Game({});",
        "code:\nnew Phaser.Game({});",
        "The plan: draw it. The code: run it.",
        fenced("print(1)", "python"),
        "```javascript\nnew Phaser.Game({});",  # cut off
        PLAN,
    ],
)
def test_what_is_no_code(text):
    assert read_reply(text).code == ""
    assert read_reply(text).extraction.method == "none"


def test_an_unclosed_plan_is_seen():
    reply = read_reply("[plan]\nREQ: a\n" + fenced("x()", "js"))
    assert reply.extraction.plan_closed is False
    assert reply.plan == Plan(("a",))
    assert reply.code == "x()"


@pytest.mark.parametrize(
    ("text", "plan"),
    [
        (
            json.dumps({"requirements": ["r"], "apis": ["A.b"], "steps": ["s"], "notes": "n"}),
            Plan(("r",), ("A.b",), ("s",), "n"),
        ),
        (json.dumps({"req": "r", "api": "A.b"}), Plan(("r",), ("A.b",))),
        ("需求：球\n接口：A.b、C#d\n步骤：\n1. 一\n2、二", Plan(("球",), ("A.b", "C#d"), ("一", "二"))),
        ("REQ: r\nSTEPS:\n* one\ntext\n2) two", Plan(("r",), (), ("one", "two"))),
        ("", None),
        ("just prose", None),
        ('{"requirements": []}', None),
        ("[1, 2]", None),
        ('{"apis": [1, null, " "]}', None),
    ],
)
def test_plans(text, plan):
    assert read_plan(text) == plan


def test_hostile_replies_end_quickly():
    for text in ("```" * 100_000, "[PLAN]" * 60_000, "plan:\n" * 60_000 + "code:", "{" * 200_000, "`" * 400_000):
        read_reply(text)
        read_plan(text)
