import io
import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from engine.llm.tally import Spent
from grpo_training.cli.progress import GroupLine, Progress, print_next


@dataclass
class Traffic:
    in_flight: int = 2
    retries: int = 1
    journal_hits: int = 3
    hedged: int = 2
    prompt_tokens: int = 1234
    completion_tokens: int = 567
    cost_usd: float | None = 0.0125
    waiting: int = 4
    by_purpose: dict = field(default_factory=lambda: {"rollout": Spent(1000, 500, 0.01), "analysis": Spent(234, 67)})


def run(live):
    stream = io.StringIO()
    progress = Progress("generator_1", 3, Traffic, stream=stream, live=live)
    with progress:
        progress.restored(1)
        progress.group_done(GroupLine("p2", 0.456, 0.089, True, 1, 3, saved=["Prioritize edge cases."]))
        progress.group_done(GroupLine("p3", 0.5, 0.0, False, 3, 3))
        progress.group_done(GroupLine("p4", 0.5, 0.2, True, 2, 3, refused=["duplicate: Prioritize edges."]))
        shown = stream.getvalue()
    progress.summary([("library", "version abc")])
    return shown, stream.getvalue()


def test_plain_lines_are_the_documented_ones():
    shown, whole = run(live=False)
    assert (
        "  generator_1: μ=0.456, σ=0.089 → Extract (σ>τ)  [p2, 1 of 3 right]\n    ✅ Saved: Prioritize edge cases.\n"
        in shown
    )
    assert "  generator_1: μ=0.500, σ=0.000 → Skip (σ≤τ)  [p3, 3 of 3 right]\n" in shown
    assert "✗ Refused: duplicate" in shown
    assert "continuing after 1 completed groups" in shown
    for text in ("3 + 1 completed before", "6 of 9 (66.7%)", "1,234 in, 567 out", "$0.0125", "version abc"):
        assert text in whole


def test_groups_of_earlier_starts_are_counted_once_whether_their_number_was_known_or_not():
    for number in (0, 2):
        stream = io.StringIO()
        progress = Progress("critic", 2, Traffic, stream=stream, live=False)
        with progress:
            progress.restored(number)
            progress.restored_one(GroupLine("p1", 0.5, 0.0, False, 1, 3))
            progress.restored_one(GroupLine("p2", 0.5, 0.0, False, 1, 3))
        progress.summary([])
        assert "0 + 2 completed before" in stream.getvalue()


def test_no_bar_is_drawn_into_a_file_or_a_pipe(capsys):
    run(live=False)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("columns", ["60", "80"])
def test_paths_and_next_commands_can_be_copied_from_a_narrow_terminal(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("TERM", "xterm")
    stream, path = Terminal(), Path("/home/user") / "/".join(["a-folder-with-a-name"] * 5)
    progress = Progress("generator_1", 3, Traffic, stream=stream)
    progress.summary([("library", "version abc"), ("rollouts kept in", path)])
    print_next([("in a browser", f"python -m grpo_training.view {path}")], stream)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())
    assert f"  rollouts kept in: {path}\n" in shown
    assert f"  in a browser: python -m grpo_training.view {path}\n" in shown


def test_the_summary_lists_the_experiences_after_the_panel_is_closed():
    _, whole = run(live=True)
    assert "Prioritize edge cases." in whole[whole.rindex("groups with") :]
    assert "μ=0.456" not in whole


def test_without_prices_no_cost_is_shown():
    stream = io.StringIO()
    Progress("critic", None, lambda: Traffic(cost_usd=None, by_purpose={}), stream=stream, live=False).summary([])
    assert "no prices configured" in stream.getvalue()
    assert "$" not in stream.getvalue()


def test_model_text_is_shown_literally_and_without_control_characters():
    stream = io.StringIO()
    progress = Progress("critic", 2, Traffic, stream=stream, live=True)
    with progress:
        line = GroupLine("[/x]", 0.5, 0.2, True, 1, 3, saved=["When x lies in [/a,b], check [b]."])
        progress.group_done(line)
        progress.note("[/INST] \x1b[2J")
        progress.group_done(GroupLine("p", 0.5, 0.2, True, 1, 3, refused=["control: \x1b]0;x\x07"]))
    progress.summary([("open", "aime: [/INST]"), ("kept in", "/tmp/[run1]/c")])
    whole = stream.getvalue()
    for text in ("When x lies in [/a,b], check [b].", "aime: [/INST]", "/tmp/[run1]/c"):
        assert text in whole
    plain = io.StringIO()
    with Progress("critic", 1, Traffic, stream=plain, live=False) as shown:
        shown.group_done(GroupLine("p", 0.5, 0.2, True, 1, 3, refused=["control: \x1b]0;x\x07"]))
    assert "\\x1b]0;x\\x07" in plain.getvalue()
    assert "\x1b" not in plain.getvalue()


def test_the_run_continues_when_its_output_is_closed():
    class Gone(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    progress = Progress("critic", 3, Traffic, stream=Gone(), live=False)
    with progress:
        for _ in range(3):
            progress.group_done(GroupLine("p", 0.5, 0.0, False, 1, 3))
    progress.summary([])
    assert progress.groups == 3


def test_a_group_without_an_experience_says_why():
    stream = io.StringIO()
    with Progress("generator_1", 1, Traffic, stream=stream, live=False) as progress:
        progress.group_done(GroupLine("p", 0.5, 0.2, True, 1, 3, why_none="the analyst proposed no change"))
    assert "    – No experience: the analyst proposed no change\n" in stream.getvalue()


class Terminal(io.StringIO):
    """A terminal of 80 columns and 24 lines."""

    def isatty(self):
        return True


def panel(monkeypatch, feed):
    """The last picture of the panel, as lines without colours."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    monkeypatch.setenv("TERM", "xterm")
    stream, now = Terminal(), [100.0]
    progress = Progress("critic", 40, Traffic, stream=stream, clock=lambda: now[0])
    with progress:
        feed(progress, now)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())
    return text[text.rindex("╭─ critic") :].replace("\r", "").split("\n")


def test_the_panel_fits_80_by_24_and_stays_with_the_newest_experience_and_the_times(monkeypatch):
    newest = "When a rate and a time are given in different units, convert the time first, then check. " * 2

    def feed(progress, now):
        for number in range(20):
            progress.group_done(GroupLine(f"aime2024_{number:03}", 0.5, 0.2, True, 1, 3, saved=[newest.strip()]))
        for number in range(5):
            progress.note(f"note {number}")
        progress.set_waiting("waiting for generator_2, which is not running")
        now[0] += 300

    lines = panel(monkeypatch, feed)
    shown = "\n".join(lines)
    assert len([line for line in lines if line.strip()]) <= 24
    assert max(map(len, lines)) <= 80
    joined = " ".join(line.strip("│ ") for line in lines)
    assert newest.strip() in joined
    assert "20/40" in shown
    assert "0:05:00, 0:05:00 left" in shown
    assert "generator: 1,000 tokens in, 500 out, $0.0100" in shown
    assert "analyst: 234 tokens in, 67 out" in shown
    assert "aime2024_019" in shown
    assert "waiting for generator_2, which is not running" in shown


def test_a_wait_that_is_over_is_no_longer_shown(monkeypatch):
    def feed(progress, now):
        progress.set_waiting("waiting for generator_2, which is not running")
        progress.set_waiting("")

    assert "waiting for" not in "\n".join(panel(monkeypatch, feed))
