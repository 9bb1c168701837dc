"""The demo from its command to its table, with a server that errs, samples and heeds lessons."""

import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import types

import pytest

from engine.errors import LockHeldError
from engine.storage.append_log import writer_of
from engine.tasks.math.quickstart import instances
from grpo_training.demos import learning as demo
from grpo_training.demos import result as demo_report
from grpo_training.demos.process_supervisor import Command, CommandFailedError, run_side_by_side
from tests.conftest import ROOT
from tests.support.fault_server import chat_app, serve_in_thread

TRAIN, TEST = 20, 24
SMALL = ["--problems", TRAIN, "--test-problems", TEST, "--rollouts", 2]
INSTANCES = {
    instance.problem.text: instance
    for split, count in (("train", TRAIN), ("test", TEST))
    for instance in instances(split, count)
}


def reply(body, index):
    """A model with habits: wrong in 3 of 4 answers, right with a lesson of the family; it fuses and teaches well."""
    system, user = (message["content"] for message in body["messages"][:2])
    problem = re.search(r"^Problem: (.*)$", user, re.MULTILINE).group(1)
    instance = INSTANCES[problem]
    draw = hashlib.sha256(f"{user}{body.get('seed')}{index}".encode()).digest()[0] / 256
    lessons = [lesson for lesson in instance.family.lessons if lesson in user]
    if system.startswith("Study"):
        is_mixed = "Right: " in user and "Wrong: " in user
        lesson = {"op": "add", "content": instance.family.lessons[0], "category": instance.family.category}
        return json.dumps({"operations": [lesson] if is_mixed and not lessons else []})
    is_right = bool(lessons) or draw < 0.25
    if system.startswith("Fuse"):
        is_right = bool(lessons) or draw < 0.8
    way = instance.family.right if is_right else instance.family.mistaken
    scaffold = instance.family.scaffold(way, instance.draw).model_dump()
    return json.dumps({**scaffold, "final_answer": ""})


def as_server(base_url, model="m"):
    return types.SimpleNamespace(
        model=model,
        ended=lambda: False,
        endpoint=lambda: {"api_key": "EMPTY", "base_url": base_url, "model": model, "timeout_s": 5},
    )


@pytest.fixture
def run(monkeypatch, capfd):
    """Runs the command against an app; gives what it printed."""

    def run(app, output, *flags):
        @contextlib.contextmanager
        def local_server(model, **options):
            with serve_in_thread(app) as base_url:
                yield as_server(base_url)

        module = types.ModuleType("grpo_training.serving.local_server")
        module.local_server = local_server
        monkeypatch.setitem(sys.modules, "grpo_training.serving.local_server", module)
        assert demo.main([*map(str, SMALL), "--output", str(output), *map(str, flags)]) == 0
        return capfd.readouterr().out

    return run


def test_the_whole_demo(run, tmp_path):
    run(chat_app(reply), tmp_path, "--problems", 3, "--test-problems", 2)
    said = run(
        chat_app(reply), tmp_path
    )  # a longer one goes on; the critic does not take the shorter one's end for its
    results = json.loads((tmp_path / "results.json").read_text())
    arms = {arm["name"]: arm for arm in results["arms"]}
    assert list(arms) == [
        *("base", "base again (A/A)", "library of generator_1", "library of generator_2", "library of generator_3"),
        *("the three libraries together", "fusion by the critic", "majority vote"),
    ]
    for arm in arms.values():
        assert (arm["problems"], arm["left_out"]) == (TEST, [])
    assert len(next(iter(arms["base"]["verdicts"].values()))) == 2
    assert arms["base"]["verdicts"] != arms["base again (A/A)"]["verdicts"]
    assert 0.1 < arms["base"]["accuracy"]["value"] < 0.4
    gain = arms["the three libraries together"]["difference_to_base"]
    assert 0 < gain["low"] < gain["value"] < gain["high"]
    assert "The libraries' gain is real: " in results["verdict"]
    assert results["verdict"] in said
    assert re.search(r"fusion by the critic +\d+\.\d% ", said)

    # Each generator drew its own samples of the same problems in the same order, and learned.
    caches = [
        [json.loads(line) for line in (tmp_path / f"cache/generator_{n}_rollouts.jsonl").read_text().splitlines()]
        for n in (1, 2, 3)
    ]
    orders = [[group["problem_id"] for group in groups] for groups in caches]
    assert orders[0] == orders[1] == orders[2]
    assert len(orders[0]) == TRAIN
    answers = [[[one["is_correct"] for one in group["rollouts"]] for group in groups] for groups in caches]
    assert answers[0] != answers[1] != answers[2]
    fusions = (tmp_path / "cache/critic_results.jsonl").read_text().splitlines()
    assert len(fusions) == 3 * TRAIN
    for name in ("generator_1", "generator_2", "generator_3"):
        families = {row["family"]: row["lessons"][name] for row in results["families"]}
        lessons = results["libraries"][name]["lessons"]
        assert sum(families.values()) == len(lessons) > 0
        assert f"{name}: lessons for {sum(map(bool, families.values()))} of the {len(families)} families met" in said
    having = sum(any(row["lessons"].values()) for row in results["families"])
    assert f"together: lessons for {having} of the {len(results['families'])} families met" in said

    # The same command again asks for nothing, though its server has another address.
    app = chat_app(reply)
    again = run(app, tmp_path)
    assert app["seen"] == []
    assert results["verdict"] in again


def test_a_failing_command_ends_it(run, tmp_path):
    (tmp_path / "results.json").write_text("of an earlier demo")
    with pytest.raises(CommandFailedError) as failed:
        run(chat_app(reply, models=("another",)), tmp_path, "--fresh")
    assert (tmp_path / "old1/results.json").read_text() == "of an earlier demo"
    assert failed.value.exit_code == 2
    assert "has no model 'm'" in failed.value.why
    assert "generator_" in failed.value.what
    for name in ("generator_1_rollouts", "generator_2_rollouts", "generator_3_rollouts", "critic_results"):
        assert writer_of(tmp_path / f"cache/{name}.jsonl") is None


_SCRIPT = """
import signal, sys, types
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
from pathlib import Path
from grpo_training.demos import learning as demo
from grpo_training.cli.entry import run_command
from tests.grpo_training.demos.test_learning import as_server
settings = demo.DemoSettings(output=Path(sys.argv[2]), problems=20, window=1, test_problems=2)
run_command(lambda: demo.run_demo(settings, as_server(sys.argv[1])))
"""


def test_a_second_demo_in_one_folder_is_refused_before_it_touches_anything(monkeypatch, tmp_path):
    class EnoughError(Exception):
        pass

    starts = []

    @contextlib.contextmanager
    def local_server(model, **options):
        starts.append(model)
        if len(starts) == 1:
            with pytest.raises(LockHeldError, match="is locked by another process"):
                demo.main(["--output", str(tmp_path)])
        raise EnoughError
        yield

    module = types.ModuleType("grpo_training.serving.local_server")
    module.local_server = local_server
    monkeypatch.setitem(sys.modules, "grpo_training.serving.local_server", module)
    with pytest.raises(EnoughError):
        demo.main(["--output", str(tmp_path)])
    assert len(starts) == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_all_of_it(tmp_path, number, code):
    app = chat_app(reply, latency_s=0.3)
    with serve_in_thread(app) as base_url:
        process = subprocess.Popen(
            [sys.executable, "-c", _SCRIPT, base_url, str(tmp_path)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        files = [tmp_path / f"cache/generator_{n}_rollouts.jsonl" for n in (1, 2, 3)]
        files.append(tmp_path / "cache/critic_results.jsonl")
        until = time.monotonic() + 30
        while not all(map(writer_of, files)) and process.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
        process.send_signal(number)
        output, _ = process.communicate(timeout=20)
    assert process.returncode == code, output.decode()
    assert not any(map(writer_of, files))


def test_a_server_that_is_gone_ends_it(tmp_path):
    with serve_in_thread(chat_app(reply, latency_s=0.3)) as base_url:
        server = as_server(base_url)
        server.ended = lambda: (tmp_path / "cache/generator_1_rollouts.jsonl.lock").exists()
        settings = demo.DemoSettings(output=tmp_path, problems=4, test_problems=2)
        with pytest.raises(ValueError, match="local server has ended"):
            demo.run_demo(settings, server)


def test_fresh_refuses_while_a_demo_is_at_work(tmp_path):
    from engine.storage.rollout_store import RolloutStore

    (tmp_path / "cache").mkdir()
    (tmp_path / "mine.txt").write_text("a file of somebody else")
    store = RolloutStore(tmp_path / "cache/generator_2_rollouts.jsonl")
    with store.hold(), pytest.raises(ValueError, match="A demo is at work"):
        demo.set_aside(tmp_path)
    demo.set_aside(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.txt", "old1"]
    demo.set_aside(tmp_path)
    assert not (tmp_path / "old2").exists()


# ------------------------------------------------------------------ the view


class Stream:
    """Collects text; a terminal if it is told so."""

    def __init__(self, is_terminal):
        self.is_terminal, self.text = is_terminal, ""

    def isatty(self):
        return self.is_terminal

    def write(self, text):
        self.text += text
        return len(text)

    def flush(self):
        pass


@pytest.mark.parametrize("is_terminal", [True, False])
def test_view(tmp_path, monkeypatch, is_terminal):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    commands = [
        Command(name, ["experiences", "--help"], tmp_path / f"{name}.log", lambda: "3/9 problems") for name in "ab"
    ]
    stream = Stream(is_terminal)
    run_side_by_side(commands, ready=lambda command: True, check=lambda: None, stream=stream)
    for name in "ab":
        assert re.search(rf"{name}.*3/9 problems", stream.text)
    assert ("\x1b[" in stream.text) == is_terminal


def test_tail_cannot_steer_a_terminal(tmp_path):
    command = Command("a", [], tmp_path / "log", str)
    assert command.tail(3) == []
    (tmp_path / "log").write_bytes(b"x" * 10000 + b"\n one \n\n\xff\x1b[2J\x07two\n")
    assert command.tail(2) == ["one", "\ufffd\\x1b[2J\\x07two"]


def test_families_and_most_used_lessons():
    from engine.experience.state import LibraryState
    from engine.records import Experience, Problem, Uses
    from grpo_training.evaluation.libraries import BASE, LIBRARIES, Arm

    def library(*lessons):
        made = [
            Experience(id=id_, content="Look.", source_problem=source, uses=Uses(rollouts=uses, correct=1))
            for id_, source, uses in lessons
        ]
        return LibraryState(tuple(made), {}, 9, "v")

    def problem(id_, family):
        return Problem(id=id_, text=id_, answer="1", meta={"family": family})

    trained = [problem("t1", "ages"), problem("t2", "ages"), problem("t3", "clocks")]
    tested = [problem("h1", "clocks"), problem("h2", "clocks"), problem("h3", "mixtures")]
    libraries = {
        "generator_1": library(("G1-001", "t1", 4), ("G1-002", "t2", 9)),
        "critic": library(("C-001", "by hand", 7)),
    }
    arms = [
        Arm(BASE, {"h1": (True, False), "h2": (False, False), "h3": (True, True)}),
        Arm(LIBRARIES, {"h1": (True,), "h3": (True,)}, ("h2",)),
    ]
    ages, clocks = demo_report.family_rows(trained, tested, libraries, arms)
    assert (ages.family, ages.met, ages.lessons) == ("ages", 2, {"generator_1": 2, "critic": 0})
    assert (ages.base, ages.libraries) == (None, None)
    assert (clocks.met, clocks.lessons) == (1, {"generator_1": 0, "critic": 0})
    assert (clocks.base, clocks.libraries) == (0.25, 1.0)
    assert [one.id for one in demo_report.most_used(libraries)] == ["G1-002", "C-001", "G1-001"]
