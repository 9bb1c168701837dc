"""The demo: own scenarios, decisions, a small model that learns from them, and its comparison with Max-Pressure."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.storage.append_log import replace_file
from engine.tasks.traffic.scenarios import own_scenario
from engine.tasks.traffic.simulation.process import require_sumo
from grpo_training.cli.settings import ROOT
from grpo_training.runs.supervisor import Command, supervise
from grpo_training.traffic.evaluation.run import evaluate
from grpo_training.traffic.settings import DemoSettings, EvaluateSettings
from grpo_training.train.config import load_config
from grpo_training.train.run import check_packages
from grpo_training.training.metrics_log import latest_metrics

STYLE = "compact"
SFT, GRPO = "traffic_small_sft.yaml", "traffic_small.yaml"
_CONFIGS = ROOT / "grpo_training/configs"
_CHATS = 2000


def run_demo(settings: DemoSettings) -> int:
    """Run all stages, each as the command that a user would run. Returns the exit code.

    The same command again goes on after an interruption: a stage keeps what it has.

    Raises:
        ScaffoldError: SUMO or a package is missing, or a stage failed.
    """
    require_sumo()
    for name in (SFT, GRPO):
        check_packages(load_config(_CONFIGS / name))
    output = settings.output.resolve()
    stages = _Stages(output, settings.seed)
    scenarios, data, models = output / "scenarios", output / "data", output / "models"
    stages.traffic("scenarios", "--count", settings.scenarios, "--scenarios-dir", scenarios)
    for split in ("train", "test"):
        stages.traffic(
            "generate",
            *("--all", "--split", split, "--scenarios-dir", scenarios, "--output-dir", data / split),
            *("--max-decisions", settings.max_decisions, "--parallel", settings.parallel),
            progress=functools.partial(_generated, data / split),
        )
    train = ("--dataset", data / "train", "--prompts", STYLE)
    if not (models / "start").exists():
        stages.traffic("small-model", *train, "--output-dir", models / "start")
    stages.traffic("sft-data", *train, "--sample-size", _CHATS, "--output-dir", data)
    stages.traffic("rollouts", *train, "--output-dir", data / "rollouts", seed=False)
    stages.train(SFT, models / "start", data / "sft_dataset.jsonl", models / "sft")
    stages.train(GRPO, models / "sft/merged", data / "rollouts", models / "small-model")
    shown = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in stages.seconds.items())
    print(f"Evaluation on scenarios that were not trained on. So far: {shown}", flush=True)
    evaluation = EvaluateSettings.model_validate(
        {
            "policy": f"max-pressure,fixed,{models / 'small-model/merged'}",
            "all": True,
            "scenarios_dir": scenarios,
            "seeds": settings.seeds,
            "seconds": settings.seconds,
            "dataset": data / "test",
            "prompts": STYLE,
            "max_tokens": 16,
            "output": output / "evaluation.json",
        }
    )
    specs = [(folder, own_scenario(folder)) for folder in sorted(scenarios.iterdir())]
    code = evaluate(evaluation, [folder for folder, spec in specs if spec is not None and spec.split == "test"])
    timings = json.dumps({"settings": settings.model_dump(mode="json"), "seconds": stages.seconds}, indent=2)
    replace_file(output / "demo.json", timings.encode() + b"\n")
    print(f"Curves: {models / 'small-model/report.html'}")
    return code


def _generated(folder: Path) -> str:
    return f"{len(list(folder.glob('*/generation.json')))} scenarios"


class _Stages:
    """Runs commands one after the other, shows their progress and measures their seconds."""

    def __init__(self, output: Path, seed: int) -> None:
        self._output, self._seed = output, seed
        self.seconds: dict[str, float] = {}

    def traffic(self, step: str, *flags: object, seed: bool = True, progress: Callable[[], str] = lambda: "") -> None:
        """One step of the traffic command."""
        seeded = ("--seed", self._seed) if seed else ()
        self._run(step, ["traffic", step, *map(str, (*flags, *seeded))], progress)

    def train(self, config: str, model: Path, dataset: Path, run_dir: Path) -> None:
        """One training."""
        flags = {
            "--config": _CONFIGS / config,
            "--model-path": model,
            "--dataset-path": dataset,
            "--output-dir": run_dir,
            "--seed": self._seed,
        }
        arguments = [str(part) for pair in flags.items() for part in pair]
        self._run(f"train {run_dir.name}", ["train", *arguments], lambda: latest_metrics(run_dir / "metrics.jsonl"))

    def _run(self, name: str, arguments: Sequence[str], progress: Callable[[], str]) -> None:
        began = time.monotonic()
        log = self._output / "logs" / f"{len(self.seconds) + 1:02d}_{name.replace(' ', '_')}.log"
        supervise([Command(name, arguments, log, progress)])
        self.seconds[name] = round(self.seconds.get(name, 0.0) + time.monotonic() - began, 1)
