"""The public names of a package, imported when they are first used, so that importing the package stays cheap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


def public_names(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], object], list[str]]:
    """``__getattr__`` and ``__all__`` of a package.

    Args:
        package: the name of the package.
        modules: module -> the public names that it defines, separated by spaces.
    """
    module_of = {name: module for module, names in modules.items() for name in names.split()}

    def get(name: str) -> object:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(module_of[name]), name)

    return get, sorted(module_of)
