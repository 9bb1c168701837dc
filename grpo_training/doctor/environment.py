"""Checks of Python, packages, tools, the isolation of programs, and disk space."""

from __future__ import annotations

import importlib.metadata
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from packaging.requirements import Requirement

from engine.installation_checks import CheckResult, passed, passed_if, warned
from engine.sandbox.zygote_process import strongest_level
from engine.storage.installation import CHROMIUM, DISTRIBUTION, first_installed, install_command, requirements
from grpo_training.serve.engines import automatic_engine

_TOP_LEVEL = ("engine", "prompts")
"""Packages of the project whose names others may have."""
_EXTRAS = {
    "local": "local models",
    "finetune": "fine-tuning",
    "datasets": "datasets from the Hugging Face hub",
}
_TOOLS = {
    "bubblewrap": (("bwrap",), "the strongest isolation of model-written code", "apt-get install bubblewrap"),
    "node": (("node", "nodejs"), "tasks in JavaScript", "apt-get install nodejs"),
    "chromium": (CHROMIUM, "running Phaser games", "apt-get install chromium-headless-shell"),
}
_RECOMMENDED_FREE = 2 << 30


def environment() -> Iterator[CheckResult]:
    """Python, the declared dependencies and their versions, the tools, and the isolation level of the sandbox."""
    version = ".".join(map(str, sys.version_info[:3]))
    yield passed_if(sys.version_info >= (3, 11), f"Python {version}", "Install Python 3.11 or newer.")
    required = requirements()
    missing = [text for text in map(missing_package, required) if text]
    yield passed_if(
        not missing, f"{len(required)} packages: " + ("; ".join(missing) or "all installed"), install_command()
    )
    for extra, purpose in _EXTRAS.items():
        missing = [text for text in map(missing_package, requirements(extra)) if text]
        if missing:
            yield warned(f"packages for {purpose}: {'; '.join(missing)}", install_command(extra))
        else:
            yield passed(f"packages for {purpose}: all installed")
    yield from names_of_packages()
    engine, why = automatic_engine()
    yield passed(f"local models are served with {engine.name}: {why}")
    for tool, (names, purpose, fix) in _TOOLS.items():
        path = first_installed(names)
        yield passed(f"{tool}: {path}") if path else warned(f"{tool} is not installed; needed for {purpose}", fix)
    level = strongest_level()
    fix = "apt-get install bubblewrap; in a container, permit user namespaces."
    yield (
        warned("isolation of programs: rlimits only; programs are not scored without --allow-weak-sandbox", fix)
        if level == "rlimits"
        else passed(f"isolation of programs: {level}")
    )


def names_of_packages() -> Iterator[CheckResult]:
    """Other installed projects with a top-level package that has the name of one of this project."""
    owners = importlib.metadata.packages_distributions()
    for name in _TOP_LEVEL:
        others = sorted({*owners.get(name, ())} - {DISTRIBUTION})
        if others:
            yield warned(
                f"{', '.join(others)} has a package {name!r} too, and only one of the two can be imported",
                "Install Scaffold-GRPO in an environment of its own.",
            )


def missing_package(requirement: Requirement) -> str:
    """Why a requirement is not met; empty if it is met."""
    try:
        version = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        return f"{requirement.name} is not installed"
    is_met = requirement.specifier.contains(version, prereleases=True)
    return "" if is_met else f"{requirement.name} {version} is not {requirement.specifier}"


def disk(folders: Sequence[Path]) -> Iterator[CheckResult]:
    """Free space where files are written."""
    for folder in folders:
        existing = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
        free = shutil.disk_usage(existing).free
        text, fix = f"{free / 2**30:.1f} GiB free at {existing}", "Free disk space, or choose another --cache-dir."
        yield passed(text) if free >= _RECOMMENDED_FREE else warned(text, fix)
