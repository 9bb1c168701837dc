"""A task in one file whose checker is a package: the generators and scorers of reasoning-gym.

pip install 'reasoning-gym>=0.1.25,<0.2'
python -m grpo_training.generator1 --task examples/reasoning_gym_task.py:TASK \
    --dataset "reasoning_gym:chain_sum?min_terms=2&size=200&seed=1"
"""

import ast
import builtins
import difflib
import json
from functools import cache, lru_cache
from importlib.metadata import version

import reasoning_gym
import sympy
from reasoning_gym.factory import DATASETS

from engine.errors import InputError
from engine.reading.python_syntax import parse
from engine.records import Outcome
from engine.sandbox.worker import KillablePool
from engine.tasks.rows import split_dataset_name
from engine.tasks.simple import SimpleTask

SIZE, SEED = 100, 0
LIMIT_S = 10.0


class ReasoningGymTask(SimpleTask):
    def dataset(self, name):
        """``reasoning_gym:GENERATOR``, with the options of the generator, ``size`` and ``seed``."""
        generator = name.partition("?")[0].partition(":")[2]
        if generator not in DATASETS:
            near = difflib.get_close_matches(generator, DATASETS, n=1, cutoff=0.5)
            guess = f"Did you mean reasoning_gym:{near[0]}? " if near else ""
            raise InputError(f"Unknown generator in {name!r}", fix=f"{guess}Generators: {', '.join(sorted(DATASETS))}.")
        _, _, options = split_dataset_name(name, list(DATASETS[generator][1].__dataclass_fields__))
        config = {"size": SIZE, "seed": SEED} | {key: json_or_text(text) for key, text in options.items()}
        try:
            entries = reasoning_gym.create_dataset(generator, **config)
            self._rows = lambda count: [row(generator, config, entries, index) for index in range(len(entries))[:count]]
        except (AssertionError, TypeError, ValueError) as error:
            raise InputError(f"Cannot generate {name}", why=f"{type(error).__name__}: {error}") from error
        return super().dataset(name)

    def verifier(self):
        return {**super().verifier(), "reasoning-gym": version("reasoning-gym")}


def row(generator, config, entries, index):
    entry = entries[index]
    record = {"id": f"reasoning_gym_{generator}_{config['seed']}_{index:04d}", "question": entry["question"]}
    record |= {"generator": generator, "config": config, "index": index}
    record["metadata"] = json.loads(json.dumps(entry["metadata"], default=str))
    return record if entry["answer"] is None else {**record, "answer": entry["answer"]}


def json_or_text(text):
    try:
        return json.loads(text)
    except ValueError:
        return text


def reward(text, row):
    """The score of the package, computed in a process that is killed after a time limit."""
    result = pool().run("examples.reasoning_gym_task:score", [text, dict(row)], LIMIT_S)
    if result.outcome is Outcome.INFRA_FAULT:
        raise RuntimeError(result.error)
    return min(1.0, max(0.0, result.value)) if result.outcome is Outcome.OK else 0.0  # else it raised, or took too long


@cache
def pool():
    return KillablePool(memory_mb=8192, start_timeout_s=120)


def score(payload):
    """Runs in the worker. Scorers call ``eval`` with text of a model, so ``eval`` is restricted."""
    text, row = payload
    entries, entry = created(row["generator"], json.dumps(row["config"], sort_keys=True), row["index"])
    if entry["question"] != row["question"]:  # some generators depend on the hash seed of the process
        entry = {"question": row["question"], "answer": row.get("answer"), "metadata": row["metadata"]}
    builtins.eval = restricted_eval
    try:
        return float(entries.score_answer(text, entry))
    finally:
        builtins.eval = EVAL


@lru_cache(maxsize=1024)
def created(generator, config, index):
    """A dataset, and an entry of it, which some generators take half a second for."""
    entries = dataset(generator, config)
    return entries, entries[index]


@lru_cache(maxsize=64)
def dataset(generator, config):
    return reasoning_gym.create_dataset(generator, **json.loads(config))


EVAL = builtins.eval
FUNCTIONS = {"abs", "min", "max", "round", "int", "float", "sqrt", "cbrt", "root", "Rational"}
NODES = (
    *(ast.Expression, ast.Constant, ast.Name, ast.Load, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.keyword),
    *(ast.UnaryOp, ast.BinOp, ast.Call, ast.unaryop, ast.operator),
)


def restricted_eval(source, variables=None, local=None):
    """``eval`` of literals, arithmetic and mathematical functions; anything else is an error."""
    names = {**(variables or {}), **(local or {})}
    if not isinstance(source, str):
        raise ValueError("only text is evaluated")
    tree = parse(source.strip(), "eval")
    for node in ast.walk(tree):
        if not isinstance(node, NODES):
            raise ValueError(f"not allowed in an answer: {type(node).__name__}")
        if isinstance(node, ast.Name):
            value = names.get(node.id)
            is_class = isinstance(value, type) and issubclass(value, sympy.Basic)
            if not (is_class or isinstance(value, sympy.Basic) or node.id in FUNCTIONS):
                raise ValueError(f"not allowed in an answer: {node.id}")
    return EVAL(compile(tree, "<answer>", "eval"), dict(variables or {}), dict(local or {}))


TASK = ReasoningGymTask("{question}", reward, name="reasoning_gym", rows=lambda count: [], right=1.0)
