"""How commands end when they are interrupted, also before they have begun."""

import os
import runpy
import signal
import subprocess
import sys

import pytest

from engine.errors import InputError
from grpo_training.cli import entry
from grpo_training.cli.program import commands
from grpo_training.experiences import __main__ as experiences
from tests.conftest import ROOT
from tests.support.table import table

CONTINUE = "Stored results are kept; run the same command again to continue."
WITHOUT_RESULTS = {
    "doctor",
    "experiences",
    "export",
    "prepare_data",
    "verify_teacher_traces",
    "serve",
    "show",
    "view",
}


def started(*arguments, path=(), **options):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (*path, ROOT)))}
    return subprocess.Popen([sys.executable, *arguments], env=environment, stderr=subprocess.PIPE, text=True, **options)


@table("command", commands())
def test_only_a_command_that_continues_says_so_when_it_is_interrupted(command, monkeypatch, capsys):
    calls = []
    monkeypatch.setattr(entry, "run_command", lambda main, **options: calls.append(options))
    path = ROOT / "grpo_training" / command
    file = path / "__main__.py" if path.is_dir() else path.with_suffix(".py")
    runpy.run_path(str(file), run_name="__main__")
    monkeypatch.undo()

    def interrupted():
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    monkeypatch.setattr(entry.gc, "freeze", lambda: None)
    try:
        with pytest.raises(SystemExit) as ended:
            entry.run_command(interrupted, resumes=calls[0].get("resumes", True))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert ended.value.code == 130
    message = capsys.readouterr().err
    assert "Interrupted." in message
    assert (CONTINUE in message) == (command not in WITHOUT_RESULTS)


@pytest.mark.parametrize(
    ("words", "what", "fix"),
    [
        (["--libary", "critic"], "unrecognized arguments: --libary", "Did you mean --library?"),
        (["lst", "--json"], "invalid choice: 'lst'", "Did you mean list?"),
        (["--library", "critic", "lst"], "invalid choice: 'lst'", "Did you mean list?"),
        (["show", "G1-001", "--cashe-dir", "x"], "unrecognized arguments: --cashe-dir x", "Did you mean --cache-dir?"),
        (["show", "G1-001", "--cashe_dir", "x"], "unrecognized arguments: --cashe-dir x", "Did you mean --cache-dir?"),
    ],
)
def test_a_misspelled_word_of_a_command_with_subcommands_is_named(words, what, fix):
    with pytest.raises(InputError) as refused:
        experiences.main(words)
    assert what in refused.value.what
    assert refused.value.fix.startswith(fix)


def test_a_running_command_is_interrupted_in_order(tmp_path):
    (tmp_path / "pydantic.py").write_text("import time\nprint('importing', flush=True)\ntime.sleep(60)\n")
    arguments = ("-m", "grpo_training.generator1")  # it imports its settings inside its frame
    with started(*arguments, path=[tmp_path], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == "importing\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60) == ("", f"\nInterrupted. {CONTINUE}\n")
    assert process.returncode == entry.INTERRUPTED


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_file_where_a_folder_is_needed_is_named(tmp_path, capsys, place):
    (tmp_path / "file").touch()

    def main():
        (tmp_path / place).mkdir(parents=True, exist_ok=True)

    with pytest.raises(SystemExit) as ended:
        entry.run_command(main)
    assert ended.value.code == 1
    assert str(tmp_path / "file") in capsys.readouterr().err


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_command_runs_with_closed_streams_and_gives_their_numbers_to_no_file(tmp_path, closed):
    script = f"""
import os, sys
from grpo_training.cli.entry import run_command

def main():
    print("text")
    print("text", file=sys.stderr)
    with open({str(tmp_path / "file")!r}, "w") as file:
        file.write(str(file.fileno() > 2))
    return 7

run_command(main)
"""
    words = ["sh", "-c", f'"$0" -c "$1" {closed}', sys.executable, script]
    ended = subprocess.run(words, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert (ended.returncode, (tmp_path / "file").read_text()) == (7, "True")
    assert "Traceback" not in ended.stderr
