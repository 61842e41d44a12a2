"""Gated experts on NVFP4 weights with NVFP4 activations, for matrix units that multiply 4-bit floats with scales of 16.

A token's row is quantised as a matrix of its own: codes, an e4m3 scale for 16 inputs, an fp32 one for the row. Products
of codes and scales are the units' (``mma.sync … kind::mxf4nvf4`` on sm_120, one of Triton's ``dot_scaled``); the row's
and the matrix's scale come after. What is inside an expert is quantised likewise before the down projection.

The units take two neighbouring inputs in a byte, the first in its low bits. A tile of ours (``engine.quant.nibbles``)
has inputs j and 32 + j there, which are of different groups. Of two neighbouring words of a tile, eight bytes, the low
halves make a word of one group, and the high ones a word of another (``regrouped``): six instructions for 16 weights.
Inputs are then in another order, the same in each group of eight, 0 4 1 5 2 6 3 7, in which activations are stored.

Floor, 1024 tokens of a prompt in the real model, 8192 pairs: 97 GFLOP, 428 MB. RTX 5090, by its published rates (1676
TFLOPS, 1.79 TB/s): 58 µs of arithmetic, 239 of memory; in bf16 465 µs of arithmetic. A canvas has a quarter of the
pairs, and memory is its floor in either. Counted in machine code: gate_up 212 instructions for 32 of matrix units, down
226; the units take longer. Not measured: no card has run it, so that it is off, see ``engine.quant.Activations``.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.decode import split_pairs
from engine.kernels.expert_gemm import combine
from engine.kernels.expert_sort import group
from engine.kernels.linear_w8a16 import gelu_times
from engine.quant import E2M1_VALUES, NVFP4, Packed
from engine.quant.nvfp4 import LARGEST, LARGEST_SCALE

TOKENS, ROWS = 64, 128  # of a tile: pairs, and rows of the weight, half of them gate's where there are gates
TILES = 2  # of 64 inputs, per loop iteration: with one, a thread's scales are too few for an asynchronous copy
WARPS, STAGES = 4, 3
# Operands: $0 and $1 are words of codes, $2 and $3 two neighbouring words of a tile. 0xF8: a | (b & c)
REGROUP_PTX = """{
.reg .b32 low, high;
and.b32 low, $2, 0x0F0F0F0F;
shl.b32 high, $3, 4;
lop3.b32 $0, low, high, 0xF0F0F0F0, 0xF8;
shr.u32 low, $2, 4;
and.b32 low, low, 0x0F0F0F0F;
lop3.b32 $1, low, $3, 0xF0F0F0F0, 0xF8;
}"""
REGROUP_ASM = tl.constexpr(REGROUP_PTX)
MIDDLES = tl.constexpr(tuple((low + high) / 2 for low, high in pairwise(E2M1_VALUES[:8])))
MOST_CODE, MOST_SCALE = tl.constexpr(LARGEST), tl.constexpr(LARGEST_SCALE)
LEAST = tl.constexpr(torch.finfo(torch.float32).tiny)
LEAST_NORMAL, FEWEST = tl.constexpr(2.0**-6), tl.constexpr(512.0)  # of e4m3: its least normal number is 8 / 512
TO_WHOLE = tl.constexpr(12582912.0)  # 1.5 * 2^23: adding and taking it off rounds an fp32 number, halves to even


@triton.jit
def e4m3_bits(x):
    """Returns the bits, int32, of fp32 x in 0 .. 448, rounded to e4m3, halves to even."""
    bits = x.to(tl.int32, bitcast=True)
    normal = ((bits + 0x7FFFF + (bits >> 20 & 1)) >> 20) - (120 << 3)
    return tl.where(x < LEAST_NORMAL, (x * FEWEST + TO_WHOLE - TO_WHOLE).to(tl.int32), normal)


@triton.jit
def e4m3_value(bits):
    """Returns the fp32 value of a positive e4m3 number's bits, int32."""
    normal = ((bits + (120 << 3)) << 20).to(tl.float32, bitcast=True)
    return tl.where(bits < 8, bits.to(tl.float32) / FEWEST, normal)


@triton.jit
def e2m1_codes(x):
    """Returns the codes, int32, of fp32 x: the nearest, between two the even one."""
    size = tl.abs(x)
    codes = tl.where(x < 0, 8, 0)
    for code in tl.static_range(7):
        codes += tl.where(size >= MIDDLES[code] if code % 2 else size > MIDDLES[code], 1, 0)
    return codes


@triton.jit
def quantize_rows_kernel(
    x_ptr, codes_ptr, scales_ptr, wholes_ptr, K: tl.constexpr, SPLIT: tl.constexpr, GROUPS: tl.constexpr
):  # fmt: skip
    """Quantises one row, in ``split_pairs`` order if SPLIT. With a value that is not finite the row's scale is NaN."""
    group = tl.arange(0, GROUPS)
    byte = tl.arange(0, 8)[None, :]
    row = tl.program_id(0).to(tl.int64)
    inside = group[:, None] * 16 < K
    low_input = group[:, None] * 16 + byte // 4 * 8 + byte % 4
    high_input = low_input + 4
    if SPLIT:
        low_input = low_input // 32 * 32 + low_input % 2 * 16 + low_input % 32 // 2
        high_input = high_input // 32 * 32 + high_input % 2 * 16 + high_input % 32 // 2
    low = tl.load(x_ptr + row * K + low_input, mask=inside, other=0.0).to(tl.float32)
    high = tl.load(x_ptr + row * K + high_input, mask=inside, other=0.0).to(tl.float32)
    largest = tl.max(tl.maximum(tl.abs(low), tl.abs(high)), axis=1)
    whole = tl.maximum(tl.div_rn(tl.max(largest, axis=0), MOST_CODE * MOST_SCALE), LEAST)
    bits = e4m3_bits(tl.minimum(tl.div_rn(tl.div_rn(largest, whole), MOST_CODE), MOST_SCALE))
    scale = e4m3_value(bits)
    divisor = tl.where(bits == 0, 1.0, scale)[:, None]
    low_codes = e2m1_codes(tl.div_rn(tl.div_rn(low, whole), divisor))
    high_codes = e2m1_codes(tl.div_rn(tl.div_rn(high, whole), divisor))
    tl.store(codes_ptr + row * (K // 2) + group[:, None] * 8 + byte, (low_codes | high_codes << 4).to(tl.uint8), inside)
    tl.store(scales_ptr + row * (K // 16) + group, bits.to(tl.uint8), mask=group * 16 < K)
    tl.store(wholes_ptr + row, whole + tl.sum(tl.sum(low * 0.0 + high * 0.0, axis=1), axis=0))


@triton.jit
def regrouped(codes, PTX: tl.constexpr):
    """Reorders bytes of tiles (R, 32 T): the same codes, two inputs of one group in a byte."""
    ROWS: tl.constexpr = codes.shape[0]
    TILES: tl.constexpr = codes.shape[1] // 32
    first, second = codes.reshape(ROWS, TILES, 4, 2, 4).permute(0, 1, 2, 4, 3).split()  # words that are neighbours
    if PTX:
        low, high = tl.inline_asm_elementwise(
            REGROUP_ASM, "=&r,=&r,r,r", [first, second],  # type: ignore[arg-type]
            dtype=(tl.uint8, tl.uint8), is_pure=True, pack=4,
        )  # fmt: skip
    else:
        low, high = (first & 15) | (second << 4), (first >> 4) | (second & 0xF0)
    return tl.join(low, high).permute(0, 1, 4, 2, 3).reshape(ROWS, 32 * TILES)


@triton.jit
def load_within(ptrs, column, columns, EVEN: tl.constexpr):
    """Loads columns of rows (R, C), zeros from ``columns`` on; EVEN: there are none."""
    if EVEN:
        return tl.load(ptrs)
    else:
        return tl.load(ptrs, mask=column[None, :] < columns, other=0.0)


@triton.jit
def expert_w4a4_kernel(
    x_ptr, x_scales_ptr, wholes_ptr, codes_ptr, scales_ptr, matrix_scales_ptr, weights_ptr, pairs_ptr, offsets_ptr,
    tiles_ptr, out_ptr, TOP_K: tl.constexpr, K: tl.constexpr, OUT: tl.constexpr, GATED: tl.constexpr,
    PTX: tl.constexpr, N: tl.constexpr, M: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    """Multiplies N pairs by M rows of OUT. Grid: row blocks, tiles.

    GATED: x is of tokens, and GELU(gate) * up, M / 2 outputs, goes to the pairs' places in their order by expert. Else
    x is in that order, and outputs, weighted, go to the pairs' own places.
    """
    expert = tl.load(tiles_ptr + 2 * tl.program_id(1)).to(tl.int64)
    if expert < 0:
        return
    place = tl.load(tiles_ptr + 2 * tl.program_id(1) + 1) + tl.arange(0, N)
    end = tl.load(offsets_ptr + expert + 1)
    inside, place = place < end, tl.minimum(place, end - 1)
    x_row = tl.load(pairs_ptr + place) // TOP_K if GATED else place
    at = tl.arange(0, M)
    row = tl.program_id(0) * M + at
    if GATED:
        row = tl.program_id(0) * (M // 2) + at // (M // 2) * (OUT // 2) + at % (M // 2)
    byte, scale = tl.arange(0, 32 * TILES), tl.arange(0, 4 * TILES)
    x_ptrs = x_ptr + x_row[:, None] * (K // 2) + byte[None, :]
    x_scales_ptrs = x_scales_ptr + x_row[:, None] * (K // 16) + scale[None, :]
    near_row = tl.minimum(row, OUT - 1)[:, None]  # rows past the end read the last one and are never written
    codes_ptrs = codes_ptr + (expert * OUT + near_row) * (K // 2) + byte[None, :]
    words = expert * (K // 64) * OUT + scale[None, :] // 4 * OUT + near_row  # of four scales each
    scales_ptrs = scales_ptr + words * 4 + scale[None, :] % 4
    total = tl.zeros((M, N), tl.float32)
    EVEN: tl.constexpr = K % (64 * TILES) == 0
    for first in range(0, K, 64 * TILES):
        x = load_within(x_ptrs + first // 2, byte, (K - first) // 2, EVEN)
        x_scales = load_within(x_scales_ptrs + first // 16, scale, (K - first) // 16, EVEN)
        codes = load_within(codes_ptrs + first // 2, byte, (K - first) // 2, EVEN)
        scales = load_within(scales_ptrs + first // 16 * OUT, scale, (K - first) // 16, EVEN)
        total = tl.dot_scaled(regrouped(codes, PTX), scales, "e2m1", tl.trans(x), x_scales, "e2m1", total)
    total *= tl.load(wholes_ptr + x_row)[None, :]
    if GATED:
        total *= tl.load(matrix_scales_ptr + expert * 2 + at // (M // 2))[:, None]
        gate, up = total.reshape(2, M // 2, N).permute(1, 2, 0).split()
        out = gelu_times(gate, up)
        column = tl.program_id(0) * (M // 2) + tl.arange(0, M // 2)
        out_ptrs = out_ptr + place[:, None] * (OUT // 2) + column[None, :]
        mask = inside[:, None]
    else:
        pair = tl.load(pairs_ptr + place)
        out = total * (tl.load(matrix_scales_ptr + expert) * tl.load(weights_ptr + pair))[None, :]
        out_ptrs = out_ptr + pair[:, None] * OUT + row[None, :]
        mask = inside[:, None] & (row < OUT)[None, :]
    tl.store(out_ptrs, tl.trans(out).to(out_ptr.dtype.element_ty), mask=mask)


def experts(x: Tensor, weights: Tensor, chosen: Tensor, gate_up: Packed, down: Packed) -> Tensor:
    """Runs gated experts as ``reference.experts_w4a4``. Arguments and result as of ``expert_gemm.experts``."""
    return combine(expert_parts(split_pairs(x), weights.contiguous(), chosen, gate_up, down), chosen.shape[1])


def expert_parts(x: Tensor, weights: Tensor, chosen: Tensor, gate_up: Packed, down: Packed) -> Tensor:
    """Does the same as ``expert_gemm.expert_parts`` for NVFP4 weights, with rounded activations."""
    number, hidden, width = down.shape
    assert gate_up.matrix_scales is not None
    assert gate_up.matrix_scales.shape == (number, 2)
    groups = group(chosen, number, TOKENS)

    def product(x: Tensor, weight: Packed, out: Tensor, is_split: bool, gated: bool) -> Tensor:
        _, rows, inputs = weight.shape
        launch: Any = expert_w4a4_kernel[(triton.cdiv(rows, ROWS), groups.tiles.shape[0])]
        launch(
            *quantize_rows(x, is_split), weight.codes, weight.scales.view(torch.float8_e4m3fn), weight.matrix_scales,
            weights, groups.pairs, groups.offsets, groups.tiles, out, TOP_K=chosen.shape[1], K=inputs, OUT=rows,
            GATED=gated, PTX=x.is_cuda, N=TOKENS, M=ROWS, TILES=TILES, num_warps=WARPS, num_stages=STAGES,
            enable_fp_fusion=True,
        )  # fmt: skip
        return out

    inner = product(x, gate_up, x.new_empty((chosen.numel(), width)), is_split=True, gated=True)
    return product(inner, down, x.new_empty((chosen.numel(), hidden)), is_split=False, gated=False)


def quantize_rows(x: Tensor, is_split: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Quantises rows (N, in), contiguous, to codes uint8 (N, in / 2), e4m3 scales (N, in / 16), and fp32 ones of the
    rows (N,).

    is_split: they are in ``split_pairs`` order. Codes are in that of ``regrouped``.
    """
    count, inputs = x.shape
    codes = x.new_empty((count, inputs // 2), dtype=torch.uint8)
    scales = x.new_empty((count, inputs // NVFP4.group_size), dtype=torch.uint8)
    wholes = x.new_empty(count, dtype=torch.float32)
    launch: Any = quantize_rows_kernel[(count,)]
    launch(
        x, codes, scales, wholes, K=inputs, SPLIT=is_split, GROUPS=triton.next_power_of_2(scales.shape[1]),
        num_warps=4, enable_fp_fusion=True,
    )  # fmt: skip
    return codes, scales.view(torch.float8_e4m3fn), wholes
