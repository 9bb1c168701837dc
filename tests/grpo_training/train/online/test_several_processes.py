"""An online training of two processes on the CPU, as a launcher of accelerate starts them."""

import json

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")
pytest.importorskip("peft")
pytest.importorskip("datasets")

from tests.grpo_training.train.offline.test_several_processes import check_end, start_two_processes  # noqa: E402
from tests.support.tiny_model import lines, write_model  # noqa: E402

pytestmark = pytest.mark.timeout(600)  # several processes load torch, and each waits for the others

COMPARED = """
import json, os, signal, sys
import torch
from accelerate.utils import gather_object
from grpo_training.train.online.callback import RunCallback
from grpo_training.train.online.trainer import GRPOWithImitationTrainer
from grpo_training.train.__main__ import main

real, end, ends = GRPOWithImitationTrainer.train, RunCallback.on_step_end, []

def train(self, **options):
    real(self, **options)
    weights = [one.detach().flatten() for one in self.accelerator.unwrap_model(self.model).parameters()
               if one.requires_grad]
    mine = (torch.cat(weights).tolist(), {one.problem.id for one in self._reward.latest})
    (first, its_problems), (second, other_problems) = gather_object([mine])
    ends.append((self.state.global_step, first == second, its_problems.isdisjoint(other_problems)))

def on_step_end(self, args, state, control, **others):
    if state.global_step == 3 and args.process_index == 1 and not ends:
        self.stop.number = signal.SIGINT  # it reached the second process alone
    end(self, args, state, control, **others)

GRPOWithImitationTrainer.train, RunCallback.on_step_end = train, on_step_end
argv = json.loads(sys.argv[1])
try:
    main(argv)
except KeyboardInterrupt:
    print("interrupted")
codes = [main(argv), main(argv)]
print("ended with", codes, ends)
"""


def test_two_processes_sample_other_problems_and_keep_the_same_weights(tmp_path):
    """DDP, interrupted and resumed. The same command again, which is finished, ends in both."""
    model = write_model(tmp_path / "model")
    (tmp_path / "prompts.json").write_text(json.dumps([{"id": f"p{n}", "prompt": f"w{n} w{n + 1}"} for n in range(8)]))
    (tmp_path / "even.py").write_text("def even(answer, row):\n    return float(answer[-1:] in set('02468'))\n")
    flags = ["--mode", "online", "--model-path", model, "--dataset-path", tmp_path / "prompts.json", "--no-bf16"]
    flags += ["--reward", f"{tmp_path / 'even.py'}:even", "--output-dir", tmp_path / "run", "--learning-rate", 2e-2]
    flags += ["--batch-size", 16, "--num-generations", 4, "--max-steps", 6, "--save-steps", 100, "--beta", 0.05]
    flags += ["--lora-r", 4, "--max-completion-length", 4, "--max-seq-length", 64]
    processes = start_two_processes(COMPARED, [str(flag) for flag in flags])
    check_end(processes, "ended with [0, 0] [(3, True, True), (6, True, True)]")
    assert [line["step"] for line in lines(tmp_path / "run")] == [1, 2, 3, 4, 5, 6]
    assert lines(tmp_path / "run")[-1]["kl"] > 0
