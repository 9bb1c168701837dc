"""What a run has found, as the folder ``improved`` that its user takes home."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from engine.api_manager import GENERATORS
from engine.errors import InputError, MissingInputError, ScaffoldError
from engine.experience.choice import lessons_of
from engine.experience.events import ChoiceRecord, GateEvent
from engine.experience.library import ExperienceLibrary
from engine.llm.requests import response_format
from engine.records import Experience, Problem, RolloutGroup
from engine.storage.append_log import write_file
from engine.storage.rollout_store import read
from engine.task_protocols import ReadsQuestions, schema_of
from engine.tasks.registry import task_named
from grpo_training.agents.generator import generator_messages
from grpo_training.cli.settings import shown_path
from grpo_training.improve.improved import EXPERIENCES, MESSAGES, PLACEHOLDER, RESULT, Improved, Result
from grpo_training.improve.plan import Plan
from grpo_training.improve.settings import ImproveSettings
from grpo_training.improve.verdict import is_likely_to_harm, sentence, spending, unfinished_sentence
from grpo_training.runs.folder import RunFolder
from grpo_training.runs.stored_answers import problem_of
from grpo_training.serve.endpoints import journal_path
from grpo_training.view.data.runs import Store
from grpo_training.view.web.export import export

_REPORT, _README, _TEXT = "report.html", "README.md", "prompt.txt"
_GROUPS_IN_REPORT = 50
_SHOWN = 120
"""Characters of a reply and of a right answer that a sentence shows."""

Results = list[tuple[ExperienceLibrary, GateEvent | None]]
"""The library of each generator with its test; None without experiences to test."""


@dataclass(frozen=True)
class ImprovedFolder:
    """Writes the folder ``improved`` of a run.

    Args:
        settings: of the run, with the prompt style that it has chosen.
        run: its folder.
        plan: its problems.
        model: name of the model that was asked.
    """

    settings: ImproveSettings
    run: RunFolder
    plan: Plan
    model: str

    @property
    def folder(self) -> Path:
        """The folder."""
        return self.run.folder / "improved"

    def write(self, results: Results, *, has_learned_all: bool) -> Improved:
        """Write the library of the generator with the best result.

        Args:
            results: of the test.
            has_learned_all: whether learning is complete; else the result says that it goes on.
        """
        order = {"adopted": 2, "not_proven": 1}

        def rank(index: int) -> tuple[int, float]:
            event = results[index][1]
            return (-1, 0.0) if event is None else (order.get(event.verdict, 0), event.low)

        best = max(range(len(results)), key=rank)
        library, event = results[best]
        count = len(library.state.live if event is None else library.state.tested)
        none_right = "" if event is not None or count else _none_was_right(self.run.cache)
        summary = sentence(event, count, spending(*_spent(journal_path(self.settings))), none_right)
        if not has_learned_all:
            summary += " Learning is not finished: the same command continues it."
        return self._write(best, library, summary, "nothing_learned" if event is None else event.verdict, event)

    def write_unfinished(self, libraries: Sequence[ExperienceLibrary]) -> str:
        """Write what was learned before its test has ended; what is known, in one sentence.

        A library that an earlier test of the run has adopted stays in the folder until another one is tested.
        """
        best = next((index for index, library in enumerate(libraries) if library.state.tested), 0)
        summary = unfinished_sentence(len(libraries[best].state.tested), spending(*_spent(journal_path(self.settings))))
        with suppress(InputError, MissingInputError):
            before = Improved.load(self.folder).result
            if before.verdict == "adopted" and not self.settings.fresh:
                return f"{summary} {shown_path(self.folder)} has the result of the test before: {before.sentence}"
        self._write(best, libraries[best], summary, "not_finished", None)
        return summary

    def _write(
        self, role: int, library: ExperienceLibrary, summary: str, verdict: str, event: GateEvent | None
    ) -> Improved:
        settings = self.settings
        common, remark = _common_kind(self.plan.learned_from, settings.prompts)
        choice, experiences = library.state.choice, library.state.helpful
        if event is not None and is_likely_to_harm(event):
            experiences = tuple(experience for experience in experiences if experience.status == "pinned")
        journal = journal_path(settings)
        tokens, cost_usd = _spent(journal)
        schema = schema_of(task_named(common.task), common)
        form = None if schema is None else response_format(schema)
        result = Result(
            sentence=summary,
            verdict=verdict,
            gate=event,
            task=settings.task if settings.task is not None and ":" in settings.task else common.task,
            prompts=settings.prompts,
            model=self.model,
            role=GENERATORS[role],
            dataset=settings.dataset,
            choice=choice,
            example=common.model_copy(update={"id": "question", "text": "", "meta": {}}),
            is_static=_is_static(choice, experiences),
            temperature=settings.temperature if _takes(journal, self.model, "temperature") else None,
            response_format=form if _takes(journal, self.model, "response_format") else None,
            tokens=tokens,
            cost_usd=cost_usd,
            remark=remark,
        )
        return write_improved(self.folder, result, experiences, self.run.folder)


def _is_static(choice: ChoiceRecord | None, experiences: Sequence[Experience]) -> bool:
    """Whether all prompts have the same experiences: all lessons, and no cases."""
    lessons = lessons_of(experiences)
    return len(lessons) == len(experiences) and (choice is None or len(lessons) <= choice.k)


def _none_was_right(cache: Path) -> str:
    """In words, where no reply of the generators was right: how many, and one of them with its right answer."""
    groups = [group for path in cache.glob("generator_*_rollouts.jsonl") for group in read(path, RolloutGroup).records]
    scored = [(group, attempt) for group in groups for attempt in group.rollouts if attempt.is_correct is not None]
    if not scored or any(attempt.is_correct for _, attempt in scored):
        return ""
    group, rollout = next(((group, attempt) for group, attempt in scored if attempt.answer), scored[0])
    task = task_named(group.task)
    reply = rollout.completion.text if rollout.completion is not None else rollout.answer or ""
    end = " ".join(reply.split())[-_SHOWN:]
    return (
        f"none of {len(scored)} replies was right. One ends with {end!r}, and its right answer is "
        f"{task.truth(problem_of(group))[:_SHOWN]!r}"
    )


def _takes(journal: Path, model: str, field: str) -> bool:
    """Whether a model has not refused a field of requests in a run."""
    query = "SELECT COUNT(*) FROM abilities, json_each(facts, '$.dropped') WHERE model = ? AND value = ?"
    with closing(sqlite3.connect(f"file:{journal}?mode=ro", uri=True)) as connection:
        return bool(connection.execute(query, (model, field)).fetchone() == (0,))


def _spent(journal: Path) -> tuple[int, float | None]:
    """Tokens and cost of all replies that a run has stored; the cost is None if a price is missing.

    Raises:
        InputError: the journal cannot be read.
    """
    usage = "json_extract(completion, '$.usage.{}')"  # a number of 0 is left out, so that it is NULL here
    query = (
        f"SELECT TOTAL({usage.format('prompt_tokens')}) + TOTAL({usage.format('completion_tokens')}), "  # noqa: S608 - constants
        f"SUM({usage.format('cost_usd')}), COUNT(*), COUNT({usage.format('cost_usd')}) FROM replies"
    )
    try:
        with closing(sqlite3.connect(f"file:{journal}?mode=ro", uri=True)) as connection:
            tokens, cost, rows, priced = connection.execute(query).fetchone()
    except sqlite3.Error as error:
        raise InputError(f"Cannot read {journal}", why=str(error)) from None
    return int(tokens), cost if priced == rows else None


def _common_kind(problems: Sequence[Problem], style: str) -> tuple[Problem, str]:
    """A problem whose prompt can be taken home: of the kind that most problems have.

    Args:
        problems: of the dataset.
        style: prompt style.

    Returns:
        the first problem of the kind, and a remark on those of other kinds, which is empty if there are none.
    """
    by_kind: dict[str, list[Problem]] = {}
    for problem in problems:
        by_kind.setdefault(_instructions(problem, style), []).append(problem)
    common = max(by_kind.values(), key=len)
    others = len(problems) - len(common)
    remark = (
        f"{others} of {len(problems)} problems were asked with other instructions than those of this prompt, as they "
        "have another task or another kind of answer. For their prompt, run improve on these problems alone."
    )
    return common[0], remark if others else ""


def _instructions(problem: Problem, style: str) -> str:
    """What the prompt of a problem says beside the texts of the problem itself."""
    task = task_named(problem.task)
    if isinstance(task, ReadsQuestions):  # the prompt of a question is made from its row
        return task.name
    messages = generator_messages(task, problem.model_copy(update={"text": ""}), (), style)
    return "\n".join([task.name, *(message.content for message in messages)])


def write_improved(folder: Path, result: Result, experiences: Sequence[Experience], run: Path) -> Improved:
    """Write the folder; what was there before is replaced, file by file.

    Args:
        folder: is made.
        result: of the run.
        experiences: those of the library that are in use.
        run: folder of the run, which the report shows.
    """
    improved = Improved(result, experiences)
    rows = [experience.model_dump(mode="json") for experience in experiences]
    files = {
        EXPERIENCES: _json(rows),
        MESSAGES: _json(improved.static_messages()),
        _TEXT: improved.text() + "\n",
        _README: _readme(improved, folder),
        RESULT: result.model_dump_json(indent=2) + "\n",  # last: a folder with it is complete
    }
    for name, text in files.items():
        write_file(folder / name, text.encode("utf-8", "replace"))
    own_files = [Path(result.task.rpartition(":")[0]), Path(result.prompts)]  # those of the project are no files
    for file in own_files:
        if file.is_file() and file.parent.resolve() != folder.resolve():
            write_file(folder / file.name, file.read_bytes())
    report = folder / _REPORT
    with suppress(FileNotFoundError):
        report.unlink()
    with suppress(ScaffoldError):  # nothing to show
        export(Store([run]), report, _GROUPS_IN_REPORT)
    return improved


def _readme(improved: Improved, folder: Path) -> str:
    path, result = shown_path(folder), improved.result
    is_tested = result.gate is not None and result.temperature is not None
    arguments = "" if result.temperature is None else f", temperature={result.temperature:g}"
    arguments += "" if result.response_format is None else ", response_format=improved.result.response_format"
    tested_at = (
        f" Tested at temperature {result.temperature:g}; another one may have another result." if is_tested else ""
    )
    own_task = Path(result.task.rpartition(":")[0]).name
    own_rows = (
        f"| `{own_task}` | the task; what it imports beside this project has to be installed |\n" if own_task else ""
    )
    if Path(result.prompts).is_file():
        own_rows += f"| `{Path(result.prompts).name}` | your instructions |\n"
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

improved = Improved.load("{path}")
client = OpenAI()  # base_url="http://..." for another server
messages = improved.messages("...")
reply = client.chat.completions.create(model="{result.model}", messages=messages{arguments})
print(improved.answer(reply.choices[0].message.content))
```

{" ".join(filter(None, (static, result.remark)))}

| file | content |
|---|---|
| `{MESSAGES}`, `{_TEXT}` | the prompt for other tools, with `{PLACEHOLDER}` in place of the question |
| `{EXPERIENCES}` | the experiences, with what was measured of each |
| `{RESULT}` | the result of the test, in figures |
| `{_REPORT}` | pages about the run, to open in a browser |
{own_rows}"""


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"
