"""The one reader of a reply that holds a program: thinking, code, and how the reading went.

Teacher traces, rewards and evaluation all read through :func:`extract`, so that what is trained on is what is run.
Replies are hostile: they are scanned once from left to right, and parsed within limits, never executed.
"""

from __future__ import annotations

import ast
import re
import textwrap
from dataclasses import dataclass
from enum import StrEnum

from engine.reading.python_syntax import parse

MAX_CODE = 200_000
"""Characters of a program; a longer one is not read."""

_MOST_PARSED = 400_000  # characters of fences that are parsed in search of the entry point
_MOST_FENCES = 64  # fences that are looked at, from the last one back
_PYTHON = frozenset({"python", "python3", "py", "py3"})

_CLOSING = re.compile(r"</(?i:think(?:ing)?)>")
_OPENING = re.compile(r"<(?i:think(?:ing)?)>")

_MARGIN = 40  # characters of indentation, bullets and quote marks that may stand before a fence
_LINE_START = re.compile(r"(?:\A|\n)[ \t>*-]*\Z")
_TICKS = re.compile(r"(?P<run>`{3,}|~{3,})(?P<info>[^`~\n]*)")


class ReplyStatus(StrEnum):
    """How the reading of a reply went. Only ``OK`` may be imitated."""

    OK = "ok"
    NO_CODE = "no_code"
    UNCLOSED_THINK = "unclosed_think"
    UNCLOSED_FENCE = "unclosed_fence"
    SYNTAX_ERROR = "syntax_error"


@dataclass(frozen=True)
class CodeReply:
    """What a reply holds.

    Args:
        thinking: the reasoning before the program; None where there is none.
        code: the program. With ``syntax_error`` it is there and cannot run; with ``unclosed_fence`` it is there
            only where it is whole as far as Python can tell.
        status: how the reading went.
    """

    thinking: str | None
    code: str | None
    status: ReplyStatus


@dataclass(frozen=True)
class _Fence:
    language: str
    body: str
    is_closed: bool


def extract(text: str, reasoning: str | None = None, entry_point: str | None = None) -> CodeReply:
    """Read a reply.

    Thinking is the ``reasoning`` that the endpoint gave beside the text, else what stands before the last
    ``</think>`` (the opening tag may be missing: some chat templates put it into the prompt). Code is, after the
    thinking, the last Python fence that defines the entry point, else the last untagged one that does, else the
    last Python fence, else the last untagged one that is Python; without any fence the whole rest, where it is a
    program.

    Args:
        text: the reply.
        reasoning: the endpoint's ``reasoning`` or ``reasoning_content``.
        entry_point: the name that the tests call; None for a program that reads stdin.

    Returns:
        never raises for its text; time grows with its length.
    """
    thinking, rest = _split_thinking(text.replace("\r\n", "\n"))
    if reasoning is not None and reasoning.strip():
        thinking = reasoning.strip()
    fences, outside = _fences(rest)
    if _OPENING.search(outside):  # a tag within a program is a text of that program
        return CodeReply(thinking or _OPENING.sub("", rest, count=1).strip() or None, None, ReplyStatus.UNCLOSED_THINK)
    code, status = _code(fences, rest, entry_point)
    return CodeReply(thinking, code, status)


def parse_program(code: str) -> ast.Module | None:
    """The program's tree; None where it is not Python, or beyond the limits."""
    if len(code) > MAX_CODE:
        return None
    try:
        return parse(code)
    except ValueError:
        return None


def normalised(code: str) -> str | None:
    """The program without comments, docstrings and layout, so that equal programs are equal texts; None: no Python."""
    tree = parse_program(code)
    if tree is None:
        return None
    try:
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                documented = ast.get_docstring(node, clean=False) is not None
                node.body = (node.body[1:] or [ast.Pass()]) if documented else node.body
        return ast.unparse(ast.fix_missing_locations(tree))
    except (ValueError, RecursionError, MemoryError):
        return code


def defined_names(tree: ast.Module) -> set[str]:
    """The names that a program binds at its top level."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names.update((alias.asname or alias.name).partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names


# ------------------------------------------------------------------ thinking


def _split_thinking(text: str) -> tuple[str | None, str]:
    last = None
    for closing in _CLOSING.finditer(text):
        last = closing
    if last is None:
        return None, text
    before = text[: last.start()]
    opening = _OPENING.search(before)
    return before[opening.end() if opening else 0 :].strip() or None, text[last.end() :]


# ------------------------------------------------------------------ fences


def _fences(text: str) -> tuple[list[_Fence], str]:
    """The fences of a text in order, and the text outside of them.

    A fence opens at the start of a line, or anywhere with a Python tag, and closes with as many ticks at the end of
    a line. A Python tag at the start of a line opens a new fence also within one: the one before was left open.
    """
    fences: list[_Fence] = []
    outside: list[str] = []
    start = at = 0  # of the open fence's body; of the text outside
    run = language = ""
    for ticks in _TICKS.finditer(text):
        info = ticks["info"].strip()
        tag = info.split(maxsplit=1)[0].strip("{}.").lower() if info else ""
        ends_line = ticks.end() == len(text) or text[ticks.end()] == "\n"
        starts_line = _LINE_START.search(text, max(0, ticks.start() - _MARGIN), ticks.start()) is not None
        if run and ends_line and not info and ticks["run"].startswith(run):
            fences.append(_Fence(language, text[start : ticks.start()], is_closed=True))
            run, at = "", ticks.end()
        elif run and not (starts_line and ends_line and tag in _PYTHON):
            continue
        elif ends_line and (starts_line or tag in _PYTHON):
            if run:
                fences.append(_Fence(language, text[start : ticks.start()], is_closed=False))
            else:
                outside.append(text[at : ticks.start()])
            run, language, start = ticks["run"], tag, ticks.end() + 1
        elif tag in _PYTHON and text.startswith(ticks["run"], ticks.end()):  # ```python f = 1``` within a line
            outside.append(text[at : ticks.start()])
            fences.append(_Fence(tag, info[len(tag) :].strip(), is_closed=True))
            at = ticks.end() + len(ticks["run"])
    if run:
        fences.append(_Fence(language, text[start:], is_closed=False))
    else:
        outside.append(text[at:])
    return fences, "\n".join(outside)


# ------------------------------------------------------------------ the program


def _code(fences: list[_Fence], rest: str, entry_point: str | None) -> tuple[str | None, ReplyStatus]:
    tagged = [fence for fence in fences if fence.is_closed and fence.language in _PYTHON]
    untagged = [fence for fence in fences if fence.is_closed and not fence.language]
    if entry_point is not None:
        found = _defining(tagged, entry_point) or _defining(untagged, entry_point)
        if found is not None:
            return found, ReplyStatus.OK
    unfinished = _unfinished(fences, entry_point)
    if unfinished is not None:
        return unfinished, ReplyStatus.UNCLOSED_FENCE
    if tagged:
        code = _dedented(tagged[-1].body)
        if not code.strip() or len(code) > MAX_CODE:
            return None, ReplyStatus.NO_CODE
        return code, ReplyStatus.OK if parse_program(code) else ReplyStatus.SYNTAX_ERROR
    for fence in untagged[: -_MOST_FENCES - 1 : -1]:
        if _is_program(_dedented(fence.body)):
            return _dedented(fence.body), ReplyStatus.OK
    if fences:
        return None, ReplyStatus.NO_CODE if fences[-1].is_closed else ReplyStatus.UNCLOSED_FENCE
    return (rest.strip(), ReplyStatus.OK) if _is_program(rest.strip()) else (None, ReplyStatus.NO_CODE)


def _defining(fences: list[_Fence], entry_point: str) -> str | None:
    """The last of the fences that defines the name."""
    left = _MOST_PARSED
    for fence in fences[: -_MOST_FENCES - 1 : -1]:
        left -= len(fence.body)
        if left < 0:
            return None
        if entry_point in fence.body:
            code = _dedented(fence.body)
            tree = parse_program(code)
            if tree is not None and entry_point in defined_names(tree):
                return code
    return None


def _unfinished(fences: list[_Fence], entry_point: str | None) -> str | None:
    """The program of a last fence that was never closed, where nothing of it seems to be missing."""
    if not fences or fences[-1].is_closed or fences[-1].language not in (*_PYTHON, ""):
        return None
    code = _dedented(fences[-1].body)
    tree = parse_program(code)
    if tree is None or not _does_something(tree):
        return None
    return code if entry_point is None or entry_point in defined_names(tree) else None


def _dedented(body: str) -> str:
    """The body as it stands where it can, else without the margin that a list or a quotation gave it."""
    body = body.strip("\n")
    if len(body) > MAX_CODE or body[:1] not in (" ", "\t"):
        return body
    return textwrap.dedent(body)


def _is_program(code: str) -> bool:
    tree = parse_program(code)
    return tree is not None and _does_something(tree)


def _does_something(tree: ast.Module) -> bool:
    """Whether it is more than words that happen to be an expression."""
    return any(
        isinstance(node.value, ast.Call) if isinstance(node, ast.Expr)
        else not isinstance(node, ast.AnnAssign) or node.value is not None  # "Answer: 42" is an annotation
        for node in tree.body
    )  # fmt: skip
