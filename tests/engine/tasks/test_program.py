"""Programs: functions that ask a model several times. Their requests go through the client of the run."""

import json
import subprocess
import sys

import pytest

import grpo_training
from engine.datasets import load_dataset
from engine.errors import BudgetExceededError, IncompleteRunError, InputError
from engine.records import Completion, Problem
from engine.tasks.program import program
from engine.tasks.program.declaration import Call, Run, prompts_of
from engine.tasks.registry import task_named, task_of_function
from grpo_training import critic, generator1
from grpo_training.compare import __main__ as compare
from grpo_training.runs import folder as run_folders
from grpo_training.runs.run import OtherRunError
from tests.conftest import shared_file
from tests.grpo_training.learning.test_trials import lucky
from tests.support.analyst import for_analyst, with_lesson
from tests.support.fault_server import FaultPlan, chat_app, serve_in_thread

ROWS = [{"question": f"What is {n} + {n}?", "answer": str(2 * n)} for n in range(10, 26)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder."""
    monkeypatch.setattr(run_folders, "WORKING_DIR", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(reply):
    return reply.choices[0].message.content


@program(prompts=["plan", "answer"])
async def two_steps(row, client, prompts):
    """A plan, and an answer that follows it."""
    plan = await client.chat.completions.create(
        model="-", messages=[{"role": "system", "content": f"Plan. {prompts['plan']}"}, user(row["question"])]
    )
    answer = await client.chat.completions.create(
        model="-", messages=[user(f"{said(plan)} {prompts['answer']} {row['question']}")]
    )
    return said(answer)


def one_step(row, client, prompts):
    """No coroutine function; it scores itself."""
    reply = said(client.chat.completions.create(model="-", messages=[user(prompts["answer"] + row["question"])]))
    return float(reply == row["answer"]), f"it should be {row['answer'][0]}..."


def user(text):
    return {"role": "user", "content": text}


WORDS = "numbers sums apples terms parts pairs values digits items units rows".split()


class Server:
    """Answers are right by chance; a lesson of the prompt ``plan`` makes the plan good, and a good plan the answer."""

    def reply(self, body, index):
        text = " ".join(message["content"] for message in body["messages"])
        if for_analyst(body):
            number = int(lucky(text, 0) * 1e6)
            words = [WORDS[number // step % len(WORDS)] for step in (1, 100, 10_000)]
            step = "plan" if 'the step "plan"' in text else "answer"
            return with_lesson(f"When {words[0]} meet {words[1]}, the {step} has to double the first {words[2]}.")
        if text.startswith("Plan."):
            return "GOOD plan" if "double the first" in text else "plan"
        number = int(text.rpartition("What is ")[2].split()[0])
        chance = 0.95 if "GOOD" in text or "double the first" in text else 0.4
        return str(2 * number if lucky(text, (body.get("seed"), index)) < chance else 1)


def improve(program_, rows=ROWS, *, faults=None, **arguments):
    app = chat_app(Server().reply, faults=faults)
    with serve_in_thread(app) as url:
        arguments = {"base_url": url, "model": "m", "epochs": 2, "cases": 0, "run": "p"} | arguments
        result = grpo_training.improve(rows, program=program_, **arguments)
    return result, [request.body for request in app["seen"]]


@pytest.fixture(scope="module")
def improved(tmp_path_factory):
    """A run of the program of two steps, complete: its folder, its result and its requests."""
    folder = tmp_path_factory.mktemp("improved")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(run_folders, "WORKING_DIR", folder)
        patched.chdir(folder)
        return folder, *improve(two_steps, max_tokens=50, cases=2)


def test_lessons_stand_in_the_prompt_that_they_were_asked_for_and_cases_in_the_last(improved):
    folder, result, bodies = improved
    assert result.verdict == "adopted"
    groups = (folder / "runs/p/cache/generator_1_rollouts.jsonl").read_text().splitlines()
    rollout = json.loads(groups[-1])["rollouts"][0]
    assert "Call 1: What is" in rollout["scaffold"]
    assert rollout["completion"]["usage"]["prompt_tokens"] > 0
    log = (folder / "runs/p/experiences/generator_1_experiences.ops.jsonl").read_text().splitlines()
    added = [entry for line in log for entry in json.loads(line).get("operations", []) if entry["op"] == "add"]
    assert {(entry.get("kind"), entry["category"]) for entry in added} == {
        (None, "plan"),
        (None, "answer"),
        ("case", "answer"),
    }
    assert all(f"the {entry['category']} has to" in entry["content"] for entry in added if "kind" not in entry)
    prompts = result.improved.prompts(ROWS[0])
    assert set(prompts) == {"plan", "answer"}
    shown = [
        (name, experience)
        for name, text in prompts.items()
        for experience in result.improved.experiences
        if experience.content in text
    ]
    assert shown
    assert all(experience.category == name for name, experience in shown)
    analyst = [body["messages"][-1]["content"] for body in bodies if for_analyst(body)]
    about_plan = ['says what the step "plan" has to write' in text for text in analyst]
    assert len(analyst) / 4 < sum(about_plan) < len(analyst) * 3 / 4
    assert all("Call 2" in text for text in analyst)
    assert any('[what was learned for the step "answer"]' in text for text in analyst)
    assert not any("double the first" in text for text in analyst)  # it would be copied


def test_a_program_may_be_no_coroutine_and_score_itself(folder):
    result, bodies = improve(one_step, rows=ROWS[:8], epochs=1, samples=1)
    assert result.improved.result.task == "one_step"
    assert any("it should be" in str(body) for body in bodies if for_analyst(body))


def test_the_same_command_asks_nothing_and_a_file_can_be_given(folder, capsys):
    (folder / "agent.py").write_text(
        "def run(row, client, prompts):\n"
        "    text = prompts['answer'] + row['question']\n"
        "    reply = client.chat.completions.create(model='-', messages=[{'role': 'user', 'content': text}])\n"
        "    return reply.choices[0].message.content\n"
    )
    short = {"rows": ROWS[:8], "epochs": 1, "samples": 2}
    result, _ = improve("agent.py:run", **short)
    again, bodies = improve("agent.py:run", **short)
    assert (again.sentence, bodies) == (result.sentence, [])
    loaded = grpo_training.Improved.load(result.folder / "improved")
    assert loaded.prompts(ROWS[3]) == result.improved.prompts(ROWS[3])


def test_a_run_that_a_budget_has_stopped_repeats_no_request(folder, improved):
    with pytest.raises(BudgetExceededError):
        improve(two_steps, budget_tokens=2500, max_tokens=50, cases=2)
    stopped = len((folder / "runs/p/cache/generator_1_rollouts.jsonl").read_text().splitlines())
    assert 0 < stopped < 2 * len(ROWS)
    result, bodies = improve(two_steps, max_tokens=50, cases=2)
    assert result.verdict == "adopted"
    _, complete, clean = improved
    assert complete.sentence.partition(";")[0] == result.sentence.partition(";")[0]
    assert len(bodies) < len(clean)


def test_a_failed_request_is_never_a_wrong_answer_even_if_the_program_catches_it(folder):
    async def catches(row, client, prompts):
        try:
            reply = await client.chat.completions.create(model="-", messages=[user(row["question"])])
        except Exception:  # noqa: BLE001
            return "0"
        return said(reply)

    with pytest.raises(IncompleteRunError):
        improve(catches, faults=FaultPlan(1, rate=1.0, kinds=["500"]), attempts=1)
    lines = folder / "runs/p/cache/generator_1_rollouts.jsonl"
    assert not lines.exists() or not lines.read_text()


def test_an_error_of_the_program_leaves_its_problem_open_and_is_named(folder):
    def broken(row, client, prompts):
        raise KeyError("context")

    with pytest.raises(IncompleteRunError, match="the program raised KeyError"):
        improve(broken)


def test_a_program_that_stumbles_over_a_reply_has_a_wrong_answer_and_the_analyst_reads_why(folder):
    async def reads_json(row, client, prompts):
        reply = await client.chat.completions.create(model="-", messages=[user(prompts["answer"] + row["question"])])
        return json.loads(said(reply).replace("1", "{", 1))

    _, bodies = improve(reads_json, epochs=1, max_problems=10, samples=1)
    rollouts = [
        rollout
        for line in (folder / "runs/p/cache/generator_1_rollouts.jsonl").read_text().splitlines()
        for rollout in json.loads(line)["rollouts"]
    ]
    stumbled = [
        rollout for rollout in rollouts if "the program raised JSONDecodeError" in str(rollout["reward_detail"])
    ]
    assert stumbled
    assert all(rollout["r_total"] == 0 for rollout in stumbled)
    analyst = [body["messages"][-1]["content"] for body in bodies if for_analyst(body)]
    assert not analyst or any("the program raised JSONDecodeError" in text for text in analyst)


def test_equal_requests_of_a_run_are_samples_of_their_own_and_tools_are_passed_on(folder):
    runs = []

    async def votes(row, client, prompts):
        asked = {"model": "-", "messages": [user(row["question"])], "tools": [{"type": "function"}]}
        replies = [await client.chat.completions.create(**asked, n=2), await client.chat.completions.create(**asked)]
        runs.append([choice.message.content for reply in replies for choice in reply.choices])
        return runs[-1][0]

    _, bodies = improve(votes, epochs=1, max_problems=8, samples=1)
    requests = [body for body in bodies if not for_analyst(body)]
    assert all(body["tools"] == [{"type": "function"}] for body in requests)
    assert all(len(replies) == 3 for replies in runs)
    assert len({body["seed"] for body in requests}) > 8


def test_calls_of_tools_come_back(folder):
    calls = [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}]

    async def tool_loop(row, client, prompts):
        messages = [user(row["question"])]
        first = (await client.chat.completions.create(model="-", messages=messages)).choices[0].message
        assert first.tool_calls[0].function.name == "add"
        messages += [first.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": "c1", "content": "3"}]
        return said(await client.chat.completions.create(model="-", messages=messages))

    def fields(body, index):
        is_first = body["messages"][-1]["role"] == "user"
        return {"message": {"role": "assistant", "content": None, "tool_calls": calls}} if is_first else {}

    app = chat_app(lambda body, index: "20", reply_fields=fields)
    with serve_in_thread(app) as url:
        grpo_training.improve(
            ROWS[:8], program=tool_loop, base_url=url, model="m", epochs=1, samples=1, run="t", prompts="full"
        )
    assert any(body["messages"][-1]["role"] == "tool" for body in (request.body for request in app["seen"]))


def test_a_changed_program_is_another_run_and_another_comparison(folder, capsys):
    source = (
        "def run(row, client, prompts):\n"
        "    messages = [{'role': 'user', 'content': prompts['answer'] + row['question']}]\n"
        "    return client.chat.completions.create(model='-', messages=messages).choices[0].message.content\n"
    )
    (folder / "agent.py").write_text(source)
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    app = chat_app(Server().reply)
    with serve_in_thread(app) as url:
        words = ["--dataset", "rows.jsonl", "--program", "agent.py:run", "--base-url", url, "--model", "m"]
        words += ["--model-b", "n", "--samples", "2"]
        assert compare.main(words) == 0
        app["seen"].clear()
        assert compare.main(words) == 0
        assert app["seen"] == []
        (folder / "agent.py").write_text(source.replace("row['question']", "'Now: ' + row['question']"))
        changed = subprocess.run(
            [sys.executable, "-m", "grpo_training.compare", *words], cwd=folder, capture_output=True, text=True
        )
    assert changed.returncode == 0, changed.stderr
    assert any("Now: " in str(request.body) for request in app["seen"])


def test_a_function_that_is_defined_again_does_not_continue_the_run_of_the_first(folder):
    def make(text):
        def solve(row, client, prompts):
            return said(client.chat.completions.create(model="-", messages=[user(text + row["question"])]))

        def solve_again(row, client, prompts):
            return "1"

        solve_again.__name__ = "solve"
        return solve, solve_again

    first, second = make("")
    improve(first, rows=ROWS[:8], epochs=1, samples=1)
    with pytest.raises(OtherRunError, match="task_file"):
        improve(second, rows=ROWS[:8], epochs=1, samples=1)


@pytest.mark.parametrize(
    ("arguments", "why"), [({"critic": True}, "no critic"), ({"reward": len}, "a reward and a program")]
)
def test_what_a_program_cannot_have_is_refused(folder, arguments, why):
    with pytest.raises(InputError, match=why):
        improve(one_step, **arguments)


def test_which_functions_are_programs():
    assert prompts_of(two_steps) == ("plan", "answer")
    assert prompts_of(one_step) == ("answer",)
    assert prompts_of(lambda answer, row: 1) is None


def problems(rows, folder, **how):
    """The problems of rows, read as those of a file."""
    path = folder / "read.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return load_dataset(str(path), task=task_of_function(two_steps), **how).problems


def is_right(answer, problem):
    task = task_of_function(two_steps)
    return task.evaluate(task.parse(Completion(text=Run(answer).text()), problem), problem).is_correct


def test_what_a_program_returns_is_scored(tmp_path):
    task = task_of_function(two_steps)
    problem = problems(ROWS, tmp_path)[0]
    texts = {
        Run("20").text(): 1.0,
        Run(" 20.0 ").text(): 1.0,
        Run("21").text(): 0.0,
        Run(None).text(): 0.0,
        "hello": 0.0,
    }
    texts[Run("x", 0.25, "close", (Call("a", "b"),)).text()] = 0.25
    for text, paid in texts.items():
        candidate = task.parse(Completion(text=text), problem)
        assert task.evaluate(candidate, problem).components["r_ans"] == paid
    assert isinstance(problem, Problem)
    with pytest.raises(InputError, match="row 2: It is not clear which column"):
        task.problem_from_row({"answer": "1"}, "row 2")
    with pytest.raises(ValueError, match="expected a number from 0 to 1"):
        Run.of((2, "too much"), [])


@pytest.mark.parametrize(
    ("rows", "truth", "right", "wrong"),
    [
        ([{"context": f"2 + {n}?", "target": f"{2 + n}.0"} for n in range(4)], "2.0", "2", "3"),
        ([{"question": f"2 + {n}?", "Context": "x", "Final_Answer": n} for n in range(4)], "0", "Answer: 0", "1"),
        ([{"input": f"a letter? {n}", "target": f"({mark})"} for n, mark in enumerate("ABAB")], "(A)", "A", "B"),
        ([{"question": f"q {n}", "answer": f"It is {n}.\n#### {n}"} for n in range(5, 9)], "5", "5", "It is 6."),
        ([{"question": f"q {n}", "answers": {"text": ["Ann", "Ann Doe"]}} for n in range(4)], "Ann", "ann doe", "Bob"),
        ([{"text": f"t {n}", "label": label} for n, label in enumerate("abab" * 3)], "a", "A", "b"),
        ([{"question": f"q {n}", "options": ["cat", "dog"], "answer": "dog"} for n in range(4)], "dog", "Dog", "cat"),
        ([{"question": f"q {n}", "choices": ["cat", "dog"], "answer": n % 2} for n in range(4)], "(A) cat", "A", "B"),
    ],
)
def test_an_answer_is_compared_as_an_answer_to_the_dataset_without_a_program(rows, truth, right, wrong, tmp_path):
    first, *_ = problems(rows, tmp_path)
    task = task_of_function(two_steps)
    assert (task.truth(first), is_right(right, first), is_right(wrong, first)) == (truth, True, False)
    assert not is_right(" ", first)
    assert task.reward_row(first) == rows[0]


def test_public_rows_have_the_right_answers_that_they_have_without_a_program():
    task = task_of_function(two_steps)
    for name in ("bbh/ruin_names.json", "formula/formula_test.jsonl", "gsm8k/test.jsonl", "banking77/test.csv"):
        path = str(shared_file(f"datasets/{name}"))
        usual = load_dataset(path, task=task_named("answers"), max_problems=50).problems
        problems = load_dataset(path, task=task, max_problems=50).problems
        shown = [
            task.truth(problem).removeprefix("(")[0] if "ruin" in name else task.truth(problem) for problem in problems
        ]
        assert shown == [task_named("answers").truth(problem) for problem in usual]
        assert all(is_right(task.truth(problem), problem) for problem in problems)


@pytest.mark.parametrize(
    "rows", [[{"question": "q"}], [{"question": "q", "hint": "a"}], [{"question": "q", "rubric": "be kind"}]]
)
def test_an_answer_without_a_truth_is_not_scored(rows, tmp_path):
    task = task_of_function(two_steps)
    [problem] = problems(rows, tmp_path)
    with pytest.raises(InputError, match=r"Nothing to compare the answer to .* with"):
        is_right("a", problem)
    scored = task.parse(Completion(text=Run("a", 1.0).text()), problem)
    assert task.evaluate(scored, problem).is_correct


def test_a_row_that_is_read_alone_has_its_right_answer():
    problem = task_of_function(two_steps).problem_from_row({"question": "2 + 3?", "answer": "So\n#### 5"}, "row 1")
    assert (is_right("5.0", problem), is_right("6", problem)) == (True, False)


def test_a_column_that_the_user_names_is_the_right_answer_or_refused(tmp_path):
    rows = [{"question": f"q {n}", "hint": "a" if n % 2 else "b"} for n in range(4)]
    first, *_ = problems(rows, tmp_path, fields={"answer": "hint"})
    assert (is_right("b", first), is_right("a", first)) == (True, False)
    with pytest.raises(InputError, match="no field 'tip'"):
        problems(rows, tmp_path, fields={"answer": "tip"})


def test_a_run_on_rows_without_right_answers_stops_before_anything_is_wrong(folder):
    with pytest.raises(InputError, match="let the program return a pair"):
        improve(two_steps, [{"question": row["question"]} for row in ROWS])
    assert not list(folder.glob("runs/*/cache/generator_1_rollouts.jsonl"))


def test_the_critic_refuses_the_rollouts_of_a_program(folder):
    (folder / "agent.py").write_text("def run(row, client, prompts):\n    return '1'\n")
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS[:2]))
    with serve_in_thread(chat_app(lambda body, index: "1")) as url:
        endpoint = ["--base-url", url, "--model", "m", "--learn", "none"]
        words = ["--dataset", "rows.jsonl", "--program", "agent.py:run", "--run", "r"]
        assert generator1.main([*words, *endpoint]) == 0
        with pytest.raises(InputError, match="generator_1 are those of a program, which has no critic"):
            critic.main(["--run", "r", "--generators", "1", *endpoint])
