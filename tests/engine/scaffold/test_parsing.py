import json
import time

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engine.records import Scaffold
from engine.scaffold.parsing import ParsedScaffold, parse_scaffold, scaffold_from_object
from tests.support.table import table

OBJECT = {
    "target_variable": "y",
    "knowns": {"x": 2},
    "causal_graph": [{"cause": ["x"], "effect": "y", "rule": "y = x + 1"}],
    "computation_plan": [{"id": "step1", "target": "y", "inputs": ["x"], "description": "add one"}],
    "final_answer": "3",
}
TEXT = json.dumps(OBJECT)


def changed(**changes):
    return {**OBJECT, **changes}


def rule_of(parsed):
    assert parsed.scaffold is not None, parsed.fault
    return parsed.scaffold.causal_graph[0].rule


def test_json_needs_no_repair():
    parsed = parse_scaffold(TEXT)
    assert parsed == ParsedScaffold(Scaffold(**OBJECT), [], None, "3")


@table(
    ("text", "repairs"),
    [
        (f"```json\n{TEXT}\n```", ["code_fence"]),
        (f"Here it is:\n{TEXT}\nDone.", ["prose_around"]),
        (f"Let S = {{1, 2, ..., n and {{x}}. {TEXT}", ["prose_around"]),
        (f"<think>maybe {TEXT.replace('+ 1', '+ 7')}</think>{TEXT}", ["thinking"]),
        (TEXT.replace('"y = x + 1"}]', '"y = x + 1",},]'), ["trailing_commas"]),
        (TEXT.replace('"knowns"', "// don't worry\n/* } */ \"knowns\""), ["comments"]),
        (str(OBJECT), ["python_literal"]),
        (str(OBJECT).replace("['x']", "('x',)"), ["python_literal"]),
        (TEXT.replace("add one", "add\none"), ["raw_line_breaks"]),
        (TEXT.replace("add one", 'the "best" way'), ["quotes_in_strings"]),
        (json.dumps({"scaffold": OBJECT}), ["unwrapped"]),
        (TEXT.replace('["x"], "effect"', '"x", "effect"'), ["scalar_cause"]),
        (TEXT.replace('["x"], "desc', '"x", "desc'), ["scalar_input"]),
        (TEXT.replace('["x"], "desc', '[{"ref": "x"}], "desc'), ["input_refs"]),
        (TEXT.replace('"id": "step1", ', ""), []),
    ],
)  # fmt: skip
def test_each_repair_is_recorded_and_gives_the_same_graph(text, repairs):
    parsed = parse_scaffold(text)
    assert parsed.repairs == repairs
    assert parsed.fault is None
    assert parsed.scaffold.causal_graph == Scaffold(**OBJECT).causal_graph
    assert parsed.scaffold.knowns == {"x": 2}
    assert parsed.scaffold.computation_plan[0].inputs == ["x"]
    assert parsed.scaffold.computation_plan[0].id == "step1"


@table(
    ("written", "read"),
    [
        (r"\frac{x}{2} \cdot \sqrt{x}", r"\frac{x}{2} \cdot \sqrt{x}"),  # \c and \s are no JSON escapes
        (r"\frac{x}{2} \times 3", r"\frac{x}{2} \times 3"),  # \f and \t are, but must be kept
        (r"\binom{x}{2} + \theta + \rho + \nu + \beta", r"\binom{x}{2} + \theta + \rho + \nu + \beta"),
        (r"\\frac{x}{2} \\times 3", r"\frac{x}{2} \times 3"),  # correctly escaped
        (r"\(x + 1\)", r"\(x + 1\)"),
        (r"x\n+ 1", "x\n+ 1"),  # an intended line break
        (r"x\tor 1", "x\tor 1"),
        (r"caf\u00e9", "café"),
    ],
)
@table("quote", ['"', "'"])
def test_latex_in_rules_is_kept(written, read, quote):
    text = TEXT if quote == '"' else str(OBJECT)
    parsed = parse_scaffold(text.replace("y = x + 1", written))
    assert rule_of(parsed) == read


def test_the_last_object_with_a_graph_is_parsed():
    first = json.dumps(changed(final_answer="1"))
    assert parse_scaffold(f'{first} then {TEXT} and {{"note": 1}}').stated_answer == "3"
    assert parse_scaffold(f"{TEXT}\n{TEXT[:90]}").stated_answer == "3"  # the second object is truncated


@table(
    ("text", "kind"),
    [
        ("", "no_json"),
        ("I do not know.", "no_json"),
        ("[1, 2, 3]", "no_json"),
        (TEXT[:120], "cut_off"),
        (f"```json\n{TEXT[:-1]}", "cut_off"),
        ("<think>first I", "cut_off"),
        ('{"a": 1}', "schema"),
        ('{"target_variable": "y", "causal_graph": []}', "schema"),
        ('{"target_variable": "", "causal_graph": [{"effect": "y", "rule": "1"}]}', "schema"),
        ('{"causal_graph": [{"effect": "y", "rule": "1"}]}', "schema"),
        ('{"target_variable": "y", "causal_graph": "x -> y"}', "schema"),
        ('{"causal_graph": }{ "target_variable" }', "schema"),
        ('{"causal_graph": ' + "[" * 3000 + "]" * 3000 + "}", "too_large"),
        ('{"causal_graph": "a\nb", "knowns": ' + "[" * 3000 + "]" * 3000 + "}", "too_large"),
        (TEXT.replace("2}", "[" * 60 + "]" * 60 + "}"), "too_large"),
    ],
)
def test_kind_of_a_fault(text, kind):
    parsed = parse_scaffold(text)
    assert parsed.scaffold is None
    assert parsed.fault.kind == kind


def test_a_cut_off_reply_keeps_the_answer_that_it_states():
    text = '```json\n{"target_variable": "y", "final_answer": "73", "causal_graph": [{"cause": ["x"], "eff'
    parsed = parse_scaffold(text)
    assert (parsed.fault.kind, parsed.stated_answer) == ("cut_off", "73")


def test_forms_of_knowns():
    listed = scaffold_from_object(changed(knowns=["v = 5"]))
    assert (listed.scaffold.knowns, listed.repairs) == ({}, ["missing_knowns"])
    text = TEXT.replace('{"x": 2}', '{"s": NaN, "t": True,}')
    assert parse_scaffold(text).scaffold.knowns == {"s": None, "t": True}


def test_lone_surrogates_are_replaced():
    parsed = parse_scaffold(TEXT.replace("add one", "\\ud83d alone").replace('"x": 2', '"x": 2, "\\udc00": 1'))
    assert parsed.repairs == ["half_characters"]
    assert parsed.scaffold.computation_plan[0].description == "\ufffd alone"
    assert parsed.scaffold.knowns == {"x": 2, "\ufffd": 1}
    json.loads(parsed.scaffold.model_dump_json(exclude_none=True).encode())


def test_inputs_of_the_plan_name_steps_or_parts():
    plan = [
        {"id": "step1", "target": "volume", "inputs": ["x"]},
        {
            "id": "step2",
            "target": "y",
            "inputs": [{"ref": "step1.output"}, {"ref": "step1.volume"}, {"name": "x"}],
        },
        {"target": "z", "inputs": None},
        "say something",
    ]
    parsed = scaffold_from_object(changed(computation_plan=plan))
    assert [step.inputs for step in parsed.scaffold.computation_plan] == [["x"], ["step1", "volume", "x"], []]
    assert parsed.scaffold.computation_plan[2].id == "step3"
    assert parsed.repairs == ["dropped_step", "input_refs"]


def test_rules_without_an_effect_are_dropped_and_recorded():
    graph = [*OBJECT["causal_graph"], {"cause": ["x"], "rule": "1"}, "x -> y", {"effect": "z", "cause": "a, b"}]
    parsed = scaffold_from_object(changed(causal_graph=graph))
    assert [(edge.effect, edge.cause, edge.rule) for edge in parsed.scaffold.causal_graph] == [
        ("y", ["x"], "y = x + 1"),
        ("z", ["a", "b"], ""),
    ]
    assert parsed.repairs == ["dropped_rule", "scalar_cause"]


@pytest.mark.parametrize(("value", "kind"), [(None, "no_json"), (5, "schema"), ([OBJECT], "schema"), ("", "no_json")])
def test_faults_of_objects_from_other_programs(value, kind):
    assert scaffold_from_object(value).fault.kind == kind


def test_objects_and_text_give_the_same():
    wanted = Scaffold(**OBJECT)
    for value in (OBJECT, TEXT, str(OBJECT)):
        assert scaffold_from_object(value).scaffold == wanted


def test_too_many_rules_are_too_large():
    graph = [{"cause": [f"v{i}"], "effect": f"v{i + 1}", "rule": f"v{i} + 1"} for i in range(100_000)]
    start = time.process_time()
    assert scaffold_from_object(changed(causal_graph=graph)).fault.kind == "too_large"
    assert parse_scaffold(json.dumps(changed(causal_graph=graph))).fault.kind == "too_large"
    assert time.process_time() - start < 10


def test_every_recorded_scaffold_is_parsed_or_classified(recorded):
    kinds = {}
    for path in recorded.values():
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            for rollout in record.get("rollouts", [record]):
                parsed = scaffold_from_object(rollout.get("scaffold", rollout.get("fused_scaffold")))
                kind = parsed.fault.kind if parsed.fault else "parsed"
                kinds[kind] = kinds.get(kind, 0) + 1
                if parsed.scaffold:
                    assert parsed.repairs[:1] == ["python_literal"]
                    again = parse_scaffold(parsed.scaffold.model_dump_json(exclude_none=True))
                    assert (again.scaffold, again.repairs) == (parsed.scaffold, [])
                    assert all(
                        not name.startswith("{") for step in parsed.scaffold.computation_plan for name in step.inputs
                    )
    assert kinds == {"parsed": 253, "no_json": 3}  # three rollouts of one record have null instead of a scaffold


@pytest.mark.parametrize("reply", ["<answer>3</answer>", "We count.\n#### 3", "We count. So the length is 3."])
def test_a_reply_without_a_scaffold_may_state_an_answer(reply):
    parsed = parse_scaffold(reply)
    assert (parsed.scaffold, parsed.stated_answer) == (None, "3")


@pytest.mark.parametrize("written", [r"\frac{1}{2}", r"$\frac{1}{2}$", r"\boxed{\frac{1}{2}}", r"**\frac{1}{2}**"])
def test_the_braces_of_an_answer_are_kept(written):
    content = json.loads(TEXT) | {"final_answer": written}
    assert parse_scaffold(json.dumps(content)).stated_answer == r"\frac{1}{2}"


@table(
    "text",
    [
        '{"causal_graph": "' + "a" * 10_000_000,
        "{" * 10_000_000,
        '{"a":' * 2_000_000,
        '"' * 10_000_000,
        "{'a' " * 1_500_000,
        "\\boxed{" * 1_000_000,
        "final answer: " * 700_000,
        " " * 10_000_000 + "{",
        '{"causal_graph": "' + '"   ' * 2_000_000,
        "{'causal_graph': " + "-" * 150_000 + "1}",
        '{"causal_graph": ' + "1" * 150_000 + "}",
        '{"causal_graph": ' + "(" * 150_000,
        "{'causal_graph': [" + "'a' " * 40_000 + "]}",
    ],
)
def test_ten_megabytes_are_parsed_quickly(text):
    start = time.process_time()
    parsed = parse_scaffold(text)
    assert time.process_time() - start < 5
    assert parsed.fault.kind in ("too_large", "cut_off", "schema")


_WORDS = [
    '{"causal_graph": [', "'target_variable': 'y'", '"effect": "y"', '"rule": "\\frac', "//", "/*", "*/", "#",
    "True", "None", "NaN", "1e999", "<think>", "</think>", "```json", "\\boxed{", "Answer: ", "\\u12", TEXT,
]  # fmt: skip
_pieces = st.sampled_from([*"{}[]()\"':,\\ \n0aé", *_WORDS])
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["cause", "effect", "rule", "id", "target", "inputs", "ref", "name", "value", "x"]), inner
    ),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=300)
@given(st.lists(_pieces, max_size=40).map("".join))
def test_parsing_never_raises(text):
    parsed = parse_scaffold(text)
    assert (parsed.scaffold is None) == (parsed.fault is not None)


@settings(max_examples=300)
@given(st.fixed_dictionaries({}, optional=dict.fromkeys(
    ["target_variable", "knowns", "causal_graph", "computation_plan", "final_answer", "problem_model"], _values
)))  # fmt: skip
def test_any_object_gives_a_scaffold_or_a_fault(value):
    parsed = scaffold_from_object(value)
    assert (parsed.scaffold is None) == (parsed.fault is not None)


_names = st.text("abcxyz_12", min_size=1, max_size=6)
_rules = st.fixed_dictionaries({"cause": st.lists(_names), "effect": _names, "rule": st.text(max_size=20)})
_steps = st.fixed_dictionaries({"id": _names, "target": _names, "inputs": st.lists(_names)})


@settings(max_examples=80)
@given(
    st.builds(
        Scaffold,
        target_variable=_names,
        knowns=st.dictionaries(_names, st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _names),
        causal_graph=st.lists(_rules, min_size=1),
        computation_plan=st.lists(_steps),
    )
)
def test_a_scaffold_written_as_json_is_read_back(scaffold):
    text = scaffold.model_dump_json(exclude_none=True)
    assume("think" not in text.casefold())  # after a tag of reasoning the answer begins
    parsed = parse_scaffold(text)
    if not parsed.repairs:
        assert parsed.scaffold == scaffold
    else:  # a rule's text may hold a tab before "imes", which is read as \times
        assert parsed.repairs == ["latex_backslashes"]
