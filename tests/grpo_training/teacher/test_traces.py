import contextlib
import json
import random
import re
import time
from collections import Counter

import pytest

from engine.errors import (
    BudgetExceededError,
    ConfigurationError,
    FatalEndpointError,
    IncompleteRunError,
    InputError,
    MissingInputError,
)
from engine.llm.retry import RetryPolicy
from engine.records import Usage
from engine.tasks.registry import task_named
from grpo_training import generate_teacher_traces
from grpo_training.teacher.traces import (
    KeptTrace,
    TeacherMetadata,
    TeacherTrace,
    TestVerdict,
    TraceStatistics,
    accept,
    table,
)
from tests.support.fault_server import FaultPlan, chat_app, fault_middleware, serve_in_thread
from tests.support.forked_command import ForkedCommand
from tests.support.main_loop import Traffic

CANONICAL = task_named("code").canonical
PASSED = TestVerdict(passed=3, total=3, status="pass")


def trace(index, code="f = 1", *, thinking=None, status="ok", verdict=PASSED, finish="stop", tokens=10, **fields):
    fields = {"task_id": "t", "prompt": "p", "full_response": code, **fields}
    return TeacherTrace(
        sample_idx=index,
        code=code,
        thinking=thinking,
        status=status,
        verdict=verdict,
        teacher_metadata=TeacherMetadata(finish_reason=finish, usage=Usage(completion_tokens=tokens)),
        **fields,
    )


def decided(traces, kept=(), most=2, max_chars=1000):
    return [trace.rejected or "accepted" for trace in accept(traces, kept, CANONICAL, most=most, max_chars=max_chars)]


def test_each_reason_not_to_imitate_a_trace():
    wrong = TestVerdict(passed=2, total=3, status="wrong_answer")
    assert decided(
        [
            trace(0),
            trace(1, "g = 2", finish="length"),
            trace(2, "", status="no_code", verdict=TestVerdict(total=3)),
            trace(3, "h = 3", verdict=wrong),
            trace(4, "i = 4", verdict=TestVerdict(passed=0, total=0, status="pass")),
            trace(5, "j = 5", status="unclosed_fence"),
            trace(6, "k = " + "1" * 1000),
        ]
    ) == ["accepted", "cut_off", "no_code", "wrong_answer", "not_run", "unclosed_fence", "too_long"]


def test_the_shortest_come_first_and_equal_programs_count_once():
    commented = "f = 1  # the same program with a comment"
    traces = [trace(0, commented), trace(1, "f = 1"), trace(2, "g = 12345"), trace(3, "h = 123")]
    assert decided(traces) == ["duplicate", "accepted", "enough", "accepted"]


def test_thinking_beside_the_reply_counts_into_its_length_and_thinking_inside_does_not():
    inside = trace(0, "f = 1", full_response="<think>why</think>f = 1", thinking="why")
    beside = trace(1, "f = 1", full_response="f = 1", thinking="why")
    assert (inside.size, beside.size) == (len("<think>why</think>f = 1"), len("f = 1why"))


def test_the_choice_stands_when_a_part_of_it_is_on_the_disk_already():
    rng = random.Random(3)
    programs = ["f = 1", "f = 1 # a", "g = 22", "g = 22 # b", "h = 333", "i = 4444"]
    for _ in range(300):
        verdicts = [PASSED, PASSED, TestVerdict(passed=1, total=3, status="timeout")]
        traces = [trace(index, rng.choice(programs), verdict=rng.choice(verdicts)) for index in range(8)]
        choice = accept(traces, (), CANONICAL, most=2, max_chars=1000)
        stored = rng.randrange(9)
        kept = [KeptTrace.of(judged, CANONICAL) for judged in choice[:stored]]
        assert accept(traces[stored:], kept, CANONICAL, most=2, max_chars=1000) == choice[stored:]


def test_programs_that_differ_in_layout_comments_and_docstrings_only_are_the_same():
    program = 'def f(x):\n    """Doubles."""\n    return 2 * x\n'
    other = "def f( x ):\n\n    return 2*x  # twice\n"
    assert CANONICAL(program) == CANONICAL(other)
    assert CANONICAL(program) != CANONICAL("def f(x):\n    return x * 2\n")
    assert CANONICAL("def f(:") != CANONICAL("def g(:")


def test_statistics_by_hand():
    counts = TraceStatistics()
    accepted = trace(0, thinking="why", tokens=10, dataset="mbpp").model_copy(update={"accepted": True})
    wrong = TestVerdict(passed=0, total=3, status="wrong_answer")
    counts.add(accepted)
    counts.add(trace(1, thinking="why", tokens=20, verdict=wrong, rejected="wrong_answer", dataset="mbpp"))
    counts.add(trace(2, "x = (", status="syntax_error", tokens=30, verdict=TestVerdict(total=3), dataset="apps"))
    cut_off = {"finish": "length", "status": "unclosed_think", "verdict": TestVerdict(total=3)}
    counts.add(trace(3, "", tokens=400, rejected="cut_off", dataset="apps", task_id="u", **cut_off))
    assert dict(counts.rows()) == {
        "Total responses": "4",
        "With thinking": "2 (50.0%)",
        "Code extracted": "3 (75.0%)",
        "Valid Python": "2 (50.0%)",
        "Parse failures": "1 (25.0%)",
        "Cut off": "1 (25.0%)",
        "All tests passed": "1 (25.0%)",
        "Accepted": "1 (25.0%)",
        "  not: wrong_answer": "1 (25.0%)",
        "  not: cut_off": "1 (25.0%)",
        "Tasks with an accepted trace": "1 of 2",
    }


def test_the_shares_of_the_example_have_one_decimal():
    counted = {"With thinking": 3150, "Code extracted": 3180, "Valid Python": 3170, "Parse failures": 20}
    rows = dict(TraceStatistics(3200, Counter(counted)).rows())
    assert [rows[name] for name in ("Total responses", "With thinking", "Code extracted")] == [
        "3200",
        "3150 (98.4%)",
        "3180 (99.4%)",
    ]
    assert (rows["Valid Python"], rows["Parse failures"]) == ("3170 (99.1%)", "20 (0.6%)")


def test_statistics_of_nothing():
    text = table(TraceStatistics().rows())
    assert "Total responses:               0" in text
    assert "0 (0.0%)" in text


ROWS = [
    {"task_id": 1, "text": "Double a number.", "test_list": ["assert double(2) == 4", "assert double(-1) == -2"]},
    {"task_id": 2, "text": "Triple a number.", "test_list": ["assert triple(2) == 6", "assert triple(0) == 0"]},
    {"task_id": 3, "text": "Negate a number.", "test_list": ["assert negate(2) == -2", "assert negate(0) == 0"]},
]
RIGHT = {"double": "2 * x", "triple": "3 * x", "negate": "-x"}


def fenced(code):
    return f"```python\n{code}\n```"


def reply(name, index):
    """Sample k of each problem: right and long, the same with a comment, wrong, right and short, and three broken."""
    short = f"def {name}(x):\n    return {RIGHT[name]}"
    long = f"def {name}(x):\n    result = {RIGHT[name]}\n    return result"
    return [
        f"<think>step by step</think>\n{fenced(long)}",
        f"<think>step by step</think>\n{fenced(long + '  # done')}",
        fenced(f"def {name}(x):\n    return x"),
        fenced(short),
        "I am not sure.",
        fenced(f"def {name}(x:"),
        f"<think>{fenced(short)}",
        f"<think>a third way</think>\n{fenced(long.replace('result', 'the_result_of_it'))}",
    ][index % 8]


EXPECTED = ["accepted", "duplicate", "wrong_answer", "accepted", "no_code", "syntax_error", "unclosed_think", "enough"]


def answer(body, index):
    asked = body["messages"][-1]["content"]
    return reply(next(name for name in RIGHT if name in asked), index)


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch):
    monkeypatch.setattr(RetryPolicy, "wait_s", lambda *arguments: 0.005)


class World:
    """A teacher that answers, its configuration, and the files of one output."""

    def __init__(self, folder, *, plan=None, rows=ROWS, **options):
        self.folder = folder
        self.output = folder / "traces.jsonl"
        self.traffic = Traffic()
        self.app = chat_app(answer, **options)
        self.app.middlewares[0:0] = [self.traffic.middleware(), *([fault_middleware(plan)] if plan else [])]
        folder.mkdir(parents=True, exist_ok=True)
        self.train = folder / "train.jsonl"
        self.train.write_text("".join(json.dumps(row) + "\n" for row in rows))

    @contextlib.contextmanager
    def served(self, **fields):
        with serve_in_thread(self.app) as self.url:
            self.configure(self.url, **fields)
            yield self

    def configure(self, url, **fields):
        entry = {"api_key": "EMPTY", "base_url": url, "model": "big", "timeout_s": 5, **fields}
        (self.folder / "api.json").write_text(json.dumps({"teacher": entry}))

    def arguments(self, *more):
        return [
            *("--train_data", str(self.train), "--output", str(self.output)),
            *("--api_config", str(self.folder / "api.json"), "--cache_dir", str(self.folder / "cache")),
            *map(str, more),
        ]

    def generate(self, *more):
        return generate_teacher_traces.main(self.arguments(*more))

    def rows(self):
        return [json.loads(line) for line in self.output.read_text().splitlines()]

    def asked(self):
        """How many samples the server was asked for."""
        return sum(json.loads(entry["body"]).get("n", 1) for entry in self.traffic.requests)


def plain(rows):
    """Rows without what differs from run to run: usage and times."""
    return [{key: value for key, value in row.items() if key != "teacher_metadata"} for row in rows]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The rows of a run in which nothing went wrong."""
    world = World(tmp_path_factory.mktemp("undisturbed"))
    with world.served():
        assert world.generate() == 0
    return plain(world.rows())


def test_traces_are_executed_before_they_are_accepted(tmp_path, capsys):
    extra = {"presence_penalty": 0.5, "chat_template_kwargs": {"enable_thinking": True}}
    world = World(tmp_path)
    with world.served(extra_body=extra, price_in=1.0, price_out=2.0):
        assert world.generate() == 0
    rows = world.rows()
    assert [(row["task_id"], row["sample_idx"]) for row in rows] == [
        (f"mbpp_{number}", index) for number in (1, 2, 3) for index in range(8)
    ]
    assert [row["rejected"] or "accepted" for row in rows] == EXPECTED * 3
    first, wrong = rows[0], rows[2]
    assert first["verdict"] == {"passed": 2, "total": 2, "status": "pass"}
    assert wrong["verdict"] == {"passed": 0, "total": 2, "status": "wrong_answer"}
    assert (first["thinking"], first["prompt"]) == ("step by step", "Double a number.")
    assert first["code"] == "def double(x):\n    result = 2 * x\n    return result"
    assert first["test_list"] == ROWS[0]["test_list"]
    assert first["teacher_metadata"]["model"] == "big"
    sent = [json.loads(request["body"])["messages"][-1]["content"] for request in world.traffic.requests]
    assert first["messages"][-1]["content"] in sent
    for entry in world.traffic.requests:
        body = json.loads(entry["body"])
        assert {name: body[name] for name in extra} == extra
        assert (body["temperature"], body["top_p"], body["max_tokens"]) == (0.7, 0.8, 8192)
    shown = capsys.readouterr().out
    for line in (
        "Total responses:               24",
        "With thinking:                 12 (50.0%)",
        "Code extracted:                18 (75.0%)",
        "Valid Python:                  15 (62.5%)",
        "Parse failures:                6 (25.0%)",
        "Accepted:                      6 (25.0%)",
        "Tasks with an accepted trace:  3 of 3",
    ):
        assert line in shown


def test_a_difficulty_may_be_a_number(tmp_path):
    world = World(tmp_path, rows=[ROWS[0] | {"difficulty": 3}])
    with world.served():
        assert world.generate("--num-samples", 1) == 0
    assert [row["difficulty"] for row in world.rows()] == ["3"]


def test_the_same_command_asks_for_nothing_twice(tmp_path, capsys, undisturbed):
    world = World(tmp_path)
    with world.served():
        world.generate()
        content, asked = world.output.read_bytes(), world.asked()
        assert asked == 24
        table_of_first = capsys.readouterr().out.split("Tasks that lack traces")[0]
        assert world.generate() == 0
        assert (world.output.read_bytes(), world.asked()) == (content, asked)
        assert capsys.readouterr().out.split("Tasks that lack traces")[0] == table_of_first
    assert plain(world.rows()) == undisturbed


def test_more_samples_or_tasks_ask_only_for_what_is_missing(tmp_path):
    world = World(tmp_path)
    with world.served():
        world.generate("--max_tasks", 1, "--num_samples", 3)
        assert [row["rejected"] or "accepted" for row in world.rows()] == ["accepted", "duplicate", "wrong_answer"]
        world.generate("--max_tasks", 2, "--num_samples", 4)
    assert world.asked() == 8
    done = [(row["task_id"], row["sample_idx"]) for row in world.rows()]
    assert done == [("mbpp_1", index) for index in range(4)] + [("mbpp_2", index) for index in range(4)]
    assert world.rows()[3]["accepted"]


def test_the_journal_answers_where_the_rows_are_gone(tmp_path, undisturbed):
    world = World(tmp_path)
    with world.served():
        world.generate()
        world.generate("--fresh")
    assert world.asked() == 24
    assert plain(world.rows()) == undisturbed
    assert (tmp_path / "traces.jsonl.old1").exists()


@pytest.mark.parametrize("seed", range(3))
def test_failing_calls_change_no_row(tmp_path, undisturbed, seed):
    plan = FaultPlan(seed=seed, rate=0.3, stall_s=0.05)
    world = World(tmp_path, plan=plan)
    with world.served(never_send=["n"]):  # 24 requests
        assert world.generate() == 0
    assert sum(plan.injected.values()) > 3
    assert plain(world.rows()) == undisturbed


def test_a_task_with_a_failing_reply_stays_open_and_is_asked_again(tmp_path, undisturbed, capsys):
    plan = FaultPlan(seed=0, rate=0.0)
    world = World(tmp_path, plan=plan)
    fine = plan.decide
    tripled = []

    def failing(body):
        tripled.extend([body] if b"Triple" in body and not tripled else [])
        return "500" if body in tripled else fine(body)

    plan.decide = failing
    with world.served(never_send=["n"]):
        with pytest.raises(IncompleteRunError, match="1 of 3 problems lack traces; the first is mbpp_2: ") as raised:
            world.generate("--attempts", 2)
        assert raised.value.what.endswith("/v1 reports HTTP 500: Internal Server Error")
        assert "The run stopped" not in raised.value.why
        assert {row["task_id"] for row in world.rows()} == {"mbpp_1", "mbpp_3"}
        assert re.search(r"no traces written for mbpp_2: http://\S+ reports HTTP 500", capsys.readouterr().err)
        before = world.asked()
        plan.decide = fine
        assert world.generate() == 0
        assert world.asked() == before + 1
    assert sorted(plain(world.rows()), key=lambda row: (row["task_id"], row["sample_idx"])) == undisturbed


def test_an_endpoint_that_is_gone_ends_the_run_after_some_tasks(tmp_path):
    rows = [dict(ROWS[0], task_id=number) for number in range(40)]
    world = World(tmp_path, rows=rows, plan=FaultPlan(seed=0, rate=1.0, kinds=("500",), max_consecutive_per_request=99))
    with world.served(), pytest.raises(IncompleteRunError, match="8 of 40 problems lack traces") as raised:
        world.generate("--attempts", 2, "--concurrency", 4)
    assert "The run stopped after 8 such problems in a row" in raised.value.why
    assert not world.output.exists()
    assert len(world.traffic.requests) < 2 * 40


def test_a_sandbox_that_fails_makes_no_row(tmp_path, monkeypatch):
    from engine.records import Outcome
    from engine.tasks.code import task as code
    from engine.tasks.code.testing.report import Report

    broken = Report(outcome=Outcome.INFRA_FAULT, statuses=(), detail="no workers")
    world = World(tmp_path, rows=ROWS[:1])
    with world.served():
        with monkeypatch.context() as patch:
            patch.setattr(code, "run_program", lambda *arguments, **named: broken)
            with pytest.raises(IncompleteRunError, match="mbpp_1: an answer could not be verified: no workers"):
                world.generate()
        assert not world.output.exists()
        assert world.generate() == 0
    assert (len(world.rows()), world.asked()) == (8, 8)


def test_a_cut_off_reply_is_kept_and_not_accepted(tmp_path, capsys):
    plan = FaultPlan(seed=0, rate=1.0, kinds=("length",), max_consecutive_per_request=99)
    world = World(tmp_path, rows=ROWS[:1], plan=plan)
    with world.served():
        assert world.generate() == 0
    assert [row["rejected"] for row in world.rows()] == ["cut_off"] * 8
    assert {row["teacher_metadata"]["finish_reason"] for row in world.rows()} == {"length"}
    assert "Cut off:                       8 (100.0%)" in capsys.readouterr().out


def test_a_torn_last_line_is_mended(tmp_path, undisturbed):
    world = World(tmp_path)
    with world.served():
        world.generate()
        content = world.output.read_bytes()
        world.output.write_bytes(content[:-100])
        assert world.generate() == 0
        assert world.asked() == 24
    assert world.output.read_bytes() == content


def test_kill_nine_loses_nothing_and_pays_for_nothing_twice(tmp_path, undisturbed):
    world = World(tmp_path, latency_s=0.05)
    with world.served(never_send=["n"]):
        flags = world.arguments("--concurrency", 2)
        for moment in (0.1, 0.3, 0.5):
            process = ForkedCommand("grpo_training.generate_teacher_traces", flags)
            before = len(world.traffic.requests)
            until = time.monotonic() + 30
            while len(world.traffic.requests) == before and process.poll() is None and time.monotonic() < until:
                time.sleep(0.005)
            time.sleep(moment)
            process.kill()
            process.wait()
        process = ForkedCommand("grpo_training.generate_teacher_traces", flags)
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0, output
    assert plain(world.rows()) == undisturbed
    in_flight = 2 + 2  # of each kill: those on the way, and those that came and were not yet journalled
    assert 24 <= world.asked() <= 24 + 3 * in_flight


def test_a_budget_stops_the_run_and_the_next_start_goes_on(tmp_path, undisturbed):
    longest_prompt = max(
        sum(len(message["content"].encode()) + 16 for message in row["messages"]) for row in undisturbed
    )
    one_request = 8192 + longest_prompt  # what is set aside for it; a reply really takes some 80
    world = World(tmp_path)
    with world.served(never_send=["n"]):
        with pytest.raises(BudgetExceededError):
            world.generate("--budget_tokens", one_request + 600, "--concurrency", 1)
        spent = world.asked()
        assert 0 < spent < 24
        assert world.generate() == 0
        assert world.asked() == 24
    assert plain(world.rows()) == undisturbed


def test_another_configuration_is_refused_and_resume_takes_the_old_one(tmp_path):
    world = World(tmp_path, rows=ROWS[:1])
    with world.served():
        world.generate("--num_samples", 2)
        with pytest.raises(InputError, match=r"temperature: stored 0.7, given 0.2"):
            world.generate("--temperature", 0.2)
        assert world.generate("--temperature", 0.2, "--num_samples", 3, "--resume") == 0
        assert {json.loads(entry["body"])["temperature"] for entry in world.traffic.requests} == {0.7}
        assert world.generate("--temperature", 0.2, "--num_samples", 1, "--fresh") == 0
        assert len(world.rows()) == 1
        world.configure(world.url, extra_body={"presence_penalty": 1.5})
        with pytest.raises(InputError, match="extra_body"):
            world.generate("--temperature", 0.2)


def test_another_problem_under_the_same_id_is_refused(tmp_path):
    world = World(tmp_path, rows=ROWS[:1])
    with world.served():
        world.generate("--num_samples", 1)
        world.train.write_text(json.dumps(dict(ROWS[0], text="Double an integer.")) + "\n")
        with pytest.raises(InputError, match="another problem under the id mbpp_1"):
            world.generate("--num_samples", 1)


def test_problems_that_are_no_programs_are_refused(tmp_path):
    world = World(tmp_path, rows=[{"problem": "1 + 1?", "answer": "2"}])
    with world.served(), pytest.raises(InputError, match="has no tests"):
        world.generate()
    assert not world.traffic.requests


def test_what_is_missing_is_named(tmp_path):
    world = World(tmp_path)
    with pytest.raises(MissingInputError, match="API configuration not found"):
        world.generate()
    (tmp_path / "api.json").write_text("{}")
    with pytest.raises(ConfigurationError, match="API key not found for teacher"):
        world.generate()
    with pytest.raises(InputError, match="exclude each other"):
        world.generate("--dataset", "mbpp")


def test_a_connection_that_works(tmp_path, capsys):
    code = "def sum_of_even(numbers):\n    return sum(n for n in numbers if n % 2 == 0)"
    app = chat_app(lambda body, index: f"<think>keep the even ones</think>\n{fenced(code)}")
    world = World(tmp_path)
    with serve_in_thread(app) as url:
        world.configure(url)
        assert world.generate("--test_connection") == 0
        assert world.generate("--test_connection") == 0
    assert len(app["seen"]) == 2  # it really asks, each time
    shown = capsys.readouterr().out
    assert "✓ PASS thinking extracted (18 characters)" in shown
    assert "✓ PASS it is right" in shown
    assert not world.output.exists()


def test_a_teacher_that_writes_no_program(tmp_path, capsys):
    world = World(tmp_path)
    with serve_in_thread(chat_app(lambda body, index: "Hello!")) as url:
        world.configure(url)
        assert world.generate("--test_connection") == 2
    shown = capsys.readouterr().out
    assert "⚠ WARN the reply holds no thinking" in shown
    assert "✗ FAIL the reply cannot be read" in shown


def test_a_teacher_that_is_not_there(tmp_path, capsys):
    world = World(tmp_path)
    world.configure("http://127.0.0.1:9/v1")
    with pytest.raises(IncompleteRunError, match="teacher: no answer from http://127.0.0.1:9/v1") as raised:
        world.generate("--test_connection")
    assert raised.value.exit_code == 2
    assert "vllm serve" in raised.value.fix


def test_a_teacher_that_refuses_the_key(tmp_path, capsys):
    secret = "sk-0123456789abcdef"
    world = World(tmp_path)
    with serve_in_thread(chat_app(api_key="another")) as url:
        world.configure(url, api_key=secret)
        for words in (["--test_connection"], []):
            with pytest.raises(FatalEndpointError) as raised:
                world.generate(*words)
            assert raised.value.exit_code == 2
            assert secret not in str(raised.value)
    captured = capsys.readouterr()
    assert secret not in captured.out + captured.err
