"""Imports between modules form no cycle, those for type checkers included."""

from graphlib import CycleError, TopologicalSorter

import grimp
import pytest


def test_modules_import_each_other_in_no_cycle():
    graph = grimp.build_graph("engine", "agents", "grpo_training", "prompts", exclude_type_checking_imports=False)
    imports = {module: graph.find_modules_directly_imported_by(module) - {module} for module in graph.modules}
    assert len(imports) > 500
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))
