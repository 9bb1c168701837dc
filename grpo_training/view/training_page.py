"""``report.html`` of a training: the training page of the viewer as one file that opens from disk.

All text in it (names, prompts, completions) is escaped by the templates, and its content security policy allows only
the scripts and styles that are part of the file, and no request.
"""

from __future__ import annotations

from pathlib import Path

from engine.storage.append_log import replace_file
from grpo_training.view.pages.training import PAGE, training_view
from grpo_training.view.web.one_file import in_one_file
from grpo_training.view.web.page import Request
from grpo_training.view.web.rendering import render

REPORT = "report.html"


def write_page(run_dir: Path) -> Path:
    """Write ``report.html`` of a run from its ``metrics.jsonl`` and, if present, ``config.yaml`` and ``samples.jsonl``.

    Returns:
        the path of the page.
    """
    request = Request({"run": run_dir.name}, live=False)
    address = PAGE.path_of(request.params)
    context = {"run": None, "state": "", "training": training_view(run_dir)}
    html = render(PAGE, context, request, alone=True)
    replace_file(run_dir / REPORT, in_one_file([(PAGE, address, html)])[0].encode())
    return run_dir / REPORT
