"""Runs with names: where results are, which run a command takes, and tasks of a user's own."""

import json
import os
import shutil
import textwrap
from pathlib import Path

import pytest

from engine.errors import ConfigurationError, InputError, MissingInputError
from engine.tasks import registry
from grpo_training import critic, generator1, generator2, generator3
from grpo_training.evaluate import __main__ as evaluate
from grpo_training.export import __main__ as export
from grpo_training.learning.settings import GeneratorSettings
from grpo_training.runs import folder as run_folders
from grpo_training.runs import settings as run_settings
from grpo_training.show import __main__ as show
from tests.support.fault_server import chat_app, serve_in_thread

TASK = textwrap.dedent(
    """
    from engine.tasks.simple import SimpleTask

    def right(reply, row):
        return float(reply.strip() == row["answer"])

    TASK = SimpleTask("{problem}", right, name="echo_of_a_file", instructions="Repeat the word.")
    """
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder."""
    monkeypatch.setattr(run_folders, "WORKING_DIR", tmp_path)
    monkeypatch.setattr(run_settings, "WORKING_DIR", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path, words):
    rows = [{"problem": f"Repeat {word}.", "answer": word} for word in words]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def generate(folder, *flags, model="m"):
    """Run generator 1; the requests that the server has got."""
    app = chat_app(lambda body, index: "red" if index % 2 else "blue")
    with serve_in_thread(app) as url:
        entry = {"api_key": "EMPTY", "base_url": url, "model": model}
        (folder / "api.json").write_text(json.dumps({"default": entry}))
        words = ["--api-config", folder / "api.json", "--rollouts", 2, "--tau", 9, *flags]
        assert generator1.main([str(word) for word in words]) == 0
    return [request.body for request in app["seen"]]


@pytest.mark.parametrize(
    ("dataset", "model", "name"),
    [
        ("physics", "gpt-4o-mini", "physics-gpt-4o-mini"),
        ("/data/mails.csv", "Qwen/Qwen2.5-7B", "mails-Qwen2.5-7B"),
        ("openai/gsm8k:test", "m", "openai-gsm8k-test-m"),
        ("../mails 2.jsonl", "a b", "mails-2-a-b"),
        ("problems?size=3", "☃", "problems-size-3"),
    ],
)
def test_the_name_of_a_run_comes_from_dataset_and_model(dataset, model, name):
    assert run_folders.automatic_name(dataset, model) == name


def test_another_dataset_or_model_is_another_run_and_the_same_one_continues(folder, capsys):
    write(folder / "one.jsonl", ["red", "blue"])
    write(folder / "two.jsonl", ["green"])
    assert len(generate(folder, "--dataset", folder / "one.jsonl")) > 0
    generate(folder, "--dataset", folder / "two.jsonl")
    generate(folder, "--dataset", folder / "one.jsonl", model="other")
    assert generate(folder, "--dataset", folder / "one.jsonl", "--verbose") == []
    assert {path.name for path in (folder / "runs").iterdir()} == {"one-m", "two-m", "one-other"}
    with pytest.raises(InputError, match="another configuration") as raised:
        generate(folder, "--dataset", folder / "one.jsonl", "--temperature", 1)
    assert "another --run" in str(raised.value)
    assert "python -m grpo_training.view --run one-m" in capsys.readouterr().out


ONE, TWO = {"api_key": "EMPTY", "model": "m"}, {"api_key": "EMPTY", "model": "n"}


@pytest.mark.parametrize("number", [2, 3])
@pytest.mark.parametrize(
    ("first", "name"),
    [
        ({**ONE, "api_key": "YOUR_KEY_HERE"}, "words-m"),
        ({"api_key_env": "NOT_SET_HERE", "model": "m"}, "words-m"),
        ({"model": "m"}, "words-m"),
        ({"api_key": "EMPTY"}, "words-n"),  # no model
        ({**ONE, "base_url": "api.example.com"}, "words-n"),
        (None, "words-n"),
    ],
)
def test_a_generator_may_be_the_first_with_only_its_own_entry_filled_in(folder, number, first, name):
    write(folder / "words.jsonl", ["red"])
    role = f"generator_{number}"
    with serve_in_thread(chat_app(lambda body, index: "red" if index % 2 else "blue")) as url:
        entries = {} if first is None else {"generator_1": {"base_url": url, **first}}
        (folder / "api.json").write_text(json.dumps({**entries, role: {**TWO, "base_url": url}}))
        words = ["--api-config", "api.json", "--dataset", "words.jsonl", "--rollouts", "2", "--tau", "9"]
        assert (generator2, generator3)[number - 2].main(words) == 0
        assert (folder / "runs" / name / f"cache/{role}_rollouts.jsonl").is_file()
        if first and "model" in first and "base_url" not in first:
            with pytest.raises(ConfigurationError, match="API key|NOT_SET_HERE"):
                generator1.main(words)


def test_the_folders_of_the_document_are_named_once(folder, capsys):
    """A run that the first generator has begun in them is continued there by the others and the critic."""
    write(folder / "words.jsonl", ["red", "blue"])
    places = ["--cache-dir", folder / "grpo_training/cache", "--experiences-dir", folder / "data/grpo_experiences"]
    with serve_in_thread(chat_app(lambda body, index: "red" if index % 2 else "blue")) as url:
        words = ["--base-url", url, "--model", "m", "--dataset", folder / "words.jsonl", "--rollouts", 2, "--tau", 9]
        assert generator1.main([str(word) for word in [*words, *places]]) == 0
        assert generator2.main([str(word) for word in words]) == 0
        assert generator3.main([str(word) for word in words]) == 0
        assert critic.main(["--base-url", url, "--model", "m"]) == 0
        assert not (folder / "runs").exists()
        names = {path.name for path in (folder / "grpo_training/cache").glob("*.jsonl")}
        assert names == {*(f"generator_{number}_rollouts.jsonl" for number in (1, 2, 3)), "critic_results.jsonl"}
        assert (folder / "data/grpo_experiences/critic_experiences.json").is_file()
        write(folder / "words2.jsonl", ["green"])
        assert generator2.main([str(word) for word in [*words, "--dataset", folder / "words2.jsonl"]]) == 0
    assert [path.name for path in (folder / "runs").iterdir()] == ["words2-m"]


def test_other_commands_take_the_newest_run_or_the_named_one(folder, capsys):
    write(folder / "one.jsonl", ["red"])
    write(folder / "two.jsonl", ["green"])
    with pytest.raises(MissingInputError, match="There is no run in"):
        show.main([])
    for name in ("one", "two"):
        generate(folder, "--dataset", folder / f"{name}.jsonl")
    for path in (folder / "runs/one-m").rglob("*.json*"):
        os.utime(path, (1, 1))
    capsys.readouterr()
    show.main([])
    shown = capsys.readouterr()
    assert "two_001" in shown.out
    assert "Run: two-m, the newest of 2" in shown.err
    show.main(["--run", "one-m"])
    assert "one_001" in capsys.readouterr().out
    with pytest.raises(InputError, match="There is no run 'three'") as raised:
        show.main(["--run", "three"])
    assert "two-m, one-m. A run is there as soon as its generator has printed its name" in str(raised.value)


def test_runs_are_ordered_by_their_files(folder):
    for number, name in enumerate(("b", "a", "c"), 1):
        path = folder / "runs" / name / "cache/generator_1_rollouts.jsonl"
        path.parent.mkdir(parents=True)
        path.write_text("{}\n")
        os.utime(path, (number, number))
    (folder / "runs/empty/cache").mkdir(parents=True)
    assert [run.name for run in run_folders.known_runs()] == ["c", "a", "b"]
    library = folder / "runs/a/experiences/critic_experiences.json"
    library.parent.mkdir()
    library.write_text("[]")  # a person has changed it since
    assert run_folders.found_run().name == "a"


@pytest.mark.parametrize("command", ["generator", "critic"])
def test_libraries_elsewhere_leave_the_cache_where_it_is(folder, capsys, command):
    write(folder / "one.jsonl", ["red", "blue"])
    generate(folder, "--dataset", folder / "one.jsonl")
    elsewhere = ("--experiences-dir", folder / "elsewhere")
    capsys.readouterr()
    if command == "generator":
        assert generate(folder, "--dataset", folder / "one.jsonl", *elsewhere) == []
    else:
        with serve_in_thread(chat_app(lambda body, index: "red")) as url:
            words = ["--base-url", url, "--model", "m", "--generators", "1", "--learn", "none", *elsewhere]
            assert critic.main([str(word) for word in words]) == 0
        assert (folder / "runs/one-m/cache/critic_results.jsonl").stat().st_size
    assert f"--cache-dir is {folder}/runs/one-m/cache" in capsys.readouterr().err
    assert not (folder / "grpo_training").exists()


def test_later_commands_use_the_libraries_that_a_run_was_given(folder):
    write(folder / "one.jsonl", ["red", "blue"])
    generate(folder, "--dataset", folder / "one.jsonl", "--experiences-dir", "elsewhere")
    with serve_in_thread(chat_app(lambda body, index: "red")) as url:
        assert critic.main(["--base-url", url, "--model", "m", "--generators", "1", "--learn", "none"]) == 0
    assert run_folders.found_run("one-m").experiences.resolve() == folder / "elsewhere"
    manifest = json.loads((folder / "runs/one-m/cache/critic_run.json").read_text())
    assert Path(manifest["experiences"]).resolve() == folder / "elsewhere"
    assert not (folder / "runs/one-m/experiences").exists()


def test_libraries_alone_are_shown_with_the_run_that_they_belong_to(folder):
    write(folder / "one.jsonl", ["red", "blue"])
    for run in ("first", "second"):
        generate(folder, "--dataset", folder / "one.jsonl", "--run", run)
    libraries = folder / "runs/first/experiences"
    assert run_folders.found_run(experiences=libraries).cache == folder / "runs/first/cache"
    assert run_folders.found_run(experiences=folder / "new").cache == folder / "runs/second/cache"


def test_a_copy_of_a_run_does_not_write_into_the_libraries_of_the_run(folder):
    write(folder / "one.jsonl", ["red", "blue"])
    generate(folder, "--dataset", folder / "one.jsonl", "--learn", "none", "--run", "first")
    shutil.copytree(folder / "runs/first", folder / "runs/copy")
    (folder / "runs/first/experiences").mkdir()
    assert run_folders.found_run("copy").experiences == folder / "runs/copy/experiences"


def test_a_cache_has_its_own_libraries(folder, capsys):
    write(folder / "one.jsonl", ["red", "blue"])
    generate(folder, "--dataset", folder / "one.jsonl")
    generate(folder, "--dataset", folder / "one.jsonl", "--cache-dir", folder / "runs/one-m/cache")
    assert f"--experiences-dir is {folder}/runs/one-m/experiences" in capsys.readouterr().err
    assert not (folder / "data").exists()


def test_results_without_a_name_are_continued_where_they_are(folder, capsys):
    write(folder / "one.jsonl", ["red"])
    places = ("--cache-dir", folder / "grpo_training/cache", "--experiences-dir", folder / "data/grpo_experiences")
    generate(folder, "--dataset", folder / "one.jsonl", *places)
    assert generate(folder, "--dataset", folder / "one.jsonl") == []
    assert "Continuing the results in" in capsys.readouterr().out
    assert not (folder / "runs").exists()
    assert run_folders.found_run().cache == folder / "grpo_training/cache"


def test_a_task_of_a_file_is_known_to_later_commands_under_any_spelling_of_its_path(folder, capsys):
    (folder / "own.py").write_text(TASK)
    write(folder / "words.jsonl", ["red", "blue"])
    generate(folder, "--dataset", folder / "words.jsonl", "--task", "./own.py:TASK")
    assert generate(folder, "--dataset", folder / "words.jsonl", "--task", "own.py:TASK") == []
    flags = ["--to", "trl-grpo", "--output", folder / "out.jsonl"]
    assert export.main([str(word) for word in flags]) == 0
    app = chat_app(lambda body, index: "red")
    with serve_in_thread(app) as url:
        words = ["--base-url", url, "--model", "m", "--generators", "1", "--learn", "none"]
        assert critic.main(words) == 0
    assert (folder / "runs/words-m/cache/critic_results.jsonl").stat().st_size


def test_results_of_a_task_file_that_has_changed_are_not_taken_for_those_of_the_file(folder, monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    (folder / "own.py").write_text(TASK)
    write(folder / "words.jsonl", ["red"])
    words = ("--dataset", folder / "words.jsonl", "--task", "own.py:TASK")
    generate(folder, *words)
    (folder / "own.py").write_text(TASK + "\n# another reward\n")
    registry._registered.clear()  # as another process
    with pytest.raises(InputError, match=r"task_file \(the task file or a module beside it\): stored .*, given"):
        generate(folder, *words)
    with serve_in_thread(chat_app(lambda body, index: "red")) as url:
        of_critic = ["--base-url", url, "--model", "m", "--generators", "1", "--learn", "none", "--task", "own.py:TASK"]
        with pytest.raises(InputError, match="generator_1 were scored by another version of the task file"):
            critic.main(of_critic)
        assert generate(folder, *words, "--fresh") == []  # scored again, from the stored replies
        assert critic.main(of_critic) == 0


def test_a_task_file_that_was_moved_is_named(folder, monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    (folder / "own.py").write_text(TASK)
    write(folder / "words.jsonl", ["red"])
    generate(folder, "--dataset", folder / "words.jsonl", "--task", "own.py:TASK")
    (folder / "own.py").rename(folder / "moved.py")
    registry._registered.clear()  # as another process
    with pytest.raises(InputError, match=r"task: stored own.py:TASK, given moved.py:TASK"):
        generate(folder, "--dataset", folder / "words.jsonl", "--task", "moved.py:TASK")
    of_critic = ["--model", "m", "--generators", "1", "--learn", "none"]
    with serve_in_thread(chat_app(lambda body, index: "red")) as url:
        with pytest.raises(MissingInputError, match=r"File not found: .*own.py") as raised:
            critic.main(["--base-url", url, *of_critic])
        assert "If it was moved, name it: --task FILE.py:NAME." in str(raised.value)
        assert critic.main(["--base-url", url, *of_critic, "--task", "moved.py:TASK"]) == 0


def test_figures_of_a_task_file_that_has_changed_are_not_replaced(folder, monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    (folder / "own.py").write_text(TASK)
    write(folder / "words.jsonl", ["red"])
    words = ["--dataset", "words.jsonl", "--task", "own.py:TASK", "--num-samples", "1", "--k-values", "1"]
    with serve_in_thread(chat_app(lambda body, index: "red")) as url:
        of_model = [*words, "--base-url", url, "--model", "m", "--output", "out.json"]
        assert evaluate.main(of_model) == 0
        (folder / "own.py").write_text(TASK + "\n# another reward\n")
        registry._registered.clear()  # as another process
        with pytest.raises(InputError, match="task_file"):
            evaluate.main(of_model)


def test_a_name_and_folders_exclude_each_other_and_a_name_is_no_path(folder):
    settings = GeneratorSettings(run="a", cache_dir=folder)
    with pytest.raises(InputError, match="--run and --cache-dir exclude each other") as caught:
        run_folders.in_own_run(settings, "physics")
    assert "--cache-dir runs/a/cache --experiences-dir DIR" in caught.value.fix
    for name in ("../a", "a/b", "", ".hidden", "x" * 101):
        with pytest.raises(InputError, match="cannot be the name of a run"):
            run_folders.run_folder(name)


LESSON = "Repeat the word in lower case."


def with_library(folder, name):
    """A run whose prompts have an experience; its task is one of a file, and has the name of the run."""
    (folder / "own.py").write_text(TASK.replace("echo_of_a_file", name))
    write(folder / "words.jsonl", ["red", "blue"])
    libraries = folder / "runs" / name / "experiences"
    libraries.mkdir(parents=True)
    (libraries / "generator_1_experiences.json").write_text(json.dumps([{"id": "G1-001", "content": LESSON}]))
    flags = ("--dataset", folder / "words.jsonl", "--task", folder / "own.py:TASK", "--run", name, "--learn", "none")
    generate(folder, *flags, "--select", "all")


def test_an_evaluation_of_a_run_has_its_library_and_its_task(folder):
    with_library(folder, "second")
    app = chat_app(lambda body, index: "red")
    with serve_in_thread(app) as url:
        flags = ["--base-url", url, "--model", "m", "--dataset", "words.jsonl", "--task", "second"]
        flags += ["--num-samples", "2", "--k-values", "1"]
        assert evaluate.main([*flags, "--run", "second"]) == 0
        assert evaluate.main([*flags, "--output", "plain.json"]) == 0
    with_lesson = [LESSON in str(request.body["messages"]) for request in app["seen"]]
    assert (with_lesson.count(True), with_lesson.count(False)) == (2, 2)
    figures = json.loads((folder / "runs/second/cache/evaluation_results.json").read_text())
    assert figures != json.loads((folder / "plain.json").read_text())
    with pytest.raises(InputError, match="--run and --experiences exclude each other"):
        evaluate.main([*flags, "--run", "second", "--experiences", "x.json"])
