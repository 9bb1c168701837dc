"""Evaluation: what a sample is, what the figures are, what the command writes, goes on with and refuses."""

import asyncio
import contextlib
import json
import math
import sqlite3

import pytest

from engine.errors import ConfigurationError, FatalEndpointError, IncompleteRunError, InputError, MissingInputError
from engine.records import Completion, Experience, Fault, Outcome, Problem, Reply, Sampling, Usage
from engine.reward_evaluator import RewardEvaluator
from grpo_training.evaluation import targets as evaluation_targets
from grpo_training.evaluation.sampling import ProblemResult, evaluate_problems, group_of
from grpo_training.evaluation.settings import as_one_value, main
from grpo_training.evaluation.tables import differences, figures, figures_json, ruled_lines
from grpo_training.serving.local_server import Engine, LocalServer
from tests.grpo_training.evaluation.test_libraries import scaffold
from tests.support.fault_server import FaultPlan
from tests.support.main_loop import World

SAMPLING = Sampling(temperature=0.7, max_tokens=50, seed=3)


def problem(name, answer="42", **meta):
    return Problem(id=name, text=f"What is the number of {name}?", answer=answer, meta=meta)


class Model:
    """Gives each problem its list of replies: an answer, a text, None for a failed call, or an exception."""

    def __init__(self, **replies):
        self.replies, self.asked = replies, []

    async def sample(self, request, sample_indices):
        self.asked.append(request)
        name = next(name for name in self.replies if f" {name}?" in request.messages[-1].content)
        await asyncio.sleep(0.02 if name == "p1" else 0)  # the first comes last
        return [self._reply(self.replies[name][index], index) for index in sample_indices]

    def _reply(self, reply, index):
        if isinstance(reply, Exception):
            raise reply
        if reply is None:
            return Reply(sample_index=index, outcome=Outcome.INFRA_FAULT, fault=Fault(kind="http_503"))
        text, finish = (scaffold(reply), "stop") if isinstance(reply, int) else (reply, "length")
        usage = Usage(prompt_tokens=10, completion_tokens=len(text), cost_usd=0.25)
        completion = Completion(text=text, finish_reason=finish, usage=usage)
        return Reply(sample_index=index, outcome=Outcome.OK, completion=completion)


async def evaluate(model, problems, samples=2, **options):
    return await evaluate_problems(
        model, "generator_1", problems, samples=samples, sampling=SAMPLING, style="compact", **options
    )


# ------------------------------------------------------------------ samples


async def test_samples_are_judged_in_the_order_of_the_problems():
    model = Model(p1=[42, 41, "no object"], p2=[42, 42, 42])
    seen = []
    first, second = await evaluate(
        model, [problem("p1"), problem("p2")], 3, judged=lambda result, samples: seen.append((result, samples))
    )
    assert (first.verdicts, second.verdicts) == ((True, False, False), (True, True, True))
    assert (first.counts, second.counts) == ((3, 1), (3, 3))
    assert [result.problem_id for result, _ in seen] == ["p1", "p2"]
    assert [sample.answer for sample in seen[0][1]] == ["42", "41", None]
    assert (first.truncated, first.unreadable, first.replies) == (1, 1, 3)
    assert first.outcomes["ok"] == 2
    assert first.cost_usd == 0.75
    assert first.prompt_tokens == 30


async def test_an_unreadable_reply_is_one_sample_and_not_asked_for_again():
    model = Model(p1=["no object", 42])
    [result] = await evaluate(model, [problem("p1")])
    assert result.verdicts == (False, True)
    assert len(model.asked) == 1


async def test_the_prompt_is_that_of_learning_with_the_lessons_that_are_given():
    model = Model(p1=[42, 42])
    await evaluate(model, [problem("p1")])
    await evaluate(model, [problem("p1")], lessons=[Experience(id="G1-001", content="Mind the unit.")])
    without, with_lesson = (request.messages[-1].content for request in model.asked)
    assert "Mind the unit." in with_lesson
    assert "Mind" not in without
    assert model.asked[0].sampling == SAMPLING


async def test_a_failed_call_leaves_the_problem_open_and_is_never_wrong():
    results = await evaluate(Model(p1=[42, None], p2=[42, 41]), [problem("p1"), problem("p2")])
    assert results[0].verdicts == (True, None)
    assert not results[0].is_complete
    assert results[0].outcomes == {"ok": 1, "infra_fault: http_503": 1}
    told = figures(results, [1])
    assert (told.problems, told.left_out) == (1, ("p1",))
    assert told.pass_at_k[1].value == 0.5


async def test_a_checker_that_cannot_be_started_leaves_the_problem_open():
    class Broken(RewardEvaluator):
        def score(self, task, problem, candidate, **options):
            from dataclasses import replace

            scored = super().score(task, problem, candidate, **options)
            return replace(scored, outcome=Outcome.INFRA_FAULT, is_correct=None)

    [result] = await evaluate(Model(p1=[42, 42]), [problem("p1")], evaluator=Broken())
    assert result.verdicts == (None, None)
    assert result.replies == 2


async def test_a_refusing_endpoint_ends_it():
    with pytest.raises(FatalEndpointError, match="no such model"):
        await evaluate(Model(p1=[FatalEndpointError("no such model")] * 2), [problem("p1")])


@pytest.mark.parametrize(
    ("meta", "group"),
    [
        ({"family": "crew"}, "crew"),
        ({"difficulty": "interview"}, "interview"),
        ({"level": 5}, "5"),
        ({"difficulty": "", "subject": "algebra"}, "algebra"),
        ({"difficulty": ["hard"]}, ""),
        ({}, ""),
    ],
)
def test_group_of_a_problem(meta, group):
    assert group_of(problem("p", **meta)) == group


# ------------------------------------------------------------------ figures


def result(name, text, group=""):
    """``+`` is right, ``-`` wrong, ``?`` open."""
    verdicts = tuple({"+": True, "-": False, "?": None}[sign] for sign in text)
    return ProblemResult(name, group, verdicts, {"ok": len(text)}, replies=len(text))


def test_figures_by_hand():
    """pass@1: 1/4, 3/4, 1, mean 2/3; pass@2: 1 - 3/6 = 1/2, 1, 1, mean 5/6. Halves: even 1, 1, 2 of 2; odd 0, 2, 2."""
    results = [
        result("a", "+---", "easy"),
        result("b", "++-+", "easy"),
        result("c", "++++", "hard"),
        result("d", "++?+"),
    ]
    told = figures(results, [2, 1, 5])
    assert {k: one.value for k, one in told.pass_at_k.items()} == {
        1: pytest.approx(2 / 3),
        2: pytest.approx(5 / 6),
    }
    assert told.mean_at_n == told.pass_at_k[1]
    assert (told.problems, told.samples, told.left_out) == (3, 4, ("d",))
    spread = math.sqrt(((1 / 4 - 2 / 3) ** 2 + (3 / 4 - 2 / 3) ** 2 + (1 / 3) ** 2) / 2 / 3)
    assert told.mean_at_n.standard_error == pytest.approx(spread)
    assert told.again.value == pytest.approx(4 / 6 - 4 / 6)
    assert {name: (one.problems, one.mean_at_n.value) for name, one in told.groups.items()} == {
        "easy": (2, 0.5),
        "hard": (1, 1.0),
    }
    assert told.cost_usd is None


def test_difference_to_the_base_is_paired_over_common_problems():
    """Of a and b: after 1 and 1/2, before 1/2 and 0: +50 points for both, so the interval is a point."""
    after = [result("a", "++"), result("b", "+-"), result("c", "++")]
    before = [result("a", "+-"), result("b", "--"), result("c", "?-"), result("e", "++")]
    told = differences(after, before, [2, 3])
    assert told.keys() == {1, 2}
    assert (told[1].value, told[1].low, told[1].clusters) == (0.5, 0.5, 2)
    assert told[2].value == pytest.approx(0.5)  # 1 - 1 and 1 - 0


def test_ruled_lines():
    told = figures([result("a", "+-" * 5), result("b", "-" * 10)], [1, 10, 100])
    assert ruled_lines(told) == [
        "=" * 50,
        "Pass@k Results:",
        "=" * 50,
        "pass@  1: 0.2500 (25.00%)",
        "pass@ 10: 0.5000 (50.00%)",
        "=" * 50,
    ]


def test_no_complete_problem_has_no_figure():
    told = figures([result("a", "?")], [1])
    assert (told.pass_at_k, told.mean_at_n, told.again, told.left_out) == ({}, None, None, ("a",))
    assert figures_json(told)["pass_at_k"] == {}
    assert figures([], [1]).truncated is None


# ------------------------------------------------------------------ the command, against a role


@pytest.mark.parametrize(
    "words",
    [
        ["--k-values", "1", "5", "10"],
        ["--k_values", "1,5,10"],
        ["--k-values", "1,5", "10"],
    ],
)
def test_lists_of_k(words):
    assert as_one_value(["--greedy", *words, "--num-samples", "3"]) == [
        "--greedy",
        f"{words[0]}=1,5,10",
        "--num-samples",
        "3",
    ]
    assert as_one_value(["--k-values", "--greedy"]) == ["--k-values", "--greedy"]


@pytest.fixture
def recorded_world(tmp_path):
    """Three problems with four recorded replies each: 1, 2 and 4 of them are right."""
    rights = {"one": 1, "two": 2, "four": 4}
    lines, rows = [], []
    for name, right in rights.items():
        text = f"How many sides has the figure of the number {name}? Answer with an integer."
        rollouts = [
            {"rollout_id": k, "scaffold": json.loads(scaffold(42 if k < right else 40)), "answer": "42"}
            for k in range(4)
        ]
        lines.append(
            {"problem_id": name, "problem_text": text, "ground_truth": "42", "rollouts": rollouts, "timestamp": "t"}
        )
        rows.append({"id": name, "problem": text, "answer": "42", "difficulty": "odd" if right == 1 else "even"})
    recorded, dataset = tmp_path / "generator_1_rollouts.jsonl", tmp_path / "figures.jsonl"
    recorded.write_text("".join(json.dumps(line) + "\n" for line in lines))
    dataset.write_text("".join(json.dumps(row) + "\n" for row in rows))

    @contextlib.contextmanager
    def world(**options):
        with World(tmp_path / "world", [recorded], copies=False, **options) as running:
            yield running

    world.dataset = dataset
    world.output = tmp_path / "out" / "results.json"
    return world


def run(world, recorded_world, *more):
    return main(
        [
            *("--role", "generator_1", "--api-config", str(world.config), "--dataset", str(recorded_world.dataset)),
            *("--num-samples", "4", "--output", str(recorded_world.output), "--max-tokens", "500", *more),
        ]
    )


def test_the_command_writes_the_known_keys_and_asks_nothing_twice(recorded_world, capsys):
    with recorded_world() as world:
        assert run(world, recorded_world, "--k-values", "1", "2", "5", "--greedy") == 0
        asked = len(world.traffic.requests)
        first = json.loads(recorded_world.output.read_text())
        assert run(world, recorded_world, "--k-values", "1", "2", "5", "--greedy") == 0
        assert len(world.traffic.requests) == asked > 0
    second = json.loads(recorded_world.output.read_text())
    # pass@1: (1/4 + 2/4 + 1) / 3; pass@2: (1/2 + 5/6 + 1) / 3
    assert first["pass_at_k"] == {"1": pytest.approx(7 / 12), "2": pytest.approx(7 / 9)}
    assert (first["num_tasks"], first["num_samples_per_task"]) == (3, 4)
    assert first["task_results"]["two"] == {"num_correct": 2, "num_total": 4, "pass_rate": 0.5}
    assert first["greedy_pass_at_1"]["value"] == 1.0  # the first recorded reply is right for all
    assert first["groups"]["odd"]["problems"] == 1
    assert first["model_path"] == "generator_1"
    assert first["test_data_path"] == str(recorded_world.dataset)
    assert (first["replies_from_journal"], second["replies_from_journal"]) == (0, 15)
    volatile = ("seconds", "timestamp", "replies_from_journal")
    assert {**first, **dict.fromkeys(volatile)} == {**second, **dict.fromkeys(volatile)}
    rows = [json.loads(line) for line in recorded_world.output.with_suffix(".samples.jsonl").read_text().splitlines()]
    assert len(rows) == 15
    assert [row["sample_idx"] for row in rows[:5]] == [0, 1, 2, 3, 0]
    assert [row["is_correct"] for row in rows[:4]] == [True, False, False, False]
    assert sum(row["draw"] == "greedy" for row in rows) == 3
    shown = capsys.readouterr().out
    assert "pass@  1: 0.5833 (58.33%)" in shown
    assert "pass@5 cannot be told from 4 samples" in shown


def test_another_configuration_is_refused_resumed_or_set_aside(recorded_world, capsys):
    with recorded_world() as world:
        run(world, recorded_world, "--temperature", "0.5")
        with pytest.raises(InputError, match=r"temperature: stored 0.5, given 0.8"):
            run(world, recorded_world)
        assert run(world, recorded_world, "--resume", "--num-samples", "2") == 0
        told = json.loads(recorded_world.output.read_text())
        assert (told["settings"]["temperature"], told["num_samples_per_task"]) == (0.5, 4)
        assert run(world, recorded_world, "--fresh") == 0
        with pytest.raises(InputError, match="exclude each other"):
            run(world, recorded_world, "--fresh", "--resume")
    assert recorded_world.output.with_name("results.json.old1").exists()
    assert json.loads(recorded_world.output.read_text())["settings"]["temperature"] == 0.8


def test_failing_calls_leave_problems_out_and_the_same_command_goes_on(recorded_world, capsys, monkeypatch):
    from engine.llm.retry import RetryPolicy

    monkeypatch.setattr(evaluation_targets, "RetryPolicy", lambda **options: RetryPolicy(attempts=1))
    plan = FaultPlan(seed=4, rate=0.5, kinds=("500",), max_consecutive_per_request=3)
    stops = []
    with recorded_world(plan=plan) as world:
        for _ in range(30):
            try:
                assert run(world, recorded_world) == 0
                break
            except IncompleteRunError as error:
                stops.append((error, json.loads(recorded_world.output.read_text())))
    assert stops
    error, told = stops[0]
    assert error.exit_code == 2
    assert error.why.startswith("Most often: infra_fault: http_500 (")
    assert told["num_tasks"] + len(told["left_out"]) == 3
    assert not set(told["left_out"]) & told["task_results"].keys()
    final = json.loads(recorded_world.output.read_text())
    assert final["pass_at_k"]["1"] == pytest.approx(7 / 12)
    assert final["outcomes"] == {"ok": 12}


def test_a_run_that_is_broken_off_leaves_nothing_half_written(recorded_world, monkeypatch):
    from grpo_training.evaluation import run as evaluation_run

    def stop(*args):
        raise KeyboardInterrupt

    with recorded_world() as world:
        with monkeypatch.context() as patched:
            patched.setattr(evaluation_run, "problem_bar", lambda *args: contextlib.nullcontext(stop))
            with pytest.raises(KeyboardInterrupt):
                run(world, recorded_world)
        left = {path.name for path in recorded_world.output.parent.iterdir()}
        assert not left & {"results.json", "results.samples.jsonl", "results.samples.jsonl.tmp"}
        with sqlite3.connect(recorded_world.output.with_suffix(".sqlite")) as journal:
            kept = journal.execute("SELECT count(*) FROM replies").fetchone()[0]
        assert kept >= 4  # those of the problem that was judged, and what else had come by then
        assert run(world, recorded_world) == 0
    assert json.loads(recorded_world.output.read_text())["replies_from_journal"] == kept


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["--model-path", "nowhere"], MissingInputError, "No model in nowhere"),
        (["--dataset", "nowhere.jsonl"], MissingInputError, "Dataset file not found"),
        (["--dataset", "nosuch"], InputError, "Unknown dataset"),
        (["--experiences", "nowhere.json"], MissingInputError, "No library at nowhere.json"),
        (["--role", "generator_1", "--model-path", "x"], InputError, "excludes --model-path"),
        (["--role", "generator_1", "--api-config", "nowhere.json"], MissingInputError, "API configuration not found"),
        (["--k-values", "0"], InputError, "--k-values"),
        (["--temperature", "0"], InputError, "--temperature"),
    ],
)
def test_what_is_missing_or_wrong_is_said(arguments, error, message, tmp_path):
    with pytest.raises(error, match=message) as raised:
        main([*arguments, "--output", str(tmp_path / "results.json")])
    assert raised.value.exit_code == 1
    assert not (tmp_path / "results.json").exists()


def test_a_folder_is_no_place_for_figures(tmp_path):
    for more in ([], ["--fresh"]):
        with pytest.raises(InputError, match="is a folder"):
            main(["--output", str(tmp_path), *more])
    assert tmp_path.is_dir()


# ------------------------------------------------------------------ the command, with folders


@pytest.fixture
def served(recorded_world, tmp_path, monkeypatch):
    """Two model folders; the recorded server stands for theirs. Notes what was started."""
    starts = []
    for name in ("tuned", "base"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps({"name": name}))
    with recorded_world() as world:

        @contextlib.contextmanager
        def stand_in(model, *, engine, adapter, temperature, top_p, log):
            starts.append((model.name, temperature, top_p))
            yield LocalServer((world.base_url,), "generator_1", ("response_format",), lambda: False)

        monkeypatch.setattr(evaluation_targets, "local_server", stand_in)
        yield starts, tmp_path, recorded_world


def start(served, *more):
    _, folder, recorded_world = served
    return main(
        [
            *("--model-path", str(folder / "tuned"), "--base-model", str(folder / "base"), "--num-samples", "4"),
            *("--dataset", str(recorded_world.dataset), "--output", str(recorded_world.output), *more),
        ]
    )


@pytest.mark.parametrize(
    ("one_sampling", "expected"),
    [
        (True, [("tuned", 0.8, 0.95), ("tuned", 0.0, None), ("base", 0.8, 0.95), ("base", 0.0, None)]),
        (False, [("tuned", 0.8, 0.95), ("base", 0.8, 0.95)]),
    ],
)
def test_greedy_samples_need_a_server_of_their_own_where_it_knows_one_temperature(
    served, monkeypatch, capsys, one_sampling, expected
):
    engine = Engine("some", has_one_sampling=one_sampling)
    monkeypatch.setattr(evaluation_targets, "choose_engine", lambda name: engine)
    assert start(served, "--greedy") == 0
    assert served[0] == expected
    told = json.loads(served[2].output.read_text())
    assert told["base"]["pass_at_k"]["1"] == pytest.approx(7 / 12)
    assert told["difference_to_base"]["sampled"]["1"]["value"] == 0.0  # the stand-in answers alike for both
    assert told["difference_to_base"]["greedy"]["1"]["clusters"] == 3
    assert "model minus base, paired" in capsys.readouterr().out


def test_an_adapter_given_as_a_model_finds_its_model(served, monkeypatch):
    starts, folder, _ = served
    monkeypatch.setattr(evaluation_targets, "choose_engine", lambda name: Engine("some"))
    checkpoint = folder / "checkpoint-10"
    checkpoint.mkdir()
    (checkpoint / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(folder / "tuned")}))
    assert start(served, "--model-path", str(checkpoint)) == 0
    assert starts[0][0] == "tuned"
    (checkpoint / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "some/hub-name"}))
    with pytest.raises(MissingInputError, match="is an adapter, and the model that it names is not"):
        start(served, "--model-path", str(checkpoint), "--fresh")
    (checkpoint / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(folder / "base")}))
    with pytest.raises(ConfigurationError, match="is no adapter of"):
        start(served, "--adapter", str(checkpoint), "--fresh")
