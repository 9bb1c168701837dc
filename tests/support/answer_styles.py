"""Styles in which models write an answer: right replies, and wrong ones of the same styles."""

from collections.abc import Iterator, Sequence

BEFORE = "The question has several parts.\nThey are read one after the other.\n"


def of_value(value: str) -> Iterator[str]:
    """A reply whose answer is a value."""
    yield f"{BEFORE}Answer: {value}"
    yield f"{BEFORE}**Answer:** {value}"
    yield f"{BEFORE}**Answer: {value}**"
    yield f"{BEFORE}## Answer\n{value}"
    yield f'{BEFORE}Answer: "{value}"'
    yield f"{BEFORE}It follows from the text. Answer: {value}"
    yield f"{BEFORE}The answer is {value}."
    yield f"{BEFORE}So the final answer is **{value}**."
    yield f"{BEFORE}Therefore, the answer is: {value}"
    yield f"{BEFORE}<answer>{value}</answer>"
    yield f'{BEFORE}```json\n{{"answer": "{value}"}}\n```'
    yield f"{BEFORE}Answer: {value}<|im_end|>"
    yield f"<think>At first sight another one.\nAnswer: something else</think>\n{BEFORE}Answer: {value}"
    yield f"{BEFORE}At first something else seems right.\nAnswer: {value}"


def of_choice(mark: str, text: str) -> Iterator[str]:
    """A reply that chooses an option."""
    for value in (mark, f"({mark})"):
        yield from of_value(value)
    yield f"{BEFORE}$\\boxed{{{mark}}}$"
    yield f"{BEFORE}\\boxed{{\\text{{{mark}}}}}"
    yield f"{BEFORE}The correct answer is ({mark})."
    yield f"{BEFORE}Answer: Option {mark}"
    yield f"答案：{mark}"
    yield f"{BEFORE}故选 {mark}。"
    if text:
        yield f"{BEFORE}Answer: ({mark}) {text}"
        yield f"{BEFORE}Answer: {mark}) {text}"
        yield f"{BEFORE}**Answer: {mark}. {text}**"
        yield f"{BEFORE}Answer: {mark} - {text}"
        yield f"{BEFORE}Therefore, the correct answer is:\n({mark}) {text}"
        yield f"{BEFORE}Answer: {text}"


def hedged(values: Sequence[str]) -> Iterator[str]:
    """Replies that are wrong whatever is right: the first value may be the truth."""
    yield f"{BEFORE}Answer: {' or '.join(values[:2])}"
    yield f"{BEFORE}Answer: not {values[0]}"
    if len(values) > 2:
        yield f"{BEFORE}Answer: {', '.join(values)}"


def of_number(value: str) -> Iterator[str]:
    """A reply whose answer is a number."""
    yield from of_value(value)
    yield f"{BEFORE}#### {value}"
    yield f"{BEFORE}\\boxed{{{value}}}"
    yield f"{BEFORE}Answer: $\\boxed{{{value}}}$"
    yield f"{BEFORE}So the total is **{value}**."
    yield f"{BEFORE}Answer: x = {value}"
    yield f'{BEFORE}```json\n{{"answer": {value}}}\n```'


def of_label(value: str) -> Iterator[str]:
    """A reply that names a label."""
    yield from of_value(value)
    yield f"{BEFORE}Answer: {value.upper()}"
    yield f"{BEFORE}\\boxed{{\\text{{{value}}}}}"
    yield f"{BEFORE}Answer: {value} - it fits best."
    yield f"{BEFORE}Answer: {value}, since it fits."
    yield f'{BEFORE}{{"label": "{value}"}}'
    if "_" in value:
        yield f"{BEFORE}Answer: {value.replace('_', ' ')}"
