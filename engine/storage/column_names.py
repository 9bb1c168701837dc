"""Whether the first line of a table has names of columns, or is a row."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from statistics import mean

from engine.errors import InputError, quoted

_QUESTIONS = frozenset("question problem query prompt input user_input instruction 问题 题目".split())
_ANSWERS = frozenset(
    "answer answers ground_truth ground_truths target output response completion label labels class category intent "
    "sentiment emotion solution gold gold_label answerkey answer_key correct correct_answer best_answer final_answer "
    "ideal target_scores 答案 标签 类别 分类 解答".split()
)
_OTHER = frozenset(
    "text sentence sentence1 sentence2 premise hypothesis claim statement source context passage story document "
    "review message mail email tweet utterance dialogue body title summary questions content 文本 句子 内容 标题 "
    "id idx index uid name type date time timestamp author url description subject topic tag tags level difficulty "
    "score rating choices options choice explanation rationale reasoning hint split lang language english german "
    "french spanish chinese russian japanese word key value user task task_id year country v1 v2 "
    "选项 解析 序号 编号".split()
)
_LOOKED_AT = 1000


def known(name: object) -> bool:
    """Whether columns of data sets have this name."""
    plain = re.sub(r"[\s-]+", "_", str(name).strip().lower())
    return plain in _QUESTIONS or plain in _ANSWERS or plain in _OTHER


def asks(names: Iterable[object]) -> bool:
    """Whether one of the names is that of a question."""
    return any(str(name).lower() in _QUESTIONS for name in names)


def answers(names: Iterable[object]) -> bool:
    """Whether one of the names is that of a right answer."""
    return any(str(name).lower() in _ANSWERS for name in names)


def has_known_name(first: Sequence[object], below: Iterable[Sequence[object]]) -> bool:
    """Whether a line has a name that columns of data sets have, and that is not a value of its column below."""
    columns = list(zip(*(row for row in below if len(row) == len(first)), strict=True)) or [()] * len(first)
    return any(known(name) and name not in column for name, column in zip(first, columns, strict=True))


def why_row(first: Sequence[str], below: Sequence[Sequence[str]]) -> str:
    """Why the first line of a table is a row and not names of columns. Empty: it may have names.

    It is a row if one of its values occurs below in the same column. A line with a known name is none, and neither are
    the numbers of the columns.
    """
    below = [row for row in below[:_LOOKED_AT] if len(row) == len(first) and list(row) != list(first)]
    if not below or has_known_name(first, below) or are_numbered(first):
        return ""
    columns = [(name.strip(), {cell.strip() for cell in cells}) for name, *cells in zip(first, *below, strict=True)]
    repeated = next((name for name, cells in columns if name and name in cells), None)
    return "" if repeated is None else f"{quoted(repeated)} is also a value of this column below"


def without_names(source: object, first: Sequence[str], below: Sequence[Sequence[str]], why: str) -> InputError:
    """The error of a table without names, with a proposal: as many names as it has columns."""
    rows = [row for row in (first, *below[:_LOOKED_AT]) if len(row) == len(first)]
    columns = [[cell.strip() for cell in column] for column in zip(*rows, strict=True)]
    asked = max(range(len(columns)), key=lambda index: mean(map(len, columns[index])))
    others = [index for index in range(len(columns)) if index != asked]
    right = min(
        others, key=lambda index: (len(set(columns[index])), mean(map(len, columns[index])), -index), default=asked
    )
    repeats = len(set(columns[right])) < len(rows)
    names = dict.fromkeys(others, "") | {asked: "text" if repeats and len(columns) < 4 else "question"}
    names[right] = "label" if repeats and len(columns) < 4 else "answer" if others else names[asked]
    free = iter("ABCDEFGH" if 4 <= len(columns) <= 10 else ())
    proposal = ",".join(names[index] or next(free, f"column{index + 1}") for index in range(len(columns)))
    return InputError(
        f"The first line of {source} looks like a row, not like names of columns: {why}",
        why=f"It is: {shown(first)}",
        fix=f"Name its {len(columns)} columns in their order, such as --columns {proposal}. Or use their numbers: "
        f"--fields problem={asked + 1},answer={right + 1}.",
    )


def other_number(columns: Sequence[str], line: str, first: Sequence[object]) -> InputError:
    """The error of ``--columns`` that names more or fewer columns than the first line of a file has."""
    return InputError(
        f"--columns names {len(columns)} columns, and the first {line} has {len(first)}",
        why=f"It is: {shown(first)}",
        fix="Name all columns in their order.",
    )


def shown(fields: Iterable[object]) -> str:
    """The fields of a line for a message."""
    return ", ".join(f"{number} = {quoted(field)}" for number, field in enumerate(fields, start=1))[:500]


def are_numbered(cells: Iterable[str]) -> bool:
    """Whether the cells are 0, 1, 2 or 1, 2, 3, as programs number rows, and columns without names."""
    numbers = [cell.strip() for cell in cells if cell.strip()]
    return len(numbers) > 1 and any(numbers == list(map(str, range(at, at + len(numbers)))) for at in (0, 1))
