"""Checkpoints of a training run, and folders that are there whole or not at all.

``RUN/checkpoint-12/`` holds what the training needs to go on after step 12 as if nothing had happened: the weights
that learn (a PEFT adapter that can be served as it is), the optimizer, the scheduler, the adaptive KL, and in
``state.json`` where the training stands. It holds no state of a random generator: what a step draws depends on the
seed and the step's number alone.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import InputError, ScaffoldError
from engine.storage.append_log import sync_directory
from grpo_training.finetune.model_loading import load_weights, save_weights

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from transformers import PreTrainedModel

_PREFIX = "checkpoint-"
_STATE, _TENSORS = "state.json", "training.pt"
_UNFINISHED, _REPLACED = ".unfinished", ".replaced"


@dataclass(frozen=True)
class Validation:
    """How the policy does on held-out groups; see ``validation.validate``.

    Args:
        rewards: the estimated reward of each group, in their order.
        kl: mean k3 per token against the starting policy.
        effective_samples: how many responses of a group the estimate rests on, on average.
    """

    rewards: tuple[float, ...]
    kl: float
    effective_samples: float

    @property
    def reward(self) -> float:
        """The mean over the groups."""
        return statistics.fmean(self.rewards)


@dataclass(frozen=True)
class State:
    """Where a training stands.

    Args:
        step: optimiser steps done; the place in the plan of steps, and so in the data.
        stage, epoch: of the last step.
        num_tokens: tokens that went through the model so far.
        settings: what shapes the weights, as JSON values; a run of other settings is another run.
        data: the fingerprint of the samples.
        validation: figures on held-out groups, where there are such.
    """

    step: int
    stage: str
    epoch: float
    num_tokens: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    data: str = ""
    validation: Validation | None = None


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint's folder and its ``state.json``."""

    folder: Path
    state: State


def save_checkpoint(run_dir: Path, model: PreTrainedModel, state: State, tensors: Mapping[str, Any]) -> Checkpoint:
    """Write ``RUN/checkpoint-<step>``, whole or not at all.

    Args:
        run_dir: the run's folder.
        model: its trained weights are written.
        state: where the training stands.
        tensors: the state of optimizer, scheduler and the like: tensors, numbers and texts in dicts and lists.

    Raises:
        ScaffoldError: the disk does not take it; nothing half-written is left.
    """

    def write(folder: Path) -> None:
        import torch

        save_weights(model, folder)
        torch.save(dict(tensors), folder / _TENSORS)
        (folder / _STATE).write_text(json.dumps(asdict(state), indent=2) + "\n", encoding="utf-8")

    folder = run_dir / f"{_PREFIX}{state.step}"
    write_folder(folder, write)
    return Checkpoint(folder, state)


def load_checkpoint(checkpoint: Checkpoint, model: PreTrainedModel) -> dict[str, Any]:
    """Put the checkpoint's weights into ``model`` and give back its tensors, on the CPU.

    Raises:
        InputError: it was made with another model, or it cannot be read.
    """
    import torch

    load_weights(model, checkpoint.folder)
    try:
        tensors: dict[str, Any] = torch.load(checkpoint.folder / _TENSORS, map_location="cpu", weights_only=True)
    except Exception as error:  # a broken file fails in any of a dozen ways
        raise InputError(
            f"The checkpoint {checkpoint.folder} cannot be read",
            why=str(error).splitlines()[0] if str(error) else type(error).__name__,
            fix="Remove that folder to go on from the checkpoint before it, or begin anew with --fresh.",
        ) from error
    return tensors


def checkpoints(run_dir: Path) -> list[Checkpoint]:
    """The checkpoints of a run, the latest last.

    Raises:
        InputError: a ``state.json`` cannot be read.
    """
    found = []
    for folder in run_dir.glob(f"{_PREFIX}*"):
        if folder.name.removeprefix(_PREFIX).isdigit() and (folder / _STATE).exists():
            found.append(Checkpoint(folder, _read_state(folder / _STATE)))
    return sorted(found, key=lambda checkpoint: checkpoint.state.step)


def _read_state(path: Path) -> State:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        held_out = values.pop("validation")
        if held_out is not None:
            held_out["rewards"] = tuple(held_out["rewards"])
            held_out = Validation(**held_out)
        return State(**values, validation=held_out)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"Cannot read {path}", why=str(error), fix="Remove that checkpoint, or begin anew with --fresh."
        ) from error


def check_same_run(checkpoint: Checkpoint, settings: Mapping[str, Any], data: str) -> None:
    """Refuse to go on from a checkpoint of other settings or other samples.

    Raises:
        InputError: they differ; it names what.
    """
    there = checkpoint.state.settings
    differences = [
        f"{name}: {there.get(name)!r} there, {settings.get(name)!r} now"
        for name in sorted(there.keys() | settings.keys())
        if there.get(name) != settings.get(name)
    ]
    if checkpoint.state.data != data:
        differences.append("the training samples are others")
    if differences:
        raise InputError(
            f"{checkpoint.folder} belongs to a training of another configuration",
            why="; ".join(differences),
            fix="Run with the settings and data of then, or begin anew with --fresh, or in another --output-dir.",
        )


# ------------------------------------------------------------------ which one is best


def best_checkpoints(found: Sequence[Checkpoint], kl_limit: float) -> dict[str, Checkpoint]:
    """The best checkpoint by each measure; empty where nothing was held out.

    ``reward``: the highest estimated reward on the held-out groups. ``kl``: the highest among those that stayed within
    ``kl_limit`` of the starting policy, or the nearest to it where none did. Of equals the earlier one.
    """
    measured = [checkpoint for checkpoint in found if checkpoint.state.validation is not None]
    if not measured:
        return {}

    def reward(checkpoint: Checkpoint) -> float:
        return _validation(checkpoint).reward

    near = [checkpoint for checkpoint in measured if _validation(checkpoint).kl <= kl_limit]
    nearest = min(measured, key=lambda checkpoint: _validation(checkpoint).kl)
    return {"reward": max(measured, key=reward), "kl": max(near, key=reward) if near else nearest}


def checkpoint_to_export(found: Sequence[Checkpoint], kl_limit: float) -> Checkpoint:
    """The last checkpoint, unless an earlier one is better on held-out groups by more than chance.

    Better by more than chance: the mean of the paired differences between the two estimates, group by group, exceeds
    its standard error. A few held-out groups are a noisy judge, and training longer is the safer guess.
    """
    last = found[-1]
    best = best_checkpoints(found, kl_limit).get("reward", last)
    if last.state.validation is None or best is last:
        return last
    gains = [high - low for high, low in zip(_validation(best).rewards, _validation(last).rewards, strict=True)]
    if len(gains) < 2:
        return last
    error = statistics.stdev(gains) / len(gains) ** 0.5
    return best if statistics.fmean(gains) > error else last


def remove_old_checkpoints(run_dir: Path, keep: int | None, kl_limit: float) -> None:
    """Remove all but the last ``keep`` checkpoints (None: keep all) and the best ones."""
    if keep is None:
        return
    found = checkpoints(run_dir)
    kept = {checkpoint.folder for checkpoint in found[-max(1, keep) :]}
    kept |= {checkpoint.folder for checkpoint in best_checkpoints(found, kl_limit).values()}
    for checkpoint in found:
        if checkpoint.folder not in kept:
            _remove_folder(checkpoint.folder)


def _validation(checkpoint: Checkpoint) -> Validation:
    if checkpoint.state.validation is None:
        raise ValueError(f"{checkpoint.folder} was not measured")
    return checkpoint.state.validation


# ------------------------------------------------------------------ whole folders


def write_folder(folder: Path, write: Callable[[Path], None]) -> None:
    """Fill a folder beside ``folder`` and put it in place when it is whole and on the disk.

    A crash at any byte leaves the old folder, or the new one, or for an instant neither under this name (then
    :func:`mend_folders` brings the old one back).

    Args:
        folder: the place; what is there is replaced.
        write: fills the folder that it is given.

    Raises:
        ScaffoldError: the disk does not take it; nothing half-written is left.
    """
    from safetensors import SafetensorError

    unfinished = folder.with_name(folder.name + _UNFINISHED)
    replaced = folder.with_name(folder.name + _REPLACED)
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        write(unfinished)
        _sync_folder(unfinished)
    except BaseException as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        if isinstance(error, OSError | RuntimeError | SafetensorError) and not isinstance(error, ScaffoldError):
            raise ScaffoldError(
                f"Cannot write {folder}",
                why=str(error).splitlines()[0] if str(error) else type(error).__name__,
                fix="Make room on the disk and give the same command again; nothing half-written was left.",
            ) from error
        raise
    if folder.exists():
        shutil.rmtree(replaced, ignore_errors=True)
        folder.rename(replaced)
    unfinished.rename(folder)
    sync_directory(folder.parent)
    shutil.rmtree(replaced, ignore_errors=True)


def mend_folders(run_dir: Path) -> None:
    """After a crash: remove folders that were not finished, and bring back one that was just being replaced."""
    for unfinished in run_dir.glob(f"*{_UNFINISHED}"):
        shutil.rmtree(unfinished, ignore_errors=True)
    for replaced in run_dir.glob(f"*{_REPLACED}"):
        folder = replaced.with_name(replaced.name.removesuffix(_REPLACED))
        if folder.exists():
            shutil.rmtree(replaced, ignore_errors=True)
        else:
            replaced.rename(folder)


def _remove_folder(folder: Path) -> None:
    """Remove a folder so that a crash leaves it whole or under a name that nobody takes for a checkpoint."""
    doomed = folder.with_name(folder.name + _UNFINISHED)
    folder.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def _sync_folder(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            fd = os.open(path, os.O_RDONLY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
    sync_directory(folder)
