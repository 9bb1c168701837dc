"""Reads the thinking and the program from a reply of a model.

Teacher traces, rewards and evaluation all use :func:`extract`, so that the code that is trained on is the code that is
run. Replies are untrusted: they are scanned once from left to right and parsed within limits. Nothing is executed.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from engine.reading.python_syntax import parse

MAX_CODE = 200_000
"""Longest program that is read, in characters."""

_MOST_PARSED = 400_000  # characters that are parsed in the search for the entry point
_MOST_FENCES = 64  # fences that are examined, starting with the last
_MOST_DOCSTRINGS = 8  # ticks in docstrings that are left out
_PYTHON = frozenset({"python", "python3", "py", "py3"})

_CLOSING = re.compile(r"</(?i:think(?:ing)?)>")
_OPENING = re.compile(r"<(?i:think(?:ing)?)>")

_FIRST_LINE = re.compile(r"^(?:@|(?:async +def|def|class|import|from)\b)", re.MULTILINE)
_MOST_FIRST_LINES = 8  # lines at which a program without a fence may begin; a sentence may also begin with "from"
_MARGIN = 40  # most characters of indentation, bullets and quote marks before a fence
_LINE_START = re.compile(r"(?:\A|\n)[ \t>*-]*\Z")
_TICKS = re.compile(r"(?P<run>`{3,}|~{3,})(?P<info>[^\w`~\n]*(?P<tag>\w*)[^`~\n]*)")


class ReplyStatus(StrEnum):
    """Result of reading a reply. Only replies with ``OK`` are used as training data."""

    OK = "ok"
    NO_CODE = "no_code"
    UNCLOSED_THINK = "unclosed_think"
    UNCLOSED_FENCE = "unclosed_fence"
    SYNTAX_ERROR = "syntax_error"


@dataclass(frozen=True)
class CodeReply:
    """The parts of a reply.

    Args:
        thinking: the reasoning before the program; None if there is none.
        code: the program; None if there is none. With ``syntax_error`` it is not valid Python. With
            ``unclosed_fence`` it is set only if the text after the opening fence is a complete program.
        status: the result of reading the reply.
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

    The thinking is ``reasoning`` if the endpoint returned it, else the text before the last ``</think>`` (the opening
    tag may be missing, because some chat templates put it into the prompt). The program is the first of these that
    exists after the thinking:

    1. the last fence tagged as Python that defines the entry point,
    2. the last untagged fence that defines it,
    3. an unclosed last fence that holds a complete program (status ``unclosed_fence``),
    4. the last fence tagged as Python,
    5. the last untagged fence that is a Python program,
    6. without a fence, the whole text if it is a Python program, else the text from the first line that begins an
       import, a decorator or a definition (8 are tried), if it is a program that defines the entry point.

    Does not raise for any text.

    Args:
        text: the reply.
        reasoning: the endpoint's ``reasoning`` or ``reasoning_content``.
        entry_point: the name that the tests call; None for a program that reads stdin.
    """
    thinking, rest = _split_thinking(text.replace("\r\n", "\n"))
    if reasoning is not None and reasoning.strip():
        thinking = reasoning.strip()
    fences, outside = _fences(rest)
    if _OPENING.search(outside):  # a tag inside a fence is part of the program
        return CodeReply(thinking or _OPENING.sub("", rest, count=1).strip() or None, None, ReplyStatus.UNCLOSED_THINK)
    code, status = _code(fences, rest, entry_point)
    return CodeReply(thinking, code, status)


def parse_program(code: str) -> ast.Module | None:
    """The syntax tree of a program; None if it is not valid Python or exceeds the limits."""
    if len(code) > MAX_CODE:
        return None
    try:
        return parse(code)
    except ValueError:
        return None


def normalised(code: str) -> str | None:
    """The program without comments, docstrings and layout; None if it is not valid Python.

    Programs that differ only in these have the same normalised text.
    """
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
    """The names that a program binds outside its functions and classes.

    A name that it imports from elsewhere than the standard library, as a test of a solution does, is not among them.
    """
    names: set[str] = set()
    nodes: list[ast.AST] = list(tree.body)
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            parts = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            if all(part.partition(".")[0] in sys.stdlib_module_names for part in parts):
                names.update((alias.asname or alias.name).partition(".")[0] for alias in node.names)
        else:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            nodes.extend(ast.iter_child_nodes(node))
    return names


def _split_thinking(text: str) -> tuple[str | None, str]:
    last = None
    for closing in _CLOSING.finditer(text):
        last = closing
    if last is None:
        return None, text
    before = text[: last.start()]
    opening = _OPENING.search(before)
    return before[opening.end() if opening else 0 :].strip() or None, text[last.end() :]


def _fences(text: str) -> tuple[list[_Fence], str]:
    """The fences of a text in order, and the text outside of them.

    A fence opens at the start of a line, or anywhere in a line if it is tagged as Python. It closes with at least as
    many ticks at the start or the end of a line. A fence tagged as Python at the start of a line also ends an open
    fence, which then counts as unclosed. Ticks in a docstring close none.
    """
    fences: list[_Fence] = []
    outside: list[str] = []
    start = at = 0  # where the open fence's body starts; where the text outside starts
    run = language = ""
    docstrings = 0
    for ticks in _TICKS.finditer(text):
        info = ticks["info"].strip()
        tag = ticks["tag"].lower()
        ends_line = ticks.end() == len(text) or text[ticks.end()] == "\n"
        starts_line = _LINE_START.search(text, max(0, ticks.start() - _MARGIN), ticks.start()) is not None
        opens_python = starts_line and ends_line and tag in _PYTHON
        if run and ticks["run"].startswith(run) and (starts_line or (ends_line and not info)) and not opens_python:
            if docstrings < _MOST_DOCSTRINGS and language in _PYTHON and _ends_in_string(text[start : ticks.start()]):
                docstrings += 1
                continue
            fences.append(_Fence(language, text[start : ticks.start()], is_closed=True))
            run, at = "", ticks.start() + len(ticks["run"])
        elif run and not opens_python:
            continue
        elif ends_line and (starts_line or tag in _PYTHON):
            if run:
                fences.append(_Fence(language, text[start : ticks.start()], is_closed=False))
            else:
                outside.append(text[at : ticks.start()])
            run, language, start = ticks["run"], tag, ticks.end() + 1
        elif tag in _PYTHON and text.startswith(ticks["run"], ticks.end()):  # ```python f = 1``` within a line
            outside.append(text[at : ticks.start()])
            fences.append(_Fence(tag, text[ticks.end("tag") : ticks.end()].strip(), is_closed=True))
            at = ticks.end() + len(ticks["run"])
    if run:
        fences.append(_Fence(language, text[start:], is_closed=False))
    else:
        outside.append(text[at:])
    return fences, "\n".join(outside)


def _ends_in_string(code: str) -> bool:
    """Whether a string in triple quotes is open at the end of the code."""
    if len(code) > MAX_CODE or not (code.count('"""') % 2 or code.count("'''") % 2):
        return False
    try:
        parse(_dedented(code))
    except ValueError as error:
        return "unterminated triple-quoted" in str(error)
    return False


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
    found = _unfenced(rest.strip(), entry_point)
    return found, ReplyStatus.OK if found else ReplyStatus.NO_CODE


def _defining(fences: list[_Fence], entry_point: str) -> str | None:
    """The code of the last fence that defines the name."""
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
    """The code of an unclosed last fence if it is a complete program, with the entry point if one is required."""
    if not fences or fences[-1].is_closed or fences[-1].language not in (*_PYTHON, ""):
        return None
    code = _dedented(fences[-1].body)
    tree = parse_program(code)
    if tree is None or not _does_something(tree):
        return None
    return code if entry_point is None or entry_point in defined_names(tree) else None


def _unfenced(text: str, entry_point: str | None) -> str | None:
    """The program of a text without fences; a sentence may stand before it."""
    if _is_program(text):
        return text
    for first in islice(_FIRST_LINE.finditer(text), _MOST_FIRST_LINES):
        code = text[first.start() :]
        tree = parse_program(code)
        if tree is not None and (entry_point is None or entry_point in defined_names(tree)):
            return code
    return None


def _dedented(body: str) -> str:
    """The body without the indentation that it has inside a list item."""
    body = body.strip("\n")
    if len(body) > MAX_CODE or body[:1] not in (" ", "\t"):
        return body
    return textwrap.dedent(body)


def _is_program(code: str) -> bool:
    tree = parse_program(code)
    return tree is not None and _does_something(tree)


def _does_something(tree: ast.Module) -> bool:
    """Whether the program has a statement with an effect. Prose can parse as a bare expression, which has none."""
    return any(
        isinstance(node.value, ast.Call) if isinstance(node, ast.Expr)
        else not isinstance(node, ast.AnnAssign) or node.value is not None  # "Answer: 42" is an annotation
        for node in tree.body
    )  # fmt: skip
