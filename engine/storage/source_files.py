"""Files of rows before they are parsed: compression, encoding, and what a file is that has no rows."""

from __future__ import annotations

import codecs
import gzip
import io
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from engine.errors import InputError, MissingInputError

MAX_LINE_BYTES = 1 << 20
"""Limit of a line; a longer one is refused before it is read completely."""

MAX_DOCUMENT_BYTES = 256 << 20
"""Limit of what is read as a whole: one JSON document, or a pipe. Parsed, it takes about five times its size."""

_BEGIN = 4096
_GZIP = b"\x1f\x8b"
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8-sig"),
)
_AS_CSV = "Save it as CSV: in Excel Save As, CSV UTF-8."
_WITH_PYARROW = "Convert it: pyarrow.parquet.write_table(TABLE, 'rows.parquet'), with TABLE read by pyarrow.{}."
_UNPACK = "Unpack it, and give one of its files."
_FOREIGN = (
    (0, b"PK\x03\x04", "a workbook of Excel, or another zip file", _AS_CSV),
    (0, b"\xd0\xcf\x11\xe0", "a workbook of Excel, or another file of Office", _AS_CSV),
    (0, b"ARROW1", "an Arrow file (Feather)", _WITH_PYARROW.format("feather.read_table")),
    (0, b"FEA1", "a Feather file", _WITH_PYARROW.format("feather.read_table")),
    (0, b"\xff\xff\xff\xff", "an Arrow stream", "Convert it: datasets.Dataset.from_file(FILE).to_json('rows.jsonl')."),
    (
        0,
        b"SQLite format 3\0",
        "an SQLite database",
        "Export it: sqlite3 -header -csv FILE 'SELECT ...' > rows.csv.",
    ),
    (0, b"%PDF", "a PDF document", "Give a file of rows."),
    (0, b"\x89PNG", "an image", "Give a file of rows."),
    (0, b"\xff\xd8\xff", "an image", "Give a file of rows."),
    (0, b"GIF8", "an image", "Give a file of rows."),
    (0, b"RIFF", "an image or a recording", "Give a file of rows."),
    (0, b"\x93NUMPY", "a NumPy array", "Write its rows as JSONL or CSV."),
    (0, b"\x89HDF", "an HDF5 file", "Write its rows as JSONL or CSV."),
    (0, b"\x80\x04\x95", "a pickle", "Write its rows as JSONL or CSV; pickles are not read, as they can run code."),
    (257, b"ustar", "a tar archive", _UNPACK),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", _UNPACK),
    (0, b"Rar!", "a rar archive", _UNPACK),
    (0, b"BZh", "compressed with bzip2", "Unpack it: bunzip2 FILE."),
    (0, b"\xfd7zXZ", "compressed with xz", "Unpack it: unxz FILE."),
    (0, b"\x28\xb5\x2f\xfd", "compressed with zstd", "Unpack it: unzstd FILE."),
    (0, b"version https://git-lfs", "a pointer of Git LFS, not the file itself", "Fetch it: git lfs pull."),
)
"""Where the mark of a file is, the mark, what the file is, and the fix."""

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


def bad_line(source: object, number: int, why: str, *, fix: str = "") -> InputError:
    """The error of a line."""
    return InputError(f"{source}, line {number}: {why}", fix=fix)


class SourceFile:
    """A file that can be read several times. What gzip has packed is unpacked; a pipe is kept in memory.

    Attributes:
        path: the file.
        suffix: what its name ends in, without ``.gz``.
        begin: its first bytes.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
        self._kept: bytes | None = None
        if path.exists() and not path.is_file() and not path.is_dir():
            with path.open("rb") as handle:
                self._kept = handle.read(MAX_DOCUMENT_BYTES)
        with self.open() as handle:
            self.begin = handle.read(_BEGIN)

    def open(self) -> BinaryIO:
        """Open the file, from its first byte."""
        handle = self.path.open("rb") if self._kept is None else io.BytesIO(self._kept)
        if handle.read(2) != _GZIP:
            handle.seek(0)
            return cast("BinaryIO", handle)
        handle.close()
        return cast("BinaryIO", gzip.open(self.path if self._kept is None else io.BytesIO(self._kept)))

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
        for place, mark, what, fix in _FOREIGN:
            if self.begin[place:].startswith(mark):
                what, fix = self._of_zip() or (what, fix)
                raise InputError(f"{self.path} is {what}", fix=fix.replace("FILE", str(self.path)))
        if self.begin.lstrip(codecs.BOM_UTF8).lstrip().lower().startswith(_PAGES):
            fix = "Download the file itself: on the web, by its link to the raw content."
            raise InputError(f"{self.path} is a page of HTML, or XML", fix=fix)
        if b"\0" in self.begin and self.marked not in ("utf-16", "utf-32"):
            why = "It has bytes of value zero, as files without text have, and UTF-16 without a byte order mark."
            raise InputError(f"{self.path} is not a text file", why=why, fix="Save it as UTF-8.")

    def _of_zip(self) -> tuple[str, str] | None:
        try:
            with zipfile.ZipFile(self.path) as packed:
                names = [name for name in packed.namelist() if not name.endswith("/")]
        except (OSError, ValueError, zipfile.BadZipFile):
            return None
        if any(name.startswith("xl/") for name in names):
            return "a workbook of Excel", _AS_CSV
        return f"a zip file with {', '.join(names[:5])}{', ...' if len(names) > 5 else ''}", _UNPACK

    @cached_property
    def encoding(self) -> str:
        """The encoding of a text: what its byte order mark says, else UTF-8, GB18030 or CP1252.

        GB18030 is taken if all bytes are Chinese in it, CP1252 if most letters are those of ASCII.

        Raises:
            InputError: the text has none of these encodings, or a line is too long.
        """
        marked = self.marked
        read = self._read_as(marked or "utf-8")
        if read.fault is None:
            return marked or "utf-8"
        # A text with characters of UTF-8 before the fault is damaged UTF-8, which CP1252 would make unreadable.
        others: dict[str, Callable[[_Read], bool]] = {} if marked else {"gb18030": _is_chinese, "cp1252": _is_western}
        for encoding, fits in others.items():
            tried = self._read_as(encoding)
            if tried.fault is None and fits(tried) and not (read.other and encoding == "cp1252"):
                return encoding
        fix = (
            "Save the file as UTF-8 (in Excel: Save As, CSV UTF-8), or: iconv -f ENCODING -t UTF-8 OLD.csv > NEW.csv, "
            "where ENCODING is GB18030 for Chinese, SHIFT_JIS for Japanese, CP1251 for Russian, or UTF-16."
        )
        raise bad_line(self.path, read.line, f"not {(marked or 'utf-8').upper()}: {read.fault}", fix=fix)

    def _read_as(self, encoding: str) -> _Read:
        """Read the whole text in an encoding, up to its first fault."""
        decoder = codecs.getincrementaldecoder(encoding)()
        line, letters, fault = 1, 0, None
        other: list[str] = []
        with self.open() as handle:
            while fault is None:
                chunk = handle.read(MAX_LINE_BYTES)
                try:
                    text = decoder.decode(chunk, final=not chunk)
                except UnicodeDecodeError as error:
                    fault = f"byte {error.object[error.start]:#04x}"
                    text = error.object[: error.start].decode(encoding, "ignore")
                if len(chunk) == MAX_LINE_BYTES and "\n" not in text and "\r" not in text:
                    raise bad_line(self.path, line, f"the line is longer than {MAX_LINE_BYTES:,} bytes")
                line += text.count("\n") or text.count("\r")
                if not text.isascii() and len(other) < _SEEN:
                    other += [one for one in text if one > "\x7f"]
                    letters += len(re.findall("[A-Za-z]", text))
                if not chunk:
                    break
        return _Read(line, fault, other, letters)


_SEEN = 100_000
"""Characters that decide about an encoding."""


class _Read(NamedTuple):
    line: int
    fault: str | None
    other: list[str]
    """Characters that are not ASCII, before the fault."""
    letters: int
    """Letters of ASCII beside them."""


def _is_chinese(read: _Read) -> bool:
    letters = [letter for letter in read.other if "\u4e00" <= letter <= "\u9fff"]
    signs = sum("\u3000" <= letter <= "\u303f" or "\uff00" <= letter <= "\uffef" for letter in read.other)
    common = sum(letter in _COMMON_CHINESE for letter in letters)
    return len(letters) + signs > 0.8 * len(read.other) and common > 0.03 * len(letters) > 0


def _is_western(read: _Read) -> bool:
    return len(read.other) < 0.3 * (len(read.other) + read.letters)
