"""torch's int4 kernel for CPUs: bf16 activations times codes in blocks of rows.

It decodes in registers and multiplies in fp32: on one core with AVX-512 2.4 billion weights a second for 16
tokens, against 0.8 when decoding into a buffer and multiplying there. For many tokens it is the slower of the two. With
other number types it is scalar and slow.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from engine.quant import INT4, INT4_G64, TILE, UINT4, Packed, to_blocks, unpack

ROWS = {"AVX512": 64, "AVX2": 32}  # rows of a block, by instruction set
SCHEMES = (INT4, INT4_G64, UINT4)  # of the codes that it reads
FEW = 128  # tokens up to which it is taken: set by hand above the 16 that were measured


@functools.cache
def block() -> int:
    """Returns the rows per block of this processor's kernel; 0 if there is none, or its layout is different."""
    rows = ROWS.get(torch.backends.cpu.get_cpu_capability(), 0)
    if not rows or not hasattr(torch.ops.aten, "_weight_int4pack_mm_for_cpu"):
        return 0
    codes = torch.arange(2 * rows * TILE // 2).mul(37).to(torch.uint8).view(2 * rows, -1)
    probe = Packed(codes, torch.arange(1, 4 * rows + 1).view(2, -1).to(torch.bfloat16), INT4)
    expected = unpack(probe)
    to_blocks(codes, rows)
    try:
        product = multiply(torch.eye(TILE, dtype=torch.bfloat16), probe, pairs(probe))
    except RuntimeError:  # a build without it
        return 0
    return rows if torch.allclose(product.T.float(), expected, rtol=0.01) else 0


def block_for(weight: Packed) -> int:
    """Returns the rows per block for a packed (..., out, in), or 0 if it stays in tiles."""
    rows = block() if weight.scheme in SCHEMES else 0
    return rows if rows and weight.shape[-2] % rows == 0 else 0


def spread(scales: Tensor) -> Tensor:
    """Returns scales (groups, out) in the kernel's form: bf16 pairs (groups, out, 2) with a zero point of 0."""
    made = scales.new_zeros(*scales.shape, 2)
    made[..., 0] = scales
    return made


def pairs(weight: Packed) -> Tensor:
    """Returns the scales of a packed (out, in) as ``spread``; not copied if they are a view of that form."""
    groups, rows = weight.scales.shape
    if weight.scheme == UINT4:
        return weight.scales[..., None].view(torch.bfloat16)
    if weight.scales.stride() == (2 * rows, 2):
        return weight.scales.as_strided((groups, rows, 2), (2 * rows, 2, 1))
    return spread(weight.scales)


def multiply(x: Tensor, weight: Packed, scales: Tensor) -> Tensor:
    """Multiplies x (N, in) in bf16 by a packed (out, in) in blocks, with its ``pairs`` of scales -> (N, out)."""
    return torch.ops.aten._weight_int4pack_mm_for_cpu(x, weight.codes, weight.scheme.group_size, scales)
