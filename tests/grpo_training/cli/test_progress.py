import io
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from engine.llm.budget import Spent
from grpo_training.cli.progress import GroupLine, Progress, Row, print_next
from grpo_training.cli.terminal_text import counted


@dataclass
class Traffic(Spent):
    in_flight: int = 2
    retries: int = 1
    journal_hits: int = 3
    prompt_tokens: int = 1234
    completion_tokens: int = 567
    cost_usd: float | None = 0.0125
    by_purpose: dict = field(default_factory=lambda: {"rollout": Spent(1000, 500, 0.01), "analysis": Spent(234, 67)})


def line(mean, std, triggered, correct, size=3, **more):
    return GroupLine(mean, std, triggered, correct, size, **more)


class Terminal(io.StringIO):
    """A terminal."""

    def isatty(self):
        return True

    def fileno(self):
        return 1


def run(stream, verbose=False):
    progress = Progress("generator_1", 4, Traffic, stream=stream, verbose=verbose)
    with progress:
        progress.restored(1, 5)
        progress.restored_one(0, line(0.5, 0.0, False, 0))
        progress.scored(2, "p3", line(0.5, 0.0, False, 3, executed=2, executed_right=2))
        progress.scored(1, "p2", line(0.456, 0.089, True, 1, executed=1))
        progress.ended(1, "p2", saved=["G1-007 Prioritize edge cases."])
        progress.scored(3, "p4", line(0.5, 0.2, True, 2))
        progress.ended(3, "p4", refused=["duplicate: Prioritize edges."])
    shown = stream.getvalue()
    progress.summary([Row("library", "6 experiences"), Row("r_ans", "0 to 1", is_detail=True)])
    return shown, stream.getvalue()


LINES = """\
generator_1: continuing; 1 of 4 groups and 5 experiences are there
[2/4] generator_1: μ=0.500, σ=0.000 → Skip (σ≤τ) [p3, 3 of 3 right]
[3/4] generator_1: μ=0.456, σ=0.089 → Extract (σ>τ) [p2, 1 of 3 right]
  ✅ Saved: G1-007 Prioritize edge cases.
[4/4] generator_1: μ=0.500, σ=0.200 → Extract (σ>τ) [p4, 2 of 3 right]
  ✗ Refused: duplicate: Prioritize edges. [p4]
"""


def test_a_file_has_a_line_for_each_group_and_experience():
    shown, output = run(io.StringIO())
    assert shown == LINES
    for text in (
        "6 of 12 (50.0%); executed 2 of 3",
        "3 + 1 completed before",
        "1,234 tokens in, 567 out) in this start",
        "$0.0125",
    ):
        assert text in output
    assert "6 experiences" in output


def test_a_terminal_has_the_same_lines_above_its_bar(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    shown, _ = run(Terminal())
    written = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).replace("\r", "\n").split("\n")
    for expected in LINES.splitlines():
        assert expected in written


def test_details_are_shown_with_verbose_only():
    for verbose in (False, True):
        _, output = run(io.StringIO(), verbose=verbose)
        for text in ("r_ans", "retries", "replies from the journal", "analyst: 234 tokens in, 67 out"):
            assert (text in output) == verbose


def test_long_names_are_cut_in_the_middle():
    stream = io.StringIO()
    with Progress("generator_1", 1, Traffic, stream=stream) as progress:
        progress.scored(0, "train-00000-of-00001-0123456789abcdef-row-000042", line(0.5, 0.0, False, 0))
    assert "[train-00000-o…def-row-000042, 0 of 3 right]" in stream.getvalue()


def test_what_the_run_waits_for_is_named_after_ten_seconds_and_then_ever_less_often():
    stream, now = io.StringIO(), [100.0]
    progress = Progress("generator_1", 9, Traffic, stream=stream, clock=lambda: now[0])
    with progress:
        progress.begun(0, "aime2024_001")
        progress.begun(1, "aime2024_002")
        for _ in range(45):
            now[0] += 1
            progress.tick()
        assert "waiting" not in stream.getvalue()  # nothing waits for it
        progress.scored(1, "aime2024_002", line(0.5, 0.0, False, 3))
        for _ in range(55):
            now[0] += 1
            progress.tick()
        progress.scored(0, "aime2024_001", line(0.5, 0.2, True, 2))
        for _ in range(10):
            now[0] += 1
            progress.tick()
        progress.ended(0, "aime2024_001")
        now[0] += 60
        progress.tick()
    waits = [text for text in stream.getvalue().splitlines() if "waiting" in text]
    assert waits == [
        "waiting for aime2024_001, 46 s",
        "waiting for aime2024_001, 92 s",
        "waiting for the analyst about aime2024_001, 10 s",
    ]


@pytest.mark.parametrize(("count", "expected"), [(0, "0 groups"), (1, "1 group"), (2, "2 groups")])
def test_a_number_and_its_noun_agree(count, expected):
    assert counted(count, "group") == expected
    stream = io.StringIO()
    with Progress("critic", None, Traffic, stream=stream) as progress:
        progress.restored(count, 1)
    assert stream.getvalue() == (f"critic: continuing; {expected} and 1 experience are there\n" if count else "")


def test_groups_of_earlier_starts_are_counted_once_whether_their_number_was_known_or_not():
    for number in (0, 2):
        stream = io.StringIO()
        progress = Progress("critic", 2, Traffic, stream=stream)
        with progress:
            progress.restored(number, 0)
            progress.restored_one(0, line(0.5, 0.0, False, 1))
            progress.restored_one(1, line(0.5, 0.0, False, 1))
        progress.summary([])
        assert "0 + 2 completed before" in stream.getvalue()


def test_no_bar_is_drawn_into_a_file_or_a_pipe(capsys):
    run(io.StringIO())
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("columns", ["60", "80"])
def test_paths_and_next_commands_can_be_copied_from_a_narrow_terminal(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("TERM", "xterm")
    stream, path = Terminal(), Path("/home/user") / "/".join(["a-folder-with-a-name"] * 5)
    progress = Progress("generator_1", 3, Traffic, stream=stream)
    progress.summary([Row("library", "version abc"), Row("rollouts kept in", path)])
    print_next([("in a browser", f"python -m grpo_training.view {path}")], stream)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())
    assert f"  rollouts kept in: {path}\n" in shown
    assert f"  in a browser: python -m grpo_training.view {path}\n" in shown


def test_without_prices_no_cost_is_shown():
    stream = io.StringIO()
    Progress("critic", None, lambda: Traffic(cost_usd=None, by_purpose={}), stream=stream).summary([])
    assert "no prices configured" in stream.getvalue()
    assert "$" not in stream.getvalue()


def test_model_text_is_shown_literally_and_without_control_characters(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    for stream in (Terminal(), io.StringIO()):
        progress = Progress("critic", 2, Traffic, stream=stream)
        with progress:
            progress.begun(0, "[/x]\x1b[2J")
            progress.scored(0, "[/x]\x1b[2J", line(0.5, 0.2, True, 1))
            progress.ended(0, "[/x]", saved=["C-001 When x lies in [/a,b], check [b]."])
            progress.note("[/INST] \x1b[2J")
            progress.ended(1, "p", refused=["control: \x1b]0;x\x07"])
        progress.summary([Row("open", "aime: [/INST]"), Row("kept in", Path("/tmp/[run1]/c"))])
        output = stream.getvalue()
        for text in ("When x lies in [/a,b], check [b].", "aime: [/INST]", "/tmp/[run1]/c", "control: \\x1b]0;x\\x07"):
            assert text in output
        assert "\x1b[2J" not in output
        assert "\x1b]0" not in output


def test_a_group_without_an_experience_says_why():
    stream = io.StringIO()
    with Progress("generator_1", 1, Traffic, stream=stream) as progress:
        progress.ended(0, "p", why_none="the analyst proposed no change")
    assert "  – No experience: the analyst proposed no change [p]\n" in stream.getvalue()


def test_the_bar_has_number_times_cost_and_what_is_asked_in_a_line_of_the_terminal(monkeypatch):
    monkeypatch.setattr(os, "get_terminal_size", lambda *_: os.terminal_size((80, 24)))
    stream = Terminal()
    with Progress("critic", 40, Traffic, stream=stream) as progress:
        for number in range(20):
            progress.begun(number, "p")
            progress.scored(number, "p", line(0.5, 0.2, True, 1))
            progress.ended(number, "p", saved=["C-001 text"])
        progress.tick()
        drawn = stream.getvalue().rpartition("\r")[2]
    assert len(drawn) <= 80
    assert re.search(r"critic .{10} 20/40 \[00:0\d<00:0\d\], 33% right · 20 saved · \$0.0125", drawn)
    assert stream.getvalue().endswith("\r")  # the bar is removed


def test_the_time_left_follows_from_the_groups_of_this_start(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    stream = Terminal()
    with Progress("critic", 40, Traffic, stream=stream) as progress:
        for number in range(30):
            progress.restored_one(number, line(0.5, 0.0, False, 1))
        progress.tick()
    assert "30/40 [00:00<?]" in stream.getvalue()


def test_the_final_table_and_the_next_command_fit_one_screen(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    progress = Progress("generator_1", 30, Traffic, stream=stream)
    rows = [Row(name, "some figures of a usual length, (version 0123456789ab)") for name in "abcdef"]
    progress.summary([*rows, *(Row(f"r_{number}", "0 to 1", is_detail=True) for number in range(20))])
    assert stream.getvalue().count("\n") <= 20


def test_tokens_that_no_server_reported_are_marked_as_estimates():
    stream = io.StringIO()
    used = {"prompt_tokens": 180, "completion_tokens": 200, "cost_usd": None, "estimated": 10}
    counters = Traffic(**used, by_purpose={"rollout": Spent(**used)})
    Progress("critic", None, lambda: counters, stream=stream, verbose=True).summary([])
    mark = "180 tokens in, 200 out; an estimate, at the most, as 10 of the replies came without usage"
    assert f"no prices configured ({mark})" in stream.getvalue()
    assert f"generator: {mark}" in stream.getvalue()
