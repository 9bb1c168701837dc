"""No text of a model, a file or a server controls the terminal, wherever it is printed."""

import os
import subprocess
import sys
import unicodedata

from engine.errors import InputError
from grpo_training.cli.entry import print_error
from grpo_training.cli.terminal_text import fitted
from grpo_training.train.plan_report import print_plan

HOSTILE = "a\u2028\x1b[2J\x9b31m\x07b\u202ec\ud800[red]d[/red]"
SHOWN = "a\\x2028\\x1b[2J\\x9b31m\\x07b\\x202ec\\xd800[red]d[/red]"


def controls(text):
    return {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs") and c != "\n"}


def test_an_error_message(capsys):
    print_error(InputError(f"what {HOSTILE}", why=f"why {HOSTILE}\nsecond line", fix=f"fix {HOSTILE}"))
    message = capsys.readouterr().err
    assert not controls(message)
    assert message.count(SHOWN) == 3
    assert "\nsecond line" in message


def test_the_plan_of_a_training(capsys):
    print_plan([("data", HOSTILE)], f"1 line skipped: {HOSTILE}")
    assert capsys.readouterr().out.count(SHOWN) == 2


def test_a_terminal_without_greek_letters_or_marks_is_written_to():
    code = "from grpo_training.cli.entry import run_command\nrun_command(lambda: print('✗ μ=0.5, σ≤τ → Skip – Привет'))"
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
    assert done.stdout.decode("latin-1") == "? ?=0.5, ??? ? Skip ? ??????\n"


def test_a_long_line_continues_below_its_last_column(monkeypatch):
    monkeypatch.setenv("COLUMNS", "32")
    assert fitted("  show G1-003  its evidence, rollouts, uses") == (
        "  show G1-003  its evidence,\n               rollouts, uses"
    )
    assert fitted("A sentence of words, without columns.") == "A sentence of words, without\ncolumns."
    assert fitted("  import a/file/with/a/long/name.json") == "  import\n  a/file/with/a/long/name.json"
