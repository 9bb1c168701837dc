"""Programs: one searches passages before it answers, two have a calculator, as a tool and without tools, one says
what a message wants before it chooses a label.

python -m grpo_training.improve --dataset claims.jsonl --program examples/programs.py:retrieve --model MODEL
python -m grpo_training.improve --dataset sums.jsonl --program examples/programs.py:calculate --model MODEL
python -m grpo_training.improve --dataset sums.jsonl --program examples/programs.py:compute --model MODEL
python -m grpo_training.improve --dataset mails.jsonl --program examples/programs.py:classify --model MODEL
"""

from __future__ import annotations

import ast
import json
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from engine.tasks.program import program

_PASSAGES, _TOOL_CALLS, _LONGEST = 2, 4, 200
_SIGNS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_CALCULATOR = {
    "type": "function",
    "function": {
        "name": "calculate",
        "description": "The value of an expression with numbers, + - * / ^ and brackets.",
        "parameters": {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]},
    },
}


@program(prompts=["search", "answer"])
async def retrieve(row: Mapping[str, Any], client: Any, prompts: Mapping[str, str]) -> str:
    """Words to search for, then an answer from the passages of the row that have most of them."""
    question = str(row["question"])
    words = await _said(client, f"{prompts['search']}\nWhich words should be searched for?\n{question}")
    wanted = set(re.findall(r"\w+", f"{question} {words}".casefold()))

    def shared(passage: str) -> int:
        return len(wanted.intersection(re.findall(r"\w+", passage.casefold())))

    passages = sorted(map(str, row["passages"]), key=shared, reverse=True)[:_PASSAGES]
    asked = "\n".join([*passages, prompts["answer"], question, "End with a line that has only the answer."])
    return (await _said(client, asked)).strip().splitlines()[-1]


@program(prompts=["answer"])
async def calculate(row: Mapping[str, Any], client: Any, prompts: Mapping[str, str]) -> str:
    """An answer to a question with numbers; the model may use a calculator."""
    text = f"{prompts['answer']}\n{row['question']}\nEnd with a line that has only the number."
    messages: list[Any] = [{"role": "user", "content": text}]
    for _ in range(_TOOL_CALLS):
        reply = await client.chat.completions.create(model="-", messages=messages, tools=[_CALCULATOR])
        message = reply.choices[0].message
        if not message.tool_calls:
            return (message.content or "").strip().splitlines()[-1]
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            messages.append({"role": "tool", "tool_call_id": call.id, "content": _called(call.function.arguments)})
    return "no answer"


@program(prompts=["expression", "answer"])
async def compute(row: Mapping[str, Any], client: Any, prompts: Mapping[str, str]) -> str:
    """An expression, then an answer from its value; for models that were not trained to call tools."""
    form = "Do not compute: write the calculation as one line with numbers, + - * / ^ and brackets."
    reply = await _said(client, f"{row['question']}\n{prompts['expression']}\n{form}")
    expressions = re.findall(r"[0-9+\-*/^(). ]{3,}", re.sub("[$,]", "", reply))
    expression = max(expressions, key=len, default="").strip()
    value = f"A calculator says: {expression} = {_value(expression)}"
    asked = f"{row['question']}\n{prompts['answer']}\n{value}\nEnd with a line that has only the number."
    return (await _said(client, asked)).strip().splitlines()[-1]


@program(prompts=["restate", "label"])
async def classify(row: Mapping[str, Any], client: Any, prompts: Mapping[str, str]) -> str:
    """What the writer of a message wants, then one of the labels of the row."""
    message, labels = f"Message: {row['text']}", f"Labels: {', '.join(row['labels'])}"
    wish = await _said(client, f"{prompts['restate']}\nSay in one short sentence what its writer wants.\n{message}")
    form = "Reply with the label that fits best, and nothing else."
    reply = await _said(client, f"{labels}\n{prompts['label']}\n{message}\nIts writer wants: {wish}\n{form}")
    return reply.strip().splitlines()[-1]


async def _said(client: Any, text: str) -> str:
    reply = await client.chat.completions.create(model="-", messages=[{"role": "user", "content": text}])
    return str(reply.choices[0].message.content)


def _called(arguments: str) -> str:
    try:
        return _value(str(json.loads(arguments)["expression"]))
    except (ValueError, KeyError, TypeError) as error:
        return f"error: {error}"


def _value(expression: str) -> str:
    """What the calculator says; the expression was written by a model."""
    if len(expression) > _LONGEST:
        return f"error: more than {_LONGEST} characters"
    try:
        return f"{float(_number(ast.parse(expression.strip().replace('^', '**'), mode='eval').body)):.10g}"
    except (ValueError, TypeError, SyntaxError, ArithmeticError, RecursionError) as error:
        return f"error: {error}"


def _number(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_number(operand)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _SIGNS:
            return _SIGNS[type(sign)](_number(left), _number(right))
    raise ValueError("use numbers, + - * / ^ and brackets only")
