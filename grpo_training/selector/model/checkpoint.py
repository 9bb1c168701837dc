"""Checkpoints of a selector: one file with architecture, weights, and what it was trained with."""

from __future__ import annotations

import io
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from engine.errors import InputError, MissingInputError, first_line
from engine.storage.append_log import write_file
from grpo_training.selector.model.pointer import PointerSelector, SelectorConfig

FORMAT = 1


@dataclass(frozen=True)
class CheckpointInfo:
    """What a checkpoint tells besides its weights.

    Args:
        phase: ``sft``, ``rce`` or ``grpo``.
        epoch: completed epochs of that phase.
        embeddings: where the embeddings are and what made them; see :mod:`grpo_training.selector.data.sources`.
        shots: length of the sequences that it was trained on.
        sft_learning_rate: the peak of SFT.
        kl_beta: weight of the KL at the end of the epoch.
        metrics: figures on held-out queries.
    """

    phase: str
    epoch: int
    embeddings: dict[str, Any] = field(default_factory=dict)
    shots: int = 2
    sft_learning_rate: float = 0.0
    kl_beta: float = 0.0
    metrics: dict[str, float] = field(default_factory=dict)


def save_model(path: Path, model: PointerSelector, info: CheckpointInfo) -> None:
    """Write a checkpoint atomically."""
    content = {
        "format": FORMAT,
        "config": asdict(model.config),
        "state_dict": {name: value.detach().cpu() for name, value in model.state_dict().items()},
        **asdict(info),
    }
    save_atomically(path, content)


def save_atomically(path: Path, content: dict[str, Any]) -> None:
    """``torch.save`` of plain values and tensors; a crash leaves the old file or the new one."""
    buffer = io.BytesIO()
    torch.save(content, buffer)
    write_file(path, buffer.getvalue())


def load_model(path: Path, version: str | None = None) -> tuple[PointerSelector, CheckpointInfo]:
    """The model of a checkpoint, in evaluation mode, and its facts. Every weight must match by name and shape.

    Args:
        path: the file.
        version: ``v2``: it has to be of SFT; ``v3``: of the post-training; None: of either.

    Raises:
        MissingInputError: there is no such file.
        InputError: it is no checkpoint of a selector, a weight is missing, unknown or of another shape, or it is of
            the other version.
    """
    content = load_plain(path)
    if content.get("format") != FORMAT or "config" not in content:
        raise InputError(
            f"{path} is no checkpoint of a selector",
            why="It has no architecture in it, as those of Lightning and Lever-Plus.",
            fix="Pass a .ckpt file that `python -m grpo_training.selector sft` or `train` wrote.",
        )
    try:
        model = PointerSelector(SelectorConfig(**content["config"]))
        model.load_state_dict(content["state_dict"], strict=True)
        info = CheckpointInfo(**{name: content[name] for name in CheckpointInfo.__dataclass_fields__})
    except (RuntimeError, TypeError, ValueError, AssertionError, KeyError) as error:
        raise InputError(
            f"The weights in {path} are not those of its architecture", why=" ".join(str(error).split())[:300]
        ) from None
    trained = "v2" if info.phase == "sft" else "v3"
    if version not in (None, trained):
        raise InputError(
            f"{path} is a {trained} checkpoint (phase {info.phase}), not {version}", fix="Leave --model-version out."
        )
    return model.eval(), info


def load_plain(path: Path) -> dict[str, Any]:
    """The content of a file that :func:`save_atomically` wrote."""
    if not path.is_file():
        raise MissingInputError(f"Checkpoint not found: {path}")
    try:
        content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file raises one of many types
        raise InputError(f"Cannot read the checkpoint {path}", why=first_line(error)) from error
    if not isinstance(content, dict):
        raise InputError(f"{path} is no checkpoint of a selector")
    return content
