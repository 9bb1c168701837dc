"""Optimises the instructions of a served world with the package ``gepa``. Runs in an environment of its own.

It reads an order as JSON (``url``, ``seed``, ``rollouts``, and the texts of the problems ``train`` and ``held``) and
writes the best instructions as the last line.
"""

import contextlib
import itertools
import json
import re
import sys
import urllib.request
from typing import Any

import gepa
from gepa import EvaluationBatch, GEPAAdapter

_CASE = re.compile(r"\bcase (\d+)\b")


class Adapter(GEPAAdapter):  # type: ignore[misc] # the package is not typed
    """Answers problems with instructions; the score is 1 for a right answer and else 0."""

    def __init__(self, url: str, seed: int) -> None:
        self._url, self._seeds = url, itertools.count(1_000_000 * (seed + 1))

    def chat(self, model: str, *contents: str) -> str:
        """The content of the reply to a system message and a question."""
        messages = [
            {"role": role, "content": content}
            for role, content in zip(("system", "user")[-len(contents) :], contents, strict=True)
        ]
        body = {"model": model, "messages": messages, "seed": next(self._seeds)}
        request = urllib.request.Request(
            f"{self._url}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request) as response:
            return str(json.load(response)["choices"][0]["message"]["content"])

    def evaluate(self, batch: list[str], candidate: dict[str, str], capture_traces: bool = False) -> EvaluationBatch:
        """The answers to a batch of problems."""
        answers = [json.loads(self.chat("m", candidate["instructions"], text))["final_answer"] for text in batch]
        scores = [float(answer == "7") for answer in answers]
        traces = [{"problem": text, "answer": answer} for text, answer in zip(batch, answers, strict=True)]
        return EvaluationBatch(outputs=answers, scores=scores, trajectories=traces if capture_traces else None)

    def make_reflective_dataset(
        self, candidate: dict[str, str], eval_batch: EvaluationBatch, components_to_update: list[str]
    ) -> dict[str, list[dict[str, Any]]]:
        """What the reflection model sees: problem, answer, and whether it was right."""
        rows = []
        for trace, score in zip(eval_batch.trajectories, eval_batch.scores, strict=True):
            verdict = "rightly" if score else "wrongly"
            [case] = _CASE.findall(trace["problem"])
            feedback = f"case {case} was answered {verdict}"
            rows.append({"Inputs": trace["problem"], "Generated Outputs": trace["answer"], "Feedback": feedback})
        return dict.fromkeys(components_to_update, rows)


def main() -> None:
    order = json.load(sys.stdin)
    adapter = Adapter(order["url"], order["seed"])
    with contextlib.redirect_stdout(sys.stderr):
        result = gepa.optimize(
            seed_candidate={"instructions": "Answer with a number."},
            trainset=order["train"],
            valset=order["held"],
            adapter=adapter,
            reflection_lm=lambda prompt: adapter.chat("reflector", str(prompt)),
            reflection_minibatch_size=3,
            max_metric_calls=order["rollouts"],
            seed=order["seed"],
            skip_perfect_score=True,
        )
    print(json.dumps({"instructions": result.best_candidate["instructions"], "calls": result.total_metric_calls}))


if __name__ == "__main__":
    main()
