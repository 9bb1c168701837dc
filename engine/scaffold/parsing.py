"""Parse causal scaffolds from replies of models and from files of other programs.

Errors of form are repaired, and each repair is recorded as a short code; the meaning is never changed. A text without a
readable scaffold gets a fault with a kind. No text raises an exception.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from engine.answers.reply import after_reasoning, read_answer, unwrapped_answer
from engine.reading.json_reading import FoundObject, ObjectSearch
from engine.reading.loose_json import RepairLog, TooDeepError, plain, read_literal
from engine.records import CausalEdge, Fault, PlanStep, Scaffold

MAX_TEXT = 200_000
MAX_PARTS = 100_000
MAX_EDGES = 10_000
_MAX_NAME = 300
_KEYS = ("causal_graph", "target_variable", "knowns", "computation_plan", "final_answer")


@dataclass(frozen=True)
class ParsedScaffold:
    """The scaffold of a text.

    Args:
        scaffold: the scaffold, or None.
        repairs: codes of the repairs, in order.
        fault: why there is no scaffold: ``no_json``, ``cut_off``, ``schema``, ``too_large``.
        stated_answer: the answer that the object or the text around it states.
    """

    scaffold: Scaffold | None
    repairs: list[str] = field(default_factory=list)
    fault: Fault | None = None
    stated_answer: str | None = None


class _SchemaError(ValueError):
    """An object is not a scaffold."""


def parse_scaffold(text: str) -> ParsedScaffold:
    """Read the best scaffold of a model's reply: the last object that has a causal graph.

    Args:
        text: the reply; only its last 200,000 characters are read.

    Returns:
        the scaffold or the fault, the repairs, and the stated answer. Never raises.
    """
    repairs = RepairLog()
    is_shortened = len(text) > MAX_TEXT
    text = text[-MAX_TEXT:]
    after, opened = after_reasoning(text)
    if len(after) < len(text):
        repairs.note("thinking")
    text = after
    try:
        candidate = _best_object(text, repairs)
    except TooDeepError as error:
        candidate = Fault(kind="too_large", message=str(error))
    if isinstance(candidate, Fault):
        if is_shortened:
            candidate = Fault(kind="too_large", message=f"no scaffold in the last {MAX_TEXT} characters")
        elif opened and candidate.kind == "no_json":
            candidate = Fault(kind="cut_off", message="the reply ends inside its thinking")
        return ParsedScaffold(None, repairs.codes, candidate, read_answer(text))
    repairs.note(*candidate.repairs.codes)
    around = text[: candidate.start] + "\n" + text[candidate.end :]
    if "```" in around:
        repairs.note("code_fence")
    elif around.strip():
        repairs.note("prose_around")
    parsed = _from_plain(candidate.value, repairs)
    return parsed if parsed.stated_answer else replace(parsed, stated_answer=read_answer(around))


def scaffold_from_object(value: Any) -> ParsedScaffold:
    """Read a scaffold from a file: an object, or the JSON or Python-literal text of one.

    Args:
        value: any JSON value; None and empty text are ``no_json``.

    Returns:
        as ``parse_scaffold``. Never raises.
    """
    if isinstance(value, str):
        return parse_scaffold(value)
    if value is None:
        return ParsedScaffold(None, fault=Fault(kind="no_json", message="there is no scaffold"))
    return _from_plain(value, RepairLog())


def _best_object(text: str, repairs: RepairLog) -> FoundObject | Fault:
    """The last object with a causal graph, else the last object with a key of a scaffold.

    Raises:
        TooDeepError: an object is nested too deep.
    """
    bare = text.strip()
    if bare[:1] == "{" and bare[-1:] == "}":  # fast path: nothing around it
        value = read_literal(bare, repairs)
        if isinstance(value, dict) and "causal_graph" in value:
            return FoundObject(0, len(text), RepairLog(), value)
    search = ObjectSearch(text, _KEYS)
    second_best: FoundObject | None = None
    unreadable = ""
    for candidate in search:
        if isinstance(candidate.error, TooDeepError):
            raise candidate.error
        if not isinstance(candidate.value, dict):
            unreadable = str(candidate.error or "it is none")[:200]
        elif "causal_graph" in candidate.value:
            return candidate
        else:
            second_best = second_best or candidate
    # The closed parts of an object that is cut off (its knowns, its edges) are not the scaffold.
    if search.cut_off:
        return Fault(kind="cut_off", message="the object is not closed")
    if second_best is not None:
        return second_best
    if unreadable:
        return Fault(kind="schema", message=f"the object cannot be read: {unreadable}")
    if search.spans:
        return Fault(kind="schema", message="no object of the text has a key of a scaffold")
    return Fault(kind="no_json", message="the text holds no JSON object")


def _unwrapped(value: Any, repairs: RepairLog) -> Any:
    """The scaffold inside of an object that only wraps it."""
    if isinstance(value, dict) and "causal_graph" not in value:
        for inner in value.values():
            if isinstance(inner, dict) and "causal_graph" in inner:
                repairs.note("unwrapped")
                return {"final_answer": value.get("final_answer"), **inner}
    return value


def _from_plain(value: Any, repairs: RepairLog) -> ParsedScaffold:
    answer: str | None = None
    try:
        content = _unwrapped(plain(value, repairs, MAX_PARTS), repairs)
        if not isinstance(content, dict):
            raise _SchemaError(f"a {type(value).__name__} and no object")
        answer = _answer(content)
        return ParsedScaffold(_scaffold(content, answer, repairs), repairs.codes, None, answer)
    except (TooDeepError, _SchemaError) as error:
        kind = "schema" if isinstance(error, _SchemaError) else "too_large"
        return ParsedScaffold(None, repairs.codes, Fault(kind=kind, message=str(error)), answer)


def _scaffold(content: Mapping[str, Any], answer: str | None, repairs: RepairLog) -> Scaffold:
    graph, target = content.get("causal_graph"), _name(content.get("target_variable"))
    if not isinstance(graph, list):
        raise _SchemaError("causal_graph is not a list of rules")
    if len(graph) > MAX_EDGES:
        raise TooDeepError(f"more than {MAX_EDGES} rules")
    if not target:
        raise _SchemaError("target_variable is missing")
    edges = [edge for item in graph if (edge := _edge(item, repairs)) is not None]
    if not edges:
        raise _SchemaError("causal_graph holds no rule")
    return Scaffold(
        constraints_and_premises=_texts(content.get("constraints_and_premises")),
        problem_model=_text(content.get("problem_model")),
        chosen_strategy=_text(content.get("chosen_strategy")),
        target_variable=target,
        expected_answer_type=_text(content.get("expected_answer_type")),
        knowns=_knowns(content.get("knowns"), repairs),
        causal_graph=edges,
        computation_plan=_plan(content.get("computation_plan"), repairs),
        final_answer=answer,
    )


def _edge(item: Any, repairs: RepairLog) -> CausalEdge | None:
    """One rule; None, and a repair recorded, where it has no effect."""
    effect = _name(item.get("effect")) if isinstance(item, dict) else ""
    if not effect:
        repairs.note("dropped_rule")
        return None
    causes = filter(None, map(_name, _listed(item.get("cause"), repairs, "scalar_cause")))
    return CausalEdge(cause=list(causes), effect=effect, rule=_text(item.get("rule")))


def _listed(value: Any, repairs: RepairLog, code: str) -> list[Any]:
    """A list, or a single value as one; the latter is recorded as a repair."""
    if value is None or isinstance(value, list):
        return value or []
    repairs.note(code)
    return value.split(",") if isinstance(value, str) else [value]


def _knowns(knowns: Any, repairs: RepairLog) -> dict[str, Any]:
    """Knowns by name; none, and a repair recorded, if they are no object."""
    if isinstance(knowns, dict):
        return {name.strip(): value for name, value in knowns.items() if name.strip()}
    repairs.note("missing_knowns")
    return {}


def _plan(plan: Any, repairs: RepairLog) -> list[PlanStep]:
    if not isinstance(plan, list):
        repairs.note("missing_plan")
        return []
    items = [item for item in plan if isinstance(item, dict) and _name(item.get("target"))]
    if len(items) < len(plan):
        repairs.note("dropped_step")
    ids = {str(item.get("id", f"step{number}")) for number, item in enumerate(items, start=1)}
    return [
        PlanStep(
            id=_text(item.get("id", f"step{number}"))[:_MAX_NAME],
            target=_name(item["target"]),
            inputs=_inputs(item.get("inputs"), ids, repairs),
            description=_text(item.get("description")),
        )
        for number, item in enumerate(items, start=1)
    ]


def _inputs(inputs: Any, ids: set[str], repairs: RepairLog) -> list[str]:
    """Names of variables or ids of steps; ``{"ref": "step1.output"}`` is step1, "step1.volume" is volume."""
    names: list[str] = []
    for item in _listed(inputs, repairs, "scalar_input"):
        if isinstance(item, dict):
            repairs.note("input_refs")
        name = _name(item)
        step, dot, field_name = name.partition(".")
        if dot and step in ids:
            name = step if field_name in ("output", "result", "value", "target") else field_name
        if name:
            names.append(name)
    return names


def _answer(content: Mapping[str, Any]) -> str | None:
    value = content.get("final_answer", content.get("answer"))
    if value is None or isinstance(value, bool | dict):
        return None
    return unwrapped_answer(", ".join(map(_text, value)) if isinstance(value, list) else _text(value))


def _name(value: Any) -> str:
    """The name in a value: a text, or the name of an object."""
    if isinstance(value, dict):
        value = next((value[key] for key in ("ref", "name", "variable", "var", "id", "step") if key in value), "")
    if isinstance(value, bool | dict | list) or value is None:
        return ""
    return str(value).strip()[:_MAX_NAME]


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _texts(value: Any) -> list[str]:
    if value is None or value == "":
        return []
    return [_text(item) for item in (value if isinstance(value, list) else [value])]
