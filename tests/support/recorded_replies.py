"""Recorded rollouts and fusions, looked up by the prompt that asks for them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.api_manager import LEARNERS
from engine.errors import InputError, MissingInputError
from engine.experience.file import parse_library
from engine.reading.python_syntax import literal
from engine.records import Experience, Fusion, RolloutGroup
from engine.storage.rollout_store import Contents, read
from grpo_training.runs.folder import learner_of_library, library_file, results_file

EXAMPLE = Path(__file__).parents[1] / "recorded"
"""Recordings of the pocket model on the first problems of ``quickstart``."""
EXAMPLE_FILES = tuple(path for role in LEARNERS for path in (results_file(EXAMPLE, role), library_file(EXAMPLE, role)))

_MAX_LITERAL_CHARS = 1 << 20
_FILE_NAME = re.compile(r"(?P<model>.+?)_(?:rollouts|results)\.jsonl")
_NO_REPLY = "I am sorry, I could not find an answer."


class NotRecordedError(LookupError):
    """There is no recorded reply to a request. ``code`` is a stable identifier of the reason."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Recording:
    """The replies to one problem, in recorded order; ``generator_id`` is empty except for fusions."""

    model: str
    problem_id: str
    generator_id: str
    replies: tuple[str, ...]
    has_scaffold: bool


class RecordedReplies:
    """All recordings of some files, by model, problem and (for fusions) generator.

    Of several records of a problem, the last one with a scaffold is used, or the last one if none has a scaffold: a
    record without any scaffold comes from an earlier run that got no reply and was repeated.

    Args:
        files: ``<model>_rollouts.jsonl`` and ``<model>_results.jsonl``. The groups of a file with another name
            must have a ``generator_id``; its fusions belong to ``critic``. ``<model>_experiences.json`` is a library:
            its experiences are what the analyst replies to a request about their problem.

    Raises:
        MissingInputError: a file does not exist.
        InputError: a file is empty, or a line is damaged or of another kind; the line is named.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        if not files:
            raise InputError("No recorded file given")
        self._recordings: dict[str, dict[str, dict[str, Recording]]] = {}
        """By model, text of the problem, and generator."""
        self._libraries: dict[str, list[Experience]] = {}
        for path in files:
            if (learner := learner_of_library(path)) is not None:
                self._libraries[learner] = _read_library(path)
                continue
            for text, recording in _read(path):
                self._add(text, recording)

    def _add(self, text: str, new: Recording) -> None:
        by_generator = self._recordings.setdefault(new.model, {}).setdefault(text, {})
        old = by_generator.get(new.generator_id)
        if old is None or new.has_scaffold or not old.has_scaffold:
            by_generator[new.generator_id] = new

    @property
    def problems(self) -> Mapping[str, int]:
        """Number of recorded problems by model."""
        return {model: len(recorded) for model, recorded in self._recordings.items()}

    def find(self, model: str, messages: Sequence[str]) -> Recording:
        """The recording that a prompt asks for.

        Args:
            model: the model's name.
            messages: the texts of the conversation's messages, in order.

        Raises:
            NotRecordedError: ``model_not_found``, ``problem_not_found`` or ``generator_not_found``.
        """
        recorded = self._recordings.get(model)
        if recorded is None:
            known = ", ".join(sorted(self._recordings))
            raise NotRecordedError("model_not_found", f"The model {model[:100]!r} is not recorded. Recorded: {known}.")
        text = _last_in("\n".join(_plain(message) for message in messages), recorded)
        if text is None:
            start = " ".join(messages[-1].split()[:20])[:200] if messages else ""
            raise NotRecordedError(
                "problem_not_found",
                f"The prompt contains no problem recorded for {model!r}. Its last message begins: {start!r}",
            )
        by_generator = recorded[text]
        if "" in by_generator:
            return by_generator[""]
        return by_generator[_named_generator(by_generator, messages)]

    def lesson(self, model: str, messages: Sequence[str]) -> str:
        """The analyst's lesson about a problem: the first one of the model's library that comes from it, or ``none``.

        Args:
            model: the learner's name; any other name means the first learner that has the problem.
            messages: the texts of the conversation's messages, in order.
        """
        prompt = "\n".join(_plain(message) for message in messages)
        for name in [model] if model in self._libraries else self._libraries:
            recorded = self._recordings.get(name, {})
            text = _last_in(prompt, recorded)
            if text is not None:
                problem = next(iter(recorded[text].values())).problem_id
                lessons = (lesson.content for lesson in self._libraries[name] if lesson.source_problem == problem)
                return next(lessons, "none")
        return "none"


def _named_generator(by_generator: Mapping[str, Recording], messages: Sequence[str]) -> str:
    """The generator named in the prompt; if several are named, the one in its last message."""
    for texts in (messages, messages[-1:]):
        named = [name for name in by_generator if any(_names(text, name) for text in texts)]
        if len(named) == 1:
            return named[0]
    problem_id = next(iter(by_generator.values())).problem_id
    raise NotRecordedError(
        "generator_not_found",
        f"The prompt must name exactly one generator whose fusion of {problem_id} is recorded: "
        f"{', '.join(sorted(by_generator))}. Named: {', '.join(named) or 'none'}.",
    )


def _names(text: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


def _last_in(prompt: str, texts: Iterable[str]) -> str | None:
    """The text that ends last in the prompt: worked examples precede the question.

    Of two texts that end at the same position the longer one is returned; the other is a part of it.
    """
    matches = ((start + len(text), len(text), text) for text in texts if (start := prompt.rfind(text)) >= 0)
    return max(matches, default=(0, 0, None))[2]


def _plain(text: str) -> str:
    return " ".join(text.split())


def _read(path: Path) -> Iterator[tuple[str, Recording]]:
    """The (normalised problem text, recording) pairs of a file."""
    match = _FILE_NAME.fullmatch(path.name)
    model = match["model"] if match else ""
    groups, fusions = _contents(path)
    for group in groups:
        pairs = [(rollout.scaffold, rollout.answer) for rollout in group.rollouts]
        named = model or group.generator_id
        yield _text_of(group, path), _recording(path, named, group.problem_id, "", pairs)
    for fusion in fusions:
        if not fusion.generator_id:
            raise InputError(f"{path}: a fusion of {fusion.problem_id} has no 'generator_id'")
        pairs = [(fusion.fused_scaffold, fusion.final_answer)]
        named = model or "critic"
        yield _text_of(fusion, path), _recording(path, named, fusion.problem_id, fusion.generator_id, pairs)


def _read_library(path: Path) -> list[Experience]:
    try:
        return parse_library(path.read_bytes(), path)
    except FileNotFoundError:
        raise MissingInputError(f"Recorded file not found: {path}") from None


def _contents(path: Path) -> tuple[list[RolloutGroup], list[Fusion]]:
    """The groups or the fusions of a file."""
    if not path.is_file():
        raise MissingInputError(f"Recorded file not found: {path}")
    try:
        groups = read(path, RolloutGroup)
        only_groups = bool(groups.records) or path.name.endswith("_rollouts.jsonl")
        fusions = Contents[Fusion]([], groups.broken) if only_groups else read(path, Fusion)
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}") from error
    if fusions.broken:
        fix = "Remove the line, or record its problem again."
        raise InputError(f"Recorded file has a damaged line: {fusions.broken[0]}", fix=fix)
    if not groups.records and not fusions.records:
        raise InputError(f"Recorded file is empty: {path}", fix="Give recorded rollouts or fusions.")
    return groups.records, fusions.records


def _text_of(record: RolloutGroup | Fusion, path: Path) -> str:
    text = _plain(record.problem_text)
    if not text:
        raise InputError(f"{path}: the record of {record.problem_id} has no 'problem_text'")
    return text


def _recording(
    path: Path, model: str, problem_id: str, generator_id: str, pairs: Sequence[tuple[Any, str | None]]
) -> Recording:
    if not model:
        raise InputError(
            f"{path}: the model is named neither by the file's name nor by 'generator_id'",
            fix="Rename the file to <model>_rollouts.jsonl.",
        )
    replies = tuple(reply_text(scaffold, answer) for scaffold, answer in pairs)
    return Recording(model, problem_id, generator_id, replies, any(scaffold for scaffold, _ in pairs))


def reply_text(scaffold: Any, answer: str | None) -> str:
    """A reply that is parsed into this record: the scaffold as JSON text with its ``final_answer``.

    Args:
        scaffold: an object, JSON text, the text of a Python literal, any other text, or None.
        answer: the recorded answer; None if the model gave none.

    Returns:
        JSON text if the scaffold is an object in one of these forms, other text unchanged, and the answer alone
        without a scaffold.
    """
    if not scaffold:
        return answer if answer and answer.strip() else _NO_REPLY
    value = _object(scaffold) if isinstance(scaffold, str) else scaffold
    if isinstance(value, dict):
        try:
            return json.dumps(
                {**value, "final_answer": answer}, ensure_ascii=False, allow_nan=False, default=_json_value
            )
        except (TypeError, ValueError, RecursionError):
            return str(scaffold)  # no JSON object: tuples as keys, infinite numbers
    return str(scaffold)


def _object(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return literal(text) if len(text) <= _MAX_LITERAL_CHARS else None
    except ValueError:
        return None


def _json_value(value: Any) -> Any:
    """A JSON value for a Python literal that JSON does not have."""
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    if isinstance(value, bytes | complex) or value is ...:
        return repr(value)
    raise TypeError(f"not a JSON value: {type(value).__name__}")


def count_tokens(texts: Iterable[str]) -> int:
    """Number of words and punctuation marks: an estimate of the tokens that needs no tokenizer."""
    return sum(len(re.findall(r"\w+|[^\w\s]", text)) for text in texts)
