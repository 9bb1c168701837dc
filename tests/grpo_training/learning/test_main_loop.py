"""The main job from end to end: recorded replies of a real model over a real connection."""

import asyncio
import functools
import json
import re
import threading
import time

import pytest
from aiohttp import web

from engine.errors import FatalEndpointError, IncompleteRunError, InputError, LockHeldError, MissingInputError
from engine.experience.library import ExperienceLibrary
from engine.llm.retry import RetryPolicy
from engine.records import Outcome
from grpo_training import critic
from grpo_training.runs import folder as run_folders
from grpo_training.runs.run import load_manifest
from tests.support.fault_server import FaultPlan, chat_app, serve_in_thread
from tests.support.main_loop import World, fusions_of, groups_of, normalised

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch):
    quick = functools.partial(RetryPolicy, first_wait_s=0.01, max_wait_s=0.05)
    monkeypatch.setattr("grpo_training.serve.endpoints.RetryPolicy", quick)


@pytest.fixture
def files(recorded):
    return list(recorded.values())


EXACTLY_TWO = ("--window", 2, "--tau", 0.01)
"""The default of 12 groups; given, it does not grow on a busy machine."""


def run_all(world, aime2024, *more):
    for number in (1, 2, 3):
        assert world.generate(number, aime2024, *EXACTLY_TWO, *more) == 0
    assert world.criticise(*EXACTLY_TWO) == 0


@pytest.fixture(scope="module")
def undisturbed(recorded, aime2024, tmp_path_factory):
    """The caches and libraries of all learners after a run on 12 problems in which nothing went wrong."""
    with World(tmp_path_factory.mktemp("undisturbed"), list(recorded.values())) as world:
        run_all(world, aime2024, "--max-problems", 12)
    return normalised(world)


def test_generators_one_and_two_and_the_critic_on_real_replies(files, aime2024, tmp_path, capsys):
    with World(tmp_path, files, copies=False) as world:
        assert world.generate(1, aime2024, "--tau", 0.01) == 0
        assert world.generate(2, aime2024, "--tau", 0.01) == 0
        assert world.criticise("--generators", "1,2", "--tau", 0.01) == 0
    for number in (1, 2):
        groups = groups_of(world, number)
        assert [group["problem_id"] for group in groups] == [f"aime2024_{n:03}" for n in range(1, 31)]
        rollouts = [rollout for group in groups for rollout in group["rollouts"]]
        assert len(rollouts) == 90
        assert {rollout["outcome"] for rollout in rollouts} <= {"ok", "model_fault"}
        assert all(rollout["r_total"] is not None for rollout in rollouts)
        assert all(group["policy"]["model"] == f"generator_{number}" for group in groups)
    fusions = fusions_of(world)
    assert len({(fusion["problem_id"], fusion["generator_id"]) for fusion in fusions}) == len(fusions) == 60
    out = capsys.readouterr().out
    assert "generator_1: μ=" in out
    assert "→ Extract (σ>τ)" in out
    assert re.search(r"✅ Saved: G1-\d+ When a ", out)
    used = sum(any(rollout["experience_ids"] for rollout in group["rollouts"]) for group in groups_of(world, 1))
    assert used > 15  # of a short run most groups have experiences
    assert f"experiences were in the prompts of {used} of 30 groups" in out


def test_failing_calls_change_nothing(files, aime2024, tmp_path, undisturbed):
    plan = FaultPlan(seed=1, rate=0.3, stall_s=1.5)
    with World(tmp_path, files, plan=plan) as world:
        world.write_config(world.base_url, timeout_s=1)
        run_all(world, aime2024, "--max-problems", 12)
    assert sum(plan.injected.values()) >= 30
    assert len(plan.injected) >= 8
    assert normalised(world) == undisturbed
    for learner in ("generator_1", "generator_2", "generator_3", "critic"):
        assert json.loads((world.experiences / f"{learner}_experiences.json").read_text())


def test_a_group_without_replies_stays_open_and_the_same_command_completes_it(files, aime2024, tmp_path, undisturbed):
    """A run stops while nothing is answered; later it goes on past the problems that alone fail, and ends with 0."""
    plan = FaultPlan(seed=3, rate=1.0, kinds=("500",), max_consecutive_per_request=4)
    open_problems, stops = [None], []
    with World(tmp_path, files, plan=plan) as world:
        for _ in range(60):
            try:
                assert world.generate(1, aime2024, "--max-problems", 12, "--attempts", 2, *EXACTLY_TWO) == 0
            except IncompleteRunError as error:
                stops.append(error)
                continue
            open_problems = load_manifest(world.cache / "generator_1_run.json").open
            if not open_problems:
                break
    assert stops
    assert not open_problems
    assert all(error.exit_code == 2 and "Stopped: aime2024_" in str(error) for error in stops)
    groups = groups_of(world, 1)
    ids = re.findall(r'"problem_id":"(\w+)"', undisturbed["generator_1_rollouts.jsonl"])
    assert sorted(group["problem_id"] for group in groups) == sorted(ids)
    assert all(rollout.get("outcome") != Outcome.INFRA_FAULT for group in groups for rollout in group["rollouts"])


def test_the_order_of_replies_does_not_matter(files, aime2024, tmp_path, undisturbed):
    with World(tmp_path, files, seed=1, longest_s=0.15) as uneven:
        run_all(uneven, aime2024, "--max-problems", 12)
    assert normalised(uneven) == undisturbed


class FirstProblemWaits:
    """A server that holds the answers of one problem until it is told to send them."""

    def __init__(self, text):
        self._text, self.may_answer = text, threading.Event()

    def middleware(self):
        @web.middleware
        async def hold(request, handler):
            if request.method == "POST" and self._text in json.dumps(await request.json(), ensure_ascii=False):
                while not self.may_answer.is_set():  # noqa: ASYNC110 - set by another thread
                    await asyncio.sleep(0.02)
            return await handler(request)

        return hold


TOLD_SOON = """
import sys
from grpo_training.cli import progress
from grpo_training.cli.entry import run_command
from grpo_training.generator1 import main
progress._TOLD_FROM_S = 1.0
run_command(lambda: main(sys.argv[1:]))
"""
"""Generator 1, which names what is waited for after one second instead of ten."""


def test_one_slow_problem_keeps_no_other_one_from_file_and_display(files, aime2024, tmp_path):
    first = json.loads(aime2024.read_text().splitlines()[0])["problem"]
    barrier = FirstProblemWaits(json.dumps(first, ensure_ascii=False)[1:200])
    flags = ("--max-problems", 12, "--window", 8, "--tau", 0.01)
    with World(tmp_path / "slow", files, barrier=barrier) as world:
        world.write_config(world.base_url, timeout_s=60)
        process = world.fork(TOLD_SOON, "--dataset", aime2024, *flags)
        deadline = time.monotonic() + 60
        while len(groups_of(world, 1)) < 7 and time.monotonic() < deadline:
            time.sleep(0.05)
        until_told = []
        for line in process.stdout:
            until_told.append(line)
            if line.startswith("waiting for"):
                break
        assert [group["problem_id"] for group in groups_of(world, 1)] == [f"aime2024_{n:03}" for n in range(2, 9)]
        assert (
            not (world.experiences / "generator_1_experiences.json").exists()
            or "G1-001" not in (world.experiences / "generator_1_experiences.json").read_text()
        )
        barrier.may_answer.set()
        output, _ = process.communicate(timeout=60)
    output = "".join(until_told) + output
    assert process.returncode == 0, output
    scored = re.findall(r"^\[(\d+)/12\] generator_1: .*\[(\w+), \d of 3 right\]$", output, re.MULTILINE)
    assert [int(number) for number, _ in scored] == list(range(1, 13))
    assert sorted(name for _, name in scored[:7]) == [f"aime2024_{n:03}" for n in range(2, 9)]
    assert re.search(r"^waiting for aime2024_001, \d+ s$", output, re.MULTILINE)
    assert output.index("waiting for") < output.index("✅ Saved: G1-001")
    with World(tmp_path / "undisturbed", files) as undisturbed:
        assert undisturbed.generate(1, aime2024, *flags) == 0
    assert normalised(world) == normalised(undisturbed)


def test_the_same_command_again_asks_nothing(files, aime2024, tmp_path):
    with World(tmp_path, files) as world:
        run_all(world, aime2024, "--max-problems", 6)
        before, asked = normalised(world), len(world.traffic.requests)
        run_all(world, aime2024, "--max-problems", 6)
        assert normalised(world) == before
        assert len(world.traffic.requests) == asked
        assert world.generate(1, aime2024, *EXACTLY_TWO, "--max-problems", 8) == 0  # more problems extend the run
    assert len(groups_of(world, 1)) == 8


@pytest.mark.parametrize("learner", ["generator", "critic"])
def test_a_complete_run_is_read_again_only_after_a_change(files, aime2024, tmp_path, monkeypatch, capsys, learner):
    opened = []
    real = ExperienceLibrary.__init__

    def open_library(self, *args, **kwargs):
        opened.append(args[0])
        real(self, *args, **kwargs)

    monkeypatch.setattr("engine.experience.library.ExperienceLibrary.__init__", open_library)
    with World(tmp_path, files) as world:

        def run():
            """What the command prints, without the lines about this start; how often it read the library."""
            opened.clear()
            capsys.readouterr()
            assert (generate() if learner == "generator" else critic()) == 0
            lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
            kept = ("right answers", "experiences saved", "learning", "library", "r_", "next")
            return [line for line in lines if line.startswith(kept)], len(opened)

        def generate():
            return world.generate(1, aime2024, "--max-problems", 3, "--cases", 0, "--verbose")

        def critic():
            return world.criticise("--generators", "1", "--learn", "add", "--verbose")

        if learner == "critic":
            assert world.generate(1, aime2024, "--max-problems", 3) == 0
        first, reads = run()
        assert (reads, len(first) > 5) == (1, True)
        assert run() == (first, 0)
        name = "generator_1" if learner == "generator" else "critic"
        results = world.cache / ("generator_1_rollouts.jsonl" if learner == "generator" else "critic_results.jsonl")
        results.write_bytes(results.read_bytes())  # the same content, written again
        assert run() == (first, 1)
        assert run() == (first, 0)
        library = world.experiences / f"{name}_experiences.json"
        library.write_text("[ ]\n")
        edited, reads = run()
        assert reads == 1
        assert any(line.startswith("library") and "0 experiences" in line for line in edited)
        manifest = world.cache / f"{name}_run.json"
        content = json.loads(manifest.read_text())
        assert content.pop("report")["has_learned"] is False
        manifest.write_text(json.dumps(content))  # as a run ends that left a problem open
        assert run() == (edited, 1)
        assert run() == (edited, 0)
        if learner == "critic":
            source = world.cache / "generator_1_rollouts.jsonl"
            source.write_bytes(source.read_bytes())
            assert run()[1] == 1


def test_another_configuration_is_refused_with_resume_and_fresh_as_choices(files, aime2024, tmp_path):
    with World(tmp_path, files) as world:
        world.generate(1, aime2024, "--max-problems", 3)
        with pytest.raises(InputError, match="tau: stored 0.05, given 0.2\n.*--resume.*--fresh"):
            world.generate(1, aime2024, "--max-problems", 3, "--tau", 0.2)
        assert world.generate(1, "physics", "--max-problems", 4, "--prompts", "compact", "--resume") == 0
        assert len(groups_of(world, 1)) == 4
        assert world.generate(1, aime2024, "--max-problems", 3, "--tau", 0.2, "--fresh") == 0
        assert len(groups_of(world, 1)) == 3
        assert (world.cache / "generator_1_rollouts.jsonl.old1").exists()


def test_a_run_continues_where_the_same_model_is_named_by_flags_in_place_of_the_file(files, aime2024, tmp_path):
    with World(tmp_path, files) as world:
        world.generate(1, aime2024, "--max-problems", 1)
        flags = ("--base-url", world.base_url, "--model", "generator_1")
        assert world.generate(1, aime2024, "--max-problems", 2, *flags) == 0
        assert world.generate(1, aime2024, "--max-problems", 3) == 0
        assert len(groups_of(world, 1)) == 3


def test_extra_request_fields_belong_to_the_configuration(files, aime2024, tmp_path):
    with World(tmp_path, files) as world:
        world.generate(1, aime2024, "--max-problems", 1)
        world.write_config(world.base_url, extra_body={"top_k": 20})
        with pytest.raises(InputError, match=r"extra_body of generator_1: stored nothing, given {.top_k.: 20}"):
            world.generate(1, aime2024, "--max-problems", 2)
        assert world.generate(1, aime2024, "--max-problems", 1, "--fresh") == 0
        assert world.generate(1, aime2024, "--max-problems", 2) == 0


def test_epochs_draw_new_samples_in_a_seeded_order(files, aime2024, tmp_path):
    with World(tmp_path, files) as world:
        world.generate(1, aime2024, "--max-problems", 6, "--epochs", 2, "--seed", 7)
    groups = groups_of(world, 1)
    first, second = ([group["problem_id"] for group in groups if group["epoch"] == epoch] for epoch in (0, 1))
    assert sorted(first) == sorted(second)
    assert first != second
    keys = [rollout["completion"]["request_key"] for group in groups for rollout in group["rollouts"]]
    assert len(set(keys)) == len(keys) == 36


def test_a_missing_cache_names_the_commands_to_run(files, tmp_path):
    with World(tmp_path, files) as world, pytest.raises(MissingInputError) as caught:
        world.criticise()
    assert caught.value.what.startswith("Rollouts file not found: ")
    assert "python -m grpo_training.generator1" in caught.value.fix


@pytest.mark.parametrize("folder", ["nothing", "other files"])
def test_a_critic_before_any_run_says_that_the_rollouts_are_missing(tmp_path, monkeypatch, folder):
    monkeypatch.setattr(run_folders, "WORKING_DIR", tmp_path)
    if folder == "other files":
        (tmp_path / "runs/a/cache").mkdir(parents=True)
    with pytest.raises(MissingInputError, match="^Rollouts file not found: there is no run in ") as caught:
        critic.main(["--base-url", "http://localhost:1/v1", "--model", "m"])
    assert "python -m grpo_training.generator1" in caught.value.fix


def test_three_generators_in_parallel_and_then_the_critic(files, aime2024, tmp_path, undisturbed):
    with World(tmp_path, files, seed=5, longest_s=0.1) as together:
        flags = ("--dataset", aime2024, "--max-problems", 12, *EXACTLY_TWO)
        processes = [together.fork(f"generator{n}", *flags) for n in (1, 2, 3)]
        outputs = [process.communicate(timeout=120)[0] for process in processes]
        processes.append(together.fork("critic", "--tau", 0.01))
        outputs.append(processes[-1].communicate(timeout=120)[0])
    assert [process.returncode for process in processes] == [0] * 4, outputs
    assert window_of_critic(together) == 2  # 12 groups
    assert normalised(together) == undisturbed


def window_of_critic(world):
    return json.loads((world.cache / "critic_run.json").read_text())["configuration"]["settings"]["window"]


def test_the_critic_has_the_window_of_its_generators_and_keeps_it(files, aime2024, tmp_path):
    """8 groups: the window is 2. A critic of two of the generators, which continue to 24 problems later: 3."""
    flags = ("--generators", "1,2")
    with World(tmp_path, files) as world:
        for number in (1, 2):
            world.generate(number, aime2024, "--max-problems", 8)
            manifest = json.loads((world.cache / f"generator_{number}_run.json").read_text())
            assert manifest["configuration"]["settings"]["window"] == 2
        world.criticise(*flags)
        assert window_of_critic(world) == 2
        for number in (1, 2):
            world.generate(number, aime2024, "--max-problems", 24)
        world.criticise(*flags)
        assert (window_of_critic(world), len(fusions_of(world))) == (2, 48)
        world.criticise(*flags, "--fresh")
        assert (window_of_critic(world), len(fusions_of(world))) == (3, 48)


def test_two_of_the_same_generator(files, aime2024, tmp_path):
    from engine.storage.rollout_store import RolloutStore

    with World(tmp_path, files) as world:
        with (
            RolloutStore(world.cache / "generator_1_rollouts.jsonl").hold(),
            pytest.raises(LockHeldError, match="held by process"),
        ):
            world.generate(1, aime2024)
        assert world.generate(1, aime2024, "--max-problems", 1) == 0


@pytest.mark.parametrize("refusal", ["key", "model"])
def test_a_refusing_endpoint_stops_all_three_at_once(files, aime2024, tmp_path, refusal):
    known = {"api_key": "right"} if refusal == "key" else {"models": ["another"]}
    with World(tmp_path, files) as world, serve_in_thread(chat_app(**known)) as base_url:
        world.write_config(base_url, api_key="wrong-secret-key")
        started = time.monotonic()
        processes = [world.fork(f"generator{n}", "--dataset", aime2024) for n in (1, 2, 3)]
        outputs = [process.communicate(timeout=60)[0] for process in processes]
        took = time.monotonic() - started
    assert [process.returncode for process in processes] == [2, 2, 2], outputs
    assert all("wrong-secret" not in output for output in outputs)
    assert all("generator_" in output and str(world.config) in output for output in outputs)
    assert not list(world.cache.glob("*rollouts.jsonl")) or not any(groups_of(world, n) for n in (1, 2, 3))
    assert took < 60


def test_a_refused_key_is_not_tried_again_for_minutes(files, aime2024, tmp_path):
    with World(tmp_path, files) as world, serve_in_thread(chat_app(api_key="right", latency_s=0.05)) as base_url:
        world.write_config(base_url, api_key="wrong")
        started = time.monotonic()
        with pytest.raises(FatalEndpointError):
            world.generate(1, aime2024, "--window", 30)
        assert time.monotonic() - started < 20


def test_a_budget_stops_the_run_before_it_is_passed(files, aime2024, tmp_path):
    from engine.errors import BudgetExceededError

    with World(tmp_path, files) as world:
        with pytest.raises(InputError, match="needs --max-tokens"):
            world.generate(1, aime2024, "--budget-tokens", 30_000)
        with pytest.raises(BudgetExceededError):
            world.generate(1, aime2024, "--budget-tokens", 30_000, "--max-tokens", 2000)
        spent = 0
        for group in groups_of(world, 1):
            for rollout in group["rollouts"]:
                usage = rollout["completion"]["usage"]
                spent += usage["prompt_tokens"] + usage["completion_tokens"]
        assert 0 < spent <= 30_000
        assert world.generate(1, aime2024, "--max-tokens", 2000) == 0  # with a higher budget the run continues


def test_after_ctrl_c_the_same_command_continues(files, aime2024, tmp_path):
    import signal

    with World(tmp_path, files, latency_s=0.3) as world:
        process = world.fork("generator1", "--dataset", aime2024, "--max-problems", 8, "--window", 2)
        deadline = time.monotonic() + 60
        while len(world.traffic.requests) < 6 and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=30)
        assert process.returncode == 130, output
        assert "Interrupted. Stored results are kept" in output
        assert "Traceback" not in output
        done = len(groups_of(world, 1))
        assert world.generate(1, aime2024, "--max-problems", 8, "--window", 2) == 0
        assert done < len(groups_of(world, 1)) == 8
        answered = [entry for entry in world.traffic.requests if entry["left"] is not None]
        assert max(world.traffic.counts().values()) <= 2
        assert len(answered) - len(world.traffic.counts()) <= 4  # those in flight


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dataset", "aime2042"], "Unknown dataset"),
        (["--rolouts", "3"], "Did you mean --rollouts"),
        (["--config", "none.yaml"], "Config file not found"),
        (["--dataset", "physics", "--prompts", "fancy"], "Unknown prompt style 'fancy'"),
        (["--dataset", "physics", "--resume", "--fresh"], "exclude each other"),
    ],
)
def test_bad_input_is_one_clear_error(files, tmp_path, arguments, message):
    with World(tmp_path, files) as world:
        process = world.fork("generator1", *arguments)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 1, output
    assert message in output
    assert "Traceback" not in output
    assert world.traffic.requests == []


def test_a_missing_role_names_both_ways_to_configure_it(files, tmp_path):
    with World(tmp_path, files) as world:
        world.config.write_text("{}")
        process = world.fork("generator2", "--dataset", "physics")
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "API key not found for generator_2" in output
    assert "api_key_env" in output
    assert str(world.config) in output


def opinions(body, index):
    """A judge that returns a score, or an unreadable text if the scaffold has many rules."""
    return "it depends" if body["messages"][1]["content"].count('"effect"') > 4 else '{"score": 0.25, "reason": "thin"}'


def test_a_judge_is_part_of_r_logic_and_an_unreadable_opinion_is_left_out(files, aime2024, tmp_path):
    with World(tmp_path / "without", files) as world:
        world.generate(2, aime2024, "--max-problems", 6)
    with World(tmp_path / "with", files) as judged, serve_in_thread(chat_app(opinions)) as judge_url:
        roles = json.loads(judged.config.read_text())
        roles["reward_evaluator"] = {"api_key": "EMPTY", "base_url": judge_url, "model": "judge"}
        judged.config.write_text(json.dumps(roles))
        judged.generate(2, aime2024, "--max-problems", 6)
    pairs = [
        (plain, with_judge)
        for before, after in zip(groups_of(world, 2), groups_of(judged, 2), strict=True)
        for plain, with_judge in zip(before["rollouts"], after["rollouts"], strict=True)
    ]
    heard = [(plain, other) for plain, other in pairs if "judge" in other["reward_detail"]]
    unheard = [(plain, other) for plain, other in pairs if "judge" not in other["reward_detail"]]
    assert heard
    assert unheard
    weights = [1.0 if other["is_correct"] else 0.4 for _, other in heard]
    for (plain, other), weight in zip(heard, weights, strict=True):
        assert other["r_logic"] == pytest.approx(0.7 * plain["r_logic"] + 0.3 * 0.25 * weight, abs=1e-4)
    assert all(other["r_logic"] == plain["r_logic"] for plain, other in unheard)


def test_an_unreachable_judge_leaves_the_group_open(files, aime2024, tmp_path):
    plan = FaultPlan(seed=1, rate=1.0, kinds=("503",), max_consecutive_per_request=10**6)
    with World(tmp_path, files) as world, serve_in_thread(chat_app(opinions, faults=plan)) as judge_url:
        roles = json.loads(world.config.read_text())
        roles["reward_evaluator"] = {"api_key": "EMPTY", "base_url": judge_url, "model": "judge"}
        world.config.write_text(json.dumps(roles))
        with pytest.raises(IncompleteRunError, match=f"{judge_url} reports HTTP 503: "):
            world.generate(2, aime2024, "--max-problems", 3, "--attempts", 1)
        assert groups_of(world, 2) == []


def test_prices_are_added_up(files, aime2024, tmp_path, capsys):
    with World(tmp_path, files) as world:
        world.write_config(world.base_url, price_in=1.0, price_out=10.0)
        world.generate(1, aime2024, "--max-problems", 2)
    usages = [rollout["completion"]["usage"] for group in groups_of(world, 1) for rollout in group["rollouts"]]
    cost = sum(usage["prompt_tokens"] * 1e-6 + usage["completion_tokens"] * 1e-5 for usage in usages)
    assert sum(usage["cost_usd"] for usage in usages) == pytest.approx(cost)
    assert f"${cost:.4f}" in capsys.readouterr().out


def test_three_generators_on_one_model_draw_their_own_samples(aime2024, tmp_path, files):
    def answer(body, index):
        return json.dumps({"final_answer": str(index)})

    with World(tmp_path, files) as world, serve_in_thread(chat_app(answer)) as base_url:
        world.write_config(base_url)
        roles = json.loads(world.config.read_text())
        for role in roles:
            roles[role]["model"] = "the same"
        world.config.write_text(json.dumps(roles))
        for number in (1, 2, 3):
            world.generate(number, aime2024, "--max-problems", 2, "--epochs", 2)
    keys = [
        rollout["completion"]["request_key"]
        for number in (1, 2, 3)
        for group in groups_of(world, number)
        for rollout in group["rollouts"]
    ]
    assert len(keys) == len(set(keys)) == 3 * 2 * 2 * 3


def test_a_second_cache_extends_the_same_library(files, aime2024, tmp_path):
    with World(tmp_path, files) as world:
        world.generate(2, aime2024, "--max-problems", 10)
        first = (world.experiences / "generator_2_experiences.ops.jsonl").read_text().count('"event":"step"')
        world.cache = tmp_path / "another"
        world.generate(2, aime2024, "--max-problems", 10)
        both = (world.experiences / "generator_2_experiences.ops.jsonl").read_text().count('"event":"step"')
    assert (first, both) == (10, 20)
    assert groups_of(world, 2)[0]["rollouts"][0]["experience_ids"]  # experiences of the first cache's run


def test_stored_fusions_of_other_rollouts_are_refused(files, aime2024, tmp_path):
    with World(tmp_path, files) as world:
        for number in (1, 2):
            world.generate(number, aime2024, "--max-problems", 3)
        assert world.criticise("--generators", "1,2") == 0
        world.generate(2, aime2024, "--max-problems", 3, "--rollouts", 2, "--fresh")
        with pytest.raises(InputError, match="other rollouts of generator_2"):
            world.criticise("--generators", "1,2")
        before = len(fusions_of(world))
        assert world.criticise("--generators", "1,2", "--fresh") == 0
        assert len(fusions_of(world)) == before == 6


def test_a_run_whose_problems_were_replaced_is_refused(files, aime2024, tmp_path):
    lines = aime2024.read_text().splitlines()
    dataset = tmp_path / "mine.jsonl"
    with World(tmp_path / "run", files) as world:
        dataset.write_text("\n".join(lines[:4]))
        assert world.generate(1, dataset) == 0
        dataset.write_text("\n".join(lines[4:8]))
        with pytest.raises(InputError, match="was aime2024_001, and is aime2024_005 now"):
            world.generate(1, dataset)
        assert world.generate(1, dataset, "--fresh") == 0


def test_generators_without_a_common_problem_cannot_be_fused(files, aime2024, tmp_path):
    lines = aime2024.read_text().splitlines()
    with World(tmp_path, files) as world:
        for number in (1, 2):
            dataset = tmp_path / f"part{number}.jsonl"
            dataset.write_text("\n".join(lines[4 * number : 4 * number + 4]))
            world.generate(number, dataset)
        with pytest.raises(InputError, match="no problem that generator_1, generator_2 have all answered"):
            world.criticise("--generators", "1,2")


def test_fresh_renames_nothing_if_the_input_is_bad(files, aime2024, tmp_path):
    with World(tmp_path, files) as world:
        world.generate(1, aime2024, "--max-problems", 2)
        with pytest.raises(InputError, match="Unknown dataset"):
            world.generate(1, "aime2042", "--fresh")
        assert len(groups_of(world, 1)) == 2


def test_a_budget_in_usd_needs_the_price_of_every_role(files, aime2024, tmp_path):
    from engine.errors import ConfigurationError

    with World(tmp_path, files) as world:
        world.write_config(world.base_url, price_in=1.0, price_out=1.0)
        roles = json.loads(world.config.read_text())
        roles["analyst"] = {"api_key": "EMPTY", "base_url": world.base_url, "model": "analyst"}
        world.config.write_text(json.dumps(roles))
        with pytest.raises(ConfigurationError, match="analyst has none"):
            world.generate(1, aime2024, "--budget-usd", 1, "--max-tokens", 100)
        assert world.traffic.requests == []


def blocked(world, kind):
    """Make a file or directory of a run unusable."""
    if kind == "cache below a file":
        world.cache = world.directory / "file" / "cache"
        (world.directory / "file").write_text("")
    elif kind == "rollouts are a folder":
        (world.cache / "generator_1_rollouts.jsonl").mkdir(parents=True)
    elif kind == "manifest is a folder":
        (world.cache / "generator_1_run.json").mkdir(parents=True)
    elif kind == "library is a folder":
        (world.experiences / "generator_1_experiences.json").mkdir(parents=True)
    elif kind == "config is a folder":
        world.config.unlink()
        world.config.mkdir()
    elif kind == "config below a file":
        world.config = world.directory / "keys" / "api_config.json" / "x.json"


@pytest.mark.parametrize(
    "kind",
    [
        *("cache below a file", "rollouts are a folder", "manifest is a folder"),
        *("library is a folder", "config is a folder", "config below a file"),
    ],
)
def test_an_unusable_path_is_one_clear_error(files, aime2024, tmp_path, kind):
    with World(tmp_path, files) as world:
        blocked(world, kind)
        process = world.fork("generator1", "--dataset", aime2024)
        output, _ = process.communicate(timeout=60)
    assert process.returncode in (1, 2)
    assert "Traceback" not in output
    assert "✗ " in output


def test_a_closed_output_or_a_limited_encoding_does_not_stop_a_run(files, aime2024, tmp_path):
    with World(tmp_path, files) as world:
        process = world.fork("generator1", "--dataset", aime2024, "--max-problems", 12)
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 0
        assert len(groups_of(world, 1)) == 12
        process = world.start("generator2", "--dataset", aime2024, "--max-problems", 2, PYTHONIOENCODING="latin-1")
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
