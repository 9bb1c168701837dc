"""A command's settings: one pydantic model defines the flags and the YAML keys, and checks the values."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, NamedTuple, Self, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from engine.storage.data_folders import shipped_file

ROOT = Path(__file__).resolve().parents[2]
"""The folder that holds the packages: a checkout, or site-packages."""
WORKING_DIR = Path.cwd()
"""Files that commands write are below the folder in which the command was started."""
POCKET_MODEL = shipped_file("models/pocket")
DATASET_HELP = (
    "a name (an unknown one lists all), a file (JSON, a table, parquet), a folder, or owner/name:split of the Hugging "
    "Face hub; names are looked up in data/datasets and $SCAFFOLD_DATA"
)
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


def between_commas(text: str) -> tuple[str, ...]:
    """The texts between the commas of a text, without those that are empty."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


Positive = Annotated[int, Field(gt=0)]
Weight = Annotated[float, Field(ge=0)]
Listed = BeforeValidator(lambda value: between_commas(value) if isinstance(value, str) else value)
"""Of a setting with several values: they may be given as one text, with commas between them."""

COMMON = "common"
T = TypeVar("T")
Common = Annotated[T, COMMON]
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


class Given(NamedTuple):
    """A raw value and where it was given (``run.yaml: rollouts`` or ``--rollouts``), for error messages."""

    value: Any
    source: str


class Settings(BaseModel):
    """Base of all commands' settings: unknown keys and wrong types are errors.

    The class variables arrange ``--help`` and declare keys of YAML files that were written for other programs. A field
    without a description is not in the help: the command refuses it with a message of its own.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        validate_default=True,
        allow_inf_nan=False,
        protected_namespaces=(),
        defer_build=True,  # a module has the settings of several commands; one of them is used
    )

    group: ClassVar[str] = "settings"
    """Title in ``--help`` of the fields that the class itself declares."""
    aliases: ClassVar[Mapping[str, str]] = {}
    """Other spelling -> field, on the command line and in YAML; ``section.key`` holds inside that section only.

    A spelling of one letter is a flag such as ``-s``."""
    sections: ClassVar[frozenset[str]] = frozenset()
    """YAML keys whose values are mappings of further keys; these are read as if they were at the top level.

    ``section.key`` is a section in a section."""
    sections_of_others: ClassVar[frozenset[str]] = frozenset()
    """YAML sections that belong to other commands: not read, with one note."""
    read_beside: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Field of a file that is written -> fields of what is read, which must be other files: files, names of datasets or
    several files."""

    @classmethod
    def groups(cls) -> dict[str, list[str]]:
        """Title -> fields, those of the command's own class first."""
        groups: dict[str, list[str]] = {}
        declared: set[str] = set()
        for base in (base for base in cls.__mro__ if issubclass(base, Settings)):
            names = [
                name for name in vars(base).get("__annotations__", ()) if name in cls.model_fields.keys() - declared
            ]
            declared.update(names)
            groups.setdefault(vars(base).get("group", Settings.group), []).extend(names)
        return {title: names for title, names in groups.items() if names}

    @classmethod
    def translated(cls, key: str, value: Any, where: str) -> tuple[str, Any] | None:
        """The field that a YAML key of another program sets, with its value; None for any other key.

        Raises:
            InputError: the key has no such value; names ``where``.
        """
        return None

    @classmethod
    def without_overridden(cls, given: dict[str, Given]) -> dict[str, Given]:
        """What was given, without fields in whose place others are given; a note names them."""
        return given

    @classmethod
    def declared_keys(cls) -> DeclaredKeys:
        """YAML keys that are declared elsewhere, for example by a task."""
        return DeclaredKeys()

    @field_validator("*")
    @classmethod
    def _expand_user(cls, value: Any) -> Any:
        return value.expanduser() if isinstance(value, Path) else value

    @model_validator(mode="after")
    def _not_over_its_input(self) -> Self:
        for output, names in self.read_beside.items():
            written = getattr(self, output)
            for name in names:
                value = getattr(self, name)
                for path in value if isinstance(value, tuple) else (value,):
                    if None not in (written, path) and Path(path).expanduser().resolve() == written.resolve():
                        raise ValueError(f"{as_flag(output)} must be another file than {as_flag(name)}")
        return self


class ColumnSettings(Settings):
    """Base of the settings of a command that reads a user's dataset: which column is what."""

    group: ClassVar[str] = "columns of the dataset"

    fields: str | None = Field(
        None,
        description="columns of the dataset that are the question, the right answer and the options, such as "
        "problem=context+question,answer=final,options=A+B+C+D; problem may be a template, such as "
        "'problem={passage}\\n\\n{question}'",
    )
    columns: str | None = Field(
        None, description="names of the columns of a table without a line of names, such as label,text"
    )
    compare: str | None = Field(
        None,
        description="how answers are compared: choice, label, number, number:2% (with a tolerance), formula, text, "
        "contains, list, set, json, date, sql or rubric (default: found out from all answers)",
    )
    json_schema: Path | None = Field(
        None,
        description="JSON file with the schema of replies to questions with answers: it is in the prompt and in the "
        "response_format of the request, and the answer is the property answer, or the whole object if right answers "
        "are JSON objects",
    )


def as_flag(name: str) -> str:
    """The flag of a field."""
    return "--" + name.replace("_", "-")


def plain_type(annotation: Any) -> type:
    """The type inside ``Annotated`` and ``| None``; ``str`` for choices."""
    if get_origin(annotation) in (Union, types.UnionType):
        annotation = next(kind for kind in get_args(annotation) if kind is not type(None))
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return annotation if isinstance(annotation, type) else str
