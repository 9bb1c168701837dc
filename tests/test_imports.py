"""Imports between modules form no cycle, and what benches and examples import exists."""

import ast
from graphlib import CycleError, TopologicalSorter

import grimp
import pytest

from tests.conftest import ROOT

PACKAGES = ("engine", "grpo_training", "prompts")


def test_modules_import_each_other_in_no_cycle():
    """Those for type checkers included."""
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=False)
    imports = {module: graph.find_modules_directly_imported_by(module) - {module} for module in graph.modules}
    assert len(imports) > 400
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_what_benches_and_examples_import_is_there():
    """Neither runs in the tests, and mypy does not check the examples."""
    missing = []
    for file in [*(ROOT / "bench").glob("*.py"), *(ROOT / "examples").rglob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PACKAGES:
                there = names_of(node.module)
                missing += [
                    f"{file.name}: {node.module}.{alias.name}" for alias in node.names if alias.name not in there
                ]
    assert missing == []


def names_of(module):
    """The names that a module defines or imports, and of a package its modules."""
    path = ROOT / module.replace(".", "/")
    file = path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"
    names = {child.stem for child in path.glob("*")} if file.parent == path else set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
    return names
