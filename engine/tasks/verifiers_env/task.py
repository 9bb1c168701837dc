"""Installed environments of the package verifiers as datasets: ``verifiers_env:NAME?key=value``."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Mapping
from importlib.metadata import version
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl

from engine.contract.datasets import Dataset
from engine.errors import ConfigurationError, InputError
from engine.records import Candidate, Completion, Outcome, Problem
from engine.storage.installation import install_command
from engine.task import Measurement
from engine.tasks.package_scorer import PackageScorer, json_or_text
from engine.tasks.simple import NO_TRUTH, PlainTask
from engine.tasks.verifiers_env import DATASET_NAMES

_SCORER = PackageScorer("engine.tasks.verifiers_env.scoring")
_SCORE_LIMIT_S = 60.0
_MAX_CHARACTERS = 100_000
_INSTRUCTIONS = "Solve the problem in the form that it asks for."


class VerifiersEnvTask(PlainTask):
    """Problems of any environment with one request. ``r_ans`` is the sum of its weighted rewards, within [0, 1].

    ``answer`` of a problem is the environment's task as JSON text, with the environment and its settings.
    """

    name = "verifiers_env"
    dataset_names = DATASET_NAMES
    reward_weights: Mapping[str, float] = MappingProxyType({"r_ans": 1.0})
    prompt_variables = frozenset({"instructions"})
    reply_description = "the complete reply in the form that the problem asks for"

    def dataset(self, name: str) -> Dataset:
        """``verifiers_env:NAME``, with settings of the environment's taskset, such as ``split=test``."""
        place, _, query = name.partition("?")
        environment = place.partition(":")[2]
        config = {key: json_or_text(text) for key, text in parse_qsl(query, keep_blank_values=True)}

        def generate(count: int | None) -> list[Problem]:
            vf = _package()
            try:
                kind = vf.taskset_config_type(environment)
                taskset = vf.load_taskset(kind.model_validate({**config, "id": environment}))
                limited = taskset if count is None else taskset.take(count)
                if not limited.bounded:
                    raise InputError(f"{name} has no end", fix="Give --max-problems.")
                _refuse(environment, _of_environment(vf, environment, taskset))
                return [_problem(vf, environment, config, task) for task in limited]
            except InputError:
                raise
            except (ImportError, AttributeError, TypeError, ValueError) as error:
                raise InputError(
                    f"Cannot load {name}",
                    why=f"{type(error).__name__}: {error}",
                    fix="Install the environment in this Python environment, or correct its settings. Environments of "
                    "verifiers before 0.4, with a function load_environment, cannot be read.",
                ) from error

        return Dataset(generate=generate)

    def problem_from_row(self, row: Mapping[str, Any], where: str) -> Problem:
        """A row of a problem's ``id``, ``problem`` and ``answer``."""
        try:
            answer, text = str(row["answer"]), str(row["problem"])
            place = json.loads(answer)
            environment = place["environment"]
            _ = place["config"], place["data"]
        except (KeyError, TypeError, ValueError) as error:
            why = f"{type(error).__name__}: {error}"
            raise InputError(f"{where}: not a problem of {self.name}", why=why) from error
        given = str(row.get("id") or "")
        return Problem(id=given, text=text, answer=answer, task=self.name, meta={"family": environment})

    def prompt_values(self, problem: Problem) -> Mapping[str, Any]:
        """The system prompt of the environment."""
        return {"instructions": json.loads(problem.answer)["data"].get("system_prompt") or _INSTRUCTIONS}

    def parse(self, completion: Completion, problem: Problem) -> Candidate[str]:
        """The whole reply: the environment's rewards read it."""
        text = completion.text[-_MAX_CHARACTERS:]
        if not text.strip():
            return Candidate(Outcome.MODEL_FAULT, text=text)
        reasoning = completion.reasoning or ""
        return Candidate(Outcome.OK, stated_answer=text.strip(), content=json.dumps([text, reasoning]), text=text)

    def evaluate(self, candidate: Candidate[str], problem: Problem) -> Measurement:
        """The environment's reward, computed in a worker process, since rewards may evaluate the text of replies."""
        if candidate.content is None:
            return Measurement({"r_ans": 0.0}, False)
        text, reasoning = json.loads(candidate.content)
        payload = {**json.loads(problem.answer), "reply": text, "reasoning": reasoning or None}
        result = _SCORER.score(payload, _SCORE_LIMIT_S, load_argument=sys.path)
        answer = candidate.stated_answer
        if result.outcome is Outcome.VERIFIER_TIMEOUT:
            why = {"why": result.error[:300]}
            return Measurement({"r_ans": 0.0}, False, answer, "stated", Outcome.VERIFIER_TIMEOUT, detail=why)
        if result.outcome is not Outcome.OK:
            return Measurement({}, None, answer, "stated", Outcome.INFRA_FAULT, detail={"why": result.error[:300]})
        reward = min(1.0, max(0.0, result.value["reward"]))
        return Measurement({"r_ans": reward}, reward >= 1.0, answer, "stated", detail=result.value)

    def verifier(self) -> Mapping[str, Any]:
        """The version of the package. That of the environment is not known: give it a new name when it changes.

        Raises:
            ConfigurationError: the package is not installed.
        """
        _package()
        return {**super().verifier(), "verifiers": version("verifiers")}

    def truth(self, problem: Problem) -> str:
        """The answer among the data of the environment's task, if it has one."""
        return str(json.loads(problem.answer)["data"].get("answer") or NO_TRUTH)

    def leaks_answer(self, content: str, problem: Problem) -> bool:
        """Whether an experience gives away the answer."""
        return super().leaks_answer(content, problem.model_copy(update={"answer": self.truth(problem)}))


def _package() -> Any:
    try:
        import verifiers.v1 as vf  # optional, and slow to import
    except ImportError as error:
        raise ConfigurationError(
            "The package verifiers is not installed", why=str(error), fix=install_command("verifiers")
        ) from error
    return vf


def _of_environment(vf: Any, environment: str, taskset: Any) -> Mapping[str, bool]:
    """What makes an environment more than one request and one reply -> whether it has that."""
    episode, program = vf.environment_class(environment), vf.default_harness_id(environment)
    is_one_request = getattr(episode, "ONE_REQUEST", False)
    has_own_episode = episode is not vf.SingleAgentEnv and not is_one_request
    agents = vf.resolve_env_config({"taskset": {"id": environment}}).agent_harnesses()
    return {
        "several agents take part": len(agents) != 1,
        f"its class {episode.__name__} runs the episodes, which may have several turns": has_own_episode,
        "it has a harness of its own, which may send several requests": program == environment and not is_one_request,
        "it offers tools": bool(type(taskset).toolsets(taskset.config)),
    }


def _of_task(vf: Any, task: Any) -> Mapping[str, bool]:
    """What makes a task more than one request and one reply -> whether it has that."""
    data, messages = task.data, task.data.prompt if isinstance(task.data.prompt, list) else []
    wanted = {one.__name__: inspect.signature(one).parameters.get("runtime") for one in task.hooks("reward")}
    runtime = next((name for name, one in wanted.items() if one is not None and one.default is one.empty), None)
    own = next(
        (name for name in ("setup", "finalize") if getattr(type(task), name) is not getattr(vf.Task, name)), None
    )
    return {
        "its prompt is not one text": not data.prompt_text or any(one.role != "user" for one in messages),
        "it offers tools": bool(type(task).toolsets(task.config)),
        "it has stop conditions, which end a rollout of several turns": bool(task.hooks("stop")),
        "it needs a container": task.NEEDS_CONTAINER,
        f"its method {own} needs a sandbox": own is not None,
        f"its reward {runtime} needs a sandbox": runtime is not None,
        "it has no rewards": not task.hooks("reward"),
    }


def _refuse(environment: str, unsupported: Mapping[str, bool]) -> None:
    """Raise ``InputError`` with the first reason that holds."""
    for why, is_so in unsupported.items():
        if is_so:
            raise InputError(
                f"The environment {environment} cannot be a dataset here: {why}",
                why="A problem is one request and one reply here, in generators, libraries and fine-tune data: no "
                "further turns, no tools.",
                fix="Train on it with prime-rl.",
            )


def _problem(vf: Any, environment: str, config: Mapping[str, Any], task: Any) -> Problem:
    """The problem of an environment's task.

    Raises:
        InputError: it is not one request with text, or its rewards need a sandbox.
    """
    _refuse(environment, _of_task(vf, task))
    data = task.data
    values = data.model_dump(mode="json", exclude_defaults=True)
    place = {"environment": environment, "config": dict(config), "data": values}
    return Problem(
        id=f"{environment}_{data.id or data.idx:0>4}",
        text=data.prompt_text,
        answer=json.dumps(place, ensure_ascii=False, sort_keys=True),
        task=VerifiersEnvTask.name,
        meta={"family": environment},
    )


TASK = VerifiersEnvTask()
