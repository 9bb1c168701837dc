import io
from dataclasses import dataclass

from grpo_training.cli.progress import GroupLine, Progress


@dataclass
class Traffic:
    in_flight: int = 2
    retries: int = 1
    journal_hits: int = 3
    prompt_tokens: int = 1234
    completion_tokens: int = 567
    cost_usd: float | None = 0.0125


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
    assert "  generator_1: μ=0.456, σ=0.089 → Extract (σ>τ)\n    ✅ Saved: Prioritize edge cases.\n" in shown
    assert "  generator_1: μ=0.500, σ=0.000 → Skip (σ≤τ)\n" in shown
    assert "✗ Refused: duplicate" in shown
    assert "continuing after 1 completed groups" in shown
    for text in ("3 + 1 completed before", "6 of 9 (66.7%)", "1,234 in, 567 out", "$0.0125", "version abc"):
        assert text in whole


def test_the_summary_lists_the_experiences_after_the_panel_is_closed():
    _, whole = run(live=True)
    assert "Prioritize edge cases." in whole[whole.rindex("groups with") :]
    assert "μ=0.456" not in whole


def test_without_prices_no_cost_is_shown():
    stream = io.StringIO()
    Progress("critic", None, lambda: Traffic(cost_usd=None), stream=stream, live=False).summary([])
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
