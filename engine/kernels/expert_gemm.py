"""Gated experts on 4-bit weights: sort, gate · up · GELU, down, combine. Four kernels, no host synchronisation. In a
step, ``norms.add_norm`` puts tokens in order and ``norms.merge_norm`` combines, so that there are three.

Weights are the left operand, so that codes go from registers, where they are decoded and scaled, straight into the
tensor cores; the tokens of a tile, all of one expert, are the right one. Two sets of weight rows share them: gate and
up, or two blocks of down. Tokens come in ``split_pairs`` order, so that decoded quarters meet them without a shuffle;
gate and up read their rows in that order, which leaves their outputs so for down. Products of a pair go to the pair's
own place and are added up in the order of its token's choices, so that results repeat.

Floor, 256 tokens of the real model: 24 GFLOP, twice that in tiles of 32; int4 g32 428 MB, nf4 404 MB. H200 100 µs,
RTX 4090 424 µs. Counted in machine code, all of the loop: int4 4.2 instructions a weight on sm_90 and 3.6 on sm_89,
nf4 6.4 and 5.9, so that on an H200 issuing them takes longer than reading: 115 and 170 µs. Predicted, not measured,
everything included: int4 H200 170 µs, RTX 4090 470 µs; nf4 H200 240 µs, RTX 4090 450 µs.
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

from engine.kernels.decode import decode, split_pairs
from engine.kernels.expert_sort import group
from engine.weights.quantize import Packed

COMBINE = 512  # outputs of a token that a program adds up


@dataclass(frozen=True)
class Blocks:
    """How the two products are cut on one kind of card."""

    tokens: int  # of a tile
    rows: int  # of each of the two sets of weight rows that share the tokens
    warps: int
    stages: int

    @staticmethod
    def of(major: int, pairs: float) -> Blocks:
        """For a card of compute capability ``major`` and so many pairs an expert, on average.

        A tile is wide enough for most experts' pairs, since every further one decodes the weights again.
        """
        tokens = 16 if pairs <= 8 else 32 if pairs <= 24 else 64
        return Blocks(tokens, 64, 4, 4 if major == 9 else 3)

    def down_rows(self, hidden: int) -> int:
        """Rows of each set of the down projection."""
        return self.rows if hidden % (2 * self.rows) == 0 else self.rows // 2


@triton.jit
def load_scales(ptr, tile, STRIDE: tl.constexpr, GROUP: tl.constexpr):
    """Scales of both halves of a tile of 64 inputs; ``ptr`` points at the rows' scales of the first group."""
    if GROUP == 32:
        low = tl.load(ptr + 2 * tile * STRIDE)
        return low, tl.load(ptr + (2 * tile + 1) * STRIDE)
    else:
        low = tl.load(ptr + tile * STRIDE)
        return low, low


@triton.jit
def two_products(
    x_ptrs, inside, words_ptrs, scales_ptrs, APART: tl.constexpr, ROWS: tl.constexpr, K: tl.constexpr,
    GROUP: tl.constexpr, IS_NF4: tl.constexpr, PTX: tl.constexpr, N: tl.constexpr, M: tl.constexpr,
):  # fmt: skip
    """Products of N tokens and two sets of M weight rows, K inputs, fp32 (M, N) each.

    x_ptrs: (N, 16), the tokens' first inputs. words_ptrs: (M, 16) and scales_ptrs: (M,), those of the first set's rows;
    the second set is APART rows further on. ROWS: of the whole weight.
    """
    first = tl.zeros((M, N), tl.float32)
    second = tl.zeros((M, N), tl.float32)
    for tile in range(K // 64):
        first_words = tl.load(words_ptrs + tile * 16)
        second_words = tl.load(words_ptrs + APART * (K // 4) + tile * 16)
        low, high = load_scales(scales_ptrs, tile, ROWS, GROUP)
        first_weights = decode(first_words, low, high, IS_NF4, PTX, x_ptrs.dtype.element_ty)
        low, high = load_scales(scales_ptrs + APART, tile, ROWS, GROUP)
        second_weights = decode(second_words, low, high, IS_NF4, PTX, x_ptrs.dtype.element_ty)
        for quarter in tl.static_range(4):
            x = tl.trans(tl.load(x_ptrs + tile * 64 + quarter * 16, mask=inside[:, None], other=0.0))
            first = tl.dot(first_weights[quarter], x, first)
            second = tl.dot(second_weights[quarter], x, second)
    return first, second


@triton.jit
def gate_up_kernel(
    x_ptr, words_ptr, scales_ptr, pairs_ptr, offsets_ptr, tiles_ptr, inner_ptr,
    TOP_K: tl.constexpr, H: tl.constexpr, WIDTH: tl.constexpr, GROUP: tl.constexpr, IS_NF4: tl.constexpr,
    PTX: tl.constexpr, N: tl.constexpr, M: tl.constexpr,
):  # fmt: skip
    """GELU(gate) * up of N pairs, M outputs each; tokens and outputs in split pairs. Grid: row blocks, tiles."""
    expert = tl.load(tiles_ptr + 2 * tl.program_id(1)).to(tl.int64)
    if expert < 0:
        return
    place = tl.load(tiles_ptr + 2 * tl.program_id(1) + 1) + tl.arange(0, N)
    inside = place < tl.load(offsets_ptr + expert + 1)
    token = tl.load(pairs_ptr + place, mask=inside, other=0) // TOP_K
    output = tl.program_id(0) * M + tl.arange(0, M)
    row = output // 32 * 32 + output % 16 * 2 + output // 16 % 2
    word = tl.arange(0, 16)
    gate, up = two_products(
        x_ptr + token[:, None] * H + word[None, :], inside,
        words_ptr + expert * (2 * WIDTH * (H // 4)) + row[:, None] * (H // 4) + word[None, :],
        scales_ptr + expert * (H // GROUP * 2 * WIDTH) + row,
        WIDTH, 2 * WIDTH, H, GROUP, IS_NF4, PTX, N, M,
    )  # fmt: skip
    bend = 1.5957691216057308 * (gate + 0.044715 * gate * gate * gate)  # twice the argument of GELU's tanh
    inner = tl.trans(gate / (1.0 + tl.exp(-tl.maximum(bend, -80.0))) * up)
    inner_ptrs = inner_ptr + place[:, None] * WIDTH + output[None, :]
    tl.store(inner_ptrs, inner.to(inner_ptr.dtype.element_ty), mask=inside[:, None])


@triton.jit
def down_kernel(
    inner_ptr, words_ptr, scales_ptr, weights_ptr, pairs_ptr, offsets_ptr, tiles_ptr, parts_ptr,
    H: tl.constexpr, WIDTH: tl.constexpr, GROUP: tl.constexpr, IS_NF4: tl.constexpr, PTX: tl.constexpr,
    N: tl.constexpr, M: tl.constexpr,
):  # fmt: skip
    """Weighted outputs of N pairs, 2 M rows, to the pairs' own places. Grid: row blocks, tiles."""
    expert = tl.load(tiles_ptr + 2 * tl.program_id(1)).to(tl.int64)
    if expert < 0:
        return
    place = tl.load(tiles_ptr + 2 * tl.program_id(1) + 1) + tl.arange(0, N)
    inside = place < tl.load(offsets_ptr + expert + 1)
    row = tl.program_id(0) * (2 * M) + tl.arange(0, M)
    word = tl.arange(0, 16)
    first, second = two_products(
        inner_ptr + place[:, None] * WIDTH + word[None, :], inside,
        words_ptr + expert * (H * (WIDTH // 4)) + row[:, None] * (WIDTH // 4) + word[None, :],
        scales_ptr + expert * (WIDTH // GROUP * H) + row,
        M, H, WIDTH, GROUP, IS_NF4, PTX, N, M,
    )  # fmt: skip
    pair = tl.load(pairs_ptr + place, mask=inside, other=0)
    weight = tl.load(weights_ptr + pair, mask=inside, other=0.0)
    part_ptrs = parts_ptr + pair[:, None] * H + row[None, :]
    tl.store(part_ptrs, tl.trans(first * weight[None, :]).to(parts_ptr.dtype.element_ty), mask=inside[:, None])
    tl.store(part_ptrs + M, tl.trans(second * weight[None, :]).to(parts_ptr.dtype.element_ty), mask=inside[:, None])


@triton.jit
def combine_kernel(parts_ptr, out_ptr, TOP_K: tl.constexpr, H: tl.constexpr, BLOCK: tl.constexpr):
    """A token's sum over its experts, in the order of its choices. Grid: tokens, output blocks."""
    token = tl.program_id(0)
    output = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for rank in tl.static_range(TOP_K):
        part = tl.load(parts_ptr + (token * TOP_K + rank) * H + output, mask=output < H, other=0.0)
        total += part.to(tl.float32)
    tl.store(out_ptr + token * H + output, total.to(out_ptr.dtype.element_ty), mask=output < H)


def experts(
    x: Tensor, weights: Tensor, chosen: Tensor, gate_up: Packed, down: Packed, blocks: Blocks | None = None
) -> Tensor:
    """Gated experts; what ``reference.experts`` computes, with fp32 sums.

    Args:
        x: (N, H), bf16 on a device. The rest as for ``expert_parts``.

    Returns:
        (N, H), the weighted sum over each token's experts.
    """
    (count, top_k), hidden = chosen.shape, x.shape[1]
    parts = expert_parts(split_pairs(x), weights.contiguous(), chosen, gate_up, down, blocks)
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    launch: Any = combine_kernel[(count, triton.cdiv(hidden, COMBINE))]
    launch(parts, out, TOP_K=top_k, H=hidden, BLOCK=COMBINE, num_warps=4, enable_fp_fusion=True)
    return out


def expert_parts(
    x: Tensor, weights: Tensor, chosen: Tensor, gate_up: Packed, down: Packed, blocks: Blocks | None = None
) -> Tensor:
    """Each token's experts, weighted, before they are added up.

    Args:
        x: (N, H) in ``split_pairs`` order, contiguous, bf16 on a device.
        weights: (N, K) fp32, contiguous. chosen: (N, K) expert indices, distinct in a row.
        gate_up: 4-bit (E, 2I, H), gate rows first. down: 4-bit (E, H, I).
        blocks: how to cut the work; None: by the card and the number of tokens.

    Returns:
        (N * K, H) in the usual order and x's type, a token's parts behind one another in the order of its choices.
    """
    number, hidden, width = down.shape
    blocks = blocks or Blocks.of(_major(x.device), chosen.numel() / number)
    groups = group(chosen, number, blocks.tokens)
    order = (groups.pairs, groups.offsets, groups.tiles)
    tiles = groups.tiles.shape[0]
    options: dict[str, Any] = {
        "H": hidden, "WIDTH": width, "PTX": x.is_cuda and x.dtype == torch.bfloat16, "N": blocks.tokens,
        "num_warps": blocks.warps, "num_stages": blocks.stages, "enable_fp_fusion": True,
    }  # fmt: skip

    inner = x.new_empty((chosen.numel(), width))
    launch: Any = gate_up_kernel[(width // blocks.rows, tiles)]
    launch(
        x, gate_up.codes.view(torch.int16), gate_up.scales.view(torch.int16), *order, inner,
        TOP_K=chosen.shape[1], M=blocks.rows, GROUP=gate_up.scheme.group_size, IS_NF4=gate_up.scheme.name == "nf4",
        **options,
    )  # fmt: skip
    parts = x.new_empty((chosen.numel(), hidden))
    rows = blocks.down_rows(hidden)
    launch = down_kernel[(hidden // (2 * rows), tiles)]
    launch(
        inner, down.codes.view(torch.int16), down.scales.view(torch.int16), weights, *order, parts, M=rows,
        GROUP=down.scheme.group_size, IS_NF4=down.scheme.name == "nf4", **options,
    )  # fmt: skip
    return parts


@functools.cache
def _major(device: torch.device) -> int:
    """A card's major compute capability; 0 for a CPU."""
    return torch.cuda.get_device_capability(device)[0] if device.type == "cuda" else 0
