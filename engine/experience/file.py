"""The JSON file of a library: what prompts are made of. People and other programs may write it too."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from engine.errors import InputError
from engine.experience.state import LibraryState, number_of
from engine.experience.text_checks import category_slug, check_text
from engine.records import Experience, first_fault

_ID = re.compile(r"[A-Za-z0-9_]{1,16}-\d{1,9}")
_FIX = "Correct the entry, or delete it from the file."


class LibraryRenderer:
    """The content of the file for the states of one library: an array of the experiences, oldest first.

    Equal states give equal bytes. Only new and changed experiences are written anew.
    """

    def __init__(self) -> None:
        self._texts: dict[str, tuple[Experience, bytes]] = {}

    def render(self, state: LibraryState) -> bytes:
        """The content of the file."""
        known = self._texts
        self._texts = {
            entry.id: kept if (kept := known.get(entry.id)) is not None and kept[0] is entry else self._text(entry)
            for entry in state.experiences
        }
        content = b",\n".join([rendered for _, rendered in self._texts.values()])
        return b"[\n" + content + b"\n]\n" if content else b"[]\n"

    @staticmethod
    def _text(experience: Experience) -> tuple[Experience, bytes]:
        return experience, b"  " + experience.model_dump_json(indent=2).encode().replace(b"\n", b"\n  ")


def as_library(entries: Sequence[Experience], state: LibraryState, prefix: str, at: str) -> list[Experience]:
    """The entries of a file as the experiences of a library.

    An entry belongs to the experience with its id, else to the one with its content, and keeps what it does not say of
    it. Any other entry keeps an id that the library has never given, or gets a new one: no id is used twice.

    Args:
        entries: from :func:`parse_library`.
        state: the library before.
        prefix: of new ids.
        at: the time of new experiences.
    """
    known = {experience.id: experience for experience in (*state.retired, *state.forbidden, *state.live)}
    by_content = {entry.content: entry.id for entry in state.live}
    number = max([state.next_number - 1, *(number_of(experience.id) for experience in entries)])
    library: dict[str, Experience] = {}
    for entry in entries:
        is_free = number_of(entry.id) >= state.next_number
        name = entry.id if entry.id in known or is_free else by_content.get(entry.content, "")
        if not name or name in library:
            number += 1
            name = f"{prefix}-{number:03d}"
        fields = {key: getattr(entry, key) for key in entry.model_fields_set} | {"id": name}
        merged = known.get(name, entry).model_copy(update=fields)
        library[name] = merged if merged.created_at else merged.model_copy(update={"created_at": at})
    return list(library.values())


def parse_library(content: bytes, path: Path) -> list[Experience]:
    """Parse a library file that a person or another program wrote.

    Args:
        content: an array of objects; ``content`` is required in each, all other keys are optional.
        path: named in errors.

    Returns:
        its entries. One without a valid id has the id ``""``.

    Raises:
        InputError: with the place, the reason and a fix.
    """
    try:
        raw = json.loads(content.decode("utf-8-sig"))
    except ValueError as error:  # also of bytes that are no UTF-8
        log = path.with_suffix(".ops.jsonl")
        again = f" Or delete {path.name}: it is written again as {log.name} has it."
        fix = f"Correct it.{again if log.is_file() else ''}"
        raise InputError(f"{path} is not JSON", why=f"{error}.", fix=fix) from None
    if not isinstance(raw, list):
        raise InputError(f"{path}: expected an array of experiences, got {type(raw).__name__}")
    return [_entry(value, number, path) for number, value in enumerate(raw, 1)]


def _entry(raw: Any, number: int, path: Path) -> Experience:
    """One entry, checked except for leaks of its problem's answer."""
    where = f"{path}, entry {number}"
    if not isinstance(raw, dict) or not isinstance(raw.get("content"), str):
        raise InputError(f"{where}: expected an object with the text 'content'", fix=_FIX)
    fields = {key: value for key, value in raw.items() if value is not None}
    entry_id = str(fields.get("id", "")).strip().upper()
    fields |= {"id": entry_id if _ID.fullmatch(entry_id) else "", "content": fields["content"].strip()}
    if "category" in fields:
        fields["category"] = category_slug(str(fields["category"]))
    if "source_problem" in fields:
        fields["source_problem"] = str(fields["source_problem"])
    try:
        entry = Experience.model_validate(fields)
    except ValidationError as error:
        raise InputError(f"{where}: {first_fault(error)}", fix=_FIX) from None
    if reason := check_text(entry.content, kind=entry.kind):
        raise InputError(f"{where} ({entry_id or 'no id'}): {reason.message}", fix=_FIX)
    return entry
