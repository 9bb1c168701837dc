"""The package ``gepa`` improves the instructions of our prompt; the same model reflects. See ``order.py``.

The option ``minutes`` ends it after this time, with the best instructions so far. Without it, an interrupted run is
continued from its folder ``state``.
"""

from __future__ import annotations

from typing import Any

import gepa
from gepa import EvaluationBatch, GEPAAdapter
from gepa.utils import TimeoutStopCondition
from order import ORDER, Problem, chat, each, feedback, finish, halves, is_right  # type: ignore[import-not-found]  # beside this script


def answer(phase: str, problem: Problem, instructions: str) -> str:
    """A reply to a problem; the instructions stand in place of ours."""
    others = [message for message in problem["messages"] if message["role"] != "system"]
    return str(chat(phase, "generator", [{"role": "system", "content": instructions}, *others]))


class Adapter(GEPAAdapter):  # type: ignore[misc] # the package is not typed
    """Answers problems with instructions; the score is 1 for a right answer and else 0."""

    def evaluate(
        self, batch: list[Problem], candidate: dict[str, str], capture_traces: bool = False
    ) -> EvaluationBatch:
        """The answers to a batch of problems."""
        replies = each(lambda problem: answer("learn", problem, candidate["instructions"]), batch)
        scores = [float(is_right(problem["id"], reply)) for problem, reply in zip(batch, replies, strict=True)]
        traces = list(zip(batch, replies, strict=True)) if capture_traces else None
        return EvaluationBatch(outputs=replies, scores=scores, trajectories=traces)

    def make_reflective_dataset(
        self, candidate: dict[str, str], eval_batch: EvaluationBatch, components_to_update: list[str]
    ) -> dict[str, list[dict[str, Any]]]:
        """What the reflection model sees: problem, reply, and the right answer."""
        rows = []
        for (problem, reply), score in zip(eval_batch.trajectories, eval_batch.scores, strict=True):
            rows.append({"Inputs": problem["text"], "Generated Outputs": reply, "Feedback": feedback(problem, score)})
        return dict.fromkeys(components_to_update, rows)


def main() -> None:
    train, held = halves()
    options = dict(ORDER["options"])
    minutes = options.pop("minutes", None)
    result = gepa.optimize(
        seed_candidate={"instructions": ORDER["system"]},
        trainset=train,
        valset=held,
        adapter=Adapter(),
        reflection_lm=lambda prompt: chat("learn", "reflection", [{"role": "user", "content": str(prompt)}]),
        max_metric_calls=ORDER["rollouts"],
        stop_callbacks=None if minutes is None else [TimeoutStopCondition(60 * minutes)],
        run_dir=ORDER["state"] if minutes is None else None,
        seed=ORDER["seed"],
        **options,
    )
    best = result.best_candidate["instructions"]
    print(best)
    is_seed = best == ORDER["system"]
    finish(lambda problem: answer("use", problem, best), "seed prompt" if is_seed else f"{len(best.split())} words")


if __name__ == "__main__":
    main()
