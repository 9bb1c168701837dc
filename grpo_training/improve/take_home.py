"""The folder ``improved`` of a run: what its user takes home."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path

from engine.errors import ScaffoldError
from engine.records import Experience
from engine.storage.append_log import replace_file
from grpo_training.cli.settings import shown_path
from grpo_training.improve.improved import EXPERIENCES, MESSAGES, PLACEHOLDER, RESULT, Improved, Result
from grpo_training.view.data.runs import Store
from grpo_training.view.web.export import export

_REPORT, _README, _TEXT = "report.html", "README.md", "prompt.txt"
_GROUPS_IN_REPORT = 50
FILES = (EXPERIENCES, MESSAGES, _TEXT, _README, RESULT, _REPORT)
"""The files of the folder."""


def write_improved(folder: Path, result: Result, experiences: Sequence[Experience], run: Path) -> Improved:
    """Write the folder; what was there before is replaced, file by file.

    Args:
        folder: is made.
        result: of the run.
        experiences: those of the library that are in use.
        run: folder of the run, which the report shows.
    """
    folder.mkdir(parents=True, exist_ok=True)
    improved = Improved(result, experiences)
    rows = [one.model_dump(mode="json") for one in experiences]
    files = {
        EXPERIENCES: _json(rows),
        MESSAGES: _json(improved.static_messages()),
        _TEXT: improved.text() + "\n",
        _README: _readme(improved, folder),
        RESULT: result.model_dump_json(indent=2) + "\n",  # last: a folder with it is complete
    }
    for name, text in files.items():
        replace_file(folder / name, text.encode("utf-8", "replace"))
    file = Path(result.task.rpartition(":")[0])
    if file.suffix == ".py":
        replace_file(folder / file.name, file.read_bytes())
    report = folder / _REPORT
    with contextlib.suppress(FileNotFoundError):
        report.unlink()
    with contextlib.suppress(ScaffoldError):  # nothing to show
        export(Store([run]), report, _GROUPS_IN_REPORT)
    return improved


def _readme(improved: Improved, folder: Path) -> str:
    place, result = shown_path(folder), improved.result
    is_tested = result.gate is not None and result.temperature is not None
    temperature = "" if result.temperature is None else f", temperature={result.temperature:g}"
    tested_at = (
        f" Tested at temperature {result.temperature:g}; another one may have another result." if is_tested else ""
    )
    own_task = Path(result.task.rpartition(":")[0]).name
    task_row = (
        f"| `{own_task}` | the task; what it imports beside this project has to be installed |\n" if own_task else ""
    )
    static = (
        f"`{MESSAGES}` is the prompt; replace `{PLACEHOLDER}` in it by the question."
        if result.is_static
        else f"`{MESSAGES}` has the experiences with the largest effects. Which experiences were tested depends on the "
        "question: use the Python above for these prompts."
    )
    title = "Improved prompt" if result.verdict == "adopted" else "Prompt"
    return f"""# {title} for {result.dataset}

{result.sentence}

Model: {result.model}. Task: {result.task}. Experiences in use: {len(improved.experiences)}.{tested_at}

```python
from grpo_training import Improved
from openai import OpenAI

improved = Improved.load("{place}")
client = OpenAI()  # base_url="http://..." for another server
messages = improved.messages("...")
reply = client.chat.completions.create(model="{result.model}", messages=messages{temperature})
print(improved.answer(reply.choices[0].message.content))
```

{" ".join(filter(None, (static, result.remark)))}

| file | content |
|---|---|
| `{MESSAGES}`, `{_TEXT}` | the prompt for other tools, with `{PLACEHOLDER}` in place of the question |
| `{EXPERIENCES}` | the experiences, with what was measured of each |
| `{RESULT}` | the result of the test, in figures |
| `{_REPORT}` | pages about the run, to open in a browser |
{task_row}"""


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"
