"""What is missing before anything is installed. Uses the standard library only, and runs before other modules load."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import sys
import tomllib
from pathlib import Path

from grpo_training.cli.start import started_module

_ROOT = Path(__file__).resolve().parents[2]
_DISTRIBUTION = "scaffold-grpo"
_DOCTOR, _LIST = "grpo_training.doctor", "grpo_training"


def check_dependencies() -> None:
    """Exit with what is missing and how to install it, if dependencies are missing.

    ``python -m grpo_training.doctor`` checks each of them. Other commands check one, which takes no time; the list of
    commands needs none.
    """
    module = started_module()
    is_list = module == _LIST and sys.orig_argv[-1] in (_LIST, "-h", "--help", "--version")
    if is_list or (module != _DOCTOR and importlib.util.find_spec("pydantic") is not None):
        return
    missing = [name for name in required_packages() if not _is_installed(name)]
    if not missing:
        return
    if module == _DOCTOR:
        print(f"✔ Python {'.'.join(map(str, sys.version_info[:3]))}")
        print(f"✗ {len(missing)} packages are not installed in {sys.prefix}: {', '.join(missing)}")
        print(f"  {fix()}")
        sys.exit(1)
    sys.exit(f"Scaffold-GRPO's dependencies are not installed in this Python environment ({sys.prefix}).\n{fix()}")


def required_packages() -> list[str]:
    """The names of the packages that every command needs."""
    project = _ROOT / "pyproject.toml"
    if project.is_file():
        requirements = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["dependencies"]
    else:
        requirements = [one for one in importlib.metadata.requires(_DISTRIBUTION) or () if "extra ==" not in one]
    return [name[0] for one in requirements if (name := re.match(r"[A-Za-z0-9._-]+", one))]


def fix() -> str:
    """The command that installs the packages, or that enters the environment in which they are."""
    environment = _ROOT / ".venv"
    if (environment / "bin" / "python").exists() and Path(sys.prefix) != environment:
        return (
            f"Run `source {_shown(environment)}/bin/activate`, then the command again. (`make install` repairs .venv.)"
        )
    if (_ROOT / "Makefile").is_file():
        folder = "" if Path.cwd() == _ROOT else f" -C {_ROOT}"
        return f"Run `make{folder} install`, then `source {_shown(environment)}/bin/activate`."
    return f"Run `{sys.executable} -m pip install --force-reinstall` with the wheel of Scaffold-GRPO."


def _shown(path: Path) -> str:
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _is_installed(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
