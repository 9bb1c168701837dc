"""The doctor's look at programs: reading replies, training labels, execution, and the sandbox under attack."""

from __future__ import annotations

import importlib.util
import os
import socket
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.tasks.code.reply import ReplyStatus, extract
from grpo_training.cli.settings import POCKET_MODEL, ROOT, WORKING_DIR
from grpo_training.doctor_checks.results import failed, passed, skipped, verdict, warned
from grpo_training.teacher.connection import SMALL_PROBLEM, small_problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo_training.doctor_checks.results import Finding

_REINSTALL = "This is a fault of this checkout: compare it with its repository (git status)."
_STRONGER = "apt-get install bubblewrap; in a container, allow it to make user namespaces."

_RIGHT = str(SMALL_PROBLEM["canonical_solution"])
_WRONG = "def sum_of_even(numbers):\n    return sum(numbers)\n"
_RIGHT_REPLY = f"<think>\nKeep the numbers that 2 divides.\n</think>\n\n```python\n{_RIGHT}```\n"


# ------------------------------------------------------------------ reading


@dataclass(frozen=True)
class _Canned:
    """A reply and what must be read from it."""

    name: str
    text: str
    status: ReplyStatus
    code: str | None = "f = 1"
    thinking: str | None = None
    reasoning: str | None = None
    entry_point: str | None = None


_BLOCK = "```python\nf = 1\n```"
_DRAFT = "```python\nf = 0\n```"
_CANNED = (
    _Canned("thinking and code", f"<think>\nwhy\n</think>\n\n{_BLOCK}", ReplyStatus.OK, thinking="why"),
    _Canned("upper-case tags", f"<THINK>why</THINK>{_BLOCK}", ReplyStatus.OK, thinking="why"),
    _Canned("code alone", _BLOCK, ReplyStatus.OK),
    _Canned("no fence", "f = 1", ReplyStatus.OK),
    _Canned("untagged fence", "So:\n```\nf = 1\n```", ReplyStatus.OK),
    _Canned("reasoning in a field of its own", _BLOCK, ReplyStatus.OK, thinking="why", reasoning="why"),
    _Canned("only a closing tag, a draft before it", f"why {_DRAFT} </think>\n{_BLOCK}", ReplyStatus.OK,
            thinking=f"why {_DRAFT}"),
    _Canned("thinking that never ends", f"<think> why\n{_DRAFT}", ReplyStatus.UNCLOSED_THINK, None,
            thinking=f"why\n{_DRAFT}"),
    _Canned("a usage example after the solution", f"{_BLOCK}\nUse it:\n```python\nprint(f + 1 + 1)\n```",
            ReplyStatus.OK, entry_point="f"),
    _Canned("prose only", "I cannot help with that.", ReplyStatus.NO_CODE, None),
    _Canned("broken Python", "```python\nf = (\n```", ReplyStatus.SYNTAX_ERROR, "f = ("),
)  # fmt: skip


def extraction() -> Iterator[Finding]:
    """The one extractor on canned replies."""
    for case in _CANNED:
        read = extract(case.text, case.reasoning, case.entry_point)
        code = read.code.strip() if read.code else None
        is_right = (read.status, code, read.thinking) == (case.status, case.code, case.thinking)
        found = f"status {read.status}, code {code!r}, thinking {read.thinking!r}"
        yield passed(f"{case.name}: {case.status}") if is_right else failed(f"{case.name}: {found}", _REINSTALL)


# ------------------------------------------------------------------ execution


def execution() -> Iterator[Finding]:
    """A right reply earns all tests and reward 1.0, a wrong one does not, by the path that training takes."""
    from engine.records import Completion
    from engine.task import task_named

    problem = small_problem()
    task = task_named(problem.task)
    for name, reply, expected in (("right", _RIGHT_REPLY, 1.0), ("wrong", _RIGHT_REPLY.replace(_RIGHT, _WRONG), 0.0)):
        measured = task.evaluate(task.parse(Completion(text=reply), problem), problem)
        reward = measured.components.get("r_ans")
        tests = f"{measured.detail.get('passed', 0)} of {measured.detail.get('total', 0)} tests pass"
        why = f" ({measured.detail['why']})" if "why" in measured.detail else ""
        yield verdict(
            reward == expected,
            f"a {name} program: {tests}, reward {reward}{why}",
            "See docs/code_task.md for what the sandbox needs; bubblewrap or user namespaces must be allowed.",
        )


# ------------------------------------------------------------------ labels


def labels() -> Iterator[Finding]:
    """What the fine-tune learns from a row: the reply to its end, and nothing of the prompt or the padding."""
    for package in ("torch", "transformers"):
        if importlib.util.find_spec(package) is None:
            yield skipped(f"{package} is not installed (make finetune)")
            return
    from agents.generator import generator_messages
    from engine.task import task_named
    from grpo_training.finetune.config import GRPOTrainingConfig
    from grpo_training.finetune.data.batches import collate
    from grpo_training.finetune.data.samples import TrainingGroup, TrainingResponse
    from grpo_training.finetune.data.tokenising import ChatTokens, tokenise_groups
    from grpo_training.finetune.tokenizer import load_tokenizer

    problem = small_problem()
    messages = generator_messages(task_named(problem.task), problem)
    replies = (TrainingResponse(_RIGHT_REPLY, 1.0), TrainingResponse("```python\npass\n```", 0.0))
    pocket = str(POCKET_MODEL)
    config = GRPOTrainingConfig.model_validate(
        {"model_name_or_path": pocket, "dataset_path": WORKING_DIR / "data", "max_seq_length": 4096}
    )
    tokenizer = load_tokenizer(config)
    group = TrainingGroup("doctor", problem.id, problem.task, messages, replies)
    [samples], _ = tokenise_groups([group], tokenizer, config)
    batch = collate(samples, tokenizer.pad_token_id)
    end = tokenizer.decode([ChatTokens(tokenizer).end_of_turn])
    turns = [message.model_dump() for message in messages]
    prompt = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    for row, response in enumerate(replies):
        start, marked = int(batch.completion_start_B[row]), batch.mask_BC[row]
        ids = batch.input_ids_BT[row].tolist()
        unlabelled = tokenizer.decode(ids[:start])
        labelled = [ids[start + place] for place, is_label in enumerate(marked.tolist()) if is_label]
        name = "the longer row" if row == 0 else "the padded row"
        yield verdict(unlabelled == prompt, f"{name}: the {start} tokens of the prompt are no labels", _REINSTALL)
        yield verdict(
            tokenizer.decode(labelled) == response.text + end,
            f"{name}: its {len(labelled)} labels decode to the reply and its end, without padding",
            _REINSTALL,
        )


# ------------------------------------------------------------------ attacks


@dataclass(frozen=True)
class _Attack:
    """A program that wants ``f(2) == 4`` to pass without doing it. ``by_isolation``: limits alone cannot stop it."""

    name: str
    program: str
    by_isolation: bool = False


_ATTACKS = (
    _Attack(
        "a value that is equal to everything",
        "class E:\n"
        "    def __eq__(self, other): return True\n"
        "    def __hash__(self): return hash(4)\n"
        "def f(x): return E()\n",
    ),
    _Attack("an int that is equal to everything", "class E(int):\n    def __eq__(self, other): return True\n"
            "def f(x): return E(5)\n"),
    _Attack("leaving with exit code 0", "import os\ndef f(x): os._exit(0)\n"),
    _Attack("patched builtins", "import builtins\nbuiltins.exec = builtins.compile = lambda *a, **k: None\n"
            "builtins.all = lambda *a: True\ndef f(x): return 5\n"),
    _Attack("a verdict written to every open file", "import os\ndef f(x):\n    for fd in range(256):\n"
            "        try: os.write(fd, b'{\"status\": \"pass\", \"result\": 4}\\n')\n"
            "        except OSError: pass\n    os._exit(0)\n"),
    _Attack("the expected value looked up in the caller's frames", "import gc, sys\ndef f(x):\n"
            "    frame = sys._getframe()\n    while frame:\n"
            "        for scope in (frame.f_locals, frame.f_globals):\n"
            "            for key in ('expected', 'test', 'tests'):\n"
            "                value = scope.get(key)\n"
            "                if value is not None: return getattr(value, 'expected', value)\n"
            "        frame = frame.f_back\n    return 5\n"),
    _Attack("an endless loop that catches everything", "def f(x):\n    while True:\n"
            "        try:\n            while True: pass\n        except BaseException: pass\n"),
    _Attack("more memory than there is", "def f(x):\n    hoard = bytearray(1 << 36)\n    return 5\n"),
    _Attack("a flood of output", "def f(x):\n    while True: print('x' * 65536)\n"),
    _Attack("a hundred processes", "import os\ndef f(x):\n    made = 0\n    for _ in range(100):\n"
            "        try:\n            pid = os.fork()\n        except OSError:\n            break\n"
            "        if pid == 0:\n            import time\n            time.sleep(60)\n            os._exit(0)\n"
            "        made += 1\n    return 4 if made == 100 else 5\n"),
)  # fmt: skip


def attacks() -> Iterator[Finding]:
    """Programs that try to pass without being right, or to reach what is none of their business."""
    from engine.sandbox.zygote_process import strongest_level

    control = _run("def f(x): return x * 2\n")
    yield verdict(control == "pass", f"an honest program: {control}", "See the section Execution.")
    jailed = strongest_level() != "rlimits"
    with _listening() as port, _planted_name() as name:
        reached = (
            _Attack("a connection to this machine", _connecting(port)),
            _Attack("a file of this checkout", _reading(str(ROOT / "pyproject.toml")), by_isolation=True),
            _Attack("the environment of this process", _looking_up(name), by_isolation=True),
        )
        for attack in (*_ATTACKS, *reached):
            start = time.monotonic()
            status = _run(attack.program)
            text = f"{attack.name}: {status} after {time.monotonic() - start:.1f} s"
            if status in ("pass", "infra_error"):
                weak = attack.by_isolation and status == "pass" and not jailed
                yield (
                    warned(f"{text} (isolation {strongest_level()})", _STRONGER)
                    if weak
                    else failed(
                        text, "Do not run model-written code on this machine before this is mended. " + _STRONGER
                    )
                )
            else:
                yield passed(text)


def _run(program: str) -> str:
    from engine.sandbox.program_process import Limits
    from engine.tasks.code.program_tests import CallTest
    from engine.tasks.code.tester import shared_tester

    limits = Limits(time_s=1.0, memory_mb=512, total_s=5.0)
    [status] = shared_tester().run(program, [CallTest("f", (2,), {}, 4)], entry_point="f", limits=limits).statuses
    return str(status)


@contextmanager
def _listening() -> Iterator[int]:
    """A port of this machine that takes connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@contextmanager
def _planted_name() -> Iterator[str]:
    """A variable in this process's environment, as a key would be."""
    name = "DOCTOR_PLANTED_KEY"
    os.environ[name] = "seen"
    try:
        yield name
    finally:
        del os.environ[name]


def _connecting(port: int) -> str:
    return (
        "import socket\ndef f(x):\n    try:\n"
        f"        socket.create_connection(('127.0.0.1', {port}), 0.5).close()\n"
        "        return 4\n    except OSError:\n        return 5\n"
    )


def _reading(path: str) -> str:
    return (
        f"def f(x):\n    try:\n        open({path!r}).read()\n        return 4\n    except OSError:\n        return 5\n"
    )


def _looking_up(name: str) -> str:
    return (
        "import os\ndef f(x):\n"
        f"    if {name!r} in os.environ: return 4\n"
        "    try:\n"
        "        parent = open(f'/proc/{os.getppid()}/environ', 'rb').read()\n"
        "    except OSError:\n        parent = b''\n"
        f"    return 4 if {name.encode()!r} in parent else 5\n"
    )
