"""Gated experts on 4-bit weights: sort, gate · up · activation, down, combine. Four kernels, no host synchronisation.

In a step there are three, as ``norms.add_norm`` orders the tokens and ``norms.merge_norm`` combines.

Weights are the left operand, so that codes go from registers, where they are decoded and scaled, directly into the
tensor cores; the tokens of a tile, all of one expert, are the right one. Two sets of weight rows share them: gate and
up, or two blocks of down. Tokens are in ``split_pairs`` order, so that decoded quarters match them without a shuffle;
gate and up store their rows in that order, which leaves their outputs so for down. Products of a pair go to the pair's
own place and are added up in the order of its token's choices, so that results repeat.

Floor, 256 tokens of the real model: 24 GFLOP, twice that in tiles of 32; int4 g32 and nvfp4 428 MB, nf4 404 MB. H200
100 µs, RTX 4090 424 µs. Instructions a weight (gate and up, down), counted in the machine code of the whole loop. int4:
3.0 and 3.8 on sm_90, 3.7 and 3.6 on sm_89, 3.3 on sm_120. nf4: 6.2, 6.0 and 5.7. nvfp4: 5.4, 5.2 and 5.0. Issuing them
takes an H200 85 µs for int4, 160 for nf4 and 140 for nvfp4. The loop never waits for a load just issued: codes, scales
and tokens are loaded two or three iterations ahead, and on sm_90 an iteration's products run while the next weights are
decoded. Predicted, not measured, everything included: int4 H200 140 µs, RTX 4090 460 µs; nf4 H200 205 µs, RTX 4090 440
µs.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, arg-type, call-arg"

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.config import GELU, Activation
from engine.kernels.decode import decode, split_pairs
from engine.kernels.linear_w8a16 import gelu_times, silu_times
from engine.kernels.router import group
from engine.quant import INT4, INT4_G64, NF4, NVFP4, UINT4, Packed, Scheme

CODES: dict[Scheme, str] = {INT4: "int4", INT4_G64: "int4", NF4: "nf4", NVFP4: "e2m1", UINT4: "uint4"}
"""How ``decode`` reads them."""
COMBINE = 512  # outputs of a token that a program sums


@dataclass(frozen=True)
class ProductBlocks:
    """Block sizes of the two products on one kind of card."""

    tokens: int  # of a tile
    rows: int  # of each of the two sets of weight rows that share the tokens
    warps: int
    stages: int
    tiles: int = 1  # of 64 inputs, per loop iteration, at most

    @staticmethod
    def for_card(major: int, pairs: float) -> ProductBlocks:
        """Returns the sizes for a card of compute capability ``major`` and an average number of pairs per expert.

        A tile is wide enough for most experts' pairs, since every further tile decodes the weights again.
        """
        tokens = 16 if pairs <= 8 else 32 if pairs <= 24 else 64
        if major != 9:  # memory-bound cards
            return ProductBlocks(tokens, 64, 4, 3)
        return ProductBlocks(tokens, 64, 4, 4, 1 if tokens > 32 else 2)

    def down_rows(self, hidden: int) -> int:
        """Returns the rows of each set of the down projection."""
        return self.rows if hidden % (2 * self.rows) == 0 else self.rows // 2

    def turn(self, inputs: int, scheme: Scheme) -> int:
        """Returns the tiles per loop iteration over so many inputs.

        Two by table would leave registers for only two programs.
        """
        return 1 if CODES[scheme] != "int4" or inputs % (64 * self.tiles) else self.tiles


@triton.jit
def paired(row):
    """Maps an index in a tile of weight rows to its row: of 16, the even ones before the odd.

    A lane holds rows 8 apart. With this order they are neighbours in the weight, and a word has the scales of both.
    """
    return row // 16 * 16 + row % 8 * 2 + row // 8 % 2


@triton.jit
def neighbours_scales(words):
    """Splits words of two neighbouring rows' scales (R / 2, G) int32 into those of rows in ``paired`` order (R, G)
    int16.
    """
    PAIRS: tl.constexpr = words.shape[0]
    GROUPS: tl.constexpr = words.shape[1]
    both = tl.join(words.to(tl.int16), (words >> 16).to(tl.int16))
    return both.reshape(PAIRS // 8, 8, GROUPS, 2).permute(0, 3, 1, 2).reshape(2 * PAIRS, GROUPS)


@triton.jit
def word_scales(scales):
    """Repeats scales of tiles (R, T) for their words (R, 16 T)."""
    ROWS: tl.constexpr = scales.shape[0]
    TILES: tl.constexpr = scales.shape[1]
    return scales[:, :, None].broadcast_to(ROWS, TILES, 16).reshape(ROWS, 16 * TILES)


@triton.jit
def fp8_scales(words):
    """Expands words of rows' four e4m3 scales a tile (R, T) int32 to scales of its words of codes, for ``decode``.

    Each output, for the tile's two halves, is (R, 16 T) int16. A half's first eight words have its lower group's.
    """
    ROWS: tl.constexpr = words.shape[0]
    TILES: tl.constexpr = words.shape[1]
    wide = words[:, :, None].broadcast_to(ROWS, TILES, 8).reshape(ROWS, 8 * TILES)
    both = tl.join(wide << 4 & 0x07F007F0, wide >> 4 & 0x07F007F0)  # groups 0 and 2, 1 and 3: moved by four places
    both = both.reshape(ROWS, TILES, 8, 2).permute(0, 1, 3, 2).reshape(ROWS, 16 * TILES)
    return both.to(tl.int16), (both >> 16).to(tl.int16)


@triton.jit
def scales_and_eights(words, PTX: tl.constexpr):
    """Expands words of fp16 scales and minima of rows' groups of 32 (R, 2 T) int32 to the operands of ``decode``.

    Outputs are the scales of a tile's two halves, then the values of code 8, each (R, 16 T) int16.
    """
    ROWS: tl.constexpr = words.shape[0]
    TILES: tl.constexpr = words.shape[1] // 2
    scales = words.to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)
    minima = (words >> 16).to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)
    low, high = bf16_bits(scales, PTX).reshape(ROWS, TILES, 2).split()
    low_eights, high_eights = bf16_bits(minima + 8.0 * scales, PTX).reshape(ROWS, TILES, 2).split()
    return word_scales(low), word_scales(high), word_scales(low_eights), word_scales(high_eights)


@triton.jit
def bf16_bits(numbers, PTX: tl.constexpr):
    """Returns the bits of fp32 numbers rounded to the nearest bf16, int16. The interpreter would cut them off."""
    if PTX:
        return numbers.to(tl.bfloat16).to(tl.int16, bitcast=True)
    else:
        bits = numbers.to(tl.int32, bitcast=True)
        return (bits + 0x7FFF + (bits >> 16 & 1) >> 16).to(tl.int16)


@triton.jit
def product(
    x_ptrs, inside, words_ptrs, scales_ptrs, ROWS: tl.constexpr, K: tl.constexpr, GROUP: tl.constexpr,
    CODES: tl.constexpr, PTX: tl.constexpr, N: tl.constexpr, M: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    """Returns the products of N tokens and M weight rows, K inputs, fp32 (M, N); an iteration takes TILES tiles of 64.

    x_ptrs: (N,), the tokens' first inputs. words_ptrs: (M,), those of rows in ``paired`` order. scales_ptrs: (M / 2,),
    words of two neighbouring rows' first scales; with e2m1 (M,), each row's word of four; with uint4 (M,), each row's
    word of a scale and a minimum. ROWS: of the whole weight.

    All loads are words of 4 bytes or more, so that the next iterations' are in flight, and there is one product each:
    several in a row would each be waited for.
    """
    WORDS: tl.constexpr = TILES if CODES == "e2m1" else 64 * TILES // GROUP  # of scales
    STEP: tl.constexpr = ROWS if CODES == "e2m1" or CODES == "uint4" else ROWS // 2
    x_ptrs = x_ptrs[:, None] + tl.arange(0, 64 * TILES)[None, :]
    words_ptrs = words_ptrs[:, None] + tl.arange(0, 16 * TILES)[None, :]
    scales_ptrs = scales_ptrs[:, None] + tl.arange(0, WORDS)[None, :] * STEP
    total = tl.zeros((M, N), tl.float32)
    for turn in range(K // (64 * TILES)):
        words = tl.load(words_ptrs + turn * (16 * TILES))
        scales = tl.load(scales_ptrs + turn * (WORDS * STEP))
        low_eights, high_eights = None, None
        if CODES == "e2m1":
            low, high = fp8_scales(scales)
        elif CODES == "uint4":
            low, high, low_eights, high_eights = scales_and_eights(scales, PTX)
        elif GROUP == 32:
            low, high = neighbours_scales(scales).reshape(M, TILES, 2).split()
            low, high = word_scales(low), word_scales(high)
        else:
            low = word_scales(neighbours_scales(scales))
            high = low
        quarters = decode(words, low, high, CODES, PTX, x_ptrs.dtype.element_ty, low_eights, high_eights)
        weights = tl.join(tl.join(quarters[0], quarters[2]), tl.join(quarters[1], quarters[3]))
        weights = weights.reshape(M, TILES, 16, 2, 2).permute(0, 1, 3, 4, 2).reshape(M, 64 * TILES)
        x = tl.load(x_ptrs + turn * (64 * TILES), mask=inside[:, None], other=0.0)
        total = tl.dot(weights, tl.trans(x), total)
    return total


@triton.jit
def gate_up_kernel(
    x_ptr, words_ptr, scales_ptr, matrix_scales_ptr, pairs_ptr, offsets_ptr, tiles_ptr, inner_ptr,
    TOP_K: tl.constexpr, H: tl.constexpr, WIDTH: tl.constexpr, GROUP: tl.constexpr, CODES: tl.constexpr,
    SILU: tl.constexpr, PTX: tl.constexpr, N: tl.constexpr, M: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    """Computes activation(gate) * up of N pairs, M outputs each; tokens and outputs in split pairs.

    Grid: row blocks, tiles. SILU: the activation; else GELU.
    """
    expert = tl.load(tiles_ptr + 2 * tl.program_id(1)).to(tl.int64)
    if expert < 0:
        return
    place = tl.load(tiles_ptr + 2 * tl.program_id(1) + 1) + tl.arange(0, N)
    inside = place < tl.load(offsets_ptr + expert + 1)
    token = tl.load(pairs_ptr + place, mask=inside, other=0) // TOP_K
    at = tl.arange(0, 2 * M)  # gate's rows before up's
    row = tl.program_id(0) * M + at // M * WIDTH + paired(at % M)
    if CODES == "e2m1":
        scale_words = expert * (H // 64 * (2 * WIDTH)) + row
    else:
        two = tl.arange(0, M)  # neighbouring rows
        two = (tl.program_id(0) * M + two // (M // 2) * WIDTH) // 2 + two % (M // 2)
        scale_words = expert * (H // GROUP * WIDTH) + two
    both = product(
        x_ptr + token * H, inside,
        words_ptr + expert * (2 * WIDTH * (H // 4)) + row * (H // 4),
        scales_ptr + scale_words,
        2 * WIDTH, H, GROUP, CODES, PTX, N, 2 * M, TILES,
    )  # fmt: skip
    if matrix_scales_ptr is not None:
        both *= tl.load(matrix_scales_ptr + expert * 2 + at // M)[:, None]
    gate, up = both.reshape(2, M, N).permute(1, 2, 0).split()
    inner = silu_times(gate, up) if SILU else gelu_times(gate, up)
    inner = inner.reshape(M // 32, 2, 2, 8, N).permute(0, 2, 1, 3, 4).reshape(M, N)  # of 32, the even ones first
    inner_ptrs = inner_ptr + place[:, None] * WIDTH + (tl.program_id(0) * M + tl.arange(0, M))[None, :]
    tl.store(inner_ptrs, tl.trans(inner).to(inner_ptr.dtype.element_ty), mask=inside[:, None])


@triton.jit
def down_kernel(
    inner_ptr, words_ptr, scales_ptr, matrix_scales_ptr, weights_ptr, pairs_ptr, offsets_ptr, tiles_ptr, parts_ptr,
    H: tl.constexpr, WIDTH: tl.constexpr, GROUP: tl.constexpr, CODES: tl.constexpr, PTX: tl.constexpr,
    N: tl.constexpr, M: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    """Writes weighted outputs of N pairs, 2 M rows, to the pairs' own places. Grid: row blocks, tiles."""
    expert = tl.load(tiles_ptr + 2 * tl.program_id(1)).to(tl.int64)
    if expert < 0:
        return
    place = tl.load(tiles_ptr + 2 * tl.program_id(1) + 1) + tl.arange(0, N)
    inside = place < tl.load(offsets_ptr + expert + 1)
    first = tl.program_id(0) * (2 * M)
    row = first + paired(tl.arange(0, 2 * M))
    if CODES == "e2m1":
        scale_words = expert * (WIDTH // 64 * H) + row
    else:
        scale_words = expert * (WIDTH // GROUP * (H // 2)) + first // 2 + tl.arange(0, M)
    total = product(
        inner_ptr + place * WIDTH, inside,
        words_ptr + expert * (H * (WIDTH // 4)) + row * (WIDTH // 4), scales_ptr + scale_words,
        H, WIDTH, GROUP, CODES, PTX, N, 2 * M, TILES,
    )  # fmt: skip
    if matrix_scales_ptr is not None:
        total *= tl.load(matrix_scales_ptr + expert)
    total = total.reshape(M // 8, 2, 8, N).permute(0, 2, 1, 3).reshape(2 * M, N)  # in the weight's order
    pair = tl.load(pairs_ptr + place, mask=inside, other=0)
    total *= tl.load(weights_ptr + pair, mask=inside, other=0.0)[None, :]
    part_ptrs = parts_ptr + pair[:, None] * H + (first + tl.arange(0, 2 * M))[None, :]
    tl.store(part_ptrs, tl.trans(total).to(parts_ptr.dtype.element_ty), mask=inside[:, None])


@triton.jit
def combine_kernel(parts_ptr, out_ptr, TOP_K: tl.constexpr, H: tl.constexpr, BLOCK: tl.constexpr):
    """Sums a token's experts, in the order of its choices. Grid: tokens, output blocks."""
    token = tl.program_id(0)
    output = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for rank in tl.static_range(TOP_K):
        part = tl.load(parts_ptr + (token * TOP_K + rank) * H + output, mask=output < H, other=0.0)
        total += part.to(tl.float32)
    tl.store(out_ptr + token * H + output, total.to(out_ptr.dtype.element_ty), mask=output < H)


def experts(
    x: Tensor,
    weights: Tensor,
    chosen: Tensor,
    gate_up: Packed,
    down: Packed,
    activation: Activation = GELU,
    blocks: ProductBlocks | None = None,
) -> Tensor:
    """Runs gated experts as ``reference.experts``, with fp32 sums.

    Args:
        x: (N, H), bf16 on a device. The rest as for ``expert_parts``.

    Returns:
        (N, H), the weighted sum over each token's experts.
    """
    parts = expert_parts(split_pairs(x), weights.contiguous(), chosen, gate_up, down, activation, blocks)
    return combine(parts, chosen.shape[1])


def combine(parts: Tensor, top_k: int) -> Tensor:
    """Adds up each token's ``top_k`` parts of (N * K, H), in the order of its choices: (N, H)."""
    tokens, hidden = parts.shape[0] // top_k, parts.shape[1]
    out = parts.new_empty((tokens, hidden))
    combine_kernel[(tokens, triton.cdiv(hidden, COMBINE))](
        parts, out, TOP_K=top_k, H=hidden, BLOCK=COMBINE, num_warps=4, enable_fp_fusion=True
    )
    return out


def expert_parts(
    x: Tensor,
    weights: Tensor,
    chosen: Tensor,
    gate_up: Packed,
    down: Packed,
    activation: Activation = GELU,
    blocks: ProductBlocks | None = None,
) -> Tensor:
    """Returns each token's expert outputs, weighted, before they are added up.

    Args:
        x: (N, H) in ``split_pairs`` order, contiguous, bf16 on a device.
        weights: (N, K) fp32, contiguous. chosen: (N, K) expert indices, distinct in a row.
        gate_up: 4-bit (E, 2I, H), gate rows first, two matrices. down: 4-bit (E, H, I).
        blocks: block sizes; None: by the card and the number of tokens.

    Returns:
        (N * K, H) in the usual order and x's type, a token's parts consecutive in the order of its choices.
    """
    number, hidden, width = down.shape
    assert gate_up.matrix_scales is None or gate_up.matrix_scales.shape == (number, 2)
    blocks = blocks or ProductBlocks.for_card(_major(x.device), chosen.numel() / number)
    order = group(chosen, number, blocks.tokens)
    tiles = order[-1].shape[0]
    options: dict[str, Any] = {
        "H": hidden, "WIDTH": width, "PTX": x.is_cuda and x.dtype == torch.bfloat16, "N": blocks.tokens,
        "num_warps": blocks.warps, "num_stages": blocks.stages, "enable_fp_fusion": True,
    }  # fmt: skip

    inner = x.new_empty((chosen.numel(), width))
    gate_up_kernel[(width // blocks.rows, tiles)](
        x, gate_up.codes.view(torch.int16), gate_up.scales.view(torch.int32), gate_up.matrix_scales, *order, inner,
        TOP_K=chosen.shape[1], M=blocks.rows, GROUP=gate_up.scheme.group_size, CODES=CODES[gate_up.scheme],
        SILU=activation == "silu", TILES=blocks.turn(hidden, gate_up.scheme), **options,
    )  # fmt: skip
    parts = x.new_empty((chosen.numel(), hidden))
    rows = blocks.down_rows(hidden)
    down_kernel[(hidden // (2 * rows), tiles)](
        inner, down.codes.view(torch.int16), down.scales.view(torch.int32), down.matrix_scales, weights, *order, parts,
        M=rows, GROUP=down.scheme.group_size, CODES=CODES[down.scheme],
        TILES=blocks.turn(width, down.scheme), **options,
    )  # fmt: skip
    return parts


@functools.cache
def _major(device: torch.device) -> int:
    """Returns a card's major compute capability; 0 for a CPU."""
    return torch.cuda.get_device_capability(device)[0] if device.type == "cuda" else 0
