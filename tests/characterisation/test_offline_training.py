"""Offline training of a tiny model: from the start, and on from the folder that an interrupted run left behind."""

import importlib.metadata
import json
import math
import shutil
import signal
import struct
import time

import pytest

from tests.characterisation.support import INPUTS, Workspace, stored_golden

CASE = "offline_training"
MODEL, INTERRUPTED = INPUTS / "tiny_model", INPUTS / "interrupted_training"
TOLERANCE = 1e-5
TIMING = ("tokens_per_s", "step_time")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
ROWS = [
    {"id": f"p{number}", "prompt": f"w{6 + number} w{7 + number}", "response": text, "reward": reward}
    for number in range(6)
    for text, reward in ((f"w16 w{8 + number} w1", 1.0), ("w16 w2", 0.75), ("w17 w9 w10", 0.25), ("w17 w11", 0.0))
]
FLAGS = [
    *("--model-path", "model", "--dataset-path", "rows.jsonl", "--output-dir", "run", "--no-bf16"),
    *("--learning-rate", "5e-3", "--batch-size", 4, "--gradient-accumulation-steps", 2, "--num-epochs", 6),
    *("--lora-r", 4, "--save-steps", 4),
    *("--rce-epochs", 1, "--curriculum-epochs", 2, "--beta", 0.1, "--adaptive-kl", "--self-sft-weight", 0.2),
    *("--validation-share", 0.2, "--max-completion-length", 8, "--max-seq-length", 64),
]


def _needed():
    """The figures hold for one version of torch."""
    stored = json.loads(stored_golden(CASE).get("versions.json", "{}"))
    for package in ("torch", "transformers", "peft", "accelerate"):
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            pytest.skip(f"{package} is not installed (make finetune)")
        if package == "torch" and stored and version != stored["torch"]:
            pytest.skip(f"the figures are those of torch {stored['torch']}, and this is {version}")


def workspace_with_model(folder):
    workspace = Workspace(folder)
    shutil.copytree(MODEL, workspace.folder / "model")
    workspace.write_rows("rows.jsonl", ROWS)
    return workspace


def train(workspace, *more):
    workspace.run(["train", *FLAGS, *more], shared=False, **ONE_THREAD)


def record_inputs(folder):
    """Make the tiny model, and a run of it that Ctrl-C stopped after some steps."""
    from tests.support.tiny_model import write_model

    shutil.rmtree(MODEL, ignore_errors=True)
    write_model(MODEL, hidden=16)
    workspace = workspace_with_model(folder)
    process = workspace.start("train", *FLAGS, shared=False, **ONE_THREAD)
    metrics = workspace.folder / "run/metrics.jsonl"
    while not metrics.exists() or len(metrics.read_text().splitlines()) < 8:
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert len(metrics.read_text().splitlines()) < 18, "too late: it was nearly finished"
    shutil.rmtree(INTERRUPTED, ignore_errors=True)
    shutil.copytree(workspace.folder / "run", INTERRUPTED, ignore=shutil.ignore_patterns("*.lock", "*.html"))


def observe(folder):
    """An undisturbed run."""
    _needed()
    workspace = workspace_with_model(folder)
    train(workspace)
    return outcome(workspace.folder / "run")


def outcome(run):
    """Metrics without times, the adapter's weights, the names of the checkpoints."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    kept = [{key: value for key, value in row.items() if key not in TIMING} for row in rows]
    config = json.loads((run / "config.json").read_text())
    versions = {name: importlib.metadata.version(name) for name in ("torch", "transformers", "peft", "accelerate")}
    return {
        "metrics.jsonl": "".join(json.dumps(row) + "\n" for row in kept),
        "adapter.json": json.dumps(weights(run / "lora/adapter_model.safetensors"), indent=0) + "\n",
        "checkpoints.json": json.dumps(sorted(path.name for path in run.glob("checkpoint-*")), indent=1) + "\n",
        "config.json": json.dumps({**config, "run": "*"}, indent=1) + "\n",
        "versions.json": json.dumps(versions, indent=1) + "\n",
    }


def weights(path):
    """The float32 tensors of a safetensors file as lists."""
    content = path.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    header, data = json.loads(content[8 : 8 + size]), content[8 + size :]
    lists = {}
    for name, tensor in sorted(header.items()):
        if name != "__metadata__":
            assert tensor["dtype"] == "F32"
            start, end = tensor["data_offsets"]
            lists[name] = [float(f"{value:.8g}") for value in struct.unpack(f"<{(end - start) // 4}f", data[start:end])]
    return lists


def assert_near(stored, observed, path):
    """Equal keys, in their order, and values; numbers to a relative 1e-5, a list of numbers by its norm."""
    if isinstance(stored, dict) and isinstance(observed, dict):
        assert list(observed) == list(stored), path
        for key, value in stored.items():
            assert_near(value, observed[key], f"{path}.{key}")
    elif isinstance(stored, list) and isinstance(observed, list):
        assert len(observed) == len(stored), path
        if stored and all(isinstance(value, float) for value in stored):
            off = math.dist(stored, observed)
            assert off <= TOLERANCE * math.hypot(*stored), f"{path} is off by {off}"
        else:
            for number, pair in enumerate(zip(stored, observed, strict=True)):
                assert_near(*pair, f"{path}[{number}]")
    elif isinstance(stored, float) and isinstance(observed, float):
        assert observed == pytest.approx(stored, rel=TOLERANCE, abs=1e-7), path
    else:
        assert observed == stored, path


def assert_outcome(observed):
    golden = stored_golden(CASE)
    for name in sorted(golden.keys() - {"versions.json"}):
        stored, new = golden[name], observed[name]
        if name.endswith(".jsonl"):
            stored, new = (json.dumps([json.loads(line) for line in text.splitlines()]) for text in (stored, new))
        assert_near(json.loads(stored), json.loads(new), name)


def test_a_training_from_its_start(tmp_path):
    """Warm-up, curriculum, adaptive KL, self-SFT and held-out groups: metrics, weights and files."""
    assert_outcome(observe(tmp_path))


def test_an_interrupted_training_is_gone_on_with(tmp_path):
    """The run folder and the checkpoint of a stopped run are read as they were written."""
    _needed()
    workspace = workspace_with_model(tmp_path)
    shutil.copytree(INTERRUPTED, workspace.folder / "run")
    before = (workspace.folder / "run/metrics.jsonl").read_text().splitlines()
    assert 0 < len(before) < 18
    train(workspace)
    run = workspace.folder / "run"
    assert (run / "metrics.jsonl").read_text().splitlines()[: len(before)] == before
    assert_outcome(outcome(run))


def test_another_configuration_of_a_training_is_refused(tmp_path):
    """Exit code 1, and the files stay as they are."""
    _needed()
    workspace = workspace_with_model(tmp_path)
    run = workspace.folder / "run"
    shutil.copytree(INTERRUPTED, run)
    files = sorted(path for path in run.rglob("*") if path.is_file())
    before = [path.read_bytes() for path in files]
    workspace.run(["train", *FLAGS, "--learning-rate", "4e-3"], shared=False, expected=1, **ONE_THREAD)
    assert [path.read_bytes() for path in files] == before
