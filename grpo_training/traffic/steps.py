"""The steps of ``python -m grpo_training.traffic``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import as_completed
from pathlib import Path

from engine.errors import InputError, MissingInputError, ScaffoldError
from engine.tasks.traffic.scenarios import find_config
from engine.tasks.traffic.simulation.generation import Generated, GenerationSettings, generate_scenario
from engine.tasks.traffic.simulation.process import SimulationThreads, require_sumo
from grpo_training.cli.bar import progress_bar
from grpo_training.cli.terminal_text import say
from grpo_training.traffic.settings import Chosen, EvaluateSettings, GenerateSettings


def generate(settings: GenerateSettings) -> int:
    """Make the datasets of the chosen scenarios. Failed scenarios are reported at the end; the others are kept."""
    require_sumo()
    folders = chosen_folders(settings)
    shape = GenerationSettings(**{name: getattr(settings, name) for name in GenerationSettings.__dataclass_fields__})
    failures: list[tuple[str, ScaffoldError]] = []
    done: list[Generated] = []
    with progress_bar(desc="decisions", unit="") as bar, SimulationThreads(settings.parallel) as pool:
        running = {
            pool.submit(
                generate_scenario,
                folder,
                settings.output_dir,
                shape,
                limit_s=settings.time_limit,
                progress=bar.update,
            ): folder
            for folder in folders
        }
        for future in as_completed(running):
            try:
                done.append(future.result())
            except ScaffoldError as error:
                failures.append((running[future].name, error))
    for result in sorted(done, key=lambda result: result.scenario):
        dropped = ", ".join(f"{count} {reason}" for reason, count in result.dropped.items())
        state = "already there" if result.was_there else f"dropped: {dropped or 'none'}"
        say(f"{result.scenario}: {result.rows} decisions ({state})")
    if failures:
        for name, failure in failures[1:]:
            say(f"✗ {name}: {failure.what} {failure.why}")
        raise failures[0][1]
    return 0


def chosen_folders(settings: Chosen) -> list[Path]:
    """The folders of the chosen scenarios.

    Raises:
        MissingInputError: a scenario is not there, or has no configuration.
    """
    if settings.all:
        folders = sorted(path.parent for path in settings.scenarios_dir.glob("*/*.sumocfg"))
        if not folders:
            raise MissingInputError(
                f"No scenarios in {settings.scenarios_dir}",
                fix="Put folders of SUMO scenarios there, each with one .sumocfg, or name another --scenarios-dir.",
            )
        return list(dict.fromkeys(folders))
    names = [name for entry in (settings.scenario or "").split(",") if (name := entry.strip())]
    if not names:
        raise InputError("No scenario is named", fix="Pass --scenario NAME, --scenario a,b or --all.")
    for name in names:
        if "/" in name or name in (".", ".."):
            raise InputError(
                f"A scenario is named by its folder, got {name!r}", fix="Pass its parent as --scenarios-dir."
            )
    folders = [settings.scenarios_dir / name for name in names]
    for folder in folders:
        find_config(folder)
    return folders


def _evaluate(settings: EvaluateSettings) -> int:
    from grpo_training.traffic.evaluation import evaluate  # statistics, endpoints: only this step

    return evaluate(settings, chosen_folders(settings))


FUNCTIONS: Mapping[str, Callable[..., int]] = {"generate": generate, "evaluate": _evaluate}
