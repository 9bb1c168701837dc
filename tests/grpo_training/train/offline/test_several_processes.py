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
from grpo_training.train.models.tokenizer import supports_bf16  # noqa: E402
from tests.support.forked_command import TRAINING, ForkedCommand  # noqa: E402
from tests.support.tiny_model import lines, write_model  # noqa: E402

pytestmark = pytest.mark.timeout(600)  # several processes load torch, and each waits for the others


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"))


ONE_AFTER_THE_OTHER = """
import json, sys
from engine.errors import ScaffoldError
from grpo_training.train.__main__ import main

def code(argv):
    try:
        return main(argv)
    except ScaffoldError as error:
        return error.exit_code

print("ended with", ", ".join(str(code(argv)) for argv in json.loads(sys.argv[1])))
"""


INTERRUPTED_AND_SHARDED = """
import json, sys
from grpo_training.train.models.sharding import is_sharded
from grpo_training.train.offline import loop
from grpo_training.train.__main__ import main

real, parts = loop._rows_of, []

def rows_of(training, index):
    weight = training.optimizer.param_groups[0]["params"][0]
    parts.append((is_sharded(training.policy), weight.to_local().numel() / weight.numel()))
    if index == 5 and len(parts) == 6:
        raise KeyboardInterrupt
    return real(training, index)

loop._rows_of = rows_of
argv, flags = json.loads(sys.argv[1])
try:
    main(argv + flags)
except KeyboardInterrupt:
    print("ended with", main(argv + flags), set(parts))
"""


WITH_DEEPSPEED = """
import json, sys
from grpo_training.train.models.sharding import is_sharded
from grpo_training.train.offline import loop, training as state
from grpo_training.train.__main__ import main

argv, last = json.loads(sys.argv[1])
real, plugin, parts = loop._rows_of, state.zero_plugin, set()

def rows_of(training, index):
    weights = [weight for weight in training.model.parameters() if weight.requires_grad]
    parts.update((is_sharded(training.policy), weight.ds_tensor.numel() / weight.ds_numel) for weight in weights)
    if index == last:
        raise KeyboardInterrupt
    return real(training, index)

def divide_small_weights_too(*args, **options):
    found = plugin(*args, **options)
    found.deepspeed_config["zero_optimization"]["stage3_param_persistence_threshold"] = 0
    return found

loop._rows_of, state.zero_plugin = rows_of, divide_small_weights_too
try:
    code = main(argv)
except KeyboardInterrupt:
    code = 130
print("ended with", code, parts)
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
        {"prompt": f"w{n} w{n + 1}", "responses": ["w16 w8 w9", "w16", "w17 w9", "w17"], "rewards": [1, 0.75, 0.25, 0]}
        for n in range(6)
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


def check_same_run(one, two, weights, atol=1e-6):
    """The runs have equal weights and metrics.

    Adam divides by the size of a gradient, so that rounding in a gradient near zero, which differs from processor to
    processor, becomes a part of a step of the size of the learning rate: with a tolerance of 2 % of that the steps are
    the same.
    """
    first, second = (load_file(folder / weights) for folder in (one, two))
    assert first.keys() == second.keys()
    assert all(torch.allclose(first[name], second[name], atol=atol) for name in first)
    for line, other in zip(lines(one), lines(two), strict=True):
        assert line.keys() == other.keys()
        for name in line.keys() - {"tokens_per_s", "step_time", "stage"}:
            assert other[name] == pytest.approx(line[name], rel=1e-4, abs=1e-6), name


def adapter(run_dir):
    """The weights of the exported LoRA, one after the other."""
    stored = load_file(run_dir / "lora/adapter_model.safetensors")
    return torch.cat([stored[name].flatten() for name in sorted(stored)])


def test_two_processes_do_the_same_steps_as_one_and_end_together(model, tmp_path):
    """The command under a launcher: a step holds as many rows, so weights and metrics are those of one process.

    The same command again, which is finished, and one of another configuration, which is refused, end in both.
    """
    data = write_rows(tmp_path / "rows.jsonl")
    two = command(model, data, tmp_path / "two", 2)
    again = [*two, "--learning-rate", "1e-3"]  # another configuration of that directory
    processes = start_two_processes(ONE_AFTER_THE_OTHER, [two, two, again])
    assert train_command(command(model, data, tmp_path / "one", 4)) == 0
    check_end(processes, "ended with 0, 0, 1")
    check_same_run(tmp_path / "one", tmp_path / "two", "lora/adapter_model.safetensors")


def test_a_gradient_that_is_not_finite_stops_both_processes_and_one_writes_the_rows(model, tmp_path):
    data = write_rows(tmp_path / "rows.jsonl")
    processes = start_two_processes(STOPPED, command(model, data, tmp_path / "run", 2))
    said = [process.communicate(timeout=400)[0] for process in processes]
    assert [process.returncode for process in processes] == [3, 3], said
    assert "✗ The gradient of step 3 is not finite" in said[0]
    assert "Process 0 failed: The gradient of step 3 is not finite" in said[1]
    assert [path.name for path in (tmp_path / "run").glob("stopped*")] == ["stopped-at-step-3.json"]


@pytest.mark.skipif(importlib.util.find_spec("bitsandbytes") is None, reason="bitsandbytes is not installed")
@pytest.mark.parametrize("flag", ["--load-in-4bit", "--load-in-8bit"])
def test_two_processes_with_a_rounded_base_do_the_same_steps_as_one(model, tmp_path, flag):
    data = write_rows(tmp_path / "rows.jsonl")
    processes = start_two_processes(ONE_AFTER_THE_OTHER, [[*command(model, data, tmp_path / "two", 2), flag]])
    assert train_command([*command(model, data, tmp_path / "one", 4), flag]) == 0
    check_end(processes, "ended with 0")
    check_same_run(tmp_path / "one", tmp_path / "two", "lora/adapter_model.safetensors")


@pytest.mark.parametrize(
    ("flags", "loading", "weights"),
    [
        ([], "false", "lora/adapter_model.safetensors"),
        (["--no-use-peft", "--learning-rate", "1e-3", "--gradient-checkpointing"], "true", "merged/model.safetensors"),
    ],
)
def test_two_processes_that_divide_the_model_do_the_same_steps_as_one(model, tmp_path, flags, loading, weights):
    """FSDP, interrupted and resumed: each process holds half of each weight."""
    data = write_rows(tmp_path / "rows.jsonl")
    processes = start_two_processes(
        INTERRUPTED_AND_SHARDED,
        [[*command(model, data, tmp_path / "two", 2), "--save-steps", "2"], flags],
        ACCELERATE_USE_FSDP="true",
        FSDP_VERSION="2",
        FSDP_AUTO_WRAP_POLICY="TRANSFORMER_BASED_WRAP",
        FSDP_RESHARD_AFTER_FORWARD="true",
        FSDP_CPU_RAM_EFFICIENT_LOADING=loading,
    )
    assert train_command([*command(model, data, tmp_path / "one", 4), "--save-steps", "2", *flags]) == 0
    check_end(processes, "ended with 0 {(True, 0.5)}")
    check_same_run(tmp_path / "one", tmp_path / "two", weights, atol=2e-5 if "--learning-rate" in flags else 1e-6)
    checkpoints_of = [sorted(path.name for path in (tmp_path / name).glob("checkpoint-*/*")) for name in ("one", "two")]
    assert checkpoints_of[0] == checkpoints_of[1]


@pytest.mark.skipif(not supports_bf16(), reason="neither a GPU nor the CPU has bfloat16")
def test_dividing_the_model_in_bf16_changes_no_more_than_rounding_does(model, tmp_path):
    """FSDP rounds the weights of a whole layer, autocast of one process the inputs of its products."""
    data = write_rows(tmp_path / "rows.jsonl")
    processes = start_two_processes(
        INTERRUPTED_AND_SHARDED,
        [[*command(model, data, tmp_path / "two", 2), "--save-steps", "2"], ["--bf16"]],
        ACCELERATE_USE_FSDP="true",
        FSDP_VERSION="2",
        FSDP_AUTO_WRAP_POLICY="TRANSFORMER_BASED_WRAP",
        FSDP_CPU_RAM_EFFICIENT_LOADING="false",
    )
    for name, precision in (("float32", "--no-bf16"), ("bf16", "--bf16")):
        assert train_command([*command(model, data, tmp_path / name, 4), precision]) == 0
    check_end(processes, "ended with 0 {(True, 0.5)}")
    weights = {name: adapter(tmp_path / name) for name in ("float32", "bf16", "two")}
    rounding = (weights["bf16"] - weights["float32"]).norm()
    assert 0 < rounding < 0.2 * weights["float32"].norm()
    assert (weights["two"] - weights["bf16"]).norm() < rounding


@pytest.mark.skipif(importlib.util.find_spec("deepspeed") is None, reason="deepspeed is not installed")
@pytest.mark.parametrize(
    ("flags", "continued_by", "weights"),
    [
        ([], "DDP", "lora/adapter_model.safetensors"),
        (
            ["--no-use-peft", "--learning-rate", "1e-3", "--gradient-checkpointing"],
            "DeepSpeed",
            "merged/model.safetensors",
        ),
    ],
)
def test_two_processes_with_deepspeed_do_the_same_steps_as_one(model, tmp_path, flags, continued_by, weights):
    """ZeRO 3, interrupted and resumed: each process holds half of each weight. Checkpoints are those of DDP."""
    data, flags = write_rows(tmp_path / "rows.jsonl"), [*flags, "--save-steps", "2"]
    variables = {"ACCELERATE_USE_DEEPSPEED": "true", "ACCELERATE_DEEPSPEED_ZERO_STAGE": "3", "DS_ACCELERATOR": "cpu"}
    argv = [*command(model, data, tmp_path / "two", 2), *flags]
    check_end(start_two_processes(WITH_DEEPSPEED, [argv, 5], **variables), "ended with 130 {(True, 0.5)}")
    with_deepspeed = continued_by == "DeepSpeed"
    processes = (
        start_two_processes(WITH_DEEPSPEED, [argv, None], **variables)
        if with_deepspeed
        else start_two_processes(ONE_AFTER_THE_OTHER, [argv])
    )
    assert train_command([*command(model, data, tmp_path / "one", 4), *flags]) == 0
    check_end(processes, "ended with 0 {(True, 0.5)}" if with_deepspeed else "ended with 0")
    check_same_run(tmp_path / "one", tmp_path / "two", weights)
