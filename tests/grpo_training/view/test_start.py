"""``python -m grpo_training.view`` as a command."""

import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from engine.errors import InputError, MissingInputError
from engine.tasks import registry
from grpo_training.view.__main__ import main
from grpo_training.view.start import listen
from tests.conftest import ROOT
from tests.support.viewer_runs import group, pages_of, write


@pytest.fixture
def start(pocket):
    """Start the command; returns the process and the printed address."""
    started = []

    def run(*arguments):
        process = subprocess.Popen(
            [sys.executable, "-m", "grpo_training.view", "--port", "0", *arguments, str(pocket)],
            env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(process)
        return process, process.stdout.readline().strip()

    yield run
    for process in started:
        process.kill()
        process.communicate()


def get(address):
    with urllib.request.urlopen(address) as reply:
        return reply.read().decode()


def test_the_printed_address_answers_at_once_and_ctrl_c_ends_the_server(start):
    process, address = start()
    assert address.startswith("http://127.0.0.1:")
    assert "generator_1" in get(address)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    assert "4 runs, 4 libraries" in process.stderr.read()


def test_an_export_from_the_command_line(pocket, tmp_path, capsys):
    target = tmp_path / "report.html"
    assert main([str(pocket), "--export", str(target), "--export-groups", "2"]) == 0
    assert f"pages in {target}" in capsys.readouterr().out
    pages = pages_of(target)
    assert '<html lang="en"' in pages["index.html"]
    assert len([path for path in pages if path.startswith("cache-generator_1/groups/")]) == 2


def test_a_folder_that_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(MissingInputError, match="Folder not found"):
        main([str(tmp_path / "nothing")])


def test_without_a_run_the_error_of_an_export_names_the_folders_that_were_searched(tmp_path, monkeypatch):
    monkeypatch.setattr("grpo_training.view.start.DEFAULT_FOLDERS", (tmp_path / "cache", tmp_path / "outputs"))
    with pytest.raises(MissingInputError, match=f"{tmp_path}/cache, {tmp_path}/outputs"):
        main(["--export", str(tmp_path / "report.html")])


def test_a_port_that_is_taken_is_an_error():
    taken = listen(0)
    with pytest.raises(InputError, match="Cannot listen on 127"):
        listen(taken.getsockname()[1])
    taken.close()


def test_a_task_of_a_file_is_known_to_the_pages(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    (tmp_path / "own.py").write_text(
        "from engine.tasks.simple import SimpleTask\n"
        "class Own(SimpleTask):\n"
        "    def truth(self, problem):\n"
        "        return f'the word {problem.answer}'\n"
        "TASK = Own('Say {word}', lambda text, row: 1.0, name='own')\n"
    )
    record = group("p", [0.1, 0.9]).model_copy(update={"task": "own", "ground_truth": "seven"})
    write(tmp_path / "cache/generator_1_rollouts.jsonl", [record])
    shown = []
    for words in ([], ["--task", f"{tmp_path / 'own.py'}:TASK"]):
        target = tmp_path / f"report-{len(words)}.html"
        assert main([*words, "--export", str(target), str(tmp_path / "cache")]) == 0
        shown.append(pages_of(target)["cache-generator_1/groups/1.html"])
    assert "the word seven" not in shown[0]
    assert "the word seven" in shown[1]
