"""The command from its flags to its files: what it writes, resumes and refuses."""

import contextlib
import json
import re
import sqlite3
import sys

import pytest

from engine.errors import BudgetExceededError, ConfigurationError, IncompleteRunError, InputError, MissingInputError
from engine.llm.retry import RetryPolicy
from grpo_training.cli import settings as command_settings
from grpo_training.cli.parsing import parse_settings
from grpo_training.cli.settings import POCKET_MODEL, shown_path
from grpo_training.evaluate import models
from grpo_training.evaluate import run as evaluation_run
from grpo_training.evaluate.__main__ import main
from grpo_training.evaluate.run import evaluate, subject_line
from grpo_training.evaluate.settings import EvaluateSettings
from grpo_training.runs import folder as run_folders
from grpo_training.serve.engines import Engine
from grpo_training.serve.local_server import LocalServer
from tests.support.fault_server import FaultPlan, chat_app, serve_in_thread
from tests.support.main_loop import World
from tests.support.planted_answers import PlantedServer
from tests.support.scaffolds import scaffold_reply
from tests.support.table import table


@pytest.fixture
def recorded_world(tmp_path):
    """Three problems with four recorded replies each: 1, 2 and 4 of them are right."""
    rights = {"one": 1, "two": 2, "four": 4}
    lines, rows = [], []
    for name, right in rights.items():
        text = f"How many sides has the figure of the number {name}? Answer with an integer."
        rollouts = [
            {"rollout_id": k, "scaffold": json.loads(scaffold_reply(42 if k < right else 40)), "answer": "42"}
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


def test_the_command_writes_the_known_keys_and_repeats_no_request(recorded_world, capsys):
    with recorded_world() as world:
        assert run(world, recorded_world, "--k-values", "1", "2", "5") == 0
        asked = len(world.traffic.requests)
        first = json.loads(recorded_world.output.read_text())
        assert run(world, recorded_world, "--k-values", "1", "2", "5") == 0
        assert len(world.traffic.requests) == asked > 0
    second = json.loads(recorded_world.output.read_text())
    # pass@1: (1/4 + 2/4 + 1) / 3; pass@2: (1/2 + 5/6 + 1) / 3
    assert first["pass_at_k"] == {"1": pytest.approx(7 / 12), "2": pytest.approx(7 / 9)}
    assert (first["num_tasks"], first["num_samples_per_task"]) == (3, 4)
    assert first["task_results"]["two"] == {"num_correct": 2, "num_total": 4, "pass_rate": 0.5}
    assert first["model_path"] == "generator_1"
    assert first["test_data_path"] == str(recorded_world.dataset)
    assert (first["replies_from_journal"], second["replies_from_journal"]) == (0, 12)
    volatile = ("seconds", "timestamp", "replies_from_journal")
    assert {**first, **dict.fromkeys(volatile)} == {**second, **dict.fromkeys(volatile)}
    rows = [json.loads(line) for line in recorded_world.output.with_suffix(".samples.jsonl").read_text().splitlines()]
    assert len(rows) == 12
    assert [row["sample_idx"] for row in rows[:5]] == [0, 1, 2, 3, 0]
    assert [row["is_correct"] for row in rows[:4]] == [True, False, False, False]
    shown = capsys.readouterr().out
    assert "pass@  1: 0.5833 (58.33%)" in shown
    assert "pass@5 cannot be estimated from 4 samples" in shown


def test_the_files_are_named_as_a_person_would_type_them(recorded_world, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command_settings, "WORKING_DIR", tmp_path)
    with recorded_world() as world:
        assert run(world, recorded_world) == 0
    shown = capsys.readouterr().out
    assert "Figures: out/results.json\n" in shown
    assert "Samples: out/results.samples.jsonl\n" in shown


def test_another_configuration_is_refused_resumed_or_set_aside(recorded_world, capsys):
    with recorded_world() as world:
        run(world, recorded_world, "--temperature", "0.5")
        with pytest.raises(InputError, match=r"temperature: stored 0.5, given 0.8") as refused:
            run(world, recorded_world)
        assert refused.value.fix.startswith("Pass --output FILE to keep both")
        assert run(world, recorded_world, "--resume", "--num-samples", "2") == 0
        output = json.loads(recorded_world.output.read_text())
        assert (output["settings"]["temperature"], output["num_samples_per_task"]) == (0.5, 4)
        assert run(world, recorded_world, "--fresh") == 0
        with pytest.raises(InputError, match="exclude each other"):
            run(world, recorded_world, "--fresh", "--resume")
    assert recorded_world.output.with_name("results.json.old1").exists()
    assert json.loads(recorded_world.output.read_text())["settings"]["temperature"] == 0.8


def test_failing_calls_leave_problems_out_until_the_command_is_repeated(recorded_world, capsys, monkeypatch):
    monkeypatch.setattr(models, "RetryPolicy", lambda **options: RetryPolicy(attempts=1))
    plan = FaultPlan(seed=4, rate=0.5, kinds=("500",), max_consecutive_per_request=3)
    stops = []
    with recorded_world(plan=plan) as world:
        for _ in range(30):
            try:
                assert run(world, recorded_world) == 0
                if not json.loads(recorded_world.output.read_text())["left_out"]:
                    break
            except IncompleteRunError as error:
                stops.append((error, json.loads(recorded_world.output.read_text())))
    assert stops
    error, output = stops[0]
    assert error.exit_code == 2
    assert error.why.startswith("Most frequent error: infra_fault: http_500 (")
    assert output["num_tasks"] + len(output["left_out"]) == 3
    assert not set(output["left_out"]) & output["task_results"].keys()
    final = json.loads(recorded_world.output.read_text())
    assert final["pass_at_k"]["1"] == pytest.approx(7 / 12)
    assert final["outcomes"] == {"ok": 12}


def test_an_interrupted_run_leaves_no_partial_results(recorded_world, monkeypatch):
    def stop(*args):
        raise KeyboardInterrupt

    with recorded_world() as world:
        with monkeypatch.context() as patched:
            patched.setattr(evaluation_run, "problem_bar", lambda *args: contextlib.nullcontext(stop))
            with pytest.raises(KeyboardInterrupt):
                run(world, recorded_world)
        names = {path.name for path in recorded_world.output.parent.iterdir()}
        assert not names & {"results.json", "results.samples.jsonl", "results.samples.jsonl.tmp"}
        with sqlite3.connect(recorded_world.output.with_suffix(".sqlite")) as journal:
            kept = journal.execute("SELECT count(*) FROM replies").fetchone()[0]
        assert kept >= 4  # the judged problem's, and others received by then
        assert run(world, recorded_world) == 0
    assert json.loads(recorded_world.output.read_text())["replies_from_journal"] == kept


def test_an_evaluation_says_how_many_problems_its_experiences_come_from(recorded_world, tmp_path, capsys):
    library = tmp_path / "experiences.json"
    entry = {"id": "G1-001", "content": "Count the sides before you answer.", "source_problem": "two"}
    library.write_text(json.dumps([entry]))
    with recorded_world() as world:
        assert run(world, recorded_world, "--experiences", str(library)) == 0
    assert "Experiences were learned from 1 of these 3 problems" in capsys.readouterr().out


@table(
    ("arguments", "error", "message"),
    [
        (["--model-path", "nowhere"], MissingInputError, "No model in nowhere"),
        (["--dataset", "nowhere.jsonl"], MissingInputError, "Dataset file not found"),
        (["--dataset", "nosuch"], InputError, "Unknown dataset"),
        (["--experiences", "nowhere.json"], MissingInputError, "No library at nowhere.json"),
        (["--role", "generator_1", "--model-path", "x"], InputError, "cannot be combined with --model-path"),
        (["--role", "generator_1", "--api-config", "nowhere.json"], MissingInputError, "API configuration not found"),
        (
            ["--role", "generator1", "--base-url", "http://127.0.0.1:9/v1", "--model", "m"],
            InputError,
            "no role 'generator1'\nChoose one of default, generator_1",
        ),
        (["--k-values", "0"], InputError, "--k-values"),
        (["--temperature", "-1"], InputError, "--temperature"),
    ],
)
def test_missing_or_wrong_input_is_reported(arguments, error, message, tmp_path):
    with pytest.raises(error, match=message) as raised:
        main([*arguments, "--output", str(tmp_path / "results.json")])
    assert raised.value.exit_code == 1
    assert not (tmp_path / "results.json").exists()


def test_a_folder_is_refused_as_output(tmp_path):
    for more in ([], ["--fresh"]):
        with pytest.raises(InputError, match="is a folder"):
            main(["--output", str(tmp_path), *more])
    assert tmp_path.is_dir()


def test_the_file_of_replies_is_refused_as_output(tmp_path):
    with pytest.raises(InputError, match="give another ending"):
        main(["--output", str(tmp_path / "results.sqlite")])
    assert list(tmp_path.iterdir()) == []


class Servers:
    """Two model folders, a stand-in for their servers, and the list of the servers that were started."""

    def __init__(self, folder, world, dataset, output):
        self.folder, self.started = folder, []
        self._world, self._dataset, self._output = world, dataset, output
        for name in ("tuned", "base"):
            (folder / name).mkdir()
            (folder / name / "config.json").write_text(json.dumps({"name": name}))

    @contextlib.contextmanager
    def start(self, model, *, engine, adapter, temperature, top_p, log):
        self.started.append((model.name, temperature, top_p))
        yield LocalServer(self._world.base_url, "generator_1", ("response_format",), lambda: False)

    def evaluate(self, *flags):
        """The figures of an evaluation of the folder ``tuned`` against ``base``."""
        settings = parse_settings(
            EvaluateSettings,
            [
                *("--model-path", str(self.folder / "tuned"), "--base-model", str(self.folder / "base")),
                *("--num-samples", "4", "--dataset", str(self._dataset), "--output", str(self._output), *flags),
            ],
            "evaluate",
        )
        engine = Engine("stand-in")
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(models, "local_server", self.start)
            for module in (models, evaluation_run):
                patched.setattr(module, "choose_engine", lambda name: engine)
            assert evaluate(settings, sys.stdout) == 0
        return json.loads(self._output.read_text())


@pytest.fixture
def servers(recorded_world, tmp_path):
    with recorded_world() as world:
        yield Servers(tmp_path, world, recorded_world.dataset, recorded_world.output)


def test_a_model_and_its_base_are_served_one_after_the_other_with_the_sampling(servers, capsys):
    figures = servers.evaluate()
    assert servers.started == [("tuned", 0.8, 0.95), ("base", 0.8, 0.95)]
    assert figures["base"]["pass_at_k"]["1"] == pytest.approx(7 / 12)
    assert figures["difference_to_base"]["sampled"]["1"]["value"] == 0.0  # the stand-in answers for both
    assert figures["difference_to_base"]["sampled"]["1"]["clusters"] == 3
    assert "model minus base, paired" in capsys.readouterr().out


def test_an_adapter_given_as_the_model_finds_its_base_model(servers):
    folder = servers.folder
    checkpoint = folder / "checkpoint-10"
    checkpoint.mkdir()
    config = checkpoint / "adapter_config.json"
    config.write_text(json.dumps({"base_model_name_or_path": str(folder / "tuned")}))
    servers.evaluate("--model-path", str(checkpoint))
    assert servers.started[0][0] == "tuned"
    config.write_text(json.dumps({"base_model_name_or_path": "some/hub-name"}))
    with pytest.raises(MissingInputError, match="is an adapter, and its base model is not on this machine"):
        servers.evaluate("--model-path", str(checkpoint), "--fresh")
    config.write_text(json.dumps({"base_model_name_or_path": str(folder / "base")}))
    with pytest.raises(ConfigurationError, match="does not fit the model"):
        servers.evaluate("--adapter", str(checkpoint), "--fresh")


def test_many_unreadable_replies_are_told_while_it_runs(recorded_world, capsys):
    """None of 24 replies has a scaffold; after 20 this is told, once."""
    with serve_in_thread(chat_app(lambda body, index: "I do not know.")) as url:
        assert (
            main(
                [
                    *(
                        "--base-url",
                        url,
                        "--model",
                        "m",
                        "--dataset",
                        str(recorded_world.dataset),
                        "--num-samples",
                        "8",
                    ),
                    *("--output", str(recorded_world.output), "--max-tokens", "500"),
                ]
            )
            == 0
        )
    message = capsys.readouterr().err
    assert message.count("replies cannot be used whole") == 1
    assert "20 of 20 replies cannot be used whole: 0 were cut off at --max-tokens 500, 20 could not be read" in message
    assert "try --prompts compact" in message


class Planted:
    """A server whose library helps, its problems, and evaluations of it."""

    def __init__(self, folder):
        self.folder, self.server = folder, PlantedServer("label", 0.5)
        rows = self.server.rows(range(12))
        (folder / "mails.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.library = folder / "library.json"
        entry = {
            "id": "G1-001",
            "content": "In cases about invoices, apply rule-invoices-1.",
            "source_problem": "case-3",
        }
        self.library.write_text(json.dumps([entry]))

    def evaluate(self, *more, code=0):
        """One evaluation; the bodies of its requests."""
        app = chat_app(self.server.reply)
        with serve_in_thread(app) as url:
            flags = ("--base-url", url, "--model", "m", "--dataset", self.folder / "mails.jsonl", "--num-samples", 4)
            places = ("--output", self.folder / "results.json", "--k-values", "1", "--price-in", 1, "--price-out", 2)
            assert main([str(word) for word in (*flags, *places, *more)]) == code
        return [request.body for request in app["seen"]]


def test_an_evaluation_of_a_run_asks_as_in_learning(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(run_folders, "WORKING_DIR", tmp_path)
    world, run = Planted(tmp_path), tmp_path / "runs/mails"
    for name in ("cache", "experiences"):
        (run / name).mkdir(parents=True)
    world.library.rename(run / "experiences/generator_1_experiences.json")
    learned = {"prompts": "compact", "temperature": 0.7, "top_p": None}
    manifest = {"run": "x", "finished": True, "configuration": {"settings": learned}}
    (run / "cache/generator_1_run.json").write_text(json.dumps(manifest))
    world.evaluate("--run", "mails", "--dry-run")
    assert "As in learning: --prompts compact --temperature 0.7\n" in capsys.readouterr().out
    bodies = world.evaluate("--run", "mails", "--temperature", 0.3)
    assert {body["temperature"] for body in bodies} == {0.3}
    assert "As in learning: --prompts compact\n" in capsys.readouterr().out


def test_problems_with_the_same_text_count_once(tmp_path, capsys):
    """Their prompts are equal, and so are their stored replies: the interval would be too narrow."""
    world = Planted(tmp_path)
    rows = world.server.rows(range(12))
    copies = [row | {"id": f"{row['id']}-{copy}"} for copy in range(3) for row in rows]
    (tmp_path / "mails.jsonl").write_text("".join(json.dumps(row) + "\n" for row in copies))
    world.evaluate("--experiences", world.library)
    figures = json.loads((tmp_path / "results.json").read_text())
    assert (figures["num_tasks"], figures["mean_at_n"]["clusters"]) == (12, 12)
    assert "24 problems are left out, as their text occurs twice." in capsys.readouterr().out


def test_an_evaluation_that_a_budget_ends_writes_no_figures_and_can_go_on(tmp_path):
    world = Planted(tmp_path)
    flags = ("--experiences", world.library, "--max-tokens", 60)
    with pytest.raises(BudgetExceededError):
        world.evaluate(*flags, "--budget-tokens", 1200)
    assert not (tmp_path / "results.json").exists()
    world.evaluate(*flags)
    figures = json.loads((tmp_path / "results.json").read_text())
    assert figures["num_tasks"] == 12
    assert figures["replies_from_journal"] > 0


def test_a_dry_run_shows_what_would_be_asked_and_writes_nothing(tmp_path, capsys):
    world, before = Planted(tmp_path), set(tmp_path.iterdir())
    flags = ("--dry-run", "--api-key-env", "NO_SUCH_KEY")
    assert world.evaluate(*flags, "--experiences", world.library) == []
    output = capsys.readouterr().out
    assert output.startswith("Evaluates ")
    assert "12 problems, 4 samples each: 48 answers of at most 1,024 tokens." in output
    assert re.search(r"About \d,\d00 tokens to the model and 12,000 from it .*; 0\.0\d USD\.", output)
    assert "rule-invoices-1" in output
    assert "Before anything can be asked: The environment variable 'NO_SUCH_KEY' is not set." in output
    assert {path for path in tmp_path.iterdir() if "library" not in path.name} <= before
    with pytest.raises(ConfigurationError, match="NO_SUCH_KEY"):
        world.evaluate("--api-key-env", "NO_SUCH_KEY")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "Evaluates {pocket} on quickstart:test (default; others: --model-path FOLDER, --dataset FILE)"),
        ({"dataset": "data/val.jsonl"}, "Evaluates {pocket} on data/val.jsonl (default; others: --model-path FOLDER)"),
        ({"model_path": "out/merged"}, "Evaluates out/merged on quickstart:test (default; others: --dataset FILE)"),
        ({"model": "out/merged", "dataset": "mbpp"}, "Evaluates out/merged on mbpp"),
        (
            {"model_path": "out/merged", "adapter": "out/lora", "dataset": "mbpp"},
            "Evaluates out/merged + out/lora on mbpp",
        ),
        ({"base_url": "http://a/v1", "model": "m", "dataset": "mbpp"}, "Evaluates m on mbpp"),
        ({"role": "teacher"}, "Evaluates the model of teacher on quickstart:test (default; others: --dataset FILE)"),
    ],
)
def test_what_is_evaluated_and_how_to_name_others_is_said_first(given, expected):
    settings = EvaluateSettings.model_validate(given)
    assert subject_line(settings) == expected.format(pocket=shown_path(POCKET_MODEL))
