"""A causal scaffold from a model's reply or from a file that another program wrote.

Tolerant in form, never in meaning: every mend is recorded as a short code, and what cannot be read is
classified. Nothing here raises for what a text contains.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.answers.stated_answers import clean_answer, stated_answer
from engine.reading.json_reading import FoundObject, ObjectSearch
from engine.reading.loose_json import RepairLog, TooDeepError, plain, read_literal
from engine.records import CausalEdge, Fault, PlanStep, Scaffold

MAX_TEXT = 200_000
MAX_PARTS = 100_000
MAX_EDGES = 10_000
_MAX_NAME = 300
_KEYS = ("causal_graph", "target_variable", "knowns", "computation_plan", "final_answer")
_NESTED = ("scaffold", "causal_scaffold", "fused_scaffold", "final_scaffold", "result", "output", "response")


@dataclass(frozen=True)
class ParsedScaffold:
    """What a text gave.

    Args:
        scaffold: the scaffold, or None.
        repairs: codes of what was mended on the way, in order.
        fault: why there is no scaffold: ``no_json``, ``cut_off``, ``not_an_object``, ``schema``, ``too_large``.
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
        text: the reply, as long as it likes; of one above 200,000 characters the end is read.

    Returns:
        the scaffold or the fault, the mends, and the stated answer. Never raises.
    """
    mended = RepairLog()
    shortened = len(text) > MAX_TEXT
    if shortened:
        text = text[-MAX_TEXT:]
        mended.note("text_shortened")
    text, thinking = _without_thinking(text, mended)
    try:
        value, place, fault = _best_object(text, mended)
    except TooDeepError as error:
        value, place, fault = None, (0, 0), Fault(kind="too_large", message=str(error))
    if fault is not None:
        if shortened:
            fault = Fault(kind="too_large", message=f"no scaffold in the last {MAX_TEXT} characters")
        elif thinking and fault.kind == "no_json":
            fault = Fault(kind="cut_off", message="the reply ends inside its thinking")
        return ParsedScaffold(None, mended.codes, fault, stated_answer(text))
    around = text[: place[0]] + "\n" + text[place[1] :]
    if "```" in around:
        mended.note("code_fence")
    elif around.strip():
        mended.note("prose_around")
    parsed = _from_plain(value, mended)
    answer = parsed.stated_answer or stated_answer(around)
    return ParsedScaffold(parsed.scaffold, parsed.repairs, parsed.fault, answer)


def scaffold_from_object(value: Any) -> ParsedScaffold:
    """Read a scaffold that a file holds: an object, or the JSON or Python-literal text of one.

    Args:
        value: any JSON value; None and empty text are ``no_json``.

    Returns:
        as ``parse_scaffold``. Never raises.
    """
    if isinstance(value, Scaffold):
        return ParsedScaffold(value, stated_answer=value.final_answer)
    if isinstance(value, str):
        return parse_scaffold(value)
    if value is None:
        return ParsedScaffold(None, fault=Fault(kind="no_json", message="there is no scaffold"))
    mended = RepairLog()
    if not isinstance(value, Mapping):
        message = f"a {type(value).__name__} where an object is wanted"
        return ParsedScaffold(None, fault=Fault(kind="not_an_object", message=message))
    return _from_plain(value, mended)


def _without_thinking(text: str, mended: RepairLog) -> tuple[str, bool]:
    """The text behind the thinking, and whether the thinking was left open."""
    end = text.rfind("</think>")
    if end >= 0:
        mended.note("thinking")
        return text[end + len("</think>") :], False
    return text, "<think>" in text


# ------------------------------------------------------------------ the object


def _best_object(text: str, mended: RepairLog) -> tuple[Any, tuple[int, int], Fault | None]:
    """The object to read, where it stands, or the fault that there is none."""
    nowhere = (0, len(text))
    bare = text.strip()
    if bare[:1] == "{" and bare[-1:] == "}":  # nothing around it: no need to look where it ends
        value = read_literal(bare, mended)
        if isinstance(value, dict) and "causal_graph" in value:
            return value, nowhere, None
    search = ObjectSearch.of(text, _KEYS)
    second_best: tuple[Any, FoundObject] | None = None
    unreadable = ""
    for found in search:
        if isinstance(found.error, TooDeepError):
            raise found.error
        value = _unwrapped(found.value, found.repairs)
        if found.error is not None:
            unreadable = str(found.error)[:200]
        elif not isinstance(value, dict):
            unreadable = f"a {type(value).__name__}"
        elif "causal_graph" in value:
            _note_all(mended, found.repairs.codes)
            return value, (found.start, found.end), None
        else:
            second_best = second_best or (value, found)
    # The closed parts of an object that is cut off (its knowns, its edges) are not the scaffold.
    if search.cut_off:
        return None, nowhere, Fault(kind="cut_off", message="the object is not closed")
    if second_best is not None:
        value, found = second_best
        _note_all(mended, found.repairs.codes)
        return value, (found.start, found.end), None
    if unreadable:
        return None, nowhere, Fault(kind="schema", message=f"the object cannot be read: {unreadable}")
    return None, nowhere, _no_object(text, bool(search.spans))


def _no_object(text: str, has_other_objects: bool) -> Fault:
    if has_other_objects:
        return Fault(kind="schema", message="no object of the text has a key of a scaffold")
    bare = text.strip().removeprefix("```json").strip("`\n ")
    if bare[:1] in ("[", '"', "-") or bare[:1].isdigit():
        try:
            json.loads(bare)
        except (ValueError, RecursionError):
            pass
        else:
            return Fault(kind="not_an_object", message="the JSON is not an object")
    return Fault(kind="no_json", message="the text holds no JSON object")


def _unwrapped(value: Any, notes: RepairLog) -> Any:
    """The scaffold inside of an object that only wraps it."""
    if not isinstance(value, dict) or "causal_graph" in value:
        return value
    for key in (*_NESTED, *value):
        inner = value.get(key)
        if isinstance(inner, dict) and "causal_graph" in inner:
            notes.note("unwrapped")
            return {**inner, "final_answer": inner.get("final_answer", value.get("final_answer"))}
    return value


def _note_all(mended: RepairLog, codes: Iterable[str]) -> None:
    for code in codes:
        mended.note(code)


# ------------------------------------------------------------------ the record


def _from_plain(value: Any, mended: RepairLog) -> ParsedScaffold:
    answer: str | None = None
    try:
        content = plain(_unwrapped(dict(value), mended), mended, MAX_PARTS)
        answer = _answer(content, mended)
        if len(_edges(content)) > MAX_EDGES:
            raise TooDeepError(f"more than {MAX_EDGES} rules")
        scaffold = _scaffold(content, answer, mended)
    except TooDeepError as error:
        return ParsedScaffold(None, mended.codes, Fault(kind="too_large", message=str(error)), answer)
    except _SchemaError as error:
        return ParsedScaffold(None, mended.codes, Fault(kind="schema", message=str(error)), answer)
    return ParsedScaffold(scaffold, mended.codes, None, answer)


def _scaffold(content: Mapping[str, Any], answer: str | None, mended: RepairLog) -> Scaffold:
    target = _name(content.get("target_variable"))
    if not target:
        raise _SchemaError("target_variable is missing")
    edges = [edge for item in _edges(content) if (edge := _edge(item, mended)) is not None]
    if not edges:
        raise _SchemaError("causal_graph holds no rule")
    return Scaffold(
        constraints_and_premises=_texts(content.get("constraints_and_premises")),
        problem_model=_text(content.get("problem_model")),
        chosen_strategy=_text(content.get("chosen_strategy")),
        target_variable=target,
        expected_answer_type=_text(content.get("expected_answer_type")),
        knowns=_knowns(content.get("knowns"), mended),
        causal_graph=edges,
        computation_plan=_plan(content.get("computation_plan"), mended),
        final_answer=answer,
    )


def _edges(content: Mapping[str, Any]) -> list[Any]:
    graph = content.get("causal_graph")
    if isinstance(graph, dict):
        graph = next((graph[key] for key in ("edges", "links", "rules") if key in graph), None)
    if not isinstance(graph, list):
        raise _SchemaError("causal_graph is not a list of rules")
    return graph


def _edge(item: Any, mended: RepairLog) -> CausalEdge | None:
    """One rule; None, and a mend recorded, where it has no effect."""
    if not isinstance(item, dict):
        mended.note("dropped_rule")
        return None
    effect = _name(_either(item, ("effect", "effects", "to"), mended))
    if not effect:
        mended.note("dropped_rule")
        return None
    rule = _either(item, ("rule", "formula", "equation", "expression"), mended)
    if rule is None:
        mended.note("missing_rule")
    causes = _either(item, ("cause", "causes", "from"), mended)
    return CausalEdge(cause=_causes(causes, mended), effect=effect, rule=_text(rule))


def _either(item: Mapping[str, Any], keys: tuple[str, ...], mended: RepairLog) -> Any:
    for key in keys:
        if key in item:
            if key != keys[0]:
                mended.note("renamed_key")
            return item[key]
    return None


def _causes(causes: Any, mended: RepairLog) -> list[str]:
    if causes is None or causes == "":
        return []
    if not isinstance(causes, list):
        mended.note("scalar_cause")
        causes = causes.split(",") if isinstance(causes, str) and "(" not in causes else [causes]
    return [name for cause in causes if (name := _name(cause))]


def _knowns(knowns: Any, mended: RepairLog) -> dict[str, Any]:
    """Knowns by name: also of a list of ``{"name", "value", "unit"}``, of "x = 5" and of plain names."""
    if isinstance(knowns, dict):
        return {name.strip(): _known(value, mended) for name, value in knowns.items() if name.strip()}
    if knowns is None:
        mended.note("missing_knowns")
        return {}
    mended.note("knowns_form")
    found: dict[str, Any] = {}
    for item in knowns if isinstance(knowns, list) else [knowns]:
        if isinstance(item, dict):
            name = _name(item)
            if name and "value" in item:
                found[name] = _known(item, mended)
            else:
                found |= {key: _known(value, mended) for key, value in item.items()}
        elif isinstance(item, str) and item.strip():
            name, equals, value = item.partition("=")
            found[name.strip()[:_MAX_NAME]] = value.strip() if equals else None
    return found


def _known(value: Any, mended: RepairLog) -> Any:
    """A value as it is; of ``{"value": 5, "unit": "m"}`` the quantity "5 m"."""
    if isinstance(value, dict) and "value" in value:
        mended.note("knowns_form")
        unit = value.get("unit") or value.get("units")
        return f"{value['value']} {unit}" if unit else value["value"]
    return value


def _plan(plan: Any, mended: RepairLog) -> list[PlanStep]:
    if not isinstance(plan, list):
        if plan is None:
            mended.note("missing_plan")
        else:
            mended.note("plan_form")
        return []
    steps: list[PlanStep] = []
    ids = {str(item["id"]) for item in plan if isinstance(item, dict) and "id" in item}
    for place, item in enumerate(plan, start=1):
        target = _name(item.get("target")) if isinstance(item, dict) else ""
        if not target:
            mended.note("dropped_step")
            continue
        if "id" not in item:
            mended.note("missing_step_id")
        steps.append(
            PlanStep(
                id=_text(item.get("id", f"step{place}"))[:_MAX_NAME],
                target=target,
                inputs=_inputs(item.get("inputs"), ids, mended),
                description=_text(item.get("description")),
            )
        )
    return steps


def _inputs(inputs: Any, ids: set[str], mended: RepairLog) -> list[str]:
    """Names of variables or ids of steps; ``{"ref": "step1.output"}`` is step1, "step1.volume" is volume."""
    if inputs is None:
        return []
    if not isinstance(inputs, list):
        mended.note("scalar_input")
        inputs = [inputs]
    names: list[str] = []
    for item in inputs:
        if isinstance(item, dict):
            mended.note("input_refs")
        name = _name(item)
        step, dot, part = name.partition(".")
        if dot and step in ids:
            name = step if part in ("output", "result", "value", "target") else part
        if name:
            names.append(name)
    return names


def _answer(content: Mapping[str, Any], mended: RepairLog) -> str | None:
    for key in ("final_answer", "answer"):
        value = content.get(key)
        if isinstance(value, dict):
            value = value.get("value", value.get("answer"))
        if isinstance(value, list):
            value = ", ".join(_text(item) for item in value)
        if value is not None and not isinstance(value, bool | dict):
            return clean_answer(_text(value))
    return None


def _name(value: Any) -> str:
    """The name that a value gives: text, the first of a list of one, or the name of an object."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
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
    return [_text(item) for item in value] if isinstance(value, list) else [_text(value)]
