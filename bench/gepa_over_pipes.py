"""Optimises a list of experiences with the package ``gepa``, for :mod:`bench.pocket_peers`.

It runs in an environment of its own, in which this project is not installed. The first line of standard input is the
order (``train`` and ``held``, ids of problems; ``rollouts``; ``seed``). A request is a line on standard output, and its
reply the next line of standard input; the line with ``best`` ends it.
"""

import contextlib
import json
import sys
from collections.abc import Sequence
from typing import Any

import gepa
from gepa import EvaluationBatch, GEPAAdapter

_OUT = sys.stdout


def _ask(**request: object) -> Any:
    print(json.dumps(request), file=_OUT, flush=True)
    return json.loads(sys.stdin.readline())


def _lines(candidate: dict[str, str]) -> list[str]:
    return [line for line in candidate["experiences"].split("\n") if line]


class Adapter(GEPAAdapter):  # type: ignore[misc] # the package is not typed
    """Answers problems with the experiences of a candidate; the analyst of the project proposes another list."""

    def evaluate(self, batch: list[str], candidate: dict[str, str], capture_traces: bool = False) -> EvaluationBatch:
        """Whether each problem of a batch is answered rightly."""
        right = _ask(evaluate=batch, experiences=_lines(candidate))
        return EvaluationBatch(outputs=right, scores=right, trajectories=batch if capture_traces else None)

    def make_reflective_dataset(
        self, candidate: dict[str, str], eval_batch: EvaluationBatch, components_to_update: list[str]
    ) -> dict[str, list[dict[str, Any]]]:
        """The problems of the batch and their scores."""
        rows = [
            {"problem": problem, "score": score}
            for problem, score in zip(eval_batch.trajectories, eval_batch.scores, strict=True)
        ]
        return dict.fromkeys(components_to_update, rows)

    def propose_new_texts(
        self,
        candidate: dict[str, str],
        reflective_dataset: dict[str, Sequence[dict[str, Any]]],
        components_to_update: list[str],
    ) -> dict[str, str]:
        """The list with what the analyst adds to it."""
        rows = reflective_dataset["experiences"]
        return {"experiences": "\n".join(_ask(propose=rows, experiences=_lines(candidate)))}


def main() -> None:
    order = json.loads(sys.stdin.readline())
    with contextlib.redirect_stdout(sys.stderr):
        result = gepa.optimize(
            seed_candidate={"experiences": ""},
            trainset=order["train"],
            valset=order["held"],
            adapter=Adapter(),
            reflection_minibatch_size=3,
            max_metric_calls=order["rollouts"],
            seed=order["seed"],
            skip_perfect_score=True,
        )
    print(json.dumps({"best": _lines(result.best_candidate), "rollouts": result.total_metric_calls}), file=_OUT)


if __name__ == "__main__":
    main()
