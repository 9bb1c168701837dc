"""Reads YAML files of settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from engine.errors import InputError, MissingInputError


def load_yaml(path: Path) -> Mapping[Any, Any]:
    """The mapping in a YAML file; empty for an empty file.

    Raises:
        InputError: the file cannot be read, is not valid YAML, has a key twice, or is no mapping.
    """
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
