"""What a command does before its modules are imported. Uses the standard library only.

Until then, Ctrl-C prints a traceback, and a package that is missing another one.
"""

from __future__ import annotations

import importlib.metadata
import re
import signal
import sys
from pathlib import Path
from types import TracebackType

from engine.storage.installation import install_command

_ROOT = Path(__file__).resolve().parents[2]
_DISTRIBUTION = "scaffold-grpo"


def leave_ctrl_c_to_the_system() -> None:
    """Let Ctrl-C end a command without a traceback while its modules are imported; ``run_command`` handles it then.

    Another program that imports the package keeps its own handler.
    """
    module = sys.orig_argv[sys.orig_argv.index("-m") + 1] if "-m" in sys.orig_argv[:-1] else ""
    package, _, command = module.partition(".")
    is_command = package == "grpo_training" and "." not in command
    if is_command and signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not under nohup, for example
        signal.signal(signal.SIGINT, signal.SIG_DFL)


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
        requirements = importlib.metadata.requires(_DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        return ""
    declared = [text for text in requirements if re.match(rf"{re.escape(package)}(?![\w.-])", text)]
    extras = [re.search(r"extra == ['\"]([\w-]+)", text) for text in declared]
    return "" if None in extras else next((found[1] for found in extras if found), "")


def _fix() -> str:
    """The command that installs the packages, or that enters the environment in which they are."""
    environment = _ROOT / ".venv"
    if (environment / "bin" / "python").exists() and Path(sys.prefix) != environment:
        return f"Run `source {environment}/bin/activate`, then the command again. (`make install` repairs .venv.)"
    if (_ROOT / "Makefile").is_file():
        return f"Run `make -C {_ROOT} install`, then `source {environment}/bin/activate`."
    return f"Run `{sys.executable} -m pip install --force-reinstall` with the wheel of Scaffold-GRPO."
