"""The public names of a package, imported when they are first used, so that importing the package stays cheap.

As ``lazy_loader.attach_stub``, without a dependency: the list of commands is shown before anything is installed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path


def public_names(package: str, file: str) -> tuple[Callable[[str], object], list[str]]:
    """``__getattr__`` and ``__all__`` of a package.

    Args:
        package: the name of the package.
        file: its ``__init__.py``. The stub ``__init__.pyi`` beside it imports each public name from its module.
    """
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    module_of = {alias.name: f"{package}.{node.module}" for node in imports for alias in node.names}

    def get(name: str) -> object:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(module_of[name]), name)

    return get, sorted(module_of)
