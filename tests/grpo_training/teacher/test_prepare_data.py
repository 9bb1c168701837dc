import hashlib
import json

import pytest

from engine.datasets import load_problems
from engine.errors import ConfigurationError, MissingInputError
from engine.records import Outcome
from engine.tasks.code import preparation
from engine.tasks.code.problems import code_problem
from engine.tasks.code.testing.report import Report
from grpo_training.prepare_data import main
from grpo_training.teacher.prepare_data import _shingles, split, without_near_duplicates


def problem(number, text="Write a function.", code="def f(x):\n    return x + 1"):
    row = {"text": text, "code": code, "task_id": number, "test_list": ["assert f(1) == 2", "assert f(5) == 6"]}
    return code_problem(row, "x")


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """Twenty usable problems of MBPP, one of each kind that is dropped, and two of APPS."""
    monkeypatch.setenv("SCAFFOLD_DATA", str(tmp_path))
    usable = "def f(x):\n    return x + 1"
    rows = [
        {"text": f"Task {number} is about word{number} and thing{number}.", "code": usable, "task_id": number,
         "test_setup_code": "", "test_list": ["assert f(1) == 2", "assert f(5) == 6"]}
        for number in range(601, 621)
    ]  # fmt: skip
    rows += [
        {**rows[0], "task_id": 700, "code": "def f(x):\n    return 2"},
        {**rows[0], "task_id": 701, "code": ""},
        {**rows[0], "task_id": 702, "test_list": []},
        {**rows[0], "task_id": 703, "test_list": ["assert f(1) == None"], "code": "def f(x): pass"},
        {**rows[0], "task_id": 20},
    ]
    (tmp_path / "mbpp.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    apps = [
        {"problem_id": k, "question": f"Question number {k} of all?", "solutions": '["print(int(input()) + 1)"]',
         "input_output": '{"inputs": ["1"], "outputs": ["2"]}', "difficulty": level, "url": "", "starter_code": ""}
        for k, level in enumerate(["introductory", "interview"])
    ]  # fmt: skip
    (tmp_path / "apps_train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in apps))
    return tmp_path


def test_what_can_be_used_is_split_and_the_rest_is_reported(sources, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["--output_dir", str(out), "--apps_difficulty", "introductory", "--seed", "1"]) == 0
    train, val = (load_problems(str(out / f"{name}.jsonl")) for name in ("train", "val"))
    names = {problem.id for problem in train} | {problem.id for problem in val}
    assert names == {f"mbpp_{number}" for number in range(601, 621)} | {"apps_train_0"}
    assert len(train) + len(val) == 21
    report = json.loads((out / "data_report.json").read_text())
    assert {entry["id"]: entry["reason"] for entry in report["dropped_problems"]} == {
        "mbpp_700": "reference_wrong_answer",
        "mbpp_701": "no_reference",
        "mbpp_702": "no_tests",
        "mbpp_703": "stub_passes",
    }
    assert (report["train"]["problems"], report["val"]["problems"]) == (len(train), len(val))
    assert "stub_passes: 1" in capsys.readouterr().out
    for problem in train:
        digest = hashlib.sha256(f"1|{problem.id}".encode()).hexdigest()
        assert int(digest, 16) / 16**64 < 0.8


def test_apps_may_be_skipped_and_must_be_there_otherwise(sources, tmp_path):
    assert main(["--output_dir", str(tmp_path / "out"), "--skip_apps"]) == 0
    assert "apps" not in (tmp_path / "out" / "train.jsonl").read_text()
    (sources / "apps_train.jsonl").unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(__import__("sys").modules, "datasets", None)
        with pytest.raises(MissingInputError, match="--skip_apps"):
            main(["--output_dir", str(tmp_path / "out")])


def test_more_problems_never_move_others():
    few, many = [problem(number) for number in range(601, 650)], [problem(number) for number in range(601, 900)]
    train, val = split(few, 42, 0.8)
    more_train, more_val = split(many, 42, 0.8)
    assert {member.id for member in train} <= {member.id for member in more_train}
    assert {member.id for member in val} <= {member.id for member in more_val}
    assert 0.7 < len(more_train) / len(many) < 0.9
    assert split(many, 43, 0.8)[1] != more_val


def _jaccard(first, second):
    return len(first & second) / len(first | second)


def test_near_duplicates_by_hand():
    text, variant = "find the sum of all even numbers in a list", "Find the sum of all even numbers in a list!"
    assert _jaccard(_shingles(text), _shingles(variant)) == 1.0
    # Ten words are eight triples; another last word changes one of them: 7 in both, 9 in all.
    changed = "find the sum of all even numbers in a tuple"
    assert _jaccard(_shingles(text), _shingles(changed)) == pytest.approx(7 / 9)
    train = [problem(601, text), problem(602, changed), problem(603, "something else is asked here"), problem(604, "x")]
    drops = []
    kept = without_near_duplicates(train, [problem(605, variant)], 0.8, drops)
    assert [member.id for member in kept] == ["mbpp_602", "mbpp_603", "mbpp_604"]
    assert drops == [("mbpp_601", "near_duplicate", "its text is similar to that of mbpp_605 in val")]
    assert len(without_near_duplicates(train, [problem(605, variant)], 7 / 9, [])) == 2


def test_near_duplicates_are_those_that_comparing_all_pairs_finds():
    import random

    rng = random.Random(5)
    words = "a b c".split()
    texts = [" ".join(rng.choices(words, k=rng.randint(3, 9))) for _ in range(120)]
    problems = [problem(number, text) for number, text in enumerate(texts, 601)]
    train, val = problems[:80], problems[80:]
    for threshold in (0.3, 0.5, 0.8, 1.0):
        alike = [
            member.id for member in train
            if any(_jaccard(_shingles(member.text), _shingles(other.text)) >= threshold for other in val)
        ]  # fmt: skip
        kept = {member.id for member in without_near_duplicates(train, val, threshold, [])}
        assert alike
        assert kept == {member.id for member in train} - set(alike)


def test_a_machine_that_cannot_run_programs_is_no_fault_of_the_problems(sources, tmp_path, monkeypatch):
    report = Report(Outcome.INFRA_FAULT, (), "no namespaces")
    monkeypatch.setattr(preparation, "run_program", lambda *args, **options: report)
    with pytest.raises(ConfigurationError, match="no namespaces"):
        main(["--output_dir", str(tmp_path / "out"), "--skip_apps"])
    assert not (tmp_path / "out").exists()
