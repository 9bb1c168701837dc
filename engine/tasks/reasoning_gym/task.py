"""The generators of the package reasoning-gym as datasets: ``reasoning_gym:chain_sum?min_terms=2&size=200&seed=1``."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from statistics import fmean
from types import MappingProxyType
from typing import Any

from engine.contract.datasets import Dataset
from engine.errors import ConfigurationError, InputError
from engine.records import Candidate, Outcome, Problem
from engine.storage.installation import install_command
from engine.task import Measurement
from engine.tasks.package_scorer import PackageScorer, json_or_text
from engine.tasks.reasoning_gym import DATASET_NAMES
from engine.tasks.rows import split_dataset_name
from engine.tasks.simple import NO_TRUTH, PlainTask

SIZE, SEED = 100, 0
"""Of a dataset whose name gives none."""

_FIXED, _LOOKED_AT, _MUCH = ("0", "1"), 8, 0.25
"""Answers that are scored on the first problems of a dataset, and the mean score from which on a user is told."""

_SCORER = PackageScorer("engine.tasks.reasoning_gym.scoring")
_SCORE_LIMIT_S = 10.0
_MAX_ANSWER_CHARS = 20_000


class ReasoningGymTask(PlainTask):
    """Problems of any generator. ``r_ans`` is the score that the generator's own scorer gives.

    ``answer`` of a problem is its entry as JSON text, with the generator, configuration and index that it comes from.
    """

    name = "reasoning_gym"
    dataset_names = DATASET_NAMES
    reward_weights: Mapping[str, float] = MappingProxyType({"r_ans": 1.0})

    def dataset(self, name: str) -> Dataset:
        """``reasoning_gym:GENERATOR``, with the options of the generator, ``size`` and ``seed``."""
        generator = name.partition("?")[0].partition(":")[2]
        gym = _package()
        names = sorted(gym.factory.DATASETS)
        if generator not in names:
            near = difflib.get_close_matches(generator, names, n=1, cutoff=0.5)
            guess = f"Did you mean reasoning_gym:{near[0]}? " if near else ""
            raise InputError(f"Unknown generator in {name!r}", fix=f"{guess}Generators: {', '.join(names)}.")
        options = list(gym.factory.DATASETS[generator][1].__dataclass_fields__)
        _, _, given = split_dataset_name(name, options)
        config = {"size": SIZE, "seed": SEED} | {key: json_or_text(text) for key, text in given.items()}

        def generate(count: int | None) -> list[Problem]:
            try:
                entries = gym.create_dataset(generator, **config)
                number = len(entries) if count is None else min(count, len(entries))
                return [_problem(generator, config, index, entries[index]) for index in range(number)]
            except (AssertionError, TypeError, ValueError) as error:
                raise InputError(f"Cannot generate {name}", why=f"{type(error).__name__}: {error}") from error

        return Dataset(generate=generate)

    def problem_from_row(self, row: Mapping[str, Any], where: str) -> Problem:
        """A row with ``generator``, ``config`` and ``index``."""
        try:
            generator, config, index = str(row["generator"]), dict(row["config"]), int(row["index"])
            entry = _package().create_dataset(generator, **config)[index]
        except (KeyError, AssertionError, TypeError, ValueError) as error:
            raise InputError(
                f"{where}: not a problem of reasoning_gym",
                why=f"{type(error).__name__}: {error}",
                fix='Give "generator", "config" and "index".',
            ) from error
        return _problem(generator, config, index, entry)

    def evaluate(self, candidate: Candidate[str], problem: Problem) -> Measurement:
        """The score of the answer, computed in a worker process, since scorers evaluate the text of answers."""
        answer = candidate.content
        if answer is None or len(answer) > _MAX_ANSWER_CHARS:
            return Measurement({"r_ans": 0.0}, False, answer, "none" if answer is None else "stated")
        payload = {"answer": answer, "question": problem.text, **json.loads(problem.answer)}
        result = _SCORER.score(payload, _SCORE_LIMIT_S)
        why = {"why": result.error[:300]}
        if result.outcome is Outcome.INFRA_FAULT:
            return Measurement({}, None, answer, "stated", Outcome.INFRA_FAULT, detail=why)
        if result.outcome is Outcome.VERIFIER_TIMEOUT:
            return Measurement({"r_ans": 0.0}, False, answer, "stated", Outcome.VERIFIER_TIMEOUT, detail=why)
        if result.outcome is not Outcome.OK:  # the scorer raised on this text
            return Measurement({"r_ans": 0.0}, False, answer, "stated", detail=why)
        score = min(1.0, max(0.0, result.value["score"]))
        return Measurement({"r_ans": score}, score >= 1.0, answer, "stated")

    def remarks(self, problems: Sequence[Problem]) -> list[str]:
        """Answers that are paid although they do not depend on the problem, a sentence for each generator."""
        by_generator: dict[str, list[Problem]] = {}
        for problem in problems:
            by_generator.setdefault(problem.meta["family"], []).append(problem)
        return [text for name, own in by_generator.items() if (text := self._fixed_answer(name, own[:_LOOKED_AT]))]

    def _fixed_answer(self, generator: str, problems: Sequence[Problem]) -> str:
        scores = {
            answer: [self.evaluate(_fixed(answer), problem).components.get("r_ans") or 0.0 for problem in problems]
            for answer in _FIXED
        }
        answer, paid = max(scores.items(), key=lambda item: fmean(item[1]))
        if fmean(paid) < _MUCH:
            return ""
        right = sum(score >= 1.0 for score in paid)
        return (
            f"The answer {answer!r} to every problem of {generator} is paid {fmean(paid):.2f} on average, and is right "
            f"in {right} of {len(paid)}: compare the model with that. Only a score of 1 counts as correct; r_ans is "
            "the score itself."
        )

    def verifier(self) -> Mapping[str, Any]:
        """The version of the package, whose scorers decide.

        Raises:
            ConfigurationError: it is not installed.
        """
        _package()
        return {**super().verifier(), "reasoning-gym": version("reasoning-gym")}

    def truth(self, problem: Problem) -> str:
        """The entry's answer, if it has one."""
        return str(json.loads(problem.answer).get("truth") or NO_TRUTH)

    def leaks_answer(self, content: str, problem: Problem) -> bool:
        """Whether an experience gives away the entry's answer."""
        return super().leaks_answer(content, problem.model_copy(update={"answer": self.truth(problem)}))


def _fixed(answer: str) -> Candidate[str]:
    return Candidate(Outcome.OK, stated_answer=answer, content=answer, text=answer)


def _package() -> Any:
    try:
        import reasoning_gym  # optional, and slow to import
    except ImportError as error:
        raise ConfigurationError(
            "The package reasoning-gym is not installed", fix=install_command("reasoning-gym")
        ) from error
    return reasoning_gym


def _problem(generator: str, config: Mapping[str, Any], index: int, entry: Mapping[str, Any]) -> Problem:
    place = {"generator": generator, "config": config, "index": index}
    place |= {"truth": entry["answer"], "metadata": entry["metadata"]}
    return Problem(
        id=f"reasoning_gym_{generator}_{config.get('seed', SEED)}_{index:04d}",
        text=entry["question"],
        answer=json.dumps(place, ensure_ascii=False, sort_keys=True, default=str),
        task=ReasoningGymTask.name,
        meta={"family": generator},
    )


TASK = ReasoningGymTask()
