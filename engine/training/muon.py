"""Muon: momentum whose update is orthogonalised, for weight matrices.

Source: Jordan et al. 2024, kellerjordan.github.io/posts/muon.

Unlike ``torch.optim.Muon`` it takes stacks of matrices, which fused experts are, and runs matrices of one shape as
one batch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor
from torch.optim import Optimizer


def orthogonalise(matrices: Tensor, steps: int = 5) -> Tensor:
    """Nearly the orthogonal factor of each (..., M, N), by a quintic Newton-Schulz iteration."""
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    out: Tensor = x.mT if tall else x
    return out


class Muon(Optimizer):
    """Nesterov momentum, orthogonalised; decoupled weight decay."""

    def __init__(
        self, params: Iterable[Tensor], lr: float = 0.02, momentum: float = 0.95, weight_decay: float = 0.0
    ) -> None:
        super().__init__(list(params), {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # noqa: ARG002
        for group in self.param_groups:
            by_shape: dict[tuple[int, int], list[tuple[Tensor, Tensor]]] = defaultdict(list)
            for param in group["params"]:
                if param.grad is None:
                    continue
                state = self.state[param]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(param)
                momentum = state["momentum"]
                momentum.lerp_(param.grad, 1 - group["momentum"])
                update = param.grad.lerp(momentum, group["momentum"])
                rows, columns = param.shape[-2:]
                by_shape[rows, columns].append((param, update.reshape(-1, rows, columns)))
            for (rows, columns), pairs in by_shape.items():
                flat = orthogonalise(torch.cat([update for _, update in pairs]))
                scale = max(1.0, rows / columns) ** 0.5
                for (param, _), part in zip(
                    pairs, torch.split(flat, [len(update) for _, update in pairs]), strict=True
                ):
                    param.mul_(1 - group["lr"] * group["weight_decay"])
                    param.add_(part.view_as(param), alpha=-group["lr"] * scale)
