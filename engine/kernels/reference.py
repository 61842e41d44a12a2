"""The oracle of every kernel, in plain torch; also what runs where there is no Triton.

Packed weights are unpacked whole: right on any device, and slow. Types follow the input ``x``.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.weights.quantize import Packed, unpack


def linear(x: Tensor, weight: Packed) -> Tensor:
    """x (..., in) and a packed (out, in) -> (..., out)."""
    return F.linear(x, unpack(weight, x.dtype))


def experts(x: Tensor, weights: Tensor, chosen: Tensor, gate_up: Packed, down: Packed) -> Tensor:
    """Gated experts, one after another, each on the tokens that chose it.

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
        part = linear(F.gelu(gate, approximate="tanh") * up, down[expert])
        out.index_add_(0, token, (part * weights[token, rank, None]).to(out.dtype))
    return out
