"""Gradients through packed weights to what went in. The weights themselves get none: they are frozen.

Forward is whatever path the device takes. Nothing of an unpacked weight is kept for backward, which unpacks it again a
piece at a time.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from engine import kernels
from engine.kernels.reference import slices
from engine.quant.schemes import Packed, unpack


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Packed) -> Tensor:
        ctx.weight, ctx.dtype = weight, x.dtype
        return kernels.linear(x, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        total = grad.new_zeros(*grad.shape[:-1], ctx.weight.shape[-1], dtype=torch.float32)
        for part, rows in slices(ctx.weight):  # a token table has many pieces: their sum is held in fp32
            total += grad[..., part] @ rows.to(grad.dtype)
        return total.to(ctx.dtype), None


class _Expectation(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, probabilities: Tensor, table: Packed) -> Tensor:
        ctx.table = table
        return kernels.expectation(probabilities, table)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return kernels.linear(grad, ctx.table), None


class _Experts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weights: Tensor, chosen: Tensor, gate_up: Packed, down: Packed) -> Tensor:
        ctx.save_for_backward(x, weights, chosen)
        ctx.packed = gate_up, down
        return kernels.experts(x, weights, chosen, gate_up, down)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        x, weights, chosen = ctx.saved_tensors
        gate_up, down = ctx.packed
        grad_x, grad_weights = torch.zeros_like(x, dtype=torch.float32), torch.zeros_like(weights)
        for expert in torch.unique(chosen).tolist():
            token, rank = (chosen == expert).nonzero(as_tuple=True)
            widen, narrow = unpack(gate_up[expert], x.dtype), unpack(down[expert], x.dtype)
            with torch.enable_grad():
                rows, share = x[token].requires_grad_(), weights[token, rank].requires_grad_()
                gate, up = F.linear(rows, widen).chunk(2, dim=-1)
                part = F.linear(F.gelu(gate, approximate="tanh") * up, narrow) * share[:, None]
                to_rows, to_share = torch.autograd.grad(part.to(grad.dtype), (rows, share), grad[token])
            grad_x.index_add_(0, token, to_rows.float())
            grad_weights[token, rank] = to_share
        return grad_x.to(x.dtype), grad_weights, None, None, None


def linear(x: Tensor, weight: Packed) -> Tensor:
    """As ``kernels.linear``."""
    out: Tensor = _Linear.apply(x, weight)
    return out


def expectation(probabilities: Tensor, table: Packed) -> Tensor:
    """As ``kernels.expectation``."""
    out: Tensor = _Expectation.apply(probabilities, table)
    return out


def experts(x: Tensor, weights: Tensor, chosen: Tensor, gate_up: Packed, down: Packed) -> Tensor:
    """As ``kernels.experts``."""
    out: Tensor = _Experts.apply(x, weights, chosen, gate_up, down)
    return out
