"""CPU time per rollout without the request: parsing, execution, scoring and storage, including worker processes.

The input is recorded replies of a real model on AIME 2024.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from pathlib import Path

from engine.records import Completion, Outcome, Problem, Reply, RolloutGroup, timestamp
from engine.reward_evaluator import RewardEvaluator
from engine.sandbox.worker import shared_pool
from engine.storage.rollout_store import RolloutStore, read
from engine.tasks.registry import task_named
from grpo_training.agents.chat import ReadReply
from grpo_training.learning.scored_groups import rollout_from
from tests.conftest import SHARED_DATA
from tests.support.recorded_replies import reply_text

MEDIAN_MS, P95_MS = 3.0, 50.0


def main() -> bool:
    """Measure, print the figures and return whether the bounds hold. Skipped without the recorded data."""
    files = [SHARED_DATA / "recorded" / f"generator_{n}_rollouts.jsonl" for n in (1, 2)]
    if not all(file.exists() for file in files):
        print(f"rollout cost: skipped, no recorded data in {SHARED_DATA} (set SHARED_DATA)")
        return True
    task, evaluator = task_named("math"), RewardEvaluator()
    costs = []
    with tempfile.TemporaryDirectory() as directory:
        store = RolloutStore(Path(directory) / "rollouts.jsonl")
        groups = [group for file in files for group in read(file, RolloutGroup).records]
        _warm_up(task, evaluator, groups[-1])
        with store.hold():
            for group in groups:
                problem = Problem(id=group.problem_id, text=group.problem_text, answer=group.ground_truth)
                rollouts = []
                for recorded in group.rollouts:
                    text = reply_text(recorded.scaffold, recorded.answer)
                    started = _cpu_s()
                    candidate = task.parse(Completion(text=text), problem)
                    scored = evaluator.score(task, problem, candidate)
                    reply = Reply(sample_index=0, outcome=Outcome.OK, completion=Completion(text=text))
                    rollout = rollout_from(task, recorded.rollout_id, ReadReply(reply, candidate), scored, [])
                    costs.append(_cpu_s() - started)
                    rollouts.append(rollout)
                started = _cpu_s()
                store.append(group.model_copy(update={"rollouts": rollouts, "timestamp": timestamp()}))
                share = (_cpu_s() - started) / len(rollouts)
                costs[-len(rollouts) :] = [cost + share for cost in costs[-len(rollouts) :]]
    milliseconds = sorted(1000 * cost for cost in costs)
    median, p95 = statistics.median(milliseconds), milliseconds[int(0.95 * len(milliseconds))]
    print(
        f"rollout cost over {len(costs)} recorded replies: median {median:.2f} ms of CPU (bound {MEDIAN_MS:g}), "
        f"p95 {p95:.1f} ms (bound {P95_MS:g}), worst {milliseconds[-1]:.1f} ms"
    )
    return median <= MEDIAN_MS and p95 <= P95_MS


def _warm_up(task, evaluator, group) -> None:  # type: ignore[no-untyped-def]
    """Import modules and start the workers, which happens once per process."""
    problem = Problem(id="warm", text="", answer="1")
    implicit = {
        "target_variable": "x",
        "knowns": {"a": 2},
        "causal_graph": [{"cause": ["a"], "effect": "x", "rule": "x + sin(x) = a"}],
        "final_answer": "sqrt(2)/3",
    }
    for text in (json.dumps(implicit), reply_text(group.rollouts[0].scaffold, "1")):
        evaluator.score(task, problem, task.parse(Completion(text=text), problem))
    shared_pool()


def _cpu_s() -> float:
    """CPU seconds of this process and of its running children."""
    ticks = os.sysconf("SC_CLK_TCK")
    total = time.process_time()
    # The pool starts its workers from the calling thread, here the main one.
    for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) / ticks
    return total
