"""What a command does about missing packages, before its modules are imported. Uses the standard library only."""

from __future__ import annotations

import importlib.metadata
import re
import sys
from pathlib import Path
from types import TracebackType

from engine.storage.installation import DISTRIBUTION, install_command

_ROOT = Path(__file__).resolve().parents[2]


def explain_missing_packages() -> None:
    """Let a command whose import of a package fails end with one message: what is missing, and how to install it."""
    sys.excepthook = _explained


def _explained(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """``sys.excepthook``: other errors than a missing package of other projects keep their traceback."""
    module = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if not module or module in sys.stdlib_module_names or (_ROOT / module).exists():
        sys.__excepthook__(kind, error, trace)
        return
    package = module.replace("_", "-")
    if extra := _extra_with(package):
        print(f"The package {module} is not installed in this Python environment ({sys.prefix}).", file=sys.stderr)
        print(install_command(extra), file=sys.stderr)
        return
    print(f"Scaffold-GRPO's dependencies are not installed in this Python environment ({sys.prefix}).", file=sys.stderr)
    print(f"Missing: {module}\n{_fix()}", file=sys.stderr)


def _extra_with(package: str) -> str:
    """The extra that has a package; empty if every command needs it, or the project itself is not installed."""
    try:
        requirements = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        return ""
    declared = [text for text in requirements if re.match(rf"{re.escape(package)}(?![\w.-])", text)]
    extras = {"".join(re.findall(r"extra == ['\"]([\w-]+)", text)) for text in declared}
    return "local" if "local" in extras else min(extras, default="")  # of several extras the one with fewest packages


def _fix() -> str:
    """The command that installs the packages, or that enters the environment in which they are."""
    environment = _ROOT / ".venv"
    if (environment / "bin" / "python").exists() and Path(sys.prefix) != environment:
        return f"Run `source {environment}/bin/activate`, then the command again. (`make install` repairs .venv.)"
    if (_ROOT / "Makefile").is_file():
        return f"Run `make -C {_ROOT} install`, then `source {environment}/bin/activate`."
    return f"Run `{sys.executable} -m pip install --force-reinstall` with the wheel of Scaffold-GRPO."
