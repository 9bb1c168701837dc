"""Two programs: one searches passages before it answers, one has a calculator as a tool.

python -m grpo_training.improve --dataset claims.jsonl --program examples/programs.py:retrieve --model MODEL
python -m grpo_training.improve --dataset sums.jsonl --program examples/programs.py:calculate --model MODEL
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from engine.tasks.program import program

_PASSAGES, _TOOL_CALLS = 2, 4
_CALCULATOR = {
    "type": "function",
    "function": {
        "name": "calculate",
        "description": "The value of an expression with numbers, + - * / and brackets.",
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

    found = sorted(map(str, row["passages"]), key=shared, reverse=True)[:_PASSAGES]
    asked = "\n".join([*found, prompts["answer"], question, "End with a line that has only the answer."])
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
            messages.append({"role": "tool", "tool_call_id": call.id, "content": _value(call.function.arguments)})
    return "no answer"


async def _said(client: Any, text: str) -> str:
    reply = await client.chat.completions.create(model="-", messages=[{"role": "user", "content": text}])
    return str(reply.choices[0].message.content)


def _value(arguments: str) -> str:
    """What the calculator says; the expression was written by a model."""
    try:
        expression = str(json.loads(arguments)["expression"])
        if not re.fullmatch(r"[0-9+\-*/(). ]{1,200}", expression) or "**" in expression:
            return "use numbers, + - * / and brackets only"
        return str(eval(expression, {"__builtins__": {}}))
    except (ValueError, KeyError, TypeError, SyntaxError, ArithmeticError) as error:
        return f"error: {error}"
