"""Random numbers, and codes in blocks of rows as a CPU's kernels read them."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.quant import UINT4, Packed, to_blocks
from engine.quant.integers import for_blocks

DRAWS = torch.Generator().manual_seed(7)


def random(*shape: int) -> Tensor:
    return torch.randn(shape, generator=DRAWS)


def choices(tokens: int, top_k: int, experts: int) -> Tensor:
    """Experts (N, K) of tokens, none of them twice."""
    return torch.stack([torch.randperm(experts, generator=DRAWS)[:top_k] for _ in range(tokens)])


def in_blocks(weight: Packed, block: int) -> Packed:
    codes = weight.codes.clone()
    for matrix in codes.view(-1, *codes.shape[-2:]):
        to_blocks(matrix, block)
    scales = for_blocks(weight.scales) if weight.scheme == UINT4 else weight.scales.contiguous()
    return Packed(codes, scales, weight.scheme, block=block)
