import pytest
from transformers import AutoTokenizer

from engine.errors import InputError
from engine.tasks.registry import task_named
from grpo_training import (
    SYSTEM_PROMPT_UNIFIED,
    compute_reward,
    extract_function_from_code,
    extract_thinking_and_code_unified,
    get_unified_prompt,
    prepare_teacher_sft_batch,
)
from grpo_training.agents.generator import generator_messages
from tests.conftest import ROOT

REPLY = "<think>\n1 is no prime.\n</think>\n\n```python\ndef is_prime(n):\n    return n > 1\n```"
TESTS = ["assert is_prime(1) == False", "assert is_prime(5) == True", "assert is_prime(4) == False"]


def test_prompt_and_reader_are_those_of_the_task():
    row = {"task_id": "1", "prompt": "Is n a prime?", "test_list": TESTS}
    task = task_named("code")
    system, user = generator_messages(task, task.problem_from_row(row, "here"), (), "full")
    assert (SYSTEM_PROMPT_UNIFIED, get_unified_prompt("Is n a prime?", TESTS)) == (system.content, user.content)
    assert "<think>" in get_unified_prompt("Is n a prime?")
    assert "解决以下问题" in get_unified_prompt("n 是质数吗?", style="zh")
    code = "def is_prime(n):\n    return n > 1"
    assert extract_thinking_and_code_unified(REPLY) == {"thinking": "1 is no prime.", "code": code}
    assert extract_function_from_code(REPLY) == code
    assert extract_function_from_code("I do not know.") == ""


def test_the_reward_is_that_of_training():
    code = extract_function_from_code(REPLY)
    assert compute_reward(code, TESTS) == pytest.approx(0.25 * (1 / 2) / 0.75)  # of two tests that are not shown
    assert compute_reward(code, TESTS[:2]) == 1.0
    assert compute_reward("def is_prime(n):\n    return 1 / 0", TESTS) == 0.0


PROGRAMS = [
    'def f(n):\n    """\n    ```python\n    f(2)\n    ```\n    """\n    return n * n',
    'def f(n):\n    tag = "</think>"\n    return n * n',
    'def f(n):\n    tag = "<think>"\n    return n * n',
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_is_run_as_it_is_whatever_its_strings_hold(program):
    assert compute_reward(program, ["assert f(2) == 4", "assert f(3) == 9"]) == 1.0


def test_without_tests_nothing_is_paid():
    assert compute_reward("x = 1", []) is None
    for empty in ("", "  ", "# nothing"):
        with pytest.raises(InputError, match="every program would pass it"):
            compute_reward("x = 1", [empty])


def test_labels_are_the_reply_alone():
    tokenizer = AutoTokenizer.from_pretrained(ROOT / "data/models/pocket")
    examples = [
        {"prompt": "Is n a prime?", "thinking": "1 is no prime.", "code": "def is_prime(n):\n    return n > 1"},
        {"prompt": "Add.", "thinking": "", "code": "add = sum"},
    ]
    batch = prepare_teacher_sft_batch(examples, tokenizer)
    assert batch["input_ids"].shape == batch["labels"].shape == batch["attention_mask"].shape
    for row, example in enumerate(examples):
        kept = batch["labels"][row] != -100
        assert (batch["labels"][row][kept] == batch["input_ids"][row][kept]).all()
        target = tokenizer.decode(batch["labels"][row][kept])
        assert example["code"] in target
        assert example["prompt"] not in target
        assert example["prompt"] in tokenizer.decode(batch["input_ids"][row][~kept])
        assert not kept[batch["attention_mask"][row] == 0].any()
    assert "1 is no prime." in tokenizer.decode(batch["input_ids"][0])
    without = prepare_teacher_sft_batch(examples, tokenizer, include_thinking=False)
    assert "1 is no prime." not in tokenizer.decode(without["input_ids"][0])
