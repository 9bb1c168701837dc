"""Tasks whose candidates are causal scaffolds: the graph is executed, and its value is the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from engine.answers.verdict import VERIFIER_VERSION, Comparison
from engine.answers.verify import check_ground_truth, is_value, verify_answer
from engine.errors import InputError
from engine.records import AnswerSource, Candidate, Completion, Fault, Outcome, Problem, Scaffold
from engine.scaffold.execution import Execution, execute
from engine.scaffold.interventions import intervene
from engine.scaffold.parsing import ParsedScaffold, parse_scaffold, scaffold_from_object
from engine.scaffold.problem_text import knowns_in_text
from engine.scaffold.structure import STRUCTURE_VERSION, check_structure, plan_agreement, rule_cause_agreement
from engine.statistics.groups import combine_rewards
from engine.task import JSON_OBJECT, MAX_SHOWN_CHARS, Measurement, Task, TaskMerge, Teaching
from engine.tasks.rows import problem_with_answer

if TYPE_CHECKING:
    from engine.answers.how_compared import HowCompared

_MOST_CONFLICTS = 20
STRUCTURE_OF_WRONG_ANSWER = 0.4
"""What the structure of a wrong answer counts.

Below one half, so that where the components have equal weights, as for the critic, a right answer without a scaffold
(1, 0, 0) has a higher total than a wrong one in perfect form (0, 0.4, 0.4).
"""

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


class ScaffoldTask(Task[Scaffold]):
    """A task on causal scaffolds. Subclasses set ``name``, ``answer_form`` and ``comparison``.

    Attributes:
        answer_form: the form of an answer, for the prompt.
        comparison: how answers are compared with the truth.
    """

    answer_form: str
    comparison: Comparison
    reward_weights: Mapping[str, float] = MappingProxyType({"r_ans": 0.5, "r_logic": 0.25, "r_graph": 0.25})
    prompt_variables = frozenset({"answer_form"})
    reply_schema = REPLY_SCHEMA
    reply_description = JSON_OBJECT

    def final_answer(self, executed: str, stated: str | None) -> str:
        """The answer to score, given the executed value of the target and the stated answer."""
        return executed

    def logic_parts(self, scaffold: Scaffold, stated: str | None) -> Mapping[str, float | None]:
        """Further parts of ``r_logic``."""
        return {}

    def problem_from_row(self, row: Mapping[str, Any], where: str) -> Problem:
        """A row with a text and an answer that answers can be compared with."""
        problem = problem_with_answer(row, where, self.name)
        try:
            check_ground_truth(problem.answer, self.comparison)
        except InputError as error:
            raise InputError(f"{where}: {error.what}", why=error.why, fix=error.fix) from None
        return problem

    def described_problem(self, row: Mapping[str, Any], how: HowCompared, where: str) -> Problem:
        """A described row of a user's file. All answers are compared as formulas or quantities."""
        return self.problem_from_row(row, where)

    def question(self, example: Problem, text: str) -> Problem:
        """The example with another text: no prompt depends on its answer."""
        return example.model_copy(update={"id": "question", "text": text})

    def comparison_in_words(self, how: HowCompared) -> str:
        """Replies are scaffolds."""
        return "answered with causal scaffolds"

    def verifier(self) -> Mapping[str, Any]:
        """The versions of the answer verifier, of the structure's checks, and of the library that they ask."""
        versions = {"verifier": VERIFIER_VERSION, "structure": STRUCTURE_VERSION, "mpmath": version("mpmath")}
        return {**super().verifier(), **versions}

    def prompt_values(self, problem: Problem) -> Mapping[str, Any]:
        """The form of an answer."""
        return {"answer_form": self.answer_form}

    def parse(self, completion: Completion, problem: Problem) -> Candidate[Scaffold]:
        """Read the scaffold. Reasoning beside the text is ignored."""
        return _candidate(parse_scaffold(completion.text), completion.text[-MAX_SHOWN_CHARS:])

    def evaluate(self, candidate: Candidate[Scaffold], problem: Problem) -> Measurement:
        """``r_ans`` by the verifier, ``r_graph`` and ``r_logic`` by executing and checking the graph."""
        scaffold, stated = candidate.content, candidate.stated_answer
        execution = None if scaffold is None else execute(scaffold)
        computed = None if execution is None else self._computed(execution, stated)
        answer = stated if computed is None else computed
        source: AnswerSource = "none" if answer is None else "stated" if computed is None else "executed"
        verdict = verify_answer(answer, problem.answer, comparison=self.comparison)
        if verdict.correct is None:  # no checker could be started: nothing is known about the answer
            why = {"verdict": verdict.method, "why": verdict.detail}
            return Measurement({}, None, answer, source, Outcome.INFRA_FAULT, detail=why)
        worth = 1.0 if verdict.correct else STRUCTURE_OF_WRONG_ANSWER
        components: dict[str, float | None] = {"r_ans": float(verdict.correct), "r_graph": 0.0, "r_logic": 0.0}
        detail: dict[str, Any] = {"text": candidate.text} if candidate.text else {}
        fault = None
        if scaffold is not None and execution is not None:
            structure = check_structure(execution.program)
            if not structure["acyclic"]:
                fault = Fault(kind="cyclic_graph", message="a variable depends on itself")
            detail["graph"] = {
                **structure,
                "knowns_in_text": knowns_in_text(scaffold, problem.text),
                "executes": float(execution.executed),
            }
            detail["logic"] = {
                "plan_agrees": plan_agreement(scaffold),
                "rules_use_causes": rule_cause_agreement(execution.program),
                "answers_agree": self._agreement(computed, stated),
                "interventions": 0.0 if computed is None else intervene(scaffold, execution),
                **self.logic_parts(scaffold, stated),
            }
            for name in ("graph", "logic"):
                mean = combine_rewards(detail[name], dict.fromkeys(detail[name], 1.0))
                components[f"r_{name}"] = worth * (mean or 0.0)
        versions = {"verdict": verdict.method, "verifier": VERIFIER_VERSION, "structure": STRUCTURE_VERSION}
        outcome = Outcome.MODEL_FAULT if fault else Outcome.OK
        return Measurement(
            components=components,
            is_correct=verdict.correct,
            answer=answer,
            answer_source=source,
            outcome=outcome if verdict.outcome is Outcome.OK else verdict.outcome,
            fault=fault,
            detail={**detail, **versions},
            opinion_weight=worth,
        )

    def answer(self, candidate: Candidate[Scaffold]) -> str | None:
        """What the graph computes, which is scored as well; the stated answer if the graph does not execute."""
        stated = candidate.stated_answer
        computed = None if candidate.content is None else self._computed(execute(candidate.content), stated)
        return stated if computed is None else computed

    def re_ask_reason(self, candidate: Candidate[Scaffold]) -> str | None:
        """The reply holds no readable object. A reply that was cut off would be cut off again."""
        if candidate.content is not None or candidate.fault is None:
            return None
        return None if candidate.fault.kind in ("cut_off", "too_large") else candidate.fault.message

    def gold_reply(self, problem: Problem) -> str | None:
        """A scaffold without a graph that states the answer."""
        return Scaffold(target_variable="answer", final_answer=problem.answer).model_dump_json()

    def teaching(self, problem: Problem, wrong: Sequence[str] = ()) -> Teaching:
        """A rule about how such a graph is set up."""
        return Teaching(
            "says what to check, or how to set up the graph, so that this mistake is not made again; it has none of "
            "this problem's numbers, and not its answer",
            self.truth(problem),
        )

    def to_record(self, candidate: Candidate[Scaffold]) -> str | None:
        """The scaffold as JSON text."""
        return None if candidate.content is None else candidate.content.model_dump_json()

    def candidate_from_record(self, scaffold: Any, answer: str | None, problem: Problem) -> Candidate[Scaffold]:
        """Read a scaffold of a cache line: an object, JSON text, the text of a Python literal, or null."""
        return _candidate(scaffold_from_object(scaffold), stated=answer)

    def show(self, candidate: Candidate[Scaffold]) -> str:
        """The scaffold as JSON, or the unreadable reply."""
        if candidate.content is not None:
            return candidate.content.model_dump_json(exclude_defaults=True)[: 2 * MAX_SHOWN_CHARS]
        return candidate.text or "(unreadable)"

    def merge(self, candidates: Sequence[Candidate[Scaffold]], problem: Problem) -> TaskMerge[Scaffold]:
        """Merge scaffolds without conflicts into one that executes."""
        from engine.scaffold.merge import merge_scaffolds  # only the critic merges

        readable = [candidate for candidate in candidates if candidate.content is not None]
        scaffolds = [candidate.content for candidate in readable if candidate.content is not None]
        stated = [candidate.stated_answer for candidate in readable if candidate.stated_answer is not None]
        if not scaffolds:
            return TaskMerge(None)
        merge = merge_scaffolds(scaffolds, stated, self._is_stated)
        if isinstance(merge, list):
            return TaskMerge(None, [conflict[:MAX_SHOWN_CHARS] for conflict in merge[:_MOST_CONFLICTS]])
        executed = merge.final_answer or ""
        matching = (answer for answer in stated if self._is_stated(executed, answer))
        final = self.final_answer(executed, next(matching, stated[0] if stated else None))
        merged = merge.model_copy(update={"final_answer": final})
        return TaskMerge(Candidate(Outcome.OK, stated_answer=final, content=merged))

    def wants_opinion(self, candidate: Candidate[Scaffold]) -> bool:
        """If there is a scaffold to judge."""
        return candidate.content is not None

    def _computed(self, execution: Execution, stated: str | None) -> str | None:
        """The value of the target, as the final answer; None if the graph does not execute."""
        return None if execution.answer is None else self.final_answer(execution.answer, stated)

    def same_answer(self, left: str, right: str) -> bool:
        """Whether two answers are equal as values: "14 m/s" and "14.0 m/s"."""
        return self._agreement(left, right) == 1.0

    def _is_stated(self, executed: str, stated: str) -> bool:
        """Whether a solver stated the value of a merged graph; also true if no checker could be started."""
        return self._agreement(self.final_answer(executed, stated), stated) != 0.0

    def _agreement(self, executed: str | None, stated: str | None) -> float | None:
        if executed is None or stated is None or not is_value(stated, self.comparison):  # "**" agrees with nothing
            return 0.0
        correct = verify_answer(executed, stated, comparison=self.comparison).correct
        return None if correct is None else float(correct)  # None: no checker could be started


def _candidate(parsed: ParsedScaffold, text: str = "", stated: str | None = None) -> Candidate[Scaffold]:
    return Candidate(
        outcome=Outcome.MODEL_FAULT if parsed.scaffold is None else Outcome.OK,
        stated_answer=parsed.stated_answer if stated is None else stated,
        content=parsed.scaffold,
        text=text if parsed.scaffold is None else "",
        repairs=tuple(parsed.repairs),
        fault=parsed.fault if parsed.scaffold is None else None,
    )
