"""Name, tags and note of a folder of results: ``notes.json`` in it, written by hand or by the form of the viewer."""

from __future__ import annotations

import functools
import json
import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from engine.errors import InputError
from engine.reading.control_characters import as_one_line, without_control_characters
from engine.storage.append_log import replace_file
from engine.storage.file_stamp import FileStamp, file_stamp

NOTES = "notes.json"
_MAX_NAME, _MAX_TAGS, _MAX_TAG, _MAX_NOTE = 100, 20, 40, 4000
_MAX_BYTES = 1 << 20
_WRITING = threading.Lock()


class _File(msgspec.Struct):
    name: str = ""
    tags: list[str] = []
    note: str = ""


@dataclass(frozen=True)
class Notes:
    """What a person wrote about the results of a folder; ``error``: why the file cannot be read."""

    name: str = ""
    tags: tuple[str, ...] = ()
    note: str = ""
    error: str = ""


def notes_of(folder: Path) -> Notes:
    """The notes of a folder; empty without a file."""
    path = folder / NOTES
    stamp = file_stamp(path)
    return Notes() if stamp is None else _notes_as_of(path, stamp)


def write_notes(folder: Path, name: str, tags: str, note: str) -> None:
    """Write the notes of a folder.

    Args:
        folder: of results.
        name: at most 100 characters.
        tags: separated by commas; at most 20, of at most 40 characters each.
        note: at most 4,000 characters.

    Raises:
        InputError: one of them is too long, there is a file that is not one of notes, or it cannot be written.
    """
    earlier = notes_of(folder)
    if earlier.error:
        raise InputError(earlier.error, fix="Correct the file, or delete it.")
    listed = _tags(re.split(r"[,，\n]", tags))
    name, note = as_one_line(name).strip(), without_control_characters(note.replace("\r\n", "\n")).strip()
    if len(name) > _MAX_NAME or len(note) > _MAX_NOTE:
        raise InputError(f"The name has at most {_MAX_NAME} characters, and the note {_MAX_NOTE}")
    if len(listed) > _MAX_TAGS or any(len(tag) > _MAX_TAG for tag in listed):
        raise InputError(f"There are at most {_MAX_TAGS} tags of at most {_MAX_TAG} characters")
    content = {"name": name, "tags": listed, "note": note}
    text = json.dumps(content, ensure_ascii=False, indent=2) + "\n"
    try:
        with _WRITING:
            replace_file(folder / NOTES, text.encode(errors="replace"))
    except OSError as error:
        raise InputError(f"Cannot write {folder / NOTES}", why=str(error.strerror)) from None


@functools.lru_cache(maxsize=4096)
def _notes_as_of(path: Path, stamp: FileStamp) -> Notes:
    if stamp.size > _MAX_BYTES:
        return Notes(error=f"{path} is larger than {_MAX_BYTES >> 20} MiB")
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_File)
    except (OSError, msgspec.MsgspecError, RecursionError) as error:
        return Notes(error=f"{path} is not a file of notes: {error}"[:300])
    tags = tuple(tag[:_MAX_TAG] for tag in _tags(found.tags)[:_MAX_TAGS])
    return Notes(as_one_line(found.name)[:_MAX_NAME], tags, found.note[:_MAX_NOTE])


def _tags(tags: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(tag for one in tags if (tag := as_one_line(one).strip())))
