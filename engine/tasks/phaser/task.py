"""Phaser 3 games: a plan and a program, which is parsed, checked against Phaser's API and run in Chromium."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel

from engine.records import Candidate, Completion, DisplayBlock, Fault, Outcome, Problem
from engine.task import MAX_SHOWN_CHARS, Measurement, ScoredFields, Task, TaskMerge, Teaching
from engine.tasks.phaser import ROW_FIELDS
from engine.tasks.phaser.options import GameOptions
from engine.tasks.phaser.problems import facts_of, problem_of, read_prompt
from engine.tasks.phaser.reply import GameReply, read_reply
from engine.tasks.phaser.reward import PLAN_WEIGHT, GameReward, game_reward, unmeasured
from engine.tasks.phaser.validation.shared_validator import shared_validator
from engine.tasks.phaser.validation.validator import PhaserValidator
from engine.tasks.phaser.validation.verdict import STAGES, Gate, RuntimeOutcome, Validation

_FAILED_GATES = {
    "parse": "parse_failed",
    "safety": "unsafe",
    "eslint": "lint_failed",
    "api": "api_failed",
    "must_use": "must_use_failed",
    "runtime": "runtime_failed",
}
"""Stage -> code in the report, as in seed 000."""

_MAX_REMARK_CHARS = 300
_MOST_REMARKS = 12
_MAX_PICTURE_BYTES = 4 << 20


@dataclass(frozen=True)
class GameMeasurement(Measurement):
    """A measurement with the validation and the reward that it comes from; None for a reply without code."""

    validation: Validation | None = None
    reward: GameReward | None = None


class PhaserTask(Task[GameReply]):
    """Games that a program validates. ``plan`` and ``code`` are the components, see :mod:`engine.tasks.phaser.reward`.

    Args:
        options: of the checks and rewards.
        validator: validates programs; by default the one that all tasks of this process share.
    """

    name = "phaser"
    row_fields = ROW_FIELDS
    prompt_variables = frozenset({"difficulty", "constraints", "must_use"})
    reward_weights: Mapping[str, float] = MappingProxyType({"plan": PLAN_WEIGHT, "code": 1 - PLAN_WEIGHT})
    reply_description = "a plan in [PLAN] and [/PLAN], and one fenced program (```javascript ... ```)"

    def __init__(self, options: GameOptions | None = None, validator: PhaserValidator | None = None) -> None:
        self._options = options or GameOptions()
        self._validator = validator

    # Problems and replies

    def problem_from_row(self, row: Mapping[str, Any], where: str) -> Problem:
        """A row of ``prompts_train.jsonl``, ``prompts_eval.jsonl`` or ``prompt_seeds.jsonl``."""
        return problem_of(read_prompt(row, where), self.name)

    def prompt_values(self, problem: Problem) -> Mapping[str, Any]:
        """Difficulty, constraints and symbols."""
        facts = facts_of(problem.answer)
        return {
            "difficulty": facts.difficulty,
            "constraints": list(facts.constraints),
            "must_use": list(facts.must_use_apis),
        }

    def parse(self, completion: Completion, problem: Problem) -> Candidate[GameReply]:
        """Read plan and code. A reply without a closed fence of code is a model fault."""
        reply = read_reply(completion.text)
        if not reply.code.strip():
            kind = "unclosed_fence" if reply.extraction.is_cut_off else "no_code"
            fault = Fault(kind=kind, message="there is no complete fenced JavaScript program in it")
            text = completion.text[-MAX_SHOWN_CHARS:]
            return Candidate(Outcome.MODEL_FAULT, content=reply, text=text, fault=fault)
        return Candidate(Outcome.OK, content=reply, text=completion.text[-MAX_SHOWN_CHARS:])

    def re_ask_reason(self, candidate: Candidate[GameReply]) -> str | None:
        """The fault of a reply without code."""
        fault = candidate.fault
        return fault.message if fault is not None and fault.kind == "no_code" else None

    def answer(self, candidate: Candidate[GameReply]) -> str | None:
        """The program without the plan; None if the reply has no complete one."""
        return candidate.content.code if candidate.content is not None and candidate.outcome is Outcome.OK else None

    def to_record(self, candidate: Candidate[GameReply]) -> str | None:
        """Plan and program, in the form of a reply."""
        reply = candidate.content
        if reply is None or not reply.code:
            return candidate.text or None
        plan = f"[PLAN]\n{reply.plan_raw}\n[/PLAN]\n" if reply.plan_raw else ""
        return f"{plan}```javascript\n{reply.code}\n```"

    def show(self, candidate: Candidate[GameReply]) -> str:
        """The program; without one, the reply."""
        code = candidate.content.code if candidate.content is not None else ""
        return (code or candidate.text or "(unreadable)")[:MAX_SHOWN_CHARS]

    def display(
        self, candidate: Candidate[GameReply], problem: Problem, detail: Mapping[str, Any], folder: Path
    ) -> Sequence[DisplayBlock]:
        """The picture of the game, if one is stored; the signals of its checks, and its program. It is not run."""
        code = candidate.content.code if candidate.content is not None else ""
        gates, words = detail.get("gates"), {"True": "passed", "False": "failed"}
        stages = gates.items() if isinstance(gates, Mapping) else ()  # from a file: nothing of it is certain
        signals = [(f"stage {stage}", words.get(str(ok), "not run")) for stage, ok in stages]
        blocks = [DisplayBlock("signals", "table", rows=[("check", "result"), *signals])] if signals else []
        picture = _picture((folder, self._options.screenshots), code)
        if picture:
            blocks.insert(0, DisplayBlock("screenshot", "image", image=picture))
        return [*blocks, DisplayBlock("program", "code", code)] if code else blocks

    def merge(self, candidates: Sequence[Candidate[GameReply]], problem: Problem) -> TaskMerge[GameReply]:
        """Merge programs that are equal except for space at the ends of lines."""
        programs = {_normalised(game.content.code): game for game in candidates if game.content and game.content.code}
        return TaskMerge(next(iter(programs.values()))) if len(programs) == 1 else TaskMerge(None)

    # Checks and rewards

    @property
    def check_options(self) -> GameOptions:
        """The options of the checks and rewards."""
        return self._options

    def with_check_options(self, options: BaseModel) -> PhaserTask:
        """This task with other options."""
        return PhaserTask(GameOptions.model_validate(options.model_dump()), self._validator)

    def verifier(self) -> Mapping[str, Any]:
        """Versions of the validator and of all that it uses, and the options.

        Raises:
            ConfigurationError: Node.js, a package or the index of the API is not as it must be; with the fix.
        """
        options = self._options.model_dump(mode="json", exclude={"api_index", "validator_cli", "screenshots"})
        return {**super().verifier(), "versions": dict(self._open_validator().versions), "options": options}

    def evaluate(self, candidate: Candidate[GameReply], problem: Problem) -> GameMeasurement:
        """Validate the program and compute the reward. A reply without code earns nothing and is not validated."""
        reply, facts = candidate.content or GameReply(), facts_of(problem.answer)
        has_code = bool(reply.code.strip())
        validation = self._open_validator().validate(self._options.request(reply.code, facts)) if has_code else _NO_CODE
        reward = game_reward(validation, reply, facts)
        measured = partial(GameMeasurement, validation=validation, reward=reward)
        if not has_code:
            nothing = dict.fromkeys(self.reward_weights, 0.0)
            return measured(nothing, False, outcome=Outcome.MODEL_FAULT, fault=candidate.fault)
        if validation.outcome is Outcome.INFRA_FAULT:
            fault = validation.fault
            why = {"why": "" if fault is None else fault.message}
            return measured({}, None, outcome=Outcome.INFRA_FAULT, fault=fault, detail=why)
        if self._options.screenshots is not None:
            validation.runtime.write_screenshot(self._options.screenshots / f"{_code_hash(reply.code)}.png")
        return measured(
            components=reward.paid,
            is_correct=_is_correct(validation),
            answer=_digest(reply.code),
            answer_source="stated",
            outcome=Outcome.OK if validation.deterministic else Outcome.VERIFIER_TIMEOUT,
            remarks=_remarks(validation),
            detail=_detail(validation, reward),
        )

    def scored_fields(self, candidate: Candidate[GameReply], measurement: Measurement) -> ScoredFields:
        """Plan, code, validation and reward, with the same keys in all rows; ``failed_gates`` name the failed stages.

        A reply without code has the gates of an empty program; one that could not be validated has null for what was
        not measured.
        """
        reply = candidate.content or GameReply()
        row = {
            "plan_raw": reply.plan_raw,
            "plan": None if reply.plan is None else asdict(reply.plan),
            "code": reply.code,
            "derived": {"code_hash": _code_hash(reply.code), "extraction": vars(reply.extraction)},
        }
        if not isinstance(measurement, GameMeasurement) or measurement.validation is None or not measurement.reward:
            return ScoredFields(row)
        validation, paid = measurement.validation, measurement.reward.as_row()
        if measurement.outcome is Outcome.INFRA_FAULT:
            return ScoredFields(row, validation.rows(), unmeasured(paid))
        if not reply.code.strip():
            return ScoredFields(row, validation.rows(), paid, ("no_code",))
        failed = [code for stage, code in _FAILED_GATES.items() if validation.gates[stage].ok is False]
        return ScoredFields(row, validation.rows(), paid, failed)

    # The analyst

    def truth(self, problem: Problem) -> str:
        """What is checked: the run, and the symbols."""
        checks = [f"uses {symbol}" for symbol in facts_of(problem.answer).must_use_apis]
        return "\n".join(["the game boots, a scene shows something, every frame runs without an error", *checks])

    def teaching(self, problem: Problem, wrong: Sequence[str] = ()) -> Teaching:
        """A rule about such programs; the answer is a whole one."""
        return Teaching(
            "says which call, order or setting of Phaser makes such a game work; it has none of this game's names and "
            "texts, and no program",
            None,
        )

    def leaks_answer(self, content: str, problem: Problem) -> bool:
        """False: a game has no short answer. An experience that copies the text of its problem is refused anyway."""
        return False

    def _open_validator(self) -> PhaserValidator:
        return self._validator or shared_validator(self._options.api_index, runs=not self._options.skip_runtime)


_NO_CODE = Validation(gates={stage: Gate(ok=False if stage == "parse" else None) for stage in STAGES})
"""Of a reply without code, which is not validated."""


def _is_correct(validation: Validation) -> bool | None:
    """Whether the program runs and uses the symbols; None if it cannot be known because a stage was skipped."""
    gates = [validation.gates[stage].ok for stage in ("parse", "api", "must_use", "runtime")]
    if False in gates or validation.unsafe:
        return False
    return None if validation.gates["runtime"].ok is None else True


def _remarks(validation: Validation) -> list[str]:
    """What the analyst is told, the most important first."""
    report = validation.runtime
    remarks = []
    if report.outcome not in (RuntimeOutcome.OK, RuntimeOutcome.SKIPPED):
        frame = "" if report.frame is None else f" in frame {report.frame}"
        remarks.append(f"the run ended with {report.outcome}{frame}: {report.message}")
    remarks += [f"{finding.code}: {finding.message}" for finding in validation.findings if finding.severity == "error"]
    for use in validation.api_usage.misses:
        near = f"; near it are {', '.join(use.near)}" if use.near else ""
        remarks.append(f"{use.symbol_id} does not exist{near}")
    remarks += [f"{symbol} is not used" for symbol in validation.api_usage.must_use_misses]
    return [remark[:_MAX_REMARK_CHARS] for remark in remarks[:_MOST_REMARKS]]


def _detail(validation: Validation, reward: GameReward) -> dict[str, Any]:
    """The figures that a rollout keeps."""
    return {
        "reward": reward.as_row(),
        "gates": {stage: gate.ok for stage, gate in validation.gates.items()},
        "runtime": str(validation.runtime.outcome),
        "must_use_misses": list(validation.api_usage.must_use_misses),
    }


def _picture(folders: Sequence[Path | None], code: str) -> bytes:
    """The stored picture of a program, in a folder or its folder ``screenshots``; empty if there is none."""
    name = f"{_code_hash(code)}.png"
    for folder in folders:
        for path in (folder / "screenshots" / name, folder / name) if folder is not None else ():
            if path.is_file() and path.stat().st_size <= _MAX_PICTURE_BYTES:
                return path.read_bytes()
    return b""


def _code_hash(code: str) -> str:
    return hashlib.sha256(code.encode(errors="replace")).hexdigest()


def _normalised(code: str) -> str:
    return "\n".join(line.rstrip() for line in code.split("\n") if line.strip())


def _digest(code: str) -> str:
    return hashlib.sha256(_normalised(code).encode(errors="replace")).hexdigest()[:16]


TASK = PhaserTask()
