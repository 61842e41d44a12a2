"""RMS norms fused with their neighbouring operations: a layer's work between its matrix products.

- **norm**: alone, before the first layer.
- **add_norm**: x + post_norm(y), and any number of following pre-norms, which share its mean square. The last one's
  rows can be written in ``split_pairs`` order, as the expert kernels take them.
- **merge_norm**: a layer's end. The sum of a token's expert outputs, in the order of its choices; the normed dense and
  expert outputs joined, normed and added, times the scalar that the layer has for text or for a canvas; and the next
  layer's pre-norm.
- **head_norm_rope**: queries, keys and values of all heads: normed, rotated, keys and values written into the cache,
  at a position read on the device.
- **embed_rows**, **rope_tables**: a step's inputs: embeddings, with self-conditioning added for a canvas, and angles.

fp32 inside, rounded once at the end; layers of plain torch round after each operation.

Floor, 256 x 2816 in bf16, all in the L2 cache: add_norm with three pre-norms 8.7 MB, merge_norm of 8 experts 17.3 MB,
head_norm_rope of 16 + 8 + 8 heads of 256 8.4 MB. Predicted, not measured: 3 to 5 µs each on H200, 4 to 8 on RTX 4090,
mostly latency. embed_rows 256 x 2816: 0.7 MB of the table, 1.4 MB read and 1.4 MB written; 3 µs.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, arg-type, call-arg"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.kernels import reference
from engine.quant import INT8, Packed


@triton.jit
def _scale(x, size: tl.constexpr, eps):
    """Returns 1 / rms of a row whose padding is 0."""
    return tl.rsqrt(tl.sum(x * x, axis=0) / size + eps)


@triton.jit
def norm_kernel(x_ptr, weight_ptr, out_ptr, eps, H: tl.constexpr, BLOCK: tl.constexpr):
    """Norms one token."""
    at = tl.arange(0, BLOCK)
    inside = at < H
    row = tl.program_id(0) * H + at
    x = tl.load(x_ptr + row, mask=inside, other=0.0).to(tl.float32)
    x *= _scale(x, H, eps) * tl.load(weight_ptr + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out_ptr + row, x.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def add_norm_kernel(
    x_ptr, y_ptr, post_ptr, pre_ptr, out_ptr, normed_ptr, tokens, eps,
    H: tl.constexpr, NORMS: tl.constexpr, SPLIT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Adds and norms one token."""
    at = tl.arange(0, BLOCK)
    inside = at < H
    row = tl.program_id(0) * H + at
    x = tl.load(x_ptr + row, mask=inside, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + row, mask=inside, other=0.0).to(tl.float32)
    x += y * _scale(y, H, eps) * tl.load(post_ptr + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out_ptr + row, x.to(out_ptr.dtype.element_ty), mask=inside)
    x *= _scale(x, H, eps)
    for norm in tl.static_range(NORMS):
        weight = tl.load(pre_ptr + norm * H + at, mask=inside, other=0.0).to(tl.float32)
        normed = (x * weight).to(normed_ptr.dtype.element_ty)
        if SPLIT and norm == NORMS - 1:  # of 32 numbers, the even ones before the odd ones
            normed = tl.reshape(tl.permute(tl.reshape(normed, (BLOCK // 32, 16, 2)), (0, 2, 1)), (BLOCK,))
        tl.store(normed_ptr + norm * tokens * H + row, normed, mask=inside)


@triton.jit
def merge_norm_kernel(
    x_ptr, dense_ptr, sparse_ptr, weights_ptr, scalars_ptr, out_ptr, normed_ptr, text_rows, eps,
    H: tl.constexpr, TOP_K: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Merges and norms one token. The weights' rows: dense, sparse, post, next."""
    at = tl.arange(0, BLOCK)
    inside = at < H
    row = tl.program_id(0) * H + at
    dense = tl.load(dense_ptr + row, mask=inside, other=0.0).to(tl.float32)
    sparse = tl.zeros((BLOCK,), tl.float32)
    for rank in tl.static_range(TOP_K):
        part = tl.load(sparse_ptr + (tl.program_id(0) * TOP_K + rank) * H + at, mask=inside, other=0.0)
        sparse += part.to(tl.float32)
    dense *= _scale(dense, H, eps) * tl.load(weights_ptr + at, mask=inside, other=0.0).to(tl.float32)
    sparse *= _scale(sparse, H, eps) * tl.load(weights_ptr + H + at, mask=inside, other=0.0).to(tl.float32)
    y = dense + sparse
    y *= _scale(y, H, eps) * tl.load(weights_ptr + 2 * H + at, mask=inside, other=0.0).to(tl.float32)
    x = tl.load(x_ptr + row, mask=inside, other=0.0).to(tl.float32)
    x = (x + y) * tl.load(scalars_ptr + (tl.program_id(0) >= text_rows).to(tl.int32)).to(tl.float32)
    tl.store(out_ptr + row, x.to(out_ptr.dtype.element_ty), mask=inside)
    x *= _scale(x, H, eps) * tl.load(weights_ptr + 3 * H + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(normed_ptr + row, x.to(normed_ptr.dtype.element_ty), mask=inside)


@triton.jit
def head_norm_rope_kernel(
    queries_ptr, keys_ptr, values_ptr, q_weight_ptr, k_weight_ptr, cos_ptr, sin_ptr, end_ptr,
    q_out_ptr, k_out_ptr, v_out_ptr, tokens, q_stride, k_stride, v_stride, capacity, eps,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Norms and rotates one head of one token: a query, a key or a value. Grid: tokens, HEADS + 2 * KV_HEADS."""
    token, head = tl.program_id(0), tl.program_id(1)
    place = tl.load(end_ptr) - tokens + token  # in the buffers
    half: tl.constexpr = D // 2
    low = tl.arange(0, half)
    high = low + half
    if head < HEADS:
        source = queries_ptr + token * q_stride + head * D
        weight_ptr = q_weight_ptr
        target = q_out_ptr + (head * tokens + token) * D
    elif head < HEADS + KV_HEADS:
        source = keys_ptr + token * k_stride + (head - HEADS) * D
        weight_ptr = k_weight_ptr
        target = k_out_ptr + ((head - HEADS).to(tl.int64) * capacity + place) * D
    else:
        source = values_ptr + token * v_stride + (head - HEADS - KV_HEADS) * D
        weight_ptr = k_weight_ptr
        target = v_out_ptr + ((head - HEADS - KV_HEADS).to(tl.int64) * capacity + place) * D
    x = tl.load(source + low).to(tl.float32)
    y = tl.load(source + high).to(tl.float32)
    scale = tl.rsqrt((tl.sum(x * x, axis=0) + tl.sum(y * y, axis=0)) / D + eps)
    x *= scale
    y *= scale
    if head < HEADS + KV_HEADS:
        x *= tl.load(weight_ptr + low).to(tl.float32)
        y *= tl.load(weight_ptr + high).to(tl.float32)
        cos = tl.load(cos_ptr + token * D + low).to(tl.float32)  # a table's halves are equal
        sin = tl.load(sin_ptr + token * D + low).to(tl.float32)
        turned = x * cos - y * sin
        y = y * cos + x * sin
        x = turned
    tl.store(target + low, x.to(target.dtype.element_ty))
    tl.store(target + high, y.to(target.dtype.element_ty))


def norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Returns the norm of x (N, H), contiguous, times a weight (H,)."""
    tokens, size = x.shape
    out = torch.empty_like(x)
    norm_kernel[(tokens,)](
        x, weight, out, eps, H=size, BLOCK=triton.next_power_of_2(size), num_warps=8, enable_fp_fusion=True
    )  # fmt: skip
    return out


def add_norm(x: Tensor, y: Tensor, post: Tensor, pre: Tensor, eps: float, split: bool = False) -> tuple[Tensor, Tensor]:
    """Returns x + norm(y) * post, and the norms of that.

    Args:
        x, y: (N, H), contiguous.
        post: (H,).
        pre: (P, H), a weight for each of P norms of the sum.
        split: whether the last norm's rows are in ``split_pairs`` order; H is a multiple of 32 then.

    Returns:
        The sum (N, H) and its norms (P, N, H), in x's type.
    """
    tokens, size = x.shape
    out, normed = torch.empty_like(x), x.new_empty((pre.shape[0], tokens, size))
    add_norm_kernel[(tokens,)](
        x, y, post, pre, out, normed, tokens, eps,
        H=size, NORMS=pre.shape[0], SPLIT=split, BLOCK=triton.next_power_of_2(size), num_warps=8, enable_fp_fusion=True,
    )  # fmt: skip
    return out, normed


def merge_norm(
    x: Tensor, dense: Tensor, sparse: Tensor, weights: Tensor, scalars: Tensor, text_rows: int, eps: float
) -> tuple[Tensor, Tensor]:
    """Returns (x + norm(norm(dense) + norm(sparse))) * a scalar, and the norm of that.

    Args:
        x, dense: (N, H), contiguous.
        sparse: (N * K, H), contiguous: K parts of each token, which are added up in their order.
        weights: (4, H), of the norms of dense, of sparse, of their sum, and of the result.
        scalars: (2,), of the first ``text_rows`` rows and of the rest.

    Returns:
        The result and its norm, (N, H) each, in x's type.
    """
    tokens, size = x.shape
    out, normed = torch.empty_like(x), torch.empty_like(x)
    merge_norm_kernel[(tokens,)](
        x, dense, sparse, weights, scalars, out, normed, text_rows, eps,
        H=size, TOP_K=sparse.shape[0] // tokens, BLOCK=triton.next_power_of_2(size), num_warps=8, enable_fp_fusion=True,
    )  # fmt: skip
    return out, normed


def head_norm_rope(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    weights: tuple[Tensor, Tensor],
    rope: tuple[Tensor, Tensor],
    buffers: tuple[Tensor, Tensor],
    end: Tensor,
    eps: float,
) -> Tensor:
    """Norms queries, keys and values per head, rotates queries and keys, writes keys and values into a cache's buffers.

    Args:
        queries: (T, heads * D), keys, values: (T, kv_heads * D); rows may be strided (parts of one projection), and
            values may be the keys.
        weights: of the queries' and the keys' norms, (D,) each. Values have none.
        rope: cosines and sines (T, D), whose halves are equal; contiguous.
        buffers: keys and values (kv_heads, capacity, D), contiguous; tokens end - T .. end are written.
        end: int32 (1,) on the device.

    Returns:
        The queries, (heads, T, D).
    """
    tokens, size = rope[0].shape
    heads, kv_heads = queries.shape[1] // size, keys.shape[1] // size
    out = queries.new_empty((heads, tokens, size))
    head_norm_rope_kernel[(tokens, heads + 2 * kv_heads)](
        queries, keys, values, *weights, *rope, end, out, *buffers,
        tokens, queries.stride(0), keys.stride(0), values.stride(0), buffers[0].shape[1], eps,
        HEADS=heads, KV_HEADS=kv_heads, D=size, num_warps=1, enable_fp_fusion=True,
    )  # fmt: skip
    return out


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
