"""The model that learns as a module whose forward pass gives log-probs, so that accelerate can wrap it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from grpo_training.train.data.batches import Batch
from grpo_training.train.objective.logprobs import completion_logps_and_entropy
from grpo_training.train.objective.packing import Layout

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class LogProbModel(nn.Module):  # type: ignore[misc]
    """A language model whose forward pass gives the log-probs of completions.

    DDP, FSDP and DeepSpeed see only what passes through ``forward`` of the module that they wrap. The log-probs are
    computed from the backbone and the head, so these two are inside it.

    Args:
        model: a causal language model of transformers, or a PEFT model.
        chunk_size: positions whose logits are in memory at once.
        layout: how the rows of a batch pass through the model.
    """

    def __init__(self, model: PreTrainedModel, *, chunk_size: int, layout: Layout = "padded") -> None:
        super().__init__()
        self.model = model
        self._no_split_modules = model._no_split_modules  # accelerate reads here what FSDP divides as one unit
        self._options: dict[str, Any] = {"chunk_size": chunk_size, "layout": layout}

    def tie_weights(self) -> None:
        """Tie the weights of embedding and head again, which accelerate calls once FSDP has divided them."""
        self.model.tie_weights()

    def forward(self, batch: Batch, *, temperature: float, entropy: bool = False) -> tuple[Tensor, Tensor | None]:
        """Log-probs (B, C), and the entropies (B, C, without gradient) if they are asked for.

        Args:
            batch: the rows as tensors.
            temperature: divides the logits.
            entropy: whether to compute the entropy at each token too.
        """
        tensors = (batch.input_ids_BT, batch.attention_mask_BT, batch.completion_start_B, batch.mask_BC)
        return completion_logps_and_entropy(
            self.model, *tensors, temperature=temperature, entropy=entropy, **self._options
        )
