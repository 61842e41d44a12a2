"""The oracles of the kernels, in plain torch; also the path without Triton.

Packed weights are unpacked first: correct on any device, and slow. Number types follow the input ``x``.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.config import GELU, Activation
from engine.quant import AT_ONCE, Packed, unpack


def activate(x: Tensor, activation: Activation) -> Tensor:
    return F.silu(x) if activation == "silu" else F.gelu(x, approximate="tanh")


def slices(weight: Packed) -> Iterator[tuple[slice, Tensor]]:
    """Yields consecutive rows of a packed (out, in), unpacked to fp32 a piece at a time: the whole may be gigabytes."""
    rows = max(1, AT_ONCE // weight.shape[-1])
    if weight.block:
        rows = max(1, rows // weight.block) * weight.block
    for start in range(0, weight.shape[0], rows):
        part = slice(start, min(start + rows, weight.shape[0]))
        yield part, unpack(weight.part(part))


def linear(x: Tensor, weight: Packed) -> Tensor:
    """Multiplies x (..., in) by a packed (out, in) -> (..., out)."""
    return torch.cat([F.linear(x, rows.to(x.dtype)) for _, rows in slices(weight)], dim=-1)


def expectation(probabilities: Tensor, table: Packed) -> Tensor:
    """Returns the mean row of a packed (V, H) under probabilities (..., V) -> (..., H)."""
    parts = [probabilities[..., part] @ rows.to(probabilities.dtype) for part, rows in slices(table)]
    return torch.stack(parts).sum(dim=0)


def rows(table: Packed, ids: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns rows of a packed (V, H) by ids (...) -> (..., H)."""
    flat = ids.flatten()
    values = unpack(table.part(flat), dtype)
    return values.view(*ids.shape, -1)


def experts(
    x: Tensor, weights: Tensor, chosen: Tensor, gate_up: Packed, down: Packed, activation: Activation = GELU
) -> Tensor:
    """Runs gated experts, one after another, each on the tokens that chose it.

    Args:
        x: (N, H). weights: (N, K) fp32. chosen: (N, K) expert indices, distinct in a row.
        gate_up: (E, 2I, H), gate rows first. down: (E, H, I).

    Returns:
        (N, H), the weighted sum over each token's experts.
    """
    out = torch.zeros_like(x)
    for expert in torch.unique(chosen).tolist():
        token, rank = (chosen == expert).nonzero(as_tuple=True)
        gate, up = linear(x[token], gate_up[expert]).chunk(2, dim=-1)
        part = linear(activate(gate, activation) * up, down[expert])
        out.index_add_(0, token, (part * weights[token, rank, None]).to(out.dtype))
    return out
