"""Tasks whose candidates are causal scaffolds: the graph is executed, and its value is the answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from engine.answers.verify import check_ground_truth, is_value, verify_answer
from engine.records import Candidate, Fault, Outcome, Scaffold
from engine.reward_evaluator import mean_of_measured
from engine.scaffold.parsing import parse_scaffold, scaffold_from_object
from engine.scaffolder import check_structure, execute, intervene, plan_agreement, rule_cause_agreement
from engine.task import JSON_OBJECT, Measurement, TaskMerge

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from engine.records import Problem
    from engine.scaffold.parsing import ParsedScaffold

_MOST_CONFLICTS = 20
_SHOWN = 6000  # characters of a reply without scaffold that another prompt gets

_TEXT = {"type": "string"}
_NAMES = {"type": "array", "items": _TEXT}
REPLY_SCHEMA: dict[str, Any] = {
    "title": "scaffold",
    "type": "object",
    "properties": {
        "constraints_and_premises": _NAMES,
        "problem_model": _TEXT,
        "chosen_strategy": _TEXT,
        "target_variable": _TEXT,
        "expected_answer_type": _TEXT,
        "knowns": {"type": "object", "additionalProperties": {"type": ["number", "string"]}},
        "causal_graph": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"cause": _NAMES, "effect": _TEXT, "rule": _TEXT},
                "required": ["cause", "effect", "rule"],
            },
        },
        "computation_plan": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"id": _TEXT, "target": _TEXT, "inputs": _NAMES, "description": _TEXT},
                "required": ["id", "target", "inputs", "description"],
            },
        },
        "final_answer": _TEXT,
    },
    "required": ["target_variable", "knowns", "causal_graph", "computation_plan", "final_answer"],
}


@dataclass(frozen=True)
class ScaffoldTask:
    """A task on causal scaffolds.

    Args:
        name: the task's name in datasets.
        answer_form: what an answer looks like.
        kind: how answers are verified.
        executed_answer: makes the scored answer of an executed value and the stated answer.
        logic_parts: further measurements for ``r_logic``, of a scaffold and its stated answer.
    """

    name: str
    answer_form: str
    kind: Literal["math", "physics"]
    executed_answer: Callable[[str, str | None], str] = lambda executed, stated: executed
    logic_parts: Callable[[Scaffold, str | None], dict[str, float | None]] = lambda scaffold, stated: {}
    reply_schema: dict[str, Any] | None = None
    prompts: str = ""
    prompt_variables: frozenset[str] = frozenset({"answer_form"})
    attempts: Mapping[str, str] = field(
        default_factory=lambda: {
            "generator": "causal scaffolds that a solver wrote",
            "critic": "fusions of several solvers' scaffolds",
        }
    )
    reply_form: str = JSON_OBJECT

    def check_problem(self, problem: Problem) -> None:
        """Refuse a ground truth that no answer could be compared with."""
        check_ground_truth(problem.answer, self.kind)

    def prompt_values(self, problem: Problem) -> dict[str, Any]:
        """What an answer looks like."""
        return {"answer_form": self.answer_form}

    def truth(self, problem: Problem) -> str:
        """The answer."""
        return problem.answer

    def parse(self, text: str, problem: Problem, reasoning: str | None = None) -> Candidate:
        """Read a reply: the scaffold, executed where it can be. Reasoning beside it is not looked at."""
        candidate = self._candidate(parse_scaffold(text))
        if candidate.scaffold is not None:
            return candidate
        return candidate.model_copy(update={"detail": {"text": text[-_SHOWN:]}})

    def re_ask_reason(self, candidate: Candidate) -> str | None:
        """There is no readable object. A cut-off reply would be cut off again."""
        if candidate.outcome is Outcome.OK or candidate.fault is None or candidate.scaffold is not None:
            return None
        return None if candidate.fault.kind in ("cut_off", "too_large") else candidate.fault.message

    def to_record(self, candidate: Candidate) -> str | None:
        """The scaffold as JSON text."""
        return None if candidate.scaffold is None else candidate.scaffold.model_dump_json()

    def candidate_from_record(self, scaffold: Any, answer: str | None, problem: Problem) -> Candidate:
        """Read a scaffold of a cache line (object, JSON text, Python literal's text, null) and execute it."""
        parsed = scaffold_from_object(scaffold)
        return self._candidate(parsed, stated=answer)

    def measure(self, candidate: Candidate, problem: Problem) -> Measurement:
        """``r_ans`` by the verifier; ``r_graph`` and ``r_logic`` from what :meth:`parse` measured."""
        verdict = verify_answer(candidate.answer, problem.answer, kind=self.kind)
        if verdict.correct is None:  # no checker could be started: nothing was found out about the answer
            return Measurement({}, None, Outcome.INFRA_FAULT, {"verdict": verdict.method, "why": verdict.detail})
        graph, logic = candidate.detail.get("graph", {}), candidate.detail.get("logic", {})
        return Measurement(
            components={
                "r_ans": 1.0 if verdict.correct else 0.0,
                "r_graph": mean_of_measured(graph) if graph else 0.0,
                "r_logic": mean_of_measured(logic) if graph else 0.0,
            },
            is_correct=verdict.correct,
            outcome=verdict.outcome,
            detail={**candidate.detail, "verdict": verdict.method},
        )

    def wants_opinion(self, candidate: Candidate) -> bool:
        """Where there is a scaffold to judge."""
        return candidate.scaffold is not None

    def show(self, candidate: Candidate) -> str:
        """The scaffold as JSON; where there is none, what was said."""
        if candidate.scaffold is not None:
            return candidate.scaffold.model_dump_json(exclude_defaults=True)[: 2 * _SHOWN]
        return str(candidate.detail.get("text") or "(unreadable)")

    def merge(self, candidates: Sequence[Candidate], problem: Problem) -> TaskMerge:
        """Join scaffolds that do not conflict into one that executes."""
        from engine.scaffold.merge import merge_scaffolds

        readable = [candidate for candidate in candidates if candidate.scaffold is not None]
        if not readable:
            return TaskMerge(None, [])
        stated = [candidate.stated_answer for candidate in readable if candidate.stated_answer is not None]
        merge = merge_scaffolds(
            [candidate.scaffold for candidate in readable if candidate.scaffold is not None], stated, self._is_stated
        )
        if merge.merged is None:
            told = [f"{conflict.effect}: {' | '.join(conflict.alternatives)}"[:_SHOWN] for conflict in merge.conflicts]
            return TaskMerge(None, told[:_MOST_CONFLICTS])
        executed = merge.answer or ""
        said = next((answer for answer in stated if self._is_stated(executed, answer)), stated[0] if stated else None)
        final = self.executed_answer(executed, said)
        return TaskMerge(self._measured(merge.merged.model_copy(update={"final_answer": final}), [], final), [])

    def _candidate(self, parsed: ParsedScaffold, stated: str | None = None) -> Candidate:
        stated = parsed.stated_answer if stated is None else stated
        if parsed.scaffold is None:
            return Candidate(
                outcome=Outcome.MODEL_FAULT,
                answer=stated,
                answer_source="none" if stated is None else "stated",
                stated_answer=stated,
                repairs=parsed.repairs,
                fault=parsed.fault,
            )
        return self._measured(parsed.scaffold, parsed.repairs, stated)

    def _measured(self, scaffold: Scaffold, repairs: list[str], stated: str | None) -> Candidate:
        structure = check_structure(scaffold)
        execution = execute(scaffold)
        graph: dict[str, float | None] = {
            "acyclic": float(structure.acyclic),
            "knowns_used": structure.knowns_used,
            "target_covered": float(structure.target_covered),
            "rules_parse": structure.rules_parse,
            "target_reachable": float(structure.target_reachable),
            "executes": float(execution.executed),
        }
        executed = None
        if execution.executed and execution.answer is not None:
            executed = self.executed_answer(execution.answer, stated)
        logic: dict[str, float | None] = {
            "plan_agrees": plan_agreement(scaffold),
            "rules_use_causes": rule_cause_agreement(scaffold),
            "answers_agree": self._agreement(executed, stated),
            "interventions": intervene(scaffold, execution).score if execution.executed else None,
            **self.logic_parts(scaffold, stated),
        }
        answer = executed if executed is not None else stated
        return Candidate(
            outcome=Outcome.OK if structure.acyclic else Outcome.MODEL_FAULT,
            answer=answer,
            answer_source="executed" if executed is not None else "stated" if stated is not None else "none",
            stated_answer=stated,
            scaffold=scaffold,
            repairs=repairs,
            fault=None if structure.acyclic else Fault(kind="cyclic_graph", message="a variable depends on itself"),
            detail={"graph": graph, "logic": logic},
        )

    def _is_stated(self, executed: str, stated: str) -> bool:
        """Whether a merged graph's value is what a solver stated; true also where no checker could be started."""
        return self._agreement(self.executed_answer(executed, stated), stated) != 0.0

    def _agreement(self, executed: str | None, stated: str | None) -> float | None:
        if executed is None or stated is None:
            return None
        if not is_value(stated, self.kind):  # "**" agrees with nothing
            return 0.0
        correct = verify_answer(executed, stated, kind=self.kind).correct
        return None if correct is None else float(correct)  # no checker could be started: not measured
