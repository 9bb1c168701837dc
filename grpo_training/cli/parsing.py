"""Reads a command's settings from its command line and its ``--config`` file.

Precedence: command line > ``--config`` file > defaults. Of a mapping, the command line sets single keys.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from engine.errors import InputError
from engine.sandbox import ALLOW_WEAK
from grpo_training.cli.entry import CommandParser
from grpo_training.cli.settings import COMMON, ROOT, WORKING_DIR, Given, Settings, as_flag, plain_type

SettingsT = TypeVar("SettingsT", bound=Settings)

_RARE = {
    "--print-config": "print the resolved settings and exit",
    "--allow-weak-sandbox": "score programs also where only the isolation level rlimits works",
}


def parse_settings(model: type[SettingsT], argv: Sequence[str] | None, module: str) -> SettingsT:
    """Read a command's settings from its command line and its ``--config`` file.

    ``--help``, ``--help-all`` and ``--print-config`` print and exit with status 0.

    Args:
        model: the settings; their docstring is what the help says of the command.
        argv: the command line; None: that of the process.
        module: what ``python -m`` runs, with the step where the command has steps.

    Raises:
        InputError: an unknown key (with the nearest valid name), a wrong type or a value out of range; the message
            names the file and the key, or the flag.
    """
    words = sys.argv[1:] if argv is None else argv
    parser = _parser(model, f"python -m {module}", shows_all="--help-all" in words)
    given = vars(parser.parse_args(words))
    config, print_config = given.pop("config"), given.pop("print_config")
    if given.pop("allow_weak_sandbox"):
        os.environ[ALLOW_WEAK] = "1"  # worker processes inherit it
    values = {} if config is None else _in_file(config, model)
    for name, value in given.items():
        flag = Given(",".join(value) if isinstance(value, list) else value, as_flag(name))
        values[name] = _merged(values.get(name), flag)
    settings = validated(model, values, fix=f"See {parser.prog} {parser.full_help}.")
    if print_config:
        print(json.dumps(settings.model_dump(mode="json"), indent=2, ensure_ascii=False))
        raise SystemExit(0)
    return settings


def _merged(in_file: Given | None, flag: Given) -> Given:
    """The value of a flag; a JSON object sets single keys of the mapping that the file has."""
    if in_file is None or not isinstance(in_file.value, dict) or not isinstance(flag.value, str):
        return flag
    try:
        keys = json.loads(flag.value)
    except ValueError:  # reported when the value is validated
        return flag
    if not isinstance(keys, dict):
        return flag
    return Given(in_file.value | keys, f"{flag.source} and {in_file.source}")


def _in_file(path: Path, model: type[Settings]) -> dict[str, Given]:
    from grpo_training.cli.config_file import read_config  # it loads PyYAML, and most commands are given no file

    return read_config(path, model)


def settings_from_yaml(model: type[SettingsT], path: Path) -> SettingsT:
    """Read settings from a YAML file alone.

    Raises:
        MissingInputError: there is no such file.
        InputError: an unknown key, a wrong type or a value out of range; the message names the file and the key.
    """
    return validated(model, _in_file(path, model), fix=f"Edit {path}.")


def validated(model: type[SettingsT], values: dict[str, Given], *, fix: str) -> SettingsT:
    """The settings with these values, by field.

    Raises:
        InputError: a value is wrong; names where it was given.
    """
    values = model.without_overridden(values)
    try:
        return model.model_validate({name: given.value for name, given in values.items()})
    except ValidationError as error:
        raise InputError(_validation_text(error.errors()[0], values), fix=fix) from None


def _validation_text(error: ErrorDetails, values: Mapping[str, Given]) -> str:
    """A pydantic error as one sentence that names where the value was given."""
    name = str(error["loc"][0]) if error["loc"] else ""
    if error["type"] == "missing":
        return f"{name} is required: pass {as_flag(name)}, or set {name} in a --config file"
    message = str(error["msg"]).removeprefix("Value error, ")
    if not name:  # values that are valid alone but not together
        return message
    source = values[name].source if name in values else name
    expected = re.fullmatch(r"(int|float|bool)_(parsing|type)", error["type"])
    if expected:
        return f"{source}: expected {expected[1]}, got {error['input']!r}"
    return f"{source}: {message} (got {error['input']!r})"


def _parser(model: type[Settings], prog: str, *, shows_all: bool) -> CommandParser:
    """The parser of a command. Without ``shows_all`` its help has the common settings only, if some are marked."""
    description = " ".join((model.__doc__ or "").split())
    parser = CommandParser(prog=prog, usage="%(prog)s [--config FILE] [options]", description=description)
    own_fields = [model.model_fields[name] for name in model.__annotations__ if name in model.model_fields]
    marks_common = any(COMMON in field.metadata for field in own_fields)
    hides = marks_common and not shows_all
    hidden = 2 if hides else 0
    for title, names in model.groups().items():
        group = parser.add_argument_group(title)
        for name in names:
            field = model.model_fields[name]
            is_hidden = hides and COMMON not in field.metadata
            hidden += is_hidden and bool(field.description)
            _add_flags(group, model, name, field, is_hidden=is_hidden)
    group = parser.add_argument_group("configuration")
    group.add_argument("--config", type=Path, metavar="FILE", help="YAML file with any of these settings")
    for flag, text in _RARE.items():
        group.add_argument(flag, action="store_true", help=argparse.SUPPRESS if hides else text)
    if hides:
        parser.epilog = f"{hidden} more settings: --help-all"
    if marks_common:
        parser.full_help = "--help-all"
    return parser


def _add_flags(
    group: argparse._ArgumentGroup, model: type[Settings], name: str, field: FieldInfo, *, is_hidden: bool
) -> None:
    aliases = [alias for alias, meant in model.aliases.items() if meant == name and "." not in alias]
    flags = [as_flag(name), *(f"-{alias}" if len(alias) == 1 else as_flag(alias) for alias in aliases)]
    options: dict[str, Any] = {"dest": name, "default": argparse.SUPPRESS, "help": argparse.SUPPRESS}
    if field.description and not is_hidden:
        options["help"] = _help_text(field, aliases).replace("%", "%%")
    if plain_type(field.annotation) is bool:
        group.add_argument(*flags, action=argparse.BooleanOptionalAction, **options)
        return
    if get_origin(field.annotation) is tuple:
        options["nargs"] = "+"
    group.add_argument(*flags, metavar=_metavar(field.annotation), **options)


def _help_text(field: FieldInfo, aliases: Sequence[str]) -> str:
    text, default = field.description or "", field.default
    if aliases:
        text += f" (also {', '.join(map(as_flag, aliases))})"
    if field.is_required():
        return f"{text} (required)"
    if default is None or default is False or "(default:" in text:  # 0 == False, and 0 is a default to show
        return text
    if isinstance(default, Path):
        base = next((base for base in (WORKING_DIR, ROOT) if default.is_relative_to(base)), None)
        default = default.relative_to(base) if base else default
    elif isinstance(default, tuple):
        default = ",".join(map(str, default))
    return f"{text} (default: {default})"


def _metavar(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return "{" + ",".join(map(str, get_args(annotation))) + "}"
    return {int: "N", float: "X", Path: "PATH"}.get(plain_type(annotation), "TEXT")
