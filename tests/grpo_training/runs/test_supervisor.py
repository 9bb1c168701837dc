"""Parallel commands: the view of their progress, their output, their failures."""

import re

import pytest

from grpo_training.runs.supervisor import Command, supervise


class Stream:
    """Collects text and claims to be a terminal or not."""

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
def test_progress_is_shown_as_a_table_or_as_lines(tmp_path, monkeypatch, is_terminal):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    commands = [
        Command(name, ["experiences", "--help"], tmp_path / f"{name}.log", lambda: "3/9 problems") for name in "ab"
    ]
    stream = Stream(is_terminal)
    supervise(commands, ready=lambda command: True, check=lambda: None, stream=stream)
    for name in "ab":
        assert re.search(rf"{name}.*3/9 problems", stream.text)
    assert ("\x1b[" in stream.text) == is_terminal


def test_control_characters_of_the_output_are_escaped(tmp_path):
    command = Command("a", [], tmp_path / "log", str)
    assert command.tail(3) == []
    (tmp_path / "log").write_bytes(b"x" * 10000 + b"\n one \n\n\xff\x1b[2J\x07two\n")
    assert command.tail(2) == ["one", "\ufffd\\x1b[2J\\x07two"]
