"""Programs, games and traffic signals on a cluster: rows, caches and libraries are those of processes here."""

import importlib.util
import json
import os
import re
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.errors import ConfigurationError
from engine.records import Completion
from engine.reward_evaluator import task_total
from engine.sandbox.zygote_process import strongest_level
from engine.tasks.code.problems import code_problem
from engine.tasks.phaser.seeds.prompt_seeds import make_prompt_seeds
from engine.tasks.phaser.validation import shared_validator
from engine.tasks.phaser.validation.api_index import DEFAULT_PATH
from engine.tasks.registry import task_named
from grpo_training.score_rollouts.__main__ import main as score_rollouts
from tests.grpo_training.learning import test_code_loop as programs
from tests.grpo_training.learning import test_traffic_loop as signals
from tests.grpo_training.phaser import test_main_loop as games
from tests.grpo_training.traffic.test_live_reward import with_false_outcomes
from tests.support.main_loop import World, groups_of, normalised
from tests.support.ray_processes import are_over, descendants, wait_for, worker_processes

pytest.importorskip("ray", reason="Ray is not installed (make ray)")
pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]

_TIME = re.compile(r'"ms":[0-9.]+')
"""How long a game ran."""
HERE = ("--workers", "1")
THERE = ("--executor", "ray", *HERE)


@pytest.fixture
def scored_on_ray(cluster, tmp_path, capfd):
    """Scores replies by problem id on Ray, where a worker is killed while it verifies the second or a later one.

    Returns the rows, after the comparison with those of processes of this machine: they are equal byte for byte, except
    for the time that a game ran. What the worker had started ends with it.
    """

    def score(task, prompts, replies, *more):
        rows = [
            {"prompt_id": problem, "group_id": place, "text": text}
            for problem, texts in replies.items()
            for place, text in enumerate(texts)
        ]
        files = ["--prompts", str(prompts), "--rollouts", str(write(tmp_path / "rollouts.jsonl", rows))]
        here, there = tmp_path / "here.jsonl", tmp_path / "there.jsonl"
        assert score_rollouts(["--task", task, *files, "--out", str(here), *HERE, *more]) == 0
        wait_for(lambda: not worker_processes(cluster))  # those of earlier work
        log = tmp_path / "there_work.jsonl"
        with ThreadPoolExecutor(1) as threads:
            flags = ["--task", task, *files, "--out", str(there), *THERE, *more]
            run = threads.submit(score_rollouts, flags)
            wait_for(lambda: run.done() or (log.exists() and log.stat().st_size))
            [worker] = worker_processes(cluster)
            started = descendants(worker)
            os.kill(worker, signal.SIGKILL)
            assert run.result(300) == 0
        assert "worker 0 ended" in capfd.readouterr().err
        wait_for(lambda: are_over(started))
        expected, found = (_TIME.sub('"ms":0', path.read_text()) for path in (here, there))
        assert found == expected
        return [json.loads(line) for line in found.splitlines()]

    return score


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def generated_on_ray(folder, dataset, files):
    """The groups of generator 1, after the comparison of its files with those of a run in one process."""
    written = []
    for name, place in (("alone", ()), ("cluster", THERE)):
        with World(folder / name, files, copies=False) as world:
            world.write_config(world.base_url, timeout_s=900)
            assert world.generate(1, dataset, *place) == 0
        written.append(normalised(world))
    assert written[0] == written[1]
    assert any(name.endswith("experiences.json") for name in written[0])
    return groups_of(world, 1)


def slow(program):
    """The program, which takes a second longer."""
    return programs.said(f"import time\ntime.sleep(1)\n{program}")


def test_programs_run_in_the_sandbox_of_a_worker(cluster, scored_on_ray, tmp_path):
    try:
        strongest_level()
    except ConfigurationError as error:
        pytest.skip(error.what)
    dataset = write(tmp_path / "own.jsonl", programs.ROWS)
    problems = [code_problem(row, "here") for row in programs.ROWS]
    replies = {problem.id: programs.replies_to(problem) for problem in problems}
    replies[problems[0].id].insert(1, slow(programs.ROWS[0]["canonical_solution"]))
    scored = scored_on_ray("code", dataset, replies)
    assert [row["is_correct"] for row in scored] == [True, True, False, False, True, False, False]
    (tmp_path / "recorded").mkdir()
    groups = generated_on_ray(tmp_path, dataset, programs.record(tmp_path / "recorded", problems))
    assert [[one["r_ans"] for one in group["rollouts"]] for group in groups] == [[1.0, 0.0, 0.0]] * 2


@pytest.fixture
def default_index(api_index, tmp_path, monkeypatch):
    """The index in its usual place below the folder of the command, and validators that end with the test."""
    shutil.copytree(api_index.path.parent, tmp_path / DEFAULT_PATH.parent)
    monkeypatch.chdir(tmp_path)
    opened = {}
    monkeypatch.setattr(shared_validator, "_open", opened)
    yield
    for _, validator in opened.values():
        validator.close()


@pytest.mark.node
def test_games_run_in_the_validator_of_a_worker(cluster, scored_on_ray, default_index, tmp_path):
    rows = make_prompt_seeds(40, 1, "en")[:2]
    dataset = write(tmp_path / "prompts.jsonl", rows)
    files = games.record(tmp_path / "recorded", rows)
    groups = generated_on_ray(tmp_path, dataset, files)
    assert [[one["is_correct"] for one in group["rollouts"]] for group in groups] == [[True, False, False]] * 2
    recorded = [json.loads(line) for line in files[0].read_text().splitlines()]
    replies = {group["problem_id"]: [one["scaffold"] for one in group["rollouts"]] for group in recorded}
    scored = scored_on_ray("phaser", dataset, replies)
    assert [row["is_correct"] for row in scored] == [True, False, False] * 2


@pytest.mark.sumo
@pytest.mark.skipif(importlib.util.find_spec("libsumo") is None, reason="SUMO is not installed (make traffic)")
def test_decisions_are_simulated_by_a_worker(cluster, scored_on_ray, generated, scenarios, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(generated, "data/traffic")
    shutil.copytree(scenarios, "data/traffic/scenarios")
    rows = json.loads(min(generated.glob("*/grpo_dataset.json")).read_text())[:3]
    dataset, task = tmp_path / "grpo_dataset.json", task_named("traffic")
    dataset.write_text(json.dumps([with_false_outcomes(row) for row in rows]))  # so that only a simulation is right
    texts = (signals.YES, signals.NO)
    scored = scored_on_ray("traffic", dataset, {row["id"]: texts for row in rows}, "--tsc-reward-mode", "live")
    problems = [task.problem_from_row(row, "here") for row in rows]
    candidates = [(task.parse(Completion(text=text), problem), problem) for problem in problems for text in texts]
    stored = [task_total(task, task.evaluate(*candidate).components) for candidate in candidates]
    assert [row["reward"]["total"] for row in scored] == pytest.approx(stored)
    dataset.write_text(json.dumps(rows))
    groups = generated_on_ray(tmp_path, dataset, signals.record(tmp_path / "recorded", problems))
    assert [group["problem_id"] for group in groups] == [row["id"] for row in rows]
