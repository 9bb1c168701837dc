"""The ablation: its table and its teacher traces."""

import pytest

from engine.datasets import load_problems
from engine.records import Completion
from engine.tasks.registry import task_named
from grpo_training.demo.variants import PLAIN, VariantResult, table
from grpo_training.pocket.corpus import reference_traces
from grpo_training.train.config import load_config
from grpo_training.train.data.teacher_samples import load_teacher_samples
from tests.conftest import ROOT


def test_a_variant_is_compared_with_grpo_alone_on_the_same_problems():
    plain = VariantResult({"a": [0.0, 0.0], "b": [1.0, 0.0]}, kl=[0.1, 0.3], seconds=[10, 20])
    better = VariantResult({"a": [1.0, 1.0], "b": [1.0, 1.0]}, kl=[0.2, 0.2], seconds=[30, 30])
    rows = [line.split(" | ") for line in table({PLAIN: plain, "better": better}).splitlines()[2:]]
    assert rows[0][1].startswith("25.0% (")
    assert rows[0][2:] == ["-", "0.100 to 0.300", "15 |"]
    assert rows[1][1] == "100.0% (34.2% to 100.0%)"  # Wilson's interval of 2 of 2: from 2 / (2 + 1.96 ** 2)
    assert rows[1][2].startswith("+75.0 (")  # two problems: differences 1 and 0.5, t quantile 12.7, so 0 is inside
    assert rows[1][2].endswith("may be chance")


def test_the_teacher_of_the_ablation_is_right():
    problems = {problem.id: problem for problem in load_problems("quickstart")}
    traces = reference_traces("quickstart", 240)
    assert len(traces) == 240
    for trace in traces[::12]:
        problem = problems[trace.task_id]
        task = task_named(problem.task)
        assert task.evaluate(task.parse(Completion(text=trace.full_response), problem), problem).is_correct
        assert problem.text in trace.messages[-1].content


def test_the_fine_tune_accepts_the_traces(tmp_path):
    transformers = pytest.importorskip("transformers")
    path = tmp_path / "traces.jsonl"
    path.write_text("".join(f"{trace.model_dump_json()}\n" for trace in reference_traces("quickstart", 240)))
    config = load_config(ROOT / "grpo_training/configs/pocket.yaml")
    tokenizer = transformers.AutoTokenizer.from_pretrained(ROOT / "data/models/pocket")
    assert len(load_teacher_samples(path, tokenizer, config)) == 240
