"""The package ``gepa`` improves the prompts of a program by an adapter; the same model reflects. See ``order.py``.

It stops after as many calls of the model as the reference has made; those of a program are counted, not its runs. The
option ``minutes`` ends it after this time.
"""

from __future__ import annotations

import json
from typing import Any

import gepa
from gepa import EvaluationBatch, GEPAAdapter
from gepa.utils import TimeoutStopCondition
from order import ORDER, Problem, chat, each, feedback, finish, halves, is_right  # type: ignore[import-not-found]  # beside this script


def run(phase: str, problem: Problem, prompts: dict[str, str]) -> str:
    """What the program returns, as JSON: ``calls``, each with prompt and reply, and ``answer``."""
    inputs = json.loads(problem["messages"][-1]["content"]) | {"prompts": prompts}
    return str(chat(phase, "program", [{"role": "user", "content": json.dumps(inputs)}]))


class Adapter(GEPAAdapter):  # type: ignore[misc] # the package is not typed
    """Runs the program with prompts; the score is 1 for a right answer and else 0."""

    calls = 0

    def evaluate(
        self, batch: list[Problem], candidate: dict[str, str], capture_traces: bool = False
    ) -> EvaluationBatch:
        """The runs for a batch of problems."""
        texts = each(lambda problem: run("learn", problem, candidate), batch)
        runs = [json.loads(text) for text in texts]
        self.calls += sum(len(returned["calls"]) for returned in runs)
        scores = [float(is_right(problem["id"], text)) for problem, text in zip(batch, texts, strict=True)]
        traces = list(zip(batch, runs, strict=True)) if capture_traces else None
        return EvaluationBatch(outputs=texts, scores=scores, trajectories=traces)

    def make_reflective_dataset(
        self, candidate: dict[str, str], eval_batch: EvaluationBatch, components_to_update: list[str]
    ) -> dict[str, list[dict[str, Any]]]:
        """What the reflection model sees of a run: its calls, what it returned, and the right answer."""
        rows = []
        for (problem, returned), score in zip(eval_batch.trajectories, eval_batch.scores, strict=True):
            calls = {f"Call {number}": call for number, call in enumerate(returned["calls"], 1)}
            shown = {"Inputs": problem["text"], "Generated Outputs": calls, "Returned": returned["answer"]}
            rows.append({**shown, "Feedback": feedback(problem, score)})
        return dict.fromkeys(components_to_update, rows)


def main() -> None:
    train, held = halves()
    adapter, options = Adapter(), dict(ORDER["options"])
    minutes = options.pop("minutes", None)
    stops = [] if minutes is None else [TimeoutStopCondition(60 * minutes)]
    result = gepa.optimize(
        seed_candidate=json.loads(train[0]["messages"][-1]["content"])["prompts"],
        trainset=train,
        valset=held,
        adapter=adapter,
        reflection_lm=lambda prompt: chat("learn", "reflection", [{"role": "user", "content": str(prompt)}]),
        stop_callbacks=[*stops, lambda state: adapter.calls >= ORDER["rollouts"]],
        seed=ORDER["seed"],
        **options,
    )
    print(json.dumps(result.best_candidate, indent=1))
    words = [f"{name} {len(text.split())} words" for name, text in result.best_candidate.items()]
    finish(lambda problem: run("use", problem, result.best_candidate), ", ".join(words))


if __name__ == "__main__":
    main()
