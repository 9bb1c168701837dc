"""Executes the tests of stored traces and decides which are accepted: one run of ``verify_teacher_traces``."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from engine.cores import usable_cores
from engine.datasets import load_problems
from engine.errors import InputError, ScaffoldError
from engine.records import Completion, Fault, Problem
from engine.storage.append_log import write_file
from engine.storage.lines import encode_line
from engine.storage.rollout_store import read
from engine.task_protocols import PreparesData
from engine.tasks.registry import task_named, task_of_row
from engine.tasks.rows import UnusableRowError
from grpo_training.agents.generator import generator_messages, prompt_hash
from grpo_training.cli.bar import progress_bar
from grpo_training.cli.terminal_text import say
from grpo_training.teacher.settings import VerifySettings
from grpo_training.teacher.traces import TeacherTrace, TraceStatistics, accept, table
from grpo_training.teacher.verdicts import scored_fields

_NO_PROBLEM = "no_problem"


def run(settings: VerifySettings) -> int:
    """Verify a file of traces. Returns the exit code.

    Raises:
        ScaffoldError: no file, no traces, an output that is there, or programs that cannot be run on this machine.
    """
    if settings.output.exists():
        raise InputError(f"{settings.output} is there already", fix="Remove it, or choose another --output.")
    contents = read(settings.traces, TeacherTrace)
    broken = contents.broken
    left_out = f"unreadable lines, left out: {len(broken)}, such as {broken[0]}" if broken else ""
    if not contents.records:
        raise InputError(f"{settings.traces} has no traces", why=left_out)
    if left_out:
        say(left_out)
    listed = load_problems(str(settings.train_data)) if settings.train_data else []
    problems = {problem.id: problem for problem in listed}
    with ThreadPoolExecutor(usable_cores()) as pool:
        verified = pool.map(lambda trace: verify(trace, problems, settings.prompts), contents.records)
        traces = list(progress_bar(verified, total=len(contents.records), desc="running tests", unit=" traces"))
    groups: dict[str, list[TeacherTrace]] = {}
    for trace in traces:
        group = groups.setdefault(trace.task_id, [])
        group.append(trace.model_copy(update={"sample_idx": len(group)}))
    statistics, lines = TraceStatistics(), []
    for group in groups.values():
        for trace in accept(group, (), _canonical, most=settings.accept_per_task, max_chars=settings.max_chars):
            statistics.add(trace)
            lines.append(encode_line(trace))
    write_file(settings.output, b"".join(line + b"\n" for line in lines))
    print(table(statistics.rows()), flush=True)
    print(f"Traces are stored in {settings.output}")
    return 0


def verify(trace: TeacherTrace, problems: Mapping[str, Problem], style: str) -> TeacherTrace:
    """A trace with the result of its tests and the prompt of the student.

    The tests are those of the problem with the trace's id, else those of the trace. A trace without a reply is read as
    its thinking and its program in the form of a reply.

    Args:
        trace: the trace; what it says of itself (``status``, ``verdict``, ``accepted``) does not count.
        problems: by id.
        style: prompt style of the student.

    Raises:
        ScaffoldError: programs cannot be run on this machine.
    """
    try:
        problem = problems.get(trace.task_id) or _own_problem(trace)
    except UnusableRowError:
        return trace.model_copy(update={"status": _NO_PROBLEM, "accepted": False})
    task = task_named(problem.task)
    if not isinstance(task, PreparesData):
        raise InputError(f"The task {problem.task!r} of {trace.task_id} has no tests that accept traces")
    text = trace.full_response
    if not text.strip() and trace.code.strip():
        thinking = f"<think>\n{trace.thinking}\n</think>\n\n" if trace.thinking else ""
        text = f"{thinking}```python\n{trace.code}\n```"
    is_apart = trace.thinking is not None and trace.thinking not in text
    completion = Completion(text=text, reasoning=trace.thinking if is_apart else None)
    candidate = task.parse(completion, problem)
    scored = scored_fields(task, problem, candidate)
    if isinstance(scored, Fault):
        raise ScaffoldError(
            f"The tests of {trace.task_id} could not be run",
            why=scored.message,
            fix="Run python -m grpo_training.doctor to find out why.",
        )
    return trace.model_copy(
        update={
            "thinking": task.thinking(completion),
            "full_response": text,
            "messages": generator_messages(task, problem, (), style),
            "prompt_hash": prompt_hash(task, style),
            **scored,
        }
    )


def _own_problem(trace: TeacherTrace) -> Problem:
    row = trace.model_dump(include={"dataset", "task_id", "prompt", "test_list", "test_setup_code", "difficulty"})
    task = task_of_row(row)
    if task is None or not trace.test_list:
        raise UnusableRowError(_NO_PROBLEM, "the trace has no tests")
    return task.problem_from_row(row, trace.task_id)


def _canonical(code: str) -> str:
    task = task_of_row({"test_list": []})
    return task.canonical(code) if isinstance(task, PreparesData) else code
