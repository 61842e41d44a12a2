"""Random operands of kernels, created on the device. All scales differ, so that using a wrong one is detected."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from engine.quant import Packed, Scheme

CONTEXT = 40  # tokens before the canvas


def tolerance(dtype: torch.dtype) -> float:
    """Returns the relative error allowed for a product's rounding."""
    return 0.02 if dtype == torch.bfloat16 else 1e-4


def draws(device: torch.device, seed: int) -> torch.Generator:
    return torch.Generator(device=device).manual_seed(seed)


def normal(*shape: int, device: torch.device, dtype: torch.dtype, seed: int, scale: float = 1.0) -> Tensor:
    """Draws normally distributed numbers."""
    return (torch.randn(shape, generator=draws(device, seed), device=device) * scale).to(dtype)


def packed(*shape: int, scheme: Scheme, device: torch.device, seed: int, matrices: int = 1) -> Packed:
    """Draws a packed weight (..., out, in) of random codes; products with normal numbers are about normal."""
    random = draws(device, seed)
    limits = torch.iinfo(scheme.codes_dtype)
    low, high = max(limits.min, -limits.max), limits.max + 1
    codes = torch.empty(scheme.codes_shape(shape), dtype=scheme.codes_dtype, device=device)
    for part in codes.view(-1, *codes.shape[-2:]):  # one expert at a time: random numbers take twice the memory
        part.copy_(torch.randint(low, high, part.shape, generator=random, device=device, dtype=torch.int16))
    *outer, rows, inputs = shape

    def factors(*size: int) -> Tensor:
        return torch.randn(size, generator=random, device=device).mul_(0.35).exp_()

    scales, size = factors(*outer, inputs // (scheme.group_size or inputs), rows), inputs**-0.5 / scheme.spread
    own = factors(*outer, matrices) * size if scheme.has_matrix_scales else None
    stored = scheme.store_scales((scales if own is not None else scales * size).transpose(-1, -2))
    return Packed(codes, stored.contiguous(), scheme, own)


def routing(tokens: int, experts: int, top_k: int, device: torch.device, seed: int) -> tuple[Tensor, Tensor]:
    """Draws weights (N, K) fp32 that sum to 1, and experts (N, K), as from a router."""
    scores = torch.randn(tokens, experts, generator=draws(device, seed), device=device)
    weights, chosen = scores.softmax(-1).topk(top_k, -1)
    return weights / weights.sum(-1, keepdim=True), chosen


def other_scales(weight: Packed, dim: int = -1) -> Packed:
    """Returns a weight with the scales of the neighbouring rows, or, with ``dim`` -2, groups or words of them."""
    return replace(weight, scales=weight.scales.roll(1, dim))


def other_matrix_scales(weight: Packed, dim: int) -> Packed:
    """Returns a weight with the matrix scales of other experts, or, with ``dim`` -1, of an expert's other matrix."""
    assert weight.matrix_scales is not None
    return replace(weight, matrix_scales=weight.matrix_scales.roll(1, dim))
