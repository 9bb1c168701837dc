"""``--report-to`` of the learners."""

import json
import subprocess
import sys
import types

import pytest

from engine.errors import ConfigurationError
from grpo_training import critic, generator1
from tests.conftest import ROOT
from tests.support.fault_server import serve_in_thread
from tests.support.recorded_replies import EXAMPLE_FILES, RecordedReplies
from tests.support.replay import build_app


@pytest.fixture
def run(tmp_path):
    """Runs generator 1 on the recorded example with a tracker."""

    def start(tracker, problems=4, command=generator1, role="generator_1"):
        places = ["--cache-dir", str(tmp_path / "cache"), "--experiences-dir", str(tmp_path / "experiences")]
        data = ["--dataset", "quickstart", "--max-problems", str(problems), "--rollouts", "4"]
        more = data if command is generator1 else ["--generators", "1", "--learn", "none"]
        with serve_in_thread(build_app(RecordedReplies(EXAMPLE_FILES))) as url:
            flags = ["--base-url", url, "--model", role, "--report-to", tracker]
            return command.main([*more, *places, *flags])

    return start


def scalars(folder, name):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(folder))
    events.Reload()
    return [(event.step, event.value) for event in events.Scalars(name)]


def test_tensorboard_gets_each_group_once_also_after_a_resume(run, tmp_path):
    assert run("tensorboard", 2) == 0
    assert run("tensorboard", 4) == 0
    assert run("tensorboard", command=critic, role="critic") == 0
    lines = (tmp_path / "cache/generator_1_rollouts.jsonl").read_text().splitlines()
    groups = sorted((json.loads(line) for line in lines), key=lambda group: group["step"])  # stored as they are scored
    folder = tmp_path / "cache/trackers/generator_1/tensorboard"
    assert [step for step, _ in scalars(folder, "reward")] == [1, 2, 3, 4]
    for name, expected in (
        ("reward", [group["stats"]["mean"] for group in groups]),
        ("accuracy", [sum(one["is_correct"] for one in group["rollouts"]) / 4 for group in groups]),
        ("rewards/r_graph", [sum(one["r_graph"] for one in group["rollouts"]) / 4 for group in groups]),
    ):
        assert [value for _, value in scalars(folder, name)] == pytest.approx(expected)
    assert len(scalars(tmp_path / "cache/trackers/critic/tensorboard", "rewards/r_fusion")) == 4
    assert "base_url" not in (folder / "hparams.yml").read_text()


def test_a_tracker_that_fails_does_not_stop_the_run(run, tmp_path, monkeypatch, capsys):
    def fail(values, step):
        raise OSError("no space")

    ended = []
    stand_in = types.SimpleNamespace(init=lambda **given: None, log=fail, finish=lambda: ended.append(1))
    monkeypatch.setitem(sys.modules, "trackio", stand_in)
    assert run("trackio", 2) == 0
    assert "The tracker failed (OSError: no space); the run continues without it" in capsys.readouterr().out
    assert len((tmp_path / "cache/generator_1_rollouts.jsonl").read_text().splitlines()) == 2


def test_a_tracker_that_is_not_installed_is_refused_before_anything_is_asked(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ConfigurationError, match="wandb is not installed"):
        run("wandb")
    assert not (tmp_path / "cache/generator_1_rollouts.jsonl").exists()


def test_the_trackers_load_no_torch():
    code = (
        "import sys, tempfile, pathlib\nfrom grpo_training.runs.trackers import open_tracker\n"
        "open_tracker('tensorboard', pathlib.Path(tempfile.mkdtemp()), project='p', run_name='r', config={}).finish()\n"
        "print(sorted({'torch', 'accelerate', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
