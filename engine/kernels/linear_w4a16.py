"""Linear layers on 4-bit weights, for dense models that read a few tokens at a time: one, a window, a block.

The loop is that of ``expert_gemm``: the weight is the left operand, decoded and scaled in registers while it moves to
the tensor cores; tokens are the right one, in ``split_pairs`` order. A weight has few tiles: the inputs are divided,
too, and the last program to finish a tile adds up its parts, always in the same order, so that results repeat.

Floor, a forward of WeDLM-8B with 16 tokens: 6.95 billion weights in the layers, 0.5625 bytes each in int4 over 32
inputs (0.53 in int4 or nf4 over 64), 3.9 GB, and 0.62 GB of the 8-bit head. RTX 4090 (1.01 TB/s) 4.5 ms, RTX 5090
(1.79) 2.5 ms, H100 (3.0 measured) 1.5 ms. The 0.24 TFLOP would take a 4090 1.5 ms: from about 50 tokens on the floor is
arithmetic's there. Instructions a weight for 16 tokens, counted in the machine code of the whole loop. int4: 3.2 on
sm_89, 3.7 on sm_90, 3.0 on sm_120. nf4: 5.6, 6.0 and 5.4. nvfp4: 4.8, 5.5 and 4.6. uint4, 0.625 bytes a weight: 3.9,
4.7 and 3.7. Issuing int4's takes a 4090 0.6 ms and an H100 0.9. Predicted, not measured, for 252 products, the copies
that put their tokens in order, and the head: RTX 4090 6 ms, RTX 5090 3.8, H100 3. These are times within a graph:
launches one by one from Python take longer.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, arg-type, call-arg"

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional as F

from engine.kernels.decode import split_pairs
from engine.kernels.expert_gemm import CODES, paired, product
from engine.kernels.linear_w8a16 import MAX_TILES, arrivals, processors
from engine.quant import Packed

PROGRAMS = 3  # at once on a multiprocessor, which keeps enough loads in flight for its memory
MIN_TURNS = 4  # iterations that make a split worthwhile


@dataclass(frozen=True)
class LinearBlocks:
    """Block sizes for a number of tokens."""

    tokens: int  # of a tile: a power of two that the tensor cores take
    rows: int  # of the weight
    tiles: int  # of 64 inputs, per iteration
    warps: int = 4
    stages: int = 4

    @staticmethod
    def for_shape(tokens: int, inputs: int) -> LinearBlocks:
        """Returns the sizes: with few tokens small blocks of rows, so that many are loading from memory.

        With more of them rows must be many, or warps share tokens instead of rows, and each decodes all weights. With
        64 tokens pairs of warps do so on cards other than sm_90, where arithmetic takes longer all the same.
        """
        block = min(64, max(16, 1 << (tokens - 1).bit_length()))
        return LinearBlocks(block, 128, 1) if block > 16 else LinearBlocks(16, 64, 1 if inputs % 128 else 2)


@triton.jit
def in_order(total):
    """Reorders rows (M, N) from ``paired`` order to their own."""
    M: tl.constexpr = total.shape[0]
    N: tl.constexpr = total.shape[1]
    return total.reshape(M // 16, 2, 8, N).permute(0, 2, 1, 3).reshape(M, N)


@triton.jit(do_not_specialize=["tokens"])
def linear_w4a16_kernel(
    x_ptr, words_ptr, scales_ptr, matrix_scale_ptr, out_ptr, parts_ptr, arrived_ptr, tokens,
    K: tl.constexpr, ROWS: tl.constexpr, OUT: tl.constexpr, SPLITS: tl.constexpr, GROUP: tl.constexpr,
    CODES: tl.constexpr, PTX: tl.constexpr, N: tl.constexpr, M: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    """Computes a tile of N tokens and M rows, or an equal split of its inputs. Grid: tiles, each with its splits.

    Tiles of the same rows are neighbours. OUT: rows of the weight; ROWS: of its scales, an even number if a word has
    the scales of two rows.
    """
    share: tl.constexpr = K // SPLITS  # known to the compiler: else ptxas waits for each product on sm_90
    tile = tl.program_id(0) // SPLITS
    first = tl.program_id(0) % SPLITS * share
    token_tiles = tl.cdiv(tokens, N)
    token = tile % token_tiles * N + tl.arange(0, N)
    first_row = tile // token_tiles * M
    # Rows past the end read the last one and are never written.
    row = tl.minimum(first_row + paired(tl.arange(0, M)), OUT - 1)
    if CODES == "e2m1" or CODES == "uint4":
        scale_words = first // (64 if CODES == "e2m1" else GROUP) * ROWS + row
    else:
        two = tl.minimum(first_row // 2 + tl.arange(0, M // 2), ROWS // 2 - 1)
        scale_words = first // GROUP * (ROWS // 2) + two
    total = product(
        x_ptr + token * K + first, token < tokens,
        words_ptr + row * (K // 4) + first // 4, scales_ptr + scale_words,
        ROWS, share, GROUP, CODES, PTX, N, M, TILES,
    )  # fmt: skip
    if SPLITS > 1:
        inner = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
        tl.store(parts_ptr + tl.program_id(0) * (M * N) + inner, total)
        tl.debug_barrier()  # all threads' parts are written before the arrival is counted
        if tl.atomic_add(arrived_ptr + tile, 1) < SPLITS - 1:
            return
        tl.store(arrived_ptr + tile, 0)
        total = tl.zeros((M, N), tl.float32)
        for other in range(SPLITS):
            total += tl.load(parts_ptr + (tile * SPLITS + other) * (M * N) + inner, cache_modifier=".cg")
    if matrix_scale_ptr is not None:
        total *= tl.load(matrix_scale_ptr)
    column = first_row + tl.arange(0, M)
    inside = (token[:, None] < tokens) & (column[None, :] < OUT)
    out = tl.trans(in_order(total)).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + token[:, None] * OUT + column[None, :], out, mask=inside)


def splits_for(tiles: int, turns: int, processors: int) -> int:
    """Returns the programs that share a tile evenly: as many as fill a card, each with a few iterations."""
    most = min(PROGRAMS * processors // tiles, turns // MIN_TURNS) if tiles <= MAX_TILES else 1
    return max((splits for splits in range(1, most + 1) if turns % splits == 0), default=1)


def linear_w4a16(x: Tensor, weight: Packed, blocks: LinearBlocks | None = None, splits: int | None = None) -> Tensor:
    """Multiplies x (..., in) by a 4-bit weight (out, in) -> (..., out), in x's type with fp32 sums.

    Args:
        x: bf16 on the device.
        weight: codes in tiles. An odd number of rows costs a copy of scales in 16 bits.
        blocks: None: by the number of tokens. splits: of the iterations, in equal parts, for up to 1024 tiles; None: to
            fill the device.
    """
    rows, inputs = weight.shape
    flat = split_pairs(x.reshape(-1, inputs)).contiguous()
    tokens = flat.shape[0]
    blocks = blocks or LinearBlocks.for_shape(tokens, inputs)
    tiles = triton.cdiv(tokens, blocks.tokens) * triton.cdiv(rows, blocks.rows)
    splits = splits or splits_for(tiles, inputs // (64 * blocks.tiles), processors(x.device))
    odd = rows % 2 if weight.scales.itemsize == 2 else 0
    scales = F.pad(weight.scales, (0, 1)) if odd else weight.scales
    out = x.new_empty((tokens, rows))
    size = blocks.rows * blocks.tokens
    parts = x.new_empty((tiles * splits, size) if splits > 1 else (0,), dtype=torch.float32)
    linear_w4a16_kernel[(tiles * splits,)](
        flat, weight.codes.view(torch.int16), scales.view(torch.int32), weight.matrix_scales, out, parts,
        arrivals(x.device), tokens, K=inputs, ROWS=rows + odd, OUT=rows, SPLITS=splits, GROUP=weight.scheme.group_size,
        CODES=CODES[weight.scheme], PTX=x.is_cuda and x.dtype == torch.bfloat16, N=blocks.tokens, M=blocks.rows,
        TILES=blocks.tiles, num_warps=blocks.warps, num_stages=blocks.stages, enable_fp_fusion=True,
    )  # fmt: skip
    return out.view(*x.shape[:-1], rows)
