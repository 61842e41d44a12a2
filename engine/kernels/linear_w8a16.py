"""Linear layers on 8-bit weights: codes become bf16 in registers, a row's scale is applied to the finished sum.

The weight is the left operand, so that its converted codes go from registers straight into the tensor cores; tokens
are the right one. A weight has few tiles (2816 rows are 22), fewer than a large card has processors, or a few more than
it has: the inputs are divided, too (``Cut``), and the last program to finish a tile adds up its parts, always in the
same order, so that results repeat.

Gate and up of a gated MLP, whose rows are consecutive, are one launch that stores GELU(gate) * up.

Floor, 256 tokens, 2816 x 4096: 11.5 MB of codes, 5.9 GFLOP. Predicted, not measured: H200 15 µs (compute floor 7.5,
memory floor 2.7; tiles read 69 MB from the L2 cache), RTX 4090 45 µs (36 and 11).
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, arg-type, call-arg"

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.quant import Packed

BLOCK_ROWS = 128  # of the weight
BLOCK_TOKENS = 128  # at most
BLOCK_INPUTS = 64
STAGES = 3  # with two, each block of inputs is waited for as soon as it is requested
PROCESSORS = 132  # of an H100 and an H200; the meta device counts as one
MIN_BLOCKS = 8  # blocks of inputs that make a split worthwhile
MAX_TILES = 1024  # maximum of tiles that are split: more than any card has processors
# Cost of splitting, in units of a block of inputs (0.5 µs on an H200): writing a part to the L2 cache, reading a
# part back, and waiting for the last of them.
PART_OUT, PART_BACK, PART_WAIT = 3, 1, 2
WORTH = 1.2  # minimum gain of a further split: parts take cache, and fewer tiles fit on a multiprocessor
WORTH_EVENLY = 1.1  # minimum gain of sharing evenly


@triton.jit
def dot_rows(
    codes_ptr, x_ptr, row, token, first, last, K: tl.constexpr, M: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr
):
    """Returns products of weight rows ``row`` (M,) and tokens ``token`` (N,) over blocks first .. last, fp32 (M, N)."""
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
def tile_sums(
    x_ptr, codes_ptr, tile, first, last, tokens, K: tl.constexpr, ROWS: tl.constexpr, GATED: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Returns products of a tile's N tokens and M rows over input blocks first .. last, fp32 (N, M).

    Tiles of the same rows are neighbours. GATED: gate and up rows of M / 2 outputs interleaved.
    """
    token_tiles = tl.cdiv(tokens, N)
    column = tile // token_tiles * M + tl.arange(0, M)
    row = column // 2 + column % 2 * (ROWS // 2) if GATED else column
    token = tile % token_tiles * N + tl.arange(0, N)
    # Rows and tokens past the end read the last one and are never written.
    row, token = tl.minimum(row, ROWS - 1), tl.minimum(token, tokens - 1)
    return tl.trans(dot_rows(codes_ptr, x_ptr, row, token, first, last, K, M, N, BLOCK))


@triton.jit
def gelu_times(gate, up):
    """Computes GELU(gate) * up, fp32, by the approximation with tanh."""
    bend = 1.5957691216057308 * (gate + 0.044715 * gate * gate * gate)  # twice the argument of tanh
    return gate / (1.0 + tl.exp(-tl.maximum(bend, -80.0))) * up


@triton.jit
def silu_times(gate, up):
    """Computes SiLU(gate) * up, fp32."""
    return gate / (1.0 + tl.exp(-tl.maximum(gate, -80.0))) * up


@triton.jit
def store_tile(
    total, scales_ptr, out_ptr, tile, tokens, ROWS: tl.constexpr, GATED: tl.constexpr, M: tl.constexpr, N: tl.constexpr
):
    """Scales finished sums (N, M) and stores them."""
    token_tiles = tl.cdiv(tokens, N)
    token = tile % token_tiles * N + tl.arange(0, N)
    column = tile // token_tiles * M + tl.arange(0, M)
    row = column // 2 + column % 2 * (ROWS // 2) if GATED else column
    total *= tl.load(scales_ptr + row, mask=column < ROWS, other=0.0)[None, :]
    if GATED:
        gate, up = tl.split(tl.reshape(total, (N, M // 2, 2)))
        total = gelu_times(gate, up)
        column = tile // token_tiles * (M // 2) + tl.arange(0, M // 2)
    width: tl.constexpr = ROWS // 2 if GATED else ROWS
    inside = (token[:, None] < tokens) & (column[None, :] < width)
    tl.store(out_ptr + token[:, None] * width + column[None, :], total.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["share", "span", "programs", "second"])
def linear_w8a16_kernel(
    x_ptr, codes_ptr, scales_ptr, out_ptr, parts_ptr, arrived_ptr, tokens, share, span, programs, second,
    K: tl.constexpr, ROWS: tl.constexpr, WHOLE: tl.constexpr, GATED: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Computes ``share`` of the tiles' input blocks; each ``span`` of blocks is divided among ``programs``.

    Grid: programs.

    A program's share may end one tile and begin another: it has a place for a part of each. The place for the begun
    tile is ``second`` further on. WHOLE: its share is one tile. GATED: the output is GELU(gate) * up.
    """
    blocks: tl.constexpr = (K + BLOCK - 1) // BLOCK
    program = tl.program_id(0)
    if WHOLE:
        total = tile_sums(x_ptr, codes_ptr, program, 0, blocks, tokens, K, ROWS, GATED, M, N, BLOCK)
        store_tile(total, scales_ptr, out_ptr, program, tokens, ROWS, GATED, M, N)
    else:
        start = program // programs * span + program % programs * share
        end = tl.minimum(start + share, program // programs * span + span)
        inner = tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :]
        for tile in range(start // blocks, tl.cdiv(end, blocks)):
            first, last = tl.maximum(start - tile * blocks, 0), tl.minimum(end - tile * blocks, blocks)
            total = tile_sums(x_ptr, codes_ptr, tile, first, last, tokens, K, ROWS, GATED, M, N, BLOCK)
            if last - first == blocks:
                store_tile(total, scales_ptr, out_ptr, tile, tokens, ROWS, GATED, M, N)
            else:
                before = tile * blocks // span * programs
                within = tile * blocks % span
                lowest, highest = before + within // share, before + (within + blocks - 1) // share
                place = program + (program == lowest).to(tl.int32) * second
                tl.store(parts_ptr + place * (N * M) + inner, total)
                tl.debug_barrier()  # all threads' parts are written before the arrival is counted
                if tl.atomic_add(arrived_ptr + tile, 1) == highest - lowest:
                    tl.store(arrived_ptr + tile, 0)
                    total = tl.zeros((N, M), tl.float32)
                    for other in range(lowest, highest + 1):
                        place = other + (other == lowest).to(tl.int32) * second
                        total += tl.load(parts_ptr + place * (N * M) + inner, cache_modifier=".cg")
                    store_tile(total, scales_ptr, out_ptr, tile, tokens, ROWS, GATED, M, N)


@dataclass(frozen=True)
class Cut:
    """The division of a product's tiles among programs."""

    splits: int = 1  # programs that share the inputs of a tile
    programs: int = 0  # that share the inputs of all tiles evenly, across tile ends; 0: each tile has its own

    @staticmethod
    def for_tiles(tiles: int, blocks: int, processors: int) -> Cut:
        """Returns the division with the least estimated time, in blocks processed in sequence on a processor.

        A tile more than there are processors costs a whole round of tiles. Split, it costs a shorter one; shared
        evenly, none, but then most programs leave two parts.

        Args:
            tiles: of the output. blocks: of inputs, each tile's. processors: of the card.
        """

        def time(splits: int) -> int:
            rounds, share = -(-tiles * splits // processors), -(-blocks // splits)
            if splits == 1:
                return rounds * share
            return rounds * (share + PART_OUT) + PART_BACK * splits + PART_WAIT

        if tiles > MAX_TILES:
            return Cut()
        times = [time(splits) for splits in range(1, max(1, blocks // MIN_BLOCKS) + 1)]
        splits, taken = next(pair for pair in enumerate(times, 1) if pair[1] <= WORTH * min(times))
        share = -(-tiles * blocks // processors)
        evenly = share + 2 * PART_OUT + PART_BACK * (-(-blocks // share) + 1) + PART_WAIT
        return Cut(programs=processors) if share >= MIN_BLOCKS and WORTH_EVENLY * evenly <= taken else Cut(splits)


@functools.cache
def processors(device: torch.device) -> int:
    """Returns the multiprocessors of a device; 1 for a CPU, where the interpreter runs one program after another."""
    if device.type != "cuda":
        return PROCESSORS if device.type == "meta" else 1
    return torch.cuda.get_device_properties(device).multi_processor_count


@functools.cache
def arrivals(device: torch.device) -> Tensor:
    """Returns counters of finished splits per tile, zero between launches."""
    return torch.zeros(MAX_TILES, dtype=torch.int32, device=device)


def token_block(tokens: int) -> int:
    """Returns the tokens a tile holds: a power of two that the tensor cores take."""
    return min(BLOCK_TOKENS, max(16, 1 << (tokens - 1).bit_length()))


def linear_w8a16(x: Tensor, weight: Packed, cut: Cut | None = None, gated: bool = False) -> Tensor:
    """Multiplies x (..., in) by an int8 weight (out, in) -> (..., out), in x's type with fp32 sums.

    Args:
        x: bf16 on the device.
        weight: int8 codes (out, in), fp32 scales (1, out).
        cut: the division of the work, for up to 1024 tiles; None: to fill the device.
        gated: whether the weight's rows are gates, then as many ups: GELU(gate) * up, (..., out / 2).
    """
    rows, inputs = weight.shape
    flat = x.reshape(-1, inputs).contiguous()
    tokens = flat.shape[0]
    block = token_block(tokens)
    tiles, blocks = triton.cdiv(tokens, block) * triton.cdiv(rows, BLOCK_ROWS), triton.cdiv(inputs, BLOCK_INPUTS)
    cut = cut or Cut.for_tiles(tiles, blocks, processors(x.device))
    span, programs = (tiles * blocks, cut.programs) if cut.programs else (blocks, cut.splits)
    count = tiles * blocks // span * programs
    whole = cut == Cut()
    out = x.new_empty((tokens, rows // 2 if gated else rows))
    parts = x.new_empty((0 if whole else 2 if cut.programs else 1, count, block * BLOCK_ROWS), dtype=torch.float32)
    linear_w8a16_kernel[(count,)](
        flat, weight.codes, weight.scales, out, parts, arrivals(x.device), tokens,
        triton.cdiv(span, programs), span, programs, count if cut.programs else 0,
        K=inputs, ROWS=rows, WHOLE=whole, GATED=gated, M=BLOCK_ROWS, N=block, BLOCK=BLOCK_INPUTS,
        num_warps=8, num_stages=STAGES, enable_fp_fusion=True,
    )  # fmt: skip
    return out.view(*x.shape[:-1], out.shape[1])
