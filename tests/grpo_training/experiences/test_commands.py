import io
import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from engine.errors import InputError, MissingInputError
from engine.experience.events import BeginEvent
from engine.experience.library import ExperienceLibrary
from engine.records import GroupStats, Operation, Problem
from grpo_training.cli.tables import View
from grpo_training.experiences.__main__ import main
from grpo_training.runs import folder as run_folders
from tests.conftest import ROOT
from tests.support.library import commit, mark, step_of

PARITY = "Split by parity before counting solutions."
UNITS = "Convert every quantity to SI units first."
FUSE = "Keep the edge that two proposals share."
STATS = GroupStats(mean=0.456, std=0.089, advantages=[], triggered=True)
PROBLEM = Problem(id="aime_7", text="How many lattice points lie inside?", answer="253")


def library_of(places, name):
    return ExperienceLibrary(
        places["experiences"] / f"{name}_experiences.json", clock=lambda: datetime(2026, 1, 1, tzinfo=UTC)
    )


@pytest.fixture
def places(tmp_path):
    places = {"experiences": tmp_path / "experiences", "cache": tmp_path / "cache"}
    generator = library_of(places, "generator_1")
    generator.begin_run(BeginEvent(at="", run="run-a"))
    refused = Operation(op="add", content="Expect 253 points.")
    first = step_of("run-a", 0, PROBLEM, 0, [], 3, 1, STATS)
    commit(generator, first, [Operation(op="add", content=PARITY, category="counting"), refused])
    second = step_of("run-a", 1, PROBLEM.model_copy(update={"id": "aime_8"}), 0, ["G1-001"], 3, 2, STATS)
    commit(generator, second, [Operation(op="add", content=UNITS)])
    critic = library_of(places, "critic")
    commit(critic, step_of("run-c", 0, PROBLEM, 0, [], 3, 3, STATS), [Operation(op="add", content=FUSE)])
    return places


@pytest.fixture
def run(places, capsys):
    def run(*args):
        where = ["--experiences-dir", str(places["experiences"]), "--cache-dir", str(places["cache"])]
        assert main([*args, *where]) == 0
        return capsys.readouterr().out

    return run


def version_of(places, name="generator_1"):
    return library_of(places, name).state.version


def test_the_list_shows_all_libraries(run, places):
    for out in (run(), run("list")):
        assert f"generator_1: 2 experiences, version {version_of(places)}" in out
        assert re.search(rf"G1-001 +counting +3 +67 % +{re.escape(PARITY)}\n", out)
        assert re.search(rf"G1-002 +0 +- +{re.escape(UNITS)}\n", out)
        assert "critic: 1 experience, version" in out
    assert "generator_1" not in run("list", "--library", "critic")


def test_long_ids_and_texts_leave_the_columns_where_they_are(run, places):
    library = library_of(places, "generator_1")
    long = PROBLEM.model_copy(update={"id": "a-problem-with-a-long-name-" * 4})
    content = "When many words are needed to say something, say it in the last column of the list, please."
    commit(library, step_of("run-a", 2, long, 0, [], 3, 1, STATS), [Operation(op="add", content=content)])
    head, *rows = run("list", "--library", "generator_1").splitlines()[1:5]
    for row, text in zip(rows, (PARITY, UNITS, content), strict=True):
        assert row.index(text) == head.index("content")
        assert row[head.index("used") - 2 :].lstrip()[0].isdigit()
        assert row[head.index("right") - 2 : head.index("right")] == "  "


class Terminal(io.StringIO):
    def isatty(self):
        return True


def on_terminal(monkeypatch, run, *words, columns=80):
    """What a terminal of a width shows, without colours."""
    stream = Terminal()
    with monkeypatch.context() as patch:
        for name, value in (("COLUMNS", columns), ("LINES", 24), ("TERM", "xterm")):
            patch.setenv(name, str(value))
        patch.setattr(sys, "stdout", stream)
        run(*words)
    return re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())


def with_long_text(places):
    long = PROBLEM.model_copy(update={"id": "quickstart-parallel_resistors-6f30b91cc8"})
    content = "When many words are needed to say something, say it below the other cells of the list, please."
    library = library_of(places, "generator_1")
    commit(library, step_of("run-a", 2, long, 0, [], 3, 1, STATS), [Operation(op="add", content=content)])
    return long.id, content


@pytest.mark.parametrize("columns", [60, 80])
def test_a_terminal_lists_one_line_an_experience_and_show_has_the_whole_text(places, monkeypatch, run, columns):
    _, content = with_long_text(places)
    shown = on_terminal(monkeypatch, run, "--library", "generator_1", columns=columns)
    lines = shown.splitlines()
    assert max(map(len, lines)) <= columns
    assert [line.split()[0] for line in filter(None, lines[2:])] == ["G1-001", "G1-002", "G1-003"]
    assert content[:15] in lines[-2]
    assert lines[-2].rstrip().endswith("…")
    assert content in run("show", "g1-003").replace("\n", " ")


def test_a_list_is_searched(run):
    def ids(*words):
        return re.findall(r"^  (G1-\d+|C-\d+)", run(*words), re.MULTILINE)

    assert ids("--library", "generator_1", "--search", "si UNITS") == ["G1-002"]
    assert ids("--search", "g1-001") == ["G1-001"]
    assert ids("--search", "Counting") == ["G1-001"]


def test_ids_are_found_in_any_case(run, places):
    assert PARITY in run("show", "g1-001")
    assert "G1-001 is pinned" in run("pin", "g1-001")


def test_edits_by_hand_are_read_at_once_and_keep_their_ids(run, places):
    path = places["experiences"] / "generator_1_experiences.json"
    entries = json.loads(path.read_text())
    entries[1] |= {"content": "Write the unit of each quantity first.", "id": "g1-002"}
    entries.append({"content": "Draw the figure before any algebra."})
    path.write_text(json.dumps(entries))
    before = {file: file.read_bytes() for file in places["experiences"].iterdir()}
    shown = run("list", "--library", "generator_1")
    assert re.search(r"G1-001 .*Split by parity", shown)
    assert re.search(r"G1-002 .*Write the unit of each", shown)
    assert re.search(r"G1-003 .*Draw the figure", shown)
    assert "Write the unit of each" in run("show", "G1-002")
    assert {file: file.read_bytes() for file in places["experiences"].iterdir()} == before
    run("pin", "G1-003")  # a command that writes records them
    assert ": import by the file\n" in run("show", "G1-002")
    assert [entry["id"] for entry in json.loads(path.read_text())] == ["G1-001", "G1-002", "G1-003"]


def test_options_may_stand_before_the_command(places, capsys):
    assert main(["--experiences-dir", str(places["experiences"]), "--library", "critic", "list"]) == 0
    assert FUSE in capsys.readouterr().out


def test_show_prints_evidence_uses_and_history(run, places):
    mark(library_of(places, "generator_1"), "pin", "G1-001")
    out = run("show", "G1-001")
    assert "G1-001 (generator_1, pinned)" in out
    assert "in the prompts of 3 rollouts; right when present: 67 %\n" in out
    assert "  aime_7: μ=0.456, σ=0.089\n" in out
    assert re.search(r"line 2, \S+: add by run-a step 0: aime_7 μ=0\.456 σ=0\.089\n", out)
    assert ": pin by a person\n" in out
    assert "step 1" not in out


def test_show_finds_deleted_experiences(run, places):
    assert "G1-002 is removed" in run("remove", "G1-002")
    out = run("show", "G1-002")
    assert "G1-002 (generator_1, deleted)" in out
    assert UNITS in out


def test_pin_and_unpin_are_written(run, places):
    path = places["experiences"] / "generator_1_experiences.json"
    assert "G1-001 is pinned" in run("pin", "G1-001")
    assert json.loads(path.read_text())[0]["status"] == "pinned"
    assert "pinned" in run("list")
    assert "G1-001 is not pinned" in run("unpin", "G1-001")
    assert json.loads(path.read_text())[0]["status"] == "active"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["show", "G1-999"], "G1-999 is not in critic, generator_1"),
        (["remove", "G1-999"], "G1-999 is not in critic, generator_1"),
        (["list", "--library", "generator_2"], "No library of generator_2"),
        (["list", "--library", "../../etc/passwd"], "No library of ../../etc/passwd"),
    ],
)
def test_a_missing_id_version_or_library_is_an_input_error(run, args, message):
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        run(*args)
    assert caught.value.fix


def test_a_missing_directory_names_the_command_to_run(tmp_path, monkeypatch):
    monkeypatch.setattr("grpo_training.runs.folder.WORKING_DIR", tmp_path)  # it may have runs, which would be named
    message = r"No library of experiences in .*absent\n.*\nRun python -m grpo_training.generator1 first"
    for words in ([], ["--library", "critic"]):
        with pytest.raises(MissingInputError, match=message):
            main(["--experiences-dir", str(tmp_path / "absent"), *words])
    assert not (tmp_path / "absent").exists()


def test_an_empty_folder_names_the_runs_that_can_be_chosen(tmp_path, monkeypatch):
    monkeypatch.setattr(run_folders, "WORKING_DIR", tmp_path)
    (tmp_path / "runs/mails/cache").mkdir(parents=True)
    (tmp_path / "runs/mails/cache/generator_1_rollouts.jsonl").write_text("")
    with pytest.raises(MissingInputError, match="Name a run with --run NAME: mails"):
        main(["--experiences-dir", str(tmp_path / "absent")])


def test_reading_subcommands_write_nothing(run, places):
    before = {path: path.stat().st_mtime_ns for path in places["experiences"].iterdir()}
    for args in (["list"], ["show", "G1-001"]):
        run(*args)
    assert {path: path.stat().st_mtime_ns for path in places["experiences"].iterdir()} == before


def test_a_terminal_gets_a_table_without_control_characters(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    terminal, plain = Terminal(), io.StringIO()
    for stream in (terminal, plain):
        View(stream).table("title", ("id", "text"), [("G1-001", "red \x1b[31m [bold]x[/bold]\u202e 余数")])
        View(stream).line("gone \x1b]0;evil\x07", style="red")
        assert "\x1b[31m [bold]" not in stream.getvalue()
        assert "\x1b]0" not in stream.getvalue()
        assert "\\x1b[31m [bold]x[/bold]\\x202e 余数" in stream.getvalue()


@pytest.mark.parametrize(
    ("args", "code"), [(["show", "X-1"], 1), (["nonsense"], 1), (["pin"], 1), (["list", "C-1"], 1), (["list"], 0)]
)
def test_exit_codes_of_the_process(places, args, code):
    command = [sys.executable, "-m", "grpo_training.experiences", *args]
    where = [] if args == ["nonsense"] else ["--experiences-dir", str(places["experiences"])]
    done = subprocess.run([*command, *where], cwd=ROOT, capture_output=True, text=True, env=os.environ)
    assert done.returncode == code
    assert bool(done.stderr) == bool(code)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["remove", "forbid"])
def test_what_is_taken_out_is_no_longer_in_the_file(run, places, command):
    path = places["experiences"] / "generator_1_experiences.json"
    run(command, "G1-001")
    assert [entry["id"] for entry in json.loads(path.read_text())] == ["G1-002"]
    added = commit(library_of(places, "generator_1"), step_of("b", 0, PROBLEM, 0, [], 3, 1), [_adds(PARITY)])
    assert [operation.id for operation in added.applied] == (["G1-003"] if command == "remove" else [])


def _adds(text):
    return Operation(op="add", content=text)


def test_a_cache_alone_means_its_own_libraries_and_a_run_excludes_folders(places, capsys):
    cache = ["--cache-dir", str(places["cache"])]
    assert main(["list", "--library", "generator_1", *cache]) == 0
    assert PARITY in capsys.readouterr().out
    with pytest.raises(InputError, match="--run and --cache-dir exclude each other"):
        main(["list", "--run", "another", *cache])
