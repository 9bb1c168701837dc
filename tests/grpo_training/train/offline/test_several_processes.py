"""Trainings of two processes on the CPU, as a launcher of accelerate starts them, beside the same training of one."""

import importlib.util
import json
import socket

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")
pytest.importorskip("accelerate")

from safetensors.torch import load_file  # noqa: E402

from grpo_training.train.__main__ import main as train_command  # noqa: E402
from tests.support.forked_command import TRAINING, ForkedCommand  # noqa: E402
from tests.support.tiny_model import lines, write_model  # noqa: E402

pytestmark = pytest.mark.timeout(600)  # several processes load torch, and each waits for the others


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"))


ONE_AFTER_THE_OTHER = """
import json, sys
from grpo_training.train.__main__ import main

print("ended with", ", ".join(str(main(argv)) for argv in json.loads(sys.argv[1])))
"""


STOPPED = """
import json, os, sys
from accelerate import Accelerator
from grpo_training.cli.entry import run_command
from grpo_training.train.offline import loop
from grpo_training.train.__main__ import main

real, repair, norms = Accelerator.clip_grad_norm_, loop.repair_folders, []

def clip(self, *args):
    norms.append(real(self, *args))
    return norms[-1] * float("nan" if len(norms) == 3 else 1)

def repaired(folder):
    assert os.environ["RANK"] == "0", "it may remove a folder that the first process is writing"
    repair(folder)

Accelerator.clip_grad_norm_, loop.repair_folders = clip, repaired
run_command(lambda: main(json.loads(sys.argv[1])))
"""


def write_rows(path):
    rows = [
        {"prompt": f"w{n} w{n + 1}", "response": text, "reward": reward}
        for n in range(6)
        for text, reward in (("w16 w8 w9", 1), ("w16", 0.75), ("w17 w9", 0.25), ("w17", 0))
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def command(model, data, output, accumulation):
    """The flags of a training with all stages, adaptive KL and held-out groups."""
    flags = ["--model-path", model, "--dataset-path", data, "--output-dir", output, "--no-bf16"]
    flags += ["--learning-rate", 5e-3, "--batch-size", 2, "--gradient-accumulation-steps", accumulation]
    flags += ["--num-epochs", 2, "--rce-epochs", 1, "--beta", 0.1, "--adaptive-kl", "--self-sft-weight", 0.2]
    flags += ["--lora-r", 4, "--validation-share", 0.2, "--max-completion-length", 8, "--max-seq-length", 64]
    return [str(flag) for flag in flags]


def start_two_processes(script, argument, **variables):
    """What a launcher of accelerate starts: two processes of a script on the CPU."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        launcher = {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": str(free.getsockname()[1])}
    launcher |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""} | variables
    return [
        ForkedCommand(script, [json.dumps(argument)], server=TRAINING, **launcher, RANK=rank, LOCAL_RANK=rank)
        for rank in ("0", "1")
    ]


def check_end(processes, last_line):
    for process in processes:
        output, _ = process.communicate(timeout=400)
        assert process.returncode == 0, output
        assert output.splitlines()[-1] == last_line, output


def check_same_run(run, other_run, weights, atol=1e-6):
    """The runs have equal weights and metrics.

    Adam divides by the size of a gradient, so that rounding in a gradient near zero, which differs from processor to
    processor, becomes a part of a step of the size of the learning rate: with a tolerance of 2 % of that the steps are
    the same.
    """
    first, second = (load_file(folder / weights) for folder in (run, other_run))
    assert first.keys() == second.keys()
    assert all(torch.allclose(first[name], second[name], atol=atol) for name in first)
    for line, other in zip(lines(run), lines(other_run), strict=True):
        assert line.keys() == other.keys()
        for name in line.keys() - {"tokens_per_s", "step_time", "stage"}:
            assert other[name] == pytest.approx(line[name], rel=1e-4, abs=1e-6), name


def test_two_processes_do_the_same_steps_as_one_and_end_together(model, tmp_path):
    """The command under a launcher: a step holds as many rows, so weights and metrics are those of one process.

    The same command again, which is finished, ends in both.
    """
    data = write_rows(tmp_path / "rows.jsonl")
    two = command(model, data, tmp_path / "two", 2)
    processes = start_two_processes(ONE_AFTER_THE_OTHER, [two, two])
    assert train_command(command(model, data, tmp_path / "one", 4)) == 0
    check_end(processes, "ended with 0, 0")
    check_same_run(tmp_path / "one", tmp_path / "two", "lora/adapter_model.safetensors")


def test_a_gradient_that_is_not_finite_stops_both_processes(model, tmp_path):
    data = write_rows(tmp_path / "rows.jsonl")
    processes = start_two_processes(STOPPED, command(model, data, tmp_path / "run", 2))
    outputs = [process.communicate(timeout=400)[0] for process in processes]
    assert processes[0].returncode == 3, outputs
    assert processes[1].returncode, outputs
    assert "✗ The gradient of step 3 is not finite" in outputs[0]


@pytest.mark.skipif(importlib.util.find_spec("bitsandbytes") is None, reason="bitsandbytes is not installed")
@pytest.mark.parametrize("flag", ["--load-in-4bit", "--load-in-8bit"])
def test_two_processes_with_a_rounded_base_do_the_same_steps_as_one(model, tmp_path, flag):
    data = write_rows(tmp_path / "rows.jsonl")
    processes = start_two_processes(ONE_AFTER_THE_OTHER, [[*command(model, data, tmp_path / "two", 2), flag]])
    assert train_command([*command(model, data, tmp_path / "one", 4), flag]) == 0
    check_end(processes, "ended with 0")
    check_same_run(tmp_path / "one", tmp_path / "two", "lora/adapter_model.safetensors")
