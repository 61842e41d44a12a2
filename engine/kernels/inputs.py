"""The inputs of a step's layers: embeddings, with self-conditioning added for a canvas, and rope tables.

Floor, 256 rows of 2816: 0.7 MB of the table, 1.4 MB read and 1.4 MB written. Predicted, not measured: 3 µs a launch.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, arg-type, call-arg"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.kernels import reference
from engine.quant import INT8, Packed

SCHEMES = (INT8,)  # of the tables whose rows the kernel reads


@triton.jit
def embed_rows_kernel(
    ids_ptr, table_ptr, scales_ptr, fed_ptr, out_ptr, text_rows, embed_scale, eps,
    H: tl.constexpr, HAS_SCALES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Computes one row. Rounded where the plain path rounds, except for the sum."""
    row = tl.program_id(0)
    token = tl.load(ids_ptr + row)
    at = tl.arange(0, BLOCK)
    inside = at < H
    x = tl.load(table_ptr + token * H + at, mask=inside, other=0).to(tl.float32)
    if HAS_SCALES:
        x *= tl.load(scales_ptr + token)
    x = x.to(out_ptr.dtype.element_ty).to(tl.float32) * embed_scale
    x = x.to(out_ptr.dtype.element_ty).to(tl.float32)
    if row >= text_rows:
        x += tl.load(fed_ptr + (row - text_rows) * H + at, mask=inside, other=0.0).to(tl.float32)
        x *= tl.rsqrt(tl.sum(x * x, axis=0) / H + eps)
    tl.store(out_ptr + row * H + at, x.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def rope_kernel(start_ptr, frequencies_ptr, cos_ptr, sin_ptr, first, HALF: tl.constexpr):
    """Computes both tables of one position."""
    pair = tl.arange(0, HALF)
    position = tl.load(start_ptr) + first + tl.program_id(0)
    angle = position.to(tl.float32) * tl.load(frequencies_ptr + pair)
    to = tl.program_id(0) * 2 * HALF + pair
    cos, sin = tl.cos(angle).to(cos_ptr.dtype.element_ty), tl.sin(angle).to(sin_ptr.dtype.element_ty)
    tl.store(cos_ptr + to, cos)
    tl.store(cos_ptr + HALF + to, cos)
    tl.store(sin_ptr + to, sin)
    tl.store(sin_ptr + HALF + to, sin)


def embed_rows(
    ids: Tensor, table: Packed | Tensor, fed: Tensor, text_rows: int, embed_scale: float, eps: float
) -> Tensor:
    """Looks up rows of the table for text, then for a canvas; the latter with ``fed`` added, and normed.

    Args:
        ids: int64 (T,), contiguous.
        table: the table (V, H), packed or not; of another scheme than int8, its rows are unpacked first.
        fed: (T - text_rows, H), contiguous: what self-conditioning adds, in the model's type.
        embed_scale: factor of a row.

    Returns:
        (T, H) in fed's type.
    """
    if isinstance(table, Packed) and table.scheme not in SCHEMES:
        ids, table = torch.arange(ids.shape[0], device=ids.device), reference.rows(table, ids, fed.dtype)
    codes = table.codes if isinstance(table, Packed) else table
    scales = table.scales if isinstance(table, Packed) else None
    out = fed.new_empty((ids.shape[0], fed.shape[1]))
    embed_rows_kernel[(ids.shape[0],)](
        ids, codes, scales, fed, out, text_rows, embed_scale, eps, H=fed.shape[1], HAS_SCALES=scales is not None,
        BLOCK=triton.next_power_of_2(fed.shape[1]), num_warps=8, enable_fp_fusion=True,
    )  # fmt: skip
    return out


def rope_tables(
    start: Tensor, first: int, count: int, frequencies: Tensor, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Returns cosines and sines (count, D), whose halves are equal.

    Args:
        start: int64 (1,) on the device; positions are start + first .. start + first + count.
        frequencies: fp32 (D / 2,), radians per position; D is a power of two.
    """
    half = frequencies.shape[0]
    cos, sin = frequencies.new_empty((2, count, 2 * half), dtype=dtype)
    rope_kernel[(count,)](start, frequencies, cos, sin, first, HALF=half, num_warps=4, enable_fp_fusion=True)
    return cos, sin
