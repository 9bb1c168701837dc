"""A command's settings: one pydantic model defines the flags and the YAML keys, and checks the values.

Precedence: command line > ``--config`` file > defaults. Of a mapping, the command line sets single keys.
"""

from __future__ import annotations

import argparse
import copy
import difflib
import json
import os
import re
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from engine.errors import InputError
from engine.sandbox.zygote_process import ALLOW_WEAK
from engine.storage.shipped_files import shipped_file
from grpo_training.cli.entry import CommandParser

ROOT = Path(__file__).resolve().parents[2]
"""The folder that holds the packages: a checkout, or site-packages."""
WORKING_DIR = Path.cwd()
"""Files that commands write are below the folder in which the command was started."""
POCKET_MODEL = shipped_file("models/pocket")
DATASET_HELP = (
    "a name (an unknown one lists all), a file (JSONL, CSV, parquet), or owner/name:split of the Hugging Face hub; "
    "names are looked up in data/datasets and $SCAFFOLD_DATA"
)
COMPARE_HELP = (
    "how answers are compared, for rows without a task: label, number, number:2% (with a tolerance), text, contains, "
    "regex, list, set, json, date or rubric (default: found out from the answers)"
)
FIELDS_HELP = "fields of the dataset's rows under other names, such as problem=question,answer=final"
DEFAULT_DATASET = "aime2024"
"""The dataset of a run that names none."""
PHASES = frozenset(
    {
        *("data", "teacher", "student", "model", "lora", "grpo", "rce", "dual_source", "training", "generation"),
        *("evaluation", "output", "paths", "logging"),
    }
)
"""Sections of a file that configures all phases: problems, teacher traces, training and evaluation."""
POCKET_DATASET = "quickstart"
"""The dataset that the pocket model was trained on. Its split ``test`` has other wordings and numbers."""


def shown_path(path: Path) -> Path:
    """The path as a person would type it: without the folder in which the command was started."""
    return path.relative_to(WORKING_DIR) if path.is_relative_to(WORKING_DIR) else path


Positive = Annotated[int, Field(gt=0)]
Weight = Annotated[float, Field(ge=0)]

_COMMON = "common"
T = TypeVar("T")
Common = Annotated[T, _COMMON]
"""The type of a setting that a first user needs.

The ``--help`` of a command that has this mark on a field of its own class shows only the fields with it, also those of
its bases; ``--help-all`` shows all. The help of any other command has all fields.
"""


class DeclaredKeys(NamedTuple):
    """Keys of YAML files that set parts of one field.

    Args:
        field: the field, a mapping.
        names: key -> name in that mapping; a key inside a section is written ``section.key``.
        without_effect: keys that are accepted and change nothing -> the reason.
    """

    field: str = ""
    names: Mapping[str, str] = MappingProxyType({})
    without_effect: Mapping[str, str] = MappingProxyType({})

    def is_section(self, key: str) -> bool:
        """Whether some key is inside the section ``key``."""
        return any(name.startswith(f"{key}.") for name in (*self.names, *self.without_effect))


class Settings(BaseModel):
    """Base of all commands' settings: unknown keys and wrong types are errors.

    The class variables arrange ``--help`` and declare keys of YAML files that were written for other programs.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        validate_default=True,
        allow_inf_nan=False,
        protected_namespaces=(),
        defer_build=True,  # a module has the settings of several commands; one of them is used
    )

    groups: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Title of a group in ``--help`` -> its fields, the commonest first. Other fields are listed at the end."""
    aliases: ClassVar[Mapping[str, str]] = {}
    """Other spelling -> field, on the command line and in YAML; ``section.key`` holds inside that section only."""
    letters: ClassVar[Mapping[str, str]] = {}
    """Field -> its flag of one letter, such as ``-s``."""
    not_in_help: ClassVar[Sequence[str]] = ()
    """Fields of a base that the command refuses with a message of its own."""
    sections: ClassVar[frozenset[str]] = frozenset()
    """YAML keys whose values are mappings of further keys; these are read as if they were at the top level.

    ``section.key`` is a section in a section."""
    sections_of_others: ClassVar[frozenset[str]] = frozenset()
    """YAML sections that belong to other commands: not read, with one note."""
    refused: ClassVar[Mapping[str, str]] = {}
    """YAML keys (also sections) that are not supported -> why, or what to set instead."""
    translated: ClassVar[Mapping[str, Mapping[Any, tuple[str, Any]]]] = {}
    """YAML key -> for each of its values the field and the value that it sets."""

    @classmethod
    def declared_keys(cls) -> DeclaredKeys:
        """YAML keys that are declared elsewhere, for example by a task."""
        return DeclaredKeys()

    @field_validator("*")
    @classmethod
    def _expand_user(cls, value: Any) -> Any:
        return value.expanduser() if isinstance(value, Path) else value


SettingsT = TypeVar("SettingsT", bound=Settings)


class _Given(NamedTuple):
    """A raw value and where it was given (``run.yaml: rollouts`` or ``--rollouts``), for error messages."""

    value: Any
    source: str


def parse_settings(model: type[SettingsT], argv: Sequence[str] | None, *, prog: str, description: str) -> SettingsT:
    """Read a command's settings from its command line and its ``--config`` file.

    ``--help``, ``--help-all`` and ``--print-config`` print and exit with status 0.

    Raises:
        InputError: an unknown key (with the nearest valid name), a wrong type or a value out of range; the message
            names the file and the key, or the flag.
    """
    parser = _parser(model, prog, description)
    given = vars(parser.parse_args(argv))
    config, print_config = given.pop("config"), given.pop("print_config")
    if given.pop("allow_weak_sandbox"):
        os.environ[ALLOW_WEAK] = "1"  # worker processes inherit it
    values = {} if config is None else _read_yaml(config, model)
    values |= {name: _merged(values.get(name), _Given(value, _flag(name))) for name, value in given.items()}
    settings = _validated(model, values, fix=f"See {prog} {parser.full_help}.")
    if print_config:
        print(json.dumps(settings.model_dump(mode="json"), indent=2, ensure_ascii=False))
        raise SystemExit(0)
    return settings


def _merged(in_file: _Given | None, flag: _Given) -> _Given:
    """The value of a flag; a JSON object sets single keys of the mapping that the file has."""
    if in_file is None or not isinstance(in_file.value, dict) or not isinstance(flag.value, str):
        return flag
    try:
        keys = json.loads(flag.value)
    except ValueError:  # reported when the value is validated
        return flag
    if not isinstance(keys, dict):
        return flag
    return _Given(in_file.value | keys, f"{flag.source} and {in_file.source}")


def flags_of(settings: Settings) -> list[str]:
    """The words of a command line that give these settings, where they are not the default ones."""
    words: list[str] = []
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        if value is None or value == field.get_default(call_default_factory=True):
            continue
        if isinstance(value, bool):
            words.append(_flag(name if value else f"no-{name}"))
        else:
            words += [_flag(name), ",".join(map(str, value)) if isinstance(value, tuple) else str(value)]
    return words


def settings_from_yaml(model: type[SettingsT], path: Path) -> SettingsT:
    """Read settings from a YAML file alone.

    Raises:
        MissingInputError: there is no such file.
        InputError: an unknown key, a wrong type or a value out of range; the message names the file and the key.
    """
    return _validated(model, _read_yaml(path, model), fix=f"Edit {path}.")


def _validated(model: type[SettingsT], values: Mapping[str, _Given], *, fix: str) -> SettingsT:
    try:
        return model.model_validate({name: given.value for name, given in values.items()})
    except ValidationError as error:
        raise InputError(_validation_text(error.errors()[0], values), fix=fix) from None


def _validation_text(error: ErrorDetails, values: Mapping[str, _Given]) -> str:
    """A pydantic error as one sentence that names where the value was given."""
    name = str(error["loc"][0]) if error["loc"] else ""
    if error["type"] == "missing":
        return f"{name} is required: pass {_flag(name)}, or set {name} in a --config file"
    message = str(error["msg"]).removeprefix("Value error, ")
    if not name:  # values that are valid alone but not together
        return message
    source = values[name].source if name in values else name
    expected = re.fullmatch(r"(int|float|bool)_(parsing|type)", error["type"])
    if expected:
        return f"{source}: expected {expected[1]}, got {error['input']!r}"
    return f"{source}: {message} (got {error['input']!r})"


def _parser(model: type[Settings], prog: str, description: str) -> CommandParser:
    parser = CommandParser(
        prog=prog, usage="%(prog)s [--config FILE] [options]", description=description, formatter_class=_Formatter
    )
    is_short = any(_is_common(model, name) for name in model.__annotations__)  # those of its own class
    grouped = {name for names in model.groups.values() for name in names}
    titles = {**model.groups, "settings": [name for name in model.model_fields if name not in grouped]}
    for title, names in titles.items():
        if names:
            group = parser.add_argument_group(title)
            for name in names:
                action = _add_flags(group, model, name)
                if is_short and not _is_common(model, name) and name not in model.not_in_help:
                    parser.hide(action)
    group = parser.add_argument_group("configuration")
    group.add_argument("--config", type=Path, metavar="FILE", help="YAML file with any of these settings")
    rare = [
        group.add_argument("--print-config", action="store_true", help="print the resolved settings and exit"),
        group.add_argument(
            "--allow-weak-sandbox",
            action="store_true",
            help="score programs also where only the isolation level rlimits works",
        ),
    ]
    for action in rare if is_short else ():
        parser.hide(action)
    return parser


def _is_common(model: type[Settings], name: str) -> bool:
    return name in model.model_fields and _COMMON in model.model_fields[name].metadata


def _add_flags(group: argparse._ArgumentGroup, model: type[Settings], name: str) -> argparse.Action:
    field = model.model_fields[name]
    spellings = [name, *(alias for alias, meant in model.aliases.items() if meant == name and "." not in alias)]
    flags = list(dict.fromkeys("--" + form for one in spellings for form in (one.replace("_", "-"), one)))
    flags += [model.letters[name]] if name in model.letters else []
    text = argparse.SUPPRESS if name in model.not_in_help else _help_text(field, spellings[1:]).replace("%", "%%")
    if _plain_type(field.annotation) is bool:
        return group.add_argument(
            *flags, action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS, dest=name, help=text
        )
    several: dict[str, Any] = {"nargs": "+", "action": _Joined} if get_origin(field.annotation) is tuple else {}
    metavar = _metavar(field.annotation)
    return group.add_argument(*flags, default=argparse.SUPPRESS, dest=name, help=text, metavar=metavar, **several)


class _Joined(argparse.Action):
    """Takes the values of a list with spaces or commas between them, as one text with commas."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: Any = None
    ) -> None:
        setattr(namespace, self.dest, ",".join(values))


def _help_text(field: FieldInfo, aliases: Sequence[str]) -> str:
    text = field.description or ""
    if aliases:
        text += f" (also {', '.join(map(_flag, aliases))})"
    if field.is_required():
        text += " (required)"
    elif field.default is not None and field.default is not False and "(default:" not in text:
        # 0 == False, and 0 is a default to show
        text += f" (default: {_default_text(field.default)})"
    return text


class _Formatter(argparse.HelpFormatter):
    """Shows a flag by its first spelling, and a switch that is on by default by the flag that turns it off."""

    def _format_action_invocation(self, action: argparse.Action) -> str:
        shown = copy.copy(action)
        if action.dest != "help":
            shown.option_strings = action.option_strings[:1]
        if isinstance(action, argparse.BooleanOptionalAction) and "(default: True)" in (action.help or ""):
            shown.option_strings = action.option_strings[:2]
        return super()._format_action_invocation(shown)


def _read_yaml(path: Path, model: type[Settings]) -> dict[str, _Given]:
    from grpo_training.cli.yaml_mapping import load_yaml  # most commands are given no file

    values: dict[str, _Given] = {}
    parts: dict[str, _Given] = {}
    for key, value in _flat(path, model, load_yaml(path)):
        if key not in model.model_fields and key not in model.aliases:
            declared = model.declared_keys()
            if key in declared.without_effect:
                print(f"{path}: {key} has no effect: {declared.without_effect[key]}.", file=sys.stderr)
                continue
            if key in declared.names:
                _set_once(parts, declared.names[key], _Given(value, f"{path}: {key}"))
                continue
        name, value = _translated(path, model, key, value)
        expected = _plain_type(model.model_fields[name].annotation)
        is_wrong = isinstance(value, bool) != (expected is bool) or (
            isinstance(value, str) and expected in (int, float)
        )
        if is_wrong and value is not None:
            raise InputError(f"{path}: {key}: expected {expected.__name__}, got {value!r}")
        _set_once(values, name, _Given(value, f"{path}: {key}"))
    if parts:
        keys = ", ".join(given.source.removeprefix(f"{path}: ") for given in parts.values())
        collected = {name: given.value for name, given in parts.items()}
        _set_once(values, model.declared_keys().field, _Given(collected, f"{path}: {keys}"))
    return values


def _set_once(values: dict[str, _Given], name: str, given: _Given) -> None:
    if name in values:
        key = values[name].source.partition(": ")[2]
        raise InputError(f"{given.source} and {key} set the same option", fix="Remove one of them.")
    values[name] = given


def _translated(path: Path, model: type[Settings], key: str, value: Any) -> tuple[str, Any]:
    """The field that a key sets, and its value."""
    meanings = model.translated.get(key, model.translated.get(key.rpartition(".")[2]))
    if meanings is None:
        return _field_name(path, model, key), value
    if value not in meanings:
        raise InputError(f"{path}: {key}: expected {' or '.join(map(repr, meanings))}, got {value!r}")
    return meanings[value]


def _flat(path: Path, model: type[Settings], loaded: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    """The pairs of a file; those of a section as ``section.key``."""
    unread = [str(key) for key, value in loaded.items() if key in model.sections_of_others and isinstance(value, dict)]
    if unread:
        print(f"{path}: not read here, as they belong to other commands: {', '.join(unread)}.", file=sys.stderr)
    for written, value in loaded.items():
        key = str(written).replace("-", "_")
        if key in unread:
            continue
        if key not in model.sections:
            if isinstance(value, dict) and model.declared_keys().is_section(key):
                yield from _declared_pairs(model, key, value)
            else:
                yield key, value
        elif isinstance(value, dict):
            for inner, one in value.items():
                name = f"{key}.{str(inner).replace('-', '_')}"
                if name in model.sections and isinstance(one, dict):
                    yield from ((f"{name}.{str(last).replace('-', '_')}", each) for last, each in one.items())
                else:
                    yield name, one
        elif value is not None:
            raise InputError(f"{path}: {key} is a section", fix="Put `key: value` lines below it.")


def _declared_pairs(model: type[Settings], section: str, values: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    """The pairs of a section of declared keys, which may have sections too."""
    for written, value in values.items():
        key = f"{section}.{str(written).replace('-', '_')}"
        if isinstance(value, dict) and model.declared_keys().is_section(key):
            yield from _declared_pairs(model, key, value)
        else:
            yield key, value


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
    if plain in model.refused:
        raise InputError(f"{path}: {key} is not supported", why=f"{plain}: {model.refused[plain]}.")
    known = [*model.model_fields, *model.aliases, *declared.names, *declared.without_effect]
    near = difflib.get_close_matches(plain, known, 1)
    raise InputError(
        f"Unknown key {key!r} in {path}",
        fix=f"Did you mean {near[0]!r}?" if near else f"Known keys: {', '.join(model.model_fields)}.",
    )


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _plain_type(annotation: Any) -> type:
    """The type inside ``Annotated`` and ``| None``; ``str`` for choices."""
    if get_origin(annotation) in (Union, types.UnionType):
        annotation = next(part for part in get_args(annotation) if part is not type(None))
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return annotation if isinstance(annotation, type) else str


def _metavar(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return "{" + ",".join(map(str, get_args(annotation))) + "}"
    return {int: "N", float: "X", Path: "PATH"}.get(_plain_type(annotation), "TEXT")


def _default_text(value: Any) -> str:
    if isinstance(value, Path):
        base = next((base for base in (WORKING_DIR, ROOT) if value.is_relative_to(base)), None)
        return str(value.relative_to(base) if base else value)
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
