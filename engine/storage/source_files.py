"""Files of rows before they are parsed: compression, encoding, and what a file is that has no rows."""

from __future__ import annotations

import codecs
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, cast

from engine.errors import InputError, MissingInputError
from engine.storage.json_lines import bad_line

MAX_DOCUMENT_BYTES = 256 << 20
"""Limit of what is read as a whole: one JSON document. Parsed, it takes about five times its size."""

TABLE_LINE_BYTES = 1 << 20
"""Limit of a line of a table, and of a cell of it."""

_BEGIN = 4096
_GZIP = b"\x1f\x8b"
_MARKS = (
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8-sig"),
)
_AS_CSV = "Save it as CSV: in Excel Save As, CSV UTF-8."
_FOREIGN = {
    b"PK\x03\x04": ("a workbook of Excel, or another zip file", _AS_CSV + " Unpack another file."),
    b"version https://git-lfs": ("a pointer of Git LFS, not the file itself", "Fetch it: git lfs pull."),
}
"""First bytes of a file -> what it is, and the fix."""

_PAGES = (b"<!doctype", b"<html", b"<?xml")

_COMMON_CHINESE = frozenset(
    "的一是不了在有人我个这上们来到时大地为子中你说就那和要她出也得里后自以会家可下而过天去能对小多什么几怎吗"
)


@contextmanager
def file_errors(path: Path, needed: str = "") -> Iterator[None]:
    """Turn the errors of reading a file into one error that names it.

    Args:
        path: the file.
        needed: what a row needs, for the message about a missing file.

    Raises:
        MissingInputError: there is no such file.
        InputError: it cannot be read.
    """
    try:
        yield
    except FileNotFoundError as error:
        if isinstance(error, MissingInputError):
            raise
        why = "" if path.is_absolute() else f"The path is relative to the working folder, {Path.cwd()}."
        raise MissingInputError(f"Dataset file not found: {path}", why=why, fix=needed) from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path} is a damaged gzip file", why=str(error), fix="Fetch or pack it anew.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not {error.encoding}: {error.reason}", fix="Save the file as UTF-8.") from error
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror or error}", fix="Give a readable file.") from error


class SourceFile:
    """A file that can be read several times. What gzip has packed is unpacked.

    Attributes:
        path: the file.
        suffix: what its name ends in, without ``.gz``.
        begin: its first bytes.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
        with self.open() as handle:
            self.begin = handle.read(_BEGIN)

    def open(self) -> BinaryIO:
        """Open the file, from its first byte."""
        handle = self.path.open("rb")
        if handle.read(2) != _GZIP:
            handle.seek(0)
            return handle
        handle.close()
        return cast("BinaryIO", gzip.open(self.path))

    @property
    def marked(self) -> str:
        """The encoding that the file's byte order mark names; empty without one."""
        return next((encoding for mark, encoding in _MARKS if self.begin.startswith(mark)), "")

    def text(self, encoding: str) -> io.TextIOWrapper:
        """Open the file as text. Line ends are kept as they are."""
        return io.TextIOWrapper(self.open(), encoding=encoding, newline="")

    def refuse_foreign(self) -> None:
        """Name a file that has no rows, or none that are read.

        Raises:
            InputError: what it is, and what to do.
        """
        for mark, (kind, fix) in _FOREIGN.items():
            if self.begin.startswith(mark):
                raise InputError(f"{self.path} is {kind}", fix=fix)
        if self.begin.lstrip(codecs.BOM_UTF8).lstrip().lower().startswith(_PAGES):
            fix = "Download the file itself: on the web, by its link to the raw content."
            raise InputError(f"{self.path} is a page of HTML, or XML", fix=fix)
        if b"\0" in self.begin and self.marked != "utf-16":
            why = "It has bytes of value zero, as files without text have, and UTF-16 without a byte order mark."
            raise InputError(f"{self.path} is not a text file", why=why, fix="Save it as UTF-8.")

    @cached_property
    def encoding(self) -> str:
        """The encoding of a text: what its byte order mark says, else UTF-8, GB18030 or CP1252.

        GB18030 is taken if all bytes are Chinese in it, CP1252 if most letters are those of ASCII.

        Raises:
            InputError: the text has none of these encodings, or a line is too long.
        """
        marked = self.marked or "utf-8"
        line, fault, text = self._read_as(marked)
        if fault and not self.marked:
            _, broken, chinese = self._read_as("gb18030")
            if not broken and _is_chinese(chinese):
                return "gb18030"
            # A text with characters of UTF-8 before the fault is damaged UTF-8, which CP1252 would make unreadable.
            _, broken, western = self._read_as("cp1252")
            if not broken and text.isascii() and _is_western(western):
                return "cp1252"
        if not fault:
            return marked
        fix = (
            "Save the file as UTF-8 (in Excel: Save As, CSV UTF-8), or: iconv -f ENCODING -t UTF-8 OLD.csv > NEW.csv, "
            "where ENCODING is GB18030 for Chinese, SHIFT_JIS for Japanese, CP1251 for Russian, or UTF-16."
        )
        raise bad_line(self.path, line, f"not {marked.upper()}: {fault}", fix=fix)

    def _read_as(self, encoding: str) -> tuple[int, str, str]:
        """Read the text in an encoding: the line of its first fault, the fault or nothing, and a sample before it."""
        decoder = codecs.getincrementaldecoder(encoding)()
        line, fault, sample = 1, "", ""
        with self.open() as handle:
            while not fault:
                chunk = handle.read(TABLE_LINE_BYTES)
                try:
                    text = decoder.decode(chunk, final=not chunk)
                except UnicodeDecodeError as error:
                    fault = f"byte {error.object[error.start]:#04x}"
                    text = error.object[: error.start].decode(encoding, "ignore")
                if len(chunk) == TABLE_LINE_BYTES and "\n" not in text and "\r" not in text:
                    raise bad_line(self.path, line, f"the line is longer than {TABLE_LINE_BYTES:,} bytes")
                line += text.count("\n") or text.count("\r")
                if sample.isascii():
                    sample = text
                if not chunk:
                    break
        return line, fault, sample


def _is_chinese(text: str) -> bool:
    """Whether nearly all characters beyond ASCII are Chinese ones and signs, and common ones among them."""
    beyond = re.sub("[\0-\x7f]", "", text)
    letters = re.findall("[\u4e00-\u9fff]", beyond)
    signs = re.findall("[\u3000-\u303f\uff00-\uffef]", beyond)
    common = sum(letter in _COMMON_CHINESE for letter in letters)
    return len(letters) + len(signs) > 0.8 * len(beyond) and common > 0.03 * len(letters) > 0


def _is_western(text: str) -> bool:
    """Whether most letters are those of ASCII."""
    beyond = len(re.sub("[\0-\x7f]", "", text))
    return beyond < 0.3 * (beyond + len(re.findall("[A-Za-z]", text)))
