"""Optimisers of DSPy for a chain of thought whose instructions are those of our prompt. See ``order.py``.

DSPy writes its prompts in its own format; a reply that it cannot read is asked for in JSON once more, and counts as
wrong if that fails too.
"""

from __future__ import annotations

import re
from typing import Any

import dspy
import numpy as np
from dspy.teleprompt import BootstrapFewShotWithRandomSearch, KNNFewShot, MIPROv2
from order import ORDER, REFLECTION_TOKENS, Problem, finish, halves, is_right  # type: ignore[import-not-found]  # beside this script

OPTIONS, BUDGET, THREADS = ORDER["options"], ORDER["rollouts"], ORDER["concurrency"]
DEMOS = OPTIONS["demos"]
_ATTEMPTS = 2.5
"""Assumed number of answers for one right demonstration."""


def language_model(phase: str, role: str) -> dspy.LM:
    """The model, by way of the proxy; DSPy's cache is off."""
    return dspy.LM(
        f"openai/{ORDER['model']}",
        api_base=f"{ORDER[phase]}/{role}/v1",
        api_key="EMPTY",
        temperature=ORDER["temperature"],
        max_tokens=REFLECTION_TOKENS if role == "reflection" else ORDER["max_tokens"],
        cache=False,
    )


def example(problem: Problem) -> dspy.Example:
    """A problem with its right answer."""
    labelled = dspy.Example(question=problem["text"], answer=problem["answer"], problem=problem["id"])
    return labelled.with_inputs("question")


def metric(gold: dspy.Example, prediction: Any, trace: object = None) -> bool:
    """Whether an answer is right."""
    return bool(is_right(gold.problem, f"Answer: {prediction.answer}"))


def mipro(program: dspy.Module, train: list[dspy.Example], held: list[dspy.Example]) -> dspy.Module:
    """MIPROv2, with as many trials as the rollouts allow."""
    candidates, steps = OPTIONS["num_candidates"], OPTIONS["minibatch_full_eval_steps"]
    batch = min(OPTIONS["minibatch_size"], len(held))
    for_demos = candidates * DEMOS / 2 * _ATTEMPTS
    trials = int((BUDGET - for_demos - 2 * len(held)) / (batch + len(held) / steps))
    optimiser = MIPROv2(
        metric=metric,
        prompt_model=language_model("learn", "reflection"),
        task_model=dspy.settings.lm,
        max_bootstrapped_demos=DEMOS,
        max_labeled_demos=DEMOS,
        auto=None,
        num_candidates=candidates,
        num_threads=THREADS,
        seed=ORDER["seed"] + 1,  # 0 would be its default
    )
    return optimiser.compile(
        program,
        trainset=train,
        valset=held,
        num_trials=max(1, trials),
        minibatch_size=batch,
        minibatch_full_eval_steps=steps,
    )


def bootstrap(program: dspy.Module, train: list[dspy.Example], held: list[dspy.Example]) -> dspy.Module:
    """BootstrapFewShotWithRandomSearch, with as many candidates as the rollouts allow; three need no demonstrations."""
    per_candidate = len(held) + DEMOS / 2 * _ATTEMPTS
    optimiser = BootstrapFewShotWithRandomSearch(
        metric=metric,
        max_bootstrapped_demos=DEMOS,
        max_labeled_demos=DEMOS,
        num_candidate_programs=max(0, int(BUDGET / per_candidate) - 3),
        num_threads=THREADS,
    )
    return optimiser.compile(program, trainset=train, valset=held)


def knn(program: dspy.Module, train: list[dspy.Example], held: list[dspy.Example]) -> dspy.Module:
    """KNNFewShot: the problems to learn from whose texts resemble that of a question; all of them are used."""
    known = [*train, *held]
    texts = [f"question: {problem.question}" for problem in known]
    optimiser = KNNFewShot(
        DEMOS,
        known,
        dspy.Embedder(vectors(texts), caching=False),
        metric=metric,
        max_bootstrapped_demos=OPTIONS["bootstrapped"],
        max_labeled_demos=DEMOS,
    )
    return optimiser.compile(program)


def vectors(texts: list[str]) -> Any:
    """A function from texts to the parts of their words, weighted by how rare they are among these texts, of length 1.

    They are compared as `improve` compares cases.
    """
    split = [_parts(text) for text in texts]
    counts: dict[str, int] = {}
    for parts in split:
        for part in parts:
            counts[part] = counts.get(part, 0) + 1
    columns = {part: number for number, part in enumerate(counts)}
    weights = np.log((1 + len(texts)) / (1 + np.array(list(counts.values())))) + 1

    def embed(others: list[str]) -> Any:
        matrix = np.zeros((len(others), len(columns)), dtype=np.float32)
        for row, text in enumerate(others):
            for part in _parts(text) & columns.keys():
                matrix[row, columns[part]] = weights[columns[part]]
        return matrix / np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-9)

    return embed


def _parts(text: str) -> set[str]:
    words = re.findall(r"\w+", text.casefold())
    return {f" {word} "[at : at + 3] for word in words for at in range(len(word))}


def main() -> None:
    dspy.configure(lm=language_model("learn", "generator"))
    train, held = ([example(problem) for problem in half] for half in halves())
    program = dspy.ChainOfThought(dspy.Signature("question -> answer", ORDER["system"]))
    optimised = {"mipro": mipro, "bootstrap": bootstrap, "knn": knn}[OPTIONS["method"]](program, train, held)
    for predictor in optimised.predictors():
        print(predictor.signature.instructions, predictor.demos)
    of_test = language_model("use", "generator")

    def answer(problem: Problem) -> str:
        with dspy.context(lm=of_test):
            try:
                return f"Answer: {optimised(question=problem['text']).answer}"
            except dspy.utils.exceptions.AdapterParseError:
                return ""

    demos = DEMOS if OPTIONS["method"] == "knn" else sum(len(module.demos) for module in optimised.predictors())
    finish(answer, f"{demos} demos")


if __name__ == "__main__":
    main()
