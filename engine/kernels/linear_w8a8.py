"""Products of 8-bit weights and activations on 8-bit matrix units: int8 x int8 -> int32.

Activations are rounded 128 inputs of a token at a time: codes -127 to 127 times an fp32 scale. With one scale a token,
a few large channels would take the precision of all others. No code is converted for the matrix units; a group's sum is
exact, and is added in fp32 times its scale. ``engine.quant.Activations`` says which models use these products.

Floor, 256 tokens, 2816 x 4096: 11.5 MB of codes, 5.9 GFLOP. Predicted, not measured: H200 10 µs (compute floor 3.7,
memory floor 2.7; tiles read 46 MB from the L2 cache), RTX 4090 18 µs (9 and 11); rounding 256 x 2816 3 µs more.

A tile's inputs are split until the device is full. Unlike in ``linear_w8a16`` they are never shared across tiles: a
block is a whole group, so that a share would have few.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.linear_w8a16 import arrivals, processors, store_tile, token_block
from engine.kernels.reference import GROUP
from engine.quant import Packed

BLOCK_ROWS = 128  # of the weight
MIN_BLOCKS = 4  # groups of inputs that make a split worthwhile
LARGEST = tl.constexpr(127.0)
LEAST = tl.constexpr(1e-30)  # below which a row's values are zeros
TO_WHOLE = tl.constexpr(12582912.0)  # 1.5 * 2^23: adding and taking it off rounds an fp32 number, halves to even


@triton.jit
def round_to_int8(x, largest):
    """Rounds fp32 x in -largest .. largest to int8 in -127 .. 127."""
    return (x * (LARGEST / tl.maximum(largest, LEAST)) + TO_WHOLE - TO_WHOLE).to(tl.int8)


@triton.jit
def quantize_kernel(x_ptr, codes_ptr, scales_ptr, tokens, K: tl.constexpr, GROUPS: tl.constexpr, SIZE: tl.constexpr):
    """Quantises one token. A value that is not finite makes its group's scale NaN, since codes cannot represent it."""
    group = tl.arange(0, GROUPS)
    at = group[:, None] * SIZE + tl.arange(0, SIZE)[None, :]
    row = tl.program_id(0).to(tl.int64) * K + at
    x = tl.load(x_ptr + row, mask=at < K, other=0.0).to(tl.float32)
    largest = tl.max(tl.abs(x), axis=1)
    tl.store(codes_ptr + row, round_to_int8(x, largest[:, None]), mask=at < K)
    scales = largest / LARGEST + tl.sum(x * 0.0, axis=1)
    tl.store(scales_ptr + group * tokens + tl.program_id(0), scales, mask=group * SIZE < K)


@triton.jit
def linear_w8a8_kernel(
    x_ptr, x_scales_ptr, codes_ptr, scales_ptr, out_ptr, parts_ptr, arrived_ptr, tokens,
    K: tl.constexpr, ROWS: tl.constexpr, SPLITS: tl.constexpr, GATED: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Computes one tile (M tokens, N rows) of the output, or one split of its inputs.

    Grid: token tiles, row tiles, splits.

    GATED: gate and up rows of N / 2 outputs interleaved; the output is GELU(gate) * up.
    """
    split = tl.program_id(2)
    token = tl.program_id(0) * M + tl.arange(0, M)
    column = tl.program_id(1) * N + tl.arange(0, N)
    row = column // 2 + column % 2 * (ROWS // 2) if GATED else column
    # Rows and tokens past the end read the last one and are never written.
    near_token, near_row = tl.minimum(token, tokens - 1), tl.minimum(row, ROWS - 1)
    share: tl.constexpr = (K + BLOCK * SPLITS - 1) // (BLOCK * SPLITS)
    blocks: tl.constexpr = (K + BLOCK - 1) // BLOCK
    k = tl.arange(0, BLOCK)
    total = tl.zeros((M, N), tl.float32)
    for block in range(split * share, tl.minimum(split * share + share, blocks)):
        inputs = block * BLOCK + k
        if K % BLOCK == 0:
            x = tl.load(x_ptr + near_token[:, None] * K + inputs[None, :])
            codes = tl.load(codes_ptr + near_row[:, None] * K + inputs[None, :])
        else:
            within = inputs[None, :] < K
            x = tl.load(x_ptr + near_token[:, None] * K + inputs[None, :], mask=within, other=0)
            codes = tl.load(codes_ptr + near_row[:, None] * K + inputs[None, :], mask=within, other=0)
        x_scales = tl.load(x_scales_ptr + block * tokens + near_token)
        total += tl.dot(x, tl.trans(codes)).to(tl.float32) * x_scales[:, None]
    tile = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
    if SPLITS > 1:
        inside = (token[:, None] < tokens) & (column[None, :] < ROWS)
        place = token[:, None] * ROWS + column[None, :]
        tl.store(parts_ptr + split * tokens * ROWS + place, total, mask=inside)
        tl.debug_barrier()  # all threads' parts are written before the arrival is counted
        if tl.atomic_add(arrived_ptr + tile, 1) < SPLITS - 1:
            return
        tl.store(arrived_ptr + tile, 0)
        total = tl.zeros((M, N), tl.float32)
        for part in tl.static_range(SPLITS):
            total += tl.load(parts_ptr + part * tokens * ROWS + place, mask=inside, other=0.0, cache_modifier=".cg")
    store_tile(total, scales_ptr, out_ptr, tile, tokens, ROWS, GATED, N, M)


def quantize_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """Quantises x (T, in), contiguous, as ``reference.quantize_rows``: codes (T, in), scales (groups, T)."""
    tokens, inputs = x.shape
    groups = triton.cdiv(inputs, GROUP)
    codes, scales = torch.empty_like(x, dtype=torch.int8), x.new_empty((groups, tokens), dtype=torch.float32)
    launch: Any = quantize_kernel[(tokens,)]
    padded = triton.next_power_of_2(groups)
    launch(x, codes, scales, tokens, K=inputs, GROUPS=padded, SIZE=GROUP, num_warps=4, enable_fp_fusion=True)
    return codes, scales


def linear_w8a8(x: Tensor, weight: Packed, splits: int | None = None, gated: bool = False) -> Tensor:
    """Multiplies x (..., in), rounded to int8, by an int8 weight (out, in) -> (..., out) in x's type.

    Args:
        x: bf16 on the device.
        weight: int8 codes (out, in), fp32 scales (1, out).
        splits: number of splits of the inputs, for up to 1024 tiles; None: enough to fill the device.
        gated: whether the weight's rows are gates, then as many ups: GELU(gate) * up, (..., out / 2).
    """
    rows, inputs = weight.shape
    codes, scales = quantize_rows(x.reshape(-1, inputs).contiguous())
    tokens = codes.shape[0]
    block = token_block(tokens)
    grid = (triton.cdiv(tokens, block), triton.cdiv(rows, BLOCK_ROWS))
    tiles = grid[0] * grid[1]
    if splits is None:
        splits = max(1, min(processors(x.device) // tiles, inputs // (MIN_BLOCKS * GROUP)))
    out = x.new_empty((tokens, rows // 2 if gated else rows))
    parts = x.new_empty((splits, tokens, rows) if splits > 1 else (0,), dtype=torch.float32)
    launch: Any = linear_w8a8_kernel[(*grid, splits)]
    launch(
        codes, scales, weight.codes, weight.scales, out, parts, arrivals(x.device), tokens,
        K=inputs, ROWS=rows, SPLITS=splits, GATED=gated, M=block, N=BLOCK_ROWS, BLOCK=GROUP,
        num_warps=8, num_stages=3, enable_fp_fusion=True,
    )  # fmt: skip
    return out.view(*x.shape[:-1], out.shape[1])
