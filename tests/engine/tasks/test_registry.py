"""Tasks by name, from files and from packages; rewards with components of any name; simple tasks."""

import asyncio
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.metadata import EntryPoint

import pytest

from engine.errors import ConfigurationError, InputError, MissingInputError, TemplateError
from engine.records import Completion, Rewards, Rollout
from engine.reward_evaluator import Baseline, RewardEvaluator
from engine.tasks import registry
from engine.tasks.registry import load_task, task_named, task_of_function
from engine.tasks.simple import PlainTask, SimpleTask
from prompts import PromptTemplate
from tests.conftest import ROOT
from tests.support.table import table

OWN = "from engine.tasks.simple import SimpleTask\nTASK = SimpleTask('Say {word}', lambda text, row: 1.0, name='own')\n"


@pytest.fixture(autouse=True)
def _no_task_stays(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})


def task_file(folder, text=OWN, name="own.py"):
    (folder / name).write_text(text)
    return f"{folder / name}:TASK"


def test_a_task_of_a_file_is_known_by_its_name(tmp_path):
    task = load_task(task_file(tmp_path))
    assert task_named("own") is task
    assert load_task(task_file(tmp_path)) is task  # the file is executed once
    assert load_task("math") is task_named("")


@pytest.mark.parametrize(
    ("place", "text", "message"),
    [
        ("absent.py:TASK", None, "File not found"),
        ("broken.py:TASK", "import no_such_module", "Cannot import"),
        ("own.py:TSAK", OWN, "has no 'TSAK'"),
        ("own.py:NUMBER", "NUMBER = 3", "is not a task but a int"),
        ("own.py:Own", "class Own: pass", "is a class\nAdd a line such as TASK = Own()"),
        ("own.py:TASK", OWN.replace("'own'", "'math'"), "another task has the name 'math'"),
    ],
)
def test_what_is_no_task_is_refused(tmp_path, place, text, message):
    if text is not None:
        (tmp_path / place.partition(":")[0]).write_text(text)
    with pytest.raises((InputError, MissingInputError), match=message):
        load_task(f"{tmp_path}/{place}")


def test_an_unknown_name_says_what_there_is():
    with pytest.raises(InputError, match="Unknown task 'chess'") as caught:
        task_named("chess")
    assert "math" in caught.value.why
    assert "--task" in caught.value.fix


def test_an_installed_package_brings_a_task(tmp_path, monkeypatch):
    (tmp_path / "package_with_task.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    entry = EntryPoint("own", "package_with_task:TASK", "scaffold_grpo.tasks")
    monkeypatch.setattr(registry, "entry_points", lambda *, group: [entry] if group == entry.group else [])
    monkeypatch.setattr(registry, "_of_packages", registry._of_packages.__wrapped__)  # what it has cached stays
    assert task_named("own").name == "own"


def score(task, row, text, **options):
    problem = task.problem_from_row(row, "rows.jsonl, line 1")
    return RewardEvaluator(**options).score(task, problem, task.parse(Completion(text=text), problem))


def test_components_of_any_name_are_weighted_and_stored():
    task = SimpleTask(
        "Say {word}",
        lambda text, row: {"exact": float(text == row["word"]), "short": 0.5},
        name="own",
        reward_weights={"exact": 3.0, "short": 1.0},
    )
    scored = score(
        task, {"word": "yes"}, "<think>Hm.</think><answer>yes</answer>", weights={"r_ans": 0.5, "r_logic": 0.5}
    )
    assert scored.rewards.r_total == pytest.approx(0.875)
    assert scored.rewards.components == {"exact": 1.0, "short": 0.5}
    assert (scored.answer, scored.is_correct) == ("yes", False)
    rollout = Rollout(rollout_id=1, components=scored.rewards.components, r_total=scored.rewards.r_total)
    assert Rollout.model_validate_json(rollout.model_dump_json()).rewards == scored.rewards


@table(
    "right, text, expected",
    [
        (None, "yes", False),
        ("exact", "yes", True),
        ("exact", "no", False),
        (0.875, "yes", True),  # (3 * 1 + 0.5) / 4
        (0.88, "yes", False),
        (0.125, "no", True),
    ],
)
def test_a_task_says_what_counts_as_right(right, text, expected):
    task = SimpleTask(
        "Say {word}",
        lambda text, row: {"exact": float(text == row["word"]), "short": 0.5},
        name="own",
        reward_weights={"exact": 3.0, "short": 1.0},
        right=right,
    )
    assert score(task, {"word": "yes"}, text).is_correct is expected
    assert ("right" in task.verifier()) == (right is not None)


def test_what_counts_as_right_has_to_be_measured():
    with pytest.raises(ConfigurationError, match="right='exakt' is no component"):
        SimpleTask("{x}", lambda text, row: {"exact": 1.0}, reward_weights={"exact": 1.0}, right="exakt")
    with pytest.raises(ConfigurationError, match="no reward in"):
        SimpleTask("{x}", lambda text, row: 1.0, right=1.5)
    scored = score(SimpleTask("{x}", lambda text, row: {"exact": 1.0}, right="exakt"), {"x": 1}, "t")
    assert scored.outcome == "infra_fault"
    assert "returned no 'exakt'" in scored.detail["why"]


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"Body": "Packs have 2 eggs.", "Question": "How many?", "Answer": 6.0}, "Packs have 2 eggs.\n\nHow many?"),
        ({"context": "Ann built it.", "question": "Who?", "answers": ["Ann"]}, "Ann built it.\n\nWho?"),
        ({"question": "Red?", "choices": ["apple", "stone"], "answer": 0}, "Red?\n\n(A) apple\n(B) stone"),
        ({"question": "Red?"}, "Red?"),
        ({"context": "2 + 3?", "target": 5}, "2 + 3?"),
    ],
)
def test_the_prompt_of_a_reward_function_shows_what_a_question_needs(row, text):
    def own(answer, row):
        return 1.0

    assert task_of_function(own).problem_from_row(row, "row 1").text == text


def test_a_question_that_is_not_clear_is_refused():
    def own(answer, row):
        return 1.0

    with pytest.raises(InputError, match="row 1: It is not clear which column of a row is the question"):
        task_of_function(own).problem_from_row({"v1": "ham", "v2": "hello"}, "row 1")


def test_rows_without_an_answer_are_named_and_the_analyst_reads_the_row():
    task = SimpleTask("Sort {words}", lambda text, row: float(text != "?"), name="own", right="r_ans")
    bare = task.problem_from_row({"words": "b a", "sorted": ["queue-42b", "b"]}, "here")
    full = task.problem_from_row({"words": "b a", "answer": "a b"}, "here")
    first, second = task.remarks([bare, full, bare])
    assert first == "own: an answer counts as right if r_ans is 1."
    assert second.startswith("own: 2 of 3 rows have no column such as answer or label; ")
    assert task.remarks([full]) == [first]
    assert task.truth(full) == "a b"
    assert '"sorted": ["queue-42b", "b"]' in task.truth(bare)
    assert task.gold_reply(bare) is None
    assert task.leaks_answer("The first line is always queue-42b.", bare)
    assert not task.leaks_answer("Compare words from their first letter on.", bare)


def test_a_reward_function_that_fails_is_named_before_anything_is_asked():
    def strict(answer, row):
        return float(int(answer) == row["answer"])

    def large(answer, row):
        return 0.0 if answer == "?" else 1.5

    async def later(answer, row):
        return float("x")

    for reward, message in (
        (strict, "the reward function raised ValueError"),
        (large, "returned 1.5"),
        (later, r"raised ValueError: could not convert string to float: 'x' \(test_registry.py, line \d+\)"),
        (lambda answer, row: {"feedback": "good"}, "returned nothing"),
    ):
        task = SimpleTask("Say {answer}", reward)
        with pytest.raises(InputError, match=message) as refused:
            task.remarks([task.problem_from_row({"answer": 4}, "row 1")])
        assert refused.value.fix.startswith("Correct the reward function")


def test_a_reward_function_says_what_was_wrong_and_may_wait_for_others():
    together = 0

    async def slow(answer, row):
        nonlocal together
        together += 1
        for _ in range(200):
            if together == 2:
                return 0.25, "too short " * 200
            await asyncio.sleep(0.01)
        return 0.0

    problem = SimpleTask("Say {x}", len, name="own").problem_from_row({"id": "p", "x": 1}, "here")
    task = SimpleTask("Say {x}", slow, name="own")
    with ThreadPoolExecutor(2) as threads:
        candidate = task.parse(Completion(text="<answer>1</answer>"), problem)
        measurements = list(threads.map(lambda _: task.evaluate(candidate, problem), range(2)))
    assert [dict(measured.components) for measured in measurements] == [{"r_ans": 0.25}] * 2
    assert [[len(remark) for remark in measured.remarks] for measured in measurements] == [[1000]] * 2

    def reward(answer, row):
        return {"exact": 1, "brief": 0.5, "feedback": "Leave out the title."}

    measured = SimpleTask("Say {x}", reward, name="own").evaluate(candidate, problem)
    assert dict(measured.components) == {"exact": 1.0, "brief": 0.5}
    assert list(measured.remarks) == ["Leave out the title."]
    silent = SimpleTask("Say {x}", lambda answer, row: (1.0, None), name="own").evaluate(candidate, problem)
    assert (dict(silent.components), list(silent.remarks)) == ({"r_ans": 1.0}, [])


def test_rows_and_prompts_of_functions_that_return_something_else_are_refused():
    async def later(row):
        return "Say it"

    for task, message in (
        (SimpleTask("Say {x}", len, name="own", rows=later), "it is asynchronous; write a normal function"),
        (SimpleTask(later, len, name="own", rows=[{"x": 1}]), "it is asynchronous; write a normal function"),
        (SimpleTask(lambda row: row["x"], len, name="own", rows=[{"x": 1}]), "the prompt is a int in place of a text"),
    ):
        with pytest.raises(InputError, match=message):
            task.dataset("own").generate(1)


def test_a_reward_function_that_finds_any_answer_right_is_named():
    task = SimpleTask("Say {x}", lambda text, row: 1.0, name="own")
    problems = [
        task.problem_from_row({"id": f"p{x}", "x": x, "answer": answer}, "here") for x, answer in enumerate("?ab")
    ]
    assert "⚠ own: the answer '?' counts as right in 2 rows. Check the reward function." in task.remarks(problems)
    exact = SimpleTask("Say {x}", lambda text, row: float(text == row["answer"]), name="own")
    assert len(exact.remarks(problems)) == 1


def test_all_rows_are_tried_and_what_the_reward_names_has_to_have_a_weight():
    def length(answer, row):
        return len(answer) / row["most"]

    def refusal(task, *rows):
        with pytest.raises(InputError) as refused:
            task.remarks([task.problem_from_row({**row, "id": f"row {n}"}, "here") for n, row in enumerate(rows, 1)])
        return str(refused.value)

    rows = [{"answer": "ab", "most": 2}, {"answer": "a", "most": 0}]
    message = refusal(SimpleTask("Say {answer}", length), *rows)
    assert "ZeroDivisionError: division by zero (test_registry.py, line " in message
    assert "'?' of row 2" in message
    weighted = SimpleTask("Say {answer}", lambda text, row: 0.5, reward_weights={"exact": 1})
    assert "'r_ans', which is not in reward_weights" in refusal(weighted, *rows)
    assert "no 'exact'" in refusal(SimpleTask("Say {answer}", lambda text, row: 0.5, right="exact"), *rows)


def test_a_right_answer_that_does_not_count_as_right_is_named():
    task = SimpleTask("Say {x}", lambda text, row: float(text == json.dumps(row["answer"])) * row["x"], name="own")
    problems = [task.problem_from_row({"id": f"p{x}", "x": x, "answer": {"total": 3}}, "here") for x in (1, 0.25, 0.5)]
    assert task.truth(problems[0]) == '{"total": 3}'
    assert "2 of 3 rows does not count as right, such as that of p0.25: r_ans = 0.25" in task.remarks(problems)[1]
    assert len(task.remarks(problems[:1])) == 1


def test_a_sum_of_floats_may_be_a_little_above_one():
    scored = score(SimpleTask("{x}", lambda text, row: sum([0.05] * 20)), {"x": 1}, "t")
    assert (scored.rewards.r_ans, scored.is_correct) == (1.0, True)
    assert score(SimpleTask("{x}", lambda text, row: 1.001), {"x": 1}, "t").outcome == "infra_fault"


def test_rows_that_cannot_be_made_or_do_not_fit_are_errors_of_the_input():
    def refusal(prompt, rows):
        with pytest.raises(InputError) as refused:
            SimpleTask(prompt, lambda text, row: 1.0, name="own", rows=rows).dataset("own").generate(4)
        return str(refused.value)

    assert "rows(count) raised ZeroDivisionError: division by zero (test_" in refusal("{x}", lambda count: 1 / 0)
    assert "a row is a int: 3" in refusal("{x}", [3])
    assert "KeyError: 'y'. The fields of the row: x." in refusal("{y}", [{"x": 1}])
    assert "written twice" in refusal('As {"total": 3}: {x}', [{"x": 1}])


def test_without_weights_components_count_equally_and_a_number_is_r_ans():
    assert score(SimpleTask("{x}", lambda text, row: {"a": 1, "b": 0}), {"x": 1}, "t").rewards.r_total == 0.5
    scored = score(SimpleTask("{x}", lambda text, row: 0.25), {"x": 1}, "t", weights={"r_ans": 0.5, "r_logic": 0.25})
    assert (scored.rewards.r_ans, scored.rewards.r_total, scored.rewards.components) == (0.25, 0.25, {})


def test_a_line_without_own_components_has_no_key_for_them():
    assert "components" not in json.loads(Rewards(r_ans=1.0).model_dump_json())


def test_a_fusion_of_an_own_task_is_compared_with_its_inputs():
    task = SimpleTask("{x}", lambda text, row: {"own": 1.0}, reward_weights={"own": 1.0})
    problem = task.problem_from_row({"x": 1}, "here")
    candidate = task.parse(Completion(text="t"), problem)
    rewards = RewardEvaluator().score(task, problem, candidate, baseline=Baseline(0.5, 0.3)).rewards
    assert rewards.r_fusion == pytest.approx(0.8)
    assert rewards.r_total == pytest.approx((1.0 + 0.25 * 0.8) / 1.25)


@pytest.mark.parametrize(
    ("reward", "why"),
    [
        (lambda text, row: 1 / 0, "ZeroDivisionError"),
        (lambda text, row: 3, "expected numbers from 0 to 1"),
        (lambda text, row: float("nan"), "expected numbers from 0 to 1"),
        (lambda text, row: {}, "returned nothing"),
        (lambda text, row: None, "returned None"),
        (lambda text, row: {"a": 1, "b": None}, "returned b = None"),
        (lambda text, row: sys.exit("no licence"), "SystemExit: no licence (test_registry.py, line "),
    ],
)
def test_a_broken_reward_function_is_no_reward(reward, why):
    scored = score(SimpleTask("{x}", reward, name="own"), {"x": 1}, "text")
    assert scored.outcome == "infra_fault"
    assert scored.rewards.r_total is None
    assert why in scored.detail["why"]


def test_a_row_that_does_not_fit_the_prompt_is_named():
    with pytest.raises(InputError, match=r"rows\.jsonl, line 1: the row does not fit"):
        score(SimpleTask("Say {word}", lambda text, row: 1.0, name="own"), {"words": "x"}, "text")


@table(
    ("text", "answer"),
    [
        ("<think>a</think>\n<answer> 7 </answer>", "7"),
        ("<answer>1</answer> no, <answer>2</answer>", "2"),
        ("<think>is it <answer>1</answer>?</think> 3", "3"),
        ("just this", "just this"),
        ("<answer>cut", "cut"),
        ("</answer>", None),
        ("", None),
        ("<think>only</think>", None),
    ],
)
def test_a_plain_answer_is_found(text, answer):
    task = SimpleTask("{x}", lambda text, row: 1.0, name="own")
    problem = task.problem_from_row({"x": 1}, "here")
    assert PlainTask.parse(task, Completion(text=text), problem).stated_answer == answer


def test_an_experience_must_not_hold_the_answer_of_the_row():
    task = SimpleTask("{x}", lambda text, row: 1.0, name="own")
    problem = task.problem_from_row({"x": "long text", "answer": "1729"}, "here")
    assert task.leaks_answer("It is 1729 here.", problem)
    assert not task.leaks_answer("Read the long text twice.", problem)


def test_a_fault_of_a_tasks_templates_is_named_with_the_task():
    class Odd(SimpleTask):
        @property
        def templates(self):
            return {"probe_system.j2": "{% include 'absent.j2' %}"}

    with pytest.raises(TemplateError) as caught:
        PromptTemplate("probe", {"x"}, task=Odd("{x}", lambda text, row: 1.0, name="odd"))
    for fault in ("absent.j2 not found", "'odd'"):
        assert fault in caught.value.what


def test_a_file_of_problems_loads_only_their_task(tmp_path):
    file = tmp_path / "problems.jsonl"
    file.write_text('{"problem": "1 + 1?", "answer": "2"}\n')
    code = (
        "import sys; from engine.datasets import load_problems; "
        f"print(*(one.task for one in load_problems({str(file)!r})), "
        "*(name for name in sys.modules if name.startswith('engine.tasks.') and name.endswith('.task')))"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout == "math engine.tasks.math.task\n"


def test_packages_of_tasks_declare_what_their_tasks_do():
    tasks = list(registry.known_tasks())
    assert {"code", "math", "phaser"} <= {task.name for task in tasks}
    for task in tasks:
        package = import_module(f"engine.tasks.{task.name}")
        assert tuple(task.dataset_names) == getattr(package, "DATASET_NAMES", ()), task.name
        assert tuple(task.row_fields) == getattr(package, "ROW_FIELDS", ()), task.name


def test_a_row_belongs_to_the_task_of_its_fields(tmp_path):
    assert registry.task_of_row({"problem": "p", "answer": "1"}) is None
    assert registry.task_of_row({"prompt": "p", "test_list": []}).name == "code"
    assert registry.task_of_row({"prompt": "p", "must_use_apis": []}).name == "phaser"
    source = OWN.replace("TASK =", "class Own(SimpleTask):\n    row_fields = ('word',)\nTASK =").replace(
        "SimpleTask('", "Own('"
    )
    load_task(task_file(tmp_path, source))
    assert registry.task_of_row({"word": "w"}).name == "own"
