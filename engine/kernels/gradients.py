"""Gradients through packed weights to their inputs. The weights are frozen and get none.

Forward is the given function, as selected for the device. No unpacked weight is kept for backward, which unpacks it
again a piece at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from engine.config import Activation
from engine.kernels.reference import activate, slices
from engine.quant import Packed, unpack

Run = Callable[..., Any]  # a function of ``table``
Linear = Callable[[Tensor, Packed], Tensor]


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, run: Run, x: Tensor, weight: Packed) -> Any:
        ctx.weight, ctx.dtype = weight, x.dtype
        return run(x, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, None]:
        total = grad.new_zeros(*grad.shape[:-1], ctx.weight.shape[-1], dtype=torch.float32)
        for part, rows in slices(ctx.weight):  # a token table has many pieces: their sum is held in fp32
            total += grad[..., part] @ rows.to(grad.dtype)
        return None, total.to(ctx.dtype), None


class _Expectation(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, run: Run, linear: Linear, probabilities: Tensor, table: Packed) -> Any:
        ctx.linear, ctx.table = linear, table
        return run(probabilities, table)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, Tensor, None]:
        return None, None, ctx.linear(grad, ctx.table), None


class _Experts(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        run: Run,
        x: Tensor,
        weights: Tensor,
        chosen: Tensor,
        gate_up: Packed,
        down: Packed,
        activation: Activation,
    ) -> Any:
        ctx.save_for_backward(x, weights, chosen)
        ctx.packed, ctx.activation = (gate_up, down), activation
        return run(x, weights, chosen, gate_up, down, activation)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, Tensor, None, None, None, None]:
        x, weights, chosen = ctx.saved_tensors
        gate_up, down = ctx.packed
        grad_x, grad_weights = torch.zeros_like(x, dtype=torch.float32), torch.zeros_like(weights)
        for expert in torch.unique(chosen).tolist():
            token, rank = (chosen == expert).nonzero(as_tuple=True)
            widen, narrow = unpack(gate_up[expert], x.dtype), unpack(down[expert], x.dtype)
            with torch.enable_grad():
                rows, share = x[token].requires_grad_(), weights[token, rank].requires_grad_()
                gate, up = F.linear(rows, widen).chunk(2, dim=-1)
                part = F.linear(activate(gate, ctx.activation) * up, narrow) * share[:, None]
                to_rows, to_share = torch.autograd.grad(part.to(grad.dtype), (rows, share), grad[token])
            grad_x.index_add_(0, token, to_rows.float())
            grad_weights[token, rank] = to_share
        return None, grad_x.to(x.dtype), grad_weights, None, None, None, None


def linear(run: Run, x: Tensor, weight: Packed) -> Tensor:
    """Computes ``kernels.linear`` by ``run``, with gradients."""
    return _Linear.apply(run, x, weight)


def expectation(run: Run, linear: Linear, probabilities: Tensor, table: Packed) -> Tensor:
    """Computes ``kernels.expectation`` by ``run``, with gradients; the backward pass is a product by ``linear``."""
    return _Expectation.apply(run, linear, probabilities, table)


def experts(
    run: Run, x: Tensor, weights: Tensor, chosen: Tensor, gate_up: Packed, down: Packed, activation: Activation
) -> Tensor:
    """Computes ``kernels.experts`` by ``run``, with gradients."""
    return _Experts.apply(run, x, weights, chosen, gate_up, down, activation)
