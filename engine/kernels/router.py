"""The router in one launch, scores, softmax, the best K experts and their weights; and the sort of pairs by expert.

Experts are the left operand of the product, a few tokens the right one, so that a canvas makes enough tiles. The inputs
are split, too, as in ``linear_w8a16``; the last program to finish a tile adds up its parts, always in the same order,
and chooses. Scores are rounded to the inputs' type, as the plain path's are; of equal ones the lowest expert is first.

Floor, 256 tokens, 2816 x 128: 0.7 MB of weights, 1.4 MB of tokens, 0.2 GFLOP. Predicted, not measured: 7 µs on an H200,
9 on an RTX 4090, mostly latency; the plain path takes eight launches.

``group`` needs no host synchronisation and no atomics, and gives the same result every time. One program per expert,
independent of the others: its pairs begin at the number of pairs of lower experts, and its tiles start at slot ``first
pair // BLOCK + expert``, which leaves room for every expert's last, partial tile. So the grid of the following kernels
is fixed, pairs // BLOCK + experts tiles, and unused slots are marked. Predicted, not measured, for 2048 pairs and 128
experts: 2 MB read from L2, 4 µs.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, arg-type, call-arg"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.linear_w8a16 import MAX_TILES, arrivals, dot_rows, processors

BLOCK_INPUTS = 64
MIN_BLOCKS = 4  # blocks of inputs that make a split worthwhile
BLOCK_TOKENS = 16  # more spill
WARPS, STAGES = 4, 4
MAX_EXPERTS = 128  # more spill


@triton.jit
def router_kernel(
    x_ptr, weight_ptr, expert_scales_ptr, weights_ptr, chosen_ptr, parts_ptr, arrived_ptr, tokens,
    K: tl.constexpr, EXPERTS: tl.constexpr, PADDED: tl.constexpr, TOP_K: tl.constexpr, PADDED_K: tl.constexpr,
    SPLITS: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Chooses experts for N tokens, or computes one split of their scores' inputs. Grid: token tiles, splits."""
    token = tl.program_id(0) * N + tl.arange(0, N)
    expert = tl.arange(0, PADDED)
    split = tl.program_id(1)
    share: tl.constexpr = (K + BLOCK * SPLITS - 1) // (BLOCK * SPLITS)
    blocks: tl.constexpr = (K + BLOCK - 1) // BLOCK
    scores = dot_rows(
        weight_ptr, x_ptr, tl.minimum(expert, EXPERTS - 1), tl.minimum(token, tokens - 1),
        split * share, tl.minimum(split * share + share, blocks), K, PADDED, N, BLOCK,
    )  # fmt: skip
    scores = tl.trans(scores)
    if SPLITS > 1:
        place = token[:, None] * PADDED + expert[None, :]
        inside = token[:, None] < tokens
        tl.store(parts_ptr + split * tokens * PADDED + place, scores, mask=inside)
        tl.debug_barrier()  # all threads' parts are written before the arrival is counted
        if tl.atomic_add(arrived_ptr + tl.program_id(0), 1) < SPLITS - 1:
            return
        tl.store(arrived_ptr + tl.program_id(0), 0)
        scores = tl.zeros((N, PADDED), tl.float32)
        for part in tl.static_range(SPLITS):
            scores += tl.load(parts_ptr + part * tokens * PADDED + place, mask=inside, other=0.0, cache_modifier=".cg")
    scores = scores.to(x_ptr.dtype.element_ty).to(tl.float32)
    # NaN scores are never chosen before numbers, so that choices are valid experts for any input.
    scores = tl.where((expert < EXPERTS)[None, :] & (scores == scores), scores, float("-inf"))
    top = tl.max(scores, axis=1)
    mass = tl.sum(tl.exp(scores - top[:, None]), axis=1)
    rank = tl.arange(0, PADDED_K)
    shares = tl.zeros((N, PADDED_K), tl.float32)
    chosen = tl.zeros((N, PADDED_K), tl.int32)
    for turn in tl.static_range(TOP_K):
        best, at = tl.max(scores, axis=1, return_indices=True, return_indices_tie_break_left=True)
        shares = tl.where(rank[None, :] == turn, (tl.exp(best - top) / mass)[:, None], shares)
        chosen = tl.where(rank[None, :] == turn, at[:, None], chosen)
        scores = tl.where(expert[None, :] == at[:, None], float("-inf"), scores)
    chosen = tl.minimum(chosen, EXPERTS - 1)
    expert_scales = tl.load(expert_scales_ptr + chosen).to(tl.float32)
    weights = shares / tl.sum(shares, axis=1)[:, None] * expert_scales
    kept = (token[:, None] < tokens) & (rank[None, :] < TOP_K)
    to = token[:, None] * TOP_K + rank[None, :]
    tl.store(weights_ptr + to, weights, mask=kept)
    tl.store(chosen_ptr + to, chosen.to(tl.int64), mask=kept)


def route(
    x: Tensor, weight: Tensor, expert_scales: Tensor, top_k: int, splits: int | None = None
) -> tuple[Tensor, Tensor]:
    """Returns the experts of each token, best first, and the weights of their outputs.

    Args:
        x: (N, H) in the model's type, contiguous. weight: (E, H), in x's type; E is ``MAX_EXPERTS`` at most.
        expert_scales: (E,), factors of the weights.
        splits: number of splits of the inputs; None: enough to fill the device.

    Returns:
        Weights (N, K) in fp32, which sum to one before scaling, and expert indices (N, K) int64.
    """
    tokens, inputs = x.shape
    experts = weight.shape[0]
    padded = max(64, triton.next_power_of_2(experts))
    tiles = triton.cdiv(tokens, BLOCK_TOKENS)
    if splits is None:
        blocks = triton.cdiv(inputs, BLOCK_INPUTS)
        splits = max(1, min(processors(x.device) // tiles, blocks // MIN_BLOCKS)) if tiles <= MAX_TILES else 1
    weights = x.new_empty((tokens, top_k), dtype=torch.float32)
    chosen = x.new_empty((tokens, top_k), dtype=torch.int64)
    parts = x.new_empty((splits, tokens, padded) if splits > 1 else (0,), dtype=torch.float32)
    router_kernel[(tiles, splits)](
        x, weight, expert_scales, weights, chosen, parts, arrivals(x.device), tokens,
        K=inputs, EXPERTS=experts, PADDED=padded, TOP_K=top_k, PADDED_K=triton.next_power_of_2(top_k),
        SPLITS=splits, N=BLOCK_TOKENS, BLOCK=BLOCK_INPUTS, num_warps=WARPS, num_stages=STAGES, enable_fp_fusion=True,
    )  # fmt: skip
    return weights, chosen


CHUNK = 2048  # pairs processed at a time


@triton.jit
def group_kernel(
    chosen_ptr, pairs_ptr, offsets_ptr, tiles_ptr, count,
    BLOCK: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Finds places and tiles of one expert's pairs. Grid: experts."""
    expert = tl.program_id(0)
    inner = tl.arange(0, CHUNK)
    lower = tl.zeros((CHUNK,), tl.int32)
    own = tl.zeros((CHUNK,), tl.int32)
    for at in range(0, count, CHUNK):
        choice = tl.load(chosen_ptr + at + inner, mask=at + inner < count, other=1 << 30)
        lower += (choice < expert).to(tl.int32)
        own += (choice == expert).to(tl.int32)
    first = tl.sum(lower, 0)
    end = first + tl.sum(own, 0)
    tl.store(offsets_ptr + expert, first)
    if expert == tl.num_programs(0) - 1:
        tl.store(offsets_ptr + expert + 1, end)

    place = first
    for at in range(0, count, CHUNK):
        choice = tl.load(chosen_ptr + at + inner, mask=at + inner < count, other=1 << 30)
        mine = (choice == expert).to(tl.int32)
        tl.store(pairs_ptr + place + tl.cumsum(mine, 0) - 1, at + inner, mask=mine > 0)
        place += tl.sum(mine, 0)

    slot = first // BLOCK + expert
    next_slot = end // BLOCK + expert + 1
    for tile in range(slot, next_slot):
        start = first + (tile - slot) * BLOCK
        tl.store(tiles_ptr + 2 * tile, tl.where(start < end, expert, -1))
        tl.store(tiles_ptr + 2 * tile + 1, start)


def group(chosen: Tensor, experts: int, block: int) -> tuple[Tensor, Tensor, Tensor]:
    """Groups pairs by expert; pair p is rank p % K of token p // K.

    Args:
        chosen: (N, K) expert indices below ``experts``, any integer type.
        block: pairs a tile holds.

    Returns:
        All int32: pairs (N * K,) by expert, in their own order within one; the start (E + 1,) of each expert's pairs;
            tiles (T, 2), each a tile's expert (-1: unused) and the place of its first pair among the pairs.
    """
    count = chosen.numel()
    tiles = count // block + experts
    pairs, offsets, table = chosen.new_empty(count + experts + 1 + 2 * tiles, dtype=torch.int32).split(
        [count, experts + 1, 2 * tiles]
    )
    group_kernel[(experts,)](
        chosen.contiguous(), pairs, offsets, table, count,
        BLOCK=block, CHUNK=min(CHUNK, triton.next_power_of_2(count)), num_warps=8, enable_fp_fusion=True,
    )  # fmt: skip
    return pairs, offsets, table.view(tiles, 2)
