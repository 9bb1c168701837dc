import json
from pathlib import Path

from engine.records import Completion, Experience, GroupStats, Message, Outcome, Rollout, RolloutGroup
from grpo_training.view.pages.group import group_page
from grpo_training.view.pages.prompt_view import marked, prompts_of
from tests.support.attributes import attributes
from tests.support.library import experience_block
from tests.support.table import table

EVIL = "<script>alert(1)</script>\u202e\x1b[31m"
KNOWNS = {"first": 10, "weak": 20, "second": 15, "strong": 60}
RIGHT = [
    {"cause": list(KNOWNS), "effect": "content", "rule": "content = first * weak + second * strong"},
    {"cause": ["content", "first", "second"], "effect": "percent", "rule": "percent = content / (first + second)"},
]
MEAN = [{"cause": ["weak", "strong"], "effect": "percent", "rule": "percent = (weak + strong) / 2"}]


def rollout(number, graph, answer, total, **changes):
    scaffold = {"target_variable": "percent", "knowns": KNOWNS, "causal_graph": graph}
    fields = {
        "rollout_id": number,
        "scaffold": json.dumps(scaffold),
        "answer": answer,
        "is_correct": answer == "44",
        "r_ans": float(answer == "44"),
        "r_logic": 0.5,
        "r_graph": 1.0,
        "r_total": total,
        "completion": Completion(text=json.dumps(scaffold)),
        "reward_detail": {"graph": {"acyclic": 1.0}, "logic": {"plan_agrees": 0.0}, "remarks": ["a", "b"], "text": "x"},
    }
    return Rollout(**fields | changes)


def group(*rollouts, **changes):
    fields = {
        "problem_id": "p",
        "problem_text": "Mix 10 litres of 20% brine with 15 litres of 60%.",
        "ground_truth": "44",
        "timestamp": "2026-01-01T00:00:00+00:00",
        "generator_id": "generator_1",
        "task": "math",
    }
    return RolloutGroup(rollouts=list(rollouts), **fields | changes)


def page(*rollouts, **changes):
    return attributes(group_page(group(*rollouts, **changes), Path()))


def test_the_right_rollout_comes_first_and_a_wrong_one_says_where_it_parts():
    result = page(
        rollout(1, MEAN, "40", 0.1),
        rollout(2, RIGHT, "44", 0.875),
        rollout(3, RIGHT, "44", 0.875),
        stats=GroupStats(mean=0.6, std=0.3, advantages=[-1.4, 0.7, 0.7], triggered=True),
    )
    assert [(view.name, view.verdict) for view in result.rollouts] == [("2", "right"), ("1", "wrong"), ("3", "right")]
    assert (result.reference, result.reference_is_right) == ("2", True)
    assert result.rollouts[1].advantage == -1.4
    divergence = result.rollouts[1].divergence
    assert (divergence.variable, divergence.value, divergence.other_value) == ("percent", "40", "44")
    assert result.rollouts[2].divergence is None
    assert result.divergences == [(["1"], divergence)]


def test_variables_are_compared_across_rollouts():
    result = page(rollout(1, MEAN, "40", 0.1), rollout(2, RIGHT, "44", 0.875))
    rows = {row.name: row for row in result.variables}
    assert [cell and cell.text for cell in rows["percent"].cells] == ["44", "40"]  # as the rollouts: 2, 1
    assert rows["percent"].cells[1].mark == "first"
    assert rows["percent"].differs
    assert not rows["weak"].differs
    assert [cell and cell.text for cell in rows["content"].cells] == ["1100", None]


def test_an_answer_that_its_graph_does_not_give_is_told_and_is_no_reference():
    """Files of other programs score what a reply states."""
    lucky = rollout(1, MEAN, "44", 0.9)
    result = page(lucky, rollout(2, RIGHT, "44", 0.8), rollout(3, MEAN, "40", 0.1))
    assert {view.name: view.graph_gives for view in result.rollouts} == {"1": "40", "2": "", "3": ""}
    assert result.reference == "2"
    assert next(view for view in result.rollouts if view.name == "3").divergence.other_value == "44"
    executed = page(lucky.model_copy(update={"answer_source": "executed"})).rollouts[0]
    assert executed.graph_gives == ""


def test_without_a_right_rollout_the_best_paid_one_is_the_reference():
    result = page(rollout(1, MEAN, "40", 0.1), rollout(2, RIGHT, "45", 0.3))
    assert (result.reference, result.reference_is_right) == ("2", False)


def test_components_have_their_parts_and_the_rest_of_the_detail_is_listed():
    view = page(rollout(1, RIGHT, "44", 0.875)).rollouts[0]
    assert {component.name: component.parts for component in view.components} == {
        "r_ans": [],
        "r_logic": [("plan_agrees", "0")],
        "r_graph": [("acyclic", "1")],
    }
    assert [fact for fact in view.facts if fact[0] == "remarks"] == [("remarks", "a"), ("remarks", "b")]
    assert "text" not in dict(view.facts)


@table(
    "scaffold",
    [None, "", "[1]", EVIL, {"target_variable": EVIL, "knowns": [], "causal_graph": 7}, {"a": "b" * 100_000}],
)
def test_unreadable_scaffolds_are_shown_as_text(scaffold):
    broken = rollout(
        1, [], None, None, scaffold=scaffold, outcome=Outcome.INFRA_FAULT, completion=Completion(text=EVIL)
    )
    result = page(broken, rollout(2, RIGHT, "44", 0.875))
    failed = next(view for view in result.rollouts if view.name == "1")
    assert (failed.verdict, failed.reply.text, failed.divergence) == ("failed", EVIL, None)


def test_a_reply_of_ten_megabytes_is_cut_and_says_so():
    view = page(rollout(1, RIGHT, "44", 0.9, completion=Completion(text="x" * 10_000_000))).rollouts[0]
    assert len(view.reply.text) + view.reply.left_out == 10_000_000
    assert len(view.reply.text) < 100_000


def test_a_group_of_a_task_that_this_process_does_not_know_is_shown_without_pictures():
    view = page(rollout(1, RIGHT, "44", 0.9), task="task of somebody else").rollouts[0]
    assert (view.scaffold, view.blocks) == (None, [])
    assert view.reply.text.startswith("{")


def test_rollouts_without_scaffolds_are_ordered_by_verdict_and_their_truth_is_in_the_words_of_the_task():
    tests = {"io_mode": "call", "tests": [{"kind": "assert", "code": "assert f() == 1"}], "reference": "f = one"}
    programs = [rollout(n, [], "x", 0.1 * n, scaffold="def f(): pass", is_correct=n == 2) for n in (1, 2, 3)]
    result = page(*programs, task="code", ground_truth=json.dumps(tests))
    assert [view.name for view in result.rollouts] == ["2", "3", "1"]
    assert result.truth.text == "f = one"
    assert [block.kind for block in result.rollouts[0].blocks] == ["code", "table"]
    assert page(*programs, task="code", ground_truth="[").truth.text == "["


def test_reasoning_is_apart_from_the_reply():
    view = page(rollout(1, RIGHT, "44", 0.9, completion=Completion(text="{}", reasoning="I think"))).rollouts[0]
    assert view.reasoning.text == "I think"


def test_at_most_64_rollouts_are_on_a_page():
    result = page(*(rollout(number, RIGHT, "44", 0.9) for number in range(1, 71)))
    assert (len(result.rollouts), result.left_out) == (64, 6)


@table(
    ("text", "experiences", "pieces"),
    [
        ("a LESSON b", [("G1-001", "LESSON")], [("a ", ""), ("LESSON", "G1-001"), (" b", "")]),
        ("one two two", [("A", "two"), ("B", "two")], [("one ", ""), ("two", "A"), (" ", ""), ("two", "B")]),
        ("nothing", [("A", "absent"), ("B", "")], [("nothing", "")]),
        ("", [("A", "x")], []),
    ],
)
def test_experiences_are_marked_in_a_prompt(text, experiences, pieces):
    assert marked(text, experiences) == pieces


def test_a_case_of_several_lines_is_marked_in_a_prompt():
    case = Experience(id="G1-002", content="How many?\n3 * 4\n\n= 12", kind="case")
    block = experience_block([Experience(id="G1-001", content="Count twice."), case])
    pieces = marked(f"{block}Problem:\nHow many pears?", [("G1-001", "Count twice."), ("G1-002", case.content)])
    assert [piece for piece in pieces if piece[1]] == [
        ("Count twice.", "G1-001"),
        ("How many?\n  3 * 4\n\n  = 12", "G1-002"),
    ]
    assert "".join(text for text, _ in pieces) == f"{block}Problem:\nHow many pears?"


def test_the_prompts_are_those_that_were_stored():
    system, user = Message(role="system", content="Solve it."), Message(role="user", content="Weigh by amounts. Mix.")
    asked = group(
        rollout(1, RIGHT, "44", 0.9, experience_ids=["G1-001", "G1-002"], prompt_half="A"),
        rollout(2, RIGHT, "44", 0.9, prompt_half="B"),
        prompts={"A": [system, user], "B": [system]},
    )
    first, second = prompts_of(asked, {"G1-001": "Weigh by amounts."})
    assert first == {
        "half": "A",
        "messages": [("system", [("Solve it.", "")]), ("user", [("Weigh by amounts.", "G1-001"), (" Mix.", "")])],
        "experiences": [("G1-001", "Weigh by amounts."), ("G1-002", "")],
    }
    assert second == {"half": "B", "messages": [("system", [("Solve it.", "")])], "experiences": []}


def test_a_file_of_another_program_has_no_prompts():
    [view] = prompts_of(group(rollout(1, RIGHT, "44", 0.9)), {})
    assert view["messages"] == []
