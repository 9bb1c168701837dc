"""A command's settings: one pydantic model gives the flags, reads the YAML and checks the values.

Precedence: command line > ``--config`` file > defaults.
"""

from __future__ import annotations

import argparse
import copy
import difflib
import json
import re
import types
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from engine.errors import InputError, MissingInputError
from engine.shipped_files import shipped_file
from grpo_training.cli.entry import CommandParser

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path(__file__).resolve().parents[2]
"""The folder that holds the packages: a checkout, or site-packages."""
WORKING_DIR = Path.cwd()
"""Files that commands write are below the folder in which the command was started."""
POCKET_MODEL = shipped_file("models/pocket")

Positive = Annotated[int, Field(gt=0)]
Weight = Annotated[float, Field(ge=0)]


class Settings(BaseModel):
    """Base of all commands' settings: unknown keys and wrong types are errors.

    A command whose settings also come from other people's files says how their keys are meant:
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False, protected_namespaces=()
    )

    groups: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Title of a group in ``--help`` -> its fields, the commonest first. Other fields are listed at the end."""
    aliases: ClassVar[Mapping[str, str]] = {}
    """Other spelling -> field, on the command line and in YAML; ``section.key`` holds inside that section only."""
    sections: ClassVar[frozenset[str]] = frozenset()
    """YAML keys that are headings: what stands under them is read as if it stood at the left."""
    refused: ClassVar[Mapping[str, str]] = {}
    """YAML keys (also headings) that others use and this command does not take -> why, or what to say instead."""

    @field_validator("*")
    @classmethod
    def _expand_user(cls, value: Any) -> Any:
        return value.expanduser() if isinstance(value, Path) else value


SettingsT = TypeVar("SettingsT", bound=Settings)


def parse_settings(model: type[SettingsT], argv: Sequence[str] | None, *, prog: str, description: str) -> SettingsT:
    """Read a command's settings from its command line and its ``--config`` file.

    ``--help`` and ``--print-config`` print and end the process with status 0.

    Raises:
        InputError: an unknown key (with the nearest valid name), a wrong type, a value out of range; it names
            the file and the key, or the flag.
    """
    usage = "%(prog)s [--config FILE] [options]"
    parser = CommandParser(prog=prog, usage=usage, description=description, formatter_class=_Formatter)
    for name, field in model.model_fields.items():
        spellings = [name, *(alias for alias, meant in model.aliases.items() if meant == name and "." not in alias)]
        flags = list(dict.fromkeys("--" + form for one in spellings for form in (one.replace("_", "-"), one)))
        shown = field.description or ""
        if len(spellings) > 1:
            shown += f" (also {', '.join('--' + one.replace('_', '-') for one in spellings[1:])})"
        if field.is_required():
            shown += " (needed)"
        elif field.default is not None and field.default is not False:  # 0 equals False, and is a default to show
            shown += f" (default: {_default_text(field.default)})"
        if _plain_type(field.annotation) is bool:
            parser.add_argument(
                *flags, action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS, dest=name, help=shown
            )
        else:
            metavar = "{" + ",".join(_choices(field.annotation)) + "}" if _choices(field.annotation) else None
            metavar = metavar or _metavar(field.annotation)
            parser.add_argument(*flags, default=argparse.SUPPRESS, dest=name, help=shown, metavar=metavar)
    parser.add_argument("--config", type=Path, metavar="FILE", help="YAML file with any of these settings")
    parser.add_argument("--print-config", action="store_true", help="print the resolved settings and stop")
    given = vars(parser.parse_args(argv))
    config, print_config = given.pop("config"), given.pop("print_config")
    values = {} if config is None else _read_yaml(config, model)
    values |= {name: _Sourced(value, "--" + name.replace("_", "-")) for name, value in given.items()}
    settings = _validated(model, values, fix=f"See {prog} --help.")
    if print_config:
        print(json.dumps(settings.model_dump(mode="json"), indent=2, ensure_ascii=False))
        raise SystemExit(0)
    return settings


def settings_from_yaml(model: type[SettingsT], path: Path) -> SettingsT:
    """Read settings from a YAML file alone.

    Raises:
        MissingInputError: there is no such file.
        InputError: an unknown key, a wrong type, a value out of range; it names the file and the key.
    """
    return _validated(model, _read_yaml(path, model), fix=f"Mend {path}.")


class _Sourced:
    """A raw value and where it came from, so that an error can name the place."""

    def __init__(self, value: Any, source: str) -> None:
        self.value, self.source = value, source


def _validated(model: type[SettingsT], values: Mapping[str, _Sourced], *, fix: str) -> SettingsT:
    try:
        return model.model_validate({name: sourced.value for name, sourced in values.items()})
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else ""
        if first["type"] == "missing":
            what = f"{name} is needed: --{name.replace('_', '-')} on the command line, or {name} in a --config file"
        elif not name:  # values that are right alone and wrong together
            what = str(first["msg"]).removeprefix("Value error, ")
        else:
            source = values[name].source if name in values else name
            what = f"{source}: {first['msg']} (given: {first['input']!r})"
        raise InputError(what, fix=fix) from None


class _Formatter(argparse.HelpFormatter):
    """Shows a flag by its first spelling; a switch that is on by default by the flag that turns it off."""

    def _format_action_invocation(self, action: argparse.Action) -> str:
        shown = copy.copy(action)
        if action.dest != "help":
            shown.option_strings = action.option_strings[:1]
        if isinstance(action, argparse.BooleanOptionalAction) and "(default: True)" in (action.help or ""):
            shown.option_strings = action.option_strings[:2]
        return super()._format_action_invocation(shown)


def _read_yaml(path: Path, model: type[Settings]) -> dict[str, _Sourced]:
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise MissingInputError(f"Config file not found: {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"Config file cannot be read: {path}", why=str(error)) from None
    try:
        loaded = yaml.load(text, Loader=_yaml_loader())  # noqa: S506 - a SafeLoader with one more number form
    except yaml.YAMLError as error:
        raise InputError(f"Config file is not YAML: {path}", why=str(error)) from None
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise InputError(f"Config file must hold `key: value` lines: {path}")
    values: dict[str, _Sourced] = {}
    for key, given in _flat(path, model, loaded):
        name = _field_name(path, model, key)
        wanted = _plain_type(model.model_fields[name].annotation)
        is_wrong = isinstance(given, bool) != (wanted is bool) or (isinstance(given, str) and wanted in (int, float))
        if is_wrong and given is not None:
            raise InputError(f"{path}: {key}: {given!r} is no {wanted.__name__}")
        if name in values:
            raise InputError(f"{path}: {key} says once more what {values[name].source.removeprefix(f'{path}: ')} says")
        values[name] = _Sourced(given, f"{path}: {key}")
    return values


def _flat(path: Path, model: type[Settings], loaded: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    """The pairs of a file; those of a section as ``section.key``."""
    for written, value in loaded.items():
        key = str(written).replace("-", "_")
        if key not in model.sections:
            yield key, value
        elif isinstance(value, dict):
            for inner, one in value.items():
                yield f"{key}.{str(inner).replace('-', '_')}", one
        elif value is not None:
            raise InputError(f"{path}: {key} is a heading, so `key: value` lines must stand under it")


def _field_name(path: Path, model: type[Settings], key: str) -> str:
    """The field that a key of a file means."""
    plain = key.rpartition(".")[2]
    for spelling in (key, plain):
        if spelling in model.aliases:
            return model.aliases[spelling]
    if plain in model.model_fields:
        return plain
    if plain in model.refused:
        raise InputError(f"{path}: {key} is not taken", why=f"{plain}: {model.refused[plain]}.")
    near = difflib.get_close_matches(plain, [*model.model_fields, *model.aliases], 1, cutoff=0.4)
    raise InputError(
        f"{path}: unknown key {key!r}",
        fix=f"Did you mean {near[0]!r}?" if near else f"Known keys: {', '.join(model.model_fields)}.",
    )


def _yaml_loader() -> Any:
    """YAML 1.1 reads ``1e-6`` as text; people mean a number."""
    import yaml

    class Loader(yaml.SafeLoader):
        pass

    def mapping(loader: Loader, node: Any) -> Any:
        keys = [key.value for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.YAMLError(f"the key {key!r} stands there twice")
        return yaml.SafeLoader.construct_mapping(loader, node, deep=True)

    Loader.add_constructor("tag:yaml.org,2002:map", mapping)
    Loader.add_implicit_resolver(
        "tag:yaml.org,2002:float",
        re.compile(r"^[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+$"),
        list("-+0123456789"),
    )
    return Loader


def _choices(annotation: Any) -> tuple[str, ...]:
    return tuple(map(str, get_args(annotation))) if get_origin(annotation) is Literal else ()


def _plain_type(annotation: Any) -> type:
    """The type inside of ``Annotated`` and ``| None``; ``str`` for choices."""
    if get_origin(annotation) in (Union, types.UnionType):
        annotation = next(part for part in get_args(annotation) if part is not type(None))
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return annotation if isinstance(annotation, type) else str


def _metavar(annotation: Any) -> str:
    return {int: "N", float: "X", Path: "PATH"}.get(_plain_type(annotation), "TEXT")


def _default_text(value: Any) -> str:
    if isinstance(value, Path):
        base = next((base for base in (WORKING_DIR, ROOT) if value.is_relative_to(base)), None)
        return str(value.relative_to(base) if base else value)
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
