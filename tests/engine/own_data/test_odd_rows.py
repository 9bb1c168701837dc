"""One odd row does not decide how the others are read, and a row that cannot be compared is left out and counted."""

import pytest

from engine.datasets import load_dataset
from engine.tasks.answers.task import truth_of
from tests.engine.own_data.test_public_data import check
from tests.support.table import table

N = range(60)


def kinds(dataset):
    return {truth_of(problem)[1].kind for problem in dataset.problems}


def with_odd(rows, **cells):
    return [row | (cells if n == 33 else {}) for n, row in enumerate(rows)]


@table("odd", ["2016/2017", "007", "5E3", "10-12-2020"])
def test_a_number_that_looks_like_a_code(loaded, odd):
    rows = [{"question": f"How many are {n}?", "answer": str(7 * n + 3)} for n in N]
    problem = loaded(with_odd(rows, answer=odd)).problems[0]
    assert problem.task == "math" or truth_of(problem)[1].kind == "number"


def test_prices_that_look_like_versions_are_told(loaded):
    rows = [{"question": f"How much is {n}?", "answer": f"{n}.{['5', '25', '50', '10'][n % 4]}"} for n in N]
    assert "identifiers, as 3.10 and 007, and are compared as texts (--compare number)" in loaded(rows).note


def test_an_option_that_is_its_own_index_by_chance(loaded):
    """The form of MMLU, whose options of abstract algebra are numbers."""
    options = [["0", "4", "2", "6"], ["8", "2", "24", "120"], ["-1", "0", "1", "2"], ["one", "two", "three", "four"]]
    rows = [{"question": f"Find {n}.", "choices": options[n % 4], "answer": (n // 4) % 4} for n in N]
    dataset = loaded(rows)
    assert kinds(dataset) == {"choice"}
    assert [truth_of(problem)[0] for problem in dataset.problems[:12:4]] == ["A", "B", "C"]
    check(dataset.problems)


@pytest.mark.parametrize(
    "odd",
    [{"choices": ["a"]}, {"choices": "['a', 'b"}, {"choices": None}, {"answer": 7}, {"answer": "none of them"}],
    ids=str,
)
def test_a_row_without_its_options_is_left_out(loaded, odd):
    rows = [{"question": f"Which is {n}?", "choices": ["one", "two", "three"], "answer": n % 3} for n in N]
    dataset = loaded(with_odd(rows, **odd))
    assert len(dataset.problems) == len(N) - 1
    assert kinds(dataset) == {"choice"}
    assert "1 row has no question or no right answer and is left out" in dataset.note
    assert "of another kind" not in dataset.note


@pytest.mark.parametrize("last", [[{"role": "assistant", "content": ""}], []], ids=["empty", "none"])
def test_a_conversation_without_an_answer_is_left_out(loaded, last):
    rows = [
        {"messages": [{"role": "user", "content": f"Is {n} even?"}, {"role": "assistant", "content": "ny"[n % 2]}]}
        for n in N
    ]
    dataset = loaded(with_odd(rows, messages=[{"role": "user", "content": "Is it?"}, *last]))
    assert len(dataset.problems) == len(N) - 1
    assert kinds(dataset) == {"label"}


def test_proofs_among_solutions_are_left_out(loaded):
    """The form of NuminaMath-CoT."""
    rows = [
        {"problem": f"Find ${n}$.", "solution": rf"Thus \boxed{{{n + 3}}}." if n % 4 else "Proved, as was to be shown."}
        for n in N
    ]
    dataset = loaded(rows)
    assert {problem.task for problem in dataset.problems} == {"math"}
    assert len(dataset.problems) == 45
    assert "15 rows have no question or no right answer and are left out" in dataset.note


def test_lists_that_numpy_has_written_into_a_table(tmp_path):
    """What pandas and ``datasets`` write for lists read from parquet: huggingface/datasets#6778."""
    lines = [f'Which is {n}?,"[\'one\' ""it\'s"" \'three\']",{n % 3}' for n in N]
    path = tmp_path / "choices.csv"
    path.write_text("\n".join(["question,choices,answer", *lines]), encoding="utf-8")
    dataset = load_dataset(str(path))
    assert truth_of(dataset.problems[0])[1].options == ("one", "it's", "three")
    check(dataset.problems[:6])
    cell = "\"{'text': array(['Saint B', 'B'], dtype=object), 'answer_start': array([515, 7])}\""
    path.write_text("\n".join(["question,answers", *[f"To whom is {n}?,{cell}" for n in N]]), encoding="utf-8")
    assert truth_of(load_dataset(str(path)).problems[0])[0] == "Saint B"
    path.write_text("\n".join(["question,answer", *[f"When was {n}?,['in May' 'May']" for n in N]]), encoding="utf-8")
    assert truth_of(load_dataset(str(path)).problems[0])[1].also == ("May",)


@table(
    ("answer", "odd", "kind"),
    [
        (lambda n: ["billing", "shipping", "other"][n % 3], "These words are no label. " * 9, "label"),
        (lambda n: ["billing", "shipping", "other"][n % 3], "billing|shipping", "label"),
        (lambda n: ["A", "AB", "BC", "C"][n % 4], "N/A", "set"),
    ],
)
def test_an_answer_of_another_kind(loaded, answer, odd, kind):
    rows = [{"question": f"Which is {n}? (A) one (B) two (C) three", "answer": answer(n)} for n in N]
    hows = [truth_of(problem)[1] for problem in loaded(with_odd(rows, answer=odd)).problems]
    assert {how.kind for how in hows[:33] + hows[34:]} == {kind}
    assert hows[33].kind == "text"
    assert odd not in hows[0].labels
