"""Linear layers on 8-bit weights: codes become bf16 in registers, a row's scale is applied to the finished sum.

The weight is the left operand, so that its converted codes go from registers straight into the tensor cores; tokens
are the right one. A weight has few tiles (2816 rows are 22), fewer than a large card has processors: the inputs are
split, too, and the last program to finish a tile adds up its parts, always in the same order, so that results repeat.

Gate and up of a gated MLP, whose rows lie behind one another, are one launch that stores GELU(gate) * up.

Floor, 256 tokens, 2816 x 4096: 11.5 MB of codes, 5.9 GFLOP. Predicted, not measured: H200 15 µs (compute floor 7.5,
memory floor 2.7; tiles draw 69 MB from the L2 cache), RTX 4090 45 µs (36 and 11).
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import functools
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.launches import PROCESSORS
from engine.weights.quantize import Packed

BLOCK_ROWS = 128  # of the weight
BLOCK_TOKENS = 128  # at most
BLOCK_INPUTS = 64
STAGES = 3  # with two, each block of inputs is waited for as soon as it is asked for
MIN_BLOCKS = 8  # blocks of inputs that a split is worth
MAX_TILES = 1024  # that may be split: more than any card has processors
# What splitting costs, in the time that a block of inputs takes (0.5 µs on an H200): a part's way to the L2 cache, a
# part's way back, and the wait for the last of them.
PART_OUT, PART_BACK, PART_WAIT = 3, 1, 2
WORTH = 1.2  # what splitting once more must gain: parts take cache, and fewer tiles fit a multiprocessor side by side


@triton.jit
def dot_rows(
    codes_ptr, x_ptr, row, token, first, last, K: tl.constexpr, M: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr
):
    """Products of weight rows ``row`` (M,) and tokens ``token`` (N,) over input blocks first .. last, fp32 (M, N)."""
    k = tl.arange(0, BLOCK)
    total = tl.zeros((M, N), tl.float32)
    for block in range(first, last):
        inputs = block * BLOCK + k
        if K % BLOCK == 0:
            codes = tl.load(codes_ptr + row[:, None] * K + inputs[None, :])
            x = tl.load(x_ptr + token[:, None] * K + inputs[None, :])
        else:
            within = inputs[None, :] < K
            codes = tl.load(codes_ptr + row[:, None] * K + inputs[None, :], mask=within, other=0)
            x = tl.load(x_ptr + token[:, None] * K + inputs[None, :], mask=within, other=0.0)
        total = tl.dot(codes.to(x.dtype), tl.trans(x), total)
    return total


@triton.jit
def linear8_kernel(
    x_ptr, codes_ptr, scales_ptr, out_ptr, parts_ptr, arrived_ptr, tokens,
    K: tl.constexpr, ROWS: tl.constexpr, SPLITS: tl.constexpr, GATED: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One tile (N tokens, M rows) of the output, or one split of its inputs. Grid: token tiles, row tiles, splits.

    GATED: a tile takes the gate and the up row of each of M / 2 outputs side by side.
    """
    split = tl.program_id(2)
    column = tl.program_id(1) * M + tl.arange(0, M)
    row = column // 2 + column % 2 * (ROWS // 2) if GATED else column
    token = tl.program_id(0) * N + tl.arange(0, N)
    share: tl.constexpr = (K + BLOCK * SPLITS - 1) // (BLOCK * SPLITS)
    blocks: tl.constexpr = (K + BLOCK - 1) // BLOCK
    # Rows and tokens past the end are read as the last one and never written.
    total = dot_rows(
        codes_ptr, x_ptr, tl.minimum(row, ROWS - 1), tl.minimum(token, tokens - 1),
        split * share, tl.minimum(split * share + share, blocks), K, M, N, BLOCK,
    )  # fmt: skip
    inside = (token[:, None] < tokens) & (column[None, :] < ROWS)
    place = token[:, None] * ROWS + column[None, :]
    total = tl.trans(total)
    if SPLITS > 1:
        tl.store(parts_ptr + split * tokens * ROWS + place, total, mask=inside)
        tl.debug_barrier()  # the whole program's part is written before its arrival counts
        tile = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
        if tl.atomic_add(arrived_ptr + tile, 1) < SPLITS - 1:
            return
        tl.store(arrived_ptr + tile, 0)
        total = tl.zeros((N, M), tl.float32)
        for part in tl.static_range(SPLITS):
            total += tl.load(parts_ptr + part * tokens * ROWS + place, mask=inside, other=0.0, cache_modifier=".cg")
    scales = tl.load(scales_ptr + row, mask=column < ROWS, other=0.0)
    total *= scales[None, :]
    if GATED:
        gate, up = tl.split(tl.reshape(total, (N, M // 2, 2)))
        bend = 1.5957691216057308 * (gate + 0.044715 * gate * gate * gate)  # twice the argument of GELU's tanh
        total = gate / (1.0 + tl.exp(-tl.maximum(bend, -80.0))) * up
        output = tl.program_id(1) * (M // 2) + tl.arange(0, M // 2)
        inside = (token[:, None] < tokens) & (output[None, :] < ROWS // 2)
        place = token[:, None] * (ROWS // 2) + output[None, :]
    tl.store(out_ptr + place, total.to(out_ptr.dtype.element_ty), mask=inside)


@functools.cache
def processors(device: torch.device) -> int:
    """Multiprocessors of a device; 1 for a CPU, where the interpreter runs one program after another."""
    if device.type != "cuda":
        return PROCESSORS if device.type == "meta" else 1
    count: int = torch.cuda.get_device_properties(device).multi_processor_count
    return count


@functools.cache
def arrivals(device: torch.device) -> Tensor:
    """Counters of finished splits a tile, zero between launches."""
    return torch.zeros(MAX_TILES, dtype=torch.int32, device=device)


def token_block(tokens: int) -> int:
    """Tokens a tile holds: a power of two that the tensor cores take."""
    return min(BLOCK_TOKENS, max(16, 1 << (tokens - 1).bit_length()))


def splits_of(tiles: int, blocks: int, processors: int) -> int:
    """How many parts each tile's inputs are split into: what takes the least time by a count of rounds.

    A tile more than there are processors costs a whole round of tiles; split, it costs a shorter one.

    Args:
        tiles: of the output. blocks: of inputs, each tile's. processors: of the card.
    """

    def time(splits: int) -> int:
        rounds, share = -(-tiles * splits // processors), -(-blocks // splits)
        if splits == 1:
            return rounds * share
        return rounds * (share + PART_OUT) + PART_BACK * splits + PART_WAIT

    most = max(1, blocks // MIN_BLOCKS) if tiles <= MAX_TILES else 1
    times = [time(splits) for splits in range(1, most + 1)]
    return next(splits for splits, taken in enumerate(times, 1) if taken <= WORTH * min(times))


def linear8(x: Tensor, weight: Packed, splits: int | None = None, gated: bool = False) -> Tensor:
    """x (..., in) and an int8 weight (out, in) -> (..., out), in x's type with fp32 sums.

    Args:
        x: bf16 on the device.
        weight: int8 codes (out, in), fp32 scales (1, out).
        splits: parts the inputs are split into, for up to 1024 tiles; None: see ``splits_of``.
        gated: whether the weight's rows are gates and, behind them, as many ups: GELU(gate) * up, (..., out / 2).
    """
    rows, inputs = weight.shape
    flat = x.reshape(-1, inputs).contiguous()
    tokens = flat.shape[0]
    block = token_block(tokens)
    grid = (triton.cdiv(tokens, block), triton.cdiv(rows, BLOCK_ROWS))
    tiles = grid[0] * grid[1]
    if splits is None:
        splits = splits_of(tiles, triton.cdiv(inputs, BLOCK_INPUTS), processors(x.device))
    out = x.new_empty((tokens, rows // 2 if gated else rows))
    parts = x.new_empty((splits, tokens, rows) if splits > 1 else (0,), dtype=torch.float32)
    launch: Any = linear8_kernel[(*grid, splits)]
    launch(
        flat, weight.codes, weight.scales, out, parts, arrivals(x.device), tokens,
        K=inputs, ROWS=rows, SPLITS=splits, GATED=gated, M=BLOCK_ROWS, N=block, BLOCK=BLOCK_INPUTS,
        num_warps=8, num_stages=STAGES, enable_fp_fusion=True,
    )  # fmt: skip
    return out.view(*x.shape[:-1], out.shape[1])
