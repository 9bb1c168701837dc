"""The JSON file of a library: written for people and other programs, and read back after manual edits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from engine.errors import InputError
from engine.experience.review import category_slug, check_text
from engine.experience.state import LibraryState
from engine.records import Experience, Operation

_MAX_BYTES = 16 << 20
_ID = re.compile(r"[A-Za-z0-9_]{1,16}-\d{1,9}")
_FIX = "Correct the entry, or delete it from the file."


class LibraryRenderer:
    """The content of the file for the states of one library: an array of the experiences, oldest first.

    Equal states give equal bytes. Only new and changed experiences are written anew.
    """

    def __init__(self) -> None:
        self._texts: dict[str, tuple[Experience, Experience, bytes]] = {}
        self._last: tuple[LibraryState | None, bytes] = (None, b"")

    def render(self, state: LibraryState) -> bytes:
        """The content of the file."""
        last, rendered = self._last
        if last is not state:
            content = b",\n".join(self._text(state, one) for one in state.texts)
            rendered = b"[\n" + content + b"\n]\n" if content else b"[]\n"
            self._last = state, rendered
        return rendered

    def _text(self, state: LibraryState, one: Experience) -> bytes:
        shown, known = state.with_uses(one), self._texts.get(one.id)
        if known is None or known[0] is not one or (known[1].uses, known[1].trial) != (shown.uses, shown.trial):
            lines = shown.model_dump_json(indent=2).encode().replace(b"\n", b"\n  ")
            known = self._texts[one.id] = (one, shown, b"  " + lines)
        return known[2]


def as_import(entries: Sequence[Experience], prefix: str, at: str) -> list[Experience]:
    """The entries of a file as a new library. Valid ids are kept; missing and repeated ones are assigned."""
    number = max((int(entry.id.rpartition("-")[2]) for entry in entries if entry.id), default=0)
    seen: set[str] = set()
    imported = []
    for entry in entries:
        entry_id = entry.id
        if not entry_id or entry_id in seen:
            number += 1
            entry_id = f"{prefix}-{number:03d}"
        seen.add(entry_id)
        imported.append(entry.model_copy(update={"id": entry_id, "created_at": entry.created_at or at}))
    return imported


def as_edits(entries: Sequence[Experience], state: LibraryState) -> list[Operation]:
    """The operations that turn a state into the entries of a file.

    An entry is matched to the experience with its id, else to the one with its content. An entry without a match
    is added with a new id; an experience without an entry is deleted.
    """
    by_content = {one.content: one for one in state.experiences}
    matched: dict[str, Experience] = {}
    new = []
    for entry in entries:
        known = state.get(entry.id) or by_content.get(entry.content)
        if known is not None and known.id not in matched:
            matched[known.id] = entry
        else:
            new.append(entry)
    operations = [Operation(op="delete", id=one.id) for one in state.experiences if one.id not in matched]
    for one in state.experiences:
        operations.extend(_edits_of(one, matched[one.id]) if one.id in matched else ())
    operations.extend(map(addition, new))
    return operations


def addition(entry: Experience) -> Operation:
    """The operation that adds an entry of another library, with the problems that it was learned from."""
    return Operation(
        op="add",
        content=entry.content,
        category=entry.category,
        source_problem=entry.source_problem,
        evidence=tuple(entry.evidence),
    )


def _edits_of(known: Experience, entry: Experience) -> Iterator[Operation]:
    if entry.status == "deleted":
        yield Operation(op="delete", id=known.id)
        return
    if (entry.content, entry.category) != (known.content, known.category):
        yield Operation(op="modify", id=known.id, content=entry.content, category=entry.category)
    if entry.status != known.status:
        yield Operation(op="pin" if entry.status == "pinned" else "unpin", id=known.id)


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
    if len(content) > _MAX_BYTES:
        raise InputError(f"{path} has {len(content)} bytes; a library file has at most {_MAX_BYTES}")
    try:
        raw = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        log = path.with_suffix(".ops.jsonl")
        again = f" Or delete {path.name}: it is written again from {log.name}, which holds the library."
        fix = f"Correct it.{again if log.is_file() else ''}"
        raise InputError(f"{path} is not JSON", why=f"{error}.", fix=fix) from None
    if not isinstance(raw, list):
        raise InputError(f"{path}: expected an array of experiences, got {type(raw).__name__}")
    return [entry for place, one in enumerate(raw, 1) if (entry := _entry(one, place, path))]


def _entry(raw: Any, place: int, path: Path) -> Experience | None:
    """One entry, checked except for leaks of its problem's answer; None if it is marked as deleted."""
    where = f"{path}, entry {place}"
    if not isinstance(raw, dict) or not isinstance(raw.get("content"), str):
        raise InputError(f"{where}: expected an object with the text 'content'", fix=_FIX)
    fields = {key: value for key, value in raw.items() if value is not None}
    entry_id = str(fields.get("id", "")).strip().upper()
    fields |= {
        "id": entry_id if _ID.fullmatch(entry_id) else "",
        "content": fields["content"].strip(),
        "category": category_slug(str(fields.get("category", ""))),
        "source_problem": str(fields.get("source_problem", "")),
    }
    if reason := check_text(fields["content"]):
        raise InputError(f"{where} ({entry_id or 'no id'}): {reason.message}", fix=_FIX)
    try:
        entry = Experience.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{where}: {field}: {first['msg']}", fix=_FIX) from None
    return None if entry.status == "deleted" else entry
