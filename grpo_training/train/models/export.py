"""Results of a training: the LoRA adapter, and a merged model that can be served."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peft import PeftModel
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from grpo_training.train.config import GRPOTrainingConfig
from grpo_training.train.folders import write_folder
from grpo_training.train.models.loading import has_adapter, load_base_model

ADAPTER, MERGED = "lora", "merged"
"""Folders of a run directory."""


@dataclass(frozen=True)
class TrainingResult:
    """The result of a training.

    Args:
        steps: optimizer steps, those before an interruption included.
        adapter: the folder of the LoRA; None where the whole model was trained.
        merged: the folder of a whole model that can be served.
        seconds: duration of this process's part.
    """

    steps: int
    adapter: Path | None
    merged: Path
    seconds: float = 0.0


def export_model(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, run_dir: Path, config: GRPOTrainingConfig
) -> None:
    """Write ``RUN/lora`` (if there is a LoRA) and ``RUN/merged``, each atomically.

    The merged model keeps the precision of the training; tokenizer, chat template and generation settings are saved
    with it. The LoRA is merged in place: ``model`` has none afterwards. The LoRA of a 4-bit or
    8-bit base is merged into the base as it is stored, in the precision of a training without load_in_4bit.

    Raises:
        ScaffoldError: they cannot be written; no partial folder is left.
    """
    adapter = run_dir / ADAPTER if has_adapter(model) else None
    if adapter is not None:
        write_folder(adapter, lambda folder: _write(model, tokenizer, folder))
    if adapter is not None and config.quantised is not None:
        base = load_base_model(config.model_copy(update={config.quantised: False}))
        model = PeftModel.from_pretrained(base, adapter)
    merged = model.merge_and_unload() if has_adapter(model) else model
    merged.config.use_cache = True  # the training disables it
    write_folder(run_dir / MERGED, lambda folder: _write(merged, tokenizer, folder))


def _write(model: Any, tokenizer: Any, folder: Path) -> None:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
