"""Checkpoints of Lever-Plus as checkpoints of this selector, where the architecture is the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from engine.errors import InputError
from grpo_training.selector.data.sources import record_of
from grpo_training.selector.model.checkpoint import STATE_KEYS, CheckpointInfo, load_plain, save_model
from grpo_training.selector.model.pointer import PointerSelector, SelectorConfig, count_parameters
from grpo_training.selector.settings import ConvertSettings

_PREFIX = "pointer_selector."
_NAMES = (
    (r"cross_attn\.", "attention.0."),
    (r"attn_norm\.", "norms.0."),
    (r"cross_attn_layers\.(\d+)\.", r"attention.\1."),
    (r"attn_norms\.(\d+)\.", r"norms.\1."),
    (r"query_update_gate\.", "gate."),
)
"""Name there, at the start -> name here."""
_OURS = re.compile(r"(input_proj|query_proj|cand_proj|gate|attention\.\d+|norms\.\d+)\.")


def convert(settings: ConvertSettings) -> int:
    """Write a checkpoint of this selector. Returns the exit code.

    Raises:
        InputError: the file has no weights of a pointer selector, or those of another architecture.
    """
    content = load_plain(settings.checkpoint)
    stored = next((content[key] for key in STATE_KEYS if content.get(key)), None)
    if not isinstance(stored, dict):
        raise InputError(f"{settings.checkpoint} has neither {' nor '.join(STATE_KEYS)}")
    weights = renamed(stored, str(settings.checkpoint))
    model = PointerSelector(config_of(weights, settings.num_heads, str(settings.checkpoint)))
    try:
        model.load_state_dict(weights, strict=True)
    except RuntimeError as error:
        raise InputError(
            f"The weights in {settings.checkpoint} are of another architecture", why=" ".join(str(error).split())[:300]
        ) from None
    epoch, rate = content.get("epoch"), _rate(content)
    info = CheckpointInfo(
        phase="sft" if "state_dict" in content else str(content.get("phase") or "sft"),
        epoch=epoch + 1 if type(epoch) is int else 0,
        embeddings=record_of(settings),
        shots=settings.shots,
        learning_rate=rate,
    )
    save_model(settings.output, model, info)
    print(f"{count_parameters(model):,} parameters, {model.config.num_layers} layers, decoder {model.config.decoder}")
    print(settings.output)
    return 0


def renamed(stored: Mapping[str, Any], place: str) -> dict[str, Tensor]:
    """The weights under our names.

    Raises:
        InputError: a weight has no counterpart; the variants with other decoders and scores have such weights.
    """
    if not all(isinstance(key, str) and isinstance(value, Tensor) for key, value in stored.items()):
        raise InputError(f"{place}: its weights are no tensors with names")
    own = {key.partition(_PREFIX)[2]: value for key, value in stored.items() if _PREFIX in key}
    found = {}
    for key, value in (own or dict(stored)).items():
        name = key
        for there, here in _NAMES:
            name = re.sub(f"^{there}", here, name)
        if not _OURS.match(name):
            raise InputError(
                f"{place}: the weight {key!r} has no counterpart in this selector",
                why="Versions v1 to v3 with attention layers, and the gate of v4-1, are the same network.",
                fix="Train a selector on the beam file: python -m grpo_training.selector sft --decoder gru",
            )
        found[name] = value
    return found


def config_of(weights: Mapping[str, Tensor], num_heads: int, place: str) -> SelectorConfig:
    """The architecture that weights belong to."""
    if "query_proj.weight" not in weights:
        raise InputError(f"{place} has no query_proj.weight", why="It has no weights of a pointer selector.")
    hidden = int(weights["query_proj.weight"].shape[0])
    first = weights.get("input_proj.weight")
    return SelectorConfig(
        d_model=hidden if first is None else int(first.shape[1]),
        hidden_dim=hidden,
        num_heads=num_heads,
        num_layers=len({name.split(".")[1] for name in weights if name.startswith("norms.")}),
        decoder="gate" if "gate.weight" in weights else "static",
    )


def _rate(content: Mapping[str, Any]) -> float:
    parameters = content.get("hyper_parameters")
    rate = parameters.get("lr") if isinstance(parameters, dict) else None
    return float(rate) if isinstance(rate, int | float) else 0.0
