"""Attention of new text, of a canvas, or of both, to the keys and values in a cache's buffers, which end with theirs.

How many keys there are, and which is the first that may be seen, is read on the device: a captured graph serves every
length. Keys are split among programs, since a canvas alone has too few blocks of queries (64) for a large card; the
splits' results are joined by a second kernel. Softmax is online, in powers of two, sums are fp32.

A program holds 64 queries even of heads of 512, so that keys are read seldom; consumer cards, whose programs have
99 KB of shared memory, take these keys 16 at a time.

Floor, 256 queries, 16 heads. Sliding layer, 1279 keys, 8 x 256: 5.4 GFLOP, 10 MB. Predicted, not measured: H200 16 µs
(compute floor 7), RTX 4090 55 µs (33). Full layer, 32 768 keys, 2 x 512: 275 GFLOP, 134 MB: H200 0.8 ms (0.35),
RTX 4090 3.5 ms (1.7).
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.linear8 import processors

LOG2E = tl.constexpr(1.4426950408889634)
LARGE_SHARED = 200 << 10  # bytes; data-centre cards have 227 KB a program, consumer cards 99
MAX_SPLITS = 8


@dataclass(frozen=True)
class Blocks:
    """How the kernel cuts its work on one kind of card."""

    queries: int
    keys: int
    warps: int
    stages: int

    @staticmethod
    def of(head_dim: int, large: bool) -> Blocks:
        """For heads of a size, with ``large`` shared memory or not."""
        if head_dim <= 256:
            return Blocks(128, 32, 8, 3) if large else Blocks(64, 32, 4, 2)  # with two stages nothing is in flight
        return Blocks(64, 32, 8, 2) if large else Blocks(64, 16, 8, 2)


@triton.jit
def attention_kernel(
    queries_ptr, keys_ptr, values_ptr, span_ptr, out_ptr, parts_ptr, weights_ptr, count, text_rows, capacity,
    HEADS: tl.constexpr, GROUP: tl.constexpr, D: tl.constexpr, TEXT: tl.constexpr, WINDOW: tl.constexpr,
    SPLITS: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """M queries of one head on one split of the keys. Grid: query blocks, heads, splits."""
    block, head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    query = block * M + tl.arange(0, M)
    near = tl.minimum(query, count - 1)
    inner = tl.arange(0, N)
    d = tl.arange(0, D)
    base = (head // GROUP).to(tl.int64) * capacity * D
    first, end = tl.load(span_ptr), tl.load(span_ptr + 1)
    if TEXT:  # each query has bounds of its own, and the program walks from the lowest to the highest
        place = end - count + near  # of the queries among the keys
        above = tl.where(near < text_rows, place + 1, end)
        if WINDOW > 0:
            lowest = tl.where(near < text_rows, tl.maximum(place - WINDOW + 1, 0), first)
            first = tl.min(lowest)
        end = tl.where(block * M + M <= text_rows, end - count + block * M + M, end)  # tl.max(above) spills more
    share = tl.cdiv(tl.cdiv(end - first, N), SPLITS) * N
    start = first + split * share
    q = tl.load(queries_ptr + (head * count + near)[:, None] * D + d[None, :])
    top = tl.full((M,), float("-inf"), tl.float32)
    mass = tl.zeros((M,), tl.float32)
    total = tl.zeros((M, D), tl.float32)
    for at in range(start, tl.minimum(start + share, end), N):
        key = at + inner
        row = base + tl.minimum(key, end - 1).to(tl.int64) * D
        k = tl.load(keys_ptr + row[:, None] + d[None, :])
        scores = tl.dot(q, tl.trans(k)) * LOG2E
        if TEXT:
            seen = key[None, :] < above[:, None]
            if WINDOW > 0:
                seen = seen & (key[None, :] >= lowest[:, None])
        else:
            seen = (key < end)[None, :]
        scores = tl.where(seen, scores, float("-inf"))
        new = tl.maximum(top, tl.max(scores, axis=1))
        shift = tl.where(new == float("-inf"), 0.0, new)
        weights = tl.exp2(scores - shift[:, None])
        shrink = tl.exp2(top - shift)
        v = tl.load(values_ptr + row[:, None] + d[None, :])
        total = tl.dot(weights.to(v.dtype), v, total * shrink[:, None])
        mass = mass * shrink + tl.sum(weights, axis=1)
        top = new
    inside = query < count
    total /= tl.where(mass > 0, mass, 1.0)[:, None]
    if SPLITS == 1:
        to = (query * HEADS + head)[:, None] * D + d[None, :]
        tl.store(out_ptr + to, total.to(out_ptr.dtype.element_ty), mask=inside[:, None])
    else:
        row = (split * count + query) * HEADS + head
        tl.store(parts_ptr + row[:, None] * D + d[None, :], total, mask=inside[:, None])
        tl.store(weights_ptr + row, top + tl.log2(tl.where(mass > 0, mass, 1.0)), mask=inside)


@triton.jit
def join_kernel(parts_ptr, weights_ptr, out_ptr, rows, D: tl.constexpr, SPLITS: tl.constexpr, PADDED: tl.constexpr):
    """One query of one head: the splits' results, weighted by the logarithms (base 2) of their sums."""
    row = tl.program_id(0)
    split = tl.arange(0, PADDED)
    d = tl.arange(0, D)
    there = split < SPLITS
    logs = tl.load(weights_ptr + split * rows + row, mask=there, other=float("-inf"))
    weights = tl.exp2(logs - tl.max(logs, axis=0))
    weights /= tl.sum(weights, axis=0)
    parts = tl.load(parts_ptr + (split * rows + row)[:, None] * D + d[None, :], mask=there[:, None], other=0.0)
    tl.store(out_ptr + row * D + d, tl.sum(parts * weights[:, None], axis=0).to(out_ptr.dtype.element_ty))


@functools.cache
def has_large_shared(device: torch.device) -> bool:
    """Whether a program may take more than the 99 KB of shared memory that consumer cards have."""
    if device.type != "cuda":
        return False
    size: int = torch.cuda.get_device_properties(device).shared_memory_per_block_optin
    return size >= LARGE_SHARED


def attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    span: Tensor,
    text_rows: int = 0,
    window: int | None = None,
    *,
    splits: int | None = None,
) -> Tensor:
    """softmax(q k^T) v, unscaled, on the visible keys of a buffer, the last T of which are the queries' own.

    Args:
        queries: (heads, T, D), contiguous, D a power of two.
        keys, values: (kv_heads, capacity, D), contiguous; kv_heads divides heads.
        span: int32 (2,) on the device: the first key that is seen, and the number of valid keys, first + T or more.
        text_rows: queries, the first ones, that are text: each sees keys up to its own place. Those behind are a
            canvas and see all.
        window: text sees that many keys at most, its own included, and they may lie before the span; None: all of it.
        splits: parts the keys are split into; None: as many as fill the device.

    Returns:
        (T, heads * D) in the queries' type.
    """
    heads, count, size = queries.shape
    blocks = Blocks.of(size, has_large_shared(queries.device))
    grid = (triton.cdiv(count, blocks.queries), heads)
    if splits is None:
        splits = max(1, min(MAX_SPLITS, processors(queries.device) // (grid[0] * grid[1])))
    out = queries.new_empty((count, heads * size))
    parts = queries.new_empty((splits, count, heads, size) if splits > 1 else (0,), dtype=torch.float32)
    weights = queries.new_empty((splits, count, heads) if splits > 1 else (0,), dtype=torch.float32)
    launch: Any = attention_kernel[(*grid, splits)]
    launch(
        queries, keys, values, span, out, parts, weights, count, text_rows, keys.shape[1],
        HEADS=heads, GROUP=heads // keys.shape[0], D=size, TEXT=text_rows > 0, WINDOW=window or 0,
        SPLITS=splits, M=blocks.queries, N=blocks.keys,
        num_warps=blocks.warps, enable_fp_fusion=True, num_stages=blocks.stages,
    )  # fmt: skip
    if splits > 1:
        join: Any = join_kernel[(count * heads,)]
        join(
            parts, weights, out, count * heads,
            D=size, SPLITS=splits, PADDED=1 << (splits - 1).bit_length(), num_warps=4, enable_fp_fusion=True,
        )  # fmt: skip
    return out
