"""The oracles of the kernels, in plain torch; also the path without Triton.

Packed weights are unpacked first: correct on any device, and slow. Number types follow the input ``x``.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.config import GELU, Activation
from engine.kernels.activation import activate
from engine.quant import AT_ONCE, Packed, unpack

GROUP = 128  # inputs of a token that share a scale of int8 activations; also the size of a vocabulary tile


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


def quantize_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """Quantises x (..., in) to int8 codes (..., in) and fp32 scales (groups, ...): a group's largest value maps to 127
    or -127.

    A group with a value that is not finite has the scale NaN.
    """
    values = F.pad(x.float(), (0, -x.shape[-1] % GROUP)).view(*x.shape[:-1], -1, GROUP)
    largest = values.abs().amax(dim=-1, keepdim=True)
    codes = (values * (127 / largest.clamp_min(1e-30))).round().nan_to_num(0.0).to(torch.int8)
    scales = largest / 127 + (values * 0.0).sum(dim=-1, keepdim=True)
    return codes.flatten(-2)[..., : x.shape[-1]], scales[..., 0].movedim(-1, 0)


def round_rows(x: Tensor) -> Tensor:
    """Returns x (..., in) as ``quantize_rows`` rounds it, fp32."""
    codes, scales = quantize_rows(x)
    return codes * scales.movedim(0, -1).repeat_interleave(GROUP, dim=-1)[..., : x.shape[-1]]


def linear_int8(x: Tensor, weight: Packed) -> Tensor:
    """Multiplies as ``linear``, with x rounded by ``quantize_rows``."""
    return linear(round_rows(x), weight).to(x.dtype)


def expectation(probabilities: Tensor, table: Packed) -> Tensor:
    """Returns the mean row of a packed (V, H) under probabilities (..., V) -> (..., H)."""
    parts = [probabilities[..., part] @ rows.to(probabilities.dtype) for part, rows in slices(table)]
    return torch.stack(parts).sum(dim=0)


def rows(table: Packed, ids: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns rows of a packed (V, H) by ids (...) -> (..., H)."""
    flat = ids.flatten()
    found = unpack(table.part(flat), dtype)
    return found.view(*ids.shape, -1)


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
