"""MkDocs hook: fills the command reference with the ``--help-all`` of every command."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from grpo_training.cli.program import commands

if TYPE_CHECKING:
    from mkdocs.structure.pages import Page

MARK = "<!-- commands -->"


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Replace the mark by one section for each command."""
    if MARK not in markdown:
        return markdown
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        helps = pool.map(help_of, commands())
        sections = [f"## {name}\n\n```text\n{text}\n```\n" for name, text in zip(commands(), helps, strict=True)]
    return markdown.replace(MARK, "\n".join(sections))


def help_of(command: str) -> str:
    """What ``python -m grpo_training.COMMAND --help-all`` prints, 100 columns wide."""
    return subprocess.run(
        [sys.executable, "-m", f"grpo_training.{command}", "--help-all"],
        env={**os.environ, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
