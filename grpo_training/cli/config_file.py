"""Reads the ``--config`` file of a command: YAML keys as the fields of its settings."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from engine.errors import InputError, MissingInputError
from grpo_training.cli.settings import Given, Settings, plain_type


def read_config(path: Path, model: type[Settings]) -> dict[str, Given]:
    """Field -> its value in a YAML file, which is not validated yet.

    Raises:
        MissingInputError: there is no such file.
        InputError: it is no YAML mapping, has an unknown key or one twice, or a value is plainly of another type.
    """
    values: dict[str, Given] = {}
    parts: dict[str, Given] = {}
    loaded = _load_yaml(path)
    unread = [str(key) for key, value in loaded.items() if key in model.sections_of_others and isinstance(value, dict)]
    if unread:
        print(f"{path}: not read here, as they belong to other commands: {', '.join(unread)}.", file=sys.stderr)
    read = {key: value for key, value in loaded.items() if str(key).replace("-", "_") not in unread}
    for key, value in _flat(path, model, read):
        if key not in model.model_fields and key not in model.aliases:
            declared = model.declared_keys()
            if key in declared.without_effect:
                print(f"{path}: {key} has no effect: {declared.without_effect[key]}.", file=sys.stderr)
                continue
            if key in declared.names:
                _set_once(parts, declared.names[key], Given(value, f"{path}: {key}"))
                continue
        name, value = model.translated(key, value, f"{path}: {key}") or (_field_name(path, model, key), value)
        expected = plain_type(model.model_fields[name].annotation)
        is_wrong = isinstance(value, bool) != (expected is bool) or (
            isinstance(value, str) and expected in (int, float)
        )
        if is_wrong and value is not None:
            raise InputError(f"{path}: {key}: expected {expected.__name__}, got {value!r}")
        _set_once(values, name, Given(value, f"{path}: {key}"))
    if parts:
        keys = ", ".join(given.source.removeprefix(f"{path}: ") for given in parts.values())
        collected = {name: given.value for name, given in parts.items()}
        _set_once(values, model.declared_keys().field, Given(collected, f"{path}: {keys}"))
    return values


def _set_once(values: dict[str, Given], name: str, given: Given) -> None:
    if name in values:
        key = values[name].source.partition(": ")[2]
        raise InputError(f"{given.source} and {key} set the same option", fix="Remove one of them.")
    values[name] = given


def _flat(path: Path, model: type[Settings], values: Mapping[Any, Any], section: str = "") -> Iterator[tuple[str, Any]]:
    """The pairs of a file, or of a section of it; those of a section as ``section.key``."""
    for written, value in values.items():
        key = section + str(written).replace("-", "_")
        if isinstance(value, dict) and (key in model.sections or model.declared_keys().is_section(key)):
            yield from _flat(path, model, value, f"{key}.")
        elif section or key not in model.sections:
            yield key, value
        elif value is not None:
            raise InputError(f"{path}: {key} is a section", fix="Put `key: value` lines below it.")


def _field_name(path: Path, model: type[Settings], key: str) -> str:
    """The field that a key of a file sets."""
    section, _, plain = key.rpartition(".")
    declared = model.declared_keys()
    if section not in model.sections and declared.is_section(section):
        plain = key  # in such a section, no other keys
    for spelling in (key, plain):
        if spelling in model.aliases:
            return model.aliases[spelling]
    if plain in model.model_fields:
        return plain
    known = [*model.model_fields, *model.aliases, *declared.names, *declared.without_effect]
    near = difflib.get_close_matches(plain, known, 1)
    raise InputError(
        f"Unknown key {key!r} in {path}",
        fix=f"Did you mean {near[0]!r}?" if near else f"Known keys: {', '.join(model.model_fields)}.",
    )


def _load_yaml(path: Path) -> Mapping[Any, Any]:
    """The mapping in a YAML file; empty for an empty file."""
    try:
        loaded = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506 - a SafeLoader
    except FileNotFoundError:
        shipped = Path(__file__).parents[1] / "configs" / path.name
        fix = f"A file of this name is part of the project: {shipped}" if shipped.is_file() else ""
        raise MissingInputError(f"Config file not found: {path}", fix=fix) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"Cannot read config file: {path}", why=str(error)) from None
    except (yaml.YAMLError, ValueError, LookupError, AttributeError) as error:  # also of values: the day 2024-02-30
        raise InputError(f"Config file is not valid YAML: {path}", why=str(error)) from None
    except RecursionError:
        raise InputError(f"Config file is not valid YAML: {path}", why="It is nested too deeply.") from None
    if not isinstance(loaded, dict | None):
        raise InputError(f"Config file must contain `key: value` lines: {path}")
    return loaded or {}


class _Loader(yaml.SafeLoader):
    """Refuses duplicate keys, and reads ``1e-6`` as a number, which YAML 1.1 reads as text."""


def _construct_mapping(loader: _Loader, node: yaml.MappingNode) -> Any:
    keys = [key.value for key, _ in node.value]
    for key in keys:
        if keys.count(key) > 1:
            raise yaml.YAMLError(f"duplicate key {key!r}")
    return yaml.SafeLoader.construct_mapping(loader, node, deep=True)


_Loader.add_constructor("tag:yaml.org,2002:map", _construct_mapping)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)
