"""Muon: momentum with orthogonalised updates, for the matrices of a transformer.

After K. Jordan et al., "Muon: An optimizer for hidden layers in neural networks" (2024), with the update's size
matched to AdamW's as in "Muon is scalable for LLM training" (arXiv 2502.16982). ``torch.optim.Muon`` iterates in
bfloat16, which CPUs without native support emulate slowly. This one keeps the dtype of the parameters and updates all
matrices of a shape at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_ITERATIONS = 5


class Muon(torch.optim.Optimizer):  # type: ignore[misc, unused-ignore]  # torch may not be installed
    """Muon with Nesterov momentum and decoupled weight decay.

    Args:
        parameters: matrices.
        lr: learning rate, on the scale of AdamW's.
        momentum: decay of the average of the gradients.
        weight_decay: decoupled weight decay, relative to ``lr``.
    """

    def __init__(
        self, parameters: Iterable[torch.Tensor], lr: float, momentum: float = 0.95, weight_decay: float = 0.05
    ) -> None:
        super().__init__(list(parameters), {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    def step(self, closure: Any = None) -> None:
        """Update all parameters that have a gradient; ``closure`` is ignored."""
        with torch.no_grad():
            for group in self.param_groups:
                by_shape: dict[torch.Size, list[torch.Tensor]] = defaultdict(list)
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        by_shape[parameter.shape].append(parameter)
                for alike in by_shape.values():
                    self._step_together(alike, **{name: group[name] for name in ("lr", "momentum", "weight_decay")})

    def _step_together(self, parameters: list[torch.Tensor], lr: float, momentum: float, weight_decay: float) -> None:
        """Update parameters of one shape."""
        updates = torch.stack([self._momentum(parameter, momentum) for parameter in parameters])
        size = 0.2 * max(updates.shape[1:]) ** 0.5
        for parameter, update in zip(parameters, orthogonal(updates), strict=True):
            parameter.mul_(1 - lr * weight_decay)
            parameter.add_(update, alpha=-lr * size)

    def _momentum(self, parameter: torch.Tensor, momentum: float) -> torch.Tensor:
        assert parameter.grad is not None
        state = self.state[parameter]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(parameter)
        state["momentum"].lerp_(parameter.grad, 1 - momentum)
        nesterov: torch.Tensor = parameter.grad.lerp(state["momentum"], momentum)
        return nesterov


def orthogonal(matrices: torch.Tensor) -> torch.Tensor:
    """Matrices with the same singular vectors and singular values near 1 (0.7 to 1.2).

    Newton-Schulz iteration of degree five with the coefficients of the Muon paper, which favour fast growth of small
    singular values over exact convergence to 1.

    Args:
        matrices: ``(count, rows, columns)``.
    """
    a, b, c = _COEFFICIENTS
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(_ITERATIONS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if tall else x
