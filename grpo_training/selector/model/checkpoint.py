"""Checkpoints of a selector: one file with architecture, weights, and what it was trained with."""

from __future__ import annotations

import io
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from engine.errors import InputError, MissingInputError, first_line
from engine.storage.append_log import replace_file
from grpo_training.selector.model.pointer import PointerSelector, config_from

FORMAT = 1
_KINDS: dict[str, Any] = {
    **dict.fromkeys(("config", "state_dict", "embeddings", "metrics"), dict),
    **{"phase": str, "epoch": int, "shots": int, "learning_rate": float | int, "kl_beta": float | int},
}
"""The types of what a checkpoint holds."""


@dataclass(frozen=True)
class CheckpointInfo:
    """What a checkpoint tells besides its weights.

    Args:
        phase: ``sft``, ``rce`` or ``grpo``.
        epoch: completed epochs of that phase.
        embeddings: where the embeddings are and what made them; see :mod:`grpo_training.selector.data.encoder`.
        shots: length of the sequences that it was trained on.
        learning_rate: the peak of its phase.
        kl_beta: weight of the KL at the end of the epoch.
        metrics: figures on held-out queries.
    """

    phase: str
    epoch: int
    embeddings: dict[str, Any] = field(default_factory=dict)
    shots: int = 2
    learning_rate: float = 0.0
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
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, buffer.getvalue())


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
    wrong = [name for name, kind in _KINDS.items() if name in content and not isinstance(content[name], kind)]
    if wrong:
        raise InputError(f"{path}: {wrong[0]} is a {type(content[wrong[0]]).__name__}", fix="The file is damaged.")
    config = config_from(content["config"])
    try:
        model = PointerSelector(config)
        model.load_state_dict(content.get("state_dict", {}), strict=True)
    except (RuntimeError, TypeError, ValueError, AssertionError) as error:
        raise InputError(
            f"The weights in {path} are not those of its architecture", why=" ".join(str(error).split())[:300]
        ) from None
    if not all(bool(torch.isfinite(one).all()) for one in model.state_dict().values()):
        raise InputError(f"{path} has weights that are not finite", fix="Pass an earlier checkpoint.")
    names = CheckpointInfo.__dataclass_fields__
    info = CheckpointInfo(**{name: content[name] for name in names if name in content})
    own = "v2" if info.phase == "sft" else "v3"
    if version not in (None, own):
        raise InputError(
            f"{path} is a {own} checkpoint (phase {info.phase}), not {version}", fix="Leave --model-version out."
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
