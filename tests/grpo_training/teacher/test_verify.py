import json

import pytest

from engine.errors import InputError
from grpo_training import generate_teacher_traces, verify_teacher_traces
from grpo_training.train.data.chats import load_chats
from grpo_training.train.data.samples import DropReport
from grpo_training.train.data.teacher_samples import load_teacher_samples
from grpo_training.train.models.tokenizer import load_tokenizer
from tests.conftest import ROOT

TESTS = ["assert add(1, 2) == 3", "assert add(0, 0) == 0", "assert add(-1, 1) == 0"]
RIGHT = "def add(a, b):\n    return a + b"
WRONG = "def add(a, b):\n    return 3"


def trace(name, code, *, reply=None, thinking="sum them", **fields):
    """The nine keys of a trace of another program."""
    return {
        "task_id": name,
        "dataset": "mbpp",
        "prompt": "Write a function to add two numbers.",
        "thinking": thinking,
        "code": code,
        "full_response": f"<think>{thinking}</think>\n```python\n{code}\n```" if reply is None else reply,
        "teacher_metadata": {"model": "Qwen/Qwen3-32B-FP8", "usage": {}, "temperature": 0.7},
        "test_list": TESTS,
        "test_setup_code": "",
        **fields,
    }


FOREIGN = [
    trace("1", RIGHT),
    trace("1", WRONG, accepted=True, status="ok"),  # what it says of itself does not count
    trace("2", RIGHT, reply=""),
    trace("2", RIGHT + "  # again"),
    trace("3", RIGHT, test_list=[]),
    trace("4", "", reply="I do not know."),
]


@pytest.fixture
def verified(tmp_path):
    (tmp_path / "foreign.jsonl").write_text("".join(json.dumps(row) + "\n" for row in FOREIGN))
    flags = ["--traces", str(tmp_path / "foreign.jsonl"), "--output", str(tmp_path / "traces.jsonl")]
    assert verify_teacher_traces.main([*flags, "--prompts", "compact"]) == 0
    return tmp_path / "traces.jsonl"


def config(path, **changes):
    from grpo_training.train.config import GRPOTrainingConfig

    fields = {"model_path": str(ROOT / "data/models/pocket"), "dataset_path": path, "prompts": "compact"}
    return GRPOTrainingConfig(**fields, mode="sft", validation_share=0, **changes)


def test_each_trace_is_executed_and_accepted_or_rejected(verified, capsys):
    rows = [json.loads(line) for line in verified.read_text().splitlines()]
    assert [(row["task_id"], row["rejected"] or "accepted") for row in rows] == [
        ("1", "accepted"),
        ("1", "wrong_answer"),
        ("2", "accepted"),
        ("2", "duplicate"),
        ("3", "no_problem"),
        ("4", "no_code"),
    ]
    assert rows[0]["verdict"] == {"passed": 3, "total": 3, "status": "pass"}
    assert rows[1]["verdict"] == {"passed": 1, "total": 3, "status": "wrong_answer"}
    assert [row["sample_idx"] for row in rows] == [0, 1, 0, 1, 0, 0]
    assert rows[0]["teacher_metadata"]["model"] == "Qwen/Qwen3-32B-FP8"
    with pytest.raises(InputError, match="is there already"):
        verify_teacher_traces.main(["--traces", str(verified), "--output", str(verified)])


def test_lines_that_cannot_be_read_are_one_counted_line(tmp_path, capsys):
    path = tmp_path / "foreign.jsonl"
    path.write_text("{\n" + json.dumps({"task_id": "1"}) + "\n" + json.dumps(FOREIGN[0]) + "\n{")
    flags = ["--traces", str(path), "--prompts", "compact", "--output"]
    assert verify_teacher_traces.main([*flags, str(tmp_path / "traces.jsonl")]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if str(path) in line]
    assert lines == [lines[0]]
    assert lines[0].startswith(f"unreadable lines, left out: 3, such as {path}:1: not JSON")
    path.write_text("{\n")
    with pytest.raises(InputError, match=r"has no traces\n.*unreadable lines, left out: 1"):
        verify_teacher_traces.main([*flags, str(tmp_path / "none.jsonl")])


def test_accepted_traces_are_imitated_and_are_chats_for_supervised_training(verified):
    settings = config(verified)
    tokenizer = load_tokenizer(settings)
    imitated = load_teacher_samples(tokenizer, settings.model_copy(update={"teacher_traces": verified}), DropReport())
    chats = load_chats(settings)
    assert [sample.completion_ids for (sample,) in chats.groups] == [sample.completion_ids for sample in imitated]
    assert len(imitated) == 2
    assert RIGHT in tokenizer.decode(imitated[0].completion_ids)
    assert str(chats.report).split() == "left out 4 traces: not accepted by the tests".split()


def test_traces_that_were_never_executed_here_are_not_imitated(tmp_path):
    path = tmp_path / "foreign.jsonl"
    path.write_text(json.dumps(FOREIGN[0]) + "\n")
    with pytest.raises(InputError, match="can be imitated") as raised:
        load_teacher_samples(load_tokenizer(config(path)), config(path, teacher_traces=path), DropReport())
    assert "never executed here" in raised.value.why
    assert "verify_teacher_traces" in raised.value.fix


def test_traces_are_not_added_to_the_file_of_the_problems(tmp_path):
    data = tmp_path / "train.jsonl"
    data.write_text("kept")
    with pytest.raises(InputError, match="--output must be another file than --train-data"):
        generate_teacher_traces.main(["--train-data", str(data), "--output", str(data), "--fresh"])
    assert data.read_text() == "kept"
