"""Groups token-expert pairs by expert on the device: no host synchronisation, no atomics, the same result every time.

One program per expert, independent of the others: its pairs begin at the number of pairs of lower experts, and its
tiles start at slot ``first pair // BLOCK + expert``, which leaves room for every expert's last, partial tile. So the
grid of the following kernels is fixed, pairs // BLOCK + experts tiles, and unused slots are marked.

Predicted, not measured, for 2048 pairs and 128 experts: 2 MB read from L2, 4 µs.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, arg-type, call-arg"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

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
