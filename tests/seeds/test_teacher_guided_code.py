"""The document about teacher-guided GRPO on MBPP and APPS: four phases from one configuration, and its examples."""

import json

import pytest
import yaml
from transformers import AutoTokenizer

from grpo_training import (
    SYSTEM_PROMPT_UNIFIED,
    compute_reward,
    extract_function_from_code,
    extract_thinking_and_code_unified,
    generate_teacher_traces,
    get_unified_prompt,
    prepare_data,
    prepare_teacher_sft_batch,
    verify_teacher_traces,
)
from grpo_training.evaluate.__main__ import main as evaluate
from tests.conftest import ROOT
from tests.support.fault_server import chat_app, serve_in_thread

pytest.importorskip("trl")
from grpo_training.train import __main__ as train

pytestmark = pytest.mark.timeout(300)

RESPONSE = """
<think>
检查质数:
1. n <= 1 不是质数
2. 检查到sqrt(n)
</think>

```python
def is_prime(n):
    if n <= 1:
        return False
    return all(n % d for d in range(2, int(n**0.5) + 1))
```
"""
"""The example of the document; where that has an ellipsis, the program goes on."""

NAMES = ("add", "gap", "times", "less", "most", "least", "sum3", "halve", "twice", "cube", "plus9", "minus")
CODE = {name: f"def {name}(x):\n    return {number} * x + {number}" for number, name in enumerate(NAMES, 2)}


def mbpp_rows():
    for number, name in enumerate(NAMES, 2):
        asserts = [f"assert {name}({x}) == {number * x + number}" for x in (0, 1, 7)]
        text = f"Write the function number{number} about {name}, kind{number}, item{number}."
        yield {"task_id": 600 + number, "text": text, "code": CODE[name], "test_list": asserts, "test_setup_code": ""}


def teacher(body, index):
    """Of two samples one is right."""
    asked = body["messages"][-1]["content"]
    code = next((CODE[name] for name in NAMES if f" {name}," in asked), "def add(a, b):\n    return a + b")
    return f"<think>easy</think>\n```python\n{code if index % 2 == 0 else 'x = 1'}\n```"


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("SCAFFOLD_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mbpp.jsonl").write_text("".join(json.dumps(row) + "\n" for row in mbpp_rows()))
    return tmp_path


def configuration(url):
    """The sections of ``config.py``, as YAML."""
    return {
        "teacher": {
            "api_url": f"{url}/chat/completions",
            "model_name": "Qwen/Qwen3-32B-FP8",
            "temperature": 0.7,
            "top_p": 0.8,
            "presence_penalty": 1.5,
            "enable_thinking": True,
            "num_samples_per_problem": 8,
            "max_concurrent_requests": 32,
        },
        "student": {"model_name": str(ROOT / "data/models/pocket"), "torch_dtype": "bfloat16"},
        "lora": {"r": 64, "lora_alpha": 128, "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj"]},
        "grpo": {"kl_coef": 0.05, "clip_range": 0.2, "num_samples_per_prompt": 4},
        "dual_source": {"grpo_weight": 1.0, "teacher_sft_weight": 0.3, "self_sft_weight": 0.2},
        "training": {
            "num_train_epochs": 3,
            "per_device_train_batch_size": 2,
            "gradient_accumulation_steps": 8,
            "learning_rate": 5e-5,
        },
        "evaluation": {"num_samples": 2},
    }


def test_the_phases_from_one_file(place, capsys):
    assert prepare_data.main(["--skip_apps", "--config", "/dev/null", "--output_dir", "data"]) == 0
    train_rows, val_rows = (place / f"data/{name}.jsonl" for name in ("train", "val"))
    counts = [len(path.read_text().splitlines()) for path in (train_rows, val_rows)]
    assert sum(counts) == 12

    with serve_in_thread(app := chat_app(teacher)) as url:
        (place / "config.yaml").write_text(yaml.safe_dump(configuration(url)))
        online = ["--mode", "online", "--dataset", "data/train.jsonl", "--no-bf16", "--prompts", "compact"]
        assert train.main(["--config", "config.yaml", *online, "--dry-run"]) == 0
        loss = "1 dapo, beta 0.05, 0.3 teacher-SFT without effect (no traces: pass --teacher-traces FILE"
        printed = capsys.readouterr().out
        assert loss in printed
        assert "), 0.2 self-SFT\n" in printed
        shared = ["--config", "config.yaml", "--cache-dir", "cache"]
        assert generate_teacher_traces.main([*shared, "--test_connection"]) == 0
        few = ["--prompts", "compact", "--max_tasks", "5", "--num_samples", "2"]
        files = ["--train-data", "data/train.jsonl", "--output", "data/teacher_traces.jsonl"]
        assert generate_teacher_traces.main([*shared, *few, *files]) == 0
        sent = app["seen"][-1].body
        assert (sent["presence_penalty"], sent["top_p"], sent["model"]) == (1.5, 0.8, "Qwen/Qwen3-32B-FP8")
        assert sent["chat_template_kwargs"] == {"enable_thinking": True}
        out = capsys.readouterr()
        assert "Total responses:               10" in out.out
        assert "Accepted:                      5 (50.0%)" in out.out
        assert "not read here, as they belong to other commands: dual_source, evaluation" in out.err

        traces = ["--teacher-traces", "data/teacher_traces.jsonl"]
        assert train.main(["--config", "config.yaml", *online, *traces, "--dry-run"]) == 0
        printed = capsys.readouterr().out
        assert "loss             1 dapo, beta 0.05, 0.3 teacher-SFT (5 traces), 0.2 self-SFT\n" in printed
        assert train.main(["--config", "config.yaml", *online, "--dry-run"]) == 0  # the default output of the traces
        shown = capsys.readouterr().out
        assert "loss             1 dapo, beta 0.05, 0.3 teacher-SFT (5 traces), 0.2 self-SFT\n" in shown
        assert "teacher traces   data/teacher_traces.jsonl\n" in shown
        with pytest.raises(Exception, match=r"none\.jsonl"):
            train.main(["--config", "config.yaml", *online, "--teacher-traces", "none.jsonl", "--dry-run"])
        sft = ["--mode", "sft", "--dataset-path", "data/teacher_traces.jsonl", "--prompts", "compact", "--no-bf16"]
        assert train.main(["--config", "config.yaml", *sft, "--validation-share", "0", "--dry-run"]) == 0
        assert "5 chats; held out: 0" in capsys.readouterr().out

        scored = ["--base-url", url, "--model", "student", "--dataset", "data/val.jsonl", "--k-values", "1", "2"]
        assert evaluate(["--config", "config.yaml", *scored, "--output", "outputs/evaluation_results.json"]) == 0
    results = json.loads((place / "outputs/evaluation_results.json").read_text())
    assert results["pass_at_k"] == {"1": 0.5, "2": 1.0}  # one of two samples is right
    assert "pass@  1: 0.5000 (50.00%)" in capsys.readouterr().out


def test_traces_of_the_documents_own_program_are_executed(place):
    rows = list(mbpp_rows())[:2]
    keys = [
        {
            "task_id": str(row["task_id"]),
            "dataset": "mbpp",
            "prompt": row["text"],
            "thinking": "easy",
            "code": code,
            "full_response": f"<think>easy</think>\n```python\n{code}\n```",
            "teacher_metadata": {},
            "test_list": row["test_list"],
            "test_setup_code": "",
        }
        for row, code in zip(rows, (rows[0]["code"], "def gap(x):\n    return 0"), strict=True)
    ]
    (place / "theirs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in keys))
    assert verify_teacher_traces.main(["--traces", "theirs.jsonl", "--output", "traces.jsonl"]) == 0
    decided = [json.loads(line)["rejected"] for line in (place / "traces.jsonl").read_text().splitlines()]
    assert decided == ["", "wrong_answer"]


def test_the_examples_of_the_document():
    assert "<think>" in get_unified_prompt("写一个函数", style="zh")
    assert "解决以下问题" in get_unified_prompt("写一个函数", style="zh")
    assert "```python" in SYSTEM_PROMPT_UNIFIED
    parsed = extract_thinking_and_code_unified(RESPONSE)
    assert parsed["thinking"].startswith("检查质数:\n1. n <= 1")
    assert parsed["code"].startswith("def is_prime(n):\n    if n <= 1:")
    code = extract_function_from_code(RESPONSE)
    assert code == parsed["code"]
    tests = [f"assert is_prime({n}) == {n in (2, 3, 5, 7, 11)}" for n in range(12)]
    assert compute_reward(code, tests) == 1.0
    tokenizer = AutoTokenizer.from_pretrained(ROOT / "data/models/pocket")
    batch = prepare_teacher_sft_batch(
        teacher_examples=[{"prompt": "问题描述", "thinking": "推理过程", "code": "代码 = 1"}],
        tokenizer=tokenizer,
        include_thinking=True,
    )
    labels = batch["labels"][0].tolist()
    prompt = labels.count(-100)
    assert labels[:prompt] == [-100] * prompt
    learned = tokenizer.decode(labels[prompt:])
    assert "推理过程" in learned
    assert "问题描述" not in learned
