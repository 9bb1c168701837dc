"""The steps before an evaluation: bad input, interruptions, two starts at once, repeated branches, speed."""

import importlib.util
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid

import pytest

from engine.errors import ConfigurationError, InputError
from engine.tasks.traffic.rows import read_rows
from engine.tasks.traffic.simulation.generation import GenerationSettings, generate_scenario
from engine.tasks.traffic.simulation.process import SimulationFailedError
from grpo_training.traffic.__main__ import main
from tests.conftest import ROOT
from tests.grpo_training.traffic.conftest import DECISIONS
from tests.grpo_training.traffic.support import marked_processes

needs_sumo = pytest.mark.skipif(
    importlib.util.find_spec("libsumo") is None, reason="SUMO is not installed (make traffic)"
)


def generate_words(scenarios, output, *more):
    folders = ["--scenarios-dir", str(scenarios), "--output-dir", str(output)]
    return ["generate", "--all", *folders, "--horizon", "20", *more]


@pytest.mark.parametrize(
    "words",
    [
        ["generate", "--scenario", "a"],
        ["evaluate", "--scenario", "a"],
    ],
)
def test_without_sumo_each_step_that_needs_it_says_how_to_install_it(words, tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *args: None if "sumo" in name else find(name, *args))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenarios" / "a").mkdir(parents=True)
    (tmp_path / "scenarios" / "a" / "a.sumocfg").write_text("<configuration/>")
    words = [*words, "--scenarios-dir", str(tmp_path / "scenarios")]
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ConfigurationError, match="SUMO is not installed: libsumo, sumo, sumolib") as caught:
        main(words)
    assert "[traffic]" in caught.value.fix
    assert sorted(tmp_path.rglob("*")) == before


def test_a_scenario_name_is_no_path(tmp_path):
    with pytest.raises(InputError, match="is named by its folder"):
        main(["generate", "--scenario", "../a", "--scenarios-dir", str(tmp_path), "--output-dir", str(tmp_path / "o")])
    assert not (tmp_path / "o").exists()


@pytest.mark.sumo
@needs_sumo
@pytest.mark.timeout(300)
class TestGeneration:
    def files(self, output):
        return {
            str(path.relative_to(output)): path.read_bytes() for path in sorted(output.rglob("*")) if path.is_file()
        }

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
    def test_a_stopped_generation_leaves_no_process_and_the_next_one_gives_the_same_files(
        self, scenarios, generated, tmp_path, number
    ):
        """Two scenarios one after another: the first is complete, the second is stopped in the middle."""
        output, mark = tmp_path / "data", uuid.uuid4().hex
        words = generate_words(scenarios, output, "--max-decisions", str(DECISIONS), "--keep-states")
        process = subprocess.Popen(
            [sys.executable, "-m", "grpo_training.traffic", *words],
            env={**os.environ, "PYTHONPATH": str(ROOT), "TEST_MARK": mark},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        names = sorted(path.name for path in scenarios.iterdir())
        try:
            end = time.monotonic() + 120
            while not list(output.glob(f"{names[1]}.*/*/states/*.json")) and time.monotonic() < end:
                time.sleep(0.01)
        finally:
            process.send_signal(number)
        text, _ = process.communicate(timeout=60)
        assert process.returncode == (130 if number == signal.SIGINT else -9)
        assert "Traceback" not in text
        end = time.monotonic() + 60
        while marked_processes(mark) and time.monotonic() < end:
            time.sleep(0.05)
        assert marked_processes(mark) == []
        if number == signal.SIGINT:
            assert [path.name for path in sorted(output.iterdir())] == [names[0]]
        assert main(words) == 0
        for name in names:
            assert self.files(output / name) == self.files(generated / name)

    def test_two_people_who_start_the_same_generation_do_not_disturb_each_other(self, scenarios, generated, tmp_path):
        folder = min(scenarios.iterdir())
        settings = GenerationSettings(max_decisions=DECISIONS, keep_states=True, horizon=20)
        second, rows = [], itertools.count(1)

        def second_start():
            if next(rows) == 3:
                second.append(generate_scenario(folder, tmp_path, settings))

        assert generate_scenario(folder, tmp_path, settings, progress=second_start).rows == DECISIONS
        assert second[0].rows == DECISIONS
        assert generate_scenario(folder, tmp_path, settings).was_there
        assert self.files(tmp_path / folder.name) == self.files(generated / folder.name)

    def test_a_scenario_whose_files_have_changed_does_not_keep_its_old_dataset(self, scenarios, generated, tmp_path):
        first = min(scenarios.iterdir())
        folder = shutil.copytree(first, tmp_path / "scenarios" / first.name)
        shutil.copytree(generated / first.name, tmp_path / "data" / first.name)
        settings = GenerationSettings(max_decisions=DECISIONS, keep_states=True, horizon=20)
        assert generate_scenario(folder, tmp_path / "data", settings).was_there
        (folder / "tripinfo.xml").write_text("<tripinfos/>")  # what SUMO may have written there is no input
        assert generate_scenario(folder, tmp_path / "data", settings).was_there
        routes = next(folder.glob("*.rou.xml"))
        routes.write_text(routes.read_text().replace('departLane="best"', 'departLane="first"', 1))
        with pytest.raises(InputError, match="other scenario files"):
            generate_scenario(folder, tmp_path / "data", settings)

    def test_failed_scenarios_are_reported_and_the_others_are_kept(self, scenarios, tmp_path, capsys):
        shutil.copytree(min(scenarios.iterdir()), tmp_path / "scenarios" / "good")
        for name in ("bad", "worse"):
            (tmp_path / "scenarios" / name).mkdir()
            (tmp_path / "scenarios" / name / f"{name}.sumocfg").write_text("<configuration><input>")
        with pytest.raises(SimulationFailedError, match="The simulation of bad failed") as caught:
            main(generate_words(tmp_path / "scenarios", tmp_path / "data", "--max-decisions", "2"))
        assert "cannot load" in caught.value.why
        assert "✗ worse: The simulation of worse failed" in capsys.readouterr().out
        assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["good"]

    def test_an_actuated_programme_is_controlled_and_is_its_own_baseline(self, scenarios, tmp_path):
        """SUMO times its phases for ``fixed``; for all other policies the task does."""
        folder = shutil.copytree(min(scenarios.iterdir()), tmp_path / "scenarios" / "actuated")
        network = next(folder.glob("*.net.xml"))
        static = tmp_path / "scenarios" / "static"
        shutil.copytree(folder, static)
        text = network.read_text().replace('type="static"', 'type="actuated"')
        text = re.sub(r'(<phase duration="\d\d") ', r'\1 minDur="5" maxDur="50" ', text)
        network.write_text(text)
        done = generate_scenario(folder, tmp_path / "data", GenerationSettings(max_decisions=5, horizon=20))
        assert done.rows == 5
        assert {
            (row.min_green < 10, row.max_green <= 55) for row in read_rows(tmp_path / "data/actuated/grpo_dataset.json")
        } == {(True, True)}
        words = ["--scenarios-dir", str(tmp_path / "scenarios"), "--seeds", "1", "--seconds", "300"]
        output = tmp_path / "out.json"
        assert main(["evaluate", "--all", "--policy", "fixed,max-pressure", "--output", str(output), *words]) == 0
        runs = {(run["scenario"], run["policy"]): run for run in json.loads(output.read_text())["runs"]}
        assert runs["actuated", "fixed"]["figures"]["switches"] > runs["static", "fixed"]["figures"]["switches"] > 4
        assert runs["actuated", "max-pressure"]["figures"]["switches"] > 10

    def test_a_programme_without_a_cycle_is_refused_with_the_reason(self, scenarios, tmp_path):
        folder = shutil.copytree(min(scenarios.iterdir()), tmp_path / "jumps")
        network = next(folder.glob("*.net.xml"))
        network.write_text(re.sub(r'(<phase duration="\d\d") ', r'\1 next="1 3" ', network.read_text()))
        with pytest.raises(SimulationFailedError) as caught:
            generate_scenario(folder, tmp_path / "data", GenerationSettings(max_decisions=2, horizon=20))
        assert "phase 0 is not followed by the next phase" in caught.value.why

    def test_the_horizon_is_a_setting_of_the_command(self, scenarios, generated, tmp_path):
        """The first decision is the same one; twice as many seconds hold at least the queues of the first half."""
        name, output = min(path.name for path in scenarios.iterdir()), tmp_path / "data"
        words = ["generate", "--scenario", name, "--scenarios-dir", str(scenarios), "--output-dir", str(output)]
        assert main([*words, "--max-decisions", "10", "--horizon", "40"]) == 0
        [far, *others] = read_rows(output / name / "grpo_dataset.json")
        near = next(iter(read_rows(generated / name / "grpo_dataset.json")))
        assert {row.horizon for row in (far, *others)} == {40}
        assert near.horizon == 20
        assert far.prompt == near.prompt
        for branch in ("extend", "switch"):
            after = getattr(far.branches, branch).queue_seconds, getattr(near.branches, branch).queue_seconds
            assert after[0] >= after[1] > 0


def test_generate_has_flags_of_one_letter(capsys):
    for words, wanted in (("-s one -p 3 -o out", ("one", False, 3, "out")), ("-a -p 2", (None, True, 2, None))):
        with pytest.raises(SystemExit):
            main(["generate", *words.split(), "--print-config"])
        printed = json.loads(capsys.readouterr().out)
        assert (printed["scenario"], printed["all"], printed["parallel"]) == wanted[:3]
        assert wanted[3] in (None, printed["output_dir"])
