"""An environment of verifiers as a dataset: prompts, rewards of the environment, and what cannot be a dataset."""

import sys

import pytest

from agents.generator import generator_messages
from engine.datasets import load_problems
from engine.errors import ConfigurationError, InputError
from engine.records import Completion, Outcome
from engine.reward_evaluator import RewardEvaluator
from engine.tasks.registry import task_named

TASK = task_named("verifiers_env")

ENVIRONMENT = """
import time

import verifiers.v1 as vf


class Data(vf.TaskData):
    answer: str


class Task(vf.Task[Data]):
    @vf.reward(weight=0.75)
    async def exact(self, trace: vf.Trace) -> float:
        if "sleep" in trace.last_reply:
            time.sleep(600)
        if "crash" in trace.last_reply:
            raise OSError("no judge")
        return float(trace.last_reply.endswith(self.data.answer))

    @vf.reward(weight=0.25)
    async def short(self, trace: vf.Trace) -> float:
        return float(len(trace.assistant_messages[-1].content) < 20)

    @vf.metric
    async def prompts(self, trace: vf.Trace) -> float:
        return float(len(trace.messages) - 1)


class Config(vf.TasksetConfig):
    first: int = 1


class Doubles(vf.Taskset[Task, Config]):
    def load(self):
        for number in range(self.config.first, 4):
            data = Data(prompt=f"Double {number}.", system_prompt="Be short.", answer=str(2 * number))
            yield Task(data, self.config.task)


__all__ = ["Doubles"]
"""


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """An installed environment."""
    pytest.importorskip("verifiers.v1", reason="the package verifiers is not installed")
    (tmp_path / "doubles_for_tests.py").write_text(ENVIRONMENT)
    monkeypatch.syspath_prepend(tmp_path)
    return "verifiers_env:doubles-for-tests"


def scored(problem, text):
    return RewardEvaluator().score(TASK, problem, TASK.parse(Completion(text=text), problem))


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "verifiers", None)
    monkeypatch.setitem(sys.modules, "verifiers.v1", None)
    with pytest.raises(ConfigurationError, match=r"(?s)verifiers is not installed.*\[verifiers\]"):
        load_problems("verifiers_env:gsm8k")


def test_problems_have_the_prompts_of_the_environment_and_its_rewards(environment):
    problems = load_problems(f"{environment}?first=2")
    assert [problem.text for problem in problems] == ["Double 2.", "Double 3."]
    assert len({problem.id for problem in problems}) == 2
    system, user = generator_messages(TASK, problems[0])
    assert (system.content.strip(), user.content.strip()) == ("Be short.", "Double 2.")
    right, long, wrong = (scored(problems[0], text) for text in ("4", "It is the number 4, as 2 + 2 = 4", "five"))
    assert (right.rewards.r_total, right.is_correct) == (1.0, True)
    assert right.detail == {"reward": 1.0, "rewards": {"exact": 0.75, "short": 0.25}, "metrics": {"prompts": 2.0}}
    assert (long.rewards.r_total, long.is_correct) == (0.75, False)
    assert wrong.rewards.r_total == 0.25
    assert scored(problems[0], " ").outcome is Outcome.MODEL_FAULT


def test_a_problem_is_read_back_from_a_row(environment):
    [problem] = load_problems(environment, max_problems=1)
    row = {"id": problem.id, "problem": problem.text, "answer": problem.answer}
    assert TASK.problem_from_row(row, "line 1") == problem
    with pytest.raises(InputError, match="line 1: not a problem of verifiers_env"):
        TASK.problem_from_row({"problem": "?", "answer": "4"}, "line 1")


def test_a_reward_that_fails_or_hangs_is_no_wrong_answer(environment, monkeypatch):
    [problem] = load_problems(environment, max_problems=1)
    crashed = scored(problem, "crash")
    assert (crashed.outcome, crashed.rewards.r_total) == (Outcome.INFRA_FAULT, None)
    assert "no judge" in crashed.detail["why"]
    monkeypatch.setattr("engine.tasks.verifiers_env.task._SCORE_LIMIT_S", 0.5)
    assert scored(problem, "sleep").outcome is Outcome.VERIFIER_TIMEOUT


TOOLS = """    @classmethod
    def toolsets(cls, config):
        return [Search(vf.ToolsetConfig())]
"""
SEARCH = """class Search(vf.Toolset):
    @vf.tool
    async def search(self, text: str) -> str:
        return text


"""
TURNS = """
class TurnsConfig(vf.EnvConfig):
    player: vf.AgentConfig = vf.AgentConfig()


class Turns(vf.Env[TurnsConfig]):
    async def run(self, task, agents):
        async with agents.player.interaction(task) as player:
            for _ in range(3):
                await player.turn("And again?")


__all__ = ["Doubles", "Turns"]
"""
PROGRAM = """
class Program(vf.Harness[vf.HarnessConfig]):
    async def launch(self, *given, **named):
        raise NotImplementedError


__all__ = ["Doubles", "Program"]
"""
ALL, TASK_CLASS, TASKSET_CLASS = (
    '__all__ = ["Doubles"]',
    "class Task(vf.Task[Data]):\n",
    "class Doubles(vf.Taskset[Task, Config]):\n",
)


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (TASK_CLASS, SEARCH + TASK_CLASS + TOOLS, "it offers tools"),
        (TASKSET_CLASS, SEARCH + TASKSET_CLASS + TOOLS, "it offers tools"),
        (ALL, TURNS, "its class Turns runs the episodes, which may have several turns"),
        (ALL, PROGRAM, "it has a harness of its own"),
        (
            "    @vf.metric",
            "    @vf.stop\n    async def solved(self):\n        return 1\n\n    @vf.metric",
            "stop conditions",
        ),
        (
            "    @vf.metric",
            "    async def finalize(self, trace, runtime): ...\n\n    @vf.metric",
            "finalize needs a sandbox",
        ),
        ("exact(self, trace: vf.Trace)", "exact(self, trace: vf.Trace, runtime: vf.Runtime)", "exact needs a sandbox"),
        ('prompt=f"Double {number}."', "prompt=None", "its prompt is not one text"),
        ("class Task(vf.Task[Data]):", "class Task(vf.Task[Data]):\n    NEEDS_CONTAINER = True", "needs a container"),
    ],
)
def test_an_environment_of_more_than_one_request_is_refused(environment, tmp_path, before, after, why):
    name = f"refused_{abs(hash((before, after)))}"
    assert before in ENVIRONMENT
    (tmp_path / f"{name}.py").write_text(ENVIRONMENT.replace(before, after))
    with pytest.raises(InputError, match=why) as caught:
        load_problems(f"verifiers_env:{name}")
    assert caught.value.what.startswith(f"The environment {name} cannot be a dataset here: ")
    assert "one request and one reply" in caught.value.why


def test_an_episode_that_is_one_request_by_its_own_word_is_read(environment, tmp_path):
    own = TURNS.replace("    async def run", "    ONE_REQUEST = True\n\n    async def run")
    (tmp_path / "one_request_for_tests.py").write_text(ENVIRONMENT.replace(ALL, own))
    assert len(load_problems("verifiers_env:one-request-for-tests")) == 3


def test_an_environment_of_earlier_versions_is_named_as_one(environment, tmp_path):
    for number, text in enumerate(("from verifiers import MultiTurnEnv\n", "def load_environment(): ...\n")):
        (tmp_path / f"earlier_{number}_for_tests.py").write_text(text)
        with pytest.raises(InputError, match=f"Cannot load verifiers_env:earlier_{number}") as caught:
            load_problems(f"verifiers_env:earlier_{number}_for_tests")
        assert "before 0.4, with a function load_environment" in caught.value.fix


def test_unknown_environments_and_settings_are_one_error(environment):
    for name in ("verifiers_env:no-such-environment", f"{environment}?second=2"):
        with pytest.raises(InputError, match="Cannot load verifiers_env:"):
            load_problems(name)
