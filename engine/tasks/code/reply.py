"""Reads the thinking and the program from a reply of a model.

Teacher traces, rewards and evaluation all use :func:`extract`, so that the code that is trained on is the code that is
run. Replies are untrusted: they are scanned once from left to right and parsed within limits. Nothing is executed.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import chain, islice

from engine.reading.python_syntax import parse

MAX_CODE = 200_000
"""Longest program that is read, in characters."""

_MOST_READ = 2 * MAX_CODE  # characters of a reply without its thinking, from its end
_MOST_MARKS = 2000  # marks that may begin or end a fence; what follows them is read as one text
_MOST_PARSED = 400_000  # characters that are parsed in the search for the program
_LEAST_PARSED = 400  # what a short text counts as

_CLOSING = re.compile(r"</(?i:think(?:ing)?)>")
_OPENING = re.compile(r"<(?i:think(?:ing)?)>")

_FIRST_LINE = re.compile(r"^(?:@|(?:async +def|def|class|import|from)\b)", re.MULTILINE)
_MOST_FIRST_LINES = 8  # lines at which a program without a fence may begin; a sentence may also begin with "from"
_MARK = re.compile(  # at most 40 characters of indentation, bullets and quote marks may stand before a fence
    r"(?P<margin>(?:\A|\n)[ \t>*-]{0,40})?(?P<run>`{3,}|~{3,})"
    r"(?P<info>[^\w`~\n]*(?P<tag>\w*)[^`~\n]*)(?P<ends>(?=\n|\Z))?"
)
_STRINGS = re.compile(  # also comments, whose quotes open no string
    r"""\#[^\n]*|(?P<quotes>\"{3}|'{3})(?:\\.|[^\\])*?(?:(?P<end>(?P=quotes))|\Z)"""
    r"""|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?""",
    re.DOTALL,
)


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

    thinking: str | None = field(compare=False)
    code: str | None
    status: ReplyStatus

    @cached_property
    def normalised(self) -> str | None:
        """The program without comments and layout; None if there is none that is valid Python."""
        if self.code is None or self.status is ReplyStatus.SYNTAX_ERROR:
            return None
        return normalised(self.code)


def extract(text: str, reasoning: str | None = None, entry_point: str | None = None, stub: str = "") -> CodeReply:
    """Read a reply.

    The thinking is ``reasoning`` if the endpoint returned it, else the text before the last ``</think>`` (the opening
    tag may be missing, because some chat templates put it into the prompt).

    The rest of the reply consists of fences and the texts between them. They are tried in this order, the last of each
    kind first: fences tagged as Python, other fences, fences that are not closed (status ``unclosed_fence``), texts.
    The program is the first of them that defines the entry point; if there is none, the first that does so as the
    continuation of the stub; if there is none, the last fence tagged as Python, else the first of them that is a
    program. In a text the program may begin after some sentences, at one of the first 8 lines that begin an import, a
    decorator or a definition.

    Does not raise for any text.

    Args:
        text: the reply.
        reasoning: the endpoint's ``reasoning`` or ``reasoning_content``.
        entry_point: the name that the tests call; None for a program that reads stdin.
        stub: the beginning of the program that the prompt gives.
    """
    thinking, rest = _split_thinking(text.replace("\r\n", "\n"))
    if reasoning is not None and reasoning.strip():
        thinking = reasoning.strip()
    reader = _Reader(entry_point, stub.rstrip())
    pieces = reader.pieces(rest[-_MOST_READ:])
    outside = "\n".join(piece.body for piece in pieces if piece.tag is None)
    if _OPENING.search(outside):  # a tag inside a fence is part of the program
        return CodeReply(thinking or _OPENING.sub("", rest, count=1).strip() or None, None, ReplyStatus.UNCLOSED_THINK)
    code, status = reader.code(pieces)
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
    for node in _outside_functions(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            if all(module.partition(".")[0] in sys.stdlib_module_names for module in modules):
                names.update((alias.asname or alias.name).partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def stub_indentation(stub: str) -> str:
    """The indentation of what continues a stub, which ends with a docstring, a comment or the line of a definition."""
    line = stub.rstrip().rpartition("\n")[2]
    return line[: len(line) - len(line.lstrip())] + "    " * line.endswith(":")


def _outside_functions(tree: ast.Module) -> Iterator[ast.AST]:
    """The nodes outside functions and classes, and these themselves."""
    nodes: list[ast.AST] = list(tree.body)
    for node in nodes:
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            nodes.extend(ast.iter_child_nodes(node))


def _split_thinking(text: str) -> tuple[str | None, str]:
    last = None
    for closing in _CLOSING.finditer(text):
        last = closing
    if last is None:
        return None, text
    before = text[: last.start()]
    opening = _OPENING.search(before)
    return before[opening.end() if opening else 0 :].strip() or None, text[last.end() :]


@dataclass(frozen=True)
class _Piece:
    """The body of a fence, or a text between fences, whose tag is None."""

    body: str
    tag: str | None
    is_closed: bool = True


class _Reader:
    """Divides a reply into fences and texts, and finds the program. It parses at most ``_MOST_PARSED`` characters."""

    def __init__(self, entry_point: str | None, stub: str) -> None:
        self._entry_point, self._stub = entry_point, stub
        self._left = _MOST_PARSED

    def pieces(self, text: str) -> list[_Piece]:
        """The fences and the texts between them, in order.

        A fence opens at the start of a line, or anywhere in a line if it is tagged as Python. It closes with at least
        as many ticks at the start or the end of a line. A fence tagged as Python at the start of a line also ends an
        open fence, which then counts as unclosed. Ticks in a string of a program neither open nor close a fence.
        """
        marks = list(islice(_MARK.finditer(text), _MOST_MARKS))
        pieces: list[_Piece] = []
        opener: re.Match[str] | None = None
        start = position = 0
        while True:
            tag = None if opener is None else opener["tag"].lower()
            ends = _ends(opener, marks, position)
            end = self._end(text, start, tag, marks, ends)
            mark = None if end is None else marks[end]
            is_closed = opener is None or (mark is not None and _closes(opener, mark))
            pieces.append(_Piece(text[start : mark.start() if mark else None], tag, is_closed))
            if mark is None or end is None:
                return pieces
            position = end + 1
            if opener is not None and is_closed:
                opener, start = None, mark.end("run")
            else:
                opener, start = mark, mark.end("tag") if mark["ends"] is None else mark.end() + 1

    def _end(
        self, text: str, start: int, tag: str | None, marks: Sequence[re.Match[str]], ends: Iterator[int]
    ) -> int | None:
        """The mark that ends the piece that begins at ``start``; None is the end of the text.

        It is the first that can, or if that one is in a string, the first at which the piece is a program.
        """
        first = next(ends, None)
        if first is not None and _ends_in_string(text[start : marks[first].start()]):
            for later in chain(ends, [None]):
                body = text[start : None if later is None else marks[later].start()]
                self._left -= max(len(body), _LEAST_PARSED)
                if self._left < 0:
                    break
                if not _ends_in_string(body) and self._first(_Piece(body, tag), _does_something):
                    return later
        return first

    def code(self, pieces: Sequence[_Piece]) -> tuple[str | None, ReplyStatus]:
        """The program and the status; see :func:`extract`."""
        texts = [piece for piece in reversed(pieces) if piece.tag is None]
        fences = [piece for piece in reversed(pieces) if piece.tag is not None]
        tagged = [fence for fence in fences if fence.is_closed and _is_python(fence.tag)]
        others = [fence for fence in fences if fence.is_closed and not _is_python(fence.tag)]
        unclosed = [fence for fence in fences if not fence.is_closed and (not fence.tag or _is_python(fence.tag))]
        every = [*tagged, *others, *unclosed, *texts]
        untagged = [fence for fence in others if not fence.tag]
        tries = [(self._defining, every), (self._continuing, every)] if self._entry_point else [(self._doing, unclosed)]
        for read, tried in [*tries, (self._doing, [] if tagged else [*untagged, *texts])]:
            for piece in tried:
                if code := read(piece):
                    return code, ReplyStatus.OK if piece.is_closed else ReplyStatus.UNCLOSED_FENCE
        if tagged:
            code = _unindented(tagged[0].body)
            if not code.strip() or len(code) > MAX_CODE:
                return None, ReplyStatus.NO_CODE
            return code, ReplyStatus.OK if parse_program(code) else ReplyStatus.SYNTAX_ERROR
        return None, ReplyStatus.UNCLOSED_FENCE if fences and not fences[0].is_closed else ReplyStatus.NO_CODE

    def _parse(self, code: str) -> ast.Module | None:
        self._left -= max(len(code), _LEAST_PARSED)
        return parse_program(code) if self._left >= 0 else None

    def _defining(self, piece: _Piece) -> str | None:
        """The program of a piece if it defines the entry point."""
        name = self._entry_point or ""
        return self._first(piece, lambda tree: name in defined_names(tree)) if name in piece.body else None

    def _doing(self, piece: _Piece) -> str | None:
        """The program of a piece if it does something. Only where no name is required, text may stand before it."""
        return self._first(piece, _does_something, whole=self._entry_point is not None)

    def _first(self, piece: _Piece, accepts: Callable[[ast.Module], bool], *, whole: bool = False) -> str | None:
        for code in chain([_unindented(piece.body)], () if whole or piece.tag is not None else _parts(piece.body)):
            if self._left < 0:
                break
            tree = self._parse(code)
            if tree is not None and accepts(tree):
                return code
        return None

    def _continuing(self, piece: _Piece) -> str | None:
        """The stub with the piece as its continuation, if the piece is no program by itself."""
        body = piece.body.strip("\n")
        if not self._stub or not body.strip() or self._left < 0:
            return None
        alone = self._parse(body)
        if alone is not None and not _returns(alone):
            return None
        for code in _continuations(self._stub, body):
            tree = self._parse(code)
            if tree is not None and not _returns(tree) and self._entry_point in defined_names(tree):
                return code
        return None


def _is_python(tag: str | None) -> bool:
    return tag is not None and tag.startswith(("py", "ipy"))


def _opens_python(mark: re.Match[str]) -> bool:
    """Whether it is a fence tagged as Python that fills a line."""
    return mark["margin"] is not None and mark["ends"] is not None and _is_python(mark["tag"].lower())


def _closes(opener: re.Match[str], mark: re.Match[str]) -> bool:
    if _opens_python(mark) or not mark["run"].startswith(opener["run"]):
        return False
    ends_line = mark["ends"] is not None and not mark["info"].strip()
    is_inline = mark.start("run") == opener.end()  # ```python f = 1``` within a line
    return mark["margin"] is not None or ends_line or is_inline


def _opens(mark: re.Match[str]) -> bool:
    if mark["ends"] is None:
        return _is_python(mark["tag"].lower()) and mark.string.startswith(mark["run"], mark.end())
    return mark["margin"] is not None or _is_python(mark["tag"].lower())


def _ends(opener: re.Match[str] | None, marks: Sequence[re.Match[str]], first: int) -> Iterator[int]:
    """The marks from the first on that can end the open fence, or if there is none, the text before the next one."""
    for index in range(first, len(marks)):
        mark = marks[index]
        if _opens(mark) if opener is None else _opens_python(mark) or _closes(opener, mark):
            yield index


def _ends_in_string(code: str) -> bool:
    """Whether a string in triple quotes is open at the end of the code."""
    return any(string["quotes"] and string["end"] is None for string in _STRINGS.finditer(code))


def _unindented(body: str) -> str:
    """The body of a fence as code, without the indentation of a list item."""
    body = body.strip("\n")
    return textwrap.dedent(body) if len(body) <= MAX_CODE and body[:1] in (" ", "\t") else body


def _parts(text: str) -> Iterator[str]:
    """The ends of a text that begin with the first line of a program."""
    for first in islice(_FIRST_LINE.finditer(text), _MOST_FIRST_LINES):
        yield _unindented(text[first.start() :])


def _continuations(stub: str, body: str) -> Iterator[str]:
    """A stub with its continuation, whose indentation may be missing, whole or in its first line."""
    if body[:1].isspace():
        yield f"{stub}\n{body}"
    indentation = stub_indentation(stub)
    yield f"{stub}\n{textwrap.indent(textwrap.dedent(body), indentation)}"
    yield f"{stub}\n{indentation}{body.lstrip()}"


def _returns(tree: ast.Module) -> bool:
    """Whether there is a return or yield outside functions, which Python parses but does not run."""
    return any(isinstance(node, ast.Return | ast.Yield | ast.YieldFrom) for node in _outside_functions(tree))


def _does_something(tree: ast.Module) -> bool:
    """Whether the program has a statement with an effect. Prose can parse as a bare expression, which has none."""
    return any(
        isinstance(node.value, ast.Call) if isinstance(node, ast.Expr)
        else not isinstance(node, ast.AnnAssign) or node.value is not None  # "Answer: 42" is an annotation
        for node in tree.body
    )  # fmt: skip
