"""What keeps the packages apart: tasks are known by name in the registry only."""

import ast
import functools

from engine.tasks import registry
from tests.conftest import ROOT

COMMANDS_OF_TASKS = ("grpo_training/traffic", "grpo_training/phaser")
"""Commands and folders that serve one task: they import it and carry its name."""
NAMING = {
    "grpo_training/cli/settings.py": {"aime2024", "quickstart"},  # the datasets that commands use by default
    "grpo_training/cli/program.py": {"phaser", "traffic"},  # the list of commands
}
SHARED = {"engine.tasks.registry", "engine.tasks.rows", "engine.tasks.scaffold_task", "engine.tasks.simple"}
"""Modules of ``engine.tasks`` that belong to no task."""


@functools.cache
def sources():
    return list(_sources())


def _sources():
    for package in ("engine", "grpo_training", "prompts"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith(("engine/tasks/", *COMMANDS_OF_TASKS)):
                yield name, ast.parse(path.read_text(encoding="utf-8"))


def is_plain_word(node, parent):
    """Whether a text is a word of the language: ``code`` is one, unless it is compared with or passed as a name."""
    is_compared = isinstance(parent, ast.Compare) and isinstance(parent.ops[0], ast.Eq | ast.NotEq)
    if node.value not in ("code", "answers") or is_compared:
        return False
    is_lookup = isinstance(parent, ast.Call) and getattr(parent.func, "attr", "") in ("get", "pop")
    return is_lookup or not isinstance(parent, ast.Call)


def names_in(tree, names):
    """The texts of a module that are one of the names, or one of them with a part or options."""
    return {
        node.value
        for parent in ast.walk(tree)
        for node in ast.iter_child_nodes(parent)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if node.value.partition(":")[0].partition("?")[0] in names and not is_plain_word(node, parent)
    }


def test_no_other_module_names_a_task_or_its_datasets():
    tasks = map(registry.task_named, registry._TASKS)  # not those that tests have loaded
    names = {name for task in tasks for name in (task.name, *task.dataset_names)}
    assert names >= {"math", "code", "aime2024", "mbpp"}
    named = {name: texts for name, tree in sources() if (texts := names_in(tree, names))}
    assert named == NAMING
    assert names_in(ast.parse("f('code'); x == 'code'; y = 'mbpp:test'; z['code']; 'a math problem'"), names) == {
        *("code", "mbpp:test"),
    }


def test_no_other_module_imports_a_task():
    imports = []
    for name, tree in sources():
        for node in ast.walk(tree):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            of_tasks = [module for module in modules if module.startswith("engine.tasks")]
            imports += [(name, module) for module in of_tasks if ".".join(module.split(".")[:3]) not in SHARED]
    assert imports == []
