"""Muon: momentum whose update is orthogonalised, for weight matrices.

Source: Jordan et al. 2024, kellerjordan.github.io/posts/muon.

Unlike ``torch.optim.Muon`` it accepts stacks of matrices, such as fused experts, and runs matrices of one shape as one
batch: few launches, whatever their number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor
from torch.optim import Optimizer

MOMENTUM = 0.95


def orthogonalise(matrices: Tensor, steps: int = 5) -> Tensor:
    """Returns nearly the orthogonal factor of each (..., M, N), by a quintic Newton-Schulz iteration."""
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
    """Optimizes by Nesterov momentum, orthogonalised."""

    def __init__(self, params: Iterable[Tensor], lr: float) -> None:
        super().__init__(list(params), {"lr": lr})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # noqa: ARG002
        for group in self.param_groups:
            params = [param for param in group["params"] if param.grad is not None]
            if not params:
                continue
            grads = [param.grad for param in params]
            for param in params:
                if "momentum" not in self.state[param]:
                    self.state[param]["momentum"] = torch.zeros_like(param)
            momenta = [self.state[param]["momentum"] for param in params]
            torch._foreach_lerp_(momenta, grads, 1 - MOMENTUM)
            updates = torch._foreach_lerp(grads, momenta, MOMENTUM)
            by_shape: dict[tuple[int, ...], list[int]] = defaultdict(list)
            for index, param in enumerate(params):
                by_shape[tuple(param.shape[-2:])].append(index)
            for (rows, columns), places in by_shape.items():
                stacks = [updates[index].reshape(-1, rows, columns) for index in places]
                flat = torch.split(orthogonalise(torch.cat(stacks)), [len(stack) for stack in stacks])
                steps = [part.view_as(params[index]) for index, part in zip(places, flat, strict=True)]
                scale = max(1.0, rows / columns) ** 0.5
                torch._foreach_add_([params[index] for index in places], steps, alpha=-group["lr"] * scale)
