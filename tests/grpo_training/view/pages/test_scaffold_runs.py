from engine.records import Scaffold
from engine.scaffold.execution import execute
from grpo_training.view.pages.scaffold_runs import (
    MAX_DRAWN,
    ScaffoldRun,
    divergence,
    graph_data,
    rule_rows,
    run_scaffolds,
    standings,
)
from tests.support.table import table

KNOWNS = {"first": 10, "weak": 20, "second": 15, "strong": 60}


def scaffold(*rules, target="percent", knowns=KNOWNS):
    edges = [{"cause": cause.split(), "effect": effect, "rule": rule} for cause, effect, rule in rules]
    return Scaffold.model_validate({"target_variable": target, "knowns": dict(knowns), "causal_graph": edges})


def executed(scaffold):
    return ScaffoldRun(scaffold, execute(scaffold))


def run(*rules, **options):
    return executed(scaffold(*rules, **options))


RIGHT = run(
    ("first weak second strong", "content", "content = first * weak + second * strong"),
    ("content first second", "percent", "percent = content / (first + second)"),
)
MEAN = run(("weak strong", "percent", "percent = (weak + strong) / 2"))


def test_the_first_value_that_no_right_rollout_has_is_found():
    marks = standings(MEAN, [RIGHT])
    assert marks == {"first": "same", "weak": "same", "second": "same", "strong": "same", "percent": "first"}
    difference = divergence(MEAN, marks, RIGHT)
    assert (difference.variable, difference.value, difference.other_value) == ("percent", "40", "44")
    assert (difference.rule, difference.other_rule) == (
        "percent = (weak + strong) / 2",
        "percent = content / (first + second)",
    )


def test_an_equal_value_under_another_name_is_no_difference():
    renamed = run(
        ("a b c d", "brine", "brine = a * b + c * d"),
        ("brine a c", "share", "share = brine / (a + c + 15)"),
        target="share",
        knowns={"a": 10, "b": 20, "c": 15, "d": 60},
    )
    marks = standings(renamed, [RIGHT])
    assert marks == {"a": "same", "b": "same", "c": "same", "d": "same", "brine": "same", "share": "first"}
    assert divergence(renamed, marks, RIGHT).other_value == ""  # the reference has no such variable


def test_what_follows_from_the_first_difference_is_not_called_first():
    off = run(
        ("first weak second", "content", "content = first * weak + second"),
        ("content first second", "percent", "percent = content / (first + second)"),
    )
    marks = standings(off, [RIGHT])
    assert (marks["content"], marks["percent"]) == ("first", "other")


def test_a_known_that_was_misread_is_the_first_difference_where_the_target_rests_on_it():
    misread = run(
        ("first weak second strong", "content", "content = first * weak + second * strong"),
        ("content first second", "percent", "percent = content / (first + second)"),
        knowns={**KNOWNS, "spare": 99, "strong": 6},
    )
    marks = standings(misread, [RIGHT])
    assert (marks["spare"], marks["strong"]) == ("other", "first")


def test_a_step_without_a_value_is_the_first_difference_with_its_reason():
    broken = run(("first", "percent", "percent = first / (first - first)"))
    marks = standings(broken, [RIGHT])
    difference = divergence(broken, marks, RIGHT)
    assert (difference.variable, difference.value) == ("percent", "")
    assert difference.failure
    assert [row["fault"] != "" for row in rule_rows(broken)] == [True]


def test_right_rollouts_that_agree_have_no_parting():
    marks = standings(RIGHT, [RIGHT])
    assert set(marks.values()) == {"same"}
    assert divergence(RIGHT, marks, RIGHT) is None
    assert standings(MEAN, []) == {}


def test_the_picture_has_the_values_roles_and_causes():
    data = graph_data(RIGHT, {"percent": "first"})
    by_name = {node["name"]: node for node in data["nodes"]}
    assert (by_name["content"]["value"], by_name["content"]["role"]) == ("1100", "step")
    assert (by_name["percent"]["value"], by_name["percent"]["role"], by_name["percent"]["mark"]) == (
        "44",
        "target",
        "first",
    )
    assert by_name["weak"]["role"] == "known"
    ids = {node["id"]: node["name"] for node in data["nodes"]}
    assert {(ids[cause], ids[effect]) for cause, effect in data["edges"]} == {
        *((name, "content") for name in KNOWNS),
        *((name, "percent") for name in ("content", "first", "second")),
    }


def test_a_graph_of_thousands_of_variables_is_not_drawn():
    rules = [(f"v{n}", f"v{n + 1}", f"v{n + 1} = v{n} + 1") for n in range(MAX_DRAWN)]
    long = run(*rules, target=f"v{MAX_DRAWN}", knowns={"v0": 0})
    assert graph_data(long, {}) is None
    assert long.execution.answer == str(MAX_DRAWN)


@table(
    ("cause", "effect", "rule"),
    [
        ("x", "x", "x = x"),
        ("__proto__", "constructor", "constructor = __proto__"),
        ("<b>", "</script>", "</script> = 9**9**9**9"),
        ("\u202e", "\ud83d\ude00", "\u202e" * 5000),
    ],
)
def test_hostile_scaffolds_are_pictures_of_text(cause, effect, rule):
    run = executed(Scaffold(target_variable=effect, causal_graph=[{"cause": [cause], "effect": effect, "rule": rule}]))
    data = graph_data(run, standings(run, [RIGHT]))
    assert {node["name"] for node in data["nodes"]} == {cause, effect}
    assert all(len(node["rule"]) <= 400 for node in data["nodes"])


def test_scaffolds_are_executed_until_the_time_of_a_page_is_over():
    clock = iter(range(100))
    runs = run_scaffolds(dict.fromkeys(range(9), scaffold()), lambda: next(clock))
    assert list(runs) == [0, 1, 2]
