"""Progress bars."""

import io
import sys

import pytest

from grpo_training.cli.bar import problem_bar, progress_bar


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_file_gets_few_lines_and_a_terminal_each_state(monkeypatch):
    now = iter(range(1000))
    monkeypatch.setattr("tqdm.std.time", lambda: float(next(now)))
    file, terminal = io.StringIO(), Terminal()
    for stream in (file, terminal):
        assert list(progress_bar(range(100), file=stream, miniters=1)) == list(range(100))
    assert file.getvalue().count("\r") < 10
    assert terminal.getvalue().count("\r") > 50
    assert "100/100" in file.getvalue()


def test_without_a_terminal_there_are_at_most_ten_lines(capsys):
    with problem_bar(25, "base") as done:
        for _ in range(25):
            done()
    shown = capsys.readouterr()
    # the first of 25 problems at which another tenth is full: 2.5, 5, 7.5 ... rounded up
    assert shown.out.splitlines() == [f"  base: {n}/25 problems" for n in (3, 5, 8, 10, 13, 15, 18, 20, 23, 25)]
    assert shown.err == ""


def test_the_share_of_right_samples_is_that_of_all_problems_so_far(capsys):
    with problem_bar(3, "model, sampled") as done:
        done(1, 4)
        done()  # left out: it has no samples
        done(4, 4)
    assert capsys.readouterr().out.splitlines() == [
        "  model, sampled: 1/3 problems 25% right",
        "  model, sampled: 2/3 problems 25% right",
        "  model, sampled: 3/3 problems 62% right",
    ]


def test_the_bar_is_removed_when_the_work_is_interrupted(capsys, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)

    def work():
        with problem_bar(4, "base") as done:
            done(1, 2)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert capsys.readouterr().out == ""
    assert "base" in terminal.getvalue()
    assert terminal.getvalue().rsplit("\r", 1)[1].strip() == ""  # a closed bar leaves its line empty
