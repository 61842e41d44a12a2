"""Attention of new text, a canvas, or both, to the keys and values in a cache's buffers, which end with their own.

The number of keys and the first visible one are read on the device: a captured graph works for every
length. Keys are split among programs, since a canvas has too few blocks of queries for a large card; the splits'
results are joined by a second kernel. Softmax is online, in base 2, with fp32 sums.

A program holds as many queries as fit its shared memory, so that keys are read few times. Two warp groups share the
sums of 128 queries. For heads of 512 they have registers for half of the values' columns: two programs compute the same
scores, once each. One program with 64 queries and all columns would compute them twice, too, once in each group, in
products half as wide. Consumer cards, whose programs have 99 KB of shared memory, hold 32 queries.

Floor, 256 queries, 16 heads. Sliding layer, 1279 keys, 8 x 256: 5.4 GFLOP, 10 MB. Predicted, not measured: H200 16 µs
(compute floor 7), RTX 4090 50 µs (33). Full layer, 32 768 keys, 2 x 512: 275 GFLOP, 134 MB: H200 1.1 ms (0.35),
RTX 4090 3.2 ms (1.7). There, programs read 3.2 GB (H200) and 8.6 GB (RTX 4090) from the L2 cache, 0.6 and 1.7 ms at
5 TB/s, and compute 1.5 times the necessary products: the scores twice.
On an H200 shared memory has no room for a third block of keys with 128 queries of 512: the next block is loaded
during the second product only.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, arg-type, call-arg"

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.linear_w8a16 import processors

LOG2E = tl.constexpr(1.4426950408889634)
LARGE_SHARED = 200 << 10  # bytes; data-centre cards have 227 KB per program, consumer cards 99
MAX_SPLITS = 8
MAX_PARTS = 1 << 26  # bytes of the splits' results
FIXED_TURNS = 4  # cost of a program's start and end, in iterations of the loop over keys


@dataclass(frozen=True)
class AttentionBlocks:
    """Block sizes of the kernel on one kind of card."""

    queries: int
    keys: int
    warps: int
    stages: int
    columns: int  # of the values, summed by a program

    @staticmethod
    def for_head(head_dim: int, large: bool) -> AttentionBlocks:
        """Returns the sizes for a head size, with ``large`` shared memory or not.

        With one stage less no load is in flight.
        """
        if large:
            return AttentionBlocks(128, 32, 8, 3 if head_dim <= 256 else 2, min(head_dim, 256))
        return AttentionBlocks(32, 32 if head_dim <= 256 else 16, 4, 3, head_dim)


def splits_of(programs: int, processors: int, turns: int, most: int) -> int:
    """Returns the number of splits of the keys, up to ``most``, with which the last wave leaves few processors idle.

    A processor runs one program at a time. programs: without splits. turns: loop iterations over all keys.
    """

    def cost(splits: int) -> int:
        rounds = -(-programs * splits // processors)
        joining = splits + 2 if splits > 1 else 0
        return rounds * (-(-turns // splits) + FIXED_TURNS) + joining

    return min(range(1, max(1, most) + 1), key=cost)


@triton.jit
def attention_kernel(
    queries_ptr, keys_ptr, values_ptr, span_ptr, out_ptr, parts_ptr, weights_ptr, count, text_rows, capacity,
    HEADS: tl.constexpr, GROUP: tl.constexpr, D: tl.constexpr, TEXT: tl.constexpr, WINDOW: tl.constexpr,
    SPLITS: tl.constexpr, M: tl.constexpr, N: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Attends from M queries of one head to one split of the keys and some columns of the values.

    Grid: query blocks, heads, splits x blocks of columns.
    """
    block, head = tl.program_id(0), tl.program_id(1)
    split, cut = tl.program_id(2) % SPLITS, tl.program_id(2) // SPLITS
    query = block * M + tl.arange(0, M)
    near = tl.minimum(query, count - 1)
    inner = tl.arange(0, N)
    d = tl.arange(0, D)
    column = cut * COLUMNS + tl.arange(0, COLUMNS)
    base = (head // GROUP).to(tl.int64) * capacity * D
    first, end = tl.load(span_ptr), tl.load(span_ptr + 1)
    if TEXT:  # each query has its own bounds; the program loops from the lowest to the highest
        place = end - count + near  # position of the queries among the keys
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
    total = tl.zeros((M, COLUMNS), tl.float32)
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
        v = tl.load(values_ptr + row[:, None] + column[None, :])
        total = tl.dot(weights.to(v.dtype), v, total * shrink[:, None])
        mass = mass * shrink + tl.sum(weights, axis=1)
        top = new
    inside = query < count
    total /= tl.where(mass > 0, mass, 1.0)[:, None]
    if SPLITS == 1:
        to = (query * HEADS + head)[:, None] * D + column[None, :]
        tl.store(out_ptr + to, total.to(out_ptr.dtype.element_ty), mask=inside[:, None])
    else:
        row = (split * count + query) * HEADS + head
        tl.store(parts_ptr + row[:, None] * D + column[None, :], total, mask=inside[:, None])
        if cut == 0:
            tl.store(weights_ptr + row, top + tl.log2(tl.where(mass > 0, mass, 1.0)), mask=inside)


@triton.jit
def join_kernel(parts_ptr, weights_ptr, out_ptr, rows, D: tl.constexpr, SPLITS: tl.constexpr, PADDED: tl.constexpr):
    """Joins one query of one head: the splits' results, weighted by the logarithms (base 2) of their sums."""
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
    """Returns True if a program may use more than the 99 KB of shared memory of consumer cards."""
    if device.type != "cuda":
        return device.type == "meta"  # the meta device, which counts as an H100
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
    blocks: AttentionBlocks | None = None,
) -> Tensor:
    """Returns softmax(q k^T) v, unscaled, on the visible keys of a buffer, the last T of which are the queries' own.

    Args:
        queries: (heads, T, D), D a power of two.
        keys, values: (kv_heads, capacity, D), contiguous; kv_heads divides heads.
        span: int32 (2,) on the device: the first visible key, and the number of valid keys, first + T or more.
        text_rows: the number of leading queries that are text: each attends to keys up to its own position. The rest is
            a canvas and attends to all.
        window: text attends to at most so many keys, its own included, even before the span; None: all of the span.
        splits: number of splits of the keys; None: enough to fill the device.
        blocks: block sizes; None: by the card.

    Returns:
        (T, heads * D) in the queries' type.
    """
    heads, count, size = queries.shape
    queries = queries.contiguous()
    blocks = blocks or AttentionBlocks.for_head(size, has_large_shared(queries.device))
    grid, cuts = (triton.cdiv(count, blocks.queries), heads), size // blocks.columns
    if splits is None:
        seen = min(keys.shape[1], window + count) if window else keys.shape[1]
        most = min(MAX_SPLITS, MAX_PARTS // (4 * queries.numel()))
        turns = triton.cdiv(seen, blocks.keys)
        splits = splits_of(grid[0] * grid[1] * cuts, processors(queries.device), turns, most)
    out = queries.new_empty((count, heads * size))
    parts = queries.new_empty((splits, count, heads, size) if splits > 1 else (0,), dtype=torch.float32)
    weights = queries.new_empty((splits, count, heads) if splits > 1 else (0,), dtype=torch.float32)
    attention_kernel[(*grid, splits * cuts)](
        queries, keys, values, span, out, parts, weights, count, text_rows, keys.shape[1],
        HEADS=heads, GROUP=heads // keys.shape[0], D=size, TEXT=text_rows > 0, WINDOW=window or 0,
        SPLITS=splits, M=blocks.queries, N=blocks.keys, COLUMNS=blocks.columns,
        num_warps=blocks.warps, enable_fp_fusion=True, num_stages=blocks.stages,
    )  # fmt: skip
    if splits > 1:
        join_kernel[(count * heads,)](
            parts, weights, out, count * heads,
            D=size, SPLITS=splits, PADDED=1 << (splits - 1).bit_length(), num_warps=4, enable_fp_fusion=True,
        )  # fmt: skip
    return out
