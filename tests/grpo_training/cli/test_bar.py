"""The progress bar of steps that count something."""

import io

from grpo_training.cli.bar import progress_bar


class _Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_file_gets_few_lines_and_a_terminal_each_state(monkeypatch):
    now = iter(range(1000))
    monkeypatch.setattr("tqdm.std.time", lambda: float(next(now)))
    file, terminal = io.StringIO(), _Terminal()
    for stream in (file, terminal):
        assert list(progress_bar(range(100), file=stream, miniters=1)) == list(range(100))
    assert file.getvalue().count("\r") < 10
    assert terminal.getvalue().count("\r") > 50
    assert "100/100" in file.getvalue()
