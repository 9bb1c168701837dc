"""The four phases on programs, offline: data, a teacher's traces, training from both sources, pass@k.

A server stands in for the teacher and for the tuned model's replies; the model that is trained is the shipped one,
which cannot program, so what is asserted is that the right programs become likelier and the wrong ones less likely.
"""

import json

import pytest

from engine.datasets import load_problems
from grpo_training import generate_teacher_traces, generator1, prepare_data
from grpo_training.evaluate.__main__ import main as evaluate
from grpo_training.train import __main__ as train
from tests.conftest import ROOT
from tests.support.analyst import NO_LESSON, for_analyst
from tests.support.fault_server import chat_app, serve_in_thread

pytestmark = pytest.mark.timeout(300)

WORDS = ("add", "gap", "times", "less", "most", "least", "sum3", "halve")
CODE = {name: f"def {name}(x):\n    return {number} * x + {number}" for number, name in enumerate(WORDS, 2)}


def rows():
    for number, (name, code) in enumerate(CODE.items(), 2):
        asserts = [f"assert {name}({x}) == {number * x + number}" for x in (0, 1, 7)]
        text = f"Write the function number{number} about {name}, kind{number}, item{number}."
        yield {"task_id": 600 + number, "text": text, "code": code, "test_list": asserts, "test_setup_code": ""}


def fenced(code):
    return f"<think>easy</think>\n```python\n{code}\n```"


def named(body):
    asked = body["messages"][-1]["content"]
    return next(name for name in WORDS if f" {name}," in asked)


def teacher(body, index):
    """Three right replies in four, of two kinds."""
    name = named(body)
    code = CODE[name] if index % 2 else CODE[name].replace("return", "y =") + "\n    return y"
    return fenced(code if index % 4 else f"def {name}(x):\n    return None")


def student(body, index):
    """Now right, now wrong."""
    if for_analyst(body):
        return NO_LESSON
    return fenced(CODE[named(body)] if index % 2 else f"def {named(body)}(x):\n    return -1")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("SCAFFOLD_DATA", str(tmp_path))
    (tmp_path / "mbpp.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows()))
    return tmp_path


def configure(folder, url, *roles):
    path = folder / "api.json"
    path.write_text(json.dumps({role: {"api_key": "EMPTY", "base_url": url, "model": role} for role in roles}))
    return ["--api-config", str(path), "--cache-dir", str(folder / "cache")]


def test_the_four_phases(place, capsys):
    torch = pytest.importorskip("torch")
    pytest.importorskip("peft")

    # 1. Data.
    assert prepare_data.main(["--skip_apps", "--output_dir", str(place), "--seed", "3"]) == 0
    problems = load_problems(str(place / "train.jsonl"))
    held_out = load_problems(str(place / "val.jsonl"))
    assert len(problems) + len(held_out) == len(CODE)

    # 2. The teacher's traces, executed before they are accepted.
    traces = place / "traces.jsonl"
    with serve_in_thread(chat_app(teacher)) as url:
        flags = configure(place, url, "teacher")
        arguments = ["--train_data", str(place / "train.jsonl"), "--output", str(traces), "--num_samples", "4"]
        assert generate_teacher_traces.main([*arguments, "--prompts", "compact", *flags]) == 0
    kept = [json.loads(line) for line in traces.read_text().splitlines()]
    assert len(kept) == 4 * len(problems)
    assert sum(row["accepted"] for row in kept) == 2 * len(problems)
    assert not any(row["accepted"] for row in kept if "return None" in row["code"])

    # 3. The policy's own rollouts, and the training on both.
    with serve_in_thread(chat_app(student)) as url:
        flags = [*configure(place, url, "generator_1"), "--experiences-dir", str(place / "experiences")]
        asked = ["--dataset", str(place / "train.jsonl"), "--rollouts", "4", "--prompts", "compact"]
        assert generator1.main([*asked, *flags]) == 0
    out = place / "run"
    code = train.main(
        [
            *("--config", str(ROOT / "grpo_training/configs/code_dual_source.yaml"), "--prompts", "compact"),
            *("--model-path", str(ROOT / "data/models/pocket"), "--dataset-path", str(place / "cache")),
            *("--teacher-traces", str(traces)),
            *("--output-dir", str(out), "--learning-rate", "1e-3", "--warmup-steps", "0", "--lora-rank", "8"),
            *("--batch-size", "16", "--gradient-accumulation-steps", "1", "--num-epochs", "2"),
            *("--no-bf16", "--no-gradient-checkpointing", "--validation-share", "0"),
        ]
    )
    assert code == 0
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    for term in ("loss/grpo", "loss/teacher_sft", "loss/self_sft"):
        assert all(line[term] is not None for line in lines), term
    assert lines[-1]["loss/teacher_sft"] < lines[0]["loss/teacher_sft"]
    before, after = (margins(torch, folder, problems) for folder in (ROOT / "data/models/pocket", out / "merged"))
    assert sum(after) > sum(before) + 1.0  # in nats a problem: the right program gained on the wrong one
    assert all(now > then for now, then in zip(after, before, strict=True))

    # 4. pass@k on what was held out.
    with serve_in_thread(chat_app(student)) as url:
        flags = configure(place, url, "generator_1")[:2]
        result = place / "evaluation.json"
        asked = ["--role", "generator_1", "--dataset", str(place / "val.jsonl"), "--prompts", "compact"]
        assert evaluate([*asked, "--num_samples", "4", "--k_values", "1 2", "--output", str(result), *flags]) == 0
    figures = json.loads(result.read_text())
    assert figures["pass_at_k"] == {"1": 0.5, "2": pytest.approx(1 - 1 / 6)}  # 2 of 4 right: 1 - C(2,2)/C(4,2)
    assert "pass@  1: 0.5000 (50.00%)" in capsys.readouterr().out


def margins(torch, folder, problems):
    """By how much, in nats, the model prefers each problem's right program to the wrong one."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from engine.tasks.registry import task_named
    from grpo_training.agents.generator import generator_messages
    from grpo_training.train.data.tokenising import ChatTokens

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    chat = ChatTokens(AutoTokenizer.from_pretrained(folder))

    def logp(problem, text):
        prompt = chat.prompt(generator_messages(task_named(problem.task), problem, (), "compact"))
        reply = chat.completion(text, truncated=False)
        with torch.no_grad():
            logits = model(torch.tensor([[*prompt, *reply]])).logits[0, len(prompt) - 1 : -1]
        return logits.log_softmax(-1).gather(-1, torch.tensor(reply)[:, None]).sum().item()

    differences = []
    for problem in problems:
        name = json.loads(problem.answer)["entry_point"]
        differences.append(logp(problem, fenced(CODE[name])) - logp(problem, fenced(f"def {name}(x):\n    return -1")))
    return differences
