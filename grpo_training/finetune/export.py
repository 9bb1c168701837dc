"""What a training hands over: the LoRA adapter, and a whole model that can be served."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grpo_training.finetune.model_loading import has_adapter
from grpo_training.finetune.offline.checkpoints import write_folder

if TYPE_CHECKING:
    from pathlib import Path

    from transformers import PreTrainedModel, PreTrainedTokenizerBase

ADAPTER, MERGED = "lora", "merged"


def export_model(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, run_dir: Path) -> tuple[Path | None, Path]:
    """Write ``RUN/lora`` (where there is a LoRA) and ``RUN/merged``, each whole or not at all.

    The merged model has the precision that it was trained in, and with it the tokenizer, its chat template and the
    generation settings. The LoRA is merged in place: the model has none afterwards.

    Returns:
        the adapter's folder or None, and the merged model's.

    Raises:
        ScaffoldError: the disk does not take it; nothing half-written is left.
    """
    adapter = run_dir / ADAPTER if has_adapter(model) else None
    if adapter is not None:
        write_folder(adapter, lambda folder: _write(model, tokenizer, folder))
    merged, whole = run_dir / MERGED, _merged(model)
    write_folder(merged, lambda folder: _write(whole, tokenizer, folder))
    return adapter, merged


def _merged(model: Any) -> Any:
    whole = model.merge_and_unload() if has_adapter(model) else model
    whole.config.use_cache = True  # it was off for the training
    return whole


def _write(model: Any, tokenizer: Any, folder: Path) -> None:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
